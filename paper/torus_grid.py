"""Densities of two angles on a square of nodes: integrals that are spectrally accurate, and divergences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paper.experiment import FloatArray


@dataclass(frozen=True)
class TorusGrid:
    """n x n nodes on [-π, π)². The trapezoid sum of a smooth density converges faster than any power of n."""

    n: int

    @cached_property
    def axis(self) -> FloatArray:
        """The nodes of one angle, (n,)."""
        return -np.pi + 2.0 * np.pi * np.arange(self.n) / self.n

    @cached_property
    def points(self) -> FloatArray:
        """All nodes, (n², 2), the first angle slowest."""
        return np.stack(np.meshgrid(self.axis, self.axis, indexing="ij"), axis=-1).reshape(-1, 2)

    def log_integral(self, log_values: FloatArray) -> float:
        """log ∫ e^f over the torus."""
        top = float(log_values.max())
        return top + float(np.log(np.exp(log_values - top).sum())) + 2.0 * float(np.log(2.0 * np.pi / self.n))

    def shares(self, log_density: FloatArray) -> FloatArray:
        """Probabilities of the nodes under a density, normalised or not."""
        weights = np.exp(log_density - log_density.max())
        return weights / weights.sum()


def kl_divergence(p: FloatArray, q: FloatArray) -> float:
    """KL(p ‖ q) = Σ q - p - p log(q/p) of probabilities; no term is negative, so small values keep their digits."""
    kept = p > 0.0
    left_out = float(q[~kept].sum())
    p, q = p[kept], q[kept]
    with np.errstate(divide="ignore", over="ignore"):
        u = np.log(q) - np.log(p)
        near = np.abs(u) < 0.5
        return left_out + float(np.where(near, p * (np.expm1(u) - u), q - p - p * u).sum())
