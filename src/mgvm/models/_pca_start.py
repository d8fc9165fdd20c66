"""Where the fit of circular PCA begins: circles in the planes of principal components, or a skeleton of the markers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models import _pca_prior
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_tree import KinematicTree

_SMALLEST = 1e-3  # of the variance: noise to begin with


def filled(Y: FloatArray) -> FloatArray:
    """Column means in the place of missing entries."""
    return np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)


def started(weights: FloatArray, Y: FloatArray) -> Parameters:
    """Parameters with given W; the noise is what W can leave unexplained at most, a tenth of the variance."""
    size = (weights.shape[1] - 1) // 2
    variance = float(np.nanvar(Y, axis=0).mean())
    return Parameters(weights, 0.1 * variance, _pca_prior.uniform(size))


def circles(Y: FloatArray, size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """W = [A B c] whose circles lie in planes of principal components, turned at random but for the first."""
    complete = filled(Y)
    centre = complete.mean(axis=0)
    _, scale, directions = np.linalg.svd(complete - centre, full_matrices=False)
    used = min(2 * size, int((scale > 1e-12 * scale[0]).sum()) or 1)
    axes = directions[:used].T * (scale[:used] * np.sqrt(2.0 / len(Y)))
    turn = np.eye(used)
    while True:
        loadings = np.zeros((Y.shape[1], 2 * size))
        loadings[:, :used] = axes @ turn
        # Neighbours in the order of variance make one circle.
        order = np.concatenate([np.arange(0, 2 * size, 2), np.arange(1, 2 * size, 2)])
        yield np.concatenate([loadings[:, order], centre[:, None]], axis=1)
        turn = np.linalg.qr(rng.normal(size=(used, used)))[0]


def candidates(Y: FloatArray, size: int, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """`count` starts W: a skeleton where the columns can be markers in the plane, the rest circles."""
    out = []
    if Y.shape[1] % 2 == 0 and Y.shape[1] // 2 <= size:
        out.append(KinematicTree.found(Y, size).start(Y, warn=False))
    rest = circles(Y, size, rng)
    return out + [next(rest) for _ in range(max(count - len(out), 0 if out else 1))]
