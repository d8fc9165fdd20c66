"""Moments of exp(hᵀv - ½vᵀGv), v = (cos φ, sin φ), on a torus of few angles, by quadrature around its modes.

At a mode N = -f'' is factorised as UUᵀ with U upper triangular, so that L = U⁻ᵀ has LLᵀ = N⁻¹; Gauss-Hermite nodes z
stand at φ = mode + Lz with log weight f(φ) + ½|z|² + log w. Pivots of N are kept above a floor at which the nodes of an
angle are spread evenly over its turn: a distribution that says nothing of an angle is integrated by the trapezoid rule
of the circle, all but.

Modes are found by Newton's steps, damped where the Hessian calls for it. The first start is the better of given angles
and of the directions of Rh, R a ridge inverse of G. At a mode (G + Λ)v = h with multipliers λ_d of c_d² + s_d² = 1, and
at any other angles

    f(v') = f(v) - ½(v' - v)ᵀ(G + Λ)(v' - v):

where all eigenvalues of G + Λ are above μ = 1, the mode is the highest, and what is far from it is ½μ|v' - v|² lower at
least. Only without that certificate other modes are looked for, at offsets from the first.

`mixture_moments` has means and second moments of mixtures of normal distributions whose means are linear in what the
rows say.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.elementary import bounded_exp, entry, inner, sin_cos

FloatArray = NDArray[np.float64]
TURN = math.tau
_SUMS = {"contract", "reassoc", "nsz"}  # what a compiler may do to sums: vectorise them


@inner(fastmath={"contract"})
def set_waves(phi: FloatArray, v: FloatArray) -> None:
    """v = (cos φ, sin φ)."""
    size = phi.size
    for d in range(size):
        v[size + d], v[d] = sin_cos(phi[d])


@inner(fastmath=_SUMS)
def log_density(h: FloatArray, G: FloatArray, v: FloatArray, rest: FloatArray) -> float:
    """hᵀv - ½vᵀGv, and h - Gv into `rest`."""
    total = 0.0
    for i in range(h.size):
        pulled = 0.0
        for j in range(h.size):
            pulled += G[i, j] * v[j]
        rest[i] = h[i] - pulled
        total += (h[i] - 0.5 * pulled) * v[i]
    return total


@inner(fastmath=_SUMS)
def curvature(G: FloatArray, v: FloatArray, rest: FloatArray, slope: FloatArray, N: FloatArray) -> None:
    """Gradient and negative Hessian of f in the angles, from v and h - Gv."""
    size = slope.size
    for i in range(size):
        ci, si = v[i], v[size + i]
        slope[i] = ci * rest[size + i] - si * rest[i]
        for j in range(i + 1):
            cj, sj = v[j], v[size + j]
            across = G[i, size + j] * si * cj + G[size + i, j] * ci * sj
            N[i, j] = N[j, i] = G[i, j] * si * sj + G[size + i, size + j] * ci * cj - across
        N[i, i] += ci * rest[i] + si * rest[size + i]


@inner(fastmath={"contract"})
def factor(N: FloatArray, lift: float, floor: float, U: FloatArray) -> bool:
    """U upper triangular with UUᵀ = N + lift; pivots are lifted to the floor, and False tells of one below zero."""
    size = N.shape[0]
    sound = True
    for j in range(size - 1, -1, -1):
        pivot = N[j, j] + lift
        for k in range(j + 1, size):
            pivot -= U[j, k] * U[j, k]
        if pivot <= 0.0:
            sound = False
        if not pivot > floor:
            pivot = floor
        U[j, j] = math.sqrt(pivot)
        for i in range(j):
            rest = N[i, j]
            for k in range(j + 1, size):
                rest -= U[i, k] * U[j, k]
            U[i, j] = rest / U[j, j]
    return sound


@inner(fastmath={"contract"})
def _solve(U: FloatArray, right: FloatArray, out: FloatArray) -> float:
    """(UUᵀ)⁻¹ right, and right · that."""
    size = right.size
    for i in range(size - 1, -1, -1):
        rest = right[i]
        for k in range(i + 1, size):
            rest -= U[i, k] * out[k]
        out[i] = rest / U[i, i]
    for i in range(size):
        rest = out[i]
        for k in range(i):
            rest -= U[k, i] * out[k]
        out[i] = rest / U[i, i]
    total = 0.0
    for i in range(size):
        total += right[i] * out[i]
    return total


@inner()
def _ascend(
    h: FloatArray, G: FloatArray, phi: FloatArray, value: float, lift: float, work: FloatArray, square: FloatArray
) -> tuple[float, float]:
    """One step up, shortened by a lift of the Hessian until it gains; the same value where none does."""
    size = phi.size
    v, rest, slope, step, new = work[0], work[1], work[2][:size], work[3][:size], work[4][:size]
    largest = 1e-3
    for d in range(size):
        largest = max(largest, abs(square[0][d, d]))
    while lift <= 1e12 * largest:
        if factor(square[0], lift, 1e-9 * largest, square[1]):
            decrement = _solve(square[1], slope, step)
            if decrement <= 1e-13 * (1.0 + abs(value)):
                break
            longest = 1.0
            for d in range(size):
                longest = max(longest, abs(step[d]))
            for d in range(size):
                new[d] = phi[d] + step[d] / longest
            set_waves(new, v)
            found = log_density(h, G, v, rest)
            if found > value + 1e-3 * decrement / longest:
                phi[:] = new
                return found, 0.2 * lift if lift > 1e-6 * largest else 0.0
        lift = max(4.0 * lift, 0.03 * largest)
    return value, lift


@inner()
def _climb(h: FloatArray, G: FloatArray, phi: FloatArray, work: FloatArray, square: FloatArray) -> float:
    """Newton's steps to a mode, in place; the value there. `work` (6, 2D) and `square` (2, D, D) are room."""
    size = phi.size
    v, rest, slope = work[0], work[1], work[2][:size]
    set_waves(phi, v)
    value = log_density(h, G, v, rest)
    lift = 0.0
    for _ in range(60):
        curvature(G, v, rest, slope, square[0])
        found, lift = _ascend(h, G, phi, value, lift, work, square)
        if not found > value:
            break
        value = found
    return value


@inner(fastmath={"contract"})
def _cold(R: FloatArray, h: FloatArray, phi: FloatArray) -> None:
    """The directions of Rh, turned by 1e-4 radians a column: exact symmetry would leave a climb on a pass."""
    size = phi.size
    for d in range(size):
        x = y = 0.0
        for j in range(h.size):
            x += R[d, j] * h[j]
            y += R[size + d, j] * h[j]
        phi[d] = math.atan2(y, x) + 1e-4 * (d + 1)


@inner()
def first_start(
    h: FloatArray, G: FloatArray, R: FloatArray, given: FloatArray, phi: FloatArray, work: FloatArray
) -> None:
    """The better of the cold start and the given one."""
    _cold(R, h, phi)
    if given[0] == given[0]:
        set_waves(phi, work[5])
        cold = log_density(h, G, work[5], work[0])
        set_waves(given, work[5])
        if log_density(h, G, work[5], work[0]) >= cold:
            phi[:] = given


@inner()
def _apart(one: FloatArray, two: FloatArray, N: FloatArray) -> bool:
    """Whether two modes are four standard deviations apart, so that their nodes do not count the same mass twice."""
    total = 0.0
    for i in range(one.size):
        away = one[i] - two[i]
        away -= TURN * math.floor(away / TURN + 0.5)
        for j in range(one.size):
            other = one[j] - two[j]
            total += N[i, j] * away * (other - TURN * math.floor(other / TURN + 0.5))
    return total > 16.0


@inner(fastmath={"contract"})
def _alone(h: FloatArray, G: FloatArray, mode: FloatArray, work: FloatArray, L: FloatArray) -> bool:
    """Whether G + Λ - μ has a Cholesky factor, which is left in L."""
    size = mode.size
    set_waves(mode, work[0])
    log_density(h, G, work[0], work[1])
    for i in range(2 * size):
        for j in range(i + 1):
            rest = G[i, j]
            if i == j:
                d = i % size
                rest += work[0][d] * work[1][d] + work[0][size + d] * work[1][size + d] - 1.0
            for k in range(j):
                rest -= L[i, k] * L[j, k]
            if i == j:
                if not rest > 0.0:
                    return False
                L[i, i] = math.sqrt(rest)
            else:
                L[i, j] = rest / L[j, j]
    return True


@inner()
def modes(
    h: FloatArray,
    G: FloatArray,
    offsets: FloatArray,
    found: FloatArray,
    room: tuple[FloatArray, FloatArray, FloatArray],
) -> int:
    """Climb from found[0], and unless that is the only mode that counts from there plus all offsets.

    How many modes there are, the highest first; `room` is (6, 2D), (2, D, D) and (2D, 2D).
    """
    work, square, whole = room
    values = np.empty(found.shape[0])
    values[0] = _climb(h, G, found[0], work, square)
    size, count = offsets.shape[1], 1
    if offsets.shape[0] == 0 or _alone(h, G, found[0], work, whole):
        return count
    for k in range(offsets.shape[0]):
        for d in range(size):
            found[count, d] = found[0, d] + offsets[k, d]
        values[count] = _climb(h, G, found[count], work, square)
        new = values[count] > values[0] - 30.0  # nats: lower ones do not count
        if new:
            set_waves(found[count], work[0])
            log_density(h, G, work[0], work[1])
            curvature(G, work[0], work[1], work[2][:size], square[0])
        for j in range(count):
            new = new and _apart(found[j], found[count], square[0])
        if new:
            if values[count] > values[0]:
                for d in range(size):
                    found[0, d], found[count, d] = found[count, d], found[0, d]
                values[0], values[count] = values[count], values[0]
            count += 1
    return count


@entry(fastmath={"contract", "reassoc", "nsz"})
def mixture_moments(
    shares: FloatArray, linear: FloatArray, offset: FloatArray, gain: FloatArray, mean: FloatArray, second: FloatArray
) -> None:
    """Adds Σ_k r_nk μ_nk to mean (n, P), and Σ_k r_nk (K_k + μ_nk μ_nkᵀ), its lower triangle, to second.

    μ_nk = a_k + K_k h_n with shares r (n, K), linear h (n, P), offset a (K, P) and gain K (K, P, P).
    """
    rows, parts = shares.shape
    size = linear.shape[1]
    centre = np.empty(size)
    for n in range(rows):
        for k in range(parts):
            share = shares[n, k]
            if share < 1e-9:  # does not count
                continue
            for i in range(size):
                total = offset[k, i]
                for j in range(size):
                    total += gain[k, i, j] * linear[n, j]
                centre[i] = total
            at = 0
            for i in range(size):
                mean[n, i] += share * centre[i]
                for j in range(i + 1):
                    second[n, at] += share * (gain[k, i, j] + centre[i] * centre[j])
                    at += 1


@inner(fastmath={"contract"})
def _place(mode: FloatArray, U: FloatArray, points: FloatArray, turned: FloatArray, waves: FloatArray) -> None:
    """Cosines and sines at mode + U⁻ᵀz for all nodes z."""
    size, count = points.shape
    for d in range(size):
        row = turned[d]
        for q in range(count):
            row[q] = points[d, q]
        # Uᵀ is lower triangular: forward substitution, all nodes at once.
        for k in range(d):
            u = U[k, d]
            for q in range(count):
                row[q] -= u * turned[k, q]
        scale = 1.0 / U[d, d]
        for q in range(count):
            row[q] *= scale
        for q in range(count):
            waves[size + d, q], waves[d, q] = sin_cos(mode[d] + row[q])


@inner(fastmath=_SUMS)
def _at_nodes(h: FloatArray, G: FloatArray, waves: FloatArray, weights: FloatArray, logs: FloatArray) -> float:
    """Log weights of all nodes, relative to the largest in the end, and that."""
    count, size = logs.size, h.size
    for q in range(count):
        logs[q] = weights[q]
    for i in range(size):
        for q in range(count):
            logs[q] += (h[i] - 0.5 * G[i, i] * waves[i, q]) * waves[i, q]
        for j in range(i):
            g = G[i, j]
            for q in range(count):
                logs[q] -= g * waves[i, q] * waves[j, q]
    top = logs[0]
    for q in range(1, count):
        top = max(top, logs[q])
    return top


@inner(fastmath={"contract"})
def _shares(logs: FloatArray, top: float) -> float:
    """exp of the log weights relative to the largest, scaled to one; their sum before that."""
    total = 0.0
    for q in range(logs.size):
        logs[q] = bounded_exp(max(logs[q] - top, -700.0))
    for q in range(logs.size):
        total += logs[q]
    for q in range(logs.size):
        logs[q] /= total
    return total


@inner(fastmath=_SUMS)
def _gather(waves: FloatArray, shares: FloatArray, mean: FloatArray, second: FloatArray) -> None:
    """Weighted means of v and of the lower triangle of vvᵀ."""
    count, at = shares.size, 0
    for i in range(mean.size):
        total = 0.0
        for q in range(count):
            total += shares[q] * waves[i, q]
        mean[i] = total
        for j in range(i + 1):
            both = 0.0
            for q in range(count):
                both += shares[q] * waves[i, q] * waves[j, q]
            second[at] = both
            at += 1


@inner()
def _around(
    h: FloatArray,
    G: FloatArray,
    mode: FloatArray,
    rule: tuple[FloatArray, FloatArray],
    floor: float,
    room: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
) -> float:
    """log of the mass around a mode; shares and waves of the nodes are left in the room."""
    work, square, logs, turned, waves = room
    size = mode.size
    set_waves(mode, work[0])
    log_density(h, G, work[0], work[1])
    curvature(G, work[0], work[1], work[2][:size], square[0])
    factor(square[0], 0.0, floor, square[1])
    _place(mode, square[1], rule[0], turned, waves)
    top = _at_nodes(h, G, waves, rule[1], logs)
    total = top + math.log(_shares(logs, top))
    for d in range(size):
        total -= math.log(square[1][d, d])
    return total


@inner()
def _merge(share: float, new: FloatArray, kept: FloatArray) -> None:
    """kept = (1 - share) kept + share new."""
    for i in range(new.size):
        kept[i] += share * (new[i] - kept[i])


@entry()
def quadrature(
    h: FloatArray,
    G: FloatArray,
    starts: tuple[FloatArray, FloatArray, FloatArray],
    rule: tuple[FloatArray, FloatArray],
    floor: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log normaliser (n,), mode (n, D), E[v] (n, 2D) and the lower triangle of E[vvᵀ] (n, D(2D+1)) of n distributions.

    Parameters
    ----------
    h : (n, 2D), C-ordered
        Linear terms.
    G : (2D, 2D)
        What all distributions share.
    starts : (2D, 2D), (n, D), (E, D)
        R of the cold start; angles to begin with, NaN in the first of a row for none; offsets from the first mode at
        which other modes are looked for where it may not be the only one that counts.
    rule : (D, Q), (Q,)
        Nodes z, and log w + ½|z|² + ½D log 2π.
    floor : float
        Of the pivots of N.
    """
    count, twice = h.shape
    size = twice // 2
    R, given, offsets = starts
    log_normalizer, highest = np.empty(count), np.empty((count, size))
    means, seconds = np.empty((count, twice)), np.empty((count, size * (twice + 1)))
    room = (
        np.empty((6, twice)),
        np.zeros((2, size, size)),
        np.empty(rule[1].size),
        np.empty(rule[0].shape),
        np.empty((twice, rule[1].size)),
    )
    found = np.empty((offsets.shape[0] + 1, size))
    mean, second, whole = np.empty(twice), np.empty(seconds.shape[1]), np.empty((twice, twice))
    for n in range(count):
        first_start(h[n], G, R, given[n], found[0], room[0])
        number = modes(h[n], G, offsets, found, (room[0], room[1], whole))
        log_normalizer[n] = _around(h[n], G, found[0], rule, floor, room)
        _gather(room[4], room[2], means[n], seconds[n])
        for k in range(1, number):
            log_mass = _around(h[n], G, found[k], rule, floor, room)
            _gather(room[4], room[2], mean, second)
            share = 1.0 / (1.0 + math.exp(min(log_normalizer[n] - log_mass, 700.0)))
            log_normalizer[n] = max(log_normalizer[n], log_mass) - math.log(max(share, 1.0 - share))
            _merge(share, mean, means[n])
            _merge(share, second, seconds[n])
        for d in range(size):
            highest[n, d] = found[0, d] - TURN * math.floor(found[0, d] / TURN + 0.5)
    return log_normalizer, highest, means, seconds
