"""Sums over pairs of row and component for directed GvM distributions, one angle at a time.

Angle d of component k is a GvM of order 2 given the features f = (1, cos φ₁, sin φ₁, …) of the angles before it:
η₁ = B f with B real (2, p), and η₂ free. Its parameters are packed as (B₁, B₂, η₂) in a vector of 2p + 2.

Without second harmonics normalisers are Bessel functions, and one pass does all (the functions named `von_mises`):
log p = Re(conj(η) z) - log 2π I₀(κ), κ = |η|; E[z] = A η/κ with A = I₁/I₀; its variance is 1 - A/κ - A² along η and A/κ
across it.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import entry, inner


@inner(fastmath={"contract"})
def log_bessel(kappa: float) -> tuple[float, float]:
    """log I₀(κ) and I₁(κ)/I₀(κ), to rounding: power series below 22, from where on the asymptotic series holds."""
    if kappa < 22.0:
        square, term, zero, one, k = 0.25 * kappa * kappa, 1.0, 1.0, 1.0, 1.0
        while term > 1e-17 * zero:
            term *= square / (k * k)
            zero += term
            one += term / (k + 1.0)
            k += 1.0
        return math.log(zero), 0.5 * kappa * one / zero
    inverse, zero, one, k = 0.125 / kappa, 1.0, 1.0, 1.0
    first, second = 1.0, 1.0
    while first > 1e-17 and k < 40.0:
        odd = 2.0 * k - 1.0
        first *= odd * odd * inverse / k
        second *= -(4.0 - odd * odd) * inverse / k
        zero += first
        one += second
        k += 1.0
    return kappa - 0.5 * math.log(2.0 * math.pi * kappa) + math.log(zero), one / zero


@inner(forceinline=True, fastmath={"contract", "reassoc"})
def _field(features: np.ndarray, row: int, packed: np.ndarray, k: int, size: int) -> tuple[float, float]:
    """Re and Im of B f."""
    real, imaginary = 0.0, 0.0
    for j in range(size):
        real += packed[k, j] * features[row, j]
        imaginary += packed[k, size + j] * features[row, j]
    return real, imaginary


@inner(forceinline=True, fastmath={"contract"})
def _add_features(
    features: np.ndarray,
    row: int,
    size: int,
    first: tuple[float, float, float, float, float],
    slope: np.ndarray,
    curvature: np.ndarray,
) -> None:
    """Add r ⊗ f to a slope and V ⊗ ff' to a curvature, upper blocks and triangles; `first` holds r and V's triangle."""
    r0, r1, v00, v01, v11 = first
    for j in range(size):
        f = features[row, j]
        slope[j] += r0 * f
        slope[size + j] += r1 * f
        p, q, r = v00 * f, v01 * f, v11 * f
        for h in range(j + 1):
            g = features[row, h]
            curvature[h, j] += p * g
            curvature[h, size + j] += q * g
            curvature[size + h, size + j] += r * g


@entry(fastmath={"contract"})
def von_mises_log_densities(
    features: np.ndarray, points: np.ndarray, rows: np.ndarray, owners: np.ndarray, packed: np.ndarray, out: np.ndarray
) -> None:
    """Add log p of one angle to `out` (pairs,)."""
    size = (packed.shape[1] - 2) // 2
    for i in range(rows.size):
        real, imaginary = _field(features, rows[i], packed, owners[i], size)
        log_normalizer, _ = log_bessel(math.sqrt(real * real + imaginary * imaginary))
        out[i] += real * points[rows[i], 0] + imaginary * points[rows[i], 1] - log_normalizer - math.log(2.0 * math.pi)


@entry(fastmath={"contract"})
def von_mises_derivatives(
    features: np.ndarray,
    points: np.ndarray,
    pairs: tuple[np.ndarray, ...],
    packed: np.ndarray,
    value: np.ndarray,
    slope: np.ndarray,
    curvature: np.ndarray,
) -> None:
    """Add up Σ w log p (K,) of one angle, gradients (K, m) and negative Hessians (K, m, m): upper blocks, triangles."""
    rows, owners, weights = pairs
    size = (packed.shape[1] - 2) // 2
    for i in range(rows.size):
        row, k, w = rows[i], owners[i], weights[i]
        real, imaginary = _field(features, row, packed, k, size)
        kappa = math.sqrt(real * real + imaginary * imaginary)
        log_normalizer, ratio = log_bessel(kappa)
        height = real * points[row, 0] + imaginary * points[row, 1]
        value[k] += w * (height - log_normalizer - math.log(2.0 * math.pi))
        if kappa > 1e-8:
            across, c, s = ratio / kappa, real / kappa, imaginary / kappa
        else:
            across, c, s = 0.5, 1.0, 0.0
        along = max(1.0 - across - ratio * ratio, 0.0)
        r0, r1 = w * (points[row, 0] - ratio * c), w * (points[row, 1] - ratio * s)
        v00, v11 = w * (along * c * c + across * s * s), w * (along * s * s + across * c * c)
        v01 = w * (along - across) * c * s
        _add_features(features, row, size, (r0, r1, v00, v01, v11), slope[k], curvature[k])


@entry(fastmath={"contract", "reassoc"})
def natural_parameters(
    features: np.ndarray, rows: np.ndarray, owners: np.ndarray, packed: np.ndarray, size: int, eta: np.ndarray
) -> None:
    """Write η (pairs, 2) of one angle from packed parameters (K, 2 size + 2); `size` features count."""
    for i in range(rows.size):
        k = owners[i]
        real, imaginary = _field(features, rows[i], packed, k, size)
        eta[i, 0] = complex(real, imaginary)
        eta[i, 1] = complex(packed[k, 2 * size], packed[k, 2 * size + 1])


@entry(fastmath={"contract"})
def log_densities(points: np.ndarray, rows: np.ndarray, eta: np.ndarray, facts: np.ndarray, out: np.ndarray) -> None:
    """Add log p of one angle to `out` (pairs,); points (N, 4) are cos φ, sin φ, cos 2φ, sin 2φ."""
    for i in range(rows.size):
        row, first, second = rows[i], eta[i, 0], eta[i, 1]
        out[i] += (
            first.real * points[row, 0]
            + first.imag * points[row, 1]
            + second.real * points[row, 2]
            + second.imag * points[row, 3]
            - facts[i, 0]
        )


@entry(fastmath={"contract"})
def slopes_and_curvatures(
    features: np.ndarray,
    points: np.ndarray,
    pairs: tuple[np.ndarray, ...],
    moments: np.ndarray,
    slope: np.ndarray,
    curvature: np.ndarray,
) -> None:
    """Add up gradients (K, m) and negative Hessians (K, m, m) of Σ w log p of one angle; upper blocks and triangles.

    Each pair adds w Cov(t) ⊗ ff', t = (cos φ, sin φ, cos 2φ, sin 2φ), where f is 1 for the second harmonic.
    """
    rows, owners, weights = pairs
    size = (slope.shape[1] - 2) // 2
    last = 2 * size
    for i in range(rows.size):
        row, k, w = rows[i], owners[i], weights[i]
        c1, s1, c2, s2 = moments[i, 0].real, moments[i, 0].imag, moments[i, 1].real, moments[i, 1].imag
        c3, s3, c4, s4 = moments[i, 2].real, moments[i, 2].imag, moments[i, 3].real, moments[i, 3].imag
        r0, r1 = w * (points[row, 0] - c1), w * (points[row, 1] - s1)
        v00, v01, v11 = w * (0.5 + 0.5 * c2 - c1 * c1), w * (0.5 * s2 - c1 * s1), w * (0.5 - 0.5 * c2 - s1 * s1)
        v02, v03 = w * (0.5 * (c1 + c3) - c1 * c2), w * (0.5 * (s1 + s3) - c1 * s2)
        v12, v13 = w * (0.5 * (s3 - s1) - s1 * c2), w * (0.5 * (c1 - c3) - s1 * s2)
        slope[k, last] += w * (points[row, 2] - c2)
        slope[k, last + 1] += w * (points[row, 3] - s2)
        curvature[k, last, last] += w * (0.5 + 0.5 * c4 - c2 * c2)
        curvature[k, last, last + 1] += w * (0.5 * s4 - c2 * s2)
        curvature[k, last + 1, last + 1] += w * (0.5 - 0.5 * c4 - s2 * s2)
        _add_features(features, row, size, (r0, r1, v00, v01, v11), slope[k], curvature[k])
        for j in range(size):
            f = features[row, j]
            curvature[k, j, last] += v02 * f
            curvature[k, j, last + 1] += v03 * f
            curvature[k, size + j, last] += v12 * f
            curvature[k, size + j, last + 1] += v13 * f


@entry()
def complete(curvature: np.ndarray) -> None:
    """Fill in what symmetry says, in place."""
    components, length, _ = curvature.shape
    size = (length - 2) // 2
    for k in range(components):
        for j in range(size):
            for h in range(j + 1):  # the mixed block is symmetric by itself: it is a multiple of ff' pair by pair
                curvature[k, j, size + h] = curvature[k, h, size + j]
        for j in range(length):
            for h in range(j):
                curvature[k, j, h] = curvature[k, h, j]
