"""Rows in a Dask array: every sum is taken block by block where the block is, and only sums travel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning import score_operator as sums
from mgvm.learning.score_operator import MemoryRows, sum_of

_FAN_IN = 8
_SMALL = 1_000_000


class DaskRows:
    """Rows of a Dask array (N, D) with weights (N,) of either kind; see `_score_source.Source`.

    On a cluster the blocks of x - m are kept by the workers between passes; without one they are computed again, so
    that no more than a few blocks are ever in memory.
    """

    def __init__(self, data: Any, weights: Any = None):
        if data.ndim != 2:
            raise ValueError(f"data must have shape (N, D), one row an observation, got {data.shape}")
        rows = data if data.numblocks[1] == 1 else data.rechunk({1: -1})
        self.dimension = int(rows.shape[1])
        self._blocks = list(rows.to_delayed().ravel())
        self._weights = _weight_blocks(rows, weights)
        self._kept: tuple[FloatArray, Any, list[Any]] | None = None
        self.n_rows, self._total = self._look()

    def _look(self) -> tuple[int, float]:
        """Check all rows; how many have positive weight, and their sum of weights."""
        facts = np.array(self._gathered(_facts))
        count, total, largest = int(facts[:, 0].sum()), float(facts[:, 1].sum()), facts[:, 2].max()
        if np.isnan(facts).any():
            raise ValueError(
                "data must be finite angles and weights finite and not negative; at least one of the rows is not. "
                "Rows with missing angles cannot be summed: leave them out"
            )
        if not total > 0.0:
            raise ValueError("weights are all zero; at least one must be positive")
        check.angle_data([largest], "data")
        return count, total

    def harmonics(self, count: int) -> ComplexArray:
        """E[z^k], k = 0 .. count; (count + 1, D)."""
        return self._mean(_harmonics, count)

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""
        return self._mean(_products, mean)

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `_score_sums.hessian_sums`."""
        return self._mean(_hessian, mean, order)

    def slopes(self, mean: FloatArray, slope: sums.Slope, dtype: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `_score_sums.slope_sums`."""
        size, higher = self.dimension, slope.harmonics.size
        flat = self._mean(_slopes, _sent(slope), mean, dtype, blocks=self._away(mean, dtype)).astype(dtype)
        cross, pull = flat[: 4 * size**2], flat[4 * size**2 : flat.size - higher]
        return cross.reshape(2 * size, 2 * size), pull, flat[flat.size - higher :].reshape(slope.harmonics.shape)

    def _away(self, mean: FloatArray, dtype: Any) -> list[Any]:
        """Blocks of x - m: promises, or kept by the workers of a cluster."""
        if self._kept is None or self._kept[1] != dtype or not np.array_equal(self._kept[0], mean):
            dask = _dask()
            blocks = [dask.delayed(_centred)(block, mean, dtype) for block in self._blocks]
            if _client() is not None:
                blocks = list(dask.persist(*blocks))
            self._kept = mean, dtype, blocks
        return self._kept[2]

    def _mean(self, function: Callable[..., Any], *arguments: Any, blocks: list[Any] | None = None) -> Any:
        """Sum over all blocks by a tree, divided by the sum of weights."""
        dask = _dask()
        call, add = dask.delayed(function), dask.delayed(_added)
        pairs = zip(self._blocks if blocks is None else blocks, self._weights, strict=True)
        parts = [call(block, weights, *arguments) for block, weights in pairs]
        while len(parts) > 1:
            parts = [add(parts[start : start + _FAN_IN]) for start in range(0, len(parts), _FAN_IN)]
        return dask.compute(parts[0])[0] / self._total

    def _gathered(self, function: Callable[..., Any]) -> list[Any]:
        dask = _dask()
        pairs = zip(self._blocks, self._weights, strict=True)
        return list(dask.compute(*[dask.delayed(function)(block, weights) for block, weights in pairs]))


def _weight_blocks(rows: Any, weights: Any) -> list[Any]:
    """Weights of every block of rows, None where all are 1."""
    if weights is None:
        return [None] * rows.numblocks[0]
    if tuple(weights.shape if hasattr(weights, "dask") else np.shape(weights)) != rows.shape[:1]:
        raise ValueError(f"weights must have the shape of the data, {rows.shape[:1]}, got {np.shape(weights)}")
    if hasattr(weights, "dask"):
        return list(weights.rechunk((rows.chunks[0],)).to_delayed().ravel())
    given = check.weights(weights, rows.shape[:1])
    return np.split(given, np.cumsum(rows.chunks[0])[:-1])


def _dask() -> Any:
    """The package, which only data that come from it need."""
    return import_module("dask")


def _client() -> Any:
    """The cluster that computes, None without one."""
    if "distributed" not in sys.modules:
        return None
    try:
        return import_module("distributed").get_client()
    except ValueError:
        return None


def _sent(value: sums.Slope) -> Any:
    """A large value is sent to all workers once, not with every graph."""
    client = _client()
    if client is None or sum(part.nbytes for part in value) < _SMALL:
        return _dask().delayed(value)
    # In a list, for a bare tuple would be sent item by item.
    return client.scatter([value], broadcast=True, hash=False)[0]


# ---- what the workers do: plain functions of one block -------------------------------------------------------------


def _angles(block: Any) -> FloatArray:
    return np.ascontiguousarray(block, dtype=float)


def _ones(block: Any, weights: Any) -> FloatArray:
    return np.ones(len(block)) if weights is None else np.asarray(weights, dtype=float)


def _facts(block: Any, weights: Any) -> tuple[float, float, float]:
    """Rows of positive weight, sum of weights, largest angle; NaN where something is not a number."""
    x, w = _angles(block), _ones(block, weights)
    sound = np.isfinite(w).all() and not (w < 0).any()
    return float(np.count_nonzero(w > 0)), float(w.sum()) if sound else np.nan, _largest(x)


def _largest(x: FloatArray) -> float:
    if x.size == 0:
        return 0.0
    return float(abs(x).max()) if np.isfinite(x).all() else np.nan


def _harmonics(block: Any, weights: Any, count: int) -> ComplexArray:
    return MemoryRows(_angles(block), _ones(block, weights)).harmonics(count)


def _products(block: Any, weights: Any, mean: FloatArray) -> FloatArray:
    return MemoryRows(_angles(block), _ones(block, weights)).products(mean)


def _hessian(block: Any, weights: Any, mean: FloatArray, order: int) -> FloatArray:
    return sums.hessian_sums(_angles(block), _ones(block, weights), mean, order)


def _centred(block: Any, mean: FloatArray, dtype: Any) -> FloatArray:
    return (sums.unit_rows(_angles(block)) - mean).astype(dtype)


def _slopes(away: FloatArray, weights: Any, slope: sums.Slope, mean: FloatArray, dtype: Any) -> FloatArray:
    """The three sums as one flat vector, in double precision so that the sums of many blocks lose nothing."""
    shares, near = _ones(away, weights).astype(dtype), mean.astype(dtype)
    starts = range(0, len(away), sums.CHUNK_ROWS)
    parts = (slice(start, start + sums.CHUNK_ROWS) for start in starts)
    chunks = (sums.slope_sums(away[part], shares[part], near, slope) for part in parts)
    return sum_of(np.concatenate([np.ravel(value) for value in chunk]).astype(float) for chunk in chunks)


def _added(parts: list[Any]) -> Any:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
