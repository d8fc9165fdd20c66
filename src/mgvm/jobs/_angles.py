"""Columns of angles: their numbers, their unit, and doubts about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.jobs.results import ColumnRead
from mgvm.tables.columns import find_columns, is_time, numbers
from mgvm.tables.errors import TableError
from mgvm.tables.times import hours_of_day
from mgvm.tables.units import UNITS, Unit

if TYPE_CHECKING:
    import pandas as pd

_ENOUGH = 10  # values from which on their range tells something of the unit


class AngleColumn(NamedTuple):
    """A column of angles: numbers as written, radians, unit, and sentences that doubt it."""

    raw: FloatArray
    radians: FloatArray
    unit: Unit
    doubts: tuple[str, ...]


def read_angle(frame: pd.DataFrame, name: str, unit: str | None) -> AngleColumn:
    """A column of angles in a unit; degrees where none is given, hours where the column holds time stamps."""
    find_columns(frame, [name])
    if is_time(frame[name]):
        if unit not in (None, "hours"):
            raise TableError(
                f"column {name!r} holds time stamps, whose time of day is an angle in hours, not in {unit}; leave the "
                "unit out (on the command line, no --unit)"
            )
        raw, kind = hours_of_day(frame, name), Unit("hours")
    else:
        raw = numbers(frame, name)
        kind = Unit(unit or "degrees").like(raw)
    there = raw[~np.isnan(raw)]
    if there.size == 0:
        raise TableError(f"column {name!r} holds no value at all: all {raw.size:,} are missing; choose another column")
    return AngleColumn(raw, kind.to_radians(raw), kind, doubts(name, there, kind, said=unit is not None))


def doubts(name: str, values: FloatArray, unit: Unit, *, said: bool) -> tuple[str, ...]:
    """What looks as if the unit were another, or as if a number marked a missing value."""
    smallest, largest = float(values.min()), float(values.max())
    reach, many = max(-smallest, largest), values.size >= _ENOUGH
    found = []
    if unit.name == "radians" and reach > 4.0 * np.pi:
        found.append(
            f"{name} reaches {reach:g}, more than two turns of 6.28 radians: it looks like degrees; if so, say so "
            "(--unit degrees, or compass)"
        )
    elif unit.name in ("degrees", "compass") and many and reach <= 2.0 * np.pi and (values != np.round(values)).any():
        guess = "" if said else " which is what is taken where no unit is given,"
        found.append(
            f"{name} lies within {smallest:.4g} and {largest:.4g}: few numbers for {unit.name},{guess} and it looks "
            "like radians; if so, say so (--unit radians)"
        )
    elif unit.name == "hours" and reach > 48.0:
        found.append(f"{name} reaches {reach:g}, more than two days of hours; other units are {', '.join(UNITS)}")
    elif not said and many and smallest >= 0.0 and 20.0 < largest <= 24.0:
        found.append(
            f"{name} lies within {smallest:.4g} and {largest:.4g}: are these hours of the day? Then say --unit hours"
        )
    if unit.name != "radians" and reach > 2.0 * unit.turn:
        code, count = _commonest(values[np.abs(values) > unit.turn])
        found.append(
            f"{name} is {code:g} in {count} of {values.size:,} rows, more than a turn of {unit.turn:g}; if that marks "
            f"a missing value, say so (--missing {code:g})"
        )
    return tuple(found)


def _commonest(values: FloatArray) -> tuple[float, int]:
    kinds, counts = np.unique(values, return_counts=True)
    best = int(np.argmax(counts))
    return float(kinds[best]), int(counts[best])


def refuse_constant(name: str, values: FloatArray) -> None:
    """An error where a column has one value only."""
    there = values[~np.isnan(values)]
    if there.size > 1 and np.ptp(there) == 0.0:
        raise TableError(
            f"column {name!r} is {there[0]:g} in every row: there is nothing to learn; choose another column"
        )


def column_read(name: str, role: str, unit: str, values: FloatArray) -> ColumnRead:
    """The record of a column as read."""
    there = values[~np.isnan(values)]
    ends = (float(there.min()), float(there.max())) if there.size else (float("nan"), float("nan"))
    return ColumnRead(name, role, unit, int(values.size - there.size), *ends)


def unit_words(unit: Unit) -> str:
    """A unit for people: "degrees", "degrees clockwise from north"."""
    return {"compass": "degrees clockwise from north", "hours": "hours of the day"}.get(unit.name, unit.name)
