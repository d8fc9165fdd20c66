"""Priors of the latent angles of circular PCA: mixtures of distributions exp(hᵀv - ½vᵀGv), v = (cos φ, sin φ).

The posterior of a row under such a prior is a mixture of as many distributions of the same kind. One component with G =
0 is the independent von Mises prior; many of them are a joint prior of any shape, still with an M-step in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ive

from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.exponential_family import concentration

_LEAST_SHARE = 1e-12
_EMPTY = 1e-7  # share of a kernel's component that is dropped
_NARROWEST = 1e-6  # 1 - R of a component: a milliradian


class Prior(NamedTuple):
    """K components: log weight less log normaliser (K,), h (K, 2D), and G (2D, 2D), the same for all.

    Those of a kernel keep their concentrations in the M-step.
    """

    log_weights: FloatArray
    linear: FloatArray
    coupling: FloatArray
    kernel: bool = False

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
    """A mixture of products of von Mises distributions, η = κ e^{iμ} of shape (K, D)."""
    logs = np.log(np.maximum(weights, _LEAST_SHARE)) - _log_normalizer(eta)
    twice = 2 * eta.shape[1]
    return Prior(logs, np.concatenate([eta.real, eta.imag], axis=1), np.zeros((twice, twice)))


def _log_normalizer(eta: ComplexArray) -> FloatArray:
    kappa = np.abs(eta)
    return np.asarray((np.log(2.0 * np.pi * ive(0, kappa)) + kappa).sum(axis=1))


def of_components(prior: Prior, which: np.ndarray) -> Prior:
    """Some of the components, their weights as they are."""
    return prior._replace(log_weights=prior.log_weights[which], linear=prior.linear[which])


def with_background(prior: Prior, share: float) -> Prior:
    """A uniform distribution besides, as the last component: what takes over where angles are unlike all that were
    learnt.

    The M-step keeps it as it is.
    """
    eta = np.concatenate([prior.resultants, np.zeros((1, prior.size))])
    return von_mises(np.append((1.0 - share) * weights_of(prior), share), eta)._replace(kernel=prior.kernel)


def fitted(shares: FloatArray, sums: ComplexArray, before: Prior | None = None) -> Prior:
    """The M-step: shares (K,) of the rows and Σ share E[e^{iφ}] (K, D); a background is kept, and so is a kernel."""
    if before is not None and len(shares) > 1 and not before.linear[-1].any():
        others = fitted(shares[:-1], sums[:-1], of_components(before, np.arange(len(shares) - 1)))
        return with_background(others, float(weights_of(before)[-1]))
    mean = sums / np.maximum(shares, _LEAST_SHARE)[:, None]
    if before is not None and before.kernel:
        used = shares > _EMPTY * shares.sum()
        eta = np.abs(before.resultants[used]) * np.exp(1j * np.angle(mean[used]))
        return von_mises(shares[used] / shares[used].sum(), eta)._replace(kernel=True)
    spread = np.maximum(1.0 - np.abs(mean), _NARROWEST)
    kappa = np.array([[concentration(float(one)) for one in row] for row in spread])
    return von_mises(shares / shares.sum(), kappa * np.exp(1j * np.angle(mean)))


def log_shares(prior: Prior) -> FloatArray:
    """Logarithms of the weights of the components."""
    return prior.log_weights + _log_normalizer(prior.resultants)


def weights_of(prior: Prior) -> FloatArray:
    """The weights of the components of a mixture of von Mises products."""
    logs = log_shares(prior)
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())
