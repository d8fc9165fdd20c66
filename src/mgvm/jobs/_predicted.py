"""The table of predictions of an angle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle._concentration import LARGEST_CONCENTRATION, concentration
from mgvm.circle.law import CircleLaw
from mgvm.jobs._arcs import arc_ends, arc_text, arcs
from mgvm.tables.errors import TableError
from mgvm.tables.units import Unit

if TYPE_CHECKING:
    import pandas as pd

LEVELS = (50, 90)
_BLOCK = 1024
_DIGITS = 6


def prediction_names(angle: str) -> list[str]:
    """Names of the columns that predictions of an angle fill, in order."""
    ends = [f"{angle}_{level}_{what}" for level in LEVELS for what in ("lower", "upper", "arcs")]
    return [f"{angle}_mean", f"{angle}_resultant_length", f"{angle}_kappa", *ends]


def beside(frame: pd.DataFrame, columns: dict[str, Any]) -> pd.DataFrame:
    """A table with further columns, none of which it may have already."""
    import pandas as pd

    taken = [name for name in columns if name in frame.columns]
    if taken:
        raise TableError(
            f"the table already has a column {taken[0]!r}, which was to be filled; rename it or leave it out"
        )
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1)


def predicted(model: Any, X: FloatArray, angle: str, unit: Unit) -> dict[str, Any]:
    """Columns of predictions at rows X (m, p) as the model takes them; NaN where a row has one."""
    columns = {name: _empty(name, len(X)) for name in prediction_names(angle)}
    there = np.flatnonzero(~np.isnan(X).any(axis=1))
    if there.size == 0:
        return columns
    distinct, which = np.unique(X[there], axis=0, return_inverse=True)
    for begin in range(0, len(distinct), _BLOCK):
        rows = (which >= begin) & (which < begin + _BLOCK)
        block = described(model.predict_dist(distinct[begin : begin + _BLOCK]), angle, unit)
        for name, values in block.items():
            columns[name][there[rows]] = values[which[rows] - begin]
    return columns


def _empty(name: str, count: int) -> np.ndarray:
    return np.full(count, "", dtype=object) if name.endswith("_arcs") else np.full(count, np.nan)


def described(law: CircleLaw, angle: str, unit: Unit) -> dict[str, np.ndarray]:
    """Mean direction, concentration and arcs of a batch of laws, in a unit."""
    variance = np.asarray(law.circular_variance())
    kappa = [concentration(v) if v > 0.5 / LARGEST_CONCENTRATION else np.inf for v in variance.tolist()]
    # Numbers that are written must not round up to a whole turn.
    numbers = [unit.from_radians(directions(law)), 1.0 - variance, np.array(kappa)]
    found = [numbers]
    for level in LEVELS:
        ends = [arc_ends(part, unit) for part in arcs(law, level / 100.0)]
        found.append([np.array([one[0, 0] for one in ends]), np.array([one[0, 1] for one in ends])])
        found[-1].append(np.array([arc_text(one, unit) for one in ends], dtype=object))
    values = [value for part in found for value in part]
    return {
        name: value if value.dtype == object else np.round(value, _DIGITS)
        for name, value in zip(prediction_names(angle), values, strict=True)
    }


def directions(law: CircleLaw) -> FloatArray:
    """Mean directions; where none is preferred, the highest mode, and 0 for the uniform law."""
    found = np.atleast_1d(np.asarray(law.mean_direction()))
    for n in np.flatnonzero(np.isnan(found)):
        highest = np.asarray(law[n].modes().location)
        found[n] = wrap(highest[0]) if highest.size and np.isfinite(highest[0]) else 0.0
    return found
