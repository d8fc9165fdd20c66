"""Columns of angles: their units, to and from radians, and signs that a unit may be another than was said."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm import angles
from mgvm._validation import FloatArray
from mgvm.tables.columns import TableError, find_columns, is_time, numbers
from mgvm.tables.times import hours_of_day

if TYPE_CHECKING:
    import pandas as pd

UNITS = ("degrees", "radians", "hours", "minutes", "days", "months", "compass")
_TURNS = {"radians": 2.0 * np.pi, "hours": 24.0, "minutes": 1440.0, "days": 365.25, "months": 12.0}
# Words in the name of a column that tell its unit; the first that is found counts.
_NAMED = {
    "minutes": r"minutes?_of_(the_)?day|min_of_day",
    "days": r"days?_of_(the_)?year|doy|yday|julian_day",
    "months": r"months?",
    "hours": r"hours?|hour_of_day|hr",
    "radians": r"rad|rads|radians?",
    "degrees": r"deg|degs|degrees?",
}


@dataclass(frozen=True)
class Unit:
    """What the numbers of a column of angles mean.

    Parameters
    ----------
    name : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"} or a number as text
        Degrees counter-clockwise from anywhere, radians, hours or minutes of the day, days or months of the year
        counted from 1, or degrees clockwise from north; a number is the length of a turn: "12.42" for the lunar tide
        in hours.
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
        check_unit(self.name)

    @property
    def turn(self) -> float:
        """A whole turn in this unit."""
        if self.name in UNITS:
            return _TURNS.get(self.name, 360.0)
        return float(self.name)

    @property
    def first(self) -> float:
        """The number at which a turn begins: days and months are counted from 1."""
        return 1.0 if self.name in ("days", "months") else 0.0

    @property
    def symbol(self) -> str:
        """What stands behind a number."""
        symbols = {"degrees": "°", "radians": " rad", "hours": " h", "compass": "°", "minutes": " min"}
        return symbols.get(self.name, "")

    @property
    def description(self) -> str:
        """The unit for people: "degrees", "degrees clockwise from north"."""
        names = {
            "compass": "degrees clockwise from north",
            "hours": "hours of the day",
            "minutes": "minutes of the day",
            "days": "days of the year",
            "months": "months of the year",
        }
        return names.get(self.name, self.name if self.name in UNITS else f"of {self.turn:g}")

    def like(self, values: ArrayLike) -> Self:
        """The same unit, signed where the values are: some negative, none above half a turn."""
        numbers = np.asarray(values, dtype=float)
        numbers = numbers[np.isfinite(numbers)]
        signed = numbers.size > 0 and numbers.min() < 0.0 and numbers.max() <= 0.5 * self.turn and not self.first
        return replace(self, signed=bool(signed))

    def to_radians(self, values: ArrayLike) -> FloatArray:
        """Radians in [-π, π); NaN stays NaN."""
        if self.name == "radians":
            return np.asarray(angles.wrap(check.finite_or_nan(values, "angles")))
        if self.name == "compass":
            return np.asarray(angles.from_compass(values))
        return np.asarray(angles.from_hours(check.finite_or_nan(values, "angles") - self.first, self.turn))

    def from_radians(self, values: ArrayLike) -> FloatArray:
        """Numbers in this unit, from 0 to a turn, or half a turn either way where it is signed."""
        if self.name == "compass":
            numbers = np.asarray(angles.to_compass(values))
        else:
            numbers = self.first + np.asarray(angles.to_hours(values, self.turn))
        return np.where(numbers >= 0.5 * self.turn, numbers - self.turn, numbers) if self.signed else numbers

    def length(self, radians: ArrayLike) -> FloatArray:
        """The length of an arc, or an error, given in radians."""
        return np.asarray(check.real(radians, "radians") * (self.turn / (2.0 * np.pi)))

    def arc(self, lower: ArrayLike, upper: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The ends of an arc in the order in which this unit counts: compass bearings go the other way round."""
        ends = self.from_radians(lower), self.from_radians(upper)
        return (ends[1], ends[0]) if self.name == "compass" else ends


def check_unit(name: str) -> str:
    """The name of a unit, or the length of a turn as text; an error says what is allowed."""
    try:
        if name not in UNITS and 0.0 < float(name) < float("inf"):
            return name
    except (TypeError, ValueError):
        pass
    return check.choice(name, "unit", UNITS)


def named_unit(column: str) -> str | None:
    """The unit that the name of a column tells, if any: "minute_of_day", "dir_deg"."""
    parts = "_" + re.sub(r"[^a-z]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()) + "_"
    return next((unit for unit, text in _NAMED.items() if re.search(f"_({text})_", parts)), None)


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
        kind = _choose_unit(name, raw, unit).like(raw)
    there = raw[~np.isnan(raw)]
    if there.size == 0:
        raise TableError(f"column {name!r} holds no value at all: all {raw.size:,} are missing; choose another column")
    if unit is None:
        _refuse_many_turns(name, there, kind)
    return AngleColumn(raw, kind.to_radians(raw), kind, _doubt_unit(name, there, kind, given=unit is not None))


def _choose_unit(name: str, raw: FloatArray, given: str | None) -> Unit:
    """The unit that was given, or that the name of the column tells where its values agree, or degrees."""
    if given is not None:
        return Unit(given)
    told = named_unit(name)
    return Unit(told) if told is not None and _fits(raw, Unit(told)) else Unit("degrees")


def _fits(values: FloatArray, unit: Unit) -> bool:
    """Whether all values lie within a turn of a unit, either way; 24:00 and day 366 are the end of one."""
    there = values[~np.isnan(values)]
    return there.size > 0 and bool(np.abs(there - unit.first).max() <= unit.turn)


def _refuse_many_turns(name: str, values: FloatArray, unit: Unit, share: float = 0.02) -> None:
    """An error where many different values lie beyond a turn: one alone may mark a missing value."""
    beyond = values[np.abs(values - unit.first) > unit.turn]
    far = np.abs(beyond).max(initial=0.0) > 1.5 * unit.turn
    if not far or beyond.size < share * values.size or np.unique(beyond).size < 3:
        return
    told = named_unit(name)
    fitting = [other for other in ("hours", "days", "minutes") if values.min() >= 0.0 and _fits(values, Unit(other))]
    guess = told if told in fitting else next(iter(fitting), None)
    hint = (
        f"it looks like {Unit(guess).description}: then say --unit {guess}"
        if guess
        else "if a turn of it has another length, say so with --period-of-angle"
    )
    raise TableError(
        f"{name} goes from {values.min():g} to {values.max():g}, {beyond.size:,} of {values.size:,} rows beyond a turn "
        f"of {unit.turn:g} {unit.name}, which is what is taken where no unit is given; {hint}. If it does mean "
        f"{unit.name} of several turns, say --unit {unit.name}"
    )


def _doubt_unit(name: str, values: FloatArray, unit: Unit, *, given: bool) -> tuple[str, ...]:
    """What looks as if the unit were another, or as if a number marked a missing value."""
    smallest, largest = float(values.min()), float(values.max())
    reach, many = max(-smallest, largest), values.size >= 10  # few values tell little of their unit
    found = _doubt_name(name, values, unit, given=given)
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
    elif not given and unit.name == "degrees" and many and smallest >= 0.0 and 20.0 < largest <= 24.0:
        found.append(
            f"{name} lies within {smallest:.4g} and {largest:.4g}: are these hours of the day? Then say --unit hours"
        )
    elif not given and unit.name == "degrees" and many and smallest >= 1.0 and 360.0 < largest <= 366.0:
        found.append(
            f"{name} lies within {smallest:g} and {largest:g}: are these days of the year? Then say --unit days"
        )
    if unit.name != "radians" and reach > 2.0 * unit.turn:
        code, count = _commonest(values[np.abs(values) > unit.turn])
        found.append(
            f"{name} is {code:g} in {count} of {values.size:,} rows, more than a turn of {unit.turn:g}; if that marks "
            f"a missing value, say so (--missing {code:g})"
        )
    return tuple(found)


def _doubt_name(name: str, values: FloatArray, unit: Unit, *, given: bool) -> list[str]:
    """What is said where the name of a column tells a unit: that it was heeded, or why not."""
    told = named_unit(name)
    if told is None or told == unit.name or (told == "degrees" and unit.name == "compass"):
        return [] if given or told in (None, "degrees") else [f"{name} is read in {unit.description}, as its name says"]
    if given:
        return [f"{name} is read as {unit.name}, as was asked for, although its name says {told}"]
    return [
        f"the name of {name} says {told}, but it goes from {values.min():g} to {values.max():g}, beyond a turn of "
        f"{Unit(told).turn:g}; it is read as {unit.name}: say which with --unit"
    ]


def _commonest(values: FloatArray) -> tuple[float, int]:
    kinds, counts = np.unique(values, return_counts=True)
    best = int(np.argmax(counts))
    return float(kinds[best]), int(counts[best])
