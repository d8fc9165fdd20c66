"""Engines of circular PCA's E-step beside quadrature: mean field for many angles, and Gibbs sampling."""

from __future__ import annotations

import numpy as np

from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference import mean_field
from mgvm.models._pca_expectation import Engine, Found, Law, around_modes
from mgvm.torus.mgvm import MGvM


def posterior_law(law: Law) -> tuple[MGvM, float]:
    """The laws as a batch of mGvM, and what their log densities lack: -½vᵀGv has a constant, -¼ tr G."""
    size = law.linear.shape[1] // 2
    shared = MGvM.from_precision(0.0, 0.0, law.coupling)
    batch = MGvM(law.linear[:, :size] + 1j * law.linear[:, size:] + shared.a, shared.b, shared.P, shared.Q)
    return batch, -0.25 * float(np.trace(law.coupling))


def by_mean_field(factors: str) -> Engine:
    """A product of GvM or von Mises factors; its bound stands for the log normaliser."""

    def engine(law: Law, start: FloatArray) -> Found:
        batch, constant = posterior_law(law)
        known = not np.isnan(start).any()
        found = mean_field(batch, factors, start=np.exp(1j * start) if known else None)
        first, second = (np.asarray(found.marginals.moment(k)) for k in (1, 2))
        value = np.asarray(found.free_energy) + constant
        return Found(value, np.angle(first), np.concatenate([first.real, first.imag], axis=1), _products(first, second))

    return engine


def _products(first: ComplexArray, second: ComplexArray) -> FloatArray:
    """Lower triangle of E[vvᵀ] of independent angles from E[z] and E[z²]."""
    size = first.shape[1]
    mean = np.concatenate([first.real, first.imag], axis=1)
    both = mean[:, :, None] * mean[:, None, :]
    own = np.arange(size)
    both[:, own, own], both[:, size + own, size + own] = 0.5 + 0.5 * second.real, 0.5 - 0.5 * second.real
    both[:, own, size + own] = both[:, size + own, own] = 0.5 * second.imag
    lower = np.tril_indices(2 * size)
    return np.ascontiguousarray(both[:, lower[0], lower[1]])


def by_gibbs(sweeps: int, rng: np.random.Generator) -> Engine:
    """Means over so many sweeps from the mode, the first fifth left out; Laplace's log normaliser."""
    laplace = around_modes(1)

    def engine(law: Law, start: FloatArray) -> Found:
        at_mode = laplace(law, start)
        angles, skipped = at_mode.mode.copy(), sweeps // 5
        lower = np.tril_indices(law.linear.shape[1])
        mean, second = np.zeros_like(at_mode.mean), np.zeros_like(at_mode.second)
        for sweep in range(sweeps):
            _sweep(law, angles, rng)
            if sweep >= skipped:
                waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
                mean += waves
                second += waves[:, lower[0]] * waves[:, lower[1]]
        count = sweeps - skipped
        return Found(at_mode.log_normalizer, at_mode.mode, mean / count, second / count)

    return engine


def _sweep(law: Law, angles: FloatArray, rng: np.random.Generator) -> None:
    """Every angle of every row from its conditional, a GvM of order 2, in place."""
    size, G = angles.shape[1], law.coupling
    for d in range(size):
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        waves[:, [d, size + d]] = 0.0
        pull = law.linear[:, [d, size + d]] - waves @ G[:, [d, size + d]]
        own = -0.25 * (G[d, d] - G[size + d, size + d]) - 0.5j * G[d, size + d]
        eta = np.stack([pull[:, 0] + 1j * pull[:, 1], np.full(len(angles), own)], axis=1)
        angles[:, d] = gvm_sample(eta, 1, rng).reshape(-1)
