from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Matern, WhiteKernel

from mgvm._numerics.propagation import cavity_response, krige, site_pull
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.engines.neighborhood import Neighborhood, embedding
from mgvm.regression.engines.neighbors import NeighborsEngine, NeighborsSettings, krige_sites
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Replicates
from mgvm.regression.prediction import project_gaussians
from mgvm.regression.prior import NUGGET, Prior
from mgvm.regression.search import Descent

KERNEL = ConstantKernel(0.5) * Matern(0.3, nu=0.5) + WhiteKernel(0.01)


def field(size, dimension, seed=0, kernel=None):
    """Inputs, and directions of a smooth field with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (size, dimension))
    turn = 3.0 * np.sin(4.0 * X[:, 0]) + X[:, -1]
    return X, Replicates(turn + rng.vonmises(0.0, 8.0, size), np.ones(size), np.arange(size))


def naive_cavity(kernel, X, sites, n, near):
    """Kriging in the plane with all matrices written out."""
    points = np.concatenate([[n], near])
    nugget = NUGGET * kernel.diag(X).mean()
    prior = np.kron(kernel(X[points]) + nugget * np.eye(points.size), np.eye(2))
    precision, linear = np.linalg.inv(prior), np.zeros(2 * points.size)
    for place, j in enumerate(near, start=1):
        rows = slice(2 * place, 2 * place + 2)
        precision[rows, rows] -= [[2 * sites[j, 2], sites[j, 3]], [sites[j, 3], 2 * sites[j, 4]]]
        linear[rows] = sites[j, :2]
    covariance = np.linalg.inv(precision)
    return (covariance @ linear)[:2], covariance[:2, :2]


def some_sites(size, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([1.0, 0.5, -1.0, 0.2, -0.7]) + 0.2 * rng.normal(size=(size, 5))


@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + DotProduct(0.1) * ConstantKernel(0.1)])
@pytest.mark.parametrize("count", [1, 5])
def test_kriging_from_sites(kernel, count):
    X, _ = field(150, 2)
    hood = Neighborhood.of(kernel, X, count)
    sites = some_sites(150)
    moments, _, _, pivots = krige(sites, (hood.neighbors, np.ones((150, count))), tuple(hood.weights(kernel)[:3]))
    assert (pivots > 0.0).all()
    for n in (0, 71, 149):
        mean, covariance = naive_cavity(kernel, X, sites, n, hood.neighbors[n])
        np.testing.assert_allclose(moments[n], [*mean, covariance[0, 0], covariance[0, 1], covariance[1, 1]], atol=1e-9)


def test_an_improper_neighbourhood_is_noticed():
    X, _ = field(30, 1)
    hood, sites = Neighborhood.of(KERNEL, X, 4), some_sites(30)
    sites[7, 2:] = [50.0, 0.0, 50.0]
    found = krige_sites(sites, (hood.neighbors, np.ones((30, 4))), hood.weights(KERNEL))
    np.testing.assert_array_equal(found.sound, ~(hood.neighbors == 7).any(axis=1))


def test_the_response_of_cavities_and_its_transpose():
    X, _ = field(80, 2)
    hood, sites, rng = Neighborhood.of(KERNEL, X, 6), some_sites(80), np.random.default_rng(1)
    used = (rng.uniform(size=(80, 6)) < 0.9).astype(float)
    weights = hood.weights(KERNEL)
    found = krige_sites(sites, (hood.neighbors, used), weights)
    change, pull = rng.normal(size=(80, 5)), rng.normal(size=(80, 5))
    response = cavity_response(found.cavity, found.places, change)
    step = 1e-6
    ends = [krige_sites(sites + sign * step * change, (hood.neighbors, used), weights).cavity for sign in (1.0, -1.0)]
    np.testing.assert_allclose(response, (ends[0] - ends[1]) / (2 * step), atol=1e-6)
    back = site_pull(found.cavity, found.places, pull, 80)
    assert (response * pull).sum() == pytest.approx((change * back).sum(), rel=1e-12)


def test_neighbours():
    X, _ = field(300, 2)
    kernel = Matern([0.1, 1.0], nu=1.5)
    hood = Neighborhood.of(kernel, X, 7)
    places = X / [0.1, 1.0]
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_array_equal(np.sort(hood.neighbors), np.sort(np.argsort(distances, axis=1)[:, :7]))
    assert sorted(np.concatenate([block.targets for block in hood.blocks])) == list(range(300))
    assert hood.still_valid(Matern([0.2, 2.0], nu=1.5))
    assert not hood.still_valid(Matern([0.2, 1.0], nu=1.5))
    assert Neighborhood.of(kernel, X[:3], 7).neighbors.shape == (3, 2)


def test_the_embedding_of_a_periodic_kernel_has_its_distances():
    kernel = ConstantKernel(2.0) * ExpSineSquared(0.8, 24.0)
    hours = np.array([[0.0], [1.0], [23.5], [48.0], [60.0]])
    places = embedding(kernel, hours)
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(2.0 * np.exp(-0.5 * squares), kernel(hours), atol=1e-12)
    assert set(Neighborhood.of(kernel, hours, 1).neighbors[[0, 3], 0]) == {0, 3}


@pytest.mark.parametrize("radial_scale", [0.0, 1.0, np.inf])
def test_with_all_inputs_as_neighbours_it_is_dense_propagation(radial_scale):
    problem = Problem(*field(40, 2), Prior((KERNEL,)), GvMNoise(2, symmetric=False), radial_scale)
    dense, near = Descent(DenseEngine(problem)), Descent(NeighborsEngine(problem, n_neighbors=39))
    vector = dense.prior.centre + 0.1
    (one, slope_one), (two, slope_two) = (descent.evaluate(vector, 1e-9) for descent in (dense, near))
    assert one.solution.converged
    assert two.solution.converged
    np.testing.assert_allclose(two.solution.state.cavity, one.solution.state.cavity, atol=1e-6)
    np.testing.assert_allclose(two.solution.loo, one.solution.loo, atol=1e-7)
    np.testing.assert_allclose(slope_two, slope_one, atol=1e-5)
    queries = np.random.default_rng(1).uniform(0.0, 1.0, (9, 2))
    kept = dense.engine.posterior(one.solution), near.engine.posterior(two.solution)
    for a, b in zip(*(posterior.predict_plane(queries) for posterior in kept), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-8)


@pytest.mark.parametrize("radial_scale", [0.0, 1.0])
@pytest.mark.parametrize("noise", [GvMNoise(2, symmetric=False), ContaminatedNoise(GvMNoise(1))])
def test_gradients(radial_scale, noise):
    kernel = ConstantKernel(0.5) * Matern([0.3, 0.5], nu=1.5) + WhiteKernel(0.05)
    near = Descent(NeighborsEngine(Problem(*field(60, 2), Prior((kernel,)), noise, radial_scale), n_neighbors=6))
    vector = near.prior.centre + 0.1
    found, gradient = near.evaluate(vector, 1e-10)
    assert found.solution.converged
    step = 1e-4
    for k, unit in enumerate(np.eye(vector.size)):
        ends = [near.evaluate(vector + sign * step * unit, 1e-10)[0].objective for sign in (1.0, -1.0)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-5)


def test_more_neighbours_come_closer_to_dense_propagation():
    problem = Problem(*field(300, 2), Prior((KERNEL,)), GvMNoise(1), 1.0)
    queries = np.random.default_rng(1).uniform(0.0, 1.0, (100, 2))
    grid = -np.pi + 2.0 * np.pi / 256 * np.arange(256)

    def predicted(engine):
        solution = engine.solve(Descent(engine).prior.centre, engine.accuracy.end)
        return project_gaussians(*engine.posterior(solution).predict_plane(queries), 1.0)[..., None].pdf(grid)

    expected = predicted(DenseEngine(problem))
    variations = []
    for count in (8, 15, 30, 60):
        got = predicted(NeighborsEngine(problem, n_neighbors=count))
        variations.append(np.pi * np.abs(got - expected).mean())
    assert (np.diff(variations) < 0.0).all()
    assert variations[2] < 0.03
    assert variations[3] < 0.015


def test_hyper_parameters_are_those_of_dense_propagation():
    prior = Prior((ConstantKernel(0.5, "fixed") * Matern(0.3, nu=0.5),))
    problem = Problem(*field(200, 1), prior, GvMNoise(1), 1.0)
    dense, near = Descent(DenseEngine(problem)), Descent(NeighborsEngine(problem, n_neighbors=40))
    expected, found = (descent.run([descent.prior.centre]) for descent in (dense, near))
    assert dense.finish(found.vector).objective > expected.objective - 0.1
    assert found.solution.loo.mean() == pytest.approx(expected.solution.loo.mean(), abs=2e-3)


def test_a_search_on_many_inputs_begins_on_parts_of_them(monkeypatch):
    prior = Prior((ConstantKernel(0.5, "fixed") * Matern(0.3, nu=0.5),))
    problem = Problem(*field(500, 1), prior, GvMNoise(1), 1.0)
    near = Descent(NeighborsEngine(problem, n_neighbors=8, settings=NeighborsSettings(patches=3, patch=60)))
    whole = Descent(NeighborsEngine(problem, n_neighbors=8))
    sizes, honest = [], NeighborsEngine.objective_and_gradient

    def counted(self, *rest):
        sizes.append(self.problem.size)
        return honest(self, *rest)

    monkeypatch.setattr(NeighborsEngine, "objective_and_gradient", counted)
    found = near.run([near.prior.centre])
    assert min(sizes) <= 180
    assert sizes[-1] == 500
    whole.descend(whole.prior.centre)
    assert found.objective == pytest.approx(whole.best.objective, abs=0.5)


def test_what_it_does_not_do_is_said():
    X, replicates = field(20, 1)
    with pytest.raises(ValueError, match="shared by both coordinates"):
        NeighborsEngine(Problem(X, replicates, Prior((KERNEL, KERNEL), "separate"), GvMNoise(1), 1.0))
    copies = np.repeat(X[:4], 5, axis=0)
    with pytest.raises(ValueError, match="not positive definite"):
        Neighborhood.of(RBF(), copies, 3).weights(ConstantKernel(-1.0) * RBF())
