"""Where the rows of circular PCA are: an array, in memory or mapped from a file, read a chunk at a time.

Rows without any entry say nothing; they are left out wherever something is learnt.

Rows of circular PCA in a Dask array: every E-step is taken block by block where the block is; only sums travel.

Nothing is kept by the workers but the blocks, which Dask computes again where a worker was lost: the same answer.

Data of circular PCA as users hand them in: checked, and named in messages that say what to do.

What a fitted circular PCA tells of rows, a chunk at a time; of a Dask array, when it is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol

import numpy as np
from sklearn.utils.validation import validate_data

from mgvm._validation import FloatArray
from mgvm.pca.e_step import Engine, Moments, Parameters, Statistics, expectation, statistics

CHUNK = 65_536  # rows held as doubles at once


class Rows(Protocol):
    """Anything that can sum statistics over its rows."""

    def sums(self, parameters: Parameters) -> Statistics:
        """The E-step at given parameters, summed."""


@dataclass(frozen=True)
class Facts:
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

    def __add__(self, other: Facts) -> Facts:
        return Facts(
            self.rows + other.rows,
            self.empty + other.empty,
            self.infinite + other.infinite,
            self.counts + other.counts,
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )


class Source(Protocol):
    """Data to learn from."""

    facts: Facts

    def rows(self, engine: Engine) -> Rows:
        """The rows with an E-step."""

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""


def facts_of(Y: Any) -> Facts:
    """Of one chunk."""
    values = np.asarray(Y, dtype=np.float64)
    missing = np.isnan(values)
    return Facts(
        len(values),
        int(missing.all(axis=1).sum()),
        int(np.isinf(values).sum()),
        (~missing).sum(axis=0).astype(float),
        np.min(values, axis=0, initial=np.inf, where=~missing),
        np.max(values, axis=0, initial=-np.inf, where=~missing),
    )


def with_entries(Y: Any) -> FloatArray:
    """A chunk as doubles, without rows that have no entry."""
    values = np.ascontiguousarray(Y, dtype=np.float64)
    empty = np.isnan(values).all(axis=1)
    return values[~empty] if empty.any() else values


def chunk_sums(Y: Any, parameters: Parameters, engine: Engine) -> Statistics:
    """The E-step of one chunk, summed.

    Every E-step begins anew: nothing is kept of the rows between two of them, so that what is learnt does not depend on
    where, how often, or in what chunks they are read.
    """
    values = with_entries(Y)
    nowhere = np.full((len(values), parameters.size), np.nan)
    return statistics(values, expectation(values, parameters, engine, nowhere))


@dataclass(frozen=True)
class InMemory:
    """Rows of an array with an E-step."""

    Y: Any
    engine: Engine
    chunk: int = CHUNK

    def sums(self, parameters: Parameters) -> Statistics:
        """The E-step at given parameters, summed chunk by chunk."""
        parts = (chunk_sums(part, parameters, self.engine) for part in chunks(self.Y, self.chunk))
        total = next(parts)
        for part in parts:
            total = total + part
        return total


class ArrayRows:
    """An array (n, M) of any type of numbers, which is only ever read in chunks."""

    def __init__(self, Y: Any):
        self._Y = Y
        parts = (facts_of(part) for part in chunks(Y, CHUNK))
        self.facts = next(parts)
        for part in parts:
            self.facts = self.facts + part

    def rows(self, engine: Engine) -> InMemory:
        """The rows with an E-step."""
        return InMemory(self._Y, engine, CHUNK)

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""
        return with_entries(self._Y[chosen(len(self._Y), most, rng)])


def chosen(count: int, most: int, rng: np.random.Generator) -> Any:
    """Which rows: all, or `most` at random, in their order."""
    return slice(None) if count <= most else np.sort(rng.choice(count, most, replace=False))


def chunks(Y: Any, size: int) -> Iterator[Any]:
    """So many rows at a time."""
    for begin in range(0, len(Y), size):
        yield Y[begin : begin + size]


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or frame."""
    return hasattr(X, "dask") and hasattr(X, "compute")


def as_array(X: Any) -> Any:
    """A Dask array (n, M) of known size, all columns in one block."""
    array = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    if array.ndim != 2:
        raise ValueError(f"X must have shape (n, M), one row an observation, got {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got a Dask array of {array.dtype}; convert it with astype(float)")
    if np.isnan(array.shape).any():
        array = array.compute_chunk_sizes()
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


@dataclass(frozen=True)
class OnCluster:
    """Blocks of rows with an E-step."""

    blocks: list[Any]
    engine: Engine

    def sums(self, parameters: Parameters) -> Statistics:
        """The E-step at given parameters: as many sums as blocks come back, and are added in the order of the rows."""
        parts = computed(chunk_sums, self.blocks, parameters, self.engine)
        total: Statistics = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class DaskRows:
    """A Dask array (n, M); see `_pca_rows.Source`. Persist it first if its blocks take long to make."""

    def __init__(self, array: Any):
        self._array = array
        # A block without rows has nothing to add.
        self._blocks = [
            block for block, size in zip(array.to_delayed().ravel(), array.chunks[0], strict=True) if size > 0
        ]
        parts = computed(facts_of, self._blocks)
        self.facts = parts[0]
        for part in parts[1:]:
            self.facts = self.facts + part

    def rows(self, engine: Engine) -> OnCluster:
        """The rows with an E-step."""
        return OnCluster(self._blocks, engine)

    def subset(self, most: int, rng: np.random.Generator) -> FloatArray:
        """Rows with entries in memory: all, or `most` of them at random, in their order."""
        return with_entries(self._array[chosen(self._array.shape[0], most, rng)].compute())


def computed(function: Callable[..., Any], blocks: list[Any], *arguments: Any) -> list[Any]:
    """A function of every block, computed where the blocks are."""
    dask = import_module("dask")
    call = dask.delayed(function, pure=False)
    # What all blocks share is sent once, as one value that Dask does not look into.
    shared = [dask.delayed(lambda value=argument: value, pure=False)() for argument in arguments]
    return list(dask.compute(*[call(block, *shared) for block in blocks]))


def mapped(array: Any, function: Callable[..., FloatArray], columns: int | None, **options: Any) -> Any:
    """A function of rows as a Dask array: of `columns` columns, or of one value a row."""
    if columns is None:
        return array.map_blocks(function, dtype=np.float64, meta=np.empty(0), drop_axis=1, **options)
    chunks = (array.chunks[0], (columns,))
    return array.map_blocks(function, dtype=np.float64, meta=np.empty((0, 0)), chunks=chunks, **options)


def source_of(estimator: Any, X: Any) -> Source:
    """Data to learn from; a Dask array stays where it is, a mapped file is read in chunks."""
    Y = checked(estimator, X, reset=True)
    if Y.shape[0] == 0:
        raise ValueError("X has no rows; give two at least")
    source: Source = DaskRows(Y) if is_dask(Y) else ArrayRows(Y)
    refuse(source.facts)
    return source


def checked(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """An array (n, M), or a Dask array; one mapped from a file is not converted, for that would read it whole."""
    if is_dask(X):
        array = as_array(X)
        if reset:
            estimator.n_features_in_ = array.shape[1]
        elif array.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )
        return array
    mapped = isinstance(X, np.memmap) and X.dtype.kind in "fiub"
    return validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None if mapped else np.float64,
        ensure_all_finite=False if mapped else "allow-nan",
        ensure_min_samples=2 if reset else 1,
    )


def refuse(facts: Facts) -> None:
    """What nothing can be learnt from; rows without entries are counted, and left out."""
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


def warn_of(facts: Facts, size: int, *, structured: bool) -> None:
    """What the data cannot tell."""
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


What = Literal["angles", "denoised", "log_likelihood"]


@dataclass(frozen=True)
class Reader:
    """Parameters and an E-step; can be sent to workers."""

    parameters: Parameters
    engine: Engine

    def moments(self, Y: Any) -> Moments:
        """Posterior moments of rows (n, M)."""
        values = np.ascontiguousarray(Y, dtype=np.float64)
        if np.isinf(values).any():
            raise ValueError("X has infinite entries; mark missing ones with NaN")
        return expectation(values, self.parameters, self.engine, np.full((len(values), self.parameters.size), np.nan))

    def one(self, Y: Any, what: What) -> FloatArray:
        """Of one chunk."""
        found = self.moments(Y)
        if what == "denoised":
            return self.parameters.mean_at(found.mean)
        return found.mode if what == "angles" else found.log_likelihood

    def all(self, Y: Any, what: What) -> Any:
        """Of an array, or a promise of it of a Dask array."""
        if is_dask(Y):
            columns = {"angles": self.parameters.size, "denoised": len(self.parameters.weights)}.get(what)
            return mapped(Y, self.one, columns, what=what)
        return np.concatenate([self.one(part, what) for part in chunks(Y, CHUNK)])
