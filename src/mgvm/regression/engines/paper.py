"""The paper's model by the paper's engines: the hard circle, with mean field, Gibbs sampling or EP, jointly or one by
one.

The joint posterior puts the query points into the mGvM as angles without data. The mGvM is not closed under
marginalisation, so the answer then depends on what else is asked: the query set is part of the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference import expectation_propagation, gibbs, mean_field
from mgvm.regression.engines.dense import inverse
from mgvm.regression.noise import GvMNoise, Replicates
from mgvm.regression.prediction import cells, directions
from mgvm.regression.prior import Prior
from mgvm.torus.mgvm import MGvM

DRAWS = 2000


def sites_of(noise: GvMNoise, rho: FloatArray, replicates: Replicates) -> ComplexArray:
    """Natural parameters (N, T) of the likelihoods as functions of the latent angles."""
    return replicates.harmonics(noise.order) * noise.eta(rho).conj()


def posterior_distribution(covariance: FloatArray, sites: ComplexArray) -> MGvM:
    """The mGvM of the latent angles: N(0, covariance) on the torus times the sites."""
    size = sites.shape[0]
    precision = inverse(covariance)
    full = np.kron(np.eye(2), precision) if covariance.shape[0] == size else precision
    prior = MGvM.from_precision(np.zeros(size), np.zeros(size), full)
    rest = np.zeros((max(sites.shape[1] - 1, prior.b.shape[0]), size), dtype=complex)
    rest[: prior.b.shape[0]] += prior.b
    rest[: sites.shape[1] - 1] += sites[:, 1:].T
    return MGvM(prior.a + sites[:, 0], rest, prior.P, prior.Q)


def joint_latent(prior: Prior, inputs: Any, queries: Any, sites: ComplexArray, engine: str, seed: Any) -> GridDensity:
    """Marginals of the latent angles at the queries in the joint posterior."""
    everything = np.concatenate([inputs, queries])
    covariance = prior.covariance(everything)
    padded = np.concatenate([sites, np.zeros((len(queries), sites.shape[1]), dtype=complex)])
    asked = np.arange(len(inputs), len(everything))
    if engine == "ep":
        return _on_grid(expectation_propagation(covariance, padded).marginals[asked])
    dist = posterior_distribution(covariance, padded)
    if engine == "mean_field":
        return _on_grid(mean_field(dist).marginals[asked])
    return _on_grid(gibbs(dist, DRAWS, rng=seed).marginals[asked])


def pointwise_latent(
    prior: Prior, inputs: Any, queries: Any, sites: ComplexArray, engine: str, seed: Any
) -> GridDensity:
    """The distribution at each query given the posterior of the training angles: x* | x is Gaussian, then put on the circle."""
    dist = posterior_distribution(prior.covariance(inputs), sites)
    weights, rest = _kriging(prior, inputs, queries)
    size = len(inputs)
    if engine == "mean_field":
        factors = mean_field(dist).marginals
        first, second = factors.moment(1), factors.moment(2)
        mean = weights @ np.concatenate([first.real, first.imag])
        one, two = weights[:, :, :size], weights[:, :, size:]
        across = one * (0.5 * second.imag - first.real * first.imag) @ np.swapaxes(two, 1, 2)
        covariance = rest + one * (0.5 * (1.0 + second.real) - first.real**2) @ np.swapaxes(one, 1, 2)
        covariance += two * (0.5 * (1.0 - second.real) - first.imag**2) @ np.swapaxes(two, 1, 2)
        return directions(mean, covariance + across + np.swapaxes(across, 1, 2), 0.0)
    draws = gibbs(dist, DRAWS // 4, rng=seed).samples.reshape(-1, size)
    return _mean_of_directions(weights, rest, draws)


def _kriging(prior: Prior, inputs: Any, queries: Any) -> tuple[FloatArray, FloatArray]:
    """E[x* | x] = A x with A (M, 2, 2N), and the covariance (M, 2, 2) around it."""
    size = len(inputs)
    cross = prior.cross(queries, inputs)
    terms = [np.einsum("ab,mn->mabn", b, matrix) for b, matrix in zip(cross.coupling, cross.matrices, strict=True)]
    full = np.sum(terms, axis=0).reshape(len(queries), 2, 2 * size)
    covariance = prior.covariance(inputs)
    precision = inverse(covariance)
    if covariance.shape[0] == size:
        precision = np.asarray(np.kron(np.eye(2), precision), dtype=np.float64)
    weights = full @ precision
    variance = sum(v[:, None, None] * b for b, v in zip(cross.coupling, cross.variances, strict=True))
    return weights, np.asarray(variance - weights @ np.swapaxes(full, 1, 2))


def _mean_of_directions(weights: FloatArray, rest: FloatArray, draws: FloatArray) -> GridDensity:
    """The mean over posterior draws of the distribution at each query, each draw's put on the circle by itself."""
    vectors = np.concatenate([np.cos(draws), np.sin(draws)], axis=1)
    dists = []
    for a, covariance in zip(weights, rest, strict=True):
        mean = vectors @ a.T
        dist = directions(mean, np.broadcast_to(covariance, (len(mean), 2, 2)), 0.0)
        dists.append(np.maximum(np.exp(dist.log_values).mean(axis=0), 1e-300))
    count = max(len(values) for values in dists)
    nodes = periodic_grid(count)
    return GridDensity(
        np.stack([np.log(v) if len(v) == count else GridDensity(np.log(v)).logpdf(nodes) for v in dists])
    )


def _on_grid(dist: Any) -> GridDensity:
    """Any batch of circle distributions as values on a grid."""
    if isinstance(dist, GridDensity):
        return dist
    widest = 1.0 / float(np.min(np.maximum(dist.circular_variance(), 1e-9)))
    count = cells(min(widest, 1e6))
    nodes = periodic_grid(count)
    return GridDensity(dist[..., None].logpdf(nodes))
