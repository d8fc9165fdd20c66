"""The sums of `mgvm._numerics.directed` without second harmonics: normalisers are Bessel functions, one pass does all.

log p = Re(conj(η) z) - log 2π I₀(κ), κ = |η|; E[z] = A η/κ with A = I₁/I₀; its variance is 1 - A/κ - A² along η and
A/κ across it.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner

_LARGE = 22.0  # from here on the asymptotic series reaches rounding before it diverges
_LOG_TWO_PI = math.log(2.0 * math.pi)


@inner(fastmath={"contract"})
def log_bessel(kappa: float) -> tuple[float, float]:
    """log I₀(κ) and I₁(κ)/I₀(κ): power series below 22, asymptotic series above, both to rounding."""
    if kappa < _LARGE:
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


@inner(fastmath={"contract", "reassoc"})
def _field(features: np.ndarray, row: int, packed: np.ndarray, k: int, size: int) -> tuple[float, float]:
    real, imaginary = 0.0, 0.0
    for j in range(size):
        real += packed[k, j] * features[row, j]
        imaginary += packed[k, size + j] * features[row, j]
    return real, imaginary


@entry(fastmath={"contract"})
def von_mises_log_densities(
    features: np.ndarray, points: np.ndarray, rows: np.ndarray, owners: np.ndarray, packed: np.ndarray, out: np.ndarray
) -> None:
    """Add log p of one angle to `out` (pairs,)."""
    size = (packed.shape[1] - 2) // 2
    for i in range(rows.size):
        real, imaginary = _field(features, rows[i], packed, owners[i], size)
        log_normalizer, _ = log_bessel(math.sqrt(real * real + imaginary * imaginary))
        out[i] += real * points[rows[i], 0] + imaginary * points[rows[i], 1] - log_normalizer - _LOG_TWO_PI


@entry(fastmath={"contract"})
def von_mises_derivatives(
    features: np.ndarray,
    points: np.ndarray,
    pairs: tuple[np.ndarray, ...],
    packed: np.ndarray,
    slope: np.ndarray,
    curvature: np.ndarray,
) -> None:
    """Add up gradients (K, m) and negative Hessians (K, m, m) of Σ w log p of one angle; upper blocks and triangles."""
    rows, owners, weights = pairs
    size = (packed.shape[1] - 2) // 2
    for i in range(rows.size):
        row, k, w = rows[i], owners[i], weights[i]
        real, imaginary = _field(features, row, packed, k, size)
        kappa = math.sqrt(real * real + imaginary * imaginary)
        _, ratio = log_bessel(kappa)
        if kappa > 1e-8:
            across, c, s = ratio / kappa, real / kappa, imaginary / kappa
        else:
            across, c, s = 0.5, 1.0, 0.0
        along = max(1.0 - across - ratio * ratio, 0.0)
        r0, r1 = w * (points[row, 0] - ratio * c), w * (points[row, 1] - ratio * s)
        v00, v11 = w * (along * c * c + across * s * s), w * (along * s * s + across * c * c)
        v01 = w * (along - across) * c * s
        for j in range(size):
            f = features[row, j]
            slope[k, j] += r0 * f
            slope[k, size + j] += r1 * f
            p, q, r = v00 * f, v01 * f, v11 * f
            for h in range(j + 1):
                g = features[row, h]
                curvature[k, h, j] += p * g
                curvature[k, h, size + j] += q * g
                curvature[k, size + h, size + j] += r * g
