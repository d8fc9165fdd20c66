"""What the data sets share: counts by day and minute, angles of rows, arrays that cannot be changed."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mgvm._frozen import freeze
from mgvm.angles import from_compass, from_hours

_MINUTES_PER_DAY = 1440


def read_rows(content: bytes) -> list[list[str]]:
    """The fields of a CSV file, its header first."""
    return list(csv.reader(io.StringIO(content.decode("ascii"))))


def minutes_to_angles(minutes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Minutes of the day as radians in [-pi, pi): midnight is 0, noon -pi."""
    return np.asarray(from_hours(minutes, period=_MINUTES_PER_DAY))


class Dataset:
    """What every data set does: it keeps read-only copies of its arrays."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, np.array(value, order="C"))
        freeze(*vars(self).values())


class AtTimesOfDay(Dataset):
    """Rows with a ``minute_of_day``, which is an angle."""

    minute_of_day: NDArray[np.int64]

    @property
    def angles(self) -> NDArray[np.float64]:
        """Time of day in radians in [-pi, pi): 2 pi is 24 hours, midnight 0, noon -pi."""
        return minutes_to_angles(self.minute_of_day)


class AtPlaces(Dataset):
    """Rows with a ``longitude`` and a ``latitude`` in degrees."""

    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]

    @property
    def positions(self) -> NDArray[np.float64]:
        """Longitude and latitude in degrees, shape (n, 2)."""
        return np.stack([self.longitude, self.latitude], axis=1)


class FromBearings(Dataset):
    """Rows with a ``bearing`` in degrees clockwise from north, one or several."""

    bearing: NDArray[np.float64]

    @property
    def angles(self) -> NDArray[np.float64]:
        """The bearings in radians counter-clockwise from east in [-pi, pi), shaped like them."""
        return np.asarray(from_compass(self.bearing))


class OfMarkers(Dataset):
    """Rows with ``positions`` of several markers, shape (n, markers, coordinates)."""

    positions: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.float64]:
        """The positions as a matrix, all coordinates of one marker after another."""
        return self.positions.reshape(len(self.positions), -1)


@dataclass(frozen=True, eq=False)
class CountsByMinute(AtTimesOfDay):
    """Events of a month counted by day and minute, one row each; minutes without any are left out.

    Attributes
    ----------
    day : ndarray of int, shape (n,)
        Day of the month, from 1.
    minute_of_day : ndarray of int, shape (n,)
        0 to 1439, local time.
    count : ndarray of int, shape (n,)
        Events in that minute.
    """

    day: NDArray[np.int64]
    minute_of_day: NDArray[np.int64]
    count: NDArray[np.int64]

    _first_weekday: ClassVar[int]

    @property
    def day_of_week(self) -> NDArray[np.int64]:
        """Day of the week, Monday 0 to Sunday 6."""
        return (self.day - 1 + self._first_weekday) % 7

    @property
    def weekend(self) -> NDArray[np.bool_]:
        """True on Saturdays and Sundays."""
        return self.day_of_week >= 5

    def by_minute(self, rows: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The 1440 angles of the minutes of a day, and the events in each, all days added up.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,), optional
            Which rows to count; all by default.

        Returns
        -------
        angles : ndarray, shape (1440,)
            Radians in [-pi, pi), from midnight on.
        counts : ndarray of int, shape (1440,)
            Events, to be handed to a fit as weights.
        """
        counts = np.zeros(_MINUTES_PER_DAY, dtype=np.int64)
        chosen = slice(None) if rows is None else rows
        np.add.at(counts, self.minute_of_day[chosen], self.count[chosen])
        return minutes_to_angles(np.arange(_MINUTES_PER_DAY)), counts


@dataclass(frozen=True, eq=False)
class DihedralAngles(Dataset):
    """Dihedral angles of residues, one row each.

    Attributes
    ----------
    angles : ndarray, shape (n, d)
        Radians in [-pi, pi); NaN where a residue does not have the angle.
    names : tuple of str
        What the columns are: phi and psi of the backbone, chi1, chi2, ... of the side chain.
    structure : ndarray of str, shape (n,)
        Which structure of the Protein Data Bank (for Top500: which chain of the file) the residue is of. Residues of
        one structure are alike: training and test sets should not share one.
    """

    angles: NDArray[np.float64]
    names: tuple[str, ...]
    structure: NDArray[np.str_]
