"""Wind directions at German weather stations."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from mgvm.angles import wrap


@dataclass(frozen=True, eq=False)
class GermanWind:
    """The direction of the wind at one moment, one row a station.

    Attributes
    ----------
    station : ndarray of int, shape (260,)
        Number of the station in the network of the Deutscher Wetterdienst.
    longitude, latitude : ndarray, shape (260,)
        Degrees; east and north are positive.
    angles : ndarray, shape (260,)
        Wind direction, radians in [-pi, pi): whole tens of degrees less half a turn. Their source does not say how
        they are measured. Weather services report whence the wind comes, clockwise from north; half a turn on, it is
        where the wind goes.
    """

    station: NDArray[np.int64]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    angles: NDArray[np.float64]

    @property
    def positions(self) -> NDArray[np.float64]:
        """Longitude and latitude, shape (260, 2)."""
        return np.stack([self.longitude, self.latitude], axis=1)


def load_wind_germany() -> GermanWind:
    """Load the direction of the wind at 260 German weather stations, at one moment of calm weather.

    Source and terms are in the ``README.md`` beside the file, in ``mgvm/datasets/data``.

    Returns
    -------
    GermanWind
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_wind_germany
    >>> wind = load_wind_germany()
    >>> wind.positions.shape
    (260, 2)
    """
    path = resources.files("mgvm.datasets") / "data" / "wind_germany.csv"
    row = np.dtype([("station", np.int64), ("longitude", float), ("latitude", float), ("angles", float)])
    with path.open("r", encoding="ascii") as text:
        table = np.loadtxt(text, dtype=row, delimiter=",", skiprows=1)
    columns = {name: np.ascontiguousarray(table[name]) for name in row.names or ()}
    columns["angles"] = np.array(wrap(columns["angles"]))
    for column in columns.values():
        column.flags.writeable = False
    return GermanWind(**columns)
