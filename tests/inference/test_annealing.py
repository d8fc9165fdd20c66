"""Annealed importance sampling: unbiased, with an error that means what it says."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus
from portable import polar
from scipy import sparse, stats

from mgvm import MGvM
from mgvm.inference import ConvergenceWarning, annealed_log_normalizer, exact_chain, exact_grid


def random_distribution(seed, dimension, order=2, scale=1.0):
    return MGvM(*torus.random_parameters(np.random.default_rng(seed), dimension, order, scale))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_within_its_own_error(order, scale):
    scores = []
    for seed in range(6):
        dist = random_distribution(seed, 3, order, scale)
        result = annealed_log_normalizer(dist, n_chains=64, rng=seed)
        error = result.log_normalizer.standard_error
        scores.append((result.log_normalizer - exact_grid(dist).log_normalizer) / error)
        assert result.converged
    # The error is itself estimated, from 64 chains: each score follows Student's t, and there are 36 of them.
    assert 36 * 2 * stats.t(63).sf(np.abs(scores).max()) > 1e-5
    assert stats.chi2(6).sf(np.sum(np.square(scores))) > 1e-5


def test_the_error_falls_with_the_chains_and_is_the_spread_of_repeats():
    dist = random_distribution(1, 3, 1, 1.0)
    runs = [annealed_log_normalizer(dist, n_chains=32, n_steps=20, rng=seed).log_normalizer for seed in range(40)]
    spread = np.std([float(run) for run in runs])
    # The spread of 40 repeats is within 0.53 and 1.51 of the true one but once in 10⁵.
    assert 0.53 < spread / np.mean([run.standard_error for run in runs]) < 1.51
    many = annealed_log_normalizer(dist, n_chains=2048, n_steps=20, rng=0).log_normalizer
    # 64 times the chains, an eighth of the error. Its own relative error is 1/√(2 · 2047), that of the mean of forty
    # 1/√(2 · 31 · 40): 2.5 % together for Gaussian weights, twice that for theirs. Five times that.
    assert 8 * many.standard_error == pytest.approx(np.mean([run.standard_error for run in runs]), rel=0.25)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_chain_of_two_hundred(storage):
    rng = np.random.default_rng(0)
    couplings = np.diag(np.full(199, 2.0 + 0j), 1)
    dist = MGvM(polar(1.0, 2.0 * rng.normal(size=200)), P=storage(couplings + couplings.T))
    result = annealed_log_normalizer(dist, n_chains=256, rng=1)
    exact = exact_chain(dist)
    score = (result.log_normalizer - exact.log_normalizer) / result.log_normalizer.standard_error
    assert abs(score) < 5.0
    # At worst each moment is a mean of that many draws. The mean square of 200 errors, some forty of them independent,
    # is within 1 ± 5 √(2/40) of what is expected but once in 10⁵; four times that.
    moments = exact.marginals.moment(1)
    expected = np.mean(1 - np.abs(moments) ** 2) / result.log_normalizer.effective_sample_size
    assert np.mean(np.abs(result.marginals.moment(1) - moments) ** 2) < 4 * expected


def test_without_couplings_it_is_exact():
    dist = MGvM([1.0, 2j, 0.0], [0.5, 0.1, 0.0])
    result = annealed_log_normalizer(dist, rng=0)
    assert result.log_normalizer == pytest.approx(float(exact_grid(dist).log_normalizer), abs=1e-12)
    assert result.log_normalizer.standard_error == 0.0
    assert result.scales[0] == 0.0
    assert result.scales[-1] == 1.0


def test_poor_weights_warn():
    dist = MGvM(np.zeros(8), P=30.0 * (np.ones((8, 8)) - np.eye(8)))
    with pytest.warns(ConvergenceWarning, match=r"effective chains of 16.*more steps than n_steps=2"):
        result = annealed_log_normalizer(dist, n_chains=16, n_steps=2, rng=0)
    assert not result.converged
    assert result.log_normalizer.effective_sample_size < 1.6


def test_progress_and_bad_input():
    dist = random_distribution(0, 2)
    seen = []
    annealed_log_normalizer(dist, n_steps=5, rng=0, progress=lambda done, total, _: seen.append((done, total)))
    assert seen == [(k, 5) for k in range(1, 6)]
    with pytest.raises(ValueError, match="n_chains must be >= 2"):
        annealed_log_normalizer(dist, n_chains=1)
    with pytest.raises(ValueError, match="n_steps must be >= 1"):
        annealed_log_normalizer(dist, n_steps=0)
    with pytest.raises(ValueError, match="index the batch"):
        annealed_log_normalizer(MGvM(np.ones((2, 2))))


def test_an_answer_below_the_mean_field_bound_is_refused():
    rng = np.random.default_rng(13)

    def draw(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    a, P, Q = 16 * draw(6), draw(6, 6), draw(6, 6)
    near = np.abs(np.subtract.outer(range(6), range(6))) == 1
    dist = MGvM(a, P=16 * near * (P + P.conj().T), Q=16 * near * (Q + Q.T))
    with pytest.warns(ConvergenceWarning, match="below the mean-field bound"):
        result = annealed_log_normalizer(dist, rng=0)
    assert not result.converged
