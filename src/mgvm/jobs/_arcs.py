"""Arcs of highest density of many laws at once, and how they are written."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.law import CircleLaw
from mgvm.tables.units import Unit

_NODES = 2048
_NARROW = 2e-3  # circular variance below which the grid is laid around the mean alone
_WIDTHS = 14.0  # standard deviations
_LARGEST_SHARE = 0.05  # of a node, beyond which the grid is too coarse
_DECIMALS = {"degrees": 1, "compass": 1, "hours": 2, "radians": 3}


def arcs(law: CircleLaw, mass: float) -> list[FloatArray]:
    """For each of a batch of laws the arcs (k, 2) that hold `mass`, (lower, upper) in radians, the heaviest first.

    Ends are interpolated on a grid of 2,048 nodes: over the circle, to some hundredths of a degree, and for narrow
    laws around their mean. Laws that are too flat or too rugged for that are asked one by one.
    """
    center, window = _windows(law)
    density = np.asarray(law[:, None].pdf(center[:, None] + window[:, None] * grid()))
    found = _on_grid(density, mass)
    rugged = too_coarse(density)
    for n in range(len(found)):
        if rugged[n] or found[n].size == 0:
            found[n] = _one_by_one(law[n], mass)
        else:
            lower = wrap(center[n] + window[n] * found[n][:, 0])
            found[n] = np.column_stack([lower, lower + window[n] * np.diff(found[n], axis=1)[:, 0]])
    return found


def too_coarse(density: FloatArray) -> np.ndarray:
    """Laws of which a single node (of density (m, nodes)) would hold much."""
    return np.asarray(density.max(axis=1) > _LARGEST_SHARE * density.sum(axis=1))


def _windows(law: CircleLaw) -> tuple[FloatArray, FloatArray]:
    """Centres, and half widths in half turns: the whole circle, or by Chebyshev all but 1 % of a narrow law."""
    variance = np.atleast_1d(np.asarray(law.circular_variance()))
    narrow = variance < _NARROW
    center = np.where(narrow, np.nan_to_num(np.atleast_1d(np.asarray(law.mean_direction()))), 0.0)
    return center, np.where(narrow, np.maximum(_WIDTHS * np.sqrt(2.0 * variance), 1e-13) / np.pi, 1.0)


def _one_by_one(law: CircleLaw, mass: float) -> FloatArray:
    exact = law.interval(mass)
    exact = exact[~np.isnan(exact[:, 0])]
    weights = np.asarray(law.cdf(exact[:, 1])) - np.asarray(law.cdf(exact[:, 0]))
    return np.asarray(exact[np.argsort(-weights, kind="stable")])


def grid() -> FloatArray:
    return np.asarray(-np.pi + 2.0 * np.pi / _NODES * np.arange(_NODES))


def _on_grid(density: FloatArray, mass: float) -> list[FloatArray]:
    """Arcs by laws, none where the density on the grid (m, nodes) never crosses its level."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(density / density.sum(axis=1, keepdims=True))
    level = _levels(share, mass)
    above = share >= level[:, None]
    rows, first = np.nonzero(above & ~np.roll(above, 1, axis=1))
    _, last = np.nonzero(above & ~np.roll(above, -1, axis=1))
    count = np.bincount(rows, minlength=len(share))
    begins = np.concatenate([[0], np.cumsum(count)])
    # An arc across the seam ends before it begins: then the first end of a law belongs to its last beginning.
    for n in np.flatnonzero(count):
        part = slice(begins[n], begins[n + 1])
        if last[part][0] < first[part][0]:
            last[part] = np.roll(last[part], -1)
    lower = first - _crossing(share, level, rows, first, first - 1)
    upper = last + _crossing(share, level, rows, last, (last + 1) % _NODES)
    upper = np.where(upper < lower, upper + _NODES, upper)
    total = np.concatenate([np.zeros((len(share), 1)), np.cumsum(share, axis=1)], axis=1)
    weight = total[rows, last + 1] - total[rows, first] + (last < first)
    ends = -np.pi + 2.0 * np.pi / _NODES * np.column_stack([lower, upper])
    parts = [slice(begins[n], begins[n + 1]) for n in range(len(share))]
    return [ends[part][np.argsort(-weight[part], kind="stable")] for part in parts]


def _levels(share: FloatArray, mass: float) -> FloatArray:
    """The level above which the shares add up to `mass`, interpolated between nodes."""
    falling = -np.sort(-share, axis=1)
    # A node stands for a cell, half of which lies above its level.
    held = np.cumsum(falling, axis=1) - 0.5 * falling
    place = np.clip((held < mass).sum(axis=1), 1, _NODES - 1)
    at = np.arange(len(share))
    before, after = held[at, place - 1], held[at, place]
    part = np.clip((mass - before) / np.maximum(after - before, 1e-300), 0.0, 1.0)
    return np.asarray(falling[at, place - 1] + part * (falling[at, place] - falling[at, place - 1]))


def _crossing(
    share: FloatArray, level: FloatArray, rows: np.ndarray, inner: np.ndarray, outer: np.ndarray
) -> FloatArray:
    """How far beyond the inner node the level is crossed, in steps of the grid."""
    high, low = share[rows, inner], share[rows, outer]
    return np.asarray((high - level[rows]) / np.maximum(high - low, 1e-300))


def arc_ends(parts: FloatArray, unit: Unit) -> FloatArray:
    """Ends (k, 2) in a unit, in the order in which it counts."""
    return np.column_stack(unit.arc(parts[:, 0], parts[:, 1]))


def arc_text(ends: FloatArray, unit: Unit) -> str:
    """Arcs as text, "350..10; 170..190" say."""
    places = _DECIMALS[unit.name]
    return "; ".join(f"{lower:.{places}f}..{upper:.{places}f}" for lower, upper in ends)
