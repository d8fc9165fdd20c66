"""Tilted laws of the soft circle: a Gaussian cavity in the plane, a radial factor, a likelihood of the direction.

In polar coordinates x = r u, u = (cos φ, sin φ), a Gaussian exp(ξ·T(x)) with T = (x₁, x₂, x₁², x₁x₂, x₂²) times exp(-(r
- 1)²/2τ²) is exp(-½ar² + br - ½τ⁻²) with a = τ⁻² - 2(ξ₃c² + ξ₄cs + ξ₅s²) and b = ξ₁c + ξ₂s + τ⁻². Its radial integrals
I_k = ∫₀^∞ r^k exp(-½ar² + br) dr follow from I₀ = √(2π/a) e^{D²/2} Φ(D), D = b/√a, by parts: I₁ = (1 + bI₀)/a and
I_{k+1} = (k I_{k-1} + b I_k)/a. The direction then has the density I₁·likelihood, integrated by the periodic trapezoid
rule. Where D < 0 the recurrences cancel, but there is always a direction with D >= 0 that outweighs those by e^{D²/2}.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.compiler import entry, inner

_ROOT_HALF = math.sqrt(0.5)
_ROOT_PI = math.sqrt(math.pi)
_LOG_TWO_PI = math.log(2.0 * math.pi)
_TINY = 1e-300
_NEGLIGIBLE = 1e-18
FloatArray = NDArray[np.float64]


@inner()
def log_scaled_cdf(d: float) -> float:
    """log(e^{D²/2} Φ(D)), the logarithm of Mills' ratio of -D over √2π."""
    x = -d * _ROOT_HALF
    if x < 8.0:
        return math.log(0.5 * math.erfc(x)) + 0.5 * d * d
    # erfc underflows far out, where its asymptotic series is exact: the next term is below 1e-10 of rounding at x = 8.
    y = 0.5 / (x * x)
    series = 1.0 - y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y * (1.0 - 11.0 * y)))))
    return math.log(0.5 * series / (x * _ROOT_PI))


@inner()
def radial(a: float, b: float, powers: FloatArray) -> float:
    """log I₁; E[r^k] = I_{k+1}/I₁ for k = 1..4 go into `powers`."""
    log_zeroth = 0.5 * (_LOG_TWO_PI - math.log(a)) + log_scaled_cdf(b / math.sqrt(a))
    first = max((math.exp(-min(log_zeroth, 700.0)) + b) / a, _TINY)  # all relative to I₀
    second = max((1.0 + b * first) / a, 0.0)
    third = max((2.0 * first + b * second) / a, 0.0)
    fourth = max((3.0 * second + b * third) / a, 0.0)
    fifth = max((4.0 * third + b * fourth) / a, 0.0)
    powers[0], powers[1], powers[2], powers[3] = second / first, third / first, fourth / first, fifth / first
    return log_zeroth + math.log(first)


@inner()
def weigh(
    xi: FloatArray, values: FloatArray, points: FloatArray, pull: float, weights: FloatArray, powers: FloatArray
) -> float:
    """Probabilities of the nodes into `weights` and radial moments into `powers` (nodes, 4); returns log Z.

    `pull` is τ⁻², negative for the circle itself. NaN where the cavity has no integral.
    """
    count, top = values.shape[0], -np.inf
    for j in range(count):
        c, s = points[0, j], points[1, j]
        square = xi[2] * c * c + xi[3] * c * s + xi[4] * s * s
        along = xi[0] * c + xi[1] * s
        if pull < 0.0:
            for k in range(4):
                powers[j, k] = 1.0
            weights[j] = values[j] + along + square
        else:
            a = pull - 2.0 * square
            if not a > 0.0:
                return np.nan
            weights[j] = values[j] + radial(a, along + pull, powers[j]) - 0.5 * pull
        top = max(top, weights[j])
    total = 0.0
    for j in range(count):
        weights[j] = math.exp(weights[j] - top)
        total += weights[j]
    for j in range(count):
        weights[j] /= total
    return top + math.log(total * (2.0 * math.pi / count))


@entry()
def tilted_moments(
    xi: FloatArray, values: FloatArray, features: FloatArray, points: FloatArray, pull: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of every row n: log Z (n,), E[T] (n, 5), Cov[T] (n, 5, 5), E[features] (n, p), Cov[T, features] (n, 5, p).

    xi (n, 5) are the cavities, values (n, nodes) the log-likelihoods, features (n, nodes, p) functions of the
    direction; points (2, nodes) are cos and sin of equally spaced nodes.
    """
    rows, count, extra = features.shape
    log_normalizer = np.empty(rows)
    mean, covariance = np.zeros((rows, 5)), np.zeros((rows, 5, 5))
    feature_mean, cross = np.zeros((rows, extra)), np.zeros((rows, 5, extra))
    weights, powers = np.empty(count), np.empty((count, 4))
    t = np.empty(5)
    for n in range(rows):
        log_normalizer[n] = weigh(xi[n], values[n], points, pull, weights, powers)
        if not np.isfinite(log_normalizer[n]):
            continue
        for j in range(count):
            c, s, w1, w2 = points[0, j], points[1, j], weights[j] * powers[j, 0], weights[j] * powers[j, 1]
            mean[n, 0] += w1 * c
            mean[n, 1] += w1 * s
            mean[n, 2] += w2 * c * c
            mean[n, 3] += w2 * c * s
            mean[n, 4] += w2 * s * s
            for q in range(extra):
                feature_mean[n, q] += weights[j] * features[n, j, q]
        # Within a direction Cov = E[r²] - E[r]² and so on, between directions from deviations: nothing large cancels.
        for j in range(count):
            w = weights[j]
            if w < _NEGLIGIBLE:
                continue
            c, s = points[0, j], points[1, j]
            t[0], t[1], t[2], t[3], t[4] = c, s, c * c, c * s, s * s
            for p in range(5):
                level = powers[j, 0] if p < 2 else powers[j, 1]
                away = level * t[p] - mean[n, p]
                for q in range(p + 1):
                    other = powers[j, 0] if q < 2 else powers[j, 1]
                    both = powers[j, 1] if p < 2 else (powers[j, 2] if q < 2 else powers[j, 3])
                    within = t[p] * t[q] * (both - level * other)
                    covariance[n, p, q] += w * (within + away * (other * t[q] - mean[n, q]))
                for q in range(extra):
                    cross[n, p, q] += w * away * (features[n, j, q] - feature_mean[n, q])
        for p in range(5):
            for q in range(p):
                covariance[n, q, p] = covariance[n, p, q]
    return log_normalizer, mean, covariance, feature_mean, cross


@entry()
def direction_log_density(xi: FloatArray, points: FloatArray, pull: float) -> FloatArray:
    """log I₁ (or the law on the circle itself) at the nodes, unnormalised; (n, nodes)."""
    rows, count = xi.shape[0], points.shape[1]
    out, powers = np.empty((rows, count)), np.empty(4)
    for n in range(rows):
        for j in range(count):
            c, s = points[0, j], points[1, j]
            square = xi[n, 2] * c * c + xi[n, 3] * c * s + xi[n, 4] * s * s
            along = xi[n, 0] * c + xi[n, 1] * s
            out[n, j] = along + square if pull < 0.0 else radial(pull - 2.0 * square, along + pull, powers)
    return out
