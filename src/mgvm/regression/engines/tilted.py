"""Tilted distributions of circular regression: from cavities and grouped observations to moments, in blocks of like
width.

Gaussians in the plane of one angle, as exponential families: T(x) = (x₁, x₂, x₁², x₁x₂, x₂²), natural parameters ξ.

exp(ξ·T) has precision Λ = -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]] and linear term h = (ξ₁, ξ₂). All functions work on batches (N, ·).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics.soft_circle import tilted_moments
from mgvm._validation import FloatArray
from mgvm.regression.noise import Noise, Replicates


def natural_of(mean: FloatArray, covariance: FloatArray) -> FloatArray | None:
    """ξ (N, 5) of means (N, 2) and covariances (N, 2, 2); None where one is not positive definite."""
    a, b, d = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    determinant = a * d - b * b
    if not ((a > 0.0) & (determinant > 0.0) & np.isfinite(determinant)).all():
        return None
    one, cross, two = d / determinant, -b / determinant, a / determinant
    linear = (one * mean[:, 0] + cross * mean[:, 1], cross * mean[:, 0] + two * mean[:, 1])
    return np.stack([*linear, -0.5 * one, -cross, -0.5 * two], axis=1)


def moments_of(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """E[T] (N, 5)."""
    m1, m2 = mean.T
    squares = (covariance[:, 0, 0] + m1 * m1, covariance[:, 0, 1] + m1 * m2, covariance[:, 1, 1] + m2 * m2)
    return np.stack([m1, m2, *squares], axis=1)


def from_moments(moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (N, 2) and covariances (N, 2, 2) of E[T]."""
    m1, m2 = moments[:, 0], moments[:, 1]
    covariance = np.empty((m1.size, 2, 2))
    covariance[:, 0, 0], covariance[:, 1, 1] = moments[:, 2] - m1 * m1, moments[:, 4] - m2 * m2
    covariance[:, 0, 1] = covariance[:, 1, 0] = moments[:, 3] - m1 * m2
    return moments[:, :2], covariance


def covariance_of(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Cov[T] (N, 5, 5), by Isserlis: Cov[x_i x_j, x_k x_l] = V_ik V_jl + V_il V_jk + the means' part."""
    size = mean.shape[0]
    m1, m2 = mean.T
    slope = np.zeros((size, 5, 2))
    slope[:, 0, 0] = slope[:, 1, 1] = 1.0
    slope[:, 2, 0], slope[:, 3, 0], slope[:, 3, 1], slope[:, 4, 1] = 2.0 * m1, m2, m1, 2.0 * m2
    out = slope @ covariance @ np.swapaxes(slope, 1, 2)
    a, b, d = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    quadratic = out[:, 2:, 2:]
    rows = [[2.0 * a * a, 2.0 * a * b, 2.0 * b * b], [2.0 * a * b, a * d + b * b, 2.0 * b * d]]
    quadratic += np.moveaxis(np.array([*rows, [2.0 * b * b, 2.0 * b * d, 2.0 * d * d]]), -1, 0)
    return out


_FEWEST, _MOST = 48, 4096
_MEMORY = 2**24  # numbers in one block of values and features
_KEPT = 2**22  # numbers of likelihoods that are kept for the next cavities


class Tilted(NamedTuple):
    """Of every input: log Z (N,), E[T] (N, 5), Cov[T] (N, 5, 5), E and Cov[T, ·] of the noise's derivatives."""

    log_normalizer: FloatArray
    mean: FloatArray
    covariance: FloatArray
    noise_mean: FloatArray
    noise_cross: FloatArray


@dataclass(frozen=True)
class Observations:
    """Replicates of observed angles under a noise distribution, on the soft circle of width τ (0 the circle, inf the plane)."""

    replicates: Replicates
    noise: Noise
    rho: FloatArray
    spread: float

    @property
    def pull(self) -> float:
        """τ⁻², negative for the circle itself: the kernel's way to tell."""
        return -1.0 if self.spread == 0.0 else self.spread**-2.0

    @property
    def size(self) -> int:
        """The number of inputs N."""
        return int(self.replicates.starts.size)

    def tilted(self, cavity: FloatArray) -> Tilted:
        """Moments of cavity times radial factor times likelihood."""
        width = self.noise.concentration(self.rho) * self.replicates.total
        return self._blocks(cavity, _counts(cavity, width, self.pull), with_likelihood=True)

    def cavities(self, cavity: FloatArray) -> Tilted:
        """Moments of cavity times radial factor, without the likelihood."""
        return self._blocks(cavity, _counts(cavity, np.zeros(self.size), self.pull), with_likelihood=False)

    def _blocks(self, cavity: FloatArray, counts: np.ndarray, *, with_likelihood: bool) -> Tilted:
        """Rows whose grids have the same number of nodes go through the kernel together."""
        extra = self.rho.size if with_likelihood else 0
        out = Tilted(*(np.empty(shape) for shape in _shapes(self.size, extra)))
        for count in np.unique(counts):
            nodes = periodic_grid(count)
            points = np.stack([np.cos(nodes), np.sin(nodes)])
            every = np.flatnonzero(counts == count)
            for which in np.array_split(every, 1 + every.size * int(count) * (1 + extra) // _MEMORY):
                if with_likelihood:
                    values, features = self._likelihood(nodes, which)
                else:
                    values, features = np.zeros((which.size, count)), np.zeros((which.size, count, 0))
                found = tilted_moments(cavity[which], values, features, points, self.pull)
                for target, block in zip(out, found, strict=True):
                    target[which] = block
        return out

    @cached_property
    def _known(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Likelihoods of all inputs by the number of nodes."""
        return {}

    def _likelihood(self, nodes: FloatArray, which: np.ndarray) -> tuple[FloatArray, FloatArray]:
        """Of some inputs; cavities change while the likelihood stays, so that it is kept where it is small."""
        if self.size * nodes.size * (1 + self.rho.size) > _KEPT:
            replicates = self.replicates if which.size == self.size else self.replicates.take(which)
            return self.noise.likelihood(self.rho, replicates, nodes)
        if nodes.size not in self._known:
            self._known[nodes.size] = self.noise.likelihood(self.rho, self.replicates, nodes)
        values, features = self._known[nodes.size]
        return (values, features) if which.size == self.size else (values[which], features[which])


def _shapes(size: int, extra: int) -> tuple[tuple[int, ...], ...]:
    return (size,), (size, 5), (size, 5, 5), (size, extra), (size, 5, extra)


def _counts(cavity: FloatArray, width: FloatArray, pull: float) -> np.ndarray:
    """Nodes that resolve every distribution: 2^k or 3·2^k of them, few blocks.

    The periodic trapezoid rule of n nodes errs by e^{-n²/2κ} for a log density of curvature κ, and by e^{-nδ} where
    it has a singularity δ beside the real line. On the soft circle there is one where a = A + B cos 2(φ - ·) vanishes:
    δ = ½ arcosh(A/B). With the constants below errors are under 1e-12 for aspects of the cavity up to 10⁴.
    """
    uneven = np.hypot(cavity[:, 2] - cavity[:, 4], cavity[:, 3])
    curvature = width + np.hypot(cavity[:, 0], cavity[:, 1]) + 2.0 * uneven
    wanted = 24.0 + 9.0 * np.sqrt(np.where(np.isfinite(curvature), curvature, 0.0))
    if pull >= 0.0:
        ratio = (pull - cavity[:, 2] - cavity[:, 4]) / np.maximum(uneven, 1e-300)
        wanted = np.hypot(wanted, 36.0 / np.arccosh(np.maximum(ratio, 1.0 + 1e-7)) * 2.0)
    power = 2.0 ** np.floor(np.log2(wanted))
    wanted = power * np.where(wanted > 1.5 * power, 2.0, 1.5)
    return np.clip(wanted, _FEWEST, _MOST).astype(np.int64)
