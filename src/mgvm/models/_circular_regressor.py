"""What every regressor with an angular target shares: checked input, replicated inputs merged, predictions of a law."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.law import CircleLaw
from mgvm.inference._progress import reporter
from mgvm.models._gp_noise import Groups
from mgvm.models._regressor_input import refuse_holes, refuse_text, targets, warn_of_scales

_BLOCK = 4096  # laws held at once: a few thousand grids of a few thousand nodes stay below 100 MB


class Training(NamedTuple):
    """Checked training data: X (N, p), angles y (N,) in [-π, π), weights (N,)."""

    X: FloatArray
    y: FloatArray
    weights: FloatArray


class Merged(NamedTuple):
    """Observations grouped by input, equal angles at an input as one with their weights added.

    Rows of weight zero belong to no group.
    """

    inputs: FloatArray  # (G, p), distinct, sorted
    groups: Groups
    group: np.ndarray  # (N,): the group of every row, -1 for weight zero
    observation: np.ndarray  # (N,): the angle of the groups behind every row, -1 for weight zero

    def of_rows(self, values: FloatArray, otherwise: Callable[[np.ndarray], FloatArray]) -> FloatArray:
        """Values of the groups' angles as values of rows; those of rows without weight come from `otherwise`."""
        out = values[self.observation]
        absent = np.flatnonzero(self.observation < 0)
        if absent.size:
            out[absent] = otherwise(absent)
        return out


class CircularRegressor(RegressorMixin, BaseEstimator, abc.ABC):  # type: ignore[misc]
    """A regressor whose target is an angle: from `predict_dist`, a law for every row, everything else follows."""

    @abc.abstractmethod
    def predict_dist(self, X: Any) -> CircleLaw:
        """The law of the angle at every row of X, as one batch."""

    def predict(self, X: Any) -> FloatArray:
        """Mean directions in [-π, π); where no direction is preferred, the highest mode (0 for the uniform law)."""
        X = _indexable(X)
        out = np.empty(_length(X))
        for rows, which, law in self._laws(X):
            out[rows] = _directions(law)[which]
        return out

    def log_density(self, X: Any, y: ArrayLike) -> FloatArray:
        """log p(y | x) of every row."""
        X, angles = _indexable(X), targets(y)
        check_consistent_length(X, angles)
        out = np.empty(angles.size)
        for rows, which, law in self._laws(X):
            for begin in range(0, rows.size, _BLOCK):
                part = slice(begin, begin + _BLOCK)
                out[rows[part]] = law[which[part]].logpdf(angles[rows[part]])
        return out

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean log density of y given X, in nats, the higher the better; it is not R², which means nothing for angles.

        -log 2π = -1.838 is the score of the uniform law, of knowing nothing.
        """
        values = self.log_density(X, y)
        return float(np.average(values, weights=check.weights(sample_weight, values.shape, "sample_weight")))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Independent draws (M, n_samples) from the law at every row of X, radians in [-π, π)."""
        count = check.integer(n_samples, "n_samples", minimum=1)
        draws = self.predict_dist(X).sample(count, rng=generator_of(random_state))
        return np.ascontiguousarray(np.asarray(draws).T)

    def _laws(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray, CircleLaw]]:
        """Rows of X, and a batch with the position of each row's law in it: one law for equal rows, in blocks."""
        check_is_fitted(self)
        X = _indexable(X)
        first, inverse = _distinct(X)
        order = np.argsort(inverse, kind="stable")
        edges = np.searchsorted(inverse[order], np.arange(0, max(first.size, 1) + _BLOCK, _BLOCK))
        report = reporter(bool(getattr(self, "verbose", 0)), f"{type(self).__name__}: prediction")
        for number, (begin, end) in enumerate(itertools.pairwise(edges)):
            report(number * _BLOCK, first.size)
            rows, start = order[begin:end], number * _BLOCK
            law = self.predict_dist(_safe_indexing(X, first[start : start + _BLOCK]))
            yield rows, inverse[rows] - start, law

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The checks' targets are no angles, and the score no R².
        tags.regressor_tags.poor_score = True
        return tags


# ---- input ----------------------------------------------------------------------------------------------------------


def validated(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None = None,
    *,
    min_rows: int = 1,
    scales: bool = True,
) -> Training:
    """Training data as an estimator takes them; messages name what is wrong, where, and the cure.

    `scales` warns of columns on wildly different scales, for methods that measure distances across columns.
    """
    if y is None:
        validate_data(estimator, X, None)  # it says that y is required
    refuse_text(X)
    inputs = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=min_rows)
    refuse_holes(X, inputs)
    angles = targets(y)
    if angles.size != inputs.shape[0]:
        raise ValueError(
            f"X has {inputs.shape[0]} rows and y has {angles.size} angles: inconsistent numbers of samples; give one "
            "angle for every row"
        )
    weights = check.weights(sample_weight, angles.shape, "sample_weight")
    if scales:
        warn_of_scales(X, inputs)
    return Training(inputs, np.asarray(wrap(angles)), weights)


def queries(estimator: Any, X: Any) -> FloatArray:
    """Rows to predict at, of a fitted estimator."""
    check_is_fitted(estimator)
    refuse_text(X)
    inputs = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False, reset=False)
    refuse_holes(X, inputs)
    return np.asarray(inputs)


def merged(data: Training) -> Merged:
    """Rows with equal inputs as one group, and of these the rows with equal angles as one angle; O(N log N)."""
    kept = np.flatnonzero(data.weights > 0.0)
    order, fresh = sorted_rows(np.column_stack([data.X[kept], data.y[kept]]))
    # The angle is the last column: a row opens a group where any other column is new.
    opening = fresh.copy()
    sorted_inputs = data.X[kept[order]]
    opening[1:] = (sorted_inputs[1:] != sorted_inputs[:-1]).any(axis=1)
    first = np.flatnonzero(fresh)
    angles = data.y[kept[order[first]]]
    weights = np.add.reduceat(data.weights[kept[order]], first) if first.size else np.zeros(0)
    group, observation = np.full(data.y.size, -1), np.full(data.y.size, -1)
    group[kept[order]] = np.cumsum(opening) - 1
    observation[kept[order]] = np.cumsum(fresh) - 1
    return Merged(sorted_inputs[opening], Groups(angles, weights, np.flatnonzero(opening[first])), group, observation)


def sorted_rows(table: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """The order that sorts rows by their first column, then the next, and where a row differs from the one before."""
    order = np.lexsort(table.T[::-1])
    there = table[order]
    fresh = np.ones(len(table), dtype=bool)
    fresh[1:] = (there[1:] != there[:-1]).any(axis=1)
    return order, fresh


def generator_of(state: Any) -> np.random.Generator:
    """A NumPy generator from what scikit-learn calls a random state; a RandomState moves on by one draw."""
    if isinstance(state, np.random.RandomState):
        return np.random.default_rng(state.randint(2**31))
    return check.generator(state)


# ---- behind the checks ----------------------------------------------------------------------------------------------


def _indexable(X: Any) -> Any:
    return X if hasattr(X, "shape") or hasattr(X, "__len__") else np.asarray(X)


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") and len(X.shape) else len(X)


def _distinct(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The first row of every set of equal rows, and the set of every row; rows that are no numbers are all distinct."""
    array = np.asarray(X) if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "columns") else np.empty(0)
    if array.dtype.kind in "fiub" and array.ndim == 2 and len(array) and not np.isnan(array).any():
        order, fresh = sorted_rows(array)
        inverse = np.empty(len(array), dtype=np.int64)
        inverse[order] = np.cumsum(fresh) - 1
        return order[fresh], inverse
    rows = np.arange(_length(X))
    return rows, rows


def _directions(law: CircleLaw) -> FloatArray:
    found = np.array(law.mean_direction(), ndmin=1)
    none = np.flatnonzero(np.isnan(found))
    if none.size:
        highest = np.asarray(law[none].modes().location)
        first = highest[:, 0] if highest.shape[-1] else np.full(none.size, np.nan)
        found[none] = np.where(np.isnan(first), 0.0, wrap(first))
    return found
