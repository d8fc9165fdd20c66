"""The table of predictions of an angle: mean direction, concentration, and highest-density regions (HDR).

HDR of many distributions are found at once on a grid, to some hundredths of a degree: `CircularDistribution.interval`
is exact and takes twice as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.base import CircularDistribution
from mgvm.circle.exponential_family import LARGEST_CONCENTRATION, concentration
from mgvm.circle.highest_density import grid_levels
from mgvm.tables.columns import TableError
from mgvm.tables.units import Unit

if TYPE_CHECKING:
    import pandas as pd

HDR_PERCENT = (50, 90)

# ---- the table ------------------------------------------------------------------------------------------------------


def prediction_names(angle: str) -> list[str]:
    """Names of the columns that predictions of an angle fill, in order."""
    ends = [f"{angle}_hdr{percent}_{what}" for percent in HDR_PERCENT for what in ("lower", "upper", "arcs")]
    return [f"{angle}_mean", f"{angle}_resultant_length", f"{angle}_kappa", *ends]


def add_columns(frame: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """A table with further columns, none of which it may have already."""
    import pandas as pd

    taken = [name for name in columns if name in frame.columns]
    if taken:
        raise TableError(
            f"the table already has a column {taken[0]!r}, which was to be filled; rename it or leave it out"
        )
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def predict_columns(model: Any, X: FloatArray, angle: str, unit: Unit, *, block: int = 1024) -> dict[str, Any]:
    """Columns of predictions at rows X (m, p) as the model takes them, by blocks; NaN where a row has one."""
    columns = {name: _empty(name, len(X)) for name in prediction_names(angle)}
    there = np.flatnonzero(~np.isnan(X).any(axis=1))
    if there.size == 0:
        return columns
    distinct, which = np.unique(X[there], axis=0, return_inverse=True)
    for begin in range(0, len(distinct), block):
        rows = (which >= begin) & (which < begin + block)
        found = _describe(model.predict_dist(distinct[begin : begin + block]), angle, unit)
        for name, values in found.items():
            columns[name][there[rows]] = values[which[rows] - begin]
    return columns


def _empty(name: str, count: int) -> np.ndarray:
    return np.full(count, "", dtype=object) if name.endswith("_arcs") else np.full(count, np.nan)


def _describe(dist: CircularDistribution, angle: str, unit: Unit) -> dict[str, np.ndarray]:
    """Mean direction, concentration and HDR of a batch of distributions, in a unit, by the names of their columns."""
    variance = np.asarray(dist.circular_variance())
    kappa = [concentration(v) if v > 0.5 / LARGEST_CONCENTRATION else np.inf for v in variance.tolist()]
    columns = [unit.from_radians(find_directions(dist)), 1.0 - variance, np.array(kappa)]
    for percent in HDR_PERCENT:
        ends = [arc_ends(arcs, unit) for arcs in hdr_arcs(dist, percent / 100.0)]
        columns += [np.array([one[0, 0] for one in ends]), np.array([one[0, 1] for one in ends])]
        columns.append(np.array([arc_text(one, unit) for one in ends], dtype=object))
    return {
        name: values if values.dtype == object else np.round(values, 6)
        for name, values in zip(prediction_names(angle), columns, strict=True)
    }


def find_directions(dist: CircularDistribution) -> FloatArray:
    """Mean directions; where none is preferred, the highest mode, and 0 for the uniform distribution."""
    found = np.atleast_1d(np.asarray(dist.mean_direction()))
    for n in np.flatnonzero(np.isnan(found)):
        highest = np.asarray(dist[n].modes().location)
        found[n] = wrap(highest[0]) if highest.size and np.isfinite(highest[0]) else 0.0
    return found


# ---- highest-density regions -----------------------------------------------------------------------------------------


def hdr_arcs(dist: CircularDistribution, mass: float, nodes: int = 2048) -> list[FloatArray]:
    """For each of a batch of distributions the arcs (k, 2) of its HDR, (lower, upper) in radians, the heaviest first.

    Ends are interpolated on a grid of `nodes`: over the circle, to some hundredths of a degree, and for narrow
    distributions around their mean. Distributions that are too flat or too rugged for that are asked one by one.
    """
    center, window = _windows(dist)
    density = np.asarray(dist[:, None].pdf(center[:, None] + window[:, None] * periodic_grid(nodes)))
    found = _grid_arcs(density, mass)
    rugged = is_too_coarse(density)
    for n in range(len(found)):
        if rugged[n] or found[n].size == 0:
            found[n] = _exact_arcs(dist[n], mass)
        else:
            lower = wrap(center[n] + window[n] * found[n][:, 0])
            found[n] = np.column_stack([lower, lower + window[n] * np.diff(found[n], axis=1)[:, 0]])
    return found


def is_too_coarse(density: FloatArray) -> np.ndarray:
    """Whether a single node of the grid would hold more than 5 % of a distribution, of densities (m, nodes)."""
    return np.asarray(density.max(axis=1) > 0.05 * density.sum(axis=1))


def _windows(dist: CircularDistribution) -> tuple[FloatArray, FloatArray]:
    """Centres, and half widths in half turns: the whole circle, or by Chebyshev all but 1 % of a narrow one."""
    variance = np.atleast_1d(np.asarray(dist.circular_variance()))
    narrow = variance < 2e-3  # a standard deviation of 4 degrees, which is 20 steps of the grid
    center = np.where(narrow, np.nan_to_num(np.atleast_1d(np.asarray(dist.mean_direction()))), 0.0)
    return center, np.where(narrow, np.maximum(14.0 * np.sqrt(2.0 * variance), 1e-13) / np.pi, 1.0)


def _exact_arcs(dist: CircularDistribution, mass: float) -> FloatArray:
    exact = dist.interval(mass)
    exact = exact[~np.isnan(exact[:, 0])]
    weights = np.asarray(dist.cdf(exact[:, 1])) - np.asarray(dist.cdf(exact[:, 0]))
    return np.asarray(exact[np.argsort(-weights, kind="stable")])


def _grid_arcs(density: FloatArray, mass: float) -> list[FloatArray]:
    """Arcs by distributions, none where the density on the grid (m, nodes) never crosses its level."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(density / density.sum(axis=1, keepdims=True))
    nodes = share.shape[1]
    level = grid_levels(share, [mass], interpolate=True)[0]
    above = share >= level[:, None]
    rows, first = np.nonzero(above & ~np.roll(above, 1, axis=1))
    _, last = np.nonzero(above & ~np.roll(above, -1, axis=1))
    count = np.bincount(rows, minlength=len(share))
    begins = np.concatenate([[0], np.cumsum(count)])
    # An arc across the seam ends before it begins: then the first end of a distribution belongs to its last beginning.
    for n in np.flatnonzero(count):
        part = slice(begins[n], begins[n + 1])
        if last[part][0] < first[part][0]:
            last[part] = np.roll(last[part], -1)
    lower = first - _crossing(share, level, rows, first, first - 1)
    upper = last + _crossing(share, level, rows, last, (last + 1) % nodes)
    upper = np.where(upper < lower, upper + nodes, upper)
    total = np.concatenate([np.zeros((len(share), 1)), np.cumsum(share, axis=1)], axis=1)
    weight = total[rows, last + 1] - total[rows, first] + (last < first)
    ends = -np.pi + 2.0 * np.pi / nodes * np.column_stack([lower, upper])
    parts = [slice(begins[n], begins[n + 1]) for n in range(len(share))]
    return [ends[part][np.argsort(-weight[part], kind="stable")] for part in parts]


def _crossing(
    share: FloatArray, level: FloatArray, rows: np.ndarray, inside: np.ndarray, outside: np.ndarray
) -> FloatArray:
    """How far beyond the node inside the level is crossed, in steps of the grid."""
    high, low = share[rows, inside], share[rows, outside]
    return np.asarray((high - level[rows]) / np.maximum(high - low, 1e-300))


def arc_ends(parts: FloatArray, unit: Unit) -> FloatArray:
    """Ends (k, 2) in a unit, in the order in which it counts."""
    return np.column_stack(unit.arc(parts[:, 0], parts[:, 1]))


def arc_text(ends: FloatArray, unit: Unit) -> str:
    """Arcs as text, "350..10; 170..190" say."""
    places = {"degrees": 1, "compass": 1, "hours": 2, "radians": 3}[unit.name]
    return "; ".join(f"{lower:.{places}f}..{upper:.{places}f}" for lower, upper in ends)
