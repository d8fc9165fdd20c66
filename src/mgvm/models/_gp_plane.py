"""Gaussians in the plane of one angle, as exponential families: T(x) = (x₁, x₂, x₁², x₁x₂, x₂²), natural parameters ξ.

exp(ξ·T) has precision Λ = -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]] and linear term h = (ξ₁, ξ₂). All functions work on batches (N, ·).
"""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray


def natural_of(mean: FloatArray, covariance: FloatArray) -> FloatArray | None:
    """ξ (N, 5) of means (N, 2) and covariances (N, 2, 2); None where one is not positive definite."""
    a, b, d = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    determinant = a * d - b * b
    if not ((a > 0.0) & (determinant > 0.0) & np.isfinite(determinant)).all():
        return None
    one, cross, two = d / determinant, -b / determinant, a / determinant
    linear = (one * mean[:, 0] + cross * mean[:, 1], cross * mean[:, 0] + two * mean[:, 1])
    return np.stack([*linear, -0.5 * one, -cross, -0.5 * two], axis=1)


def moments_of(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """E[T] (N, 5)."""
    m1, m2 = mean.T
    squares = (covariance[:, 0, 0] + m1 * m1, covariance[:, 0, 1] + m1 * m2, covariance[:, 1, 1] + m2 * m2)
    return np.stack([m1, m2, *squares], axis=1)


def from_moments(moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (N, 2) and covariances (N, 2, 2) of E[T]."""
    m1, m2 = moments[:, 0], moments[:, 1]
    covariance = np.empty((m1.size, 2, 2))
    covariance[:, 0, 0], covariance[:, 1, 1] = moments[:, 2] - m1 * m1, moments[:, 4] - m2 * m2
    covariance[:, 0, 1] = covariance[:, 1, 0] = moments[:, 3] - m1 * m2
    return moments[:, :2], covariance


def covariance_of(mean: FloatArray, covariance: FloatArray) -> FloatArray:
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
