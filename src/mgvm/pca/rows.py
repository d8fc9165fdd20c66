"""Where the rows of circular PCA are: an array in memory or mapped from a file, read in chunks, or a Dask array.

A fit needs three things of its rows: facts to check, a random subset in memory, and the E-step summed over all of them.
Of a Dask array every E-step is taken block by block where the block is, and only sums travel; nothing is kept by the
workers but the blocks, which Dask computes again where a worker was lost: the same answer. What a fitted model tells of
a Dask array is a Dask array again, computed when it is asked for.

Rows without any entry say nothing; they are left out wherever something is learnt.
"""

from __future__ import annotations

import operator
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from importlib import import_module
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.pca.e_step import Engine, MeanField, Parameters, RowMoments, Statistics, expectation, sum_statistics

Result = TypeVar("Result")

CHUNK = 65_536  # rows held as doubles at once
_KEPT = 1 << 23  # first moments kept from one E-step to the next, 128 MB


@dataclass(frozen=True)
class RowFacts:
    """Of rows: their number, those without any entry, infinite entries, and of every column entries, least and most."""

    rows: int
    empty: int
    infinite: int
    counts: FloatArray
    least: FloatArray
    most: FloatArray

    @property
    def complete(self) -> bool:
        """Whether no row lacks some of its entries."""
        return bool((self.counts == self.rows - self.empty).all())

    def __add__(self, other: RowFacts) -> RowFacts:
        return RowFacts(
            self.rows + other.rows,
            self.empty + other.empty,
            self.infinite + other.infinite,
            self.counts + other.counts,
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )


class Rows(ABC):
    """Data to learn from, an array (n, M) that is only ever read in parts."""

    def __init__(self, Y: Any):
        self._Y = Y

    @abstractmethod
    def _of_parts(self, function: Callable[..., Result], *arguments: object) -> Iterable[Result]:
        """A function of every part and of arguments that all parts share."""

    @cached_property
    def facts(self) -> RowFacts:
        """What to check."""
        return reduce(operator.add, self._of_parts(collect_facts))

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""
        count = self._Y.shape[0]
        chosen = slice(None) if count <= most else np.sort(rng.choice(count, most, replace=False))
        return drop_empty(self._Y[chosen])

    def sums(self, parameters: Parameters, engine: Engine) -> Statistics:
        """The E-step at given parameters, summed over all rows in their order."""
        return reduce(operator.add, self._of_parts(sum_chunk, parameters, engine))


def collect_facts(Y: ArrayLike) -> RowFacts:
    """What there is to check in a chunk of rows."""
    values = np.asarray(Y, dtype=np.float64)
    missing = np.isnan(values)
    return RowFacts(
        len(values),
        int(missing.all(axis=1).sum()),
        int(np.isinf(values).sum()),
        (~missing).sum(axis=0).astype(float),
        np.min(values, axis=0, initial=np.inf, where=~missing),
        np.max(values, axis=0, initial=-np.inf, where=~missing),
    )


def drop_empty(Y: ArrayLike) -> FloatArray:
    """A chunk as doubles, without rows that have no entry."""
    values = np.ascontiguousarray(Y, dtype=np.float64)
    empty = np.isnan(values).all(axis=1)
    return values[~empty] if empty.any() else values


def sum_chunk(Y: ArrayLike, parameters: Parameters, engine: Engine) -> Statistics:
    """The E-step of one chunk, summed; it begins anew, with nothing of the one before."""
    return _expect_chunk(Y, parameters, engine, None)[0]


def _expect_chunk(
    Y: ArrayLike, parameters: Parameters, engine: Engine, start: ComplexArray | None
) -> tuple[Statistics, ComplexArray]:
    """The E-step of one chunk, summed, and E[e^{iφ}] (n, D) of its rows."""
    values, size = drop_empty(Y), parameters.size
    if start is None or start.shape != (len(values), size):
        start = np.full((len(values), size), np.nan, dtype=complex)
    moments = expectation(values, parameters, engine, start)
    return sum_statistics(values, moments), moments.mean[:, :size] + 1j * moments.mean[:, size:]


class ArrayRows(Rows):
    """An array of any type of numbers, in memory or mapped.

    Of rows that are not too many, an E-step may begin where the one before has ended (`MeanField.search`); what is
    learnt does not depend on the chunks.
    """

    def __init__(self, Y: np.ndarray):
        super().__init__(Y)
        self._moments: list[ComplexArray | None] = [None for _ in chunks(Y)]

    def _of_parts(self, function: Callable[..., Result], *arguments: object) -> Iterable[Result]:
        return (function(part, *arguments) for part in chunks(self._Y))

    def sums(self, parameters: Parameters, engine: Engine) -> Statistics:
        """The E-step at given parameters, summed over all rows chunk by chunk."""
        return reduce(operator.add, self._sum_chunks(parameters, engine))

    def _sum_chunks(self, parameters: Parameters, engine: Engine) -> Iterator[Statistics]:
        few = len(self._Y) * parameters.size <= _KEPT
        goes_on = isinstance(engine, MeanField) and not engine.search
        for number, part in enumerate(chunks(self._Y)):
            start = self._moments[number] if goes_on else None
            sums, moments = _expect_chunk(part, parameters, engine, start)
            self._moments[number] = moments if few else None
            yield sums


def chunks(Y: np.ndarray) -> Iterator[np.ndarray]:
    """`CHUNK` rows at a time."""
    for begin in range(0, len(Y), CHUNK):
        yield Y[begin : begin + CHUNK]


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or frame."""
    return hasattr(X, "dask") and hasattr(X, "compute")


def as_dask_array(X: Any) -> Any:
    """A Dask array (n, M) of known size, all columns in one block."""
    array = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if array.ndim != 2:
        raise ValueError(f"X must have shape (n, M), one row an observation, got {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got a Dask array of {array.dtype}; convert it with astype(float)")
    if np.isnan(array.shape).any():
        array = array.compute_chunk_sizes()
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


class DaskRows(Rows):
    """A Dask array, every block of it read where it is. Persist it first if its blocks take long to make."""

    @cached_property
    def _blocks(self) -> list[Any]:
        """Those that have rows."""
        blocks = zip(self._Y.to_delayed().ravel(), self._Y.chunks[0], strict=True)
        return [block for block, size in blocks if size > 0]

    def _of_parts(self, function: Callable[..., Result], *arguments: object) -> Iterable[Result]:
        dask = import_module("dask")
        call = dask.delayed(function, pure=False)
        # What all blocks share is sent once, as one value that Dask does not look into.
        shared = [dask.delayed(lambda value=argument: value, pure=False)() for argument in arguments]
        found: Iterable[Result] = dask.compute(*[call(block, *shared) for block in self._blocks])
        return found


def open_rows(estimator: BaseEstimator, X: ArrayLike) -> Rows:
    """Data to learn from; a Dask array stays where it is, a mapped file is read in chunks."""
    Y = validate_rows(estimator, X, reset=True)
    if Y.shape[0] == 0:
        raise ValueError("X has no rows; give two at least")
    rows: Rows = DaskRows(Y) if is_dask(Y) else ArrayRows(Y)
    refuse(rows.facts)
    return rows


def validate_rows(estimator: BaseEstimator, X: Any, *, reset: bool = False) -> Any:
    """An array (n, M), or a Dask array; one mapped from a file is not converted, for that would read it whole."""
    if is_dask(X):
        array = as_dask_array(X)
        if reset:
            estimator.n_features_in_ = array.shape[1]
        elif array.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )
        return array
    mapped = isinstance(X, np.memmap) and X.dtype.kind in "fiub"
    check.refuse_text(X, "leave it out")
    with check.validating("X", X):
        return validate_data(
            estimator,
            X,
            reset=reset,
            dtype=None if mapped else np.float64,
            ensure_all_finite=False if mapped else "allow-nan",
            ensure_min_samples=2 if reset else 1,
        )


def refuse(facts: RowFacts) -> None:
    """Refuse what nothing can be learnt from; warn of rows without entries, which are left out."""
    if facts.infinite:
        raise ValueError(f"X has {facts.infinite} infinite entries; mark missing ones with NaN")
    if facts.rows - facts.empty < 2:
        raise ValueError(
            f"{facts.rows - facts.empty} of {facts.rows} rows (n_samples={facts.rows}) have an entry; at least two must"
        )
    if not facts.counts.all():
        raise ValueError(f"column {int(np.argmin(facts.counts))} has no entry at all; leave it out")
    if facts.empty:
        warnings.warn(
            f"{facts.empty} of {facts.rows} rows have no entry at all: nothing is learnt from them, and they are left "
            "out of the fit",
            UserWarning,
            stacklevel=4,
        )
    if (facts.least == facts.most).all():
        raise ValueError("all columns are constant: there are no angles to learn")
    check.moderate_scale(facts.least, facts.most, "X")


def warn_about(facts: RowFacts, size: int, *, structured: bool) -> None:
    """Warn of what the data cannot tell."""
    steady, columns = np.flatnonzero(facts.least == facts.most), facts.counts.size
    doubts = []
    if steady.size:
        doubts.append(
            f"column {steady[0]} is constant ({steady.size} in all): it says nothing of the angles and lowers the "
            "noise variance that all columns share; leave it out"
        )
    if 2 * size > columns and not structured:
        doubts.append(
            f"n_components = {size} angles have {2 * size} cosines and sines, more than the {columns} columns: without "
            "structure they are not identifiable; give structure= or fewer components, and look at several n_init"
        )
    if facts.rows - facts.empty < columns:
        doubts.append(
            f"{facts.rows - facts.empty} rows for {columns} columns: the noise variance will come out too small; give "
            "more rows"
        )
    for doubt in doubts:
        warnings.warn(doubt, UserWarning, stacklevel=3)


Quantity = Literal["angles", "denoised", "log_likelihood"]


def posterior_moments(Y: ArrayLike, parameters: Parameters, engine: Engine) -> RowMoments:
    """Posterior moments of a chunk of rows (n, M)."""
    values = np.ascontiguousarray(Y, dtype=np.float64)
    if np.isinf(values).any():
        raise ValueError("X has infinite entries; mark missing ones with NaN")
    return expectation(values, parameters, engine, np.full((len(values), parameters.size), np.nan))


def evaluate_rows(Y: Any, parameters: Parameters, engine: Engine, quantity: Quantity) -> Any:
    """A quantity of every row of an array, in chunks; of a Dask array, a Dask array."""
    evaluate = partial(_evaluate_chunk, parameters=parameters, engine=engine, quantity=quantity)
    if not is_dask(Y):
        return np.concatenate([evaluate(part) for part in chunks(Y)])
    if quantity == "log_likelihood":
        return Y.map_blocks(evaluate, dtype=np.float64, meta=np.empty(0), drop_axis=1)
    columns = parameters.size if quantity == "angles" else len(parameters.weights)
    return Y.map_blocks(evaluate, dtype=np.float64, meta=np.empty((0, 0)), chunks=(Y.chunks[0], (columns,)))


def _evaluate_chunk(Y: ArrayLike, parameters: Parameters, engine: Engine, quantity: Quantity) -> FloatArray:
    """A quantity of every row of a chunk."""
    found = posterior_moments(Y, parameters, engine)
    if quantity == "denoised":
        return parameters.mean_at(found.mean)
    return found.mode if quantity == "angles" else found.log_likelihood
