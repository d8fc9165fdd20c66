"""A trigonometric polynomial of any order cut into cells, with bounds that hold everywhere.

f(φ) = Re Σ c_t z^t, z = e^{iφ}, c_t the conjugate of the natural parameter. On a cell of half-width r around x,
|f(φ) - f(x)| <= |f'(x)| r + ½ K r², with K = Σ t²|c_t| a bound of |f''|: cells whose bound lies far below the maximum are
set aside, the others halved until they are as fine as asked.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def value_and_slope(c: np.ndarray, x: float) -> tuple[float, float]:
    """f(x) and f'(x)."""
    z = complex(math.cos(x), math.sin(x))
    value = 0.0 + 0.0j
    slope = 0.0 + 0.0j
    for t in range(c.size, 0, -1):
        value = (value + c[t - 1]) * z
        slope = (slope + t * c[t - 1]) * z
    return value.real, -slope.imag


@njit(cache=True)
def total_concentration(c: np.ndarray) -> float:
    """K = Σ t²|c_t|, a bound of |f''|."""
    total = 0.0
    for t in range(c.size):
        total += (t + 1) * (t + 1) * abs(c[t])
    return total


@njit(cache=True, error_model="numpy")
def refine(c: np.ndarray, first: int, levels: int, drop: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Halve `first` equal cells `levels` times, setting aside those that stay `drop` below the maximum.

    Returns the positions of the finest cells kept, in order (cell i covers [i, i + 1] times 2π/(first·2^levels), from -π),
    their (value, bound above value), and the cells set aside as rows (midpoint, half-width, bound).
    """
    total = total_concentration(c)
    kept = np.arange(first)
    aside = np.empty((64, 3))
    n_aside = 0
    facts = np.empty((0, 2))
    best = -np.inf
    for level in range(levels + 1):
        half = math.pi / (first * 2.0**level)
        facts = np.empty((kept.size, 2))
        for i in range(kept.size):
            value, slope = value_and_slope(c, (2 * kept[i] + 1) * half - math.pi)
            facts[i, 0], facts[i, 1] = value, abs(slope) * half + 0.5 * total * half * half
            best = max(best, value)
        n = 0
        for i in range(kept.size):
            if facts[i, 0] + facts[i, 1] >= best - drop:
                kept[n], facts[n, 0], facts[n, 1] = kept[i], facts[i, 0], facts[i, 1]
                n += 1
                continue
            if n_aside == aside.shape[0]:
                larger = np.empty((2 * n_aside, 3))
                larger[:n_aside] = aside
                aside = larger
            aside[n_aside, 0], aside[n_aside, 1] = (2 * kept[i] + 1) * half - math.pi, half
            aside[n_aside, 2] = facts[i, 0] + facts[i, 1]
            n_aside += 1
        facts = facts[:n]
        if level < levels:
            halves = np.empty(2 * n, dtype=np.int64)
            for i in range(n):
                halves[2 * i], halves[2 * i + 1] = 2 * kept[i], 2 * kept[i] + 1
            kept = halves
        else:
            kept = kept[:n]
    return kept, facts, aside[:n_aside]


@njit(cache=True)
def grid_size(order: int, needed: float) -> tuple[int, int]:
    """First cells and halvings that give at least `needed` cells, starting from some eight a harmonic."""
    needed = max(needed, 8.0 * order)
    levels = max(0, int(math.floor(math.log2(needed / (8.0 * order)))))
    return int(math.ceil(needed / 2.0**levels)), levels


@njit(cache=True, error_model="numpy")
def panel_edges(c: np.ndarray) -> np.ndarray:
    """Edges, from -π to π, of panels on which e^f is smooth: three standard deviations at most of the sharpest peak the
    concentration allows wherever e^f is above e^-45 of its maximum, coarser elsewhere."""
    first, levels = grid_size(c.size, 2.0 * math.pi / 3.0 * math.sqrt(total_concentration(c)))
    kept, _, aside = refine(c, first, levels, 45.0)
    half = math.pi / (first * 2.0**levels)
    edges = np.empty(kept.size + aside.shape[0] + 1)
    for i in range(kept.size):
        edges[i] = 2 * kept[i] * half - math.pi
    for i in range(aside.shape[0]):
        edges[kept.size + i] = aside[i, 0] - aside[i, 1]
    edges[-1] = math.pi
    edges[:-1].sort()
    edges[0] = -math.pi
    return edges
