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
    gram: FloatArray, cross: FloatArray, variances: FloatArray, members: IntArray, targets: IntArray, out: Conditional
) -> None:
    """K⁻¹, w and v of B targets into the rows `targets` of `out`; v is NaN where a K is not positive definite.

    gram (U, U) holds the covariances of all points of a block, cross (B, U) those of the targets with them, variances
    (B,) their own; members (B, m) are the rows of the neighbours. Gauss-Jordan steps on [[K, k], [kᵀ, k_nn]] leave all
    three where K, k and k_nn were.
    """
    size, m = members.shape
    inverses, weights, rest = out
    system = np.zeros((m + 1, _padded(m + 1)))
    for n in range(size):
        for i in range(m):
            near = gram[members[n, i]]
            for j in range(m):
                system[i, j] = near[members[n, j]]
            system[i, m] = system[m, i] = cross[n, members[n, i]]
        system[m, m] = variances[n]
        sound, row = _invert(system, m), targets[n]
        for i in range(m):
            for j in range(m):
                inverses[row, i, j] = system[i, j]
            weights[row, i] = system[i, m]
        rest[row] = system[m, m] if sound else np.nan


@inner(fastmath={"contract"})
def _padded(width: int) -> int:
    """A multiple of eight: rows of whole vector registers leave no scalar rest."""
    return (width + 7) // 8 * 8


@inner(fastmath={"contract"})
def _invert(system: FloatArray, count: int) -> bool:
    """Gauss-Jordan steps on the first `count` pivots, in place; whether all were positive."""
    for k in range(count):
        source = system[k]
        if not source[k] > 0.0:
            return False
        pivot = 1.0 / source[k]
        source[k] = 1.0
        for j in range(source.size):
            source[j] *= pivot
        for i in range(system.shape[0]):
            if i != k:
                target = system[i]
                factor = target[k]
                target[k] = 0.0
                for j in range(target.size):
                    target[j] -= factor * source[j]
    return True


@inner(fastmath={"contract"})
def _eliminate(system: FloatArray) -> float:
    """The upper factor of A = LDLᵀ with its right sides, in place, two rows at a time; the smallest pivot."""
    size, smallest = system.shape[0], np.inf
    for k in range(0, size, 2):
        first = 1.0 / system[k, k]
        # From whole vectors on: what lies before the diagonal is never read.
        begin = k // 8 * 8
        one, two = system[k][begin:], system[k + 1][begin:]
        factor = system[k, k + 1] * first
        for j in range(two.size):
            two[j] -= factor * one[j]
        second = 1.0 / system[k + 1, k + 1]
        smallest = min(smallest, system[k, k], system[k + 1, k + 1])
        for i in range(k + 2, size):
            f, g = system[k, i] * first, system[k + 1, i] * second
            begin = i // 8 * 8
            target, one, two = system[i][begin:], system[k][begin:], system[k + 1][begin:]
            for j in range(target.size):
                target[j] -= f * one[j] + g * two[j]
    return smallest


@inner(fastmath={"contract"})
def _posterior(n: int, sites: FloatArray, near: Near, conditional: Conditional, system: FloatArray) -> float:
    """[A, w ⊗ 1, h] of one target in `system` (2m, >= 2m + 3), eliminated; the smallest pivot of A."""
    neighbours, used = near
    inverses, weights = conditional[0], conditional[1]
    m = neighbours.shape[1]
    for i in range(m):
        one, two = system[2 * i], system[2 * i + 1]
        for j in range(i, m):
            value = inverses[n, i, j]
            one[2 * j] = two[2 * j + 1] = value
            one[2 * j + 1] = two[2 * j] = 0.0
        own, share = sites[neighbours[n, i]], used[n, i]
        one[2 * i] -= 2.0 * share * own[2]
        two[2 * i + 1] -= 2.0 * share * own[4]
        one[2 * i + 1] = -share * own[3]
        one[2 * m] = two[2 * m + 1] = weights[n, i]
        one[2 * m + 1] = two[2 * m] = 0.0
        one[2 * m + 2], two[2 * m + 2] = share * own[0], share * own[1]
    return _eliminate(system)


@inner(fastmath={"contract"})
def _project(system: FloatArray, rest: float, out: FloatArray) -> None:
    """Mean (2) and covariance (3: 11, 12, 22) of a target into `out` (5), from eliminated right sides R as R D⁻¹ R."""
    size = system.shape[0]
    out[0] = out[1] = out[3] = 0.0
    out[2] = out[4] = rest
    for k in range(size):
        pivot = 1.0 / system[k, k]
        a, b, h = system[k, size], system[k, size + 1], system[k, size + 2]
        out[0] += a * h * pivot
        out[1] += b * h * pivot
        out[2] += a * a * pivot
        out[3] += a * b * pivot
        out[4] += b * b * pivot


@inner(fastmath={"contract", "reassoc"})
def _substitute(system: FloatArray, out: FloatArray) -> None:
    """A⁻¹ of the right sides, the rows of `out` (3, 2m), from what `_eliminate` leaves."""
    size = system.shape[0]
    x, y, z = out[0], out[1], out[2]
    for k in range(size - 1, -1, -1):
        source, pivot = system[k], 1.0 / system[k, k]
        a = b = h = 0.0
        for j in range(k + 1, size):
            a += source[j] * x[j]
            b += source[j] * y[j]
            h += source[j] * z[j]
        x[k] = (source[size] - a) * pivot
        y[k] = (source[size + 1] - b) * pivot
        z[k] = (source[size + 2] - h) * pivot


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
    system, solved = np.zeros((2 * m, _padded(2 * m + 3))), np.empty((3, 2 * m))
    for n in range(size):
        pivots[n] = _posterior(n, sites, near, conditional, system)
        _project(system, conditional[2][n], moments[n])
        _substitute(system, solved)
        for i in range(m):
            for k in range(2):
                shared[n, i, 2 * k], shared[n, i, 2 * k + 1] = solved[0, 2 * i + k], solved[1, 2 * i + k]
                local[n, i, k] = solved[2, 2 * i + k]
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
        c, s, w1, w2 = points[0, j], points[1, j], weights[j] * powers[0, j], weights[j] * powers[1, j]
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
    system = np.zeros((2 * m, _padded(2 * m + 3)))
    weights, powers = np.empty(count), np.empty((4, count))
    moments, cavity, matched, moved = np.empty(5), np.empty(5), np.empty(5), np.full(order.size, np.inf)
    for place in range(order.size):
        n = order[place]
        pivot = _posterior(n, sites, near, conditional, system)
        _project(system, conditional[2][n], moments)
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
