"""Mean field of distributions with several optima: none is silently taken for the whole distribution."""

from __future__ import annotations

import numpy as np
import pytest
from inference.mean_field_distributions import as_sparse, quietly, random_distribution

from mgvm.inference import ConvergenceWarning, mean_field
from mgvm.natural import Natural


@pytest.mark.parametrize("store", [lambda dist: dist, as_sparse])
def test_mirror_optima_are_reported(store):
    # No odd harmonics: turning both angles by half a circle changes nothing.
    P = np.array([[0, 4.0], [4.0, 0]], dtype=complex)
    dist = store(Natural(np.zeros(2, dtype=complex), np.array([[2.0, 2.0j]]), P, np.zeros((2, 2), dtype=complex)))
    with pytest.warns(ConvergenceWarning, match="multimodal"):
        result = mean_field(dist)
    assert result.n_optima >= 2
    assert result.multimodal
    best, mirror = result.optima[:2]
    np.testing.assert_allclose(best.free_energy, mirror.free_energy, rtol=1e-10)
    np.testing.assert_allclose(best.moments, -mirror.moments, atol=1e-6)
    np.testing.assert_allclose(sum(optimum.weight for optimum in result.optima), 1.0)
    assert np.abs(best.moments).min() > 0.5
    with pytest.warns(ConvergenceWarning, match="multimodal"):
        assert mean_field(dist, n_starts=2).n_optima == 2  # the mirror image is known without a start of its own


def test_two_wells_are_reported_and_a_lone_one_is_not():
    P = np.array([[0, -6.0], [-6.0, 0]], dtype=complex)  # the angles want to be opposite
    zero, none = np.zeros((2, 2), dtype=complex), np.zeros((0, 2), dtype=complex)
    with pytest.warns(ConvergenceWarning, match="multimodal"):
        result = mean_field(Natural(np.array([0.1, 0.1 + 0j]), none, P, zero), n_starts=8, rng=0)
    assert result.n_optima >= 2
    lone = mean_field(Natural(np.array([5.0, 0.1 + 0j]), none, P, zero), n_starts=8, rng=0)
    assert lone.n_optima == 1
    assert not lone.multimodal


def test_batch_reports_several_optima_distribution_by_distribution():
    P = np.array([[0, 4.0], [4.0, 0]], dtype=complex)
    a = np.array([[0.0, 0.0], [3.0, 3.0], [0.01, 0.0]], dtype=complex)
    with pytest.warns(ConvergenceWarning, match="multimodal"):
        result = mean_field(Natural(a, np.array([[2.0, 2.0 + 0j]]), P, np.zeros((2, 2), dtype=complex)))
    assert list(result.n_optima) == [2, 1, 2]
    assert result.log_normalizer is None
    assert result.optima == ()


@pytest.mark.jit_only
def test_best_start_is_kept():
    rng = np.random.default_rng(14)
    for _ in range(10):
        dist = random_distribution(rng, 4, 2, 1.0)
        alone = quietly(dist, n_starts=1).free_energy
        assert quietly(dist, n_starts=10, rng=1).free_energy >= alone - 1e-9
