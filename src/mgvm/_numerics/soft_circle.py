"""Tilted distributions of the soft circle: a Gaussian cavity in the plane, a radial factor, a likelihood of the
direction.

In polar coordinates x = r u, u = (cos φ, sin φ), a Gaussian exp(ξ·T(x)) with T = (x₁, x₂, x₁², x₁x₂, x₂²) times exp(-(r
- 1)²/2τ²) is exp(-½ar² + br - ½τ⁻²) with a = τ⁻² - 2(ξ₃c² + ξ₄cs + ξ₅s²) and b = ξ₁c + ξ₂s + τ⁻². In units of 1/√a its
radial integrals are J_k = ∫₀^∞ t^k exp(-½t² + Dt) dt, D = b/√a: with Mills' ratio m, J₀ = m(-D) for D < 0 and
√(2π) e^{D²/2} - m(D) beyond, J₁ = 1 + D J₀ and J_{k+1} = k J_{k-1} + D J_k. The direction then has the density
J₁/a · likelihood, integrated by the periodic trapezoid rule. Where D < 0 the recurrences cancel: the few
directions of that kind that count are done again by the continued fraction J_k/J_{k-1} = k/(-D + J_{k+1}/J_k).
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import bounded_exp, entry, inner, mills_ratio, positive_log
from mgvm._validation import FloatArray

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_SUMS = {"contract", "reassoc", "nsz"}


@inner(forceinline=True, fastmath={"contract"})
def _first(d: float) -> tuple[float, float, float]:
    """J₀ and J₁ relative to e^{lift}, and the lift: D²/2 for D > 0, else 0."""
    u = abs(d)
    half = 0.5 * d * d
    m = mills_ratio(u)
    # 1 - u m(u) = ∫ t exp(-ut - t²/2) dt > 1/(u² + 3), which is exact to 6/u⁴ where the difference cancels.
    rest = max(1.0 - u * m, 1.0 / (u * u + 3.0))
    shrink = bounded_exp(-min(half, 700.0))
    ahead = d > 0.0
    zeroth = _ROOT_TWO_PI - shrink * m if ahead else m
    first = shrink * rest + _ROOT_TWO_PI * d if ahead else rest
    return zeroth, first, half if ahead else 0.0


@inner(forceinline=True, fastmath={"contract"})
def _polar(xi: FloatArray, c: float, s: float, radial_precision: float) -> tuple[float, float]:
    """1/√a and D in a direction."""
    scale = 1.0 / math.sqrt(radial_precision - 2.0 * (xi[2] * c * c + xi[3] * c * s + xi[4] * s * s))
    return scale, (xi[0] * c + xi[1] * s + radial_precision) * scale


@inner(fastmath=_SUMS)
def _normalise(weights: FloatArray, top: float) -> float:
    """Probabilities from logarithms, in place; returns their sum before."""
    total = 0.0
    for j in range(weights.shape[0]):
        weights[j] = bounded_exp(max(weights[j] - top, -700.0))
        total += weights[j]
    share = 1.0 / total
    for j in range(weights.shape[0]):
        weights[j] *= share
    return total


@inner(fastmath={"contract"})
def _continued(scale: float, d: float, j: int, powers: FloatArray) -> None:
    """E[r^k], k = 1..4, of node j for D < 0: from J_k/J_{k-1} of high k down."""
    longest = 60  # terms: below rounding for D < -2
    ratio = 0.5 * (d + math.sqrt(d * d + 4.0 * longest))
    for k in range(longest, 5, -1):
        ratio = k / (ratio - d)
    # E[r^k] is the product of J₂/J₁ .. J_{k+1}/J_k.
    for k in range(5, 1, -1):
        ratio = k / (ratio - d)
        powers[k - 2, j] = ratio * scale
    for k in range(1, 4):
        powers[k, j] *= powers[k - 1, j]


@inner(fastmath={"contract"})
def weigh(
    xi: FloatArray,
    values: FloatArray,
    points: FloatArray,
    radial_precision: float,
    weights: FloatArray,
    powers: FloatArray,
) -> float:
    """Probabilities of the nodes into `weights` and E[r^k], k = 1..4, into `powers` (4, nodes); returns log Z.

    `radial_precision` is τ⁻², negative for the circle itself. NaN where the cavity has no integral.
    """
    count, top = values.shape[0], -np.inf
    if radial_precision < 0.0:
        for j in range(count):
            c, s = points[0, j], points[1, j]
            weights[j] = values[j] + xi[0] * c + xi[1] * s + xi[2] * c * c + xi[3] * c * s + xi[4] * s * s
            powers[0, j] = powers[1, j] = powers[2, j] = powers[3, j] = 1.0
    else:
        for j in range(count):
            scale, d = _polar(xi, points[0, j], points[1, j], radial_precision)
            zeroth, first, lift = _first(d)
            # Without an integral D is not finite, which the bits of a logarithm would hide.
            weights[j] = (values[j] - 0.5 * radial_precision) + (lift + positive_log(first * (scale * scale))) + 0.0 * d
            one = zeroth / first + d
            two = max(2.0 + d * one, 0.0)
            three = max(3.0 * one + d * two, 0.0)
            square = scale * scale
            # The first with a minus sign where D < -2.
            powers[0, j] = one * scale if d >= -2.0 else -max(one, 1e-300) * scale
            powers[1, j] = two * square
            powers[2, j] = three * (square * scale)
            powers[3, j] = max(4.0 * two + d * three, 0.0) * (square * square)
    for j in range(count):
        if not weights[j] < np.inf:
            return np.nan
        top = max(top, weights[j])
    total = _normalise(weights, top)
    for j in range(count):
        if powers[0, j] < 0.0:
            powers[0, j] = -powers[0, j]
            # The recurrence loses |D|⁸ of rounding: where that weighs more than 1e3 it is done again.
            if weights[j] > 1e-6:
                scale, d = _polar(xi, points[0, j], points[1, j], radial_precision)
                square = d * d
                if square * square * square * square * weights[j] > 1e3:
                    _continued(scale, d, j, powers)
    return top + math.log(total * (2.0 * math.pi / count))


@inner(fastmath=_SUMS)
def means(weights: FloatArray, powers: FloatArray, points: FloatArray, mean: FloatArray) -> None:
    """E[T]."""
    m0 = m1 = m2 = m3 = m4 = 0.0
    for j in range(weights.shape[0]):
        c, s, w1, w2 = points[0, j], points[1, j], weights[j] * powers[0, j], weights[j] * powers[1, j]
        m0 += w1 * c
        m1 += w1 * s
        m2 += w2 * c * c
        m3 += w2 * c * s
        m4 += w2 * s * s
    mean[0], mean[1], mean[2], mean[3], mean[4] = m0, m1, m2, m3, m4


@inner(fastmath=_SUMS)
def _covariances(
    weights: FloatArray, powers: FloatArray, points: FloatArray, mean: FloatArray, out: FloatArray
) -> None:
    """Cov[T]: within a direction from E[r²] - E[r]² and so on, between them from deviations.

    Nothing large cancels. Written out, for loops over 5 x 5 entries of every node would not vectorise.
    """
    m0, m1, m2, m3, m4 = mean[0], mean[1], mean[2], mean[3], mean[4]
    c00 = c10 = c11 = c20 = c21 = c30 = c31 = c40 = c41 = c22 = c32 = c42 = c33 = c43 = c44 = 0.0
    for j in range(weights.shape[0]):
        c, s, w, p1, p2 = points[0, j], points[1, j], weights[j], powers[0, j], powers[1, j]
        cc, cs, ss = c * c, c * s, s * s
        e0, e1, e2, e3, e4 = p1 * c - m0, p1 * s - m1, p2 * cc - m2, p2 * cs - m3, p2 * ss - m4
        v, x = p2 - p1 * p1, powers[2, j] - p1 * p2
        c00 += w * (cc * v + e0 * e0)
        c10 += w * (cs * v + e1 * e0)
        c11 += w * (ss * v + e1 * e1)
        c20 += w * (cc * c * x + e2 * e0)
        c21 += w * (cc * s * x + e2 * e1)
        c30 += w * (cc * s * x + e3 * e0)
        c31 += w * (ss * c * x + e3 * e1)
        c40 += w * (ss * c * x + e4 * e0)
        c41 += w * (ss * s * x + e4 * e1)
    for j in range(weights.shape[0]):
        c, s, w, p2 = points[0, j], points[1, j], weights[j], powers[1, j]
        cc, cs, ss = c * c, c * s, s * s
        e2, e3, e4, y = p2 * cc - m2, p2 * cs - m3, p2 * ss - m4, powers[3, j] - p2 * p2
        c22 += w * (cc * cc * y + e2 * e2)
        c32 += w * (cc * cs * y + e3 * e2)
        c42 += w * (cs * cs * y + e4 * e2)
        c33 += w * (cs * cs * y + e3 * e3)
        c43 += w * (cs * ss * y + e4 * e3)
        c44 += w * (ss * ss * y + e4 * e4)
    out[0, 0], out[1, 1], out[2, 2], out[3, 3], out[4, 4] = c00, c11, c22, c33, c44
    out[1, 0] = out[0, 1] = c10
    out[2, 0] = out[0, 2] = c20
    out[2, 1] = out[1, 2] = c21
    out[3, 0] = out[0, 3] = c30
    out[3, 1] = out[1, 3] = c31
    out[3, 2] = out[2, 3] = c32
    out[4, 0] = out[0, 4] = c40
    out[4, 1] = out[1, 4] = c41
    out[4, 2] = out[2, 4] = c42
    out[4, 3] = out[3, 4] = c43


@inner(fastmath=_SUMS)
def _crosses(
    weights: FloatArray, powers: FloatArray, points: FloatArray, features: FloatArray, q: int, out: FloatArray
) -> float:
    """Cov[T, feature q] into column q of `out` (5, p); returns the feature's mean."""
    mean = 0.0
    for j in range(weights.shape[0]):
        mean += weights[j] * features[j, q]
    x0 = x1 = x2 = x3 = x4 = 0.0
    for j in range(weights.shape[0]):
        c, s, w = points[0, j], points[1, j], weights[j] * (features[j, q] - mean)
        w1, w2 = w * powers[0, j], w * powers[1, j]
        x0 += w1 * c
        x1 += w1 * s
        x2 += w2 * c * c
        x3 += w2 * c * s
        x4 += w2 * s * s
    out[0, q], out[1, q], out[2, q], out[3, q], out[4, q] = x0, x1, x2, x3, x4
    return mean


# ---- latent direction plus noise ------------------------------------------------------------------------------------


@inner(fastmath=_SUMS)
def _log_sum(values: FloatArray, factors: FloatArray, top: float) -> float:
    """log Σ_j f_j exp(v_j), `top` the largest v."""
    total = 0.0
    for j in range(values.shape[0]):
        total += factors[j] * bounded_exp(max(values[j] - top, -700.0))
    return top + math.log(total)


@entry(fastmath={"contract"})
def convolve_over_noise(
    xi: FloatArray, radial_precision: float, points: FloatArray, noise: FloatArray, out: FloatArray
) -> None:
    """log Σ_j exp(log N_j) L_n(x - ε_j) into `out` (n, m), L_n the direction of a Gaussian xi (n, 5) up to a constant.

    `points` (2, n, m) are cos x and sin x, `noise` (3, j) cos ε, sin ε and log N.
    """
    count = noise.shape[1]
    room = np.ones((2, count))
    values, factors = room[0], room[1]
    for n in range(out.shape[0]):
        own = xi[n]
        for i in range(out.shape[1]):
            c0, s0 = points[0, n, i], points[1, n, i]
            if radial_precision < 0.0:
                for j in range(count):
                    c, s = c0 * noise[0, j] + s0 * noise[1, j], s0 * noise[0, j] - c0 * noise[1, j]
                    square = own[2] * c * c + own[3] * c * s + own[4] * s * s
                    values[j] = noise[2, j] + own[0] * c + own[1] * s + square
            else:
                for j in range(count):
                    c, s = c0 * noise[0, j] + s0 * noise[1, j], s0 * noise[0, j] - c0 * noise[1, j]
                    scale, d = _polar(own, c, s, radial_precision)
                    _, first, lift = _first(d)
                    values[j], factors[j] = noise[2, j] + lift, first * (scale * scale)
            top = -np.inf
            for j in range(count):
                top = max(top, values[j])
            out[n, i] = _log_sum(values, factors, top)


@entry(fastmath={"contract"})
def convolve_over_latent(waves: FloatArray, against: FloatArray, logs: FloatArray, out: FloatArray) -> None:
    """log Σ_j exp(a_ni · b_nj + log L_nj) into `out` (n, m), from a (n, m, k), b (n, k, j) and log L (n, j)."""
    count = logs.shape[1]
    room = np.ones((2, count))
    values, ones = room[0], room[1]
    for n in range(out.shape[0]):
        for i in range(out.shape[1]):
            top = -np.inf
            for j in range(count):
                values[j] = logs[n, j]
            for k in range(waves.shape[2]):
                factor = waves[n, i, k]
                for j in range(count):
                    values[j] += factor * against[n, k, j]
            for j in range(count):
                top = max(top, values[j])
            out[n, i] = _log_sum(values, ones, top)


# ---- moments --------------------------------------------------------------------------------------------------------


@entry()
def _fill_moments(
    xi: FloatArray,
    values: FloatArray,
    features: FloatArray,
    points: FloatArray,
    radial_precision: float,
    log_normalizer: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    feature_mean: FloatArray,
    cross: FloatArray,
) -> None:
    room = np.empty((5, values.shape[1]))
    weights, powers = room[4], room[:4]
    for n in range(features.shape[0]):
        log_normalizer[n] = weigh(xi[n], values[n], points, radial_precision, weights, powers)
        if not math.isfinite(log_normalizer[n]):
            continue
        means(weights, powers, points, mean[n])
        _covariances(weights, powers, points, mean[n], covariance[n])
        for q in range(features.shape[2]):
            feature_mean[n, q] = _crosses(weights, powers, points, features[n], q, cross[n])


def tilted_moments(
    xi: FloatArray, values: FloatArray, features: FloatArray, points: FloatArray, radial_precision: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of every row n: log Z (n,), E[T] (n, 5), Cov[T] (n, 5, 5), E[features] (n, p), Cov[T, features] (n, 5, p).

    xi (n, 5) are the cavities, values (n, nodes) the log-likelihoods, features (n, nodes, p) functions of the
    direction; points (2, nodes) are cos and sin of equally spaced nodes.
    """
    rows, _, extra = features.shape
    out = (
        np.empty(rows),
        np.zeros((rows, 5)),
        np.zeros((rows, 5, 5)),
        np.zeros((rows, extra)),
        np.zeros((rows, 5, extra)),
    )
    _fill_moments(xi, values, features, points, radial_precision, *out)
    return out
