"""Rows of circular PCA in a Dask array: every E-step is taken block by block where the block is; only sums travel.

Nothing is kept by the workers but the blocks, which Dask computes again where a worker was lost: the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._pca_laws import Engine
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_rows import chosen, chunk_sums, facts_of, with_entries
from mgvm.models._pca_statistics import Statistics


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
