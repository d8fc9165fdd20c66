"""Exact maximum likelihood where the free edges form a forest: moments by messages, steps in the data's metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.inference.chains import exact_chain
from mgvm.learning._edge_statistics import EdgeStatistics

_FLOOR = 1e-8  # least variance of a direction, relative to that of the statistics
_POLISH = 40


class Metric(NamedTuple):
    """A covariance C of the statistics as LLᵀ with its inverse root: whitened gradients are L⁻¹g, steps L⁻ᵀ of them."""

    inverse: FloatArray  # (q, q), L⁻¹

    @classmethod
    def of(cls, covariance: FloatArray) -> Metric:
        """From a covariance, held away from singular."""
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        values, axes = np.linalg.eigh(covariance / scale[:, None] / scale)
        root = np.sqrt(np.maximum(values, _FLOOR))
        return cls((axes / root).T / scale)

    def whiten(self, gradient: FloatArray) -> FloatArray:
        """L⁻¹g, whose length is the Newton decrement where C is the Fisher matrix."""
        return gradient @ self.inverse.T

    def step(self, whitened: FloatArray) -> FloatArray:
        """L⁻ᵀ of a whitened vector."""
        return whitened @ self.inverse


class Climbed(NamedTuple):
    """Where the ascent ended; `decrement` is the length of the whitened gradient."""

    beta: FloatArray
    trace: list[float]
    decrement: float
    gradient: FloatArray
    converged: bool


def weighted_covariance(statistics: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of rows."""
    share = weights / weights.sum()
    mean = share @ statistics
    centred = statistics - mean
    return mean, (centred * share[:, None]).T @ centred


def moments(edges: EdgeStatistics, law: Natural) -> tuple[float, FloatArray]:
    """log Z and E[S], exact."""
    result = exact_chain(law)
    order = edges.model.order
    powers = np.stack([result.marginals.moment(t) for t in range(1, order + 1)])[:, None]
    found = result.pair_moments
    size = edges.model.dimension
    # Edges whose coupling is exactly zero are no edges to the engine: their angles are independent across it only if no
    # other path joins them, and in a forest none does.
    difference = powers[0, 0, edges.first] * powers[0, 0, edges.second].conj()
    total = powers[0, 0, edges.first] * powers[0, 0, edges.second]
    places = {int(i) * size + int(j): e for e, (i, j) in enumerate(zip(edges.first, edges.second, strict=True))}
    where = [places[int(i) * size + int(j)] for i, j in zip(found.first, found.second, strict=True)]
    difference[where], total[where] = found.difference, found.sum
    return float(result.log_normalizer), edges.combined(powers, difference[None], total[None])[0]


def climb(
    edges: EdgeStatistics,
    target: FloatArray,
    metric: Metric,
    beta: FloatArray,
    limits: tuple[float, int],
    report: Callable[[int, int], object],
) -> Climbed:
    """Quasi-Newton steps in whitened coordinates, then plain steps in the metric, until the decrement is small."""
    tolerance, max_iterations = limits
    trace: list[float] = []

    def negative(u: FloatArray) -> tuple[float, FloatArray]:
        here = beta + metric.step(u)
        log_normalizer, mean = moments(edges, edges.law(here))
        return log_normalizer - float(here @ target), -metric.whiten(target - mean)

    def watch(intermediate_result: object) -> None:
        trace.append(-float(intermediate_result.fun))  # type: ignore[attr-defined]
        report(len(trace), max_iterations)

    found = minimize(
        negative,
        np.zeros(beta.size),
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": max_iterations, "maxcor": 20, "ftol": 1e-15, "gtol": tolerance},
    )
    beta = beta + metric.step(found.x)
    return _polished(edges, target, metric, beta, tolerance, trace)


def _polished(
    edges: EdgeStatistics,
    target: FloatArray,
    metric: Metric,
    beta: FloatArray,
    tolerance: float,
    trace: list[float],
) -> Climbed:
    """Near the maximum differences of the objective are rounding; the gradient is not, and steps C⁻¹g contract."""
    best: tuple[float, FloatArray, FloatArray] | None = None
    for _ in range(_POLISH):
        log_normalizer, mean = moments(edges, edges.law(beta))
        gradient = target - mean
        whitened = metric.whiten(gradient)
        size = float(np.sqrt(whitened @ whitened))
        if best is not None and size > 0.95 * best[0]:
            break
        best = (size, beta, gradient)
        height = float(beta @ target) - log_normalizer
        if size <= tolerance:
            break
        beta = beta + metric.step(whitened)
    assert best is not None
    return Climbed(best[1], [*trace, height], best[0], best[2], best[0] <= tolerance)
