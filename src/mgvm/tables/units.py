"""Columns of angles: their units, to and from radians, and signs that a unit may be another than was said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mgvm import _validation as check
from mgvm import angles
from mgvm._validation import FloatArray
from mgvm.tables.columns import TableError, find_columns, is_time, numbers
from mgvm.tables.times import hours_of_day

if TYPE_CHECKING:
    import pandas as pd

UNITS = ("degrees", "radians", "hours", "compass")


@dataclass(frozen=True)
class Unit:
    """What the numbers of a column of angles mean.

    Parameters
    ----------
    name : {"degrees", "radians", "hours", "compass"}
        Degrees counter-clockwise from anywhere, radians, hours of the day, or degrees clockwise from north.
    signed : bool, default False
        Whether half of the turn is written with a minus sign: -180 to 180 instead of 0 to 360.

    Examples
    --------
    >>> from mgvm.tables import Unit
    >>> unit = Unit("compass")
    >>> unit.to_radians([0.0, 90.0]).round(4)
    array([1.5708, 0.    ])
    >>> unit.from_radians(unit.to_radians([350.0, 10.0])).round(4)
    array([350.,  10.])
    """

    name: str
    signed: bool = False

    def __post_init__(self) -> None:
        check.choice(self.name, "unit", UNITS)

    @property
    def turn(self) -> float:
        """A whole turn in this unit."""
        return {"degrees": 360.0, "radians": 2.0 * np.pi, "hours": 24.0, "compass": 360.0}[self.name]

    @property
    def symbol(self) -> str:
        """What stands behind a number."""
        return {"degrees": "°", "radians": " rad", "hours": " h", "compass": "°"}[self.name]

    @property
    def description(self) -> str:
        """The unit for people: "degrees", "degrees clockwise from north"."""
        return {"compass": "degrees clockwise from north", "hours": "hours of the day"}.get(self.name, self.name)

    def like(self, values: Any) -> Self:
        """The same unit, signed where the values are: some negative, none above half a turn."""
        numbers = np.asarray(values, dtype=float)
        numbers = numbers[np.isfinite(numbers)]
        signed = numbers.size > 0 and numbers.min() < 0.0 and numbers.max() <= 0.5 * self.turn
        return replace(self, signed=bool(signed))

    def to_radians(self, values: Any) -> FloatArray:
        """Radians in [-π, π); NaN stays NaN."""
        if self.name == "radians":
            return np.asarray(angles.wrap(check.finite_or_nan(values, "angles")))
        if self.name == "compass":
            return np.asarray(angles.from_compass(values))
        return np.asarray(angles.from_hours(values, self.turn))

    def from_radians(self, values: Any) -> FloatArray:
        """Numbers in this unit, from 0 to a turn, or half a turn either way where it is signed."""
        if self.name == "compass":
            numbers = np.asarray(angles.to_compass(values))
        else:
            numbers = np.asarray(angles.to_hours(values, self.turn))
        return np.where(numbers >= 0.5 * self.turn, numbers - self.turn, numbers) if self.signed else numbers

    def length(self, radians: Any) -> FloatArray:
        """The length of an arc, or an error, given in radians."""
        return np.asarray(check.real(radians, "radians") * (self.turn / (2.0 * np.pi)))

    def arc(self, lower: Any, upper: Any) -> tuple[FloatArray, FloatArray]:
        """The ends of an arc in the order in which this unit counts: compass bearings go the other way round."""
        ends = self.from_radians(lower), self.from_radians(upper)
        return (ends[1], ends[0]) if self.name == "compass" else ends


class AngleColumn(NamedTuple):
    """A column of angles: numbers as written, radians, unit, and warnings that it may be another."""

    raw: FloatArray
    radians: FloatArray
    unit: Unit
    warnings: tuple[str, ...]


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
    return AngleColumn(raw, kind.to_radians(raw), kind, _doubt_unit(name, there, kind, given=unit is not None))


def _doubt_unit(name: str, values: FloatArray, unit: Unit, *, given: bool) -> tuple[str, ...]:
    """What looks as if the unit were another, or as if a number marked a missing value."""
    smallest, largest = float(values.min()), float(values.max())
    reach, many = max(-smallest, largest), values.size >= 10  # few values tell little of their unit
    found = []
    if unit.name == "radians" and reach > 4.0 * np.pi:
        found.append(
            f"{name} reaches {reach:g}, more than two turns of 6.28 radians: it looks like degrees; if so, say so "
            "(--unit degrees, or compass)"
        )
    elif unit.name in ("degrees", "compass") and many and reach <= 2.0 * np.pi and (values != np.round(values)).any():
        guess = "" if given else " which is what is taken where no unit is given,"
        found.append(
            f"{name} lies within {smallest:.4g} and {largest:.4g}: few numbers for {unit.name},{guess} and it looks "
            "like radians; if so, say so (--unit radians)"
        )
    elif unit.name == "hours" and reach > 48.0:
        found.append(f"{name} reaches {reach:g}, more than two days of hours; other units are {', '.join(UNITS)}")
    elif not given and many and smallest >= 0.0 and 20.0 < largest <= 24.0:
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
