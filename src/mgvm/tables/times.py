"""Time stamps as hours, days, or time of day."""

from __future__ import annotations

import re
import warnings
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from mgvm._validation import FloatArray
from mgvm.tables.columns import TableError, find_columns, first_value, is_missing, shown

if TYPE_CHECKING:
    import pandas as pd

TIMES = ("hours", "days", "time-of-day")
_CLOCK = re.compile(r"\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*")
_DATE = re.compile(r"\s*(\d{1,4})([-/.])(\d{1,2})[-/.](\d{1,4})")


def hours_of_day(frame: pd.DataFrame, name: str) -> FloatArray:
    """Hours since midnight, as the clock showed them where the stamp was written; NaN where there is none.

    Parameters
    ----------
    frame : DataFrame
        The table.
    name : str
        A column of time stamps, or of times like 17:30.

    Examples
    --------
    >>> import pandas as pd
    >>> from mgvm.tables import hours_of_day
    >>> hours_of_day(pd.DataFrame({"at": ["2024-03-01 06:30", "2024-03-02 18:00"]}), "at")
    array([ 6.5, 18. ])
    """
    find_columns(frame, [name])
    first = first_value(frame[name])
    if isinstance(first, str) and _CLOCK.fullmatch(first):
        return np.array([_clock(cell, row, name) for row, cell in enumerate(frame[name])])
    return np.array([np.nan if is_missing(stamp) else _since_midnight(stamp) for stamp in _stamps(frame[name])])


def _since_midnight(stamp: datetime) -> float:
    """Hours as the clock showed them: an offset from UTC is left off, not converted."""
    return float(stamp.hour + stamp.minute / 60.0 + (stamp.second + stamp.microsecond * 1e-6) / 3600.0)


def _clock(cell: object, row: int, name: str) -> float:
    if is_missing(cell):
        return float("nan")
    found = _CLOCK.fullmatch(cell) if isinstance(cell, str) else None
    if found is None or int(found[1]) > 24 or int(found[2]) > 59:
        raise TableError(
            f"column {shown(name)} holds {shown(cell)} in row {row + 1}, which is no time of day like 17:30; repair it"
        )
    return int(found[1]) + int(found[2]) / 60.0 + float(found[3] or 0.0) / 3600.0


def elapsed(frame: pd.DataFrame, name: str, step: str, origin: str | None = None) -> tuple[FloatArray, str]:
    """Hours or days since an origin, and the origin: by default midnight of the first day of the column.

    Parameters
    ----------
    frame : DataFrame
        The table.
    name : str
        A column of time stamps. Those with an offset from UTC are taken as such; those without as they stand.
    step : {"hours", "days"}
        The unit.
    origin : str, optional
        A date or time in ISO 8601.

    Examples
    --------
    >>> import pandas as pd
    >>> from mgvm.tables import elapsed
    >>> elapsed(pd.DataFrame({"at": ["2024-03-01 06:00", "2024-03-02 18:00"]}), "at", "days")
    (array([0.25, 1.75]), '2024-03-01T00:00:00')
    """
    import pandas as pd

    find_columns(frame, [name])
    stamps = _stamps(frame[name])
    # As UTC, without saying so: differences are then true across changes of the clock.
    moments = pd.to_datetime(pd.Series(stamps, dtype=object), utc=True).dt.tz_localize(None)
    if origin is None:
        if moments.isna().all():
            raise TableError(f"column {shown(name)} holds no time stamp at all; choose another column")
        origin = moments.min().normalize().isoformat()
    ticks = (moments - pd.Timestamp(origin)) / pd.Timedelta(hours=1)
    return ticks.to_numpy(dtype=float) / (24.0 if step == "days" else 1.0), origin


def _stamps(column: pd.Series) -> list[datetime]:
    """Time stamps of a column, NaT where there is none."""
    import pandas as pd

    if column.dtype.kind == "M":
        return list(column)
    name, texts = str(column.name), [None if is_missing(cell) else str(cell) for cell in column]
    day_first = _day_first(texts, name)
    found = []
    for row, text in enumerate(texts):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found.append(pd.NaT if text is None else pd.Timestamp(_year_first(text, day_first)))
        except ValueError:
            raise TableError(
                f"column {shown(name)} holds {shown(text)} in row {row + 1}, which is no time stamp like "
                "2024-03-01 17:30; repair it, or leave the cell empty"
            ) from None
    return found


def _year_first(text: str, day_first: bool) -> str:
    """The text with its date in the order of ISO 8601."""
    parts = _DATE.match(text)
    if parts is None or len(parts[1]) > 2:
        return text
    day, month = (parts[1], parts[3]) if day_first else (parts[3], parts[1])
    return f"{parts[4]}-{month}-{day}{text[parts.end() :]}"


def _day_first(texts: list[str | None], name: str) -> bool:
    """Whether dates begin with the day: they do with dots; slashes are told by a number above 12."""
    found = [parts for parts in (_DATE.match(text) for text in texts if text is not None) if parts]
    loose = [parts for parts in found if len(parts[1]) <= 2]
    if not loose or all(parts[2] == "." for parts in loose):
        return True
    day, month = any(int(parts[1]) > 12 for parts in loose), any(int(parts[3]) > 12 for parts in loose)
    if day == month:
        raise TableError(
            f"column {shown(name)} holds dates like {shown(loose[0].string)}, whose day and month cannot be told "
            "apart; write them as 2024-03-01"
        )
    return day
