"""Wrapped normal laws by their images: Σ_k N(d + 2πk | 0, C) of many rows under many laws, and moments of the images.

With C⁻¹ = AᵀA, A upper triangular, an image has the distance |A(d + 2πm)|². A depth-first walk over m_D, ..., m_1,
nearest first in each coordinate, leaves out whole branches as soon as their distance exceeds that of the nearest image
found by more than the budget. Most rows of a narrow law have one image that matters, which a bound on all others tells
at once.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._validation import FloatArray

# An image this much further (squared) than the nearest weighs 1e-10 of it.
BUDGET = -2.0 * math.log(1e-10)
# Weights below this, of an image times the row's share, change no moment.
_LEAST_WEIGHT = math.log(1e-9)
_TURN = 2.0 * math.pi
# Rows of the workspace: offset, whitened offset, turns, step, start, distance, image.
_OFFSET, _WHITE, _TURNS, _STEP, _START, _DISTANCE, _IMAGE = range(7)
WORK_ROWS = 7
_Laws = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]


@inner()
def _alone(row: FloatArray, mean: FloatArray, factor: FloatArray, inverse_spread: FloatArray, work: FloatArray) -> bool:
    """Offset d in [-π, π) and A d into the workspace, |A d|² with them; whether no other image can matter."""
    size = row.shape[0]
    nearest_other, nearest = np.inf, 0.0
    for i in range(size):
        offset = row[i] - mean[i]
        offset -= _TURN * np.rint(offset * (1.0 / _TURN))
        work[_OFFSET, i] = offset
        # An image with m_i ≠ 0 is at least this far, as |A e|² >= e_i² / C_ii.
        other = (_TURN - abs(offset)) * inverse_spread[i]
        nearest_other = min(nearest_other, other)
        nearest = max(nearest, abs(offset) * inverse_spread[i])
    square = 0.0
    for i in range(size):
        total = 0.0
        for j in range(i, size):
            total += factor[i, j] * work[_OFFSET, j]
        work[_WHITE, i] = total
        square += total * total
    work[_DISTANCE, 0] = square
    work[_DISTANCE, size] = nearest * nearest
    return nearest_other * nearest_other > square + BUDGET


@inner()
def _begin(work: FloatArray, factor: FloatArray, level: int) -> None:
    """The nearest turn of a level, given those of later ones, and the side of the next."""
    size = factor.shape[0]
    total = work[_WHITE, level]
    for later in range(level + 1, size):
        total += _TURN * factor[level, later] * work[_TURNS, later]
    work[_START, level] = total
    spacing = _TURN * factor[level, level]
    turns = -np.rint(total / spacing)
    work[_TURNS, level] = turns
    work[_STEP, level] = -1.0 if total + spacing * turns > 0.0 else 1.0


@inner()
def _next(work: FloatArray, factor: FloatArray, level: int, descend: bool) -> None:
    """One step of the walk: the next turn of a level and the distance so far."""
    if descend:
        _begin(work, factor, level)
    else:
        step = work[_STEP, level]
        work[_TURNS, level] += step
        work[_STEP, level] = -step - (1.0 if step > 0.0 else -1.0)
    value = work[_START, level] + _TURN * factor[level, level] * work[_TURNS, level]
    work[_IMAGE, level] = value
    work[_DISTANCE, level] = work[_DISTANCE, level + 1] + value * value


@inner()
def _sum(factor: FloatArray, work: FloatArray, furthest: float) -> float:
    """Log of the sum of e^{-|A(d + 2πm)|²/2} over the images; -inf where none is nearer (squared) than `furthest`."""
    size = factor.shape[0]
    total, nearest = 0.0, furthest
    work[_DISTANCE, size] = 0.0
    level, descend = size - 1, True
    while level < size:
        _next(work, factor, level, descend)
        reached = work[_DISTANCE, level]
        # Turns come in order of distance: the first one out of reach ends the level.
        if reached - nearest > (BUDGET if total > 0.0 else 0.0):
            level += 1
            descend = False
        elif level > 0:
            level -= 1
            descend = True
        else:
            if reached >= nearest:
                total += math.exp(0.5 * (nearest - reached))
            else:
                total, nearest = total * math.exp(0.5 * (reached - nearest)) + 1.0, reached
            descend = False
    return math.log(total) - 0.5 * nearest if total > 0.0 else -np.inf


@inner()
def _row_log_densities(row: FloatArray, laws: _Laws, work: FloatArray, bounds: FloatArray, out: FloatArray) -> None:
    """Log densities of a row where `out` is 0: first by one image each, whose largest bounds what others need."""
    means, factors, inverse_spreads, log_scales, reach = laws
    best, size = -np.inf, row.shape[0]
    for k in range(out.shape[0]):
        bounds[k] = -1.0
        if out[k] == 0.0:
            alone = _alone(row, means[k], factors[k], inverse_spreads[k], work)
            out[k] = log_scales[k] - 0.5 * work[_DISTANCE, 0]
            best = max(best, out[k])
            bounds[k] = -1.0 if alone else work[_DISTANCE, size]
    for k in range(out.shape[0]):
        furthest = 2.0 * (log_scales[k] - best + reach)
        if bounds[k] > furthest:
            out[k] = -np.inf
        elif bounds[k] >= 0.0:
            _alone(row, means[k], factors[k], inverse_spreads[k], work)
            out[k] = log_scales[k] + _sum(factors[k], work, furthest)


@entry(fastmath={"contract"})
def image_log_densities(x: FloatArray, laws: _Laws, out: FloatArray) -> None:
    """s_k + log Σ_m e^{-|A_k(x_n - μ_k + 2πm)|²/2} where `out` (rows, laws) is 0; -inf where below all by `reach`.

    `laws` are means (K, D), upper triangular factors A (K, D, D) of the precisions, 1/√C_dd (K, D), logs s (K,) of the
    scales, and the reach: how far below the row's largest log density others are still computed.
    """
    work = np.zeros((WORK_ROWS, x.shape[1] + 1))
    bounds = np.empty(out.shape[1])
    for n in range(x.shape[0]):
        _row_log_densities(x[n], laws, work, bounds, out[n])


@inner()
def _add(work: FloatArray, source: int, weight: float, first: FloatArray, second: FloatArray) -> None:
    """An image, whitened, to the sums of first and second moments (upper triangle)."""
    for i in range(first.shape[0]):
        value = weight * work[source, i]
        first[i] += value
        for j in range(i, first.shape[0]):
            second[i, j] += value * work[source, j]


@inner()
def _add_images(factor: FloatArray, work: FloatArray, scale: float, first: FloatArray, second: FloatArray) -> None:
    """All images of a row, each with the weight e^{scale - |A(d + 2πm)|²/2}, but for those of hardly any."""
    size = factor.shape[0]
    furthest = 2.0 * (scale - _LEAST_WEIGHT)
    work[_DISTANCE, size] = 0.0
    level, descend = size - 1, True
    while level < size:
        _next(work, factor, level, descend)
        reached = work[_DISTANCE, level]
        if reached > furthest:
            level += 1
            descend = False
        elif level > 0:
            level -= 1
            descend = True
        else:
            _add(work, _IMAGE, math.exp(scale - 0.5 * reached), first, second)
            descend = False


@entry(fastmath={"contract"})
def image_moments(
    x: FloatArray, shares: FloatArray, means: FloatArray, factors: FloatArray, inverse_spreads: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σ_n r_nk E[A e] (K, D) and Σ_n r_nk E[A e (A e)ᵀ] (K, D, D) over the images e = x_n - μ_k + 2πm by their weights.

    Rows (N, D) with shares r (N, K); shares of zero cost nothing.
    """
    count, size = x.shape
    laws = means.shape[0]
    first = np.zeros((laws, size))
    second = np.zeros((laws, size, size))
    work = np.zeros((WORK_ROWS, size + 1))
    for n in range(count):
        for k in range(laws):
            share = shares[n, k]
            if share == 0.0:
                continue
            if _alone(x[n], means[k], factors[k], inverse_spreads[k], work):
                _add(work, _WHITE, share, first[k], second[k])
            else:
                scale = math.log(share) - _sum(factors[k], work, np.inf)
                _add_images(factors[k], work, scale, first[k], second[k])
    for k in range(laws):
        for i in range(size):
            for j in range(i):
                second[k, i, j] = second[k, j, i]
    return first, second
