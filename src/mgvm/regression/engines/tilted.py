"""Tilted distributions of circular regression: Gaussian cavity, soft or hard circle, noise of any order.

Replicates at an input make one likelihood of its direction. Moments are by the periodic trapezoid rule, on as many
nodes as each distribution needs; inputs with equally many nodes go through the compiled function together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics.soft_circle import tilted_moments
from mgvm._validation import FloatArray
from mgvm.regression.noise import Noise, Replicates, bounded_likelihood
from mgvm.regression.prediction import radial_precision


class Tilted(NamedTuple):
    """Of every input: log Z (N,), E[T] (N, 5), Cov[T] (N, 5, 5), E and Cov[T, ·] of the noise's derivatives."""

    log_normalizer: FloatArray
    mean: FloatArray
    covariance: FloatArray
    noise_mean: FloatArray
    noise_cross: FloatArray


@dataclass(frozen=True)
class Observations:
    """Replicates under a noise distribution, on the soft circle of radial scale τ (0 the circle, inf the plane).

    Likelihoods are no sharper than what the finest grid resolves, to 1e-9: a direction is known to 0.0016 radians at
    best. The noise itself is twice as wide at least, and the digits of a cavity beside so sharp a site
    are half gone.
    """

    replicates: Replicates
    noise: Noise
    rho: FloatArray
    radial_scale: float
    sharpest: float = 4e5  # curvature of a likelihood

    @property
    def size(self) -> int:
        """The number of inputs N."""
        return int(self.replicates.starts.size)

    def tilted(self, cavity: FloatArray) -> Tilted:
        """Moments of cavity times radial factor times likelihood."""
        width = np.minimum(self.noise.concentration(self.rho) * self.replicates.total, self.sharpest)
        return self._blocks(cavity, _node_counts(cavity, width, self.radial_scale), with_likelihood=True)

    def cavities(self, cavity: FloatArray) -> Tilted:
        """Moments of cavity times radial factor, without the likelihood."""
        return self._blocks(cavity, _node_counts(cavity, np.zeros(self.size), self.radial_scale), with_likelihood=False)

    def _blocks(self, cavity: FloatArray, counts: np.ndarray, *, with_likelihood: bool) -> Tilted:
        """Rows whose grids have the same number of nodes together, 2²⁴ numbers (128 MB) at once."""
        extra = self.rho.size if with_likelihood else 0
        out = Tilted(*(np.empty((self.size, *shape)) for shape in ((), (5,), (5, 5), (extra,), (5, extra))))
        for count in np.unique(counts):
            nodes = periodic_grid(int(count))
            points = np.stack([np.cos(nodes), np.sin(nodes)])
            every = np.flatnonzero(counts == count)
            for which in np.array_split(every, 1 + every.size * int(count) * (1 + extra) // 2**24):
                if with_likelihood:
                    values, features = self._likelihood(nodes, which)
                else:
                    values, features = np.zeros((which.size, count)), np.zeros((which.size, count, 0))
                found = tilted_moments(cavity[which], values, features, points, radial_precision(self.radial_scale))
                for target, block in zip(out, found, strict=True):
                    target[which] = block
        return out

    @cached_property
    def _known(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Likelihoods of all inputs by the number of nodes."""
        return {}

    def _likelihood(self, nodes: FloatArray, which: np.ndarray) -> tuple[FloatArray, FloatArray]:
        """Of some inputs; cavities change while the likelihood stays, so that it is kept where it is below 32 MB."""
        if self.size * nodes.size * (1 + self.rho.size) > 2**22:
            replicates = self.replicates if which.size == self.size else self.replicates.take(which)
            return bounded_likelihood(self.noise, self.rho, replicates, nodes, self.sharpest)
        if nodes.size not in self._known:
            found = bounded_likelihood(self.noise, self.rho, self.replicates, nodes, self.sharpest)
            self._known[nodes.size] = found
        values, features = self._known[nodes.size]
        return (values, features) if which.size == self.size else (values[which], features[which])


def _node_counts(cavity: FloatArray, width: FloatArray, radial_scale: float) -> np.ndarray:
    """Nodes that resolve every distribution: 2^k or 3·2^k of them, from 48 to 4096, for few blocks.

    The periodic trapezoid rule of n nodes errs by e^{-n²/2κ} for a log density of curvature κ, and by e^{-nδ} where
    it has a singularity δ beside the real line. On the soft circle there is one where a = A + B cos 2(φ - ·) vanishes:
    δ = ½ arcosh(A/B). With the constants below errors are under 1e-12 for aspects of the cavity up to 10⁴.
    """
    uneven = np.hypot(cavity[:, 2] - cavity[:, 4], cavity[:, 3])
    curvature = width + np.hypot(cavity[:, 0], cavity[:, 1]) + 2.0 * uneven
    wanted = 24.0 + 9.0 * np.sqrt(np.where(np.isfinite(curvature), curvature, 0.0))
    if radial_scale > 0.0:
        ratio = (radial_scale**-2.0 - cavity[:, 2] - cavity[:, 4]) / np.maximum(uneven, 1e-300)
        wanted = np.hypot(wanted, 36.0 / np.arccosh(np.maximum(ratio, 1.0 + 1e-7)) * 2.0)
    power = 2.0 ** np.floor(np.log2(wanted))
    wanted = power * np.where(wanted > 1.5 * power, 2.0, 1.5)
    return np.clip(wanted, 48, 4096).astype(np.int64)
