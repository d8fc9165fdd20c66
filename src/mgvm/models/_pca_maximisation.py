"""The M-step of circular PCA, in closed form: W by least squares, its structure kept, then the noise."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._pca_statistics import Statistics

_RIDGE = 1e-10  # of the mean square of an entry of w = (v, 1), against columns that say nothing


class Structure(Protocol):
    """Which W = [A B c] may be."""

    def solve(self, sums: Statistics) -> FloatArray:
        """The W (M, 2D + 1) that minimises Σ E|y - Ww|²."""


class Masked:
    """W with zeros where `mask` (M, 2D + 1) is False."""

    def __init__(self, mask: np.ndarray):
        self.mask = mask

    def solve(self, sums: Statistics) -> FloatArray:
        """Least squares, column of the data by column."""
        out = np.zeros(self.mask.shape)
        for m, allowed in enumerate(self.mask):
            used = np.flatnonzero(allowed)
            if used.size and sums.counts[m]:
                out[m, used] = _solved(sums.second[m][np.ix_(used, used)], sums.cross[m, used], sums.counts[m])
        return out


class Linear:
    """W = Σ_j θ_j E_j with given E_j, basis (J, M, 2D + 1): links that several markers share, fixed directions.

    `tree` is the KinematicTree that it comes from, if any.
    """

    def __init__(self, basis: FloatArray, tree: object = None):
        self.basis, self.tree = basis, tree

    def solve(self, sums: Statistics) -> FloatArray:
        """Least squares in θ."""
        pulled = np.einsum("jmp,mpq->jmq", self.basis, sums.second)
        matrix = np.einsum("jmq,kmq->jk", pulled, self.basis)
        right = np.einsum("jmq,mq->j", self.basis, sums.cross)
        theta = _solved(matrix, right, float(sums.counts.sum()))
        return np.asarray(np.einsum("j,jmq->mq", theta, self.basis))


def _solved(matrix: FloatArray, right: FloatArray, count: float) -> FloatArray:
    return np.asarray(np.linalg.solve(matrix + _RIDGE * count * np.eye(len(right)), right), dtype=np.float64)


def residual(sums: Statistics, weights: FloatArray) -> float:
    """Σ E|y - Ww|² over all entries seen."""
    twice = np.einsum("mp,mp->", weights, sums.cross)
    square = np.einsum("mp,mpq,mq->", weights, sums.second, weights, optimize=True)
    return float(sums.squares.sum() - 2.0 * twice + square)
