"""What the M-step of circular PCA needs of the rows: sums of fixed size, which add up over chunks and machines."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.models._pca_expectation import Moments


@dataclass(frozen=True)
class Statistics:
    """Sums over rows, of w = (v, 1) for every column of the data: over the rows in which it was seen.

    Attributes
    ----------
    second : (M, 2D + 1, 2D + 1)
        Σ E[wwᵀ].
    cross : (M, 2D + 1)
        Σ y E[w].
    squares, counts : (M,)
        Σ y² and the number of rows.
    shares : (K,)
        Rows of every component of the prior.
    sums : (K, D)
        Σ share E[e^{iφ}].
    log_likelihood : float
        Of all rows.
    rows : float
        Their number.
    """

    second: FloatArray
    cross: FloatArray
    squares: FloatArray
    counts: FloatArray
    shares: FloatArray
    sums: ComplexArray
    log_likelihood: float
    rows: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def statistics(Y: FloatArray, moments: Moments) -> Statistics:
    """The sums of one chunk."""
    seen = ~np.isnan(Y)
    complete = bool(seen.all())
    values = Y if complete else np.where(seen, Y, 0.0)
    means = np.concatenate([moments.mean, np.ones((len(Y), 1))], axis=1)
    columns = 1 if complete else Y.shape[1]
    # Complete rows have the same sums for all columns.
    which = np.ones((1, len(Y))) if complete else seen.T.astype(float)
    second = np.empty((columns, means.shape[1], means.shape[1]))
    lower = np.tril_indices(moments.mean.shape[1])
    second[:, lower[0], lower[1]] = second[:, lower[1], lower[0]] = which @ moments.second
    second[:, -1] = second[:, :, -1] = which @ means
    return Statistics(
        np.broadcast_to(second, (Y.shape[1], *second.shape[1:])),
        values.T @ means,
        np.einsum("nm,nm->m", values, values),
        seen.sum(axis=0).astype(float),
        moments.shares.sum(axis=0),
        moments.sums,
        float(moments.log_likelihood.sum()),
        float(len(Y)),
    )
