"""Columns of a table: found by name, as numbers or as times.

Units of the angles in people's files, to and from radians.

What can be wrong with a table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mgvm import _validation as check
from mgvm import angles
from mgvm._validation import FloatArray

if TYPE_CHECKING:
    import pandas as pd

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


class TableError(ValueError):
    """A file or its columns cannot be used as asked; the message says why and what to do."""


class RefusedError(Exception):
    """Writing would destroy something, or cannot be done where it was asked for."""


_SHOWN = 12
_TRIED = 50
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


def find_columns(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """The names, once each is known to be a column of the table.

    Parameters
    ----------
    frame : DataFrame
        The table.
    names : iterable of str
        Columns asked for.

    Raises
    ------
    TableError
        With what was probably meant, where a name is no column or is asked for twice.

    Examples
    --------
    >>> import pandas as pd
    >>> from mgvm.tables import find_columns
    >>> find_columns(pd.DataFrame({"direction": [10.0], "lat": [50.0]}), ["direktion"])
    Traceback (most recent call last):
    ...
    mgvm.tables.columns.TableError: there is no column 'direktion'; did you mean 'direction'? The columns are ...
    """
    asked = [str(name) for name in names]
    known = [str(name) for name in frame.columns]
    for name in asked:
        if name not in known:
            raise TableError(f"there is no column {name!r}{_meant(name, known)} The columns are {_listed(known)}")
        if known.count(name) > 1:
            raise TableError(f"there are {known.count(name)} columns called {name!r}; rename all but one")
        if asked.count(name) > 1:
            raise TableError(f"column {name!r} was asked for twice; name every column once")
    return asked


def _meant(name: str, known: list[str]) -> str:
    plain = {column.strip().lower(): column for column in reversed(known)}
    close = difflib.get_close_matches(name.strip().lower(), plain, n=2, cutoff=0.6)
    found = [repr(plain[word]) for word in close]
    return f"; did you mean {' or '.join(found)}?" if found else "."


def _listed(known: list[str]) -> str:
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(map(repr, known[:_SHOWN])) + more


def numbers(frame: pd.DataFrame, name: str) -> FloatArray:
    """A column as floats, NaN where a value is missing.

    Parameters
    ----------
    frame : DataFrame
        The table.
    name : str
        One of its columns.

    Raises
    ------
    TableError
        Where a cell is no number: the message has the first such cell and its row, counted from 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from mgvm.tables import numbers
    >>> numbers(pd.DataFrame({"x": ["1.5", None, " 2"]}), "x")
    array([1.5, nan, 2. ])
    >>> numbers(pd.DataFrame({"x": ["1.5", "calm"]}), "x")
    Traceback (most recent call last):
    ...
    mgvm.tables.columns.TableError: column 'x' holds 'calm' in row 2, which is no number; ...
    """
    find_columns(frame, [name])
    column = frame[name]
    if is_time(column):
        raise TableError(
            f"column {name!r} holds time stamps ({_first_text(column)}), not numbers; make them hours, days or a time "
            "of day (on the command line --time-as hours, days or time-of-day)"
        )
    if column.dtype.kind in "iufb":
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        _refuse_words(column, name)
        values = np.array([_number(cell, row, name) for row, cell in enumerate(column)], dtype=float)
    bad = np.flatnonzero(np.isinf(values))
    if bad.size:
        raise TableError(
            f"column {name!r} is infinite in row {bad[0] + 1}; leave the cell empty if the value is not known"
        )
    return values


def _refuse_words(column: pd.Series, name: str) -> None:
    """An error where none of the first cells is a number, and none is written as one with a decimal comma."""
    some = [cell for cell in column.head(_TRIED) if not is_missing(cell)]
    if not any(_is_number(cell) or _DECIMAL_COMMA.fullmatch(str(cell)) for cell in some) and len(some) > 1:
        shown = ", ".join(map(repr, dict.fromkeys(map(str, some[:3]))))
        raise TableError(f"column {name!r} holds no numbers ({shown}, ...); choose another column")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _number(cell: Any, row: int, name: str) -> float:
    if is_missing(cell):
        return float("nan")
    if _is_number(cell):
        return float(cell)
    if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell):
        cure = "it has a decimal comma: read the file with decimal=',' (on the command line --decimal ,)"
    else:
        cure = (
            "repair it, leave the cell empty, or, if it marks a missing value, read the file with missing=[...] "
            f"(on the command line --missing {cell!r})"
        )
    raise TableError(f"column {name!r} holds {cell!r} in row {row + 1}, which is no number; {cure}")


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT, pandas' NA or blank."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return True
    return type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and np.isnan(cell))


_STAMP = re.compile(r"\s*(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)\s*")


def is_time(column: pd.Series) -> bool:
    """Whether a column holds time stamps: by its type, or because its first value is written like one."""
    if column.dtype.kind == "M" or str(column.dtype).startswith("datetime64"):
        return True
    if column.dtype.kind in "iufbc":
        return False
    first = next((cell for cell in column if not is_missing(cell)), None)
    return hasattr(first, "hour") or (isinstance(first, str) and _STAMP.fullmatch(first) is not None)


def _first_text(column: pd.Series) -> str:
    return repr(str(next(cell for cell in column if not is_missing(cell))))
