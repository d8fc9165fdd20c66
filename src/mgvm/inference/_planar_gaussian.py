"""Gaussians in the plane of one angle as exponential families: what every expectation propagation here is made of.

A site, a cavity and a marginal are all exp(ξ·T(x)) with T(x) = (x₁, x₂, x₁², x₁x₂, x₂²), so that a product adds natural
parameters ξ and a cavity is a difference. The precision is Λ = -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]], the linear term h = (ξ₁, ξ₂);
the mean is Λ⁻¹h. All functions take batches (N, ·). The posterior of N such vectors under a Gaussian prior of precision
W (or of W for each coordinate) has the precision W + S, S block-diagonal: its inverse is at the end of this file.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from mgvm._validation import FloatArray

# A narrow distribution of variance v along the circle has variance v²/2 along the radius. That is held at this value:
# beside the prior a smaller one makes no difference that could be seen, but its precision would drown a cavity's
# digits.
RADIAL_FLOOR = 1e-10


# ---- one Gaussian an angle ------------------------------------------------------------------------------------------


def are_positive_definite(matrices: FloatArray) -> np.ndarray:
    """Which symmetric 2 x 2 matrices (N, 2, 2) are positive definite, and their determinants finite."""
    determinant = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] ** 2
    return np.asarray((matrices[:, 0, 0] > 0.0) & (determinant > 0.0) & np.isfinite(determinant))


def invert_pairs(matrices: FloatArray) -> FloatArray:
    """Inverses of symmetric 2 x 2 matrices (N, 2, 2), infinite or NaN where there is none."""
    out = np.empty_like(matrices)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        determinant = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] ** 2
        out[:, 0, 0], out[:, 1, 1] = matrices[:, 1, 1] / determinant, matrices[:, 0, 0] / determinant
        out[:, 0, 1] = out[:, 1, 0] = -matrices[:, 0, 1] / determinant
    return out


def multiply_each(matrices: np.ndarray, vectors: FloatArray) -> FloatArray:
    """Every matrix (N, k, k) times its vector (N, k)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def natural_parameters(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """ξ (N, 5) of means (N, 2) and covariances (N, 2, 2), which may be indefinite, as cavities on the circle are."""
    precision = invert_pairs(covariance)
    one, cross, two = precision[:, 0, 0], precision[:, 0, 1], precision[:, 1, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        linear = (one * mean[:, 0] + cross * mean[:, 1], cross * mean[:, 0] + two * mean[:, 1])
        return np.stack([*linear, -0.5 * one, -cross, -0.5 * two], axis=1)


def site_precision(natural: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Λ₁₁, Λ₁₂ and Λ₂₂ (N,) of natural parameters (N, 5)."""
    return -2.0 * natural[:, 2], -natural[:, 3], -2.0 * natural[:, 4]


def log_volume(natural: FloatArray) -> FloatArray:
    """log ∫ exp(ξ·T) dx = log 2π - ½ log|Λ| + ½ hᵀΛ⁻¹h, (N,)."""
    one, cross, two = site_precision(natural)
    determinant = one * two - cross**2
    h1, h2 = natural[:, 0], natural[:, 1]
    square = (two * h1 * h1 - 2.0 * cross * h1 * h2 + one * h2 * h2) / determinant
    return np.log(2.0 * np.pi) - 0.5 * np.log(determinant) + 0.5 * square


def expected_statistics(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """E[T] (N, 5)."""
    m1, m2 = mean.T
    squares = (covariance[:, 0, 0] + m1 * m1, covariance[:, 0, 1] + m1 * m2, covariance[:, 1, 1] + m2 * m2)
    return np.stack([m1, m2, *squares], axis=1)


def mean_and_covariance(moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (N, 2) and covariances (N, 2, 2) of E[T]: the inverse of `expected_statistics`."""
    m1, m2 = moments[:, 0], moments[:, 1]
    covariance = np.empty((m1.size, 2, 2))
    covariance[:, 0, 0], covariance[:, 1, 1] = moments[:, 2] - m1 * m1, moments[:, 4] - m2 * m2
    covariance[:, 0, 1] = covariance[:, 1, 0] = moments[:, 3] - m1 * m2
    return moments[:, :2], covariance


def covariance_of_statistics(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Cov[T] (N, 5, 5), by Isserlis: Cov[x_i x_j, x_k x_l] = V_ik V_jl + V_il V_jk + the means' part."""
    size = mean.shape[0]
    m1, m2 = mean.T
    slope = np.zeros((size, 5, 2))
    slope[:, 0, 0] = slope[:, 1, 1] = 1.0
    slope[:, 2, 0], slope[:, 3, 0], slope[:, 3, 1], slope[:, 4, 1] = 2.0 * m1, m2, m1, 2.0 * m2
    out = slope @ covariance @ np.swapaxes(slope, 1, 2)
    a, b, d = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    quadratic = out[:, 2:, 2:]
    rows = [[2.0 * a * a, 2.0 * a * b, 2.0 * b * b], [2.0 * a * b, a * d + b * b, 2.0 * b * d]]
    quadratic += np.moveaxis(np.array([*rows, [2.0 * b * b, 2.0 * b * d, 2.0 * d * d]]), -1, 0)
    return out


def inverse_covariance_of_statistics(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Cov[T]⁻¹ (N, 5, 5), without a solve: Cov[T] of a narrow Gaussian far from the origin is singular to rounding.

    With x = m + u, T = (x, xx) is (u, uu) sheared by the slopes M of xx at m, and Cov[uu]⁻¹ comes from products of V⁻¹:
    Cov[T]⁻¹ = [[V⁻¹ + Mᵀ S M, -Mᵀ S], [-S M, S]], S = Cov[uu]⁻¹.
    """
    size = mean.shape[0]
    m1, m2 = mean.T
    precision = invert_pairs(covariance)
    p, q, r = precision[:, 0, 0], precision[:, 0, 1], precision[:, 1, 1]
    rows = [[0.5 * p * p, p * q, 0.5 * q * q], [p * q, p * r + q * q, q * r], [0.5 * q * q, q * r, 0.5 * r * r]]
    squares = np.moveaxis(np.array(rows), -1, 0)
    slope = np.zeros((size, 3, 2))
    slope[:, 0, 0], slope[:, 1, 0], slope[:, 1, 1], slope[:, 2, 1] = 2.0 * m1, m2, m1, 2.0 * m2
    across = -squares @ slope
    out = np.empty((size, 5, 5))
    out[:, :2, :2] = precision - np.swapaxes(slope, 1, 2) @ across
    out[:, 2:, :2], out[:, :2, 2:], out[:, 2:, 2:] = across, np.swapaxes(across, 1, 2), squares
    return out


# ---- all angles together --------------------------------------------------------------------------------------------


def invert_symmetric(matrix: FloatArray) -> FloatArray | None:
    """The inverse of a positive definite matrix, which is overwritten; None where it is not."""
    factor, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        return None
    lower, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        return None
    full = lower + lower.T
    full.reshape(-1)[:: full.shape[0] + 1] *= 0.5
    return np.asarray(full)


def posterior_covariance(prior: FloatArray, sites: FloatArray) -> FloatArray | None:
    """(W + S)⁻¹ (2N, 2N), all first coordinates before all second; None where that is not positive definite.

    `prior` is the precision W, (2N, 2N), or (N, N) where both coordinates share it and do not meet; `sites` are natural
    parameters (N, 5).
    """
    size = sites.shape[0]
    if prior.shape[0] == size:
        return _shared_covariance(prior, sites)
    one, cross, two = site_precision(sites)
    array = prior.copy()
    flat, step = array.reshape(-1), 2 * size + 1
    flat[::step] += np.concatenate([one, two])
    flat[size : size * step : step] += cross
    flat[2 * size * size :: step] += cross
    return invert_symmetric(array)


def _shared_covariance(prior: FloatArray, sites: FloatArray) -> FloatArray | None:
    """The inverse of [[W + D₁, D₁₂], [D₁₂, W + D₂]], D diagonal: two of half the size, of W + D₁ and of its complement.

    With P = (W + D₁)⁻¹ and Q = (W + D₂ - D₁₂ P D₁₂)⁻¹ it is [[P - X D₁₂ P, X], [Xᵀ, Q]], X = -P D₁₂ Q.
    """
    one, cross, two = site_precision(sites)
    size = one.size
    first = prior.copy()
    first.reshape(-1)[:: size + 1] += one
    own = invert_symmetric(first)
    if own is None:
        return None
    coupled = cross[:, None] * own
    second = prior - coupled * cross
    second.reshape(-1)[:: size + 1] += two
    complement = invert_symmetric(second)
    if complement is None:
        return None
    out = np.empty((2 * size, 2 * size))
    mixed = -(coupled.T @ complement)
    out[:size, :size] = own - mixed @ coupled
    out[:size, size:], out[size:, :size], out[size:, size:] = mixed, mixed.T, complement
    return out
