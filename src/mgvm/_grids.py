"""Grids of the circle, sums of exponentials over them, and searches in them."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray


def periodic_grid(count: int) -> FloatArray:
    """Return the nodes -π + 2πj/count of the periodic trapezoid rule, j = 0 … count - 1."""
    return np.asarray(-np.pi + 2.0 * np.pi / count * np.arange(count), dtype=np.float64)


def log_sum_exp(values: FloatArray, axis: int = -1) -> FloatArray:
    """Return log Σ exp(values) along an axis; -inf where all values are.

    The largest value is taken out first, so that nothing overflows; SciPy's `logsumexp` does the same with checks that
    cost several times the sum on the small arrays of an inner loop.
    """
    top = np.max(values, axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - safe).sum(axis=axis)) + np.squeeze(safe, axis=axis))


def count_up_to(table: FloatArray, row: np.ndarray, value: FloatArray) -> np.ndarray:
    """Return how many entries of its row of a table (R, n), whose rows increase, are at most each value."""
    if len(table) == 1:
        return np.searchsorted(table[0], value, side="right")
    flat, size = table.reshape(-1), table.shape[1]
    count = np.zeros(value.shape, dtype=np.int64)
    step = 1 << size.bit_length() - 1
    while step:
        trial = count + step
        inside = trial <= size
        count = np.where(inside & (flat[row * size + np.where(inside, trial, 1) - 1] <= value), trial, count)
        step >>= 1
    return count


def find_panel(edges: FloatArray, row: np.ndarray, value: FloatArray) -> np.ndarray:
    """Return the panel of its row of edges that holds each value; rows may end in repeats."""
    return np.clip(count_up_to(edges, row, value) - 1, 0, edges.shape[1] - 2)
