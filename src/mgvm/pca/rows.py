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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from importlib import import_module
from typing import Any, Literal, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.pca.e_step import Engine, MeanField, Parameters, RowMoments, Statistics, expectation, sum_statistics

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


class Rows(Protocol):
    """Data to learn from."""

    @property
    def facts(self) -> RowFacts:
        """What to check."""

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""

    def sums(self, parameters: Parameters, engine: Engine) -> Statistics:
        """The E-step at given parameters, summed over all rows."""


def collect_facts(Y: Any) -> RowFacts:
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


def drop_empty(Y: Any) -> FloatArray:
    """A chunk as doubles, without rows that have no entry."""
    values = np.ascontiguousarray(Y, dtype=np.float64)
    empty = np.isnan(values).all(axis=1)
    return values[~empty] if empty.any() else values


def sum_chunk(Y: Any, parameters: Parameters, engine: Engine) -> Statistics:
    """The E-step of one chunk, summed; it begins anew, with nothing of the one before."""
    return _expect_chunk(Y, parameters, engine, None)[0]


def _expect_chunk(
    Y: Any, parameters: Parameters, engine: Engine, start: ComplexArray | None
) -> tuple[Statistics, ComplexArray]:
    """The E-step of one chunk, summed, and E[e^{iφ}] (n, D) of its rows."""
    values, size = drop_empty(Y), parameters.size
    if start is None or start.shape != (len(values), size):
        start = np.full((len(values), size), np.nan, dtype=complex)
    moments = expectation(values, parameters, engine, start)
    return sum_statistics(values, moments), moments.mean[:, :size] + 1j * moments.mean[:, size:]


class ArrayRows:
    """An array (n, M) of any type of numbers, which is only ever read in chunks.

    Of rows that are not too many, an E-step may begin where the one before has ended (`MeanField.search`); what is
    learnt does not depend on the chunks.
    """

    def __init__(self, Y: Any):
        self._Y = Y
        self._moments: list[ComplexArray | None] = [None for _ in chunks(Y)]

    @cached_property
    def facts(self) -> RowFacts:
        """What to check."""
        return reduce(operator.add, map(collect_facts, chunks(self._Y)))

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""
        return drop_empty(self._Y[choose_rows(len(self._Y), most, rng)])

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


def choose_rows(count: int, most: int, rng: np.random.Generator) -> Any:
    """Which rows: all, or `most` at random, in their order."""
    return slice(None) if count <= most else np.sort(rng.choice(count, most, replace=False))


def chunks(Y: Any) -> Iterator[Any]:
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


class DaskRows:
    """A Dask array (n, M). Persist it first if its blocks take long to make."""

    def __init__(self, array: Any):
        self._array = array
        # A block without rows has nothing to add.
        self._blocks = [
            block for block, size in zip(array.to_delayed().ravel(), array.chunks[0], strict=True) if size > 0
        ]

    @cached_property
    def facts(self) -> RowFacts:
        """What to check."""
        return reduce(operator.add, compute_blocks(collect_facts, self._blocks))

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""
        return drop_empty(self._array[choose_rows(self._array.shape[0], most, rng)].compute())

    def sums(self, parameters: Parameters, engine: Engine) -> Statistics:
        """The E-step at given parameters: as many sums as blocks come back, and are added in the order of the rows."""
        return reduce(operator.add, compute_blocks(sum_chunk, self._blocks, parameters, engine))


def compute_blocks(function: Callable[..., Any], blocks: list[Any], *arguments: Any) -> list[Any]:
    """A function of every block, computed where the blocks are."""
    dask = import_module("dask")
    call = dask.delayed(function, pure=False)
    # What all blocks share is sent once, as one value that Dask does not look into.
    shared = [dask.delayed(lambda value=argument: value, pure=False)() for argument in arguments]
    return list(dask.compute(*[call(block, *shared) for block in blocks]))


def map_blocks(array: Any, function: Callable[[Any], FloatArray], columns: int | None) -> Any:
    """A function of rows as a Dask array: of `columns` columns, or of one value a row."""
    if columns is None:
        return array.map_blocks(function, dtype=np.float64, meta=np.empty(0), drop_axis=1)
    chunks = (array.chunks[0], (columns,))
    return array.map_blocks(function, dtype=np.float64, meta=np.empty((0, 0)), chunks=chunks)


def open_rows(estimator: Any, X: Any) -> Rows:
    """Data to learn from; a Dask array stays where it is, a mapped file is read in chunks."""
    Y = validate_rows(estimator, X, reset=True)
    if Y.shape[0] == 0:
        raise ValueError("X has no rows; give two at least")
    rows: Rows = DaskRows(Y) if is_dask(Y) else ArrayRows(Y)
    refuse(rows.facts)
    return rows


def validate_rows(estimator: Any, X: Any, *, reset: bool = False) -> Any:
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
    if steady.size:
        warnings.warn(
            f"column {steady[0]} is constant ({steady.size} in all): it says nothing of the angles and lowers the "
            "noise variance that all columns share; leave it out",
            UserWarning,
            stacklevel=3,
        )
    if 2 * size > columns and not structured:
        warnings.warn(
            f"n_components = {size} angles have {2 * size} cosines and sines, more than the {columns} columns: without "
            "structure they are not identifiable; give structure= or fewer components, and look at several n_init",
            UserWarning,
            stacklevel=3,
        )
    if facts.rows - facts.empty < columns:
        warnings.warn(
            f"{facts.rows - facts.empty} rows for {columns} columns: the noise variance will come out too small; give "
            "more rows",
            UserWarning,
            stacklevel=3,
        )


Quantity = Literal["angles", "denoised", "log_likelihood"]


def posterior_moments(Y: Any, parameters: Parameters, engine: Engine) -> RowMoments:
    """Posterior moments of a chunk of rows (n, M)."""
    values = np.ascontiguousarray(Y, dtype=np.float64)
    if np.isinf(values).any():
        raise ValueError("X has infinite entries; mark missing ones with NaN")
    return expectation(values, parameters, engine, np.full((len(values), parameters.size), np.nan))


def evaluate_rows(Y: Any, parameters: Parameters, engine: Engine, quantity: Quantity) -> Any:
    """A quantity of every row of an array, in chunks; of a Dask array, a Dask array."""
    evaluate = partial(_evaluate_chunk, parameters=parameters, engine=engine, quantity=quantity)
    if is_dask(Y):
        columns = {"angles": parameters.size, "denoised": len(parameters.weights)}.get(quantity)
        return map_blocks(Y, evaluate, columns)
    return np.concatenate([evaluate(part) for part in chunks(Y)])


def _evaluate_chunk(Y: Any, parameters: Parameters, engine: Engine, quantity: Quantity) -> FloatArray:
    """A quantity of every row of a chunk."""
    found = posterior_moments(Y, parameters, engine)
    if quantity == "denoised":
        return parameters.mean_at(found.mean)
    return found.mode if quantity == "angles" else found.log_likelihood
