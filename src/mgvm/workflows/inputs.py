"""Input columns of a regression, and how they become the numbers that a model sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.tables.columns import TableError, find_columns, is_time, numbers
from mgvm.tables.times import TIMES, elapsed, hours_of_day
from mgvm.tables.units import Unit, check_unit

if TYPE_CHECKING:
    import pandas as pd


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
        """Its unit for people."""
        if self.kind in ("hours", "days"):
            return f"{self.kind} since {str(self.origin).replace('T00:00:00', '')}"
        return self.angle_unit.description if self.circular else ""

    @property
    def angle_unit(self) -> Unit:
        """The unit of a circular input."""
        return Unit("hours" if self.kind == "time-of-day" else self.unit)

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
        radians = self.angle_unit.to_radians(values)
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

    def scale(self, X: FloatArray) -> FloatArray:
        """What the model sees of numbers (m, p)."""
        return (X - np.array(self.center)) / np.array(self.spread) if self.spread else X

    def unscale(self, X: FloatArray) -> FloatArray:
        """The numbers behind what the model sees."""
        return X * np.array(self.spread) + np.array(self.center) if self.spread else X

    def standardize_to(self, X: FloatArray, uneven: float = 10.0) -> Self:
        """The same, scaled by the spread of X where spreads differ by more than a factor `uneven`.

        One length scale could then not serve all inputs.
        """
        spread = X.std(axis=0)
        varying = spread[spread > 0.0]
        if varying.size < 2 or varying.max() <= uneven * varying.min():
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


def find_inputs(
    frame: pd.DataFrame, names: Sequence[str], circular: Sequence[str], time_as: str | None, unit: str
) -> Inputs:
    """What the input columns of a table are; `circular` names angles, with ":unit" behind where it is not `unit`."""
    if time_as is not None:
        check.choice(time_as, "time_as", TIMES)
    circular_units = dict(_split_unit(text, frame, unit) for text in circular)
    asked = find_columns(frame, [*names, *(name for name in circular_units if name not in names)])
    if not asked:
        raise TableError("there is no input column; name at least one")
    columns = []
    for name in asked:
        if is_time(frame[name]):
            columns.append(_time_column(frame, name, time_as))
        elif name in circular_units:
            columns.append(InputColumn(name, "angle", check_unit(circular_units[name])))
        else:
            columns.append(InputColumn(name))
    return Inputs(tuple(columns))


def _split_unit(text: str, frame: pd.DataFrame, unit: str) -> tuple[str, str]:
    name, colon, own = text.rpartition(":")
    return (name, own) if colon and text not in frame.columns else (text, unit)


def _time_column(frame: pd.DataFrame, name: str, time_as: str | None) -> InputColumn:
    if time_as is None:
        raise TableError(
            f"column {name!r} holds time stamps; say whether they stand for hours, days or a time of day (on the "
            "command line --time-as hours, days or time-of-day)"
        )
    origin = None if time_as == "time-of-day" else elapsed(frame, name, time_as)[1]
    return InputColumn(name, time_as, origin=origin)
