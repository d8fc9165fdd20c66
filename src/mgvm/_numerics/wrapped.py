"""Images of wrapped normal distributions: sums of e^{-|y + Rm|²/2} over the integer vectors m, R upper triangular.

A depth-first walk over m_D, ..., m_1, nearest first in each coordinate, leaves out whole branches as soon as their
distance exceeds that of the nearest point found by more than a budget.

`lattice_log_sums` sums one distribution to rounding. What its walk reaches are rows, the points that differ in the
first coordinate alone; a row is a theta function, three images or five harmonics (see `mgvm.circle.wrapped_normal` for
the two series and their crossover).

`image_log_densities` and `image_moments` take many rows under many distributions, as the components of a mixture. With
C⁻¹ = AᵀA, A upper triangular, an image has the distance |A(d + 2πm)|². Most rows of a narrow distribution have one
image that matters, which a bound on all others tells at once.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import entry, inner
from mgvm._validation import FloatArray

# Spacing 2π/σ at σ = 1.5, where three images and five harmonics are both exact to rounding.
ROW_CROSSOVER = 2.0 * math.pi / 1.5
HARMONICS = 5  # of a row of smaller spacing
TURN = math.tau


@inner()
def _image_row(offset: float, spacing: float, square: float) -> float:
    """Σ_k e^{-((|t| - kr)² - t²)/2}: the images 0, 1, -1, 2 of an offset |t| <= r/2, relative to the nearest."""
    exponent = -0.5 * spacing * (spacing - 2.0 * abs(offset))
    if exponent < -40.0:  # adds nothing to 1, and those further less
        return 1.0
    # The images -1 and 2 weigh e^{-r²} over and times the first, and the first: one exponential serves all.
    first = math.exp(exponent)
    return 1.0 + first + square / first + first * first * square


@inner()
def _harmonic_row(offset: float, spacing: float, weights: FloatArray) -> float:
    """√(2π)/r (1 + Σ_n w_n cos(2πnt/r)) by Clenshaw's recurrence, with w_n = 2 e^{-2π²n²/r²}."""
    cos = math.cos(2.0 * math.pi * offset / spacing)
    last = 0.0
    before = 0.0
    for back in range(HARMONICS):
        last, before = weights[HARMONICS - 1 - back] + 2.0 * cos * last - before, last
    return math.sqrt(TURN) / spacing * (1.0 + cos * last - before)


@inner()
def _shift(y: FloatArray, basis: FloatArray, turns: FloatArray, level: int) -> float:
    """y_i + Σ_{j>i} R_ij m_j: where the coordinate of a level starts, given the later ones."""
    total = y[level]
    for later in range(level + 1, y.shape[0]):
        total += basis[level, later] * turns[later]
    return total


@inner()
def _row(offset: float, spacing: float, weights: FloatArray) -> float:
    """The sum of the terms of a row: relative to the nearest where it sums images, as it is where it sums harmonics."""
    if spacing >= ROW_CROSSOVER:
        return _image_row(offset, spacing, weights[HARMONICS])
    return _harmonic_row(offset, spacing, weights)


@inner()
def _added(total: float, nearest: float, reached: float, weight: float) -> tuple[float, float]:
    """The sum relative to the nearest distance, with a term more."""
    if reached >= nearest:
        return total + math.exp(0.5 * (nearest - reached)) * weight, nearest
    # The first term meets an empty sum and an infinite distance: 0 e^{-∞} = 0.
    return total * math.exp(0.5 * (reached - nearest)) + weight, reached


@inner()
def _walk(
    y: FloatArray, basis: FloatArray, weights: FloatArray, work: FloatArray, settings: tuple[int, float, int]
) -> tuple[float, int]:
    """Log of the sum at one point and the number of rows; the walk stops beyond the limit of rows."""
    flat, budget, limit = settings
    turns, step, start, distance = work[0], work[1], work[2], work[3]
    size = y.shape[0]
    total, nearest, rows = 0.0, np.inf, 0
    level = size - 1
    distance[size] = 0.0
    descend = True
    while level < size:
        if descend:
            start[level] = _shift(y, basis, turns, level)
            if level == flat:
                spacing = basis[level, level]
                offset = start[level] - spacing * np.rint(start[level] / spacing)
                reached = distance[level + 1] + (offset * offset if spacing >= ROW_CROSSOVER else 0.0)
                if not reached - nearest > budget:
                    total, nearest = _added(total, nearest, reached, _row(offset, spacing, weights))
                rows += 1
                if rows > limit:
                    return np.nan, rows
                level += 1
                descend = False
                continue
            turns[level] = -np.rint(start[level] / basis[level, level])
            step[level] = -1.0 if start[level] + basis[level, level] * turns[level] > 0.0 else 1.0
        else:
            turns[level] += step[level]
            step[level] = -step[level] - (1.0 if step[level] > 0.0 else -1.0)
        offset = start[level] + basis[level, level] * turns[level]
        distance[level] = distance[level + 1] + offset * offset
        # Turns come in order of distance: the first one out of reach ends the level.
        descend = distance[level] - nearest <= budget
        level += -1 if descend else 1
    return math.log(total) - 0.5 * nearest, rows


@entry()
def lattice_log_sums(
    points: FloatArray, basis: FloatArray, flat: int, budget: float, limit: int
) -> tuple[FloatArray, np.ndarray]:
    """Logs of the sums at points (n, D) and the rows each took.

    The first `flat` coordinates are left out (the caller knows their sum); a sum of more than `limit` rows is NaN.
    """
    count, size = points.shape
    out = np.empty(count)
    rows = np.empty(count, np.int64)
    work = np.zeros((4, size + 1))
    # What rows share: the weights of the harmonics, then e^{-r²} for the images.
    weights = np.empty(HARMONICS + 1)
    weights[HARMONICS] = math.exp(-(basis[flat, flat] ** 2))
    for order in range(HARMONICS):
        weights[order] = 2.0 * math.exp(-0.5 * (2.0 * math.pi * (order + 1) / basis[flat, flat]) ** 2)
    for point in range(count):
        out[point], rows[point] = _walk(points[point], basis, weights, work, (flat, budget, limit))
    return out, rows


BUDGET = -2.0 * math.log(1e-10)  # an image this much further (squared) than the nearest weighs 1e-10 of it
# Rows of the workspace.
_OFFSET, _WHITE, _TURNS, _STEP, _START, _DISTANCE, _IMAGE = range(7)
_Distributions = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]


@inner()
def _alone(row: FloatArray, mean: FloatArray, factor: FloatArray, inverse_spread: FloatArray, work: FloatArray) -> bool:
    """Offset d in [-π, π) and A d into the workspace, |A d|² with them; whether no other image can matter."""
    size = row.shape[0]
    nearest_other, nearest = np.inf, 0.0
    for i in range(size):
        offset = row[i] - mean[i]
        offset -= TURN * np.rint(offset * (1.0 / TURN))
        work[_OFFSET, i] = offset
        # An image with m_i ≠ 0 is at least this far, as |A e|² >= e_i² / C_ii.
        other = (TURN - abs(offset)) * inverse_spread[i]
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
        total += TURN * factor[level, later] * work[_TURNS, later]
    work[_START, level] = total
    spacing = TURN * factor[level, level]
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
    value = work[_START, level] + TURN * factor[level, level] * work[_TURNS, level]
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
            total, nearest = _added(total, nearest, reached, 1.0)
            descend = False
    return math.log(total) - 0.5 * nearest if total > 0.0 else -np.inf


@inner()
def _row_log_densities(
    row: FloatArray, dists: _Distributions, work: FloatArray, bounds: FloatArray, out: FloatArray
) -> None:
    """Log densities of a row where `out` is 0: first by one image each, whose largest bounds what others need."""
    means, factors, inverse_spreads, log_scales, reach = dists
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
def image_log_densities(x: FloatArray, dists: _Distributions, out: FloatArray) -> None:
    """s_k + log Σ_m e^{-|A_k(x_n - μ_k + 2πm)|²/2} where `out` (rows, distributions) is 0; -inf where below all by
    `reach`.

    `dists` are means (K, D), upper triangular factors A (K, D, D) of the precisions, 1/√C_dd (K, D), logs s (K,) of the
    scales, and the reach: how far below the row's largest log density others are still computed.
    """
    work = np.zeros((7, x.shape[1] + 1))
    bounds = np.empty(out.shape[1])
    for n in range(x.shape[0]):
        _row_log_densities(x[n], dists, work, bounds, out[n])


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
    """All images of a row, each with the weight e^{scale - |A(d + 2πm)|²/2}; those below 1e-9 change no moment."""
    size = factor.shape[0]
    furthest = 2.0 * (scale - math.log(1e-9))
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
    dists = means.shape[0]
    first = np.zeros((dists, size))
    second = np.zeros((dists, size, size))
    work = np.zeros((7, size + 1))
    for n in range(count):
        for k in range(dists):
            share = shares[n, k]
            if share == 0.0:
                continue
            if _alone(x[n], means[k], factors[k], inverse_spreads[k], work):
                _add(work, _WHITE, share, first[k], second[k])
            else:
                scale = math.log(share) - _sum(factors[k], work, np.inf)
                _add_images(factors[k], work, scale, first[k], second[k])
    for k in range(dists):
        for i in range(size):
            for j in range(i):
                second[k, i, j] = second[k, j, i]
    return first, second
