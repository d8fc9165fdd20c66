"""Exact sampling of a GvM of any order by a table: many draws of one law, or draws of laws of order three and more.

The circle is cut into the cells of `gvm_cells`, each under a constant hat that bounds the density on it. A cell is
drawn by the alias method, a point in it uniformly; the lower bound of the cell accepts nearly every point without
evaluating the density.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_cells import conjugate_row, grid_size, refine, total_concentration, value_and_slope

_DROP = 30.0  # cells further below the maximum stay coarse
_ROUNDING = 1e-15  # the bounds are widened by this much of the largest |f|, so that rounding cannot break them


@inner()
def hat(c: np.ndarray, fineness: float) -> np.ndarray:
    """Cells as rows (midpoint, half-width, upper bound of f, squeeze), `fineness` the finest cells' width in units of
    1/√K.

    The squeeze is a lower bound of e^{f - upper}; zero for the coarse cells, where nobody falls.
    """
    first, levels = grid_size(c.size, 2.0 * math.pi * math.sqrt(total_concentration(c)) / fineness)
    cells, count, finest = refine(c, first, levels, _DROP)
    slack = 0.0
    for t in range(c.size):
        slack += _ROUNDING * abs(c[t])
    out = np.empty((count, 4))
    for i in range(count):
        half, bound = cells[i, 1], cells[i, 3] + slack
        out[i, 0], out[i, 1], out[i, 2] = (2.0 * cells[i, 0] + 1.0) * half - math.pi, half, cells[i, 2] + bound
        out[i, 3] = math.exp(-2.0 * bound) if i < finest else 0.0
    return out


@inner()
def _masses(cells: np.ndarray) -> np.ndarray:
    """Mass under the hat of each cell, in units that make their mean one."""
    top = -np.inf
    for i in range(cells.shape[0]):
        top = max(top, cells[i, 2])
    total = 0.0
    mass = np.empty(cells.shape[0])
    for i in range(mass.size):
        mass[i] = cells[i, 1] * math.exp(cells[i, 2] - top)
        total += mass[i]
    for i in range(mass.size):
        mass[i] *= mass.size / total
    return mass


@inner()
def _alias(keep: np.ndarray) -> np.ndarray:
    """Walker's alias for each cell; `keep`, masses of mean one, becomes the probability of keeping the cell."""
    n = keep.size
    other, waiting = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    poor, rich = 0, n  # the poor fill `waiting` from below, the rich from above
    for i in range(n):
        other[i] = i
        if keep[i] < 1.0:
            waiting[poor] = i
            poor += 1
        else:
            rich -= 1
            waiting[rich] = i
    while poor > 0 and rich < n:
        taker, giver = waiting[poor - 1], waiting[rich]
        other[taker] = giver
        keep[giver] -= 1.0 - keep[taker]
        poor -= 1
        if keep[giver] < 1.0:
            rich += 1
            waiting[poor] = giver
            poor += 1
    # What is left on either side is one to rounding.
    for i in range(poor):
        keep[waiting[i]] = 1.0
    for i in range(rich, n):
        keep[waiting[i]] = 1.0
    return other


@entry()
def _make_table(eta: np.ndarray, law: int, fineness: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells under the hat, the probability of keeping each, and its alias."""
    cells = hat(conjugate_row(eta, law), fineness)
    keep = _masses(cells)
    return cells, keep, _alias(keep)


@entry()
def _draw(
    eta: np.ndarray, law: int, table: tuple[np.ndarray, np.ndarray, np.ndarray], rng: np.random.Generator, count: int
) -> np.ndarray:
    """Draws of one law, angles in [-π, π)."""
    cells, keep, other = table
    c = conjugate_row(eta, law)
    out = np.empty(count)
    for i in range(count):
        while True:
            place = rng.random() * keep.size
            cell = int(place)
            if place - cell >= keep[cell]:
                cell = other[cell]
            x = cells[cell, 0] + cells[cell, 1] * (2.0 * rng.random() - 1.0)
            u = rng.random()
            if u <= cells[cell, 3] or u <= math.exp(value_and_slope(c, x)[0] - cells[cell, 2]):
                break
        out[i] = x if x < math.pi else -math.pi
    return out


def sample_tables(eta: np.ndarray, fineness: float, rng: np.random.Generator, repeats: int) -> np.ndarray:
    """`repeats` draws of each law with natural parameters eta (n, T); shape (n, repeats)."""
    out = np.empty((eta.shape[0], repeats))
    for law in range(eta.shape[0]):
        out[law] = _draw(eta, law, _make_table(eta, law, fineness), rng, repeats)
    return out
