"""Simulation-based calibration of the samplers (Talts et al. 2018).

Draw angles from a prior, noisy directions of them, and angles from the posterior, which is an mGvM again: the rank of
the true angle among those drawn is uniform exactly if prior, posterior and sampler fit together.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive import torus
from scipy import stats

from mgvm import MGvM, VonMises
from mgvm.inference import ConvergenceWarning, exact_chain, exact_grid, gibbs

RANKS = 9  # posterior draws a simulation: ranks 0..9
SIMULATIONS = 600


def by_gibbs(dist, rng):
    # One draw of each of many chains: independent, as ranks need them.
    return gibbs(dist, 1, RANKS, burn_in=60, rng=rng).samples[:, 0]


SAMPLERS = {
    "gibbs": by_gibbs,
    "exact_grid": lambda dist, rng: exact_grid(dist).sample(RANKS, rng=rng),
    "exact_chain": lambda dist, rng: exact_chain(dist).sample(RANKS, rng=rng),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_ranks_are_uniform(sampler):
    rng = np.random.default_rng(1)
    parameters = torus.random_parameters(rng, 3, 2, 0.8, edges=[(0, 1), (1, 2)])
    prior, noise = MGvM(*parameters), 1.5
    truth = exact_grid(prior).sample(SIMULATIONS, rng=rng)
    seen = VonMises(truth, noise).sample(rng=rng)
    ranks = np.empty((SIMULATIONS, 6), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i in range(SIMULATIONS):
            posterior = MGvM(prior.a + noise * np.exp(1j * seen[i]), prior.b, prior.P, prior.Q)
            drawn = SAMPLERS[sampler](posterior, rng)
            for k, wave in enumerate((np.cos, np.sin)):
                ranks[i, 3 * k : 3 * k + 3] = (wave(drawn) < wave(truth[i])).sum(axis=0)
    for column in ranks.T:
        counts = np.bincount(column, minlength=RANKS + 1)
        assert stats.chisquare(counts).pvalue > 1e-5, counts
