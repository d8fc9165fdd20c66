"""mGvM components of mixtures: densities, steps that never fall, marginals and draws."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus
from torus_distributions import distribution_of

from mgvm._numerics import torus_moments
from mgvm.inference import exact_grid
from mgvm.learning import likelihood
from mgvm.mixture.families.mgvm import MGvMFamily
from mgvm.natural import pack


def two_clouds(dimension, count=400):
    rng = np.random.default_rng(dimension)
    dists = [distribution_of(*torus.random_parameters(rng, dimension, 2, scale)) for scale in (0.6, 1.0)]
    x = np.concatenate([exact_grid(dist).sample(count, rng=rng) for dist in dists])
    return x, np.repeat(np.eye(2), count, axis=0)


def objective(family, parameters, x, weights):
    return (weights * family.log_density(parameters, x)).sum(axis=0) + family.log_prior(parameters)


@pytest.mark.parametrize("dimension", [1, 2])
def test_log_density_is_normalised(dimension):
    x, weights = two_clouds(dimension)
    family = MGvMFamily()
    parameters = family.start(x, weights)
    for k in range(2):
        dist = family.dist(parameters, k)
        assert parameters.log_normalizer[k] == pytest.approx(torus.log_normalizer(*dist, n=160), abs=1e-9)
        expected = [torus.log_density(row, *dist) - torus.log_normalizer(*dist, n=160) for row in x[:5]]
        np.testing.assert_allclose(family.log_density(parameters, x[:5])[:, k], expected, atol=1e-9)


@pytest.mark.parametrize("dimension", [1, 2])
def test_updates_never_fall_and_end_at_the_maximum_of_the_likelihood(dimension):
    x, weights = two_clouds(dimension)
    family = MGvMFamily(shrinkage=1e-9)
    parameters = family.start(x, weights)
    heights = [objective(family, parameters, x, weights)]
    for _ in range(6):
        parameters = family.update(parameters, x, weights)
        heights.append(objective(family, parameters, x, weights))
    assert (np.diff(heights, axis=0) > -1e-7).all()
    for k in range(2):
        fit = likelihood(x[weights[:, k] > 0])
        np.testing.assert_allclose(parameters.theta[k], pack(fit.natural), atol=1e-5)


def test_updates_from_elsewhere_rise_too():
    x, weights = two_clouds(2)
    family = MGvMFamily()
    parameters = family.start(x, weights)
    swapped = weights[:, ::-1] + 0.01
    before = objective(family, parameters, x, swapped)
    for _ in range(4):
        parameters = family.update(parameters, x, swapped)
        after = objective(family, parameters, x, swapped)
        assert (after >= before - 1e-7).all()
        before = after


def test_columns_of_one_row_equal_rows_and_no_weight():
    x = np.concatenate([np.random.default_rng(0).normal(size=(30, 2)), np.ones((10, 2))])
    weights = np.zeros((40, 3))
    weights[0, 0], weights[30:, 1], weights[:30, 2] = 1.0, 1.0, 1.0
    family = MGvMFamily()
    parameters = family.start(x, weights)
    assert all(np.isfinite(part).all() for part in parameters)
    weights[:, 0] = 0.0
    later = family.update(parameters, x, weights)
    np.testing.assert_allclose(later.theta[0], parameters.theta[0], rtol=1e-10)
    assert all(np.isfinite(part).all() for part in later)


@pytest.mark.jit_only
def test_marginals_integrate_the_joint_density():
    x, weights = two_clouds(3, count=150)
    family = MGvMFamily()
    parameters = family.start(x, weights)
    row = x[:1].copy()
    nodes = torus.nodes(48)
    grid = np.repeat(row, nodes.size, axis=0)
    grid[:, 1] = nodes
    missing = row.copy()
    missing[0, 1] = np.nan
    joint = np.exp(family.log_density(parameters, grid)).mean(axis=0) * 2 * np.pi
    np.testing.assert_allclose(np.exp(family.log_marginal(parameters, missing))[0], joint, rtol=1e-7)
    # Two missing: the marginal of one angle integrates over the other.
    grid[:, 2] = np.nan
    missing[0, 2] = np.nan
    single = np.exp(family.log_marginal(parameters, grid)).mean(axis=0) * 2 * np.pi
    np.testing.assert_allclose(np.exp(family.log_marginal(parameters, missing))[0], single, rtol=1e-7)
    assert (family.log_marginal(parameters, np.full((2, 3), np.nan)) == 0.0).all()


def test_draws_have_the_moments_of_their_component():
    x, weights = two_clouds(2)
    family = MGvMFamily()
    parameters = family.start(x, weights)
    labels = np.tile([1, 0], 4000)
    drawn = family.sample(parameters, labels, np.random.default_rng(0))
    for k in range(2):
        moments = np.exp(1j * drawn[labels == k]).mean(axis=0)
        np.testing.assert_allclose(moments, exact_grid(family.dist(parameters, k)).moments, atol=0.06)


def test_four_angles_are_refused_with_what_to_use():
    with pytest.raises(ValueError, match="up to 3 angles, got D = 4"):
        MGvMFamily().start(np.zeros((5, 4)), np.ones((5, 1)))


@pytest.mark.parametrize(("dimension", "spread", "seed"), [(2, 0.05, 1), (2, 0.1, 2), (3, 0.2, 3)])
def test_narrow_components_reach_their_maximum(dimension, spread, seed):
    """A few evenly spread rows pull at a narrow distribution's far side, where its covariance sees nothing."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(dimension, dimension)) + 0.7 * np.eye(dimension)
    mixing /= np.linalg.norm(mixing, axis=1, keepdims=True)
    x = 1.0 + spread * rng.normal(size=(200, dimension)) @ mixing.T
    family, weights = MGvMFamily(shrinkage=0.3), np.ones((200, 1))
    parameters = family.start(x, weights)
    for _ in range(30):
        parameters = family.update(parameters, x, weights)
    # At the maximum the distribution's mean statistics are those of the rows with the evenly spread ones.
    wanted = 200.0 / 200.3 * np.exp(1j * x).mean(axis=0)
    found = exact_grid(family.dist(parameters, 0)).moments
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(("dimension", "largest"), [(2, 2e4), (3, 1e3)])
def test_rows_on_a_line_take_bounded_work(dimension, largest, monkeypatch):
    """Angles that differ by a thousandth have no maximum in sight: steps along the ridge took minutes on huge grids.

    At concentration κ a rule to exp(-28) has some √(2·28 κ) nodes an angle, and 10 more for second harmonics.
    """
    grids = []

    def count(theta, dimension, order, sizes, *more):
        grids.append(sizes.prod(axis=1).max())
        return whole(theta, dimension, order, sizes, *more)

    whole = torus_moments._sum_distributions
    monkeypatch.setattr(torus_moments, "_sum_distributions", count)
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (24, 1)) + 1e-3 * rng.normal(size=(24, dimension))
    family, weights = MGvMFamily(shrinkage=1e-5), np.ones((24, 1))
    parameters = family.start(x, weights)
    for _ in range(8):
        parameters = family.update(parameters, x, weights)
    assert np.isfinite(parameters.log_normalizer).all()
    assert max(grids) <= (np.sqrt(2 * 28 * largest) + 10) ** dimension
