"""Priors of the latent angles of circular PCA: mixtures of laws exp(hᵀv - ½vᵀGv), v = (cos φ, sin φ).

The posterior of a row under such a prior is a mixture of as many laws of the same kind. One component with G = 0 is the
independent von Mises prior; many of them are a joint prior of any shape, still with an M-step in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ive

from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle._concentration import concentration

_LEAST_SHARE = 1e-12
_NARROWEST = 1e-6  # 1 - R of a component: a milliradian


class Prior(NamedTuple):
    """K components: log weight less log normaliser (K,), h (K, 2D), and G (2D, 2D), the same for all."""

    log_weights: FloatArray
    linear: FloatArray
    coupling: FloatArray

    @property
    def size(self) -> int:
        """D."""
        return self.linear.shape[1] // 2

    @property
    def resultants(self) -> ComplexArray:
        """κ e^{iμ} of all components and angles, (K, D)."""
        return np.asarray(self.linear[:, : self.size] + 1j * self.linear[:, self.size :])


def uniform(size: int) -> Prior:
    """Nothing is known of the angles."""
    return von_mises(np.ones(1), np.zeros((1, size), dtype=complex))


def von_mises(weights: FloatArray, eta: ComplexArray) -> Prior:
    """A mixture of products of von Mises laws, η = κ e^{iμ} of shape (K, D)."""
    kappa = np.abs(eta)
    log_normalizer = (np.log(2.0 * np.pi * ive(0, kappa)) + kappa).sum(axis=1)
    logs = np.log(np.maximum(weights, _LEAST_SHARE)) - log_normalizer
    twice = 2 * eta.shape[1]
    return Prior(logs, np.concatenate([eta.real, eta.imag], axis=1), np.zeros((twice, twice)))


def fitted(shares: FloatArray, sums: ComplexArray) -> Prior:
    """The M-step: shares (K,) of the rows and Σ share E[e^{iφ}] (K, D)."""
    mean = sums / np.maximum(shares, _LEAST_SHARE)[:, None]
    spread = np.maximum(1.0 - np.abs(mean), _NARROWEST)
    kappa = np.array([[concentration(float(one)) for one in row] for row in spread])
    return von_mises(shares / shares.sum(), kappa * np.exp(1j * np.angle(mean)))


def weights_of(prior: Prior) -> FloatArray:
    """The weights of the components of a mixture of von Mises products."""
    kappa = np.abs(prior.resultants)
    logs = prior.log_weights + (np.log(2.0 * np.pi * ive(0, kappa)) + kappa).sum(axis=1)
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())
