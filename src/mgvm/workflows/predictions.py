"""The table of predictions of an angle: mean direction, concentration, and highest-density regions (HDR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mgvm._validation import FloatArray
from mgvm.circle.base import CircularDistribution
from mgvm.circle.exponential_family import concentrations
from mgvm.regression.base import BaseCircularRegressor, find_directions
from mgvm.regression.prediction import on_own_nodes
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


def add_columns(frame: pd.DataFrame, columns: Mapping[str, ArrayLike | None]) -> pd.DataFrame:
    """A table with further columns, none of which it may have already."""
    import pandas as pd

    taken = [name for name in columns if name in frame.columns]
    if taken:
        raise TableError(
            f"the table already has a column {taken[0]!r}, which was to be filled; rename it or leave it out"
        )
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def predict_columns(
    model: BaseCircularRegressor, X: FloatArray, angle: str, unit: Unit, *, block: int = 1024
) -> dict[str, np.ndarray]:
    """Columns of predictions at rows X (m, p) as the model takes them, by blocks; NaN where a row has one."""
    columns = {name: _empty(name, len(X)) for name in prediction_names(angle)}
    there = np.flatnonzero(~np.isnan(X).any(axis=1))
    if there.size == 0:
        return columns
    distinct, which = np.unique(X[there], axis=0, return_inverse=True)
    for begin in range(0, len(distinct), block):
        rows = (which >= begin) & (which < begin + block)
        found = _describe(on_own_nodes(model.predict_dist(distinct[begin : begin + block])), angle, unit)
        for name, values in found.items():
            columns[name][there[rows]] = values[which[rows] - begin]
    return columns


def _empty(name: str, count: int) -> np.ndarray:
    return np.full(count, "", dtype=object) if name.endswith("_arcs") else np.full(count, np.nan)


def _describe(dist: CircularDistribution, angle: str, unit: Unit) -> dict[str, np.ndarray]:
    """Mean direction, concentration and HDR of a batch of distributions, in a unit, by the names of their columns."""
    variance = np.asarray(dist.circular_variance())
    columns = [unit.from_radians(find_directions(dist)), 1.0 - variance, concentrations(variance)]
    for percent in HDR_PERCENT:
        arcs = hdr_arcs(dist, percent / 100.0)
        ends = np.split(arc_ends(np.concatenate(arcs), unit), np.cumsum([len(one) for one in arcs])[:-1])
        columns += [np.array([one[0, 0] for one in ends]), np.array([one[0, 1] for one in ends])]
        columns.append(np.array([arc_text(one, unit) for one in ends], dtype=object))
    return {
        name: values if values.dtype == object else np.round(values, 6)
        for name, values in zip(prediction_names(angle), columns, strict=True)
    }


# ---- highest-density regions -----------------------------------------------------------------------------------------


def hdr_arcs(dist: CircularDistribution, mass: float) -> list[FloatArray]:
    """For each of a batch the arcs (k, 2) of its HDR, (lower, upper) in radians, the heaviest first."""
    arcs = dist.interval(mass)
    ends = np.asarray(dist[:, None, None].cdf(np.nan_to_num(arcs)))
    weight = np.where(np.isnan(arcs[..., 0]), -1.0, ends[..., 1] - ends[..., 0])
    order = np.argsort(-weight, axis=1, kind="stable")
    arcs, count = np.take_along_axis(arcs, order[..., None], axis=1), (weight >= 0.0).sum(axis=1)
    return [row[:number] for row, number in zip(arcs, count.tolist(), strict=True)]


def arc_ends(parts: FloatArray, unit: Unit) -> FloatArray:
    """Ends (k, 2) in a unit, in the order in which it counts."""
    return np.column_stack(unit.arc(parts[:, 0], parts[:, 1]))


def arc_text(ends: FloatArray, unit: Unit) -> str:
    """Arcs as text, "350..10; 170..190" say."""
    places = 1 if unit.turn > 24.0 else 2 if unit.turn > 10.0 else 3
    return "; ".join(f"{lower:.{places}f}..{upper:.{places}f}" for lower, upper in ends)
