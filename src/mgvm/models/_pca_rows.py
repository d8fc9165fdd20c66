"""Where the rows of circular PCA are: an array, in memory or mapped from a file, read a chunk at a time.

Rows without any entry say nothing; they are left out wherever something is learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._pca_expectation import expectation
from mgvm.models._pca_laws import Engine
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_statistics import Statistics, statistics

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
