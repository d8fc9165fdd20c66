"""Engines of circular PCA's E-step beside quadrature: mean field for many angles, and Gibbs sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import FloatArray
from mgvm.inference import mean_field
from mgvm.models._pca_laws import Found, Law, around_modes, products, waves
from mgvm.torus.mgvm import MGvM


def posterior_law(law: Law) -> tuple[MGvM, float]:
    """The laws as a batch of mGvM, and what their log densities lack: -½vᵀGv has a constant, -¼ tr G."""
    size = law.linear.shape[1] // 2
    shared = MGvM.from_precision(0.0, 0.0, law.coupling)
    batch = MGvM(law.linear[:, :size] + 1j * law.linear[:, size:] + shared.a, shared.b, shared.P, shared.Q)
    return batch, -0.25 * float(np.trace(law.coupling))


@dataclass(frozen=True)
class MeanField:
    """A product of GvM or von Mises factors around the mode; its bound stands for the log normaliser."""

    factors: str

    def __call__(self, law: Law, start: FloatArray) -> Found:
        batch, constant = posterior_law(law)
        mode = around_modes(law, start, 1).mode
        found = mean_field(batch, self.factors, start=np.exp(1j * mode))
        first, second = (np.asarray(found.marginals.moment(k)) for k in (1, 2))
        value = np.asarray(found.free_energy) + constant
        return Found(value, mode, waves(first), products(first, second))


@dataclass(frozen=True)
class Gibbs:
    """Means over so many sweeps from the mode, the first fifth left out; Laplace's log normaliser.

    Every call draws the same numbers: EM then climbs a fixed function, and settles.
    """

    sweeps: int
    seed: int

    def __call__(self, law: Law, start: FloatArray) -> Found:
        rng = np.random.default_rng(self.seed)
        at_mode = around_modes(law, start, 1)
        angles, skipped = at_mode.mode.copy(), self.sweeps // 5
        lower = np.tril_indices(law.linear.shape[1])
        mean, second = np.zeros_like(at_mode.mean), np.zeros_like(at_mode.second)
        for sweep in range(self.sweeps):
            _sweep(law, angles, rng)
            if sweep >= skipped:
                v = waves(np.exp(1j * angles))
                mean += v
                second += v[:, lower[0]] * v[:, lower[1]]
        count = self.sweeps - skipped
        return Found(at_mode.log_normalizer, at_mode.mode, mean / count, second / count)


def _sweep(law: Law, angles: FloatArray, rng: np.random.Generator) -> None:
    """Every angle of every row from its conditional, a GvM of order 2, in place."""
    size, G = angles.shape[1], law.coupling
    for d in range(size):
        v = waves(np.exp(1j * angles))
        v[:, [d, size + d]] = 0.0
        pull = law.linear[:, [d, size + d]] - v @ G[:, [d, size + d]]
        own = -0.25 * (G[d, d] - G[size + d, size + d]) - 0.5j * G[d, size + d]
        eta = np.stack([pull[:, 0] + 1j * pull[:, 1], np.full(len(angles), own)], axis=1)
        angles[:, d] = gvm_sample(eta, 1, rng).reshape(-1)
