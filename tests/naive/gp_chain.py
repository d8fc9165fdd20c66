"""Slow, obvious twins of the exact chain: the whole table of a few angles on a product grid."""

from __future__ import annotations

import numpy as np


def table(precision, logs):
    """Probabilities (n, ..., n) of -½ xᵀWx summed over both coordinates, times the factors `logs` (D, n); and log Z."""
    dimension, count = logs.shape
    angles = -np.pi + 2.0 * np.pi / count * np.arange(count)
    grids = np.meshgrid(*[angles] * dimension, indexing="ij")
    total = np.zeros([count] * dimension)
    for i in range(dimension):
        shape = [1] * dimension
        shape[i] = count
        total += logs[i].reshape(shape)
        for j in range(dimension):
            total -= 0.5 * precision[i, j] * np.cos(grids[i] - grids[j])
    top = total.max()
    weights = np.exp(total - top)
    return weights / weights.sum(), top + np.log(weights.sum()) + dimension * np.log(2.0 * np.pi / count)


def marginal(weights, axis):
    """Of one angle."""
    return weights.sum(axis=tuple(k for k in range(weights.ndim) if k != axis))
