"""Gaussian processes on a line as Markov chains: smoothing, and what marginals answer to a change of the sites.

Both coordinates of a planar process share a state of p components each, d = 2p in all, first those of the first
coordinate: z₀ ~ N(0, P₀), z_{n+1} = A_n z_n + N(0, Q_n) in each coordinate; f = (c·z₁, c·z₂) is seen through sites
exp(hᵀf - ½fᵀSf). Filtering forward, then smoothing backward (Rauch, Tung & Striebel), costs O(N d³). With the gain
G_n = P_n A_nᵀ (A_n P_n A_nᵀ + Q_n)⁻¹ of the filtered covariance P_n,

    Cov[z_n, z_m | all] = G_n G_{n+1} … G_{m-1} Σ_m,   n < m,

so that sums over all m of what marginals n hear of sites m are two recursions, one from either end.

Sites may be indefinite, and so may what is filtered from some of them, while the posterior given all is a
distribution: the recursions are algebra that holds all the same. It is one where as many eigenvalues of the innovations
F_n = HPHᵀ + S_n⁻¹ are positive as of the S_n: by Sylvester's law of inertia, since K + S⁻¹ has the pivots F_n and
K⁻¹ + S has neg = pos(K + S⁻¹) - pos(S).
"""

from __future__ import annotations

import numpy as np

from mgvm._numerics.elementary import entry, inner
from mgvm._validation import FloatArray


@inner()
def _positive(one: float, both: float, two: float) -> int:
    """How many eigenvalues of a symmetric matrix are positive."""
    determinant, trace = one * two - both * both, one + two
    if determinant < 0.0:
        return 1
    if determinant == 0.0:
        return 1 if trace > 0.0 else 0
    return 2 if trace > 0.0 else 0


@inner()
def _surplus(a: float, b: float, d: float, one: float, both: float, two: float) -> int:
    """pos(V + S⁻¹) - pos(S) for V = [[a, b], [b, d]] and S = [[one, both], [both, two]], also where S is singular."""
    determinant, trace = one * two - both * both, one + two
    grown = (1.0 + a * one + b * both) * (1.0 + b * both + d * two)
    grown -= (a * both + b * two) * (b * one + d * both)  # det(1 + VS)
    if determinant == 0.0:
        # S⁻¹ has one eigenvalue at infinity, or both.
        return 0 if trace == 0.0 else int(grown * trace > 0.0) - int(trace > 0.0)
    found = 1 if grown / determinant < 0.0 else 2 if a + d + trace / determinant > 0.0 else 0
    return found - _positive(one, both, two) if grown == grown else 1  # that is NaN


@inner(fastmath={"contract"})
def _sandwich(a: float, b: float, d: float, one: float, both: float, two: float) -> tuple[float, float, float]:
    """The entries of V S V, V = [[a, b], [b, d]] and S = [[one, both], [both, two]]."""
    q, r, s, t = a * one + b * both, a * both + b * two, b * one + d * both, b * both + d * two
    return q * a + r * b, q * b + r * d, s * b + t * d


@inner(fastmath={"contract"})
def _divide(matrix: FloatArray, right: FloatArray, count: int) -> None:
    """right := right matrix⁻¹ for a symmetric matrix, which is overwritten by its factors LDLᵀ."""
    for j in range(count):
        for k in range(j):
            matrix[k, j] = matrix[j, k] * matrix[k, k]
        for i in range(j, count):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[k, j]
            matrix[i, j] = total if i == j else total / matrix[j, j]
    for row in range(count):
        for i in range(count):
            total = right[row, i]
            for k in range(i):
                total -= matrix[i, k] * right[row, k]
            right[row, i] = total
        for i in range(count):
            right[row, i] /= matrix[i, i]
        for i in range(count - 1, -1, -1):
            total = right[row, i]
            for k in range(i + 1, count):
                total -= matrix[k, i] * right[row, k]
            right[row, i] = total


@inner(fastmath={"contract"})
def _congruence(left: FloatArray, middle: FloatArray, work: FloatArray, out: FloatArray, count: int) -> None:
    """out := left middle leftᵀ for a symmetric middle, which may be `out` itself."""
    for i in range(count):
        for k in range(count):
            work[i, k] = 0.0
        for j in range(count):
            value = left[i, j]
            for k in range(count):
                work[i, k] += value * middle[j, k]
    for i in range(count):
        for k in range(i + 1):
            total = 0.0
            for j in range(count):
                total += work[i, j] * left[k, j]
            out[i, k] = total
            out[k, i] = total


@inner(fastmath={"contract"})
def _turn(left: FloatArray, vector: FloatArray, work: FloatArray, count: int) -> None:
    """vector := left vector."""
    for i in range(count):
        work[i] = 0.0
        for j in range(count):
            work[i] += left[i, j] * vector[j]
    for i in range(count):
        vector[i] = work[i]


Chain = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # A (N-1, p, p), Q (N-1, p, p), P₀ (p, p), c (p,)


@entry(fastmath={"contract"})
def smooth(chain: Chain, sites: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, bool]:
    """E[f] (N, 2), Cov[f] (N, 3), Cov[z, f] (N, 2, d), gains (N - 1, d, d), and whether there is a distribution.

    `sites` (N, 5) are h and the entries S₁₁, S₁₂, S₂₂.
    """
    steps, noises, first, seen = chain
    size, p = sites.shape[0], first.shape[0]
    d = 2 * p
    gains = np.empty((max(size - 1, 0), d, d))
    ahead, here = np.zeros((size, d, d)), np.empty((size, d, d))  # covariances before and after an own site
    ahead_mean, here_mean = np.zeros((size, d)), np.empty((size, d))
    factor, pull, weight = np.empty((d, d)), np.empty((2, d)), np.empty((2, 2))
    surplus = 0
    for n in range(size):
        own, mean = ahead[n], ahead_mean[n]
        if n == 0:
            for i in range(p):
                for j in range(p):
                    own[i, j] = own[p + i, p + j] = first[i, j]
        else:
            gain, before = gains[n - 1], here[n - 1]
            for i in range(d):  # P Aᵀ
                for half in range(0, d, p):
                    for j in range(p):
                        total = 0.0
                        for k in range(p):
                            total += before[i, half + k] * steps[n - 1, j, k]
                        gain[i, half + j] = total
            for half in range(0, d, p):
                for i in range(p):
                    for j in range(d):
                        total = 0.0
                        for k in range(p):
                            total += steps[n - 1, i, k] * gain[half + k, j]
                        own[half + i, j] = total
                    for j in range(p):
                        own[half + i, half + j] += noises[n - 1, i, j]
                    total = 0.0
                    for k in range(p):
                        total += steps[n - 1, i, k] * here_mean[n - 1, half + k]
                    mean[half + i] = total
            for i in range(d):
                for j in range(d):
                    factor[i, j] = own[i, j]
            _divide(factor, gain, d)
        for i in range(d):
            pull[0, i] = pull[1, i] = 0.0
            for k in range(p):
                pull[0, i] += own[i, k] * seen[k]
                pull[1, i] += own[i, p + k] * seen[k]
        a = b = e = x = y = 0.0
        for k in range(p):
            a += pull[0, k] * seen[k]
            b += pull[0, p + k] * seen[k]
            e += pull[1, p + k] * seen[k]
            x += mean[k] * seen[k]
            y += mean[p + k] * seen[k]
        one, both, two = sites[n, 2], sites[n, 3], sites[n, 4]
        surplus += _surplus(a, b, e, one, both, two)
        # (1 + SV)⁻¹, which turns h - Sm into the pull on the mean and S into that on the covariance.
        q, r = 1.0 + one * a + both * b, one * b + both * e
        s, t = both * a + two * b, 1.0 + both * b + two * e
        scale = 1.0 / (q * t - r * s)
        h, g = sites[n, 0] - one * x - both * y, sites[n, 1] - both * x - two * y
        weight[0, 0], weight[1, 1] = scale * (t * one - r * both), scale * (q * two - s * both)
        weight[0, 1] = weight[1, 0] = scale * (t * both - r * two)
        h, g = scale * (t * h - r * g), scale * (q * g - s * h)
        for i in range(d):
            here_mean[n, i] = mean[i] + pull[0, i] * h + pull[1, i] * g
            left = weight[0, 0] * pull[0, i] + weight[0, 1] * pull[1, i]
            right = weight[1, 0] * pull[0, i] + weight[1, 1] * pull[1, i]
            for j in range(i + 1):
                here[n, i, j] = here[n, j, i] = own[i, j] - left * pull[0, j] - right * pull[1, j]
    # From here on `here` becomes what all sites tell.
    moved = np.empty((d, d))
    for n in range(size - 2, -1, -1):
        for i in range(d):
            for j in range(d):
                ahead[n + 1, i, j] = here[n + 1, i, j] - ahead[n + 1, i, j]
        _congruence(gains[n], ahead[n + 1], factor, moved, d)
        for i in range(d):
            for j in range(d):
                here[n, i, j] += moved[i, j]
                here_mean[n, i] += gains[n, i, j] * (here_mean[n + 1, j] - ahead_mean[n + 1, j])
    found, spread, cross = np.zeros((size, 2)), np.zeros((size, 3)), np.zeros((size, 2, d))
    for n in range(size):
        for k in range(p):
            found[n, 0] += here_mean[n, k] * seen[k]
            found[n, 1] += here_mean[n, p + k] * seen[k]
            for i in range(d):
                cross[n, 0, i] += here[n, i, k] * seen[k]
                cross[n, 1, i] += here[n, i, p + k] * seen[k]
        for k in range(p):
            spread[n, 0] += cross[n, 0, k] * seen[k]
            spread[n, 1] += cross[n, 0, p + k] * seen[k]
            spread[n, 2] += cross[n, 1, p + k] * seen[k]
    return found, spread, cross, gains, surplus == 0


@inner(fastmath={"contract"})
def _hear_others(
    gains: FloatArray, cross: FloatArray, seen: FloatArray, pull: FloatArray, change: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σ_m Cov[f_n, f_m] pull_m (N, 2) and the entries of Σ_m Cov[f_n, f_m] change_m Cov[f_m, f_n] (N, 3) over m ≠ n.

    `pull` is (N, 2), `change` the entries (N, 3) of symmetric matrices.
    """
    size, d = pull.shape[0], cross.shape[2]
    p = d // 2
    mean, spread = np.zeros((size, 2)), np.zeros((size, 3))
    vector, matrix = np.zeros(d), np.zeros((d, d))
    moved, work, back = np.empty(d), np.empty((d, d)), np.empty((d, d))
    for n in range(size - 2, -1, -1):  # those ahead
        left, right = cross[n + 1, 0], cross[n + 1, 1]
        one, both, two = change[n + 1, 0], change[n + 1, 1], change[n + 1, 2]
        for i in range(d):
            vector[i] += left[i] * pull[n + 1, 0] + right[i] * pull[n + 1, 1]
            first, second = one * left[i] + both * right[i], both * left[i] + two * right[i]
            for j in range(d):
                matrix[i, j] += first * left[j] + second * right[j]
        _congruence(gains[n], matrix, work, matrix, d)
        _turn(gains[n], vector, moved, d)
        for i in range(p):
            mean[n, 0] += seen[i] * vector[i]
            mean[n, 1] += seen[i] * vector[p + i]
            for j in range(p):
                spread[n, 0] += seen[i] * seen[j] * matrix[i, j]
                spread[n, 1] += seen[i] * seen[j] * matrix[i, p + j]
                spread[n, 2] += seen[i] * seen[j] * matrix[p + i, p + j]
    for i in range(d):
        vector[i] = 0.0
        for j in range(d):
            matrix[i, j] = 0.0
    for n in range(1, size):  # those behind
        one, both, two = change[n - 1, 0], change[n - 1, 1], change[n - 1, 2]
        for i in range(p):
            vector[i] += seen[i] * pull[n - 1, 0]
            vector[p + i] += seen[i] * pull[n - 1, 1]
            for j in range(p):
                both_seen = seen[i] * seen[j]
                matrix[i, j] += both_seen * one
                matrix[i, p + j] += both_seen * both
                matrix[p + i, j] += both_seen * both
                matrix[p + i, p + j] += both_seen * two
        for i in range(d):
            for j in range(d):
                back[i, j] = gains[n - 1, j, i]
        _congruence(back, matrix, work, matrix, d)
        _turn(back, vector, moved, d)
        left, right = cross[n, 0], cross[n, 1]
        for i in range(d):
            mean[n, 0] += left[i] * vector[i]
            mean[n, 1] += right[i] * vector[i]
            first = second = 0.0
            for j in range(d):
                first += matrix[i, j] * left[j]
                second += matrix[i, j] * right[j]
            spread[n, 0] += left[i] * first
            spread[n, 1] += left[i] * second
            spread[n, 2] += right[i] * second
    return mean, spread


# of x: E (N, 2), the entries of Cov (N, 3) and of the slope dx/df of its mean (N, 3); gains, Cov[z, f] and c
Smoothed = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


@entry(fastmath={"contract"})
def line_response(smoothed: Smoothed, change: FloatArray) -> FloatArray:
    """dE[T] (N, 5) for natural parameters of the sites changed by `change` (N, 5), T = (x₁, x₂, x₁², x₁x₂, x₂²).

    x is f with a nugget: given f, sites leave its mean at M(f + νh), M = (1 + νS)⁻¹, and Cov[x_n, x_m] is
    M_n Cov[f_n, f_m] M_m of different inputs.
    """
    mean, spread, slope, gains, cross, seen = smoothed
    size = mean.shape[0]
    pull, turn = np.empty((size, 2)), np.empty((size, 3))
    own_pull, own_turn = np.empty((size, 2)), np.empty((size, 3))
    for n in range(size):
        one, both, two = -2.0 * change[n, 2], -change[n, 3], -2.0 * change[n, 4]
        x, y = mean[n, 0], mean[n, 1]
        g, h = change[n, 0] - one * x - both * y, change[n, 1] - both * x - two * y
        own_pull[n, 0], own_pull[n, 1] = g, h
        own_turn[n, 0], own_turn[n, 1], own_turn[n, 2] = one, both, two
        a, b, d = slope[n, 0], slope[n, 1], slope[n, 2]
        pull[n, 0], pull[n, 1] = a * g + b * h, b * g + d * h
        turn[n, 0], turn[n, 1], turn[n, 2] = _sandwich(a, b, d, one, both, two)
    first, second = _hear_others(gains, cross, seen, pull, turn)
    out = np.empty((size, 5))
    for n in range(size):
        a, b, d = slope[n, 0], slope[n, 1], slope[n, 2]
        u, v, w = spread[n, 0], spread[n, 1], spread[n, 2]
        g, h = own_pull[n, 0], own_pull[n, 1]
        x = a * first[n, 0] + b * first[n, 1] + u * g + v * h
        y = b * first[n, 0] + d * first[n, 1] + v * g + w * h
        others = _sandwich(a, b, d, second[n, 0], second[n, 1], second[n, 2])
        own = _sandwich(u, v, w, own_turn[n, 0], own_turn[n, 1], own_turn[n, 2])
        out[n, 0], out[n, 1] = x, y
        out[n, 2] = -others[0] - own[0] + 2.0 * mean[n, 0] * x
        out[n, 3] = -others[1] - own[1] + mean[n, 0] * y + mean[n, 1] * x
        out[n, 4] = -others[2] - own[2] + 2.0 * mean[n, 1] * y
    return out
