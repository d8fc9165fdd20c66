"""Kernels of circular regression: what is tried when none is given, and Gram matrices computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern

from mgvm._validation import FloatArray

_SUBSET = 500
_REACH = 2.0
VARIANCE, OFFSET = 0.5, 0.1  # of the planar vector: about those of unit vectors


def default_kernels(inputs: FloatArray) -> list[Any]:
    """Matérn-1/2 and Matérn-3/2 plus a constant, which is the direction that all inputs share.

    Between them lie 0.3 to 0.6 nats on smooth fields.
    """
    length, shortest, longest = _distances(inputs)
    bounds = (0.1 * shortest, 100.0 * longest)
    return [
        ConstantKernel(VARIANCE, (1e-3, 1e3)) * Matern(length, bounds, nu=nu) + ConstantKernel(OFFSET, (1e-4, 1e3))
        for nu in (0.5, 1.5)
    ]


def _distances(inputs: FloatArray) -> tuple[float, float, float]:
    """A length scale to begin with, the median distance of nearest neighbours, and the largest extent.

    The first is half the median distance, but twice that of nearest neighbours at least: in many dimensions all are
    about as far apart, and shorter lengths would let no input tell of another.
    """
    if inputs.shape[0] < 2:
        return 1.0, 1.0, 1.0
    step = -(-inputs.shape[0] // _SUBSET)
    apart = pdist(inputs[::step]) if inputs.shape[0] > step else pdist(inputs)
    nearest, _ = cKDTree(inputs).query(inputs[::step], k=2)
    half = 0.5 * float(np.median(apart)) or 1.0
    near = float(np.median(nearest[:, 1])) or half
    return max(half, _REACH * near), min(near, half), max(float(apart.max()), half)


@dataclass(frozen=True)
class GramKernel:
    """A Gram matrix computed elsewhere, times a learnt scale, behind the few methods that a prior asks of a kernel.

    What stands for inputs is the matrix itself: (N, N) to fit, (M, N) at queries. The variance at a query is the mean
    of the training inputs', since a Gram matrix does not tell it.
    """

    scale: float
    variance: float

    @property
    def theta(self) -> FloatArray:
        """log scale."""
        return np.array([np.log(self.scale)])

    @property
    def n_dims(self) -> int:
        """One."""
        return 1

    @property
    def bounds(self) -> FloatArray:
        """A factor of a thousand either way."""
        return self.theta + np.array([[-7.0, 7.0]])

    def clone_with_theta(self, theta: FloatArray) -> GramKernel:
        """The same with another scale."""
        return replace(self, scale=float(np.exp(theta[0])))

    def __call__(self, X: FloatArray, Y: FloatArray | None = None, eval_gradient: bool = False) -> Any:
        """The scaled matrix; its derivative in log scale is itself."""
        matrix = self.scale * X
        return (matrix, matrix[:, :, None]) if eval_gradient else matrix

    def diag(self, X: FloatArray) -> FloatArray:
        """Variances at the rows of X."""
        return np.full(X.shape[0], self.scale * self.variance)


def gram_kernel(matrix: FloatArray) -> GramKernel:
    """A kernel of a given Gram matrix, after a look at it."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            "with kernel='precomputed' X must be the square Gram matrix of the training inputs, got shape "
            f"{matrix.shape}"
        )
    largest = float(np.abs(matrix).max())
    off = float(np.abs(matrix - matrix.T).max())
    if off > 1e-8 * largest:
        raise ValueError(
            f"the precomputed Gram matrix must be symmetric, it differs from its transpose by up to {off:.3g} of "
            f"{largest:.3g}; symmetrise it as (K + K.T) / 2 if that is what is meant"
        )
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    variance = float(matrix.diagonal().mean())
    if variance <= 0.0 or smallest < -1e-3 * variance:
        raise ValueError(
            f"the precomputed Gram matrix must be positive definite, its smallest eigenvalue is {smallest:.3g} (mean "
            f"of the diagonal {variance:.3g}); add {max(-2 * smallest, 1e-3):.3g} to its diagonal or use a valid kernel"
        )
    return GramKernel(VARIANCE / variance, variance)


def checked(kernel: Any) -> Any:
    """A scikit-learn kernel; anything else is refused."""
    if not isinstance(kernel, Kernel):
        raise TypeError(
            "kernel must be a scikit-learn kernel (sklearn.gaussian_process.kernels), 'precomputed' or None, got "
            f"{kernel!r}"
        )
    return kernel


def length_scales(kernel: Any) -> np.ndarray:
    """Which entries of θ are logarithms of length scales."""
    if not isinstance(kernel, Kernel):
        return np.zeros(kernel.n_dims, dtype=bool)
    names = [p.name for p in kernel.hyperparameters if not p.fixed for _ in range(p.n_elements)]
    return np.array([name.endswith("length_scale") for name in names], dtype=bool)
