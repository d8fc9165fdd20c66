"""Directed GvM components against loops, quadrature and a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from naive.mixture import directed_log_density, unpacked
from scipy.optimize import minimize
from scipy.special import i0e, i1e

from mgvm._numerics.directed import log_bessel
from mgvm._numerics.elementary import entry
from mgvm.mixture.families.base import join, take
from mgvm.mixture.families.directed import DirectedFamily


@entry()
def bessel(kappa):
    return log_bessel(kappa)


def random_parameters(family, rng, components, scale=1.0):
    """Random distributions: those a start gives, disturbed."""
    dimension = len(family.order)
    x = rng.uniform(-np.pi, np.pi, (50, dimension))
    parameters = family.start(x, rng.random((50, components)))
    packed = parameters.packed.copy()
    for d in range(dimension):
        free = 2 * family.features_of(d) + (2 if family.second else 0)
        packed[:, d, :free] += scale * rng.normal(size=(components, free))
    return parameters._replace(packed=packed)


@pytest.mark.parametrize("kappa", [0.0, 1e-12, 0.3, 5.0, 21.9, 22.0, 22.1, 60.0, 1e3, 1e6])
def test_bessel_functions_to_rounding(kappa):
    log_zero, ratio = bessel(kappa)
    assert log_zero == pytest.approx(np.log(i0e(kappa)) + kappa, rel=1e-14, abs=1e-14)
    assert ratio == pytest.approx(i1e(kappa) / i0e(kappa), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("order", [(0,), (1, 0), (2, 0, 1), (3, 1, 0, 2)])
def test_log_density_is_the_product_of_factors(order, coupled, second):
    rng = np.random.default_rng(len(order))
    family = DirectedFamily(order, coupled, second)
    parameters = random_parameters(family, rng, 3, scale=4.0)
    x = rng.uniform(-10.0, 10.0, (7, len(order)))
    expected = [[directed_log_density(*unpacked(family, parameters, k), order, row) for k in range(3)] for row in x]
    np.testing.assert_allclose(family.log_density(parameters, x), expected, atol=1e-10)
    near = rng.random((7, 3)) < 0.5
    np.testing.assert_allclose(family.log_density(parameters, x, near), np.where(near, expected, -np.inf), atol=1e-10)


@pytest.mark.parametrize("order", [(1, 0), (0, 2, 1)])
def test_density_integrates_to_one(order):
    rng = np.random.default_rng(5)
    family = DirectedFamily(order)
    parameters = random_parameters(family, rng, 2, scale=2.0)
    side = 48
    grid = np.stack(np.meshgrid(*[2 * np.pi * np.arange(side) / side] * len(order)), axis=-1).reshape(-1, len(order))
    total = np.exp(family.log_density(parameters, grid)).mean(axis=0) * (2 * np.pi) ** len(order)
    np.testing.assert_allclose(total, 1.0, atol=1e-9)


@pytest.mark.parametrize("second", [True, False])
def test_repeated_updates_reach_the_weighted_maximum(second):
    rng = np.random.default_rng(1)
    family = DirectedFamily((1, 0), second=second, ridge=1e-2, pseudo_count=2.0, stiffness=0.1)
    x = rng.normal([0.5, -2.0], 0.6, (60, 2))
    x[:, 1] += 0.8 * x[:, 0]
    weights = rng.random((60, 1))
    parameters = family.start(x, weights)
    for _ in range(30):
        parameters = family.update(parameters, x, weights)
    free = [(d, j) for d in range(2) for j in range(2 * family.features_of(d) + (2 if second else 0))]
    rows, columns = np.array(free).T

    def loss(theta):
        packed = parameters.packed.copy()
        packed[0, rows, columns] = theta
        trial = parameters._replace(packed=packed)
        return -(weights[:, 0] @ family.log_density(trial, x)[:, 0] + family.log_prior(trial)[0])

    best = minimize(loss, np.zeros(len(free)), method="BFGS", options={"gtol": 1e-5, "maxiter": 2000})
    assert loss(parameters.packed[0, rows, columns]) <= best.fun + 1e-6
    assert loss(parameters.packed[0, rows, columns]) == pytest.approx(best.fun, abs=1e-4)


@pytest.mark.parametrize("second", [True, False])
def test_no_update_lowers_any_component(second):
    rng = np.random.default_rng(2)
    family = DirectedFamily((0, 2, 1), second=second, pseudo_count=5.0, stiffness=1.0)
    x = np.concatenate([rng.normal(0.0, 0.02, (30, 3)), rng.uniform(-np.pi, np.pi, (30, 3))])
    weights = rng.random((60, 4)) ** 4
    weights[:, 3] = 0.0
    weights[0, 3] = 1.0  # a single row
    parameters = random_parameters(family, rng, 4, scale=3.0)
    parameters = family.renew_prior(parameters, x, weights)

    def objective(at):
        return (weights * family.log_density(at, x)).sum(axis=0) + family.log_prior(at)

    before = objective(parameters)
    for _ in range(25):
        parameters = family.update(parameters, x, weights)
        after = objective(parameters)
        assert (after >= before - 1e-9 * np.abs(before)).all()
        before = after
    assert np.isfinite(parameters.packed).all()


def test_an_empty_column_leaves_its_component():
    rng = np.random.default_rng(3)
    family = DirectedFamily((0, 1))
    parameters = random_parameters(family, rng, 2)
    weights = np.column_stack([np.zeros(20), np.ones(20)])
    after = family.update(parameters, rng.normal(size=(20, 2)), weights)
    np.testing.assert_array_equal(after.packed[0], parameters.packed[0])
    assert (after.packed[1] != parameters.packed[1]).any()


def test_pseudo_count_shrinks_couplings_and_jitter_bounds_concentration():
    rng = np.random.default_rng(4)
    x = rng.normal(0.0, 0.3, (40, 2))
    x[:, 1] = 0.7 * x[:, 0] + rng.normal(0.0, 0.2, 40)
    weights = np.ones((40, 1))

    def coupling(pseudo_count):
        family = DirectedFamily((0, 1), second=False, pseudo_count=pseudo_count)
        return float(np.linalg.norm(family.start(x, weights).packed[0, 1, [1, 2, 4, 5]]))

    assert coupling(1000.0) < 0.3 * coupling(0.0)
    family = DirectedFamily((0,), second=False, jitter=0.05)
    parameters = family.start(np.zeros((10, 1)), np.ones((10, 1)))
    for _ in range(40):
        parameters = family.update(parameters, np.zeros((10, 1)), np.ones((10, 1)))
    assert np.hypot(*parameters.packed[0, 0, :2]) == pytest.approx(10 / 0.05**2, rel=0.02)


def test_samples_have_the_moments_of_the_density():
    rng = np.random.default_rng(6)
    family = DirectedFamily((1, 0))
    parameters = random_parameters(family, rng, 2, scale=2.0)
    side = 64
    axis = -np.pi + 2 * np.pi * np.arange(side) / side
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    draws = family.sample(parameters, np.ones(20000, dtype=np.int64), rng)
    p = np.exp(family.log_density(parameters, grid)[:, 1])
    p /= p.sum()
    for power in ([1, 0], [0, 1], [1, 1], [1, -1], [2, -1]):
        expected = p @ np.exp(1j * grid @ power)
        assert abs(np.exp(1j * draws @ power).mean() - expected) < 5 / np.sqrt(20000)
    assert ((draws >= -np.pi) & (draws < np.pi)).all()


@pytest.mark.parametrize("missing", [[0], [1], [2], [0, 1], [0, 2], [1, 2]])
def test_marginals_integrate_the_joint(missing):
    rng = np.random.default_rng(7)
    family = DirectedFamily((2, 0, 1))
    parameters = random_parameters(family, rng, 2, scale=1.5)
    x = rng.uniform(-np.pi, np.pi, (3, 3))
    x[:, missing] = np.nan
    side = 64
    axis = 2 * np.pi * np.arange(side) / side
    points = np.stack(np.meshgrid(*[axis] * len(missing)), axis=-1).reshape(-1, len(missing))
    expected = []
    for row in x:
        full = np.tile(row, (len(points), 1))
        full[:, missing] = points
        expected.append(np.log(np.exp(family.log_density(parameters, full)).mean(axis=0) * (2 * np.pi) ** len(missing)))
    np.testing.assert_allclose(family.log_marginal(parameters, x), expected, atol=1e-6)
    np.testing.assert_array_equal(family.log_marginal(parameters, np.full((1, 3), np.nan)), 0.0)


def test_take_and_join():
    rng = np.random.default_rng(9)
    family = DirectedFamily((0, 1))
    parameters = random_parameters(family, rng, 3)
    again = join(take(parameters, [2]), take(parameters, np.array([True, True, False])))
    x = rng.normal(size=(5, 2))
    np.testing.assert_array_equal(family.log_density(again, x), family.log_density(parameters, x)[:, [2, 0, 1]])


def test_number_of_parameters_is_what_moves():
    rng = np.random.default_rng(10)
    x, weights = rng.normal(size=(40, 3)), np.ones((40, 1))
    for coupled in (True, False):
        for second in (True, False):
            family = DirectedFamily((0, 1, 2), coupled, second)
            assert np.count_nonzero(family.start(x, weights).packed) == family.n_parameters(3)
