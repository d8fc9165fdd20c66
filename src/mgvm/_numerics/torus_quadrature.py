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

from mgvm._numerics.elementary import bounded_exp, entry, inner, sin_cos
from mgvm._validation import FloatArray

TURN = math.tau
_SUMS = {"contract", "reassoc", "nsz"}  # what a compiler may do to sums: vectorise them


# ---- f, its slope and its curvature ----------------------------------------------------------------------------------
#
# `work` (5, 2D) has rows for v, h - Gv, the slope, a step, and angles.


@inner(fastmath=_SUMS)
def _log_density(h: FloatArray, G: FloatArray, phi: FloatArray, work: FloatArray) -> float:
    """f = hᵀv - ½vᵀGv; v and h - Gv are left in `work`."""
    size = G.shape[0] // 2
    for d in range(size):
        work[0, size + d], work[0, d] = sin_cos(phi[d])
    total = 0.0
    for i in range(h.size):
        pulled = 0.0
        for j in range(h.size):
            pulled += G[i, j] * work[0, j]
        work[1, i] = h[i] - pulled
        total += (h[i] - 0.5 * pulled) * work[0, i]
    return total


@inner(fastmath=_SUMS)
def _curvature(G: FloatArray, work: FloatArray, N: FloatArray) -> None:
    """Gradient and negative Hessian of f in the angles, from v and h - Gv."""
    size = N.shape[0]
    for i in range(size):
        ci, si = work[0, i], work[0, size + i]
        work[2, i] = ci * work[1, size + i] - si * work[1, i]
        for j in range(i + 1):
            cj, sj = work[0, j], work[0, size + j]
            across = G[i, size + j] * si * cj + G[size + i, j] * ci * sj
            N[i, j] = N[j, i] = G[i, j] * si * sj + G[size + i, size + j] * ci * cj - across
        N[i, i] += ci * work[1, i] + si * work[1, size + i]


@inner(fastmath={"contract"})
def _factor(N: FloatArray, lift: float, floor: float, U: FloatArray) -> bool:
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


# ---- modes -----------------------------------------------------------------------------------------------------------


@inner(fastmath={"contract"})
def _solve(U: FloatArray, work: FloatArray) -> tuple[float, float]:
    """The step (UUᵀ)⁻¹ slope into `work`; slope · step, and the step's longest entry, at least 1."""
    size = U.shape[0]
    for i in range(size - 1, -1, -1):
        rest = work[2, i]
        for k in range(i + 1, size):
            rest -= U[i, k] * work[3, k]
        work[3, i] = rest / U[i, i]
    total, longest = 0.0, 1.0
    for i in range(size):
        rest = work[3, i]
        for k in range(i):
            rest -= U[k, i] * work[3, k]
        work[3, i] = rest / U[i, i]
        total += work[2, i] * work[3, i]
        longest = max(longest, abs(work[3, i]))
    return total, longest


@inner()
def _climb(h: FloatArray, G: FloatArray, phi: FloatArray, work: FloatArray, N: FloatArray, U: FloatArray) -> float:
    """Newton's steps to a mode, in place; the value there. A lift of the Hessian shortens a step until it gains."""
    value, lift = _log_density(h, G, phi, work), 0.0
    for _ in range(60):
        _curvature(G, work, N)
        largest = 1e-3
        for d in range(phi.size):
            largest = max(largest, abs(N[d, d]))
        gained = False
        while not gained and lift <= 1e12 * largest:
            if _factor(N, lift, 1e-9 * largest, U):
                decrement, longest = _solve(U, work)
                if decrement <= 1e-13 * (1.0 + abs(value)):
                    return value
                for d in range(phi.size):
                    work[4, d] = phi[d] + work[3, d] / longest
                found = _log_density(h, G, work[4], work)
                gained = found > value + 1e-3 * decrement / longest
            if gained:
                value = found
            else:
                lift = max(4.0 * lift, 0.03 * largest)
        if not gained:
            return value
        for d in range(phi.size):
            phi[d] = work[4, d]
        lift = 0.2 * lift if lift > 1e-6 * largest else 0.0
    return value


@inner(fastmath={"contract"})
def _is_alone(G: FloatArray, work: FloatArray, L: FloatArray) -> bool:
    """Whether G + Λ - μ has a Cholesky factor, which is left in L; v and h - Gv are those of a mode."""
    size = G.shape[0] // 2
    for i in range(2 * size):
        for j in range(i + 1):
            rest = G[i, j]
            for k in range(j):
                rest -= L[i, k] * L[j, k]
            if j < i:
                L[i, j] = rest / L[j, j]
            else:
                d = i % size
                rest += work[0, d] * work[1, d] + work[0, size + d] * work[1, size + d] - 1.0
                if not rest > 0.0:
                    return False
                L[i, i] = math.sqrt(rest)
    return True


@inner(fastmath={"contract"})
def _is_apart(found: FloatArray, count: int, N: FloatArray, work: FloatArray) -> bool:
    """Whether found[count] is four standard deviations from all before it: nodes would count the same mass twice."""
    for k in range(count):
        total = 0.0
        for i in range(N.shape[0]):
            away = (found[k, i] - found[count, i]) / TURN
            work[3, i] = TURN * (away - math.floor(away + 0.5))
            total += N[i, i] * work[3, i] * work[3, i]
            for j in range(i):
                total += 2.0 * N[i, j] * work[3, i] * work[3, j]
        if not total > 16.0:
            return False
    return True


@inner()
def _start(h: FloatArray, G: FloatArray, R: FloatArray, given: FloatArray, phi: FloatArray, work: FloatArray) -> None:
    """The better of the given angles and of the directions of Rh.

    These are turned by 1e-4 radians a column: exact symmetry would leave a climb on a pass.
    """
    size = phi.size
    for d in range(size):
        x = y = 0.0
        for j in range(h.size):
            x += R[d, j] * h[j]
            y += R[size + d, j] * h[j]
        phi[d] = math.atan2(y, x) + 1e-4 * (d + 1)
    if given[0] == given[0]:
        cold = _log_density(h, G, phi, work)
        if _log_density(h, G, given, work) >= cold:
            for d in range(size):
                phi[d] = given[d]


@entry()
def _find_modes(
    h: FloatArray, G: FloatArray, R: FloatArray, given: FloatArray, offsets: FloatArray, found: FloatArray
) -> FloatArray:
    """Modes of each distribution into found (n, 1 + offsets, D), the highest first; how many there are, (n, 1).

    Unless the first is the only one that counts, others are looked for from there plus all offsets.
    """
    size, twice = offsets.shape[1], h.shape[1]
    number, work = np.empty((h.shape[0], 1)), np.empty((5, twice))
    N, U, L = np.empty((size, size)), np.empty((size, size)), np.empty((twice, twice))
    for n in range(h.shape[0]):
        # A bare 0 is a type of its own to the compiler: what it is handed to would compile twice.
        modes, count, highest = found[n], 0 * size, 0.0
        _start(h[n], G, R, given[n], modes[0], work)
        for k in range(offsets.shape[0] + 1):
            if k > 0:
                for d in range(size):
                    modes[count, d] = modes[0, d] + offsets[k - 1, d]
            value = _climb(h[n], G, modes[count], work, N, U)
            if k > 0 and not value > highest - 30.0:  # nats: lower ones do not count
                continue
            _log_density(h[n], G, modes[count], work)
            if k == 0:
                highest, count = value, count + 1
                if _is_alone(G, work, L):
                    break
                continue
            _curvature(G, work, N)
            if _is_apart(modes, count, N, work):
                if value > highest:
                    highest = value
                    for d in range(size):
                        modes[0, d], modes[count, d] = modes[count, d], modes[0, d]
                count += 1
        number[n, 0] = count
    return number


# ---- moments ---------------------------------------------------------------------------------------------------------


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
def _weigh(h: FloatArray, G: FloatArray, waves: FloatArray, weights: FloatArray, shares: FloatArray) -> float:
    """The nodes' shares of the mass around a mode, and the log of the mass."""
    count, size = shares.size, h.size
    for q in range(count):
        shares[q] = weights[q]
    for i in range(size):
        for q in range(count):
            shares[q] += (h[i] - 0.5 * G[i, i] * waves[i, q]) * waves[i, q]
        for j in range(i):
            g = G[i, j]
            for q in range(count):
                shares[q] -= g * waves[i, q] * waves[j, q]
    top, total = shares[0], 0.0
    for q in range(1, count):
        top = max(top, shares[q])
    for q in range(count):
        shares[q] = bounded_exp(max(shares[q] - top, -700.0))
        total += shares[q]
    for q in range(count):
        shares[q] /= total
    return top + math.log(total)


@inner(fastmath=_SUMS)
def _gather(waves: FloatArray, shares: FloatArray, part: float, mean: FloatArray, second: FloatArray) -> None:
    """Let weighted means of v and of the lower triangle of vvᵀ be `part` of those that are there."""
    count, at = shares.size, 0
    for i in range(mean.size):
        total = 0.0
        for q in range(count):
            total += shares[q] * waves[i, q]
        mean[i] += part * (total - mean[i])
        for j in range(i + 1):
            both = 0.0
            for q in range(count):
                both += shares[q] * waves[i, q] * waves[j, q]
            second[at] += part * (both - second[at])
            at += 1


@entry()
def _integrate(
    h: FloatArray,
    G: FloatArray,
    found: FloatArray,
    number: FloatArray,
    points: FloatArray,
    weights: FloatArray,
    floor: float,
    log_normalizer: FloatArray,
    mean: FloatArray,
    second: FloatArray,
) -> None:
    """Log normalisers and moments from the nodes around the first `number` modes; mean and second are zero before."""
    size, count = points.shape
    work, N, U = np.empty((5, 2 * size)), np.empty((size, size)), np.empty((size, size))
    turned, waves, shares = np.empty((size, count)), np.empty((2 * size, count)), np.empty((1, count))
    for n in range(h.shape[0]):
        total = -np.inf
        for k in range(int(number[n, 0])):
            mode = found[n, k]
            _log_density(h[n], G, mode, work)
            _curvature(G, work, N)
            _factor(N, 0.0, floor, U)
            _place(mode, U, points, turned, waves)
            log_mass = _weigh(h[n], G, waves, weights, shares[0])
            for d in range(size):
                log_mass -= math.log(U[d, d])
            part = 1.0 / (1.0 + math.exp(min(total - log_mass, 700.0)))
            total = max(total, log_mass) - math.log(max(part, 1.0 - part))
            _gather(waves, shares[0], part, mean[n], second[n])
        log_normalizer[n] = total


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
    mean, second = np.zeros((count, twice)), np.zeros((count, size * (twice + 1)))
    for begin in range(0, count, 1024):  # rows whose modes are kept at once
        rows = slice(begin, begin + 1024)
        found = np.empty((len(h[rows]), len(offsets) + 1, size))
        number = _find_modes(h[rows], G, R, given[rows], offsets, found)
        _integrate(h[rows], G, found, number, *rule, floor, log_normalizer[rows], mean[rows], second[rows])
        highest[rows] = found[:, 0]
    return log_normalizer, highest - TURN * np.floor(highest / TURN + 0.5), mean, second


# ---- mixtures of normal distributions --------------------------------------------------------------------------------


@entry(fastmath=_SUMS)
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
