"""A trigonometric polynomial of any order cut into cells, with bounds that hold everywhere.

f(φ) = Re Σ c_t z^t, z = e^{iφ}, c_t the conjugate of the natural parameter. On a cell of half-width r around x, |f(φ) -
f(x)| <= |f'(x)| r + ½ K r², with K = Σ t²|c_t| a bound of |f''|: cells whose bound lies far below the maximum are set
aside, the others halved until they are as fine as asked.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner


@inner()
def value_and_slope(c: np.ndarray, x: float) -> tuple[float, float]:
    """f(x) and f'(x)."""
    z = complex(math.cos(x), math.sin(x))
    value = 0.0 + 0.0j
    slope = 0.0 + 0.0j
    for t in range(c.size, 0, -1):
        value = (value + c[t - 1]) * z
        slope = (slope + t * c[t - 1]) * z
    return value.real, -slope.imag


@inner()
def total_concentration(c: np.ndarray) -> float:
    """K = Σ t²|c_t|, a bound of |f''|."""
    total = 0.0
    for t in range(c.size):
        total += (t + 1) * (t + 1) * abs(c[t])
    return total


@inner()
def conjugate_row(eta: np.ndarray, i: int) -> np.ndarray:
    """c_t of the law in row i of natural parameters."""
    c = np.empty(eta.shape[1], dtype=np.complex128)
    for t in range(c.size):
        c[t] = eta[i, t].conjugate()
    return c


@inner()
def turn_and_sum(row: np.ndarray, angle: float) -> None:
    """Turn c_t, in place, into C_j = Σ_{t>j} c_t e^{itφ}, the sums with which f is measured from its value at φ."""
    running = 0.0 + 0.0j
    for t in range(row.size, 0, -1):
        running += row[t - 1] * complex(math.cos(t * angle), math.sin(t * angle))
        row[t - 1] = running


@inner()
def _grown(rows: np.ndarray) -> np.ndarray:
    """The same rows with room for as many more."""
    larger = np.empty((2 * rows.shape[0], rows.shape[1]))
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            larger[i, j] = rows[i, j]
    return larger


@inner()
def refine(c: np.ndarray, first: int, levels: int, drop: float) -> tuple[np.ndarray, int, int]:
    """Halve `first` equal cells `levels` times, setting aside those that stay `drop` below the maximum.

    Returns cells as rows (position, half-width, value at the midpoint, bound of |f - value|), first the finest, in
    order, then those set aside; how many they are; and how many of them are the finest. A cell at position i of
    half-width r covers [2ir, 2(i+1)r] from -π.
    """
    total = total_concentration(c)
    cells, n = np.empty((2 * first, 4)), first
    aside, n_aside = np.empty((64, 4)), 0
    for i in range(first):
        cells[i, 0] = i
    best = -np.inf
    for level in range(levels + 1):
        half = math.pi / (first * 2.0**level)
        for i in range(n):
            value, slope = value_and_slope(c, (2.0 * cells[i, 0] + 1.0) * half - math.pi)
            cells[i, 1], cells[i, 2], cells[i, 3] = half, value, abs(slope) * half + 0.5 * total * half * half
            best = max(best, value)
        kept = 0
        for i in range(n):
            far = cells[i, 2] + cells[i, 3] < best - drop
            if far and n_aside == aside.shape[0]:
                aside = _grown(aside)
            for j in range(4):
                if far:
                    aside[n_aside, j] = cells[i, j]
                else:
                    cells[kept, j] = cells[i, j]
            n_aside, kept = n_aside + far, kept + (not far)
        n = kept
        if level < levels:
            while cells.shape[0] < 2 * n:
                cells = _grown(cells)
            for i in range(n - 1, -1, -1):
                cells[2 * i + 1, 0], cells[2 * i, 0] = 2.0 * cells[i, 0] + 1.0, 2.0 * cells[i, 0]
            n *= 2
    while cells.shape[0] < n + n_aside:
        cells = _grown(cells)
    for i in range(n_aside):
        for j in range(4):
            cells[n + i, j] = aside[i, j]
    return cells, n + n_aside, n


@inner()
def grid_size(order: int, needed: float) -> tuple[int, int]:
    """First cells and halvings that give at least `needed` cells, starting from some eight a harmonic."""
    needed = max(needed, 8.0 * order) if needed < 1e9 else 1e9  # up to K of 1e15; a NaN must not become a size
    levels = max(0, int(math.floor(math.log2(needed / (8.0 * order)))))
    return int(math.ceil(needed / 2.0**levels)), levels


@entry()
def panel_starts(eta: np.ndarray, i: int) -> np.ndarray:
    """Lower edges, in no order, of panels of the circle on which e^f is smooth: three standard deviations at most of
    the sharpest peak the concentration allows wherever e^f is above e^-45 of its maximum, coarser elsewhere.
    """
    c = conjugate_row(eta, i)
    first, levels = grid_size(c.size, 2.0 * math.pi / 3.0 * math.sqrt(total_concentration(c)))
    cells, count, _ = refine(c, first, levels, 45.0)
    starts = np.empty(count)
    for j in range(count):
        starts[j] = 2.0 * cells[j, 0] * cells[j, 1] - math.pi
    return starts
