"""The Gaussian prior in the plane: scikit-learn kernels for the cosines and sines of the latent directions.

The covariance of x = [x₁; x₂] is Σ_k B_k ⊗ K_k with 2 x 2 matrices B_k: one kernel for both coordinates (B = 1), a
kernel each, or one kernel with correlated coordinates (B = LLᵀ, learnt). A nugget of 1e-3 of the variance keeps it
regular. Below are the kernels that are tried when none is given, Gram matrices computed elsewhere, what a kernel is on
a line, where some have engines of their own, and warnings of length scales that are far off, before a search is lost in
them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from mgvm._validation import FloatArray

NUGGET = 1e-3  # of the mean variance: added to the diagonal of every kernel matrix


class Cross(NamedTuple):
    """Covariances of query points with the inputs: a matrix (M, N) and variances (M,) for every term, and its B."""

    matrices: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    coupling: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Prior:
    """Kernels with their hyper-parameters; `pair` is "shared", "separate" or "coregionalised"."""

    kernels: tuple[Kernel, ...]
    pair: str = "shared"
    mixing: tuple[float, float] = (0.0, 0.0)  # log L₂₂/L₁₁ and L₂₁ of the coregionalised pair, L₁₁ = 1

    @cached_property
    def theta(self) -> FloatArray:
        """All free hyper-parameters, the kernels' as logarithms."""
        parts = [kernel.theta for kernel in self.kernels]
        return np.concatenate([*parts, self.mixing if self.pair == "coregionalised" else ()])

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper bounds (p, 2)."""
        parts = [np.reshape(kernel.bounds, (-1, 2)) for kernel in self.kernels]
        last = [(-4.0, 4.0)] * 2 if self.pair == "coregionalised" else np.zeros((0, 2))
        return np.concatenate([*parts, np.reshape(last, (-1, 2))])

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        """Hyper-parameters of each kernel. (Kernels look through all their attributes to tell: a millisecond.)"""
        return tuple(int(kernel.n_dims) for kernel in self.kernels)

    def at(self, theta: FloatArray) -> Prior:
        """The same with other hyper-parameters."""
        kernels, used = [], 0
        for kernel, count in zip(self.kernels, self._counts, strict=True):
            kernels.append(kernel.clone_with_theta(theta[used : used + count]))
            used += count
        mixing = (float(theta[used]), float(theta[used + 1])) if self.pair == "coregionalised" else self.mixing
        return replace(self, kernels=tuple(kernels), mixing=mixing)

    def coupling(self) -> tuple[FloatArray, ...]:
        """B_k."""
        if self.pair == "separate":
            return np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
        if self.pair == "coregionalised":
            lower = self._lower()
            return (lower @ lower.T,)
        return (np.eye(2),)

    def _lower(self) -> FloatArray:
        return np.array([[1.0, 0.0], [self.mixing[1], np.exp(self.mixing[0])]])

    def covariance(self, X: Any) -> FloatArray:
        """(N, N) for a shared kernel, else (2N, 2N)."""
        return self._assemble([kernel(X) for kernel in self.kernels])

    def _assemble(self, matrices: list[FloatArray]) -> FloatArray:
        if self.pair == "shared":
            return _with_nugget(matrices[0])
        total = sum(np.kron(b, matrix) for b, matrix in zip(self.coupling(), matrices, strict=True))
        return _with_nugget(np.asarray(total))

    def with_gradient(self, X: Any) -> tuple[FloatArray, Any]:
        """The covariance, and a function from a gradient in it to one in θ."""
        found = [kernel(X, eval_gradient=True) for kernel in self.kernels]
        matrices = [matrix for matrix, _ in found]

        def pull_back(gradient: FloatArray) -> FloatArray:
            # The nugget follows the mean of the diagonal: its gradient joins that of the diagonal.
            size = gradient.shape[0]
            full = gradient + NUGGET * np.trace(gradient) / size * np.eye(size)
            return self._pull_back(full, matrices, [slopes for _, slopes in found])

        return self._assemble(matrices), pull_back

    def _pull_back(self, full: FloatArray, matrices: list[FloatArray], slopes: list[FloatArray]) -> FloatArray:
        size = matrices[0].shape[0]
        if self.pair == "shared":
            return np.asarray(np.tensordot(full, slopes[0], axes=2))
        blocks = full.reshape(2, size, 2, size)
        out = [
            np.tensordot(np.einsum("ab,aibj->ij", b, blocks), slope, axes=2)
            for b, slope in zip(self.coupling(), slopes, strict=True)
        ]
        if self.pair == "coregionalised":
            paired = np.einsum("aibj,ij->ab", blocks, matrices[0])
            slope = (paired + paired.T) @ self._lower()
            out.append(np.array([slope[1, 1] * np.exp(self.mixing[0]), slope[1, 0]]))
        return np.concatenate(out)

    def cross(self, queries: Any, inputs: Any) -> Cross:
        """Covariances of query points with the inputs, nugget included in the variances."""
        matrices = tuple(np.asarray(kernel(queries, inputs)) for kernel in self.kernels)
        variances = tuple((1.0 + NUGGET) * kernel.diag(queries) for kernel in self.kernels)
        return Cross(matrices, variances, self.coupling())


def _with_nugget(matrix: FloatArray) -> FloatArray:
    out = np.array(matrix, dtype=float)
    np.fill_diagonal(out, out.diagonal() + NUGGET * out.diagonal().mean())
    return out


# ---- kernels --------------------------------------------------------------------------------------------------------

VARIANCE, OFFSET = 0.5, 0.1  # of the planar vector: about those of unit vectors


def default_kernels(inputs: FloatArray) -> list[Kernel]:
    """Matérn-1/2 and Matérn-3/2 plus a constant, which is the direction that all inputs share.

    Between them lie 0.3 to 0.6 nats on smooth fields.
    """
    length, shortest, longest = distances(inputs)
    bounds = (0.1 * shortest, 100.0 * longest)
    return [
        ConstantKernel(VARIANCE, (1e-3, 1e3)) * Matern(length, bounds, nu=nu) + ConstantKernel(OFFSET, (1e-4, 1e3))
        for nu in (0.5, 1.5)
    ]


def distances(inputs: FloatArray) -> tuple[float, float, float]:
    """A length scale to begin with, the median distance of nearest neighbours, and the largest extent.

    The first is half the median distance, but twice that of nearest neighbours at least: in many dimensions all are
    about as far apart, and shorter lengths would let no input tell of another.
    """
    if inputs.shape[0] < 2:
        return 1.0, 1.0, 1.0
    step = -(-inputs.shape[0] // 500)
    apart = pdist(inputs[::step]) if inputs.shape[0] > step else pdist(inputs)
    nearest, _ = cKDTree(inputs).query(inputs[::step], k=2)
    half = 0.5 * float(np.median(apart)) or 1.0
    near = float(np.median(nearest[:, 1])) or half
    return max(half, 2.0 * near), min(near, half), max(float(apart.max()), half)


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


def check_kernel(kernel: Any) -> Kernel:
    """A scikit-learn kernel; anything else is refused."""
    if not isinstance(kernel, Kernel):
        raise TypeError(
            "kernel must be a scikit-learn kernel (sklearn.gaussian_process.kernels), a list of them, 'precomputed' "
            f"or None, got {kernel!r}"
        )
    return kernel


def length_scales(kernel: Kernel) -> np.ndarray:
    """Which entries of θ are logarithms of length scales."""
    if not isinstance(kernel, Kernel):
        return np.zeros(kernel.n_dims, dtype=bool)
    names = [p.name for p in kernel.hyperparameters if not p.fixed for _ in range(p.n_elements)]
    return np.array([name.endswith("length_scale") for name in names], dtype=bool)


# ---- kernels on a line ----------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """A Matérn kernel on a line; a constant is one of infinite length."""

    variance: float
    length: float
    smoothness: float  # ν


def line_terms(kernel: Kernel) -> list[Term] | None:
    """The terms of a sum of constants and Matérn kernels; None of any other kernel."""
    if isinstance(kernel, ConstantKernel):
        return [Term(float(kernel.constant_value), math.inf, 0.5)]
    if isinstance(kernel, Matern) and kernel.nu in (0.5, 1.5, 2.5) and np.size(kernel.length_scale) == 1:
        return [Term(1.0, float(np.ravel(kernel.length_scale)[0]), float(kernel.nu))]
    if not isinstance(kernel, (Sum, Product)):
        return None
    one, two = line_terms(kernel.k1), line_terms(kernel.k2)
    if one is None or two is None:
        return None
    if isinstance(kernel, Sum):
        return one + two
    if not (len(one) == 1 and math.isinf(one[0].length)):
        one, two = two, one
    if not (len(one) == 1 and math.isinf(one[0].length)):
        return None
    return [term._replace(variance=one[0].variance * term.variance) for term in two]


def exponential_scales(kernel: Kernel) -> tuple[float, float] | None:
    """Variance and length of a kernel s² exp(-|t - t'|/ℓ) on a line; None of any other."""
    terms = line_terms(kernel)
    if terms is None or len(terms) > 1 or terms[0].smoothness != 0.5 or math.isinf(terms[0].length):
        return None
    return terms[0].variance, terms[0].length


# ---- warnings -------------------------------------------------------------------------------------------------------


def one_scale_for_all(kernel: Kernel) -> bool:
    """Whether a length scale is shared by all columns."""
    if not isinstance(kernel, Kernel):
        return kernel is None
    return any(np.size(leaf.length_scale) == 1 for leaf in _with_length(kernel))


def warn_of_length_scales(kernel: Kernel, inputs: FloatArray, level: int = 4) -> None:
    """Warn of length scales that make all inputs strangers or all the same, and of kernels that do not see inputs."""
    if not isinstance(kernel, Kernel):
        return
    if all(isinstance(leaf, (WhiteKernel, ConstantKernel)) for leaf in find_leaves(kernel)):
        warnings.warn(
            f"kernel {kernel} does not depend on the inputs, so that all predictions are alike; multiply by a kernel "
            "with a length scale, as in ConstantKernel() * Matern(), or leave kernel=None",
            stacklevel=level,
        )
    extent = float(np.linalg.norm(np.ptp(inputs, axis=0)))
    if not extent > 0.0:
        return
    some = inputs[:: -(-len(inputs) // 2000)]
    near = float(np.median(cKDTree(inputs).query(some, k=2)[0][:, 1]))
    for leaf in _with_length(kernel):
        # With a length scale a column, only a column's own extent tells; the smallest serves for all.
        length = float(np.min(leaf.length_scale)), float(np.max(leaf.length_scale))
        if np.size(leaf.length_scale) == 1 and length[1] < 0.01 * near:
            what, why = "far below", f"the distances of neighbours ({near:.3g}): no input tells of another"
        elif length[0] > 1e3 * extent:
            what, why = "far above", f"the extent of the inputs ({extent:.3g}): they are all but the same"
        else:
            continue
        warnings.warn(
            f"the length scale of {leaf} is {what} {why}; start it between {near:.3g} and {extent:.3g}, leave "
            "kernel=None, or scale the inputs (sklearn.preprocessing.StandardScaler in a Pipeline)",
            stacklevel=level,
        )


def _with_length(kernel: Kernel) -> Iterator[Kernel]:
    """Stationary parts; the length scale of a periodic kernel is in units of its own."""
    return (leaf for leaf in find_leaves(kernel) if isinstance(leaf, (RBF, RationalQuadratic)))


def find_leaves(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels that a kernel is composed of."""
    parts = [value for value in kernel.get_params(deep=False).values() if isinstance(value, Kernel)]
    if not parts:
        yield kernel
    for part in parts:
        yield from find_leaves(part)
