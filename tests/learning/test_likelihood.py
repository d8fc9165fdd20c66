"""Maximum likelihood: against a general optimiser on grids, exact chains, and data without a maximum."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive import torus, torus_moments
from scipy.optimize import minimize
from torus_distributions import distribution_of

from mgvm.inference import ConvergenceWarning, exact_chain, exact_grid
from mgvm.learning import likelihood
from mgvm.natural import pack, statistics, unpack


def naive_fit(x, weights, order, model=None, n=40):
    """θ of highest likelihood by a general optimiser; log Z and E[T] summed over a product grid."""
    size = x.shape[1]
    mean = np.average([torus_moments.statistics(row, order) for row in x], axis=0, weights=weights)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[torus.nodes(n)] * size, indexing="ij")], axis=1)
    table = np.array([torus_moments.statistics(phi, order) for phi in points])

    def inside(theta):
        dist = unpack(theta, size, order)
        return pack(dist if model is None else model.project(dist))

    def negative(theta):
        value = table @ inside(theta)
        weight = np.exp(value - value.max())
        log_normalizer = value.max() + np.log(weight.sum()) + size * np.log(2 * np.pi / n)
        return log_normalizer - inside(theta) @ mean, inside(weight @ table / weight.sum() - mean)

    found = minimize(negative, np.zeros(mean.size), jac=True, method="BFGS", options={"gtol": 1e-9})
    return inside(found.x), -found.fun


def drawn(seed, dimension, count=300, order=2, scale=0.7):
    dist = distribution_of(*torus.random_parameters(np.random.default_rng(seed), dimension, order, scale))
    return dist, exact_grid(dist).sample(count, rng=seed)


@pytest.mark.parametrize(("dimension", "order"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_maximum_is_that_of_a_general_optimiser(dimension, order):
    _, x = drawn(dimension, dimension)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(x))
    fit = likelihood(x, order=order, weights=weights)
    theta, height = naive_fit(x, weights, order)
    assert fit.converged
    assert fit.gradient_norm < 1e-8
    assert fit.objective == pytest.approx(height, abs=1e-10)
    np.testing.assert_allclose(pack(fit.natural), theta, atol=2e-5)
    assert (np.diff(fit.trace) > -1e-12).all()


@pytest.mark.parametrize("name", ["torus graph", "differences", "sine", "independent"])
def test_submodels_reach_their_own_maximum(name):
    _, x = drawn(5, 2)
    fit = likelihood(x, submodel=name)
    theta, height = naive_fit(x, np.ones(len(x)), fit.order, fit.submodel)
    assert fit.converged
    assert fit.objective == pytest.approx(height, abs=1e-10)
    np.testing.assert_allclose(pack(fit.natural), theta, atol=2e-5)
    np.testing.assert_allclose(pack(fit.submodel.project(fit.natural)), pack(fit.natural), atol=1e-12)


@pytest.mark.jit_only
def test_three_angles_match_the_moments_of_the_data_and_know_their_errors():
    dist, x = drawn(2, 3, count=4000)
    fit = likelihood(x, standard_errors=True)
    found = exact_grid(fit)
    np.testing.assert_allclose(found.moments, np.exp(1j * x).mean(axis=0), atol=1e-8)
    z = np.exp(1j * x)
    np.testing.assert_allclose(
        found.pair_moments.sum, [(z[:, i] * z[:, j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))], atol=1e-8
    )
    away = (pack(fit.natural) - pack(dist)) / fit.standard_errors
    # 24 nearly standard normal numbers: the sum of squares is below 60 but for one time in 15,000.
    assert 4.0 < away @ away < 60.0


def test_narrow_data_of_order_one_are_fitted_as_they_are():
    x = np.random.default_rng(0).normal(scale=0.03, size=(2000, 2)) + [3.1, -1.0]
    fit = likelihood(x, submodel="sine")
    assert fit.converged
    np.testing.assert_allclose(np.abs(fit.a), 1.0 / x.var(axis=0), rtol=0.01)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("one row", "hold one angle each"),
        ("constant", "column 1 of data holds one angle"),
        ("copy", "difference of columns 0 and 1"),
    ],
)
def test_data_without_a_maximum_get_a_finite_distribution_and_are_told_why(name, cause):
    angles = np.random.default_rng(1).normal(size=40)
    x = {
        "one row": angles[None, :2],
        "constant": np.stack([angles, np.ones(40)], axis=1),
        "copy": np.stack([angles, angles], axis=1),
    }[name]
    with pytest.warns(ConvergenceWarning, match=cause):
        fit = likelihood(x)
    assert not fit.converged
    assert np.isfinite(pack(fit.natural)).all()
    assert np.isfinite(fit.objective)


def test_steps_that_run_out_are_reported_with_the_gradient():
    _, x = drawn(3, 2)
    with pytest.warns(ConvergenceWarning, match=r"after 1 Newton steps with a gradient of .*max_iterations"):
        fit = likelihood(x, max_iterations=1)
    assert not fit.converged


CHAIN = [(2, 0), (0, 3), (3, 1)]


@pytest.mark.jit_only
def test_forests_match_the_moments_of_the_data():
    dist = distribution_of(
        *torus.random_parameters(np.random.default_rng(7), 4, 2, 0.8, edges=[(0, 2), (0, 3), (1, 3)])
    )
    x = exact_chain(dist).sample(1500, rng=1)
    fit = likelihood(x, submodel=CHAIN, standard_errors=True)
    assert fit.converged
    found, z = exact_chain(fit), np.exp(1j * x)
    np.testing.assert_allclose(found.marginals.moment(2), (z**2).mean(axis=0), atol=1e-7)
    pairs = found.pair_moments
    np.testing.assert_allclose(
        pairs.difference, (z[:, pairs.first] * z[:, pairs.second].conj()).mean(axis=0), atol=1e-7
    )
    away = (pack(fit.natural) - pack(dist))[fit.standard_errors > 0] / fit.standard_errors[fit.standard_errors > 0]
    assert away.size == 28
    assert 6.0 < away @ away < 65.0


@pytest.mark.jit_only
def test_sampled_fit_is_within_its_stated_error_of_the_exact_one():
    dist = distribution_of(*torus.random_parameters(np.random.default_rng(8), 4, 1, 0.4))
    x = torus_sample(dist, 400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = likelihood(x, order=1, rng=0, standard_errors=True)
    n = 20
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[torus.nodes(n)] * 4, indexing="ij")], axis=1)
    table = statistics(points, 1)
    value = table @ pack(fit.natural)
    weight = np.exp(value - value.max())
    mean = weight @ table / weight.sum()
    centred = table - mean
    fisher = (centred * (weight / weight.sum())[:, None]).T @ centred
    gap = statistics(x, 1).mean(axis=0) - mean
    # Twice the tenth of the sampling variance that the stopping rule allows, with room for chance.
    assert gap @ np.linalg.solve(fisher, gap) < 0.3 * fit.submodel.n_parameters / len(x)


def torus_sample(dist, count, n=24):
    """Draws of a wide distribution of four angles from a fine grid, blurred within its cells."""
    rng = np.random.default_rng(0)
    mass = torus.probabilities(*dist, n=n).ravel()
    places = np.stack(np.unravel_index(rng.choice(mass.size, count, p=mass), (n,) * dist.dimension), axis=1)
    return torus.nodes(n)[places] + rng.uniform(-0.5, 0.5, places.shape) * 2 * np.pi / n
