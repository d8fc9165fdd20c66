"""What circular regression is tuned by, with exact gradients: leave-one-out densities, and EP's evidence.

**Leave-one-out.** L = Σ_n [log ∫ cavity_n · radial · likelihood_n - log ∫ cavity_n · radial]. Its cavities follow from
the sites, which follow from the hyper-parameters through the fixed point R(s, θ) = 0 of `_gp_dense`. With g = dL/d
cavity, q = J⁻¹g and R'ᵀλ = Cq - g, any change dμ of the prior's making and any change of the noise give

    dL = [q - (B - 1)ᵀλ]·dμ + (E_tilted[f] - λᵀ Cov_tilted[T, f]) dρ,   f = d log-likelihood / dρ,

one linear system for all hyper-parameters. **Evidence.** log Z is stationary in the sites, so its gradient is explicit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._gp_dense import DensePropagation, Linearisation, State, each


class Score(NamedTuple):
    """A sum over inputs, its parts, and its gradients in the prior's covariance and in the noise's coefficients."""

    value: float
    parts: FloatArray  # (N,)
    covariance_gradient: FloatArray  # (N, N), or (2N, 2N) where the prior's is
    noise_gradient: FloatArray  # (p,)


def leave_one_out(problem: DensePropagation, state: State) -> Score:
    """The leave-one-out log densities of all inputs."""
    alone = problem.observations.cavities(state.cavity)
    parts = state.tilted.log_normalizer - alone.log_normalizer
    slope = state.tilted.mean - alone.mean
    linear = Linearisation(state)
    own = each(linear.inverse_own, slope)
    adjoint = linear.solve_transposed(linear.response(own) - slope, 1e-7)
    moments = own - each(np.swapaxes(linear.rest, 1, 2), adjoint)
    noise = state.tilted.noise_mean.sum(axis=0) - np.einsum("np,npq->q", adjoint, state.tilted.noise_cross)
    # Moments that do not quite match yet: to first order the fixed point lies at s - R'⁻¹R, where L is less by λ·R.
    value = float(parts.sum()) - float((adjoint * state.residual).sum())
    return Score(value, parts, _covariance_gradient(problem, state, moments), noise)


def evidence(problem: DensePropagation, state: State) -> Score:
    """log Z of expectation propagation on the plane (τ infinite), where the prior needs no normaliser of its own."""
    size = state.mean.shape[0]
    shared = problem.precision.shape[0] == size
    parts = state.tilted.log_normalizer - log_volume(state.cavity + state.sites)
    _, log_prior = np.linalg.slogdet(problem.precision)
    _, log_posterior = np.linalg.slogdet(state.covariance)
    linear = np.concatenate([state.sites[:, 0], state.sites[:, 1]])
    joint = 0.5 * log_posterior + 0.5 * float(linear @ state.mean.T.ravel())
    value = float(parts.sum()) + joint + (1.0 if shared else 0.5) * float(log_prior)
    # ½ tr[(K⁻¹(Σ + mmᵀ)K⁻¹ - K⁻¹) dK] and K⁻¹Σ = 1 - SΣ, so K⁻¹ΣK⁻¹ - K⁻¹ = -S + SΣS: no inverse of K is needed.
    halves = prior_times(state)
    pulled = [half @ linear for half in halves]
    ends = [-site_times(state, half) for half in halves]

    def block(i: int, j: int) -> FloatArray:
        return 0.5 * (ends[i][:, size * j : size * (j + 1)] + np.outer(pulled[i], pulled[j]))

    gradient = block(0, 0) + block(1, 1) if shared else np.block([[block(i, j) for j in (0, 1)] for i in (0, 1)])
    return Score(value, parts, gradient, state.tilted.noise_mean.sum(axis=0))


def log_volume(natural: FloatArray) -> FloatArray:
    """log ∫ exp(ξ·T) of Gaussians in the plane, with precision -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]]."""
    one, cross, two = -2.0 * natural[:, 2], -natural[:, 3], -2.0 * natural[:, 4]
    determinant = one * two - cross**2
    h1, h2 = natural[:, 0], natural[:, 1]
    square = (two * h1 * h1 - 2.0 * cross * h1 * h2 + one * h2 * h2) / determinant
    return np.log(2.0 * np.pi) - 0.5 * np.log(determinant) + 0.5 * square


def prior_times(state: State) -> tuple[FloatArray, FloatArray]:
    """Both halves of K⁻¹Σ = 1 - SΣ, (N, 2N) each; S the precision of the sites."""
    size, sites, covariance = state.mean.shape[0], state.sites, state.covariance
    one, cross, two = (-2.0 * sites[:, 2:3], -sites[:, 3:4], -2.0 * sites[:, 4:5])
    top = -(one * covariance[:size] + cross * covariance[size:])
    bottom = -(cross * covariance[:size] + two * covariance[size:])
    places = np.arange(size)
    top[places, places] += 1.0
    bottom[places, size + places] += 1.0
    return top, bottom


def site_times(state: State, half: FloatArray) -> FloatArray:
    """One half of (1 - SΣ) S, (N, 2N)."""
    size, sites = state.mean.shape[0], state.sites
    one, cross, two = -2.0 * sites[:, 2], -sites[:, 3], -2.0 * sites[:, 4]
    left, right = half[:, :size], half[:, size:]
    return np.concatenate([left * one + right * cross, left * cross + right * two], axis=1)


def _covariance_gradient(problem: DensePropagation, state: State, weights: FloatArray) -> FloatArray:
    """Gradient in K of weights·E[T] of the posterior marginals, from dΣ = GᵀdK G with G = K⁻¹Σ."""
    size, mean = state.mean.shape[0], state.mean
    one, cross, two = weights[:, 2], 0.5 * weights[:, 3], weights[:, 4]
    pull = weights[:, :2] + 2.0 * np.stack(
        [one * mean[:, 0] + cross * mean[:, 1], cross * mean[:, 0] + two * mean[:, 1]], axis=1
    )
    halves = prior_times(state)
    linear = np.concatenate([state.sites[:, 0], state.sites[:, 1]])
    flat = pull.T.ravel()
    left, right = [half @ flat for half in halves], [half @ linear for half in halves]
    scaled = [
        np.concatenate([h[:, :size] * one + h[:, size:] * cross, h[:, :size] * cross + h[:, size:] * two], axis=1)
        for h in halves
    ]

    def block(i: int, j: int) -> FloatArray:
        return np.asarray(scaled[i] @ halves[j].T + np.outer(left[i], right[j]))

    if problem.precision.shape[0] == size:
        gradient = block(0, 0) + block(1, 1)
    else:
        gradient = np.block([[block(0, 0), block(0, 1)], [block(1, 0), block(1, 1)]])
    return np.asarray(0.5 * (gradient + gradient.T))
