"""Leave-one-out densities of nearest-neighbour propagation, with exact gradients.

L = Σ_n [log ∫ cavity_n · radial · likelihood_n - log ∫ cavity_n · radial] depends on the hyper-parameters through the
fixed point s = G(c(s)) of the sites, c the cavities. One transposed system gives its gradient,

    dL = (g + G'ᵀλ)·dc + (E_tilted[f] + λᵀ J⁻¹ Cov_tilted[T, f]) dρ,   λ = c'ᵀ(g + G'ᵀλ),   G' = J⁻¹ Cov_tilted[T] - 1,

g = dL/dc, f = d log-likelihood/dρ, J = Cov[T] of the matched Gaussian, dc what the kernel's change makes of cavities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mgvm._numerics.neighbour_response import covariance_pull
from mgvm._validation import FloatArray
from mgvm.models._gp_dense import each
from mgvm.models._gp_neighbour_linear import Linearisation
from mgvm.models._gp_neighbour_propagation import NeighbourPropagation
from mgvm.models._gp_neighbour_state import NeighbourState
from mgvm.models._gp_neighbours import Neighbourhood
from mgvm.models._gp_prior import NUGGET

_NEAR = 0.1  # mismatch up to which first order tells


class NeighbourScore(NamedTuple):
    """Leave-one-out log densities (N,), and their slopes (N, 5) in the cavities."""

    parts: FloatArray
    slopes: FloatArray


def leave_one_out(problem: NeighbourPropagation, state: NeighbourState) -> NeighbourScore:
    """The leave-one-out log densities of all inputs."""
    alone = problem.observations.cavities(state.cavity)
    return NeighbourScore(state.tilted.log_normalizer - alone.log_normalizer, state.tilted.mean - alone.mean)


def score_gradient(
    hood: Neighbourhood, kernel: Any, state: NeighbourState, score: NeighbourScore, tolerance: float = 1e-7
) -> tuple[FloatArray, float]:
    """The gradient of the sum of leave-one-out log densities in (θ, ρ), and how much that sum lacks.

    At sites that are not quite the fixed point, λ·(G(c(s)) - s) is what the sum will gain on the way there, to first
    order: with it a rough propagation gives the value to second order.
    """
    adjoint, pulled = Linearisation(state).pull(score.slopes, tolerance)
    own = each(np.swapaxes(state.own_inverse, 1, 2), adjoint)
    noise = state.tilted.noise_mean.sum(axis=0) + np.einsum("np,npq->q", own, state.tilted.noise_cross)
    near = state.errors <= _NEAR
    lack = float((adjoint[near] * state.change[near]).sum())
    return np.concatenate([kernel_gradient(hood, kernel, state, pulled), noise]), lack


def kernel_gradient(hood: Neighbourhood, kernel: Any, state: NeighbourState, pulled: FloatArray) -> FloatArray:
    """The gradient in the kernel's logarithms θ of a function whose gradient in the cavities is `pulled`."""
    neighbours, used, shared, local = state.places
    out, diagonal, trace = np.zeros(kernel.n_dims), np.zeros(kernel.n_dims), 0.0
    for block in hood.blocks:
        part = block.targets
        places = (neighbours[part], used[part], shared[part], local[part])
        count = block.points.size
        gradient = covariance_pull(state.sites, state.cavity[part], places, pulled[part], block.members, count)
        slopes = kernel(hood.inputs[block.points], eval_gradient=True)[1]
        out += np.tensordot(gradient, slopes, axes=2)
        trace += float(np.trace(gradient))
        own = block.members[:, 0]
        diagonal += slopes[own, own].sum(axis=0)
    # The nugget follows the mean variance of the inputs.
    return np.asarray(out + NUGGET * trace * diagonal / len(hood.inputs))
