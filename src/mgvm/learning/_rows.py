"""Rows of angles as the learners take them: checked, with weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray


class Rows(NamedTuple):
    """Angles (N, D), NaN where missing, and weights (N,) of mean 1, all of them positive: rows of weight 0 are gone."""

    x: FloatArray
    weights: FloatArray

    @property
    def n_rows(self) -> int:
        """The number of rows N."""
        return int(self.x.shape[0])

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.x.shape[1])

    @property
    def effective_count(self) -> float:
        """(Σw)²/Σw², the number of equally weighted rows that would tell as much (Kish)."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())


def rows(data: ArrayLike, weights: ArrayLike | None = None, *, missing: bool = False) -> Rows:
    """Rows of angles (N, D) from what the user hands in; a vector is refused, NaN unless `missing` allows it."""
    x = check.angle_data_or_nan(data, "data")
    if x.ndim != 2:
        cure = "; reshape one angle a row as data[:, None]" if x.ndim == 1 else ""
        raise ValueError(f"data must have shape (N, D), one row an observation, got {x.shape}{cure}")
    if not missing and np.isnan(x).any():
        row, column = (int(i) for i in np.argwhere(np.isnan(x))[0])
        raise ValueError(
            f"data must be finite radians, got nan in row {row}, column {column}; fit_torus, MGvM.fit and TorusMixture "
            "take missing angles, or leave such rows out"
        )
    w = check.weights(weights, x.shape[:1])
    used = w > 0
    if missing:
        empty = np.isnan(x[used]).all(axis=0)
        if empty.any():
            raise ValueError(
                f"column {int(np.argmax(empty))} of data has no observed angle at all, so nothing can be learnt of it; "
                "leave the column out"
            )
    if not used.all():
        x, w = x[used], w[used]
    return Rows(np.ascontiguousarray(x), w / math.fsum(w) * w.size)


def circular_spread(x: FloatArray, weights: FloatArray) -> FloatArray:
    """1 - |mean of z| of every column, NaN left out; without cancellation for nearly constant columns."""
    seen = ~np.isnan(x)
    w = np.where(seen, weights[:, None], 0.0)
    z = np.where(seen, np.exp(1j * np.where(seen, x, 0.0)), 0.0)
    centre = np.angle((w * z).sum(axis=0))
    away = np.where(seen, x - centre, 0.0)
    c, s = 2.0 * np.sin(0.5 * away) ** 2, np.sin(away)
    total = w.sum(axis=0)
    lost, across = (w * c).sum(axis=0) / total, (w * s).sum(axis=0) / total
    # |m| = sqrt((1 - lost)² + across²), so 1 - |m| = (1 - |m|²)/(1 + |m|).
    square = lost * (2.0 - lost) - across**2
    return np.maximum(square, 0.0) / (1.0 + np.sqrt(np.maximum(1.0 - square, 0.0)))
