"""The Gaussian prior in the plane: scikit-learn kernels for the cosines and sines of the latent directions.

The covariance of x = [x₁; x₂] is Σ_k B_k ⊗ K_k with 2 x 2 matrices B_k: one kernel for both coordinates (B = 1), a
kernel each, or one kernel with correlated coordinates (B = LLᵀ, learnt). A nugget of 1e-3 of the variance keeps it
regular.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mgvm._validation import FloatArray

NUGGET = 1e-3


class Cross(NamedTuple):
    """Covariances of query points with the inputs: a matrix (M, N) and variances (M,) for every term, and its B."""

    matrices: tuple[FloatArray, ...]
    variances: tuple[FloatArray, ...]
    coupling: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Prior:
    """Kernels with their hyper-parameters; `pair` is "shared", "separate" or "coregionalised"."""

    kernels: tuple[Any, ...]
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
            outer = np.einsum("aibj,ij->ab", blocks, matrices[0])
            slope = (outer + outer.T) @ self._lower()
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
