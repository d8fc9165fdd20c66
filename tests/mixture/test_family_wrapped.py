"""Wrapped normal components against the distribution on the torus, a cube of images and sums over grids."""

from __future__ import annotations

import numpy as np
import pytest
from naive.wrapped_images import log_density, maximisation

from mgvm import MultivariateWrappedNormal, TorusMixture, angles
from mgvm.mixture.families.base import take
from mgvm.mixture.families.wrapped_normal import WrappedFamily, WrappedParameters

FREE = WrappedFamily(pseudo_count=0.0, narrowest=1e-6, widest=10.0)


def components(dimension, seed=0, scales=(0.01, 0.3, 2.0)):
    """Narrow, middling and wide distributions, two of them strongly correlated."""
    rng = np.random.default_rng(seed)
    frames = rng.normal(size=(len(scales), dimension, dimension))
    cov = frames @ np.swapaxes(frames, 1, 2) / dimension + 0.02 * np.eye(dimension)
    mean = rng.uniform(-np.pi, np.pi, (len(scales), dimension))
    prior = np.full((len(scales), dimension), 0.2)
    return WrappedParameters(mean, cov * np.array(scales)[:, None, None], prior)


def separately(family, parameters, x):
    """Log densities with every distribution alone, so that none is left out for being far below the others."""
    return np.hstack([family.log_density(take(parameters, [k]), x) for k in range(len(parameters.mean))])


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_densities_are_those_of_the_wrapped_normal_distribution(dimension):
    parameters = components(dimension)
    x = np.random.default_rng(1).uniform(-np.pi, np.pi, (200, dimension))
    got = separately(FREE, parameters, x)
    for k, (mean, cov) in enumerate(zip(parameters.mean, parameters.cov, strict=True)):
        np.testing.assert_allclose(got[:, k], MultivariateWrappedNormal(mean, cov).logpdf(x), rtol=1e-9, atol=2e-9)


def test_densities_are_sums_over_a_cube_of_images():
    parameters = components(2, seed=3)
    x = np.random.default_rng(2).uniform(-np.pi, np.pi, (40, 2))
    naive = [[log_density(row, m, c) for m, c in zip(*parameters[:2], strict=True)] for row in x]
    np.testing.assert_allclose(separately(FREE, parameters, x), naive, rtol=1e-9, atol=1e-8)


def test_distributions_far_below_the_largest_are_left_out_and_others_are_not():
    parameters = components(3)
    x = FREE.sample(parameters, np.zeros(50, dtype=np.int64), np.random.default_rng(0))
    together, alone = FREE.log_density(parameters, x), separately(FREE, parameters, x)
    kept = np.isfinite(together)
    assert (alone.max(axis=1)[:, None] - alone)[~kept].min(initial=np.inf) > 50.0
    np.testing.assert_allclose(together[kept], alone[kept], rtol=1e-12)
    assert kept.any(axis=1).all()


def test_pairs_that_are_not_near_are_minus_infinity():
    parameters = components(2)
    x = np.random.default_rng(4).uniform(-np.pi, np.pi, (30, 2))
    near = np.random.default_rng(5).random((30, 3)) < 0.5
    got = FREE.log_density(parameters, x, near)
    assert np.isneginf(got[~near]).all()
    whole = FREE.log_density(parameters, x)
    both = near & np.isfinite(whole)
    np.testing.assert_allclose(got[both], whole[both], rtol=1e-12)


@pytest.mark.parametrize(("dimension", "pseudo_count"), [(1, 0.0), (2, 3.0), (3, 1.0)])
def test_m_step_is_the_one_written_out(dimension, pseudo_count):
    rng = np.random.default_rng(6)
    parameters = components(dimension, seed=7, scales=(0.2, 1.5))
    family = WrappedFamily(pseudo_count=pseudo_count, narrowest=1e-6, widest=10.0)
    x, weights = rng.uniform(-np.pi, np.pi, (25, dimension)), rng.uniform(0.1, 1.0, (25, 2))
    got = family.update(parameters, x, weights)
    for k in range(2):
        mean, cov = maximisation(
            x, weights[:, k], parameters.mean[k], parameters.cov[k], parameters.prior[k], pseudo_count
        )
        np.testing.assert_allclose(np.exp(1j * got.mean[k]), np.exp(1j * mean), atol=1e-6)
        np.testing.assert_allclose(got.cov[k], cov, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", [FREE, WrappedFamily(), WrappedFamily(20.0, narrowest=0.3, widest=0.9)])
def test_em_never_falls(family):
    rng = np.random.default_rng(8)
    x = np.asarray(MultivariateWrappedNormal([3.0, 0.0], [[2.0, 1.5], [1.5, 1.4]]).sample(300, rng=9))
    weights = np.stack([np.ones(300), rng.random(300)], axis=1)
    parameters = family.start(x, weights)
    values = []
    for _ in range(25):
        objective = (weights * separately(family, parameters, x)).sum(axis=0) + family.log_prior(parameters)
        values.append(objective)
        parameters = family.update(parameters, x, weights)
    assert np.diff(values, axis=0).min() > -1e-6
    assert values[-1][0] > values[0][0] + 0.1


def test_eigenvalues_stay_within_bounds_where_the_bounds_are_the_best_choice():
    family = WrappedFamily(pseudo_count=0.0, narrowest=0.3, widest=0.9)
    x = np.asarray(MultivariateWrappedNormal([0.0, 0.0], [[1.5, 0.0], [0.0, 0.01]]).sample(400, rng=0))
    parameters = family.start(x, np.ones((400, 1)))
    for _ in range(10):
        parameters = family.update(parameters, x, np.ones((400, 1)))
    np.testing.assert_allclose(np.linalg.eigvalsh(parameters.cov[0]), [0.09, 0.81], rtol=1e-9)


def test_prior_is_highest_at_its_own_covariance():
    family, parameters = WrappedFamily(pseudo_count=4.0), components(3)
    own = parameters._replace(cov=parameters.prior[:, :, None] * np.eye(3))
    assert np.abs(family.log_prior(own)).max() < 1e-12
    assert (family.log_prior(parameters) < 0).all()


def test_marginals_are_integrals_over_a_grid():
    parameters = components(3, seed=11, scales=(0.2, 0.5, 1.5))
    rng = np.random.default_rng(12)
    x = rng.uniform(-np.pi, np.pi, (6, 3))
    grid = np.linspace(-np.pi, np.pi, 160, endpoint=False)
    missing = x.copy()
    missing[:3, 1] = np.nan
    missing[3:5, [0, 2]] = np.nan
    missing[5] = np.nan
    got = FREE.log_marginal(parameters, missing)
    for n in range(6):
        free = np.flatnonzero(np.isnan(missing[n]))
        points = np.tile(x[n], (grid.size**free.size, 1))
        points[:, free] = np.stack(np.meshgrid(*[grid] * free.size), axis=-1).reshape(-1, free.size)
        if free.size == 3:
            np.testing.assert_allclose(got[n], 0.0)
            continue
        values = np.exp(separately(FREE, parameters, points))
        integral = values.sum(axis=0) * (2.0 * np.pi / grid.size) ** free.size
        np.testing.assert_allclose(np.exp(got[n]), integral, rtol=1e-6, atol=1e-30)


def test_draws_have_the_moments_of_the_distribution():
    parameters = components(2, seed=13)
    labels = np.repeat(np.arange(3), 40_000)
    draws = FREE.sample(parameters, labels, np.random.default_rng(14))
    assert draws.min() >= -np.pi
    assert draws.max() < np.pi
    for k in range(3):
        dist = MultivariateWrappedNormal(parameters.mean[k], parameters.cov[k])
        for order in ([1, 0], [0, 1], [1, -1], [1, 1]):
            seen = np.exp(1j * draws[labels == k] @ np.array(order)).mean()
            assert abs(seen - dist.moment(order)) < 4.5 / np.sqrt(40_000)


@pytest.mark.parametrize(
    "x", [np.array([[0.3, -3.0]]), np.tile([3.1, 0.0], (5, 1)), np.array([[3.1, 0.0], [-3.1, 0.1]])]
)
def test_starts_are_finite_for_few_and_equal_rows(x):
    family = WrappedFamily()
    parameters = family.start(x, np.ones((len(x), 1)))
    for _ in range(3):
        assert np.isfinite(family.log_density(parameters, x)).all()
        assert np.isfinite(family.log_prior(parameters)).all()
        parameters = family.update(parameters, x, np.ones((len(x), 1)))
    assert np.linalg.eigvalsh(parameters.cov).min() >= 0.999 * family.narrowest**2
    np.testing.assert_allclose(np.cos(parameters.mean[0] - x[0]), 1.0, atol=0.01)


def test_components_without_rows_stay():
    parameters = components(2)
    x = np.random.default_rng(15).uniform(-np.pi, np.pi, (20, 2))
    weights = np.ones((20, 3))
    weights[:, 1] = 0.0
    got = WrappedFamily().update(parameters, x, weights)
    np.testing.assert_array_equal(got.mean[1], parameters.mean[1])
    np.testing.assert_array_equal(got.cov[1], parameters.cov[1])
    assert np.abs(got.mean[0] - parameters.mean[0]).max() > 1e-3


def test_renewed_prior_is_the_variance_within_components_and_the_distributions_stay():
    rng = np.random.default_rng(16)
    means = np.array([[0.0, 1.0], [3.0, -2.0]])
    labels = rng.integers(2, size=4000)
    x = np.asarray(means[labels] + rng.normal(size=(4000, 2)) * [0.1, 0.3])
    weights = np.eye(2)[labels]
    family = WrappedFamily()
    first = family.start(x, weights)
    again = family.renew_prior(first, x, weights)
    np.testing.assert_allclose(again.prior, np.tile([0.01, 0.09], (2, 1)), rtol=0.1)
    np.testing.assert_array_equal(first.cov, again.cov)


@pytest.mark.parametrize("size", [1e20, 1e100, 1e300])
def test_numbers_without_a_direction_end(size):
    # The sum over images began 10⁸⁴ turns away from the nearest, and no signal could end it.
    x = np.random.default_rng(0).vonmises(0.5, 3.0, (40, 2))
    model = TorusMixture(2, component="wrapped_normal", random_state=0).fit(x)
    far = np.full((1, 2), size)
    np.testing.assert_allclose(model.score_samples(far), model.score_samples(angles.wrap(far)), rtol=1e-12)
