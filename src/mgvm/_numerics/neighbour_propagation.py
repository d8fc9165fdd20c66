"""Kriging from the sites of a few neighbours: cavities of expectation propagation for many inputs, and their slopes.

Each of N targets n has m neighbours j. Under the prior x_n | neighbours ~ N(Σ_j w_j x_j, v 1) with w = K⁻¹k; the sites
exp(h_jᵀx_j - ½x_jᵀS_j x_j) of the neighbours make their posterior precision A = K⁻¹ ⊗ 1 + S, and

    Y = A⁻¹(w ⊗ 1) = Cov[x_j, x_n],   μ = A⁻¹h,   V = v 1 + wᵀY,   mean = wᵀμ,

one small symmetric system with three right sides. Sites may be indefinite (on the circle many are): A is factorised as
LDLᵀ, whose pivots tell whether it is positive definite. Y and μ are kept: they carry all derivatives,

    d mean = Σ_j Y_jᵀ(dh_j - dS_j μ_j),   dV = -Σ_j Y_jᵀ dS_j Y_j,

and in the covariances K̃ of target and neighbours d mean = Σ_ab G_aᵀ dK̃_ab r_b, dV = Σ_ab G_aᵀ dK̃_ab G_b with G_n = 1,
G_j = -S_j Y_j, r_n = 0, r_j = h_j - S_j μ_j. Natural parameters ξ belong to T(x) = (x₁, x₂, x₁², x₁x₂, x₂²):
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
# neighbours (N, m), which of them count (N, m), Y (N, m, 4) by rows, μ (N, m, 2)
Places = tuple[IntArray, FloatArray, FloatArray, FloatArray]


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


@entry(fastmath={"contract"})
def cavity_response(cavity: FloatArray, places: Places, change: FloatArray) -> FloatArray:
    """dξ (N, 5) of the cavities for sites changed by `change`: dh = Λ(dm - dV h), dΛ = -Λ dV Λ."""
    neighbours, used, shared, local = places
    size, m = neighbours.shape
    out = np.empty((size, 5))
    for n in range(size):
        m1 = m2 = v1 = v2 = v3 = 0.0
        for i in range(m):
            own, share = change[neighbours[n, i]], used[n, i]
            one, both, two = -2.0 * share * own[2], -share * own[3], -2.0 * share * own[4]
            h1 = share * own[0] - one * local[n, i, 0] - both * local[n, i, 1]
            h2 = share * own[1] - both * local[n, i, 0] - two * local[n, i, 1]
            a, b, c, d = shared[n, i, 0], shared[n, i, 1], shared[n, i, 2], shared[n, i, 3]
            m1 += a * h1 + c * h2
            m2 += b * h1 + d * h2
            left, right = one * a + both * c, both * a + two * c
            v1 -= a * left + c * right
            v2 -= b * left + d * right
            v3 -= b * (one * b + both * d) + d * (both * b + two * d)
        one, both, two = -2.0 * cavity[n, 2], -cavity[n, 3], -2.0 * cavity[n, 4]
        h1, h2 = cavity[n, 0], cavity[n, 1]
        g1, g2 = m1 - v1 * h1 - v2 * h2, m2 - v2 * h1 - v3 * h2
        out[n, 0], out[n, 1] = one * g1 + both * g2, both * g1 + two * g2
        p, q, r, s = one * v1 + both * v2, one * v2 + both * v3, both * v1 + two * v2, both * v2 + two * v3
        out[n, 2] = 0.5 * (p * one + q * both)
        out[n, 3] = p * both + q * two
        out[n, 4] = 0.5 * (r * both + s * two)
    return out


@inner(fastmath={"contract"})
def _moment_pull(cavity: FloatArray, pull: FloatArray, out: FloatArray) -> None:
    """From a gradient in ξ to α (2) and B (3) of α·dm + tr(B dV): α = Λp, B = Λ D Λ - sym(α hᵀ)."""
    one, both, two = -2.0 * cavity[2], -cavity[3], -2.0 * cavity[4]
    out[0] = one * pull[0] + both * pull[1]
    out[1] = both * pull[0] + two * pull[1]
    d1, d2, d3 = 0.5 * pull[2], 0.5 * pull[3], 0.5 * pull[4]
    p, q, r, s = one * d1 + both * d2, one * d2 + both * d3, both * d1 + two * d2, both * d2 + two * d3
    out[2] = p * one + q * both - out[0] * cavity[0]
    out[3] = p * both + q * two - 0.5 * (out[0] * cavity[1] + out[1] * cavity[0])
    out[4] = r * both + s * two - out[1] * cavity[1]


@entry(fastmath={"contract"})
def site_pull(cavity: FloatArray, places: Places, pull: FloatArray, total: int) -> FloatArray:
    """The transpose of `cavity_response`: gradients (total, 5) in the sites from those (N, 5) in the cavities."""
    neighbours, used, shared, local = places
    size, m = neighbours.shape
    out, moments = np.zeros((total, 5)), np.empty(5)
    for n in range(size):
        _moment_pull(cavity[n], pull[n], moments)
        alpha1, alpha2, b1, b2, b3 = moments[0], moments[1], moments[2], moments[3], moments[4]
        for i in range(m):
            a, b, c, d = shared[n, i, 0], shared[n, i, 1], shared[n, i, 2], shared[n, i, 3]
            u1, u2 = a * alpha1 + b * alpha2, c * alpha1 + d * alpha2
            l1, l2, l3, l4 = a * b1 + b * b2, a * b2 + b * b3, c * b1 + d * b2, c * b2 + d * b3
            mu1, mu2 = local[n, i, 0], local[n, i, 1]
            own, share = out[neighbours[n, i]], used[n, i]
            own[0] += share * u1
            own[1] += share * u2
            own[2] += share * 2.0 * (u1 * mu1 + l1 * a + l2 * b)
            own[3] += share * (u1 * mu2 + u2 * mu1 + 2.0 * (l1 * c + l2 * d))
            own[4] += share * 2.0 * (u2 * mu2 + l3 * c + l4 * d)
    return out


@entry(fastmath={"contract"})
def covariance_pull(
    sites: FloatArray, cavity: FloatArray, places: Places, pull: FloatArray, members: IntArray, count: int
) -> FloatArray:
    """Gradient (count, count) in the covariances of a block's points from gradients (B, 5) in its cavities.

    members (B, 1 + m) are the rows of each target and its neighbours.
    """
    neighbours, used, shared, local = places
    size, m = neighbours.shape
    out, moments = np.zeros((count, count)), np.empty(5)
    one, two, far = np.empty((m + 1, 4)), np.empty((m + 1, 4)), np.empty((m + 1, 2))
    for n in range(size):
        _moment_pull(cavity[n], pull[n], moments)
        for a in range(m + 1):
            g1, g2, g3, g4, far[a, 0], far[a, 1] = 1.0, 0.0, 0.0, 1.0, 0.0, 0.0
            if a > 0:
                own, y, mu = sites[neighbours[n, a - 1]], shared[n, a - 1], local[n, a - 1]
                share = used[n, a - 1]
                s1, s2, s3 = -2.0 * share * own[2], -share * own[3], -2.0 * share * own[4]
                g1, g2 = -(s1 * y[0] + s2 * y[2]), -(s1 * y[1] + s2 * y[3])
                g3, g4 = -(s2 * y[0] + s3 * y[2]), -(s2 * y[1] + s3 * y[3])
                far[a, 0] = share * own[0] - s1 * mu[0] - s2 * mu[1]
                far[a, 1] = share * own[1] - s2 * mu[0] - s3 * mu[1]
            one[a, 0], one[a, 1], one[a, 2], one[a, 3] = g1, g2, g3, g4
            two[a, 0], two[a, 1] = g1 * moments[2] + g2 * moments[3], g1 * moments[3] + g2 * moments[4]
            two[a, 2], two[a, 3] = g3 * moments[2] + g4 * moments[3], g3 * moments[3] + g4 * moments[4]
        for a in range(m + 1):
            t1 = one[a, 0] * moments[0] + one[a, 1] * moments[1]
            t2 = one[a, 2] * moments[0] + one[a, 3] * moments[1]
            row = out[members[n, a]]
            for b in range(m + 1):
                value = t1 * far[b, 0] + t2 * far[b, 1]
                for k in range(4):
                    value += two[a, k] * one[b, k]
                row[members[n, b]] += value
    return out
