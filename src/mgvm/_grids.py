"""Grids of the circle, and sums of exponentials over them."""

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
