"""Searches over many inputs: parts first, interruption, progress, warnings, and what ordinary data do to it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from mgvm import CircularGPRegressor
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression.engines import neighbours
from mgvm.regression.engines.dense import Tuning
from mgvm.regression.engines.neighbours import Neighbourhood, NeighbourPropagation, NeighbourTuning, default_count
from mgvm.regression.noise import GvMNoise, Replicates
from mgvm.regression.prior import Prior
from mgvm.regression.search import NeighbourFitted

ROUGH = ConstantKernel(0.5, "fixed") * Matern(0.3, nu=0.5)


def field(kernel, size, dimension, kappa, seed=0):
    """Inputs in a unit cube, directions of a field that follows the prior, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (size, dimension))
    x = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(size)) @ rng.normal(size=(size, 2))
    angles = np.arctan2(x[:, 1], x[:, 0]) + rng.vonmises(0.0, kappa, size)
    return X, Replicates(angles, np.ones(size), np.arange(size))


@pytest.fixture
def small_patches(monkeypatch):
    monkeypatch.setattr(neighbours, "_PATCHES", 3)
    monkeypatch.setattr(neighbours, "_PATCH", 60)


@pytest.mark.parametrize("nu", [0.5, 1.5])
@pytest.mark.parametrize("kappa", [1.0, 20.0])
def test_the_default_neighbours_come_close_to_dense_propagation(nu, kappa):
    kernel = ConstantKernel(0.5) * Matern(0.3, nu=nu)
    X, replicates = field(kernel, 400, 2, kappa)
    dense = Tuning(X, replicates, Prior((kernel,)), GvMNoise(1, first=kappa), 1.0)
    near = NeighbourTuning(X, replicates, Prior((kernel,)), GvMNoise(1, first=kappa), 1.0)
    expected, found = dense.finish(dense.start).score.parts, near.finish(near.start)
    assert found.converged
    away = found.loo - expected
    assert abs(away.mean()) < 0.005 + 2.0 * away.std() / 20.0
    assert abs(away.mean()) < 0.02


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dimension", [1, 2])
def test_smooth_kernels_with_little_noise_settle(dimension, seed):
    kernel = ConstantKernel(0.5) * RBF(0.1 if dimension == 1 else 0.3)
    X, replicates = field(kernel, 500, dimension, 20.0, seed)
    near = NeighbourTuning(X, replicates, Prior((kernel,)), GvMNoise(1, first=20.0), 1.0, 30)
    found = near.finish(near.start)
    assert found.converged
    assert found.state.outside(1e-3) <= 0.004


def test_rough_propagation_gives_the_objective_to_second_order():
    X, replicates = field(ROUGH, 300, 2, 5.0)
    near = NeighbourTuning(X, replicates, Prior((ROUGH,)), GvMNoise(1), 1.0, 12)
    exact = near.solve(near.start, 1e-9)[0].objective
    there = NeighbourTuning(X, replicates, Prior((ROUGH,)), GvMNoise(1), 1.0, 12)
    there.solve(near.start + 0.3, 1e-9)
    # Only the first step from sites of other hyper-parameters.
    run = NeighbourPropagation.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NeighbourPropagation, "run", lambda self, sites, tolerance: run(self, sites, tolerance, 1))
        rough, _ = there.tuned(near.start, 1e-9)
        there._sites = rough.state.sites
        patch.setattr(NeighbourPropagation, "run", lambda self, sites, tolerance: run(self, sites, tolerance, 0))
        corrected = there.solve(near.start, 1e-9)[0].objective
    plain = rough.objective - exact
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
    plane = Neighbourhood.of(RBF(), rng.uniform(size=(2000, 2)), 30)
    many = Neighbourhood.of(RBF(), rng.normal(size=(2000, 10)), 30)
    assert np.mean([block.targets.size for block in plane.blocks]) > 30
    assert np.mean([block.targets.size for block in many.blocks]) < 20
    for hood in (plane, many):
        assert sorted(np.concatenate([block.targets for block in hood.blocks])) == list(range(2000))
        block = hood.blocks[3]
        np.testing.assert_array_equal(block.points[block.members[:, 0]], block.targets)
        np.testing.assert_array_equal(block.points[block.members[:, 1:]], hood.neighbours[block.targets])


def test_searches_on_parts_are_deterministic_and_end_no_lower_than_those_on_all(small_patches):
    X, replicates = field(ROUGH, 600, 2, 5.0)
    ends = []
    for _ in range(2):
        near = NeighbourTuning(X, replicates, Prior((ROUGH,)), GvMNoise(1), 1.0, 12)
        ends.append(near.search([near.start]))
    np.testing.assert_array_equal(ends[0].prior.theta, ends[1].prior.theta)
    whole = NeighbourTuning(X, replicates, Prior((ROUGH,)), GvMNoise(1), 1.0, 12)
    whole._descend(whole.start, 60)
    assert ends[0].objective > whole.best.objective - 0.2


@pytest.mark.parametrize("calls", [4, 1000])
def test_an_interruption_keeps_the_best_so_far(small_patches, monkeypatch, calls):
    X, replicates = field(ROUGH, 600, 2, 5.0)
    y = replicates.angles
    solve, count = NeighbourTuning.solve, [0]

    def interrupted(self, *rest):
        # Either while parts are searched, or when all inputs have been seen once.
        count[0] += 1
        if count[0] > calls or (calls == 1000 and len(self.inputs) == 600 and self.best is not None):
            raise KeyboardInterrupt
        return solve(self, *rest)

    monkeypatch.setattr(NeighbourTuning, "solve", interrupted)
    model = CircularGPRegressor(ROUGH, inference="neighbours", n_starts=1, n_neighbors=12)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best found so far"):
        model.fit(X, y)
    assert len(model.loo_log_density_) == 600
    assert model.loo_log_density_.mean() > -np.log(2.0 * np.pi)
    assert np.isfinite(model.predict(X[:3])).all()


def test_progress(small_patches, capsys):
    X, replicates = field(ROUGH, 300, 2, 5.0)
    CircularGPRegressor(ROUGH, inference="neighbours", n_starts=1, n_neighbors=8, verbose=2).fit(X, replicates.angles)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 5
    assert all(line.startswith("CircularGPRegressor: ") for line in lines)


def test_a_propagation_that_does_not_settle_is_told(monkeypatch):
    X, replicates = field(ROUGH, 60, 2, 5.0)
    run = NeighbourPropagation.run
    monkeypatch.setattr(NeighbourPropagation, "run", lambda self, sites, tolerance: run(self, sites, 1e-14, 0))
    model = CircularGPRegressor(ROUGH, inference="neighbours", selection=None, n_neighbors=8)
    with pytest.warns(ConvergenceWarning, match=r"did not settle: the moments of .*WhiteKernel.*n_neighbors \(now 8\)"):
        model.fit(X, replicates.angles)
    assert not model.converged_


def test_silent_inputs_say_nothing():
    X, replicates = field(ROUGH, 60, 2, 5.0)
    near = NeighbourTuning(X, replicates, Prior((ROUGH,)), GvMNoise(1), 1.0, 8)
    dists = Neighbourhood.of(ROUGH, X, 8)
    found = near.finish(near.start)
    problem = NeighbourPropagation(
        dists.neighbours, dists.weights(ROUGH), _observations(near), np.arange(60), np.ones((60, 8))
    )
    problem.silent[7] = True
    sites = found.state.sites.copy()
    sites[7] = 0.0
    state, settled = problem.run(sites, 1e-8)
    assert settled
    np.testing.assert_array_equal(state.sites[7], 0.0)
    assert np.isnan(state.errors[7])
    assert state.mismatch < 1e-8


def _observations(near):
    from mgvm.regression.engines.tilted import Observations

    return Observations(near.replicates, near.noise, near.noise.start, near.spread)


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
        model = CircularGPRegressor(kernel, inference="neighbours", n_starts=1, n_neighbors=15).fit(X, y)
    assert isinstance(model._fits[0][1], NeighbourFitted)
    error = np.abs(np.angle(np.exp(1j * (model.predict(X) - turn))))
    assert np.median(error) < 0.3
    assert model.score(X, y) > -1.0
