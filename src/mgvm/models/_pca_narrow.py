"""The posterior under a joint prior with narrow components, in closed form.

Under a component v = (cos φ, sin φ) has the mean m and the covariance C, from the moments of von Mises laws. Where the
component is narrow v is all but normal, and then so is its posterior under exp(hᵀv - ½vᵀGv):

    log Z = hᵀm - ½mᵀGm + ½(h - Gm)ᵀK(h - Gm) - ½ log|I + CG|,  K = (I + CG)⁻¹C,
    v ~ N(m + K(h - Gm), K).

log Z is a quadratic function of h: for all rows and components it takes two products of matrices, and hundreds of
components cost less than one law by quadrature. A circle bends by 1/2κ over the width κ^-½ of a component, with a
standard deviation of 1/κ√2; where that moves the data by less than their noise, G <= κ², normal is what they see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ive

from mgvm._numerics.mixture_moments import mixture_moments
from mgvm._validation import ComplexArray, FloatArray
from mgvm.models._pca_prior import Prior, log_shares

_LEAST_CONCENTRATION = 20.0


class Narrow(NamedTuple):
    """log Z but for a number of each row (n, K), weights included; posterior means a + Kh, a (K, 2D), K (K, 2D, 2D)."""

    log_weights: FloatArray
    offset: FloatArray
    gain: FloatArray

    def moments(self, linear: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """E[v] and the lower triangle of E[vvᵀ], weighed with shares (n, K), and Σ share E[e^{iφ}] of components."""
        twice = linear.shape[1]
        mean, second = np.zeros((len(linear), twice)), np.zeros((len(linear), twice * (twice + 1) // 2))
        mixture_moments(np.ascontiguousarray(shares), linear, self.offset, self.gain, mean, second)
        sums = shares.sum(axis=0)[:, None] * self.offset + np.einsum("kpq,kq->kp", self.gain, shares.T @ linear)
        return mean, second, sums[:, : twice // 2] + 1j * sums[:, twice // 2 :]

    def modes(self, linear: FloatArray, best: np.ndarray) -> FloatArray:
        """The angles at the mean of one component for every row, (n, D)."""
        size = linear.shape[1] // 2
        mean = self.offset[best] + np.einsum("npq,nq->np", self.gain[best], linear)
        return np.asarray(np.arctan2(mean[:, size:], mean[:, :size]))


def is_narrow(prior: Prior, coupling: FloatArray) -> np.ndarray:
    """Which components are narrow enough to be normal, (K,): those of a kernel were made so."""
    least = np.abs(prior.resultants).min(axis=1)
    if prior.kernel:
        return np.asarray(least > 0.0)
    return np.asarray(least >= max(_LEAST_CONCENTRATION, narrowest_scale(coupling)))


def narrowest_scale(coupling: FloatArray) -> float:
    """The concentration from which on a component is narrow for these data."""
    return float(np.sqrt(max(np.linalg.eigvalsh(coupling)[-1], 0.0)))


def normal_moments(prior: Prior) -> tuple[FloatArray, FloatArray]:
    """m (K, 2D) and C (K, 2D, 2D) of all components."""
    size, eta = prior.size, prior.resultants
    kappa, direction = np.abs(eta), np.exp(1j * np.angle(eta))
    first, second = (ive(k, kappa) / ive(0, kappa) * direction**k for k in (1, 2))
    mean = np.concatenate([first.real, first.imag], axis=1)
    covariance = np.zeros((len(eta), 2 * size, 2 * size))
    d = np.arange(size)
    covariance[:, d, d] = 0.5 + 0.5 * second.real - first.real**2
    covariance[:, size + d, size + d] = 0.5 - 0.5 * second.real - first.imag**2
    covariance[:, d, size + d] = covariance[:, size + d, d] = 0.5 * second.imag - first.real * first.imag
    return mean, covariance


def narrow(linear: FloatArray, coupling: FloatArray, prior: Prior) -> Narrow:
    """Posterior laws of n rows h (n, 2D) that share G under every component."""
    mean, covariance = normal_moments(prior)
    mixed = np.eye(len(coupling)) + covariance @ coupling
    gain = np.linalg.solve(mixed, covariance)
    pulled = mean @ coupling
    slope = mean - np.einsum("kpq,kq->kp", gain, pulled)
    constant = -0.5 * np.einsum("kp,kp->k", pulled, slope) - 0.5 * np.linalg.slogdet(mixed)[1]
    # hᵀKh from the lower triangle of hhᵀ, what is off the diagonal counted twice.
    lower = np.tril_indices(len(coupling))
    squares = linear[:, lower[0]] * linear[:, lower[1]]
    quadratic = gain[:, lower[0], lower[1]] * np.where(lower[0] == lower[1], 0.5, 1.0)
    logs = squares @ quadratic.T + linear @ slope.T + (constant + log_shares(prior))
    return Narrow(logs, np.ascontiguousarray(slope), np.ascontiguousarray(gain))
