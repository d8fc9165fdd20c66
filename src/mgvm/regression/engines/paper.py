"""The paper's model by the paper's engines: the hard circle, with mean field or Gibbs sampling, jointly or one by one.

Hyper-parameters are learnt by dense expectation propagation. The posterior of the training angles is then an mGvM: a
query asked alone is kriged from its mean-field moments or its Gibbs draws. The joint posterior puts the query points
into the mGvM as angles without data. The mGvM is not closed under marginalisation, so the answer then depends on what
else is asked: the query set is part of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference import expectation_propagation, gibbs, mean_field
from mgvm.regression.engines.base import Posterior, Problem
from mgvm.regression.engines.dense import DenseEngine, DenseSolution, invert_covariance
from mgvm.regression.noise import GvMNoise, Replicates
from mgvm.regression.prediction import cells, find_peaks, on_own_nodes, project_gaussians, project_natural
from mgvm.regression.prior import Prior
from mgvm.torus.mgvm import MGvM

DRAWS = 2000  # of every Gibbs chain in a joint prediction; kriging from draws takes a quarter of them


@dataclass(frozen=True, eq=False, kw_only=True)
class PaperPosterior(Posterior):
    """Cavities for leave-one-out, and the natural parameters (N, T) of the likelihoods for the paper's engines."""

    inputs: FloatArray
    cavity: FloatArray
    sites: ComplexArray
    method: str  # "mean_field" or "gibbs"

    def leave_one_out(self) -> GridDensity:
        """The directions of the cavities on the circle."""
        return project_natural(self.cavity, 0.0)

    def predict(self, queries: FloatArray, rng: np.random.Generator | None = None) -> GridDensity:
        """The distribution at each query given the posterior of the training angles.

        x* | x is Gaussian; it is then put on the circle.
        """
        dist = posterior_distribution(self.prior.covariance(self.inputs), self.sites)
        weights, rest = _kriging(self.prior, self.inputs, queries)
        size = len(self.inputs)
        if self.method == "gibbs":
            draws = gibbs(dist, DRAWS // 4, rng=rng).samples.reshape(-1, size)
            return _mean_of_directions(weights, rest, draws)
        factors = mean_field(dist).marginals
        first, second = factors.moment(1), factors.moment(2)
        mean = weights @ np.concatenate([first.real, first.imag])
        one, two = weights[:, :, :size], weights[:, :, size:]
        across = one * (0.5 * second.imag - first.real * first.imag) @ np.swapaxes(two, 1, 2)
        covariance = rest + one * (0.5 * (1.0 + second.real) - first.real**2) @ np.swapaxes(one, 1, 2)
        covariance += two * (0.5 * (1.0 - second.real) - first.imag**2) @ np.swapaxes(two, 1, 2)
        return project_gaussians(mean, covariance + across + np.swapaxes(across, 1, 2), 0.0)


class PaperEngine(DenseEngine):
    """Dense propagation to learn with, mean field or Gibbs sampling on the hard circle to predict with."""

    def __init__(self, problem: Problem, tol: float | None = None, *, method: str):
        if problem.radial_scale != 0.0 or not isinstance(problem.noise, GvMNoise):
            raise ValueError(
                f"inference={method!r} is for the paper's model, got a radial scale of {problem.radial_scale:g} and "
                f"{type(problem.noise).__name__}: use radial_scale='hard' and contaminated=False, or inference='ep'"
            )
        super().__init__(problem, tol)
        self.method = method

    def posterior(self, solution: DenseSolution) -> PaperPosterior:
        """What is kept of a solution."""
        problem = self.problem
        assert isinstance(problem.noise, GvMNoise)  # the constructor has refused any other
        return PaperPosterior(
            prior=solution.prior,
            rho=solution.rho,
            converged=solution.converged,
            mismatch=solution.mismatch,
            inputs=problem.inputs,
            cavity=solution.state.cavity,
            sites=likelihood_parameters(problem.noise, solution.rho, problem.replicates),
            method=self.method,
        )


def likelihood_parameters(noise: GvMNoise, rho: FloatArray, replicates: Replicates) -> ComplexArray:
    """Natural parameters (N, T) of the likelihoods as functions of the latent angles."""
    return replicates.harmonics(noise.order) * noise.eta(rho).conj()


def posterior_distribution(covariance: FloatArray, sites: ComplexArray) -> MGvM:
    """The mGvM of the latent angles: N(0, covariance) on the torus times the sites."""
    size = sites.shape[0]
    prior = MGvM.from_precision(np.zeros(size), np.zeros(size), _full_precision(covariance, size))
    rest = np.zeros((max(sites.shape[1] - 1, prior.b.shape[0]), size), dtype=complex)
    rest[: prior.b.shape[0]] += prior.b
    rest[: sites.shape[1] - 1] += sites[:, 1:].T
    return MGvM(prior.a + sites[:, 0], rest, prior.P, prior.Q)


def predict_jointly(
    prior: Prior,
    inputs: FloatArray,
    queries: FloatArray,
    sites: ComplexArray,
    method: str,
    rng: np.random.Generator | None,
) -> GridDensity:
    """Marginals of the latent angles at the queries in the joint posterior; `method` may also be "ep"."""
    everything = np.concatenate([inputs, queries])
    covariance = prior.covariance(everything)
    padded = np.concatenate([sites, np.zeros((len(queries), sites.shape[1]), dtype=complex)])
    asked = np.arange(len(inputs), len(everything))
    if method == "ep":
        return on_own_nodes(expectation_propagation(covariance, padded).marginals[asked])
    dist = posterior_distribution(covariance, padded)
    if method == "mean_field":
        return on_own_nodes(mean_field(dist).marginals[asked])
    return on_own_nodes(gibbs(dist, DRAWS, rng=rng).marginals[asked])


def _full_precision(covariance: FloatArray, size: int) -> FloatArray:
    """The precision (2N, 2N) of both coordinates, which may share their covariance (N, N)."""
    precision = invert_covariance(covariance)
    return precision if covariance.shape[0] != size else np.asarray(np.kron(np.eye(2), precision), dtype=np.float64)


def _kriging(prior: Prior, inputs: FloatArray, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[x* | x] = A x with A (M, 2, 2N), and the covariance (M, 2, 2) around it."""
    size = len(inputs)
    cross = prior.cross(queries, inputs)
    terms = [np.einsum("ab,mn->mabn", b, matrix) for b, matrix in zip(cross.coupling, cross.matrices, strict=True)]
    full = np.sum(terms, axis=0).reshape(len(queries), 2, 2 * size)
    weights = full @ _full_precision(prior.covariance(inputs), size)
    variance = sum(v[:, None, None] * b for b, v in zip(cross.coupling, cross.variances, strict=True))
    return weights, np.asarray(variance - weights @ np.swapaxes(full, 1, 2))


def _mean_of_directions(weights: FloatArray, rest: FloatArray, draws: FloatArray) -> GridDensity:
    """The mean over posterior draws of the distribution at each query, each draw's put on the circle by itself."""
    vectors = np.concatenate([np.cos(draws), np.sin(draws)], axis=1)
    dists = []
    for a, covariance in zip(weights, rest, strict=True):
        mean = vectors @ a.T
        dist = project_gaussians(mean, np.broadcast_to(covariance, (len(mean), 2, 2)), 0.0)
        nodes = periodic_grid(cells(float((find_peaks(dist).narrowest ** -2.0).max())))
        dists.append(GridDensity(log_sum_exp(dist[:, None].logpdf(nodes), axis=0)))
    nodes = periodic_grid(max(dist.log_values.size for dist in dists))
    return GridDensity(np.stack([dist.logpdf(nodes) for dist in dists]))
