"""Where score matching takes its rows from: blocks whose sums it adds up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning import _score_sums as sums
from mgvm.learning._rows import Rows

_KEPT_BYTES = 600_000_000


class Source(Protocol):
    """Means over weighted rows, whatever holds them."""

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""

    @property
    def dimension(self) -> int:
        """The number of angles."""

    def harmonics(self, count: int) -> ComplexArray:
        """E[z^k], k = 0 .. count; (count + 1, D)."""

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""

    def slopes(self, mean: FloatArray, slope: sums.Slope, dtype: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `_score_sums.slope_sums`."""

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `_score_sums.hessian_sums`."""


class _Kept(NamedTuple):
    mean: FloatArray
    dtype: Any
    away: FloatArray
    weights: FloatArray


class MemoryRows:
    """Rows in memory with weights that sum to 1; x and x - m are kept between passes where they are not too large."""

    def __init__(self, x: FloatArray, shares: FloatArray):
        self._x, self._weights = x, shares
        self._unit: FloatArray | None = None
        self._kept: _Kept | None = None

    @classmethod
    def of(cls, sample: Rows) -> MemoryRows:
        """Rows with their weights as shares of 1."""
        return cls(sample.x, sample.weights / sample.weights.sum())

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self._x.shape[0])

    @property
    def dimension(self) -> int:
        """The number of angles."""
        return int(self._x.shape[1])

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, self.n_rows, sums.CHUNK_ROWS):
            yield slice(start, start + sums.CHUNK_ROWS)

    def harmonics(self, count: int) -> ComplexArray:
        """E[z^k], k = 0 .. count; (count + 1, D)."""
        return sum_of(sums.harmonic_sums(self._rows(part), self._weights[part], count) for part in self._chunks())

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""
        return sum_of(sums.product_sums(self._rows(part), self._weights[part], mean) for part in self._chunks())

    def _rows(self, part: slice) -> FloatArray:
        """A chunk of (cos, sin)."""
        if self._unit is None:
            if 16 * self._x.size > _KEPT_BYTES:
                return sums.unit_rows(self._x[part])
            self._unit = sums.unit_rows(self._x)
        return self._unit[part]

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `_score_sums.hessian_sums`."""
        return sums.hessian_sums(self._x, self._weights, mean, order)

    def slopes(self, mean: FloatArray, slope: sums.Slope, dtype: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `_score_sums.slope_sums`."""
        total: list[FloatArray] = []
        near = mean.astype(dtype)
        for away, weights in self._away(mean, dtype):
            parts = sums.slope_sums(away, weights, near, slope)
            if total:
                for whole, part in zip(total, parts, strict=True):
                    whole += part
            else:
                total = list(parts)
        return total[0], total[1], total[2]

    def _away(self, mean: FloatArray, dtype: Any) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Chunks of x - m and of the weights."""
        kept = self._kept
        if kept is None or kept.dtype != dtype or not np.array_equal(kept.mean, mean):
            kept = self._kept = self._keep(mean, dtype)
        for part in self._chunks():
            if kept is None:
                yield (self._rows(part) - mean).astype(dtype), self._weights[part].astype(dtype)
            else:
                yield kept.away[part], kept.weights[part]

    def _keep(self, mean: FloatArray, dtype: Any) -> _Kept | None:
        if 2 * self._x.size * np.dtype(dtype).itemsize > _KEPT_BYTES:
            return None
        away = np.empty((self.n_rows, 2 * self.dimension), dtype=dtype)
        for part in self._chunks():
            away[part] = self._rows(part) - mean
        return _Kept(mean, dtype, away, self._weights.astype(dtype))


def sum_of(parts: Any) -> Any:
    """Sum of arrays, added in place."""
    total = None
    for part in parts:
        if total is None:
            total = part
        else:
            total += part
    return total
