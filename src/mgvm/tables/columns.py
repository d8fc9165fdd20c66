"""Columns of a table, found by name and read as numbers, and what can be wrong with a table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray

if TYPE_CHECKING:
    import pandas as pd

_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
_GROUPED = re.compile(r"([-+]?)(\d{1,3})(?:([.,' \u2019\xa0\u202f])\d{3})(?:\3\d{3})*(?:[.,]\d+)?")
_WITH_UNIT = re.compile(r"([-+]?\d+(?:[.,]\d+)?)\s*([^\W\d_]{1,10}|[°º%'\u2032])")
_TIME = re.compile(r"\s*(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)\s*")


class TableError(ValueError):
    """A file or its columns cannot be used as asked; the message says why and what to do."""


class RefusedError(Exception):
    """Writing would destroy something, or cannot be done where it was asked for."""


def shown(value: object, width: int = 60) -> str:
    """What a message shows of a name or a cell: its repr, cut where it is long."""
    text = str(value)
    return repr(text) if len(text) <= width else f"{text[: width - 1]!r}…"


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
            raise TableError(
                f"there is no column {shown(name)}{_suggest(name, known)} The columns are {_list_names(known)}"
            )
        if known.count(name) > 1:
            raise TableError(f"there are {known.count(name)} columns called {shown(name)}; rename all but one")
        if asked.count(name) > 1:
            raise TableError(f"column {shown(name)} was asked for twice; name every column once")
    return asked


def _suggest(name: str, known: list[str]) -> str:
    plain = {column.strip().lower(): column for column in reversed(known)}
    # Names of any length are compared in no time that way.
    plain = {word[:100]: column for word, column in plain.items()}
    close = difflib.get_close_matches(name.strip().lower()[:100], plain, n=2, cutoff=0.6)
    found = [shown(plain[word]) for word in close]
    return f"; did you mean {' or '.join(found)}?" if found else "."


def _list_names(known: list[str], most: int = 12) -> str:
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(shown(name) for name in known[:most]) + more


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
            f"column {shown(name)} holds time stamps ({shown(first_value(column))}), not numbers; make them hours, "
            "days or a time of day (on the command line --time-as hours, days or time-of-day)"
        )
    if column.dtype.kind in "iufb":
        values = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        _refuse_texts(column, name)
        _refuse_cells(column, name)
        values = np.array([np.nan if is_missing(cell) else float(cell) for cell in column], dtype=float)
    bad = np.flatnonzero(np.isinf(values))
    if bad.size:
        raise TableError(
            f"column {shown(name)} is infinite in row {bad[0] + 1}; leave the cell empty if the value is not known"
        )
    return values


def refuse_constant(name: str, values: FloatArray) -> None:
    """An error where a column has one value only."""
    there = values[~np.isnan(values)]
    if there.size > 1 and np.ptp(there) == 0.0:
        raise TableError(
            f"column {shown(name)} is {there[0]:g} in every row: there is nothing to learn; choose another column"
        )


def _refuse_texts(column: pd.Series, name: str) -> None:
    """An error where none of the first cells is a number, and none is one in another way of writing."""
    some = [cell for cell in column.head(50) if not is_missing(cell)]
    if not any(_is_number(cell) or _cure_of_writing(str(cell)) for cell in some) and len(some) > 1:
        first = ", ".join(shown(cell) for cell in dict.fromkeys(map(str, some[:3])))
        raise TableError(f"column {shown(name)} holds no numbers ({first}, ...); choose another column")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _refuse_cells(column: pd.Series, name: str) -> None:
    """An error where a cell is no number.

    Decimal commas come last: one cell that is no number for another reason keeps a whole column of them texts, even
    where the file was read with a decimal comma.
    """
    wrong = [(row, str(cell)) for row, cell in enumerate(column) if not (is_missing(cell) or _is_number(cell))]
    if not wrong:
        return
    row, cell = next((one for one in wrong if not _DECIMAL_COMMA.fullmatch(one[1])), wrong[0])
    cure = _cure_of_writing(cell) or (
        "repair it, leave the cell empty, or, if it marks a missing value, read the file with missing=[...] "
        f"(on the command line --missing {shown(cell)})"
    )
    raise TableError(f"column {shown(name)} holds {shown(cell)} in row {row + 1}, which is no number; {cure}")


def _cure_of_writing(cell: str) -> str | None:
    """What to do about a cell that is a number in another way of writing; None for other texts."""
    cell = cell.strip()
    if _DECIMAL_COMMA.fullmatch(cell):
        return "it has a decimal comma: read the file with decimal=',' (on the command line --decimal ,)"
    if _GROUPED.fullmatch(cell):
        plain = _ungrouped(cell)
        comma = f" ({plain.replace('.', ',')} in a file that is read with a decimal comma)" if "." in plain else ""
        return f"its thousands are set apart: write {plain}{comma}, without marks between thousands"
    with_unit = _WITH_UNIT.fullmatch(cell)
    if with_unit is not None:
        number, sign = with_unit.groups()
        return f"{sign!r} stands behind it: write {number} alone; the unit of an angle is said with unit (--unit)"
    return None


def _ungrouped(cell: str) -> str:
    """A number without what sets its thousands apart: the last mark is a decimal one if it differs from the first."""
    marks = re.findall(r"[^-+\d]", cell)
    if marks[-1] == marks[0]:
        return re.sub(r"[^-+\d]", "", cell)
    whole, _, part = cell.rpartition(marks[-1])
    return re.sub(r"[^-+\d]", "", whole) + "." + part


def is_missing(cell: object) -> bool:
    """Whether a cell is None, NaN, NaT, pandas' NA or blank."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return True
    return type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and np.isnan(cell))


def first_value(column: pd.Series) -> object:
    """The first cell of a column that is not missing; None where there is none."""
    return next((cell for cell in column if not is_missing(cell)), None)


def is_time(column: pd.Series) -> bool:
    """Whether a column holds time stamps: by its type, or because its first value is written like one."""
    if column.dtype.kind in "Miufbc":
        return column.dtype.kind == "M"
    first = first_value(column)
    return hasattr(first, "hour") or (isinstance(first, str) and _TIME.fullmatch(first) is not None)
