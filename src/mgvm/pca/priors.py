"""Priors of the latent angles of circular PCA: mixtures of densities exp(hᵀv - ½vᵀGv), v = (cos φ, sin φ).

The posterior of a row under such a prior is a mixture of as many densities of the same kind. One component with G = 0
is the independent von Mises prior; many of them are a joint prior of any shape, still with an M-step in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, ive, logit

from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.exponential_family import concentrations


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
    logs = np.log(np.maximum(weights, 1e-12)) - _log_normalizer(eta)
    twice = 2 * eta.shape[1]
    return Prior(logs, np.concatenate([eta.real, eta.imag], axis=1), np.zeros((twice, twice)))


def _log_normalizer(eta: ComplexArray) -> FloatArray:
    """log Π_d 2π I₀(κ_d) of every component, (K,)."""
    kappa = np.abs(eta)
    return np.asarray((np.log(2.0 * np.pi * ive(0, kappa)) + kappa).sum(axis=1))


def take_components(prior: Prior, which: np.ndarray) -> Prior:
    """Some of the components, their weights as they are."""
    return prior._replace(log_weights=prior.log_weights[which], linear=prior.linear[which])


def with_background(prior: Prior, share: float) -> Prior:
    """A uniform distribution besides, as the last component: what takes over where angles are unlike all that were
    learnt.

    The M-step keeps it as it is.
    """
    eta = np.concatenate([prior.resultants, np.zeros((1, prior.size))])
    return von_mises(np.append((1.0 - share) * weights_of(prior), share), eta)._replace(kernel=prior.kernel)


def fit_prior(shares: FloatArray, sums: ComplexArray, before: Prior) -> Prior:
    """The M-step: shares (K,) of the rows and Σ share E[e^{iφ}] (K, D); a background is kept, and so is a kernel."""
    if has_background(before):
        others = fit_prior(shares[:-1], sums[:-1], take_components(before, np.arange(len(shares) - 1)))
        return with_background(others, float(weights_of(before)[-1]))
    mean = sums / np.maximum(shares, 1e-12)[:, None]
    if before.kernel:
        used = shares > 1e-7 * shares.sum()  # the others are dropped
        eta = np.abs(before.resultants[used]) * np.exp(1j * np.angle(mean[used]))
        return von_mises(shares[used] / shares[used].sum(), eta)._replace(kernel=True)
    spread = np.maximum(1.0 - np.abs(mean), 1e-6)  # a milliradian wide at least
    kappa = concentrations(spread.ravel()).reshape(spread.shape)
    return von_mises(shares / shares.sum(), kappa * np.exp(1j * np.angle(mean)))


def has_background(prior: Prior) -> bool:
    """Whether the last of several components is uniform."""
    return len(prior.linear) > 1 and not prior.linear[-1].any()


def fit_background(log_odds: FloatArray, before: float, *, worth: float = 20.0, tol: float = 1e-6) -> float:
    """The share ε that maximises Σ log((1-ε)p(y) + ε p₀(y)) by EM, from log p₀(y)/p(y) of every row.

    The share before counts as much as `worth` rows; EM ends when the share moves by less than `tol`.
    """
    share = before
    for _ in range(200):
        new = float((expit(log_odds + logit(share)).sum() + worth * before) / (len(log_odds) + worth))
        if abs(new - share) < tol:
            break
        share = new
    return share


def log_shares(prior: Prior) -> FloatArray:
    """Logarithms of the weights of the components."""
    return prior.log_weights + _log_normalizer(prior.resultants)


def weights_of(prior: Prior) -> FloatArray:
    """The weights of the components of a mixture of von Mises products."""
    logs = log_shares(prior)
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())
