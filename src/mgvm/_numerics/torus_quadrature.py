"""Moments of exp(hᵀv - ½vᵀGv), v = (cos φ, sin φ), on a torus of few angles, by quadrature around its modes.

At a mode N = -f'' is factorised as UUᵀ with U upper triangular, so that L = U⁻ᵀ has LLᵀ = N⁻¹; Gauss-Hermite nodes z
stand at φ = mode + Lz with log weight f(φ) + ½|z|² + log w. Pivots of N are kept above a floor at which the nodes of an
angle are spread evenly over its turn: a law that says nothing of an angle is integrated by the trapezoid rule of the
circle, all but.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp
from mgvm._numerics.torus_modes import TURN, curvature, factor, first_start, log_density, modes, set_waves
from mgvm._numerics.trigonometry import sin_cos

FloatArray = NDArray[np.float64]
_SUMS = {"contract", "reassoc", "nsz"}


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
    """Log normaliser (n,), mode (n, D), E[v] (n, 2D) and the lower triangle of E[vvᵀ] (n, D(2D+1)) of n laws.

    Parameters
    ----------
    h : (n, 2D), C-ordered
        Linear terms.
    G : (2D, 2D)
        What all laws share.
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
