"""Kriging from the sites of a few neighbours: cavities of expectation propagation for many inputs, and their slopes.

Each of N targets n has m neighbours j. Under the prior x_n | neighbours ~ N(Σ_j w_j x_j, v 1) with w = K⁻¹k; the sites
exp(h_jᵀx_j - ½x_jᵀS_j x_j) of the neighbours make their posterior precision A = K⁻¹ ⊗ 1 + S, and

    Y = A⁻¹(w ⊗ 1) = Cov[x_j, x_n],   μ = A⁻¹h,   V = v 1 + wᵀY,   mean = wᵀμ,

one small symmetric system with three right sides. Sites may be indefinite (on the circle many are): A is factorised as
LDLᵀ, whose pivots tell whether it is positive definite. Natural parameters ξ belong to T(x) = (x₁, x₂, x₁², x₁x₂, x₂²):
S = -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]].

Slopes in the sites and in the kernel follow from Y and μ alone,

    d mean = Σ_j Y_jᵀ(dh_j - dS_j μ_j),   dV = -Σ_j Y_jᵀ dS_j Y_j,

and in the covariances K̃ of target and neighbours d mean = Σ_ab G_aᵀ dK̃_ab r_b, dV = Σ_ab G_aᵀ dK̃_ab G_b with G_n =
1, G_j = -S_j Y_j, r_n = 0, r_j = h_j - S_j μ_j. For the dense kernel matrix, where every marginal answers to every
site, the response is `moment_response`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.elementary import entry, inner
from mgvm._numerics.soft_circle import means, weigh
from mgvm._validation import FloatArray

IntArray = NDArray[np.int64]


@entry(fastmath={"contract", "reassoc", "nsz"})
def moment_response(covariance: FloatArray, mean: FloatArray, change: FloatArray) -> FloatArray:
    """dE[T] (N, 5) for natural parameters of the sites changed by `change` (N, 5), T = (x₁, x₂, x₁², x₁x₂, x₂²).

    With dΛ, dh the changes of precision and linear term, d mean = Σ(dh - dΛ mean) and dΣ_nn = -Σ_j Σ_nj dΛ_j Σ_jn;
    covariance (2N, 2N) has all first coordinates before all second. It is the covariance of T_n and T_j applied to the
    change, a symmetric matrix.
    """
    size = mean.shape[0]
    out, pull = np.empty((size, 5)), np.empty((5, size))
    for j in range(size):
        one, both, two = -2.0 * change[j, 2], -change[j, 3], -2.0 * change[j, 4]
        pull[0, j] = change[j, 0] - one * mean[j, 0] - both * mean[j, 1]
        pull[1, j] = change[j, 1] - both * mean[j, 0] - two * mean[j, 1]
        pull[2, j], pull[3, j], pull[4, j] = one, both, two
    for n in range(size):
        first = second = square = product = other = 0.0
        for j in range(size):
            a, b = covariance[n, j], covariance[n, size + j]
            c, d = covariance[size + n, j], covariance[size + n, size + j]
            one, both, two = pull[2, j], pull[3, j], pull[4, j]
            first += a * pull[0, j] + b * pull[1, j]
            second += c * pull[0, j] + d * pull[1, j]
            left, right = a * one + b * both, a * both + b * two
            square += left * a + right * b
            product += left * c + right * d
            other += (c * one + d * both) * c + (c * both + d * two) * d
        out[n, 0], out[n, 1] = first, second
        out[n, 2] = -square + 2.0 * mean[n, 0] * first
        out[n, 3] = -product + mean[n, 0] * second + mean[n, 1] * first
        out[n, 4] = -other + 2.0 * mean[n, 1] * second
    return out


# neighbours (N, m), which of them count (N, m), Y (N, m, 4) by rows, μ (N, m, 2)
Places = tuple[IntArray, FloatArray, FloatArray, FloatArray]


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
    """Mean and covariance of a tilted distribution from its nodes' probabilities and radial moments."""
    means(weights, powers, points, out)
    m1, m2 = out[0], out[1]
    floor = 1e-10  # that of `mgvm.inference._planar_gaussian`: the variance along the radius vanishes on the circle
    out[2], out[3], out[4] = out[2] - m1 * m1 + floor, out[3] - m1 * m2, out[4] - m2 * m2 + floor


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
    """Updates of the sites of `order` in turn, each with what its neighbours know by then; a site without distribution
    stays.

    Returns how far each marginal moved, in standard deviations; infinite for those without distribution.
    """
    values, points, radial_precision = tables
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
        if not math.isfinite(weigh(cavity, values[n], points, radial_precision, weights, powers)):
            continue
        _tilted(weights, powers, points, moments)
        if _natural(moments, matched):
            moved[place] = _distance(cavity, sites[n], moments)
            for k in range(5):
                sites[n, k] += damping * (matched[k] - cavity[k] - sites[n, k])
    return moved
