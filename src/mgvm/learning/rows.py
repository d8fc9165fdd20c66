"""Rows of angles as the learners take them, checked and weighted, and what in them no density can describe.

Columns of which no smooth distribution can be learnt are constant, or determined by another one: the difference or the
sum of the two is constant. Both are told by 1 - |mean of e^{iφ}|, the circular variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import FloatArray

IntArray = NDArray[np.int64]


class WeightedRows(NamedTuple):
    """Angles (N, D), NaN where missing, and weights (N,) of mean 1, all of them positive: rows of weight 0 are gone."""

    x: FloatArray
    weights: FloatArray

    @property
    def n_rows(self) -> int:
        """The number of rows N."""
        return int(self.x.shape[0])

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.x.shape[1])

    @property
    def effective_count(self) -> float:
        """(Σw)²/Σw², the number of equally weighted rows that would tell as much (Kish)."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @property
    def mean_directions(self) -> FloatArray:
        """The circular mean (D,) of every column, missing angles left out."""
        seen = ~np.isnan(self.x)
        z = np.where(seen, np.exp(1j * np.where(seen, self.x, 0.0)), 0.0)
        return np.angle(self.weights @ z)

    def take(self, rows: np.ndarray) -> WeightedRows:
        """Some of the rows, their weights scaled to mean 1 again."""
        weights = self.weights[rows]
        return WeightedRows(np.ascontiguousarray(self.x[rows]), weights / weights.mean())


def as_rows(data: ArrayLike, weights: ArrayLike | None = None, *, missing: bool = False) -> WeightedRows:
    """Rows of angles (N, D) from what the user hands in; a vector is refused, NaN unless `missing` allows it."""
    x = check.angle_data_or_nan(data, "data")
    if x.ndim != 2:
        cure = "; reshape one angle a row as data[:, None]" if x.ndim == 1 else ""
        raise ValueError(f"data must have shape (N, D), one row an observation, got {x.shape}{cure}")
    if not missing and np.isnan(x).any():
        row, column = (int(i) for i in np.argwhere(np.isnan(x))[0])
        raise ValueError(
            f"data must be finite radians, got nan in row {row}, column {column}; fit_torus, MGvM.fit and TorusMixture "
            "take missing angles, or leave such rows out"
        )
    w = check.weights(weights, x.shape[:1])
    used = w > 0
    if missing:
        empty = np.isnan(x[used]).all(axis=0)
        if empty.any():
            raise ValueError(
                f"column {int(np.argmax(empty))} of data has no observed angle at all, so nothing can be learnt of it; "
                "leave the column out"
            )
    if not used.all():
        x, w = x[used], w[used]
    return WeightedRows(np.ascontiguousarray(x), w / math.fsum(w) * w.size)


def count_distinct(
    rows: FloatArray, weights: FloatArray, enough: int, negligible: float = 1e-12, apart: float = 1e-5
) -> int:
    """How many different rows there are, up to `enough`; those whose weight is lost in the rounding of sums are none.

    Copies of a row tell what the row tells: with fewer different rows than parameters no estimate exists. Rows differ
    that are `apart` in a column, as a part of its spread: nearer ones ask for concentrations beyond all bounds.
    """
    rows = rows[weights > negligible * weights.max()]
    least, most = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    rows = np.round((rows - least) / np.where(most > least, apart * (most - least), 1.0))
    rows = np.nan_to_num(rows, nan=-1.0)
    distinct = len(np.unique(rows[: 4 * enough], axis=0))
    if distinct < enough and len(rows) > 4 * enough:
        distinct = len(np.unique(rows, axis=0))
    return min(distinct, enough)


class MissingPattern(NamedTuple):
    """Rows that lack the same columns, and the numbers of those that they lack and that they have."""

    rows: IntArray
    lost: IntArray
    seen: IntArray


def group_by_missing(x: FloatArray) -> Iterator[MissingPattern]:
    """The rows of x by what is missing (NaN)."""
    missing = np.isnan(x)
    if not missing.any():
        yield MissingPattern(np.arange(len(x)), np.arange(0), np.arange(x.shape[1]))
        return
    if x.shape[1] <= 62:
        # Numbers sort a hundred times faster than rows.
        kinds = missing @ (1 << np.arange(x.shape[1], dtype=np.int64))
    else:
        kinds = np.unique(missing, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(kinds, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
        gone = missing[rows[0]]
        yield MissingPattern(rows, np.flatnonzero(gone), np.flatnonzero(~gone))


def circular_variance(x: FloatArray, weights: FloatArray) -> FloatArray:
    """1 - |mean of z| of every column, NaN left out; without cancellation for nearly constant columns."""
    seen = ~np.isnan(x)
    w = np.where(seen, weights[:, None], 0.0)
    z = np.where(seen, np.exp(1j * np.where(seen, x, 0.0)), 0.0)
    centre = np.angle((w * z).sum(axis=0))
    away = np.where(seen, x - centre, 0.0)
    c, s = 2.0 * np.sin(0.5 * away) ** 2, np.sin(away)
    total = w.sum(axis=0)
    lost, across = (w * c).sum(axis=0) / total, (w * s).sum(axis=0) / total
    # |m| = sqrt((1 - lost)² + across²), so 1 - |m| = (1 - |m|²)/(1 + |m|).
    square = lost * (2.0 - lost) - across**2
    return np.maximum(square, 0.0) / (1.0 + np.sqrt(np.maximum(1.0 - square, 0.0)))


class DependentPair(NamedTuple):
    """Two columns i < j whose `kind`, "difference" or "sum", is constant."""

    first: int
    second: int
    kind: str


# A circular variance of 1e-12, the default below, is a standard deviation of 1.4e-6 radians.
def constant_columns(x: FloatArray, weights: FloatArray, variance: float = 1e-12) -> list[int]:
    """Columns whose circular variance is below the given one: their angles are all the same."""
    return [int(d) for d in np.flatnonzero(circular_variance(x, weights) < variance)]


def dependent_pairs(x: FloatArray, weights: FloatArray, variance: float = 1e-12) -> list[DependentPair]:
    """Pairs of columns whose difference or sum has a circular variance below the given one; constant columns aside."""
    alike = []
    varying = np.setdiff1d(np.arange(x.shape[1]), constant_columns(x, weights, variance))
    z = np.exp(1j * x[:, varying])
    share = weights / weights.sum()
    for kind, other in (("difference", z.conj()), ("sum", z)):
        # Rounding of the products hides spreads below 1e-10: those pairs are looked at again without it.
        near = np.argwhere(np.triu(abs((z * share[:, None]).T @ other), 1) > 1.0 - 1e-9)
        for i, j in varying[near]:
            joint = x[:, i] - x[:, j] if kind == "difference" else x[:, i] + x[:, j]
            if circular_variance(joint[:, None], weights)[0] < variance:
                alike.append(DependentPair(int(i), int(j), kind))
    return alike


def describe_degeneracy(sample: WeightedRows) -> str:
    """Which columns no density can describe, in a clause that follows "because"; empty where there are none."""
    constant = constant_columns(*sample)
    if constant:
        names = ", ".join(map(str, constant[:5])) + (", ..." if len(constant) > 5 else "")
        return (
            f"columns {names} of data hold one angle each"
            if len(constant) > 1
            else f"column {names} of data holds one angle only"
        )
    pairs = dependent_pairs(*sample)
    if pairs:
        i, j, kind = pairs[0]
        more = f" (and {len(pairs) - 1} more such pairs)" if len(pairs) > 1 else ""
        return f"the {kind} of columns {i} and {j} of data is constant{more}"
    return ""


def describe_narrowness(sample: WeightedRows, whose: int) -> str:
    """Why one angle of sound data may have no finite concentration given the others, in a clause after "because"."""
    spread = circular_variance(sample.x[:, whose : whose + 1], sample.weights)[0]
    if sample.n_rows <= 4 * sample.dimension:
        return f"there are too few rows, {sample.n_rows:,} of {sample.dimension:,} angles"
    if spread < 1e-3:  # a standard deviation of 0.045 radians
        return (
            f"it lies within {np.sqrt(2.0 * spread):.1g} radians of its mean, where harmonics and couplings look alike"
        )
    return "the other angles all but determine it"


def refuse_single_row(sample: WeightedRows, method: str) -> None:
    """Raise ValueError where there is but one row."""
    if sample.n_rows < 2:
        raise ValueError(
            f"{method} needs rows that differ from each other, got a single row (rows of weight 0 do not count): its "
            "distribution would be a point; give more rows"
        )
