"""Searches over many inputs: parts first, interruption, progress, warnings, and what ordinary data do to it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from mgvm import CircularGPRegressor
from mgvm.inference import ConvergenceWarning
from mgvm.regression.engines import neighbors
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.engines.neighborhood import Neighborhood, default_count
from mgvm.regression.engines.neighbors import (
    NeighborsEngine,
    NeighborsPosterior,
    NeighborsPropagation,
    NeighborsSettings,
)
from mgvm.regression.engines.tilted import Observations
from mgvm.regression.noise import GvMNoise, Replicates
from mgvm.regression.prior import Prior
from mgvm.regression.search import Descent

SMALL = NeighborsSettings(patches=3, patch=60)
ROUGH = ConstantKernel(0.5, "fixed") * Matern(0.3, nu=0.5)


def field(kernel, size, dimension, kappa, seed=0):
    """Inputs in a unit cube, directions of a field that follows the prior, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (size, dimension))
    x = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(size)) @ rng.normal(size=(size, 2))
    angles = np.arctan2(x[:, 1], x[:, 0]) + rng.vonmises(0.0, kappa, size)
    return X, Replicates(angles, np.ones(size), np.arange(size))


def near_engine(data, kernel=ROUGH, kappa=5.0, n_neighbors=None, settings=SMALL):
    problem = Problem(*data, Prior((kernel,)), GvMNoise(1, first=kappa), 1.0)
    return NeighborsEngine(problem, n_neighbors=n_neighbors, settings=settings)


@pytest.fixture
def small_patches(monkeypatch):
    """Searches that begin on small parts, also behind the estimator."""
    monkeypatch.setattr(neighbors.NeighborsEngine.__init__, "__defaults__", (None, None, SMALL))


@pytest.mark.parametrize("nu", [0.5, 1.5])
@pytest.mark.parametrize("kappa", [1.0, 20.0])
def test_the_default_neighbours_come_close_to_dense_propagation(nu, kappa):
    kernel = ConstantKernel(0.5) * Matern(0.3, nu=nu)
    near = near_engine(field(kernel, 400, 2, kappa), kernel, kappa)
    start = Descent(near).prior.centre
    expected, found = DenseEngine(near.problem).solve(start, 1e-7).loo, near.solve(start, 1e-3)
    assert found.converged
    away = found.loo - expected
    assert abs(away.mean()) < 0.005 + 2.0 * away.std() / 20.0
    assert abs(away.mean()) < 0.02


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dimension", [1, 2])
def test_smooth_kernels_with_little_noise_converge(dimension, seed):
    kernel = ConstantKernel(0.5) * RBF(0.1 if dimension == 1 else 0.3)
    near = near_engine(field(kernel, 500, dimension, 20.0, seed), kernel, 20.0, 30)
    found = near.solve(Descent(near).prior.centre, 1e-3)
    assert found.converged
    assert found.state.outside(1e-3) <= 0.004


def test_rough_propagation_gives_the_objective_to_second_order():
    data = field(ROUGH, 300, 2, 5.0)
    near, there = (Descent(near_engine(data, n_neighbors=12)) for _ in range(2))
    start = near.prior.centre
    exact = near.evaluate(start, 1e-9)[0].objective
    there.evaluate(start + 0.3, 1e-9)
    # Only the first step from sites of other hyper-parameters.
    run = NeighborsPropagation.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NeighborsPropagation, "run", lambda self, sites, tolerance: run(self, sites, tolerance, 1))
        found = there.engine.solve(start, 1e-9)
        rough = found.score + there.prior.log_density(start)
        there.engine._sites = found.state.sites
        patch.setattr(NeighborsPropagation, "run", lambda self, sites, tolerance: run(self, sites, tolerance, 0))
        corrected = there.evaluate(start, 1e-9)[0].objective
    plain = rough - exact
    assert abs(plain) > 1e-4
    assert abs(corrected - exact) < 0.1 * abs(plain)


def test_as_many_neighbours_as_kernel_and_dimension_ask_for():
    assert default_count(ROUGH, 1) == 30
    assert default_count(ROUGH, 2) == 24
    assert default_count(ConstantKernel() * Matern(nu=1.5) + ConstantKernel(), 1) == 30
    assert default_count(ConstantKernel() * Matern(nu=1.5) + ConstantKernel(), 2) == 40
    assert default_count(RBF() + Matern(nu=0.5) ** 2, 3) == 24


def test_blocks_shrink_where_targets_share_few_neighbours():
    rng = np.random.default_rng(0)
    plane = Neighborhood.of(RBF(), rng.uniform(size=(2000, 2)), 30)
    many = Neighborhood.of(RBF(), rng.normal(size=(2000, 10)), 30)
    assert np.mean([block.targets.size for block in plane.blocks]) > 30
    assert np.mean([block.targets.size for block in many.blocks]) < 20
    for hood in (plane, many):
        assert sorted(np.concatenate([block.targets for block in hood.blocks])) == list(range(2000))
        block = hood.blocks[3]
        np.testing.assert_array_equal(block.points[block.members[:, 0]], block.targets)
        np.testing.assert_array_equal(block.points[block.members[:, 1:]], hood.neighbors[block.targets])


def test_searches_on_parts_are_deterministic_and_end_no_lower_than_those_on_all():
    data = field(ROUGH, 600, 2, 5.0)
    ends = []
    for _ in range(2):
        near = Descent(near_engine(data, n_neighbors=12))
        ends.append(near.run([near.prior.centre]))
    np.testing.assert_array_equal(ends[0].vector, ends[1].vector)
    whole = Descent(near_engine(data, n_neighbors=12))
    whole.descend(whole.prior.centre)
    assert ends[0].objective > whole.best.objective - 0.2


@pytest.mark.parametrize("calls", [4, 1000])
def test_an_interruption_keeps_the_best_so_far(small_patches, monkeypatch, calls):
    X, replicates = field(ROUGH, 600, 2, 5.0)
    y = replicates.angles
    honest, count, whole = NeighborsEngine.objective_and_gradient, [0], [0]

    def interrupted(self, *rest):
        # Either while parts are searched, or when all inputs have been seen once.
        count[0] += 1
        whole[0] += self.problem.size == 600
        if count[0] > calls or (calls == 1000 and whole[0] > 1):
            raise KeyboardInterrupt
        return honest(self, *rest)

    monkeypatch.setattr(NeighborsEngine, "objective_and_gradient", interrupted)
    model = CircularGPRegressor(ROUGH, inference="neighbors", n_starts=1, n_neighbors=12)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best found so far"):
        model.fit(X, y)
    assert len(model.loo_log_density_) == 600
    assert model.loo_log_density_.mean() > -np.log(2.0 * np.pi)
    assert np.isfinite(model.predict(X[:3])).all()


def test_progress(small_patches, capsys):
    X, replicates = field(ROUGH, 300, 2, 5.0)
    CircularGPRegressor(ROUGH, inference="neighbors", n_starts=1, n_neighbors=8, verbose=2).fit(X, replicates.angles)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 5
    assert all(line.startswith("CircularGPRegressor: ") for line in lines)


def test_a_propagation_that_does_not_converge_is_told(monkeypatch):
    X, replicates = field(ROUGH, 60, 2, 5.0)
    run = NeighborsPropagation.run
    monkeypatch.setattr(NeighborsPropagation, "run", lambda self, sites, tolerance: run(self, sites, 1e-14, 0))
    model = CircularGPRegressor(ROUGH, inference="neighbors", selection=None, n_neighbors=8)
    with pytest.warns(
        ConvergenceWarning, match=r"did not converge: the moments of .*WhiteKernel.*n_neighbors \(now 8\)"
    ):
        model.fit(X, replicates.angles)
    assert not model.converged_


def test_silent_inputs_say_nothing():
    near = near_engine(field(ROUGH, 60, 2, 5.0), n_neighbors=8)
    known = near.problem
    hood = Neighborhood.of(ROUGH, known.inputs, 8)
    found = near.solve(Descent(near).prior.centre, 1e-3)
    observations = Observations(known.replicates, known.noise, known.noise.start, 1.0)
    problem = NeighborsPropagation(hood.neighbors, hood.weights(ROUGH), observations, np.arange(60), np.ones((60, 8)))
    problem.silent[7] = True
    sites = found.state.sites.copy()
    sites[7] = 0.0
    state, converged = problem.run(sites, 1e-8)
    assert converged
    np.testing.assert_array_equal(state.sites[7], 0.0)
    assert np.isnan(state.errors[7])
    assert state.mismatch < 1e-8


@pytest.mark.parametrize("kind", ["clustered", "contradicting", "ten columns", "close"])
def test_ordinary_data(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (300, 10 if kind == "ten columns" else 2))
    if kind == "clustered":
        X = X[:8][rng.integers(0, 8, 300)] + 0.01 * rng.normal(size=(300, 2))
    if kind == "close":
        X[1] = X[0] + 1e-12
    turn = 3.0 * X[:, 0]
    y = turn + rng.vonmises(0.0, 8.0, 300)
    if kind == "contradicting":
        X[1], y[1] = X[0], y[0] + np.pi
    kernel = ConstantKernel(0.5) * Matern(1.0, nu=0.5) + WhiteKernel(0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CircularGPRegressor(kernel, inference="neighbors", n_starts=1, n_neighbors=15).fit(X, y)
    assert isinstance(model._posteriors[0][1], NeighborsPosterior)
    error = np.abs(np.angle(np.exp(1j * (model.predict(X) - turn))))
    assert np.median(error) < 0.3
    assert model.score(X, y) > -1.0
