"""Maximum likelihood of any mGvM: Newton steps with moments and Fisher matrix from persistent Gibbs chains.

Each step runs the chains on at the current law, so that they stay near its equilibrium, and moves by C⁻¹g with g the
gap between the statistics of data and draws and C the draws' covariance. The number of draws doubles from step to step
until chance in g is a tenth of the data's own sampling error and g is no larger than that chance explains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._sweeps import states, sweeps
from mgvm.inference.gibbs_sampling import independent_draws
from mgvm.learning._edge_statistics import EdgeStatistics
from mgvm.learning._likelihood_chain import Metric

_CHAINS = 256
_FIRST_DRAWS = 4  # a chain
_MIRRORS = 4
_THIN = 2
_SETTLING = 4  # rounds after a step, before draws count
_OF_SAMPLING = 0.1  # variance of a fit by chance in the draws, relative to that by chance in the data
_EXPLAINED = 2.0  # squared length of g relative to its expectation under chance
_LONGEST = 1.0  # of a step, in standard deviations of a single row
_RUNAWAY = 1e6  # of a natural parameter
_LARGEST_TABLE = 1 << 25  # numbers a call holds at a time


class Sampled(NamedTuple):
    """Where the steps ended: squared decrements, and what chance in the draws makes of them."""

    beta: FloatArray
    trace: list[float]
    decrement: float
    chance: float
    gradient: FloatArray
    converged: bool
    covariance: FloatArray


class _Drawn(NamedTuple):
    mean: FloatArray
    covariance: FloatArray
    by_chain: FloatArray  # (chains, q), means


def climb(
    edges: EdgeStatistics,
    target: FloatArray,
    beta: FloatArray,
    effective_count: float,
    max_iterations: int,
    rng: np.random.Generator,
    report: Callable[[int, int], object],
) -> Sampled:
    """Newton steps from β on."""
    x = states(independent_draws(edges.law(beta), _CHAINS, rng))
    goal = _OF_SAMPLING * edges.size / effective_count
    draws, trace = _FIRST_DRAWS, []
    for step in range(max_iterations):
        drawn = _draw(edges, beta, x, draws, rng)
        metric = Metric.of(drawn.covariance)
        gradient = target - drawn.mean
        whitened = metric.whiten(gradient)
        length = float(whitened @ whitened)
        chance = float(metric.whiten(drawn.by_chain - drawn.mean).var(axis=0, ddof=1).sum()) / _CHAINS
        trace.append(length)
        report(step + 1, max_iterations)
        if chance <= goal and length <= _EXPLAINED * chance:
            # The last step is worth taking: it averages what these draws know.
            beta = beta + metric.step(whitened)
            return Sampled(beta, trace, np.sqrt(length), np.sqrt(chance), gradient, True, drawn.covariance)
        following = beta + metric.step(whitened) * min(1.0, _LONGEST / np.sqrt(length))
        if not (np.isfinite(following).all() and np.abs(following).max() < _RUNAWAY):
            break  # the maximum, if there is one, is a law that no chain can sample
        beta = following
        if chance > goal and length <= 8.0 * chance:
            draws = min(2 * draws, max(_FIRST_DRAWS, _LARGEST_TABLE // (_CHAINS * edges.size)) * 16)
    return Sampled(beta, trace, np.sqrt(length), np.sqrt(chance), gradient, False, drawn.covariance)


def _draw(edges: EdgeStatistics, beta: FloatArray, x: FloatArray, draws: int, rng: np.random.Generator) -> _Drawn:
    """Statistics of draws of all chains, which are left where they end."""
    law = edges.law(beta)
    kernel = sweeps(law, _CHAINS)
    plan = (_THIN, _MIRRORS, True, bool(law.Q.any()))
    kernel.run(x, (_SETTLING, *plan[1:]), rng, np.empty((1, _CHAINS, law.dimension)))
    by_chain = np.zeros((_CHAINS, edges.size))
    product = np.zeros((edges.size, edges.size))
    centre: FloatArray | None = None
    done, block = 0, max(1, _LARGEST_TABLE // (_CHAINS * edges.size))
    while done < draws:
        count = min(block, draws - done)
        out = np.empty((count, _CHAINS, law.dimension))
        kernel.run(x, plan, rng, out)
        table = edges.of_rows(out.reshape(-1, law.dimension))
        centre = table.mean(axis=0) if centre is None else centre
        table -= centre  # products of small numbers keep their digits
        product += table.T @ table
        by_chain += table.reshape(count, _CHAINS, -1).sum(axis=0)
        done += count
    by_chain /= draws
    shift = by_chain.mean(axis=0)
    covariance = product / (draws * _CHAINS) - np.outer(shift, shift)
    assert centre is not None
    return _Drawn(shift + centre, covariance, by_chain + centre)
