"""Input columns of a regression, and how they become numbers.

Columns of angles: their numbers, their unit, and doubts about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.tables.columns import UNITS, TableError, Unit, find_columns, is_time, numbers
from mgvm.tables.times import hours_of_day
from mgvm.workflows.results import ColumnRead

if TYPE_CHECKING:
    import pandas as pd
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from mgvm import _validation as check
from mgvm.tables.times import TIMES, elapsed

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


_UNEVEN = 10.0  # ratio of spreads beyond which columns are scaled: one length scale could not serve both


@dataclass(frozen=True)
class InputColumn:
    """A column and what it is: "number", "angle" (in `unit`), or time stamps as "hours", "days", "time-of-day"."""

    name: str
    kind: str = "number"
    unit: str = "degrees"
    origin: str | None = None

    @property
    def circular(self) -> bool:
        """Whether its two ends meet, so that it goes in as cosine and sine."""
        return self.kind in ("angle", "time-of-day")

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the numbers that it becomes."""
        return (f"cos {self.name}", f"sin {self.name}") if self.circular else (self.name,)

    @property
    def meaning(self) -> str:
        """Its unit in words."""
        if self.kind in ("hours", "days"):
            return f"{self.kind} since {str(self.origin).replace('T00:00:00', '')}"
        return {"number": "", "angle": self.unit, "time-of-day": "hours of the day"}[self.kind]

    def raw(self, frame: pd.DataFrame) -> FloatArray:
        """One number a row, in the unit of the column."""
        if self.kind in ("hours", "days"):
            return elapsed(frame, self.name, self.kind, self.origin)[0]
        return hours_of_day(frame, self.name) if self.kind == "time-of-day" else numbers(frame, self.name)

    def read(self, frame: pd.DataFrame) -> FloatArray:
        """Numbers (m, 1), or cosines and sines (m, 2); NaN where missing."""
        values = self.raw(frame)
        if not self.circular:
            return values[:, None]
        radians = Unit("hours" if self.kind == "time-of-day" else self.unit).to_radians(values)
        return np.column_stack([np.cos(radians), np.sin(radians)])


@dataclass(frozen=True)
class Inputs:
    """The input columns in order, with what is taken off and divided by before a model sees their numbers."""

    columns: tuple[InputColumn, ...]
    center: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the numbers that they become."""
        return tuple(label for column in self.columns for label in column.labels)

    def read(self, frame: pd.DataFrame) -> FloatArray:
        """Numbers (m, p) of a table, NaN where missing."""
        find_columns(frame, self.names)
        return np.column_stack([column.read(frame) for column in self.columns])

    def scaled(self, X: FloatArray) -> FloatArray:
        """What the model sees of numbers (m, p)."""
        return (X - np.array(self.center)) / np.array(self.spread) if self.spread else X

    def unscaled(self, X: FloatArray) -> FloatArray:
        """The numbers behind what the model sees."""
        return X * np.array(self.spread) + np.array(self.center) if self.spread else X

    def scaled_to(self, X: FloatArray) -> Self:
        """The same, scaled by the spread of X where columns differ so much that one length scale cannot serve."""
        spread = X.std(axis=0)
        varying = spread[spread > 0.0]
        if varying.size < 2 or varying.max() <= _UNEVEN * varying.min():
            return self
        safe = np.where(spread > 0.0, spread, 1.0)
        return replace(self, center=tuple(map(float, X.mean(axis=0))), spread=tuple(map(float, safe)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        columns = [asdict(column) for column in self.columns]
        return {"columns": columns, "center": list(self.center), "spread": list(self.spread)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Inputs:
        """From a file."""
        columns = tuple(InputColumn(**column) for column in stored["columns"])
        return cls(columns, tuple(stored["center"]), tuple(stored["spread"]))


def described(
    frame: pd.DataFrame, names: Sequence[str], circular: Sequence[str], time_as: str | None, unit: str
) -> Inputs:
    """What the input columns of a table are; `circular` names angles, with ":unit" behind where it is not `unit`."""
    if time_as is not None:
        check.choice(time_as, "time_as", TIMES)
    turning = dict(_name_and_unit(word, frame, unit) for word in circular)
    asked = find_columns(frame, [*names, *(name for name in turning if name not in names)])
    if not asked:
        raise TableError("there is no input column; name at least one")
    columns = []
    for name in asked:
        if is_time(frame[name]):
            columns.append(_of_time(frame, name, time_as))
        elif name in turning:
            columns.append(InputColumn(name, "angle", check.choice(turning[name], "unit", Unit.names())))
        else:
            columns.append(InputColumn(name))
    return Inputs(tuple(columns))


def _name_and_unit(word: str, frame: pd.DataFrame, unit: str) -> tuple[str, str]:
    name, colon, own = word.rpartition(":")
    return (name, own) if colon and word not in frame.columns else (word, unit)


def _of_time(frame: pd.DataFrame, name: str, time_as: str | None) -> InputColumn:
    if time_as is None:
        raise TableError(
            f"column {name!r} holds time stamps; say whether they stand for hours, days or a time of day (on the "
            "command line --time-as hours, days or time-of-day)"
        )
    origin = None if time_as == "time-of-day" else elapsed(frame, name, time_as)[1]
    return InputColumn(name, time_as, origin=origin)
