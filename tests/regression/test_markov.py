"""Expectation propagation on a line: the posterior of whole matrices, and the dense engine's answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from mgvm import CircularGPRegressor
from mgvm.inference._planar_gaussian import expected_statistics
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.engines.markov import Line, MarkovEngine, MarkovPosterior, smooth_line
from mgvm.regression.noise import GvMNoise, Replicates
from mgvm.regression.prior import Prior, Term, line_terms
from tests.naive import line as naive

KERNELS = {
    "rough": ConstantKernel(0.5) * Matern(1.5, nu=0.5),
    "rough and constant": ConstantKernel(0.5) * Matern(1.5, nu=0.5) + ConstantKernel(0.1),
    "smooth and constant": Matern(1.5, nu=1.5) * ConstantKernel(0.5) + ConstantKernel(0.1),
    "two": ConstantKernel(0.7) * (Matern(2.0, nu=2.5) + ConstantKernel(0.3) * Matern(0.3, nu=0.5)),
}
TIMES = {
    "one": np.array([0.3]),
    "equal steps": np.arange(30.0) / 3.0,
    "any": np.sort(np.random.default_rng(0).uniform(0.0, 10.0, 30)),
    "close and far": np.array([0.0, 1e-7, 1e-3, 1.0, 1.0 + 1e-12, 50.0, 1e6]),
}


def random_sites(size, rng, largest=3.0):
    blocks = rng.normal(size=(size, 2, 2))
    blocks = largest * rng.uniform(size=(size, 1, 1)) * blocks @ np.swapaxes(blocks, 1, 2)
    halves = -0.5 * blocks[:, 0, 0], -blocks[:, 0, 1], -0.5 * blocks[:, 1, 1]
    return np.column_stack([rng.normal(size=(size, 2)), *halves])


def moments(line, sites):
    joint = smooth_line(line, sites)
    return expected_statistics(joint.mean, joint.marginal)


# ---- smoothing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("largest", [0.0, 3.0, 1e8])
def test_smoothing_is_conditioning(kernel, times, largest):
    sites = random_sites(times.size, np.random.default_rng(1), largest)
    line = Line.of(kernel, times)
    wanted = naive.moments(Prior((kernel,)).covariance(times[:, None]), sites)
    # Concentrated sites are conditioned upon by differences of the prior's own size.
    np.testing.assert_allclose(moments(line, sites), wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_it_tells_whether_indefinite_sites_leave_a_distribution(kernel):
    rng, times = np.random.default_rng(2), TIMES["any"]
    line, covariance = Line.of(kernel, times), Prior((kernel,)).covariance(times[:, None])
    seen = []
    for _ in range(300):
        sites = random_sites(times.size, rng)
        sites[:, 2:] *= np.where(rng.uniform(size=(times.size, 1)) < rng.choice([0.05, 0.3]), -rng.uniform(), 1.0)
        sites[rng.uniform(size=times.size) < 0.1, 2:] = 0.0
        sites[rng.uniform(size=times.size) < 0.1, 3:] = 0.0  # singular
        smallest = float(np.linalg.eigvalsh(naive.precision(covariance, sites))[0])
        found = smooth_line(line, sites)
        assert (found is not None) == (smallest > 0.0)
        seen.append(found is not None)
        if found is not None and smallest > 1e-2:
            np.testing.assert_allclose(moments(line, sites), naive.moments(covariance, sites), rtol=1e-7, atol=1e-8)
    assert 30 < sum(seen) < 270


def test_what_is_filtered_may_be_none_where_the_whole_is_one():
    kernel, times = KERNELS["smooth and constant"], np.array([0.0, 0.1])
    sites = np.array([[0.3, 0.1, 1.5, 0.0, 1.5], [0.2, -0.4, -9.0, 0.0, -9.0]])  # precisions -3 and 18
    covariance = Prior((kernel,)).covariance(times[:, None])
    assert 1.0 / covariance[0, 0] < 3.0  # so that the first alone leaves none
    assert smooth_line(Line.of(kernel, times[:1]), sites[:1]) is None
    np.testing.assert_allclose(moments(Line.of(kernel, times), sites), naive.moments(covariance, sites), rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_response_is_the_slope_of_the_moments(kernel):
    rng = np.random.default_rng(3)
    for times in TIMES.values():
        line, sites, change = Line.of(kernel, times), random_sites(times.size, rng), rng.normal(size=(times.size, 5))
        step = 1e-5
        wanted = (moments(line, sites + step * change) - moments(line, sites - step * change)) / (2.0 * step)
        np.testing.assert_allclose(smooth_line(line, sites).response(change), wanted, rtol=1e-6, atol=1e-6)


def test_sums_and_products_of_kernels():
    assert line_terms(KERNELS["two"]) == [Term(0.7, 2.0, 2.5), Term(0.7 * 0.3, 0.3, 0.5)]
    assert line_terms(ConstantKernel(2.0) * ConstantKernel(0.5)) == [Term(1.0, np.inf, 0.5)]
    for kernel in (Matern() * Matern(), RBF(), Matern(nu=1.0), Matern([1.0, 2.0]), Matern() + WhiteKernel()):
        assert line_terms(kernel) is None


# ---- the engine -----------------------------------------------------------------------------------------------------


def problem(kernel, count=40, radial_scale=1.0, noise=None, **options):
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0.0, 10.0, count))
    angles = np.repeat(rng.vonmises(1.2 * np.sin(times) + 2.5, 15.0), 2) + 0.1 * rng.normal(size=2 * count)
    replicates = Replicates(angles, rng.uniform(0.5, 2.0, 2 * count), np.arange(0, 2 * count, 2))
    return Problem(times[:, None], replicates, Prior((kernel,)), noise or GvMNoise(2), radial_scale, **options)


@pytest.mark.parametrize("radial_scale", [1.0, 0.0, np.inf])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_it_answers_as_the_dense_engine(kernel, radial_scale):
    known = problem(kernel, radial_scale=radial_scale)
    vector = np.concatenate([kernel.theta, [2.5, 0.0]])
    engines = DenseEngine(known), MarkovEngine(known)
    dense, line = (engine.objective_and_gradient(vector, 1e-8) for engine in engines)
    assert dense.solution.converged
    assert line.solution.converged
    assert line.score == pytest.approx(dense.score, abs=1e-7)
    np.testing.assert_allclose(line.solution.loo, dense.solution.loo, atol=1e-7)
    np.testing.assert_allclose(line.gradient, dense.gradient, atol=1e-5)
    queries = np.array([[-3.0], [2.2], [float(known.inputs[3, 0])], [15.0], [2.2]])
    wanted, found = (
        engine.posterior(scored.solution).predict_plane(queries)
        for engine, scored in zip(engines, (dense, line), strict=True)
    )
    for one, two in zip(wanted, found, strict=True):
        np.testing.assert_allclose(two, one, atol=1e-7)
    assert engines[1].posterior(line.solution).predict_plane(queries[:0])[0].shape == (0, 2)


def test_a_search_begins_on_stretches_of_inputs_in_a_row():
    engine = MarkovEngine(problem(KERNELS["rough"], 600))
    part = engine.preliminary()
    assert part.problem.size == 300
    places = np.searchsorted(engine.problem.inputs[:, 0], part.problem.inputs[:, 0])
    assert (np.diff(places) == 1).sum() == 296  # four stretches
    assert {places[0], places[-1]} == {0, 599}
    assert MarkovEngine(problem(KERNELS["rough"], 100)).preliminary() is None


def test_it_refuses_what_it_cannot_do():
    known = problem(KERNELS["rough"])
    with pytest.raises(ValueError, match=r"sum of constants and of Matern.*use inference='ep'"):
        MarkovEngine(problem(RBF()))
    with pytest.raises(ValueError, match="one kernel shared by both coordinates"):
        MarkovEngine(Problem(known.inputs, known.replicates, Prior((RBF(), RBF()), "separate"), GvMNoise(), 1.0))
    with pytest.raises(ValueError, match=r"one column of inputs.*\(40, 2\)"):
        MarkovEngine(Problem(np.ones((40, 2)), known.replicates, known.prior, GvMNoise(), 1.0))
    with pytest.raises(ValueError, match="distinct and rising"):
        MarkovEngine(Problem(known.inputs[::-1], known.replicates, known.prior, GvMNoise(), 1.0))
    for criterion, named in (("evidence", "selection='evidence'"), ("folds", "groups")):
        with pytest.raises(ValueError, match=named):
            MarkovEngine(problem(KERNELS["rough"], criterion=criterion, folds=np.arange(40) % 2))


# ---- the regressor --------------------------------------------------------------------------------------------------


def test_long_series_are_fitted_on_a_line():
    rng = np.random.default_rng(0)
    X = np.arange(240.0)[:, None]
    y = rng.vonmises(2.0 * np.sin(X[:, 0] / 20.0), 10.0)
    options = {"kernel": ConstantKernel(0.5) * Matern(20.0, nu=1.5) + ConstantKernel(0.1), "n_starts": 1}
    models = [CircularGPRegressor(inference=name, **options).fit(X, y) for name in ("auto", "ep")]
    assert isinstance(models[0]._posteriors[0][1], MarkovPosterior)
    one, two = (model.predict_dist([[30.5], [100.0], [300.0]]).pdf(0.3) for model in models)
    np.testing.assert_allclose(one, two, rtol=1e-3)
    np.testing.assert_allclose(*(model.loo_log_density_.mean() for model in models), rtol=1e-4)


@pytest.mark.parametrize("change", [{"kernel": RBF(5.0)}, {"coordinates": "separate"}, {"X": np.ones((201, 2))}])
def test_others_are_left_to_other_engines(change):
    X = np.cumsum(change.pop("X", np.ones((201, 1))), axis=0)
    model = CircularGPRegressor(selection=None, **change).fit(X, np.sin(0.1 * X[:, 0]))
    assert not isinstance(model._posteriors[0][1], MarkovPosterior)
