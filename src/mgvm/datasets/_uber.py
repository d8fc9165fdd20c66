"""Uber pick-ups in New York City, April 2014."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

_MINUTES_PER_DAY = 1440


def _minutes_to_angles(minutes: NDArray[np.int64]) -> NDArray[np.float64]:
    # Whole minutes are wrapped before they become radians, so that every angle carries one rounding only.
    wrapped = (minutes + _MINUTES_PER_DAY // 2) % _MINUTES_PER_DAY - _MINUTES_PER_DAY // 2
    return wrapped.astype(np.float64) * (2 * np.pi / _MINUTES_PER_DAY)


@dataclass(frozen=True, eq=False)
class UberPickups:
    """Pick-ups counted by day and minute, one row each; minutes without any are left out.

    Attributes
    ----------
    day : ndarray of int, shape (41999,)
        Day of April 2014, 1 to 30.
    minute_of_day : ndarray of int, shape (41999,)
        0 to 1439, local time.
    count : ndarray of int, shape (41999,)
        Pick-ups in that minute.
    split : ndarray of str, shape (41999,)
        "train" or "valid", a split by day.
    """

    day: NDArray[np.int64]
    minute_of_day: NDArray[np.int64]
    count: NDArray[np.int64]
    split: NDArray[np.str_]

    @property
    def angles(self) -> NDArray[np.float64]:
        """Time of day in radians in [-pi, pi): 2 pi is 24 hours, midnight 0, noon -pi."""
        return _minutes_to_angles(self.minute_of_day)

    @property
    def day_of_week(self) -> NDArray[np.int64]:
        """Day of the week, Monday 0 to Sunday 6."""
        # 1 April 2014 was a Tuesday, so the day of the month needs no shift.
        return self.day % 7

    @property
    def weekend(self) -> NDArray[np.bool_]:
        """True on Saturdays and Sundays."""
        return self.day_of_week >= 5

    def by_minute(self, rows: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The 1440 angles of the minutes of a day, and the pick-ups in each, all days added up.

        Parameters
        ----------
        rows : ndarray of bool, shape (41999,), optional
            Which rows to count; all by default.

        Returns
        -------
        angles : ndarray, shape (1440,)
            Radians in [-pi, pi), from midnight on.
        counts : ndarray of int, shape (1440,)
            Pick-ups, to be handed to a fit as weights.
        """
        counts = np.zeros(_MINUTES_PER_DAY, dtype=np.int64)
        chosen = slice(None) if rows is None else rows
        np.add.at(counts, self.minute_of_day[chosen], self.count[chosen])
        return _minutes_to_angles(np.arange(_MINUTES_PER_DAY)), counts


def load_uber_pickups() -> UberPickups:
    """Load 564,516 Uber pick-ups in New York City, April 2014, counted by day and minute.

    The time of day is an angle; weekdays have two rush hours, weekends a long night. Source, changes and terms are in
    the ``README.md`` beside the file, in ``mgvm/datasets/data``.

    Returns
    -------
    UberPickups
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_uber_pickups
    >>> pickups = load_uber_pickups()
    >>> int(pickups.count.sum())
    564516
    >>> angles, counts = pickups.by_minute(pickups.weekend)
    >>> int(counts.sum()), int(counts.argmax()) // 60
    (128469, 16)
    """
    path = resources.files("mgvm.datasets") / "data" / "uber_apr2014_counts.csv.gz"
    row = np.dtype([("split", "U5"), ("day", np.int64), ("minute_of_day", np.int64), ("count", np.int64)])
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        table = np.loadtxt(text, dtype=row, delimiter=",", skiprows=1)
    columns = {name: np.ascontiguousarray(table[name]) for name in row.names or ()}
    for column in columns.values():
        column.flags.writeable = False
    return UberPickups(**columns)
