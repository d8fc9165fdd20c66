"""Tasks on data that come with the package: wind at an airport, at a mast and over Europe, tides.

Hours are split by time, with two days between the rows to learn from and those to be scored on, so that no weather is
in both. Errors are by day, by port or by tile of the map, within which rows are no independent evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from mgvm import GvM, datasets
from mgvm.angles import wrap
from mgvm.regression.baselines import GvMRegressor
from paper.experiment import FloatArray
from paper.table1.tasks import Model, Split, Task, features_of

_GAP = np.timedelta64(2, "D")  # longer than a front takes to pass
_DAY = np.timedelta64(1, "D")
_HOUR = np.timedelta64(1, "h")
_SPEED = 5.0  # metres a second, the unit of speeds beside cosines and sines: about the same spread for all columns
_CUT = np.datetime64("2016-10-27T16:00:00")  # three quarters of the rows at the mast are before
_LAGS = (0, 1, 3)  # hours back from the last known
PERSISTENCE = "persistence"


class PersistenceRegressor(BaseEstimator):  # type: ignore[misc]
    """p(ψ | x) = GvM(ψ - φ), φ the angle whose cosine and sine are two columns of x: what forecasts must beat.

    Parameters
    ----------
    columns : (int, int)
        Of the cosine and the sine.
    """

    def __init__(self, columns: tuple[int, int]) -> None:
        self.columns = columns

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit a GvM, of an order by leave-one-out, to the turns since."""
        turns = wrap(y - self._last(X))
        self.turn_ = GvMRegressor("auto").fit(X, turns, sample_weight).distribution_
        return self

    def predict_dist(self, X: FloatArray) -> GvM:
        """The distribution of the turn, about the angle of every row."""
        harmonics = np.arange(1, self.turn_.eta.size + 1)
        return GvM(self.turn_.eta * np.exp(1j * np.multiply.outer(self._last(np.asarray(X)), harmonics)))

    def _last(self, X: FloatArray) -> FloatArray:
        cosine, sine = self.columns
        return np.arctan2(X[:, sine], X[:, cosine])


class Hours(NamedTuple):
    """Rows in order of time."""

    time: NDArray[np.datetime64]
    X: FloatArray
    y: FloatArray

    def take(self, rows: np.ndarray) -> Hours:
        """Some of them."""
        return Hours(self.time[rows], self.X[rows], self.y[rows])

    def split(self, cut: np.datetime64, count: int | None = None) -> Split:
        """Rows before `cut`, or so many of them drawn at random, and those from two days later on; blocks are days."""
        before = np.flatnonzero(self.time < cut)
        if count is not None:
            before = np.sort(np.random.default_rng(0).choice(before, count, replace=False))
        train, test = self.take(before), self.take(np.flatnonzero(self.time >= cut + _GAP))
        day = (test.time - test.time[0]) // _DAY
        return Split(train.X, train.y, None, test.X, test.y, np.ones(test.y.size), day)


def make_shipped_tasks() -> list[Task]:
    """All of them, without models but those that one task alone has."""
    return [_jfk(), *_mast(), *_forecasts(), *_europe(), _tides()]


def _jfk() -> Task:
    def splits() -> Iterator[Split]:
        wind = datasets.load_wind_nyc()
        there = np.flatnonzero(np.isfinite(wind.bearing).all(axis=1))
        hour = 2.0 * np.pi * ((wind.time - wind.time[0].astype("datetime64[D]")) / _DAY % 1.0)
        newark, kennedy, laguardia = wind.angles.T
        X = features_of(np.stack([newark, laguardia, hour], axis=1))
        yield Hours(wind.time, X, kennedy).take(there).split(np.datetime64("2013-06-01"), 1000)

    return Task("Wind at JFK", "given EWR, LGA and the hour; 1,000 rows, June to August held out", splits, [])


def _mast() -> list[Task]:
    def rows() -> Hours:
        mast = datasets.load_wind_mast()
        return Hours(mast.time, np.column_stack([features_of(mast.node_angles), mast.node_speed / _SPEED]), mast.angles)

    def few() -> Iterator[Split]:
        yield rows().split(_CUT, 600)

    def every() -> Iterator[Split]:
        yield rows().split(_CUT)

    return [
        Task("Wind at a mast", "given a reanalysis at four nodes; 600 rows, last quarter held out", few, []),
        Task("Wind at a mast, all", "given a reanalysis at four nodes; 6,534 rows, last quarter held out", every, []),
    ]


def make_lags(time: NDArray[np.datetime64], values: FloatArray, lead: int, lags: tuple[int, ...]) -> FloatArray:
    """`values` so many hours before those of `time`, lead + lag, shape (n, len(lags)); NaN where there is no row."""
    out = np.full((time.size, len(lags)), np.nan)
    for column, lag in enumerate(lags):
        wanted = time - (lead + lag) * _HOUR
        place = np.minimum(np.searchsorted(time, wanted), time.size - 1)
        there = time[place] == wanted
        out[there, column] = values[place[there]]
    return out


def _forecasts() -> list[Task]:
    def ahead(lead: int) -> Task:
        def splits() -> Iterator[Split]:
            mast = datasets.load_wind_mast()
            past = make_lags(mast.time, mast.angles, lead, _LAGS)
            speed = make_lags(mast.time, mast.speed / _SPEED, lead, _LAGS[:2])
            there = np.flatnonzero(np.isfinite(past).all(axis=1))
            hours = Hours(mast.time, np.column_stack([features_of(past), speed]), mast.angles)
            yield hours.take(there).split(_CUT, 2000)

        last = Model(PERSISTENCE, PersistenceRegressor((0, len(_LAGS))))
        about = "from directions of the last hours; 2,000 rows, last quarter held out"
        return Task(f"Mast in {lead} h", about, splits, [last])

    return [ahead(1), ahead(6)]


def _europe() -> list[Task]:
    def field(count: int | None) -> Iterator[Split]:
        wind = datasets.load_wind_europe()
        order = np.random.default_rng(0).permutation(wind.angles.size)
        test, train = order[:500], order[500:][:count]
        X, y = wind.positions, wind.angles
        corner = X.min(axis=0)
        column, row = ((X[test] - corner) // 2.5).T  # tiles of ten by ten points
        yield Split(X[train], y[train], None, X[test], y[test], np.ones(test.size), 100 * column + row)

    return [
        Task("Wind over Europe", "500 points of a grid given 300, errors by tile", lambda: field(300), []),
        Task("Wind over Europe, all", "500 points of a grid given 4,300, errors by tile", lambda: field(None), []),
    ]


def _tides() -> Task:
    def splits() -> Iterator[Split]:
        tides = datasets.load_tides()
        ports = np.unique(tides.port)
        held_out = np.isin(tides.port, np.random.default_rng(0).choice(ports, 28, replace=False))
        X, y = tides.positions, tides.angles
        count = int(held_out.sum())
        yield Split(X[~held_out], y[~held_out], None, X[held_out], y[held_out], np.ones(count), tides.port[held_out])

    return Task("Tides, British Isles", "13 tides at 28 ports given 57 others, errors by port", splits, [])
