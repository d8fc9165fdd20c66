"""What every regressor with an angular target shares: predictions from a distribution, input checks, merged replicates.

`BaseCircularRegressor` makes everything a user asks from `predict_dist`. What X and y may not be is refused, or warned
of, with what is wrong, where, and the cure.
"""

from __future__ import annotations

import abc
import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from mgvm import _validation as check
from mgvm._progress import reporter
from mgvm._validation import FloatArray, Seed
from mgvm.angles import UNITS, from_radians, to_radians, wrap
from mgvm.circle.base import CircularDistribution
from mgvm.regression.noise import Replicates

_BLOCK = 4096  # distributions held at once: a few thousand grids of a few thousand nodes stay below 100 MB


class BaseCircularRegressor(RegressorMixin, BaseEstimator, abc.ABC):  # type: ignore[misc]
    """A regressor whose target is an angle: everything follows from `predict_dist`, a distribution for every row.

    Targets and predictions are in `unit`, which a subclass takes as a parameter; distributions are always in radians.
    """

    unit: str = "radians"

    @abc.abstractmethod
    def predict_dist(self, X: Any) -> CircularDistribution:
        """The distribution of the angle at every row of X, as one batch."""

    def predict(self, X: Any) -> FloatArray:
        """Mean directions, in the estimator's unit: radians in [-π, π), degrees in [0, 360), hours in [0, 24).

        Where none is preferred it is the highest mode, 0 radians for the uniform distribution.
        """
        X = _indexable(X)
        out = np.empty(_length(X))
        for rows, which, dist in self._distributions(X):
            out[rows] = find_directions(dist)[which]
        return from_radians(out, self.unit)

    def log_density(self, X: Any, y: ArrayLike) -> FloatArray:
        """log p(y | x) of every row, y in the estimator's unit, the density per radian whatever the unit."""
        X, angles = _indexable(X), check_targets(y, self.unit)
        check_consistent_length(X, angles)
        out = np.empty(angles.size)
        for rows, which, dist in self._distributions(X):
            for begin in range(0, rows.size, _BLOCK):
                part = slice(begin, begin + _BLOCK)
                out[rows[part]] = dist[which[part]].logpdf(angles[rows[part]])
        return out

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of y given X, in nats, the higher the better; it is not R², which means nothing for angles.

        -log 2π = -1.838 is the score of the uniform distribution, of knowing nothing.
        """
        values = self.log_density(X, y)
        weights = check.weights(sample_weight, values.shape, "sample_weight")
        return float(np.average(values, weights=weights / weights.max()))  # whose sum neither overflows nor vanishes

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Seed = None) -> FloatArray:
        """Independent draws (M, n_samples) from the distribution at every row of X, in the estimator's unit."""
        count = check.integer(n_samples, "n_samples", minimum=1)
        draws = self.predict_dist(X).sample(count, rng=check.generator(random_state, "random_state"))
        return np.ascontiguousarray(from_radians(draws, self.unit).T)

    def _distributions(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray, CircularDistribution]]:
        """Rows of X, a batch of distributions, and the place of each row's in it: one for equal rows, in blocks."""
        check_is_fitted(self)
        X = _indexable(X)
        first, inverse = _distinct(X)
        order = np.argsort(inverse, kind="stable")
        edges = np.searchsorted(inverse[order], np.arange(0, max(first.size, 1) + _BLOCK, _BLOCK))
        report = reporter(bool(getattr(self, "verbose", 0)), f"{type(self).__name__}: prediction")
        for number, (begin, end) in enumerate(itertools.pairwise(edges)):
            report(number * _BLOCK, first.size)
            rows, start = order[begin:end], number * _BLOCK
            dist = self.predict_dist(_safe_indexing(X, first[start : start + _BLOCK]))
            yield rows, inverse[rows] - start, dist

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The checks' targets are no angles, and the score no R².
        tags.regressor_tags.poor_score = True
        return tags


def _indexable(X: Any) -> Any:
    return X if hasattr(X, "shape") or hasattr(X, "__len__") else np.asarray(X)


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") and len(X.shape) else len(X)


def _distinct(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The first row of every set of equal rows, and the set of every row; rows that are no numbers are all distinct."""
    array = np.asarray(X) if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "columns") else np.empty(0)
    if array.dtype.kind in "fiub" and array.ndim == 2 and len(array) and not np.isnan(array).any():
        order, fresh = sort_rows(array)
        inverse = np.empty(len(array), dtype=np.int64)
        inverse[order] = np.cumsum(fresh) - 1
        return order[fresh], inverse
    rows = np.arange(_length(X))
    return rows, rows


def find_directions(dist: CircularDistribution) -> FloatArray:
    """Mean directions; where none is preferred the highest mode, and 0 for the uniform distribution."""
    out = np.array(dist.mean_direction(), ndmin=1)
    none = np.flatnonzero(np.isnan(out))
    if none.size:
        highest = np.asarray(dist[none].modes().location)
        first = highest[:, 0] if highest.shape[-1] else np.full(none.size, np.nan)
        out[none] = np.where(np.isnan(first), 0.0, wrap(first))
    return out


# ---- training data and queries --------------------------------------------------------------------------------------


class Training(NamedTuple):
    """Checked training data: X (N, p), angles y (N,) in radians in [-π, π), weights (N,)."""

    X: FloatArray
    y: FloatArray
    weights: FloatArray


class MergedTraining(NamedTuple):
    """Observations sorted by input, equal angles at an input as one with their weights added.

    Rows of weight zero belong to no input.
    """

    inputs: FloatArray  # (G, p), distinct, sorted
    replicates: Replicates
    input_of_row: np.ndarray  # (N,), -1 for weight zero
    angle_of_row: np.ndarray  # (N,): which of the replicates a row is, -1 for weight zero

    def of_rows(self, values: FloatArray, otherwise: Callable[[np.ndarray], FloatArray]) -> FloatArray:
        """Values of the replicates as values of rows; those of rows without weight come from `otherwise`."""
        out = values[self.angle_of_row]
        absent = np.flatnonzero(self.angle_of_row < 0)
        if absent.size:
            out[absent] = otherwise(absent)
        return out


def validate_training(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    *,
    scales: bool = True,
) -> Training:
    """Training data as an estimator takes them; messages name what is wrong, where, and the cure.

    `scales` warns of columns on wildly different scales, for methods that measure distances across columns.
    """
    if y is None:
        validate_data(estimator, X, None)  # it says that y is required
    check.refuse_text(X, _ENCODE)
    with check.validating("X"):
        inputs = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False)
    refuse_holes(X, inputs)
    angles = check_targets(y, getattr(estimator, "unit", "radians"))
    if angles.size != inputs.shape[0]:
        raise ValueError(
            f"X has {inputs.shape[0]} rows and y has {angles.size} angles: inconsistent numbers of samples; give one "
            "angle for every row"
        )
    weights = check_copies(sample_weight, angles.size)
    if scales:
        warn_of_scales(X, inputs)
    return Training(inputs, np.asarray(wrap(angles)), weights)


def validate_queries(estimator: Any, X: Any) -> FloatArray:
    """Rows to predict at, of a fitted estimator."""
    check_is_fitted(estimator)
    check.refuse_text(X, _ENCODE)
    with check.validating("X"):
        inputs = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False, reset=False)
    refuse_holes(X, inputs)
    return np.asarray(inputs)


def merge_replicates(data: Training) -> MergedTraining:
    """Rows with equal inputs as replicates of one input, those with equal angles as one angle; O(N log N)."""
    kept = np.flatnonzero(data.weights > 0.0)
    order, fresh = sort_rows(np.column_stack([data.X[kept], data.y[kept]]))
    # The angle is the last column: a row opens an input where any other column is new.
    opening = fresh.copy()
    sorted_inputs = data.X[kept[order]]
    opening[1:] = (sorted_inputs[1:] != sorted_inputs[:-1]).any(axis=1)
    first = np.flatnonzero(fresh)
    angles = data.y[kept[order[first]]]
    weights = np.add.reduceat(data.weights[kept[order]], first) if first.size else np.zeros(0)
    input_of_row, angle_of_row = np.full(data.y.size, -1), np.full(data.y.size, -1)
    input_of_row[kept[order]] = np.cumsum(opening) - 1
    angle_of_row[kept[order]] = np.cumsum(fresh) - 1
    replicates = Replicates(angles, weights, np.flatnonzero(opening[first]))
    return MergedTraining(sorted_inputs[opening], replicates, input_of_row, angle_of_row)


def number_inputs(data: Training) -> np.ndarray:
    """The number of every row's distinct input, of rows without weight too."""
    return merge_replicates(data._replace(weights=np.ones_like(data.weights))).input_of_row


def sort_rows(table: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """The order that sorts rows by their first column, then the next, and where a row differs from the one before."""
    order = np.lexsort(table.T[::-1])
    there = table[order]
    fresh = np.ones(len(table), dtype=bool)
    fresh[1:] = (there[1:] != there[:-1]).any(axis=1)
    return order, fresh


def are_among(queries: FloatArray, inputs: FloatArray) -> np.ndarray:
    """Which rows (n,) of queries are rows of inputs."""
    order, fresh = sort_rows(np.concatenate([inputs, queries]))
    number = np.empty(order.size, dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return np.isin(number[len(inputs) :], number[: len(inputs)])


def keep_rows_apart(data: Training) -> MergedTraining:
    """Every row its own input: rows of a Gram matrix are not inputs."""
    rows = np.arange(data.y.size)
    if not (data.weights > 0.0).all():
        raise ValueError(
            "with kernel='precomputed' every sample_weight must be positive; leave the other rows out of X"
        )
    return MergedTraining(data.X, Replicates(data.y, data.weights, rows), rows, rows)


def check_groups(groups: ArrayLike, count: int) -> np.ndarray:
    """The number of every row's group."""
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise ValueError(f"groups must have one label a row, shape ({count},), got {labels.shape}")
    return np.unique(labels, return_inverse=True)[1]


def folds_of(groups: ArrayLike | None, merged: MergedTraining, count: int) -> np.ndarray | None:
    """The fold of every distinct input."""
    if groups is None:
        return None
    numbers = check_groups(groups, count)
    kept = merged.input_of_row >= 0
    folds = np.zeros(len(merged.inputs), dtype=np.int64)
    folds[merged.input_of_row[kept]] = numbers[kept]
    if (folds[merged.input_of_row[kept]] != numbers[kept]).any():
        raise ValueError("groups split rows that have the same input; rows of one input must be in one group")
    if np.unique(folds).size < 2:
        raise ValueError("groups has a single label; at least two blocks are needed to hold one out")
    return folds


# ---- rows held out --------------------------------------------------------------------------------------------------


def split_whole(units: np.ndarray, n_folds: int, random_state: Seed = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to predict, of every fold; rows of one unit (input, group) stay together."""
    from sklearn.model_selection import GroupKFold  # here, since it loads all metrics

    if isinstance(random_state, np.random.Generator):  # which GroupKFold does not take
        random_state = int(random_state.integers(2**31))
    folds = GroupKFold(min(n_folds, int(np.unique(units).size)), shuffle=True, random_state=random_state)
    return list(folds.split(units, groups=units))


def clone_in_radians(estimator: Any) -> Any:
    """A clone that takes and gives radians, for fits to angles that are radians already."""
    made = clone(estimator)
    return made if getattr(made, "unit", "radians") == "radians" else made.set_params(unit="radians")


def fit_clone(estimator: Any, X: Any, y: FloatArray, weights: FloatArray | None, rows: np.ndarray | None = None) -> Any:
    """A clone of an estimator, fitted to all rows, or to some."""
    made = clone_in_radians(estimator)
    if rows is not None:
        X, y = _safe_indexing(X, rows), y[rows]
        weights = None if weights is None else weights[rows]
    if weights is None:
        return made.fit(X, y)
    if not has_fit_parameter(made, "sample_weight"):
        raise TypeError(f"{type(made).__name__}.fit takes no sample_weight; fit without weights, or leave it out")
    with said_once():
        return made.fit(X, y, sample_weight=weights)


@contextlib.contextmanager
def said_once() -> Iterator[None]:
    """Fits inside a fit, to parts of its rows: what weights sum to, the door has told of all of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f"sample_weight {check.RELATIVE}")
        yield


_ENCODE = (
    "encode it first, with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer say; CircularGPRegressor also "
    "takes a Gram matrix of strings, with kernel='precomputed'"
)

# ---- what is refused or warned of -----------------------------------------------------------------------------------


def check_targets(y: Any, unit: str = "radians") -> FloatArray:
    """Radians (N,) of angles in a unit, any finite real numbers, with a warning where they look like another unit."""
    array = np.asarray(y)
    if array.dtype.kind == "b":
        raise TypeError("y holds truth values (bool), not angles; give radians, or use a classifier")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must be angles in radians; give np.angle(y)")
    if array.ndim == 2 and array.shape[1] > 1:
        raise ValueError(
            f"y must have one angle a row, shape ({array.shape[0]},), got {array.shape}; give np.arctan2(sin, cos) if "
            "its columns are cosine and sine, else fit one regressor a column"
        )
    numbers = column_or_1d(y, warn=True)
    if check.choice(unit, "unit", UNITS) == "radians":
        return check.angle_data(numbers, "y")
    angles = to_radians(check.angles(numbers, "y"), unit)
    check.warn_of_unit(check.finite(numbers, "y"), unit, "y")
    return angles


@dataclass(frozen=True)
class CopiesSettings:
    """How many copies of rows `sample_weight` may stand for."""

    most: float = 1e9  # in all: of more, doubles do not hold the log density to the nats by which choices are made
    least: float = 1e-9  # of the largest weight, below which nothing is learnt,
    vanishing: float = 1e-9  # of the largest, below which a weight is none


COPIES = CopiesSettings()


def check_copies(sample_weight: ArrayLike | None, count: int, settings: CopiesSettings = COPIES) -> FloatArray:
    """Weights (N,) as numbers of copies of rows: totals that cannot be are refused, a total of one is warned of."""
    weights = check.weights(sample_weight, (count,), "sample_weight")
    with np.errstate(over="ignore"):
        total, largest = float(weights.sum()), float(weights.max(initial=0.0))
    if total > settings.most:
        raise ValueError(
            f"sample_weight counts copies of rows, and sums to {total:.3g}, more than {settings.most:g}: the fit would "
            "be as sure as from so many observations; divide the weights, to a mean of 1 if they are relative"
        )
    if 0.0 < largest < settings.least:
        raise ValueError(
            f"sample_weight counts copies of rows, and is {largest:.3g} at most, {total:.3g} in all, less than "
            f"{settings.least:g}: nothing would be learnt; multiply the weights, to a mean of 1 if they are relative"
        )
    weights = np.where(weights < settings.vanishing * largest, 0.0, weights)
    check.warn_of_relative(weights, "sample_weight", level=5)
    return weights


def refuse_holes(X: Any, inputs: FloatArray) -> None:
    """NaN, infinity and numbers whose squares overflow, with the columns they are in."""
    for test, what, cure in (
        (np.isnan, "NaN", "impute them first (sklearn.impute.SimpleImputer in a Pipeline) or drop these rows"),
        (np.isinf, "infinity", "replace or drop these rows first"),
    ):
        bad = test(inputs)
        if bad.any():
            columns = np.flatnonzero(bad.any(axis=0))
            raise ValueError(
                f"X contains {what}: {int(bad.sum())} values in {int(bad.any(axis=1).sum())} of {len(bad)} rows, in "
                f"{check.name_columns(X, columns)}; {cure}"
            )
    if inputs.size and np.abs(inputs).max() > 1e150:
        raise ValueError(
            f"X reaches {np.abs(inputs).max():.3g}: squares of distances overflow; scale the features first, with "
            "sklearn.preprocessing.StandardScaler in a Pipeline"
        )


def warn_of_scales(X: Any, inputs: FloatArray) -> None:
    """Columns whose spreads differ by orders of magnitude, for methods that measure distances across columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = inputs.std(axis=0)
    varying = np.flatnonzero(spread > 0.0)
    if varying.size < 2:
        return
    widest = spread[varying].max()
    # Beyond a ratio of 1000 one length scale cannot serve both columns.
    narrow = varying[1e3 * spread[varying] < widest]
    if narrow.size:
        wide = varying[spread[varying] == widest]
        warnings.warn(
            f"the features of X are on wildly different scales: the spread of {check.name_columns(X, narrow)} is below "
            f"1/1000 of that of {check.name_columns(X, wide)} ({widest:.3g}), so that distances hardly see it; scale "
            "the features first, with sklearn.preprocessing.StandardScaler in a Pipeline",
            stacklevel=4,
        )
