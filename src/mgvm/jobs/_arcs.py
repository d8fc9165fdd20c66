"""Arcs of highest density of many laws at once, and how they are written."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.circle.law import CircleLaw
from mgvm.tables.units import Unit

_NODES = 2048
_NARROW = 1e-4  # circular variance below which a law is too narrow for the grid
_DECIMALS = {"degrees": 1, "compass": 1, "hours": 2, "radians": 3}


def arcs(law: CircleLaw, mass: float) -> list[FloatArray]:
    """For each of a batch of laws the arcs (k, 2) that hold `mass`, (lower, upper) in radians, the heaviest first.

    Ends are interpolated on a grid of 2,048 nodes, to a few thousandths of a degree; laws too narrow or too flat for
    that are asked one by one.
    """
    found = _on_grid(np.asarray(law[:, None].pdf(_nodes())), mass)
    one_by_one = np.asarray(law.circular_variance()) < _NARROW
    for n in np.flatnonzero(one_by_one | np.array([part.size == 0 for part in found])):
        exact = law[n].interval(mass)
        exact = exact[~np.isnan(exact[:, 0])]
        weights = np.asarray(law[n].cdf(exact[:, 1])) - np.asarray(law[n].cdf(exact[:, 0]))
        found[n] = exact[np.argsort(-weights, kind="stable")]
    return found


def _nodes() -> FloatArray:
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
    held = np.cumsum(falling, axis=1)
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
