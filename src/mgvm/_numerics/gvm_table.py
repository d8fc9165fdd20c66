"""Exact sampling of a GvM of any order by a table: many draws of one law, or draws of laws of order three and more.

The circle is cut into the cells of `gvm_cells`, each under a constant hat that bounds the density on it. A cell is drawn
by the alias method, a point in it uniformly; the lower bound of the cell accepts nearly every point without evaluating
the density.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mgvm._numerics.gvm_cells import grid_size, refine, total_concentration, value_and_slope

_DROP = 30.0  # cells further below the maximum stay coarse
_ROUNDING = 1e-15  # the bounds are widened by this much of the largest |f|, so that rounding cannot break them


@njit(cache=True, error_model="numpy")
def hat(c: np.ndarray, fineness: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cells as midpoint, half-width, and bounds of f on it; `fineness` is the cell's width in units of 1/√K."""
    total = total_concentration(c)
    first, levels = grid_size(c.size, 2.0 * math.pi * math.sqrt(total) / fineness)
    kept, facts, aside = refine(c, first, levels, _DROP)
    half = math.pi / (first * 2.0**levels)
    n = kept.size
    middle, width = np.empty(n + aside.shape[0]), np.empty(n + aside.shape[0])
    upper, lower = np.empty(middle.size), np.full(middle.size, -np.inf)
    slack = _ROUNDING * (np.abs(c).sum() + 1.0)
    for i in range(n):
        middle[i], width[i] = (2 * kept[i] + 1) * half - math.pi, half
        upper[i], lower[i] = facts[i, 0] + facts[i, 1] + slack, facts[i, 0] - facts[i, 1] - slack
    for i in range(aside.shape[0]):
        middle[n + i], width[n + i], upper[n + i] = aside[i, 0], aside[i, 1], aside[i, 2] + slack
    return middle, width, upper, lower


@njit(cache=True)
def _alias(mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's tables: keep cell i with probability keep[i], else take other[i]."""
    n = mass.size
    keep = mass * (n / mass.sum())
    other = np.arange(n)
    small, large = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_small = n_large = 0
    for i in range(n):
        if keep[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        poor, rich = small[n_small], large[n_large - 1]
        other[poor] = rich
        keep[rich] -= 1.0 - keep[poor]
        if keep[rich] < 1.0:
            n_large -= 1
            small[n_small] = rich
            n_small += 1
    for i in range(n_large):
        keep[large[i]] = 1.0
    for i in range(n_small):
        keep[small[i]] = 1.0
    return keep, other


@njit(cache=True, error_model="numpy")
def sample_table(c: np.ndarray, fineness: float, rng: np.random.Generator, out: np.ndarray) -> None:
    """Fill `out` with draws of the law whose conjugate natural parameters are c."""
    middle, half, upper, lower = hat(c, fineness)
    keep, other = _alias(np.exp(upper - upper.max()) * half)
    squeeze = np.exp(lower - upper)
    n = middle.size
    for i in range(out.size):
        while True:
            place = rng.random() * n
            cell = int(place)
            if place - cell >= keep[cell]:
                cell = other[cell]
            x = middle[cell] + half[cell] * (2.0 * rng.random() - 1.0)
            u = rng.random()
            if u <= squeeze[cell] or u <= math.exp(value_and_slope(c, x)[0] - upper[cell]):
                break
        out[i] = x if x < math.pi else -math.pi


@njit(cache=True)
def sample_tables(eta: np.ndarray, fineness: float, rng: np.random.Generator, repeats: int) -> np.ndarray:
    """`repeats` draws of each law with natural parameters eta (n, T); shape (n, repeats)."""
    out = np.empty((eta.shape[0], repeats))
    for i in range(eta.shape[0]):
        sample_table(np.conj(eta[i]), fineness, rng, out[i])
    return out
