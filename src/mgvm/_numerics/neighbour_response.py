"""Slopes of kriging from the sites of neighbours, in the sites and in the kernel, from Y = Cov[x_j, x_n] and μ alone.

    d mean = Σ_j Y_jᵀ(dh_j - dS_j μ_j),   dV = -Σ_j Y_jᵀ dS_j Y_j,

and in the covariances K̃ of target and neighbours d mean = Σ_ab G_aᵀ dK̃_ab r_b, dV = Σ_ab G_aᵀ dK̃_ab G_b with G_n = 1,
G_j = -S_j Y_j, r_n = 0, r_j = h_j - S_j μ_j. The notation is that of `neighbour_propagation`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.compiler import entry, inner

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
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
