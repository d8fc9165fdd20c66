"""Units of the angles in people's files, to and from radians."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mgvm import _validation as check
from mgvm import angles
from mgvm._validation import FloatArray

UNITS = ("degrees", "radians", "hours", "compass")
_TURNS = {"degrees": 360.0, "radians": 2.0 * np.pi, "hours": 24.0, "compass": 360.0}
_SYMBOLS = {"degrees": "°", "radians": " rad", "hours": " h", "compass": "°"}


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

    @staticmethod
    def names() -> tuple[str, ...]:
        """All units that there are."""
        return UNITS

    @property
    def turn(self) -> float:
        """A whole turn in this unit."""
        return _TURNS[self.name]

    @property
    def symbol(self) -> str:
        """What stands behind a number."""
        return _SYMBOLS[self.name]

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
