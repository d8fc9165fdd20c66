"""Sums of e^{-|y + Rm|²/2} over the integer vectors m, for R upper triangular.

A depth-first walk over m_D, ..., m_2, nearest first in each coordinate, leaves out whole branches as soon as their
distance exceeds that of the nearest point found by more than the budget. What it reaches are rows, the points that
differ in the first coordinate alone; a row is a theta function, three images or five harmonics (see
`mgvm.circle._theta` for the two series and their crossover).
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._validation import FloatArray

# Spacing 2π/σ at σ = 1.5, where three images and five harmonics are both exact to rounding.
ROW_CROSSOVER = 2.0 * math.pi / 1.5
_HARMONICS = 5
_NOTHING = -40.0  # exponent of an image that adds nothing to 1; those further have less
_ROOT_TURN = math.sqrt(2.0 * math.pi)


@inner()
def _image_row(offset: float, spacing: float, square: float) -> float:
    """Σ_k e^{-((|t| - kr)² - t²)/2}: the images 0, 1, -1, 2 of an offset |t| <= r/2, relative to the nearest."""
    exponent = -0.5 * spacing * (spacing - 2.0 * abs(offset))
    if exponent < _NOTHING:
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
    for back in range(_HARMONICS):
        last, before = weights[_HARMONICS - 1 - back] + 2.0 * cos * last - before, last
    return _ROOT_TURN / spacing * (1.0 + cos * last - before)


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
        return _image_row(offset, spacing, weights[_HARMONICS])
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
    weights = np.empty(_HARMONICS + 1)
    weights[_HARMONICS] = math.exp(-(basis[flat, flat] ** 2))
    for order in range(_HARMONICS):
        weights[order] = 2.0 * math.exp(-0.5 * (2.0 * math.pi * (order + 1) / basis[flat, flat]) ** 2)
    for point in range(count):
        out[point], rows[point] = _walk(points[point], basis, weights, work, (flat, budget, limit))
    return out, rows
