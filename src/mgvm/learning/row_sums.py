"""Sums over rows that score matching needs, one block of rows at a time, and what holds the blocks: memory or Dask.

With x_d = (cos φ_d, sin φ_d), t_d = ∂x_d = (-sin φ_d, cos φ_d) and the symmetric coupling C (2D, 2D) of the real form,

    ∂_d log p = t_d·(α_d + Σ_j C_dj x_j) + Σ_{t>2} t (Im b_t cos tφ - Re b_t sin tφ).

The second harmonic is the diagonal block C_dd = 2 [[Re b, Im b], [Im b, -Re b]], so that it costs nothing. Everything
is written for x less its mean m, with α' = α + Σ_{j≠d} C_dj m_j in the place of α: single precision then suffices for
concentrated angles, and α' hardly depends on the couplings. All cosines stand before all sines: arrays (…, 2D).

The sums add up whatever holds the rows. `MemoryRows` keeps x - m between passes; of `DaskRows` every block is summed
where it is, and only sums travel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.rows import WeightedRows

Numbers = TypeVar("Numbers", FloatArray, ComplexArray)

CHUNK_ROWS = 1024  # rows at a time: a chunk of a few hundred angles stays in the processor's cache


class Slope(NamedTuple):
    """Coefficients of ∂ log p: of the diagonal and off-diagonal coupling, of 1, and of harmonics 3, 4, …"""

    coupling: FloatArray  # (2D, 2D), second harmonics on the diagonal blocks
    constant: FloatArray  # (2D,)
    harmonics: FloatArray  # (T - 2, 2, D)


def unit_rows(x: FloatArray) -> FloatArray:
    """cos and sin side by side, (n, 2D)."""
    size = x.shape[1]
    out = np.empty((x.shape[0], 2 * size))
    np.cos(x, out=out[:, :size])
    np.sin(x, out=out[:, size:])
    return out


def harmonic_sums(unit: FloatArray, weights: FloatArray, count: int) -> ComplexArray:
    """Σ w z^k for k = 0 .. count, (count + 1, D), of rows (cos, sin)."""
    size = unit.shape[1] // 2
    z = np.empty((unit.shape[0], size), dtype=complex)
    z.real, z.imag = unit[:, :size], unit[:, size:]
    out = np.empty((count + 1, size), dtype=complex)
    out[0] = weights.sum()
    power = z.copy()
    for k in range(1, count + 1):
        out[k] = weights @ power
        if k < count:
            power *= z
    return out


def product_sums(unit: FloatArray, weights: FloatArray, mean: FloatArray) -> FloatArray:
    """Σ w (x - m)(x - m)ᵀ, (2D, 2D), of rows (cos, sin)."""
    away = unit - mean
    return (away * weights[:, None]).T @ away


def slope_sums(
    away: FloatArray, weights: FloatArray, mean: FloatArray, slope: Slope
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ w g t (x - m)ᵀ (2D, 2D), Σ w g t (2D,), Σ w g ∂z^t of t > 2 (T - 2, 2, D), with g = ∂ log p, `away` = x - m."""
    size = away.shape[1] // 2
    field = away @ slope.coupling
    field += slope.constant
    unit = away + mean
    cos, sin = unit[:, :size], unit[:, size:]
    g = cos * field[:, size:]
    g -= sin * field[:, :size]
    turns = []
    for t, (real, imaginary) in enumerate(slope.harmonics, start=3):
        turn = (cos + 1j * sin) ** t
        turns.append((-t * turn.imag, t * turn.real))
        g += real * turns[-1][0] + imaginary * turns[-1][1]
    g *= weights[:, None]
    higher = np.array([[(g * part).sum(axis=0) for part in turn] for turn in turns], dtype=away.dtype)
    np.multiply(g, sin, out=field[:, :size])
    np.negative(field[:, :size], out=field[:, :size])
    np.multiply(g, cos, out=field[:, size:])
    return field.T @ away, field.sum(axis=0), higher.reshape(-1, 2, size)


def places_of(angle: int, dimension: int, order: int) -> np.ndarray:
    """Places in the natural vector of all that touches an angle d, (2T + 4(D - 1),).

    Re and Im of each of its harmonics, then Re P, Im P, Re Q and Im Q, each of all pairs with another angle.
    """
    others = np.delete(np.arange(dimension), angle)
    low, high = np.minimum(others, angle), np.maximum(others, angle)
    own = 2 * dimension * np.arange(order) + 2 * angle
    differences = 2 * dimension * order + 2 * (low * dimension - low * (low + 1) // 2 + high - low - 1)
    sums = differences + dimension * (dimension - 1)
    return np.concatenate([np.stack([own, own + 1], axis=1).ravel(), differences, differences + 1, sums, sums + 1])


def hessian_sums(x: FloatArray, weights: FloatArray, mean: FloatArray, order: int) -> FloatArray:
    """Σ w Σ_d f_d f_dᵀ (p, p), f_d the derivative in φ_d of all statistics in the order of the natural vector."""
    size, harmonics = x.shape[1], np.arange(1, order + 1)
    grams = np.zeros((size, 2 * order + 4 * (size - 1), 2 * order + 4 * (size - 1)))
    for start in range(0, x.shape[0], CHUNK_ROWS):
        part, root = x[start : start + CHUNK_ROWS], np.sqrt(weights[start : start + CHUNK_ROWS, None])
        unit = unit_rows(part)
        away = (unit - mean) * root
        for d in range(size):
            angle = part[:, d, None] * harmonics
            turn = np.stack([-np.sin(angle), np.cos(angle)], axis=2) * (harmonics[:, None] * root[:, None])
            others = np.delete(np.arange(size), d)
            cos, sin, c, s = unit[:, d, None], unit[:, d + size, None], away[:, others], away[:, others + size]
            cc, cs, sc, ss = cos * c, cos * s, sin * c, sin * s
            features = np.concatenate([turn.reshape(len(part), -1), cs - sc, cc + ss, cs + sc, cc - ss], axis=1)
            grams[d] += features.T @ features
    out = np.zeros((2 * size * (order + size - 1),) * 2)
    ones = np.ones(size - 1)
    for d, gram in enumerate(grams):
        # P_dj is the conjugate of the P_jd that the vector holds where j < d; cs + sc comes with -Re Q.
        conjugate = np.where(np.arange(size - 1) < d, -1.0, 1.0)
        sign = np.concatenate([np.ones(2 * order), ones, conjugate, -ones, ones])
        places = places_of(d, size, order)
        out[np.ix_(places, places)] += sign[:, None] * gram * sign
    return out


def sum_arrays(parts: Iterable[Numbers]) -> Numbers:
    """Sum of arrays, none of which is changed."""
    every = iter(parts)
    total = next(every).copy()
    for part in every:
        total += part
    return total


# ---- rows in memory --------------------------------------------------------------------------------------------------


class _KeptRows(NamedTuple):
    """x - m and the weights in a precision."""

    mean: FloatArray
    dtype: type[np.floating]
    away: FloatArray
    weights: FloatArray


class MemoryRows:
    """Rows in memory with weights that sum to 1; x and x - m are kept between passes if smaller than `kept_bytes`."""

    def __init__(self, x: FloatArray, shares: FloatArray, kept_bytes: int = 600_000_000):
        self._x, self._weights, self._kept_bytes = x, shares, kept_bytes
        self._unit: FloatArray | None = None
        self._kept: _KeptRows | None = None

    @classmethod
    def of(cls, sample: WeightedRows) -> MemoryRows:
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
        for start in range(0, self.n_rows, CHUNK_ROWS):
            yield slice(start, start + CHUNK_ROWS)

    def harmonics(self, count: int) -> ComplexArray:
        """E[z^k], k = 0 .. count; (count + 1, D)."""
        return sum_arrays(harmonic_sums(self._rows(part), self._weights[part], count) for part in self._chunks())

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""
        return sum_arrays(product_sums(self._rows(part), self._weights[part], mean) for part in self._chunks())

    def _rows(self, part: slice) -> FloatArray:
        """A chunk of (cos, sin)."""
        if self._unit is None:
            if 16 * self._x.size > self._kept_bytes:
                return unit_rows(self._x[part])
            self._unit = unit_rows(self._x)
        return self._unit[part]

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `hessian_sums`."""
        return hessian_sums(self._x, self._weights, mean, order)

    def slopes(
        self, mean: FloatArray, slope: Slope, dtype: type[np.floating]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `slope_sums`."""
        total: list[FloatArray] = []
        near = mean.astype(dtype)
        for away, weights in self._away(mean, dtype):
            parts = slope_sums(away, weights, near, slope)
            if total:
                for whole, part in zip(total, parts, strict=True):
                    whole += part
            else:
                total = list(parts)
        return total[0], total[1], total[2]

    def _away(self, mean: FloatArray, dtype: type[np.floating]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Chunks of x - m and of the weights."""
        kept = self._kept
        if kept is None or kept.dtype != dtype or not np.array_equal(kept.mean, mean):
            kept = self._kept = self._keep(mean, dtype)
        for part in self._chunks():
            if kept is None:
                yield (self._rows(part) - mean).astype(dtype), self._weights[part].astype(dtype)
            else:
                yield kept.away[part], kept.weights[part]

    def _keep(self, mean: FloatArray, dtype: type[np.floating]) -> _KeptRows | None:
        if 2 * self._x.size * np.dtype(dtype).itemsize > self._kept_bytes:
            return None
        away = np.empty((self.n_rows, 2 * self.dimension), dtype=dtype)
        for part in self._chunks():
            away[part] = self._rows(part) - mean
        return _KeptRows(mean, dtype, away, self._weights.astype(dtype))


# ---- rows of a Dask array --------------------------------------------------------------------------------------------


class DaskRows:
    """Rows of a Dask array (N, D) with weights (N,) of either kind, in memory or Dask's.

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
        self.n_rows, self._total = self._check_rows()

    def _check_rows(self) -> tuple[int, float]:
        """Check all rows; how many have positive weight, and their sum of weights."""
        delayed = _dask().delayed(_facts)
        facts = np.array(_dask().compute(*[delayed(*each) for each in zip(self._blocks, self._weights, strict=True)]))
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
        return self._mean(_sums, "harmonics", count)

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""
        return self._mean(_sums, "products", mean)

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `hessian_sums`."""
        return self._mean(_sums, "hessian", mean, order)

    def slopes(
        self, mean: FloatArray, slope: Slope, dtype: type[np.floating]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `slope_sums`."""
        size, higher = self.dimension, slope.harmonics.size
        flat = self._mean(_slopes, _send(slope), mean, dtype, blocks=self._away(mean, dtype)).astype(dtype)
        cross, pull = flat[: 4 * size**2], flat[4 * size**2 : flat.size - higher]
        return cross.reshape(2 * size, 2 * size), pull, flat[flat.size - higher :].reshape(slope.harmonics.shape)

    def _away(self, mean: FloatArray, dtype: type[np.floating]) -> list[Any]:
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
        call, add = dask.delayed(function), dask.delayed(sum_arrays)
        pairs = zip(self._blocks if blocks is None else blocks, self._weights, strict=True)
        parts = [call(block, weights, *arguments) for block, weights in pairs]
        fan_in = 8  # sums added by one task of the tree
        while len(parts) > 1:
            parts = [add(parts[start : start + fan_in]) for start in range(0, len(parts), fan_in)]
        return dask.compute(parts[0])[0] / self._total


RowSource: TypeAlias = MemoryRows | DaskRows


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


def _send(value: Slope) -> Any:
    """A promise of the value; a large one is sent to all workers once, not with every graph."""
    client = _client()
    if client is None or sum(part.nbytes for part in value) < 1_000_000:
        return _dask().delayed(value)
    # In a list, for a bare tuple would be sent item by item.
    return client.scatter([value], broadcast=True, hash=False)[0]


# ---- what the workers do: plain functions of one block -------------------------------------------------------------


def _angles(block: Any) -> FloatArray:
    """The block as an array of doubles."""
    return np.ascontiguousarray(block, dtype=float)


def _weights_or_ones(block: Any, weights: Any) -> FloatArray:
    """The weights of a block, 1 each where none were given."""
    return np.ones(len(block)) if weights is None else np.asarray(weights, dtype=float)


def _facts(block: Any, weights: Any) -> tuple[float, float, float]:
    """Rows of positive weight, sum of weights, largest angle; NaN where something is not a number."""
    x, w = _angles(block), _weights_or_ones(block, weights)
    total = float(w.sum()) if np.isfinite(w).all() and not (w < 0).any() else np.nan
    largest = float(abs(x).max(initial=0.0)) if np.isfinite(x).all() else np.nan
    return float(np.count_nonzero(w > 0)), total, largest


def _sums(block: Any, weights: Any, quantity: str, *arguments: Any) -> Any:
    """A mean of `MemoryRows` times the sum of weights."""
    return getattr(MemoryRows(_angles(block), _weights_or_ones(block, weights)), quantity)(*arguments)


def _centred(block: Any, mean: FloatArray, dtype: type[np.floating]) -> FloatArray:
    return (unit_rows(_angles(block)) - mean).astype(dtype)


def _slopes(away: FloatArray, weights: Any, slope: Slope, mean: FloatArray, dtype: type[np.floating]) -> FloatArray:
    """The three sums as one flat vector, in double precision so that the sums of many blocks lose nothing."""
    shares, near = _weights_or_ones(away, weights).astype(dtype), mean.astype(dtype)
    starts = range(0, len(away), CHUNK_ROWS)
    parts = (slice(start, start + CHUNK_ROWS) for start in starts)
    chunks = (slope_sums(away[part], shares[part], near, slope) for part in parts)
    return sum_arrays(np.concatenate([np.ravel(value) for value in chunk]).astype(float) for chunk in chunks)
