"""Kriging from the sites of a few neighbours: cavities of expectation propagation for many inputs, and their slopes.

Each of N targets n has m neighbours j. Under the prior x_n | neighbours ~ N(Σ_j w_j x_j, v 1) with w = K⁻¹k; the sites
exp(h_jᵀx_j - ½x_jᵀS_j x_j) of the neighbours make their posterior precision A = K⁻¹ ⊗ 1 + S, and

    Y = A⁻¹(w ⊗ 1) = Cov[x_j, x_n],   μ = A⁻¹h,   V = v 1 + wᵀY,   mean = wᵀμ,

one small symmetric system with three right sides. Sites may be indefinite (on the circle many are): A is factorised as
LDLᵀ, whose pivots tell whether it is positive definite. Natural parameters ξ belong to T(x) = (x₁, x₂, x₁², x₁x₂, x₂²):
S = -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.soft_circle import weigh

_FLOOR = 1e-10  # of variances: that along the radius vanishes on the circle
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Near = tuple[IntArray, FloatArray]  # neighbours (N, m), and 1 where their sites count, 0 where they are left out
Conditional = tuple[FloatArray, FloatArray, FloatArray]  # K⁻¹ (N, m, m), w (N, m), v (N,)
# log-likelihoods (N, nodes), cos and sin of the nodes (2, nodes), and τ⁻² (negative on the circle itself)
Tables = tuple[FloatArray, FloatArray, float]


@entry(fastmath={"contract"})
def conditional_weights(
    gram: FloatArray, cross: FloatArray, variances: FloatArray, members: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """K⁻¹ (B, m, m), w (B, m) and v (B,) of B targets; NaN where a K is not positive definite.

    gram (U, U) holds the covariances of all points of a block, cross (B, U) those of the targets with them, variances
    (B,) their own; members (B, m) are the rows of the neighbours.
    """
    size, m = members.shape
    inverses, weights, rest = np.empty((size, m, m)), np.empty((size, m)), np.empty(size)
    lower, back = np.empty((m, m)), np.zeros((m, m))
    for n in range(size):
        for i in range(m):
            for j in range(i + 1):
                total = gram[members[n, i], members[n, j]]
                for k in range(j):
                    total -= lower[i, k] * lower[j, k]
                lower[i, j] = math.sqrt(total) if i == j else total / lower[j, j]
        # back = L⁻¹ by rows, then K⁻¹ = L⁻ᵀL⁻¹.
        for i in range(m):
            back[i, i] = 1.0 / lower[i, i]
            for j in range(i):
                total = 0.0
                for k in range(j, i):
                    total -= lower[i, k] * back[k, j]
                back[i, j] = total * back[i, i]
        for i in range(m):
            for j in range(i + 1):
                inverses[n, i, j] = 0.0
        for k in range(m):
            for i in range(k + 1):
                for j in range(i + 1):
                    inverses[n, i, j] += back[k, i] * back[k, j]
        for i in range(m):
            for j in range(i):
                inverses[n, j, i] = inverses[n, i, j]
        rest[n] = variances[n]
        for i in range(m):
            total = 0.0
            for j in range(m):
                total += inverses[n, i, j] * cross[n, members[n, j]]
            weights[n, i] = total
            rest[n] -= total * cross[n, members[n, i]]
    return inverses, weights, rest


@inner(fastmath={"contract"})
def _solve(system: FloatArray, right: FloatArray) -> float:
    """Solutions of a symmetric system (2m, 2m) for three right sides (3, 2m), in place: LDLᵀ; its smallest pivot."""
    size, smallest = system.shape[0], np.inf
    for k in range(size):
        smallest = min(smallest, system[k, k])
        pivot = 1.0 / system[k, k]
        source = system[k]
        for i in range(k + 1, size):
            factor = source[i] * pivot
            if factor != 0.0:
                target = system[i]
                for j in range(i, size):
                    target[j] -= factor * source[j]
                for q in range(3):
                    right[q, i] -= factor * right[q, k]
    for k in range(size - 1, -1, -1):
        pivot = 1.0 / system[k, k]
        for q in range(3):
            total = right[q, k]
            for j in range(k + 1, size):
                total -= system[k, j] * right[q, j]
            right[q, k] = total * pivot
    return smallest


@inner(fastmath={"contract"})
def _posterior(
    n: int, sites: FloatArray, near: Near, conditional: Conditional, system: FloatArray, right: FloatArray
) -> float:
    """Columns of Y and μ of one target into the rows of `right` (3, 2m); returns the smallest pivot of A."""
    neighbours, used = near
    inverses, weights = conditional[0], conditional[1]
    m = neighbours.shape[1]
    for i in range(m):
        for j in range(i, m):
            value = inverses[n, i, j]
            system[2 * i, 2 * j] = system[2 * i + 1, 2 * j + 1] = value
            system[2 * i, 2 * j + 1] = system[2 * i + 1, 2 * j] = 0.0
        own, share = sites[neighbours[n, i]], used[n, i]
        system[2 * i, 2 * i] -= 2.0 * share * own[2]
        system[2 * i + 1, 2 * i + 1] -= 2.0 * share * own[4]
        system[2 * i, 2 * i + 1] = -share * own[3]
        right[0, 2 * i] = right[1, 2 * i + 1] = weights[n, i]
        right[0, 2 * i + 1] = right[1, 2 * i] = 0.0
        right[2, 2 * i], right[2, 2 * i + 1] = share * own[0], share * own[1]
    return _solve(system, right)


@inner(fastmath={"contract"})
def _project(weights: FloatArray, rest: float, right: FloatArray, out: FloatArray) -> None:
    """Mean (2) and covariance (3: 11, 12, 22) of a target into `out` (5)."""
    out[0] = out[1] = out[3] = 0.0
    out[2] = out[4] = rest
    for i in range(weights.shape[0]):
        w = weights[i]
        out[0] += w * right[2, 2 * i]
        out[1] += w * right[2, 2 * i + 1]
        out[2] += w * right[0, 2 * i]
        out[3] += 0.5 * w * (right[1, 2 * i] + right[0, 2 * i + 1])
        out[4] += w * right[1, 2 * i + 1]


@entry(fastmath={"contract"})
def krige(
    sites: FloatArray, near: Near, conditional: Conditional
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Of targets given their neighbours' sites: mean and covariance (N, 5: m₁, m₂, V₁₁, V₁₂, V₂₂), Y, μ, and pivots.

    Y (N, m, 4) and μ (N, m, 2) are what derivatives need; a smallest pivot (N,) is positive where A is positive
    definite.
    """
    size, m = near[0].shape
    moments = np.empty((size, 5))
    shared, local, pivots = np.empty((size, m, 4)), np.empty((size, m, 2)), np.empty(size)
    system, right = np.empty((2 * m, 2 * m)), np.empty((3, 2 * m))
    for n in range(size):
        pivots[n] = _posterior(n, sites, near, conditional, system, right)
        _project(conditional[1][n], conditional[2][n], right, moments[n])
        for i in range(m):
            for k in range(2):
                shared[n, i, k], shared[n, i, 2 + k] = right[k, 2 * i], right[k, 2 * i + 1]
                local[n, i, k] = right[2, 2 * i + k]
    return moments, shared, local, pivots


@inner(fastmath={"contract"})
def _natural(moments: FloatArray, out: FloatArray) -> bool:
    """ξ of mean and covariance; whether that is positive definite."""
    a, b, d = moments[2], moments[3], moments[4]
    determinant = a * d - b * b
    if not (a > 0.0 and determinant > 0.0):
        return False
    one, cross, two = d / determinant, -b / determinant, a / determinant
    out[0], out[1] = one * moments[0] + cross * moments[1], cross * moments[0] + two * moments[1]
    out[2], out[3], out[4] = -0.5 * one, -cross, -0.5 * two
    return True


@inner(fastmath={"contract"})
def _tilted(weights: FloatArray, powers: FloatArray, points: FloatArray, out: FloatArray) -> None:
    """Mean and covariance of a tilted law from its nodes' probabilities and radial moments."""
    m1 = m2 = s1 = s2 = s3 = 0.0
    for j in range(weights.shape[0]):
        c, s, w1, w2 = points[0, j], points[1, j], weights[j] * powers[j, 0], weights[j] * powers[j, 1]
        m1 += w1 * c
        m2 += w1 * s
        s1 += w2 * c * c
        s2 += w2 * c * s
        s3 += w2 * s * s
    out[0], out[1] = m1, m2
    out[2], out[3], out[4] = s1 - m1 * m1 + _FLOOR, s2 - m1 * m2, s3 - m2 * m2 + _FLOOR


@inner(fastmath={"contract"})
def _distance(cavity: FloatArray, site: FloatArray, moments: FloatArray) -> float:
    """How far cavity times site is from given moments: means in standard deviations, variances in their own units."""
    one, cross, two = -2.0 * (cavity[2] + site[2]), -(cavity[3] + site[3]), -2.0 * (cavity[4] + site[4])
    h1, h2 = cavity[0] + site[0], cavity[1] + site[1]
    determinant = one * two - cross * cross
    if not (one > 0.0 and determinant > 0.0):
        return 1.0
    m1, m2 = (two * h1 - cross * h2) / determinant, (one * h2 - cross * h1) / determinant
    far = max(abs(two / determinant / moments[2] - 1.0), abs(one / determinant / moments[4] - 1.0))
    return max(far, abs(m1 - moments[0]) / math.sqrt(moments[2]), abs(m2 - moments[1]) / math.sqrt(moments[4]))


@entry(fastmath={"contract"})
def sweep(
    sites: FloatArray, order: IntArray, near: Near, conditional: Conditional, tables: Tables, damping: float
) -> FloatArray:
    """Updates of the sites of `order` in turn, each with what its neighbours know by then; a site without law stays.

    Returns how far each marginal moved, in standard deviations; infinite for those without law.
    """
    values, points, pull = tables
    m, count = near[0].shape[1], values.shape[1]
    system, right = np.empty((2 * m, 2 * m)), np.empty((3, 2 * m))
    weights, powers = np.empty(count), np.empty((count, 4))
    moments, cavity, matched, moved = np.empty(5), np.empty(5), np.empty(5), np.full(order.size, np.inf)
    for place in range(order.size):
        n = order[place]
        pivot = _posterior(n, sites, near, conditional, system, right)
        _project(conditional[1][n], conditional[2][n], right, moments)
        if not (pivot > 0.0 and _natural(moments, cavity)):
            continue
        if not math.isfinite(weigh(cavity, values[n], points, pull, weights, powers)):
            continue
        _tilted(weights, powers, points, moments)
        if _natural(moments, matched):
            moved[place] = _distance(cavity, sites[n], moments)
            for k in range(5):
                sites[n, k] += damping * (matched[k] - cavity[k] - sites[n, k])
    return moved
