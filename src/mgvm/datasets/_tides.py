"""Times of tides at ports on the south coast of England."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from mgvm.datasets._uber import _minutes_to_angles


@dataclass(frozen=True, eq=False)
class Tides:
    """Thirteen successive tides at each of 51 ports, one row each.

    Attributes
    ----------
    port : ndarray of int, shape (663,)
        Number of the port, 0 to 50.
    longitude, latitude : ndarray, shape (663,)
        Of the port, degrees; east and north are positive.
    minute_of_day : ndarray of int, shape (663,)
        When the tide comes, 0 to 1439.
    split : ndarray of str, shape (663,)
        "train" (26 ports) or "valid" (25 ports).
    """

    port: NDArray[np.int64]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    minute_of_day: NDArray[np.int64]
    split: NDArray[np.str_]

    @property
    def angles(self) -> NDArray[np.float64]:
        """Time of day in radians in [-pi, pi): 2 pi is 24 hours, midnight 0, noon -pi."""
        return _minutes_to_angles(self.minute_of_day)

    @property
    def positions(self) -> NDArray[np.float64]:
        """Longitude and latitude, shape (663, 2)."""
        return np.stack([self.longitude, self.latitude], axis=1)


def load_tides() -> Tides:
    """Load the time of day of 13 tides at 51 ports on the south coast of England in 2016.

    Successive tides are half a lunar day apart, so that the times at a port form two groups half a turn apart. Source
    and terms are in the ``README.md`` beside the file, in ``mgvm/datasets/data``.

    Returns
    -------
    Tides
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_tides
    >>> tides = load_tides()
    >>> tides.angles.size, len(set(tides.port[tides.split == "train"].tolist()))
    (663, 26)
    """
    path = resources.files("mgvm.datasets") / "data" / "tides.csv"
    row = np.dtype(
        [
            ("port", np.int64),
            ("longitude", float),
            ("latitude", float),
            ("event", np.int64),
            ("hour", np.int64),
            ("minute", np.int64),
            ("angle", float),
            ("split", "U5"),
        ]
    )
    with path.open("r", encoding="ascii") as text:
        table = np.loadtxt(text, dtype=row, delimiter=",", skiprows=1)
    columns = {name: np.ascontiguousarray(table[name]) for name in ("port", "longitude", "latitude", "split")}
    columns["minute_of_day"] = 60 * table["hour"] + table["minute"]
    for column in columns.values():
        column.flags.writeable = False
    return Tides(**columns)
