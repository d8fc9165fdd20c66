from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from naive import planar_gp as naive
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from mgvm import GvM, ProjectedNormal, WrappedNormal
from mgvm.angles import DegreesWarning
from mgvm.regression.base import Training, merge_replicates
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)
from mgvm.regression.baselines.planar_gp import LINE, PLANE, HyperparameterSearch, Problem, make_candidates

KERNEL = ConstantKernel(0.4) * Matern(0.3, nu=1.5) + ConstantKernel(0.2) + WhiteKernel(0.05)
FIXED = {
    "projected": ProjectedGPRegressor(KERNEL, selection=None),
    "doubled": ProjectedGPRegressor(KERNEL, selection=None, angle_multiple=2),
    "wrapped": WrappedGPRegressor(KERNEL, selection=None),
    "no input": GvMRegressor(2),
    "neighbours": NeighborsCircularRegressor(),
    "kernel": KernelCircularRegressor(),
    "forest": ForestCircularRegressor(20),
}
LEARNT = [
    ProjectedGPRegressor(n_starts=1),
    ProjectedGPRegressor(KERNEL, n_starts=1, selection="loo", angle_multiple=2),
    WrappedGPRegressor(KERNEL, n_starts=1),
    GvMRegressor(2),
    NeighborsCircularRegressor(5),
    KernelCircularRegressor(0.5),
    ForestCircularRegressor(10, min_samples_leaf=3),
]


def circle_data(size=40, noise=0.3, seed=0, replicated=True):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(size, 1))
    if replicated:
        X[: size // 4] = X[size // 4 : 2 * (size // 4)]
        X[1] = X[0]
    return X, 5.0 * X[:, 0] + noise * rng.normal(size=size)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", LEARNT, ids=lambda e: type(e).__name__)
def test_scikit_learn_accepts_it(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator)


@pytest.mark.parametrize("name", FIXED)
def test_predictive_densities_are_distributions_of_the_rows(name):
    X, y = circle_data()
    model = FIXED[name].fit(X, y)
    dist = model.predict_dist(X)
    assert dist.batch_shape == (len(X),)
    grid = -np.pi + 2.0 * np.pi / 4096 * np.arange(4096)
    np.testing.assert_allclose(dist[:, None].pdf(grid).mean(axis=1) * 2.0 * np.pi, 1.0, atol=1e-9)
    assert model.score(X, y) == pytest.approx(dist.logpdf(y).mean(), abs=1e-12)
    weights = np.arange(len(y), dtype=float)
    assert model.score(X, y, weights) == pytest.approx(np.average(dist.logpdf(y), weights=weights), abs=1e-12)
    draws = model.sample_y(X[:3], 500, random_state=1)
    assert draws.shape == (3, 500)
    np.testing.assert_allclose(np.exp(1j * draws).mean(axis=1), dist[:3].moment(1), atol=0.15)
    np.testing.assert_array_equal(draws, model.sample_y(X[:3], 500, random_state=np.random.default_rng(1)))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["projected", "wrapped"])
def test_agrees_with_gaussian_process_regressor(name):
    X, y = circle_data(replicated=False)
    model = FIXED[name].fit(X, y)
    queries = np.linspace(-0.5, 1.5, 30)[:, None]
    dist = model.predict_dist(queries)
    peer = GaussianProcessRegressor(KERNEL, optimizer=None, alpha=0.0)
    if name == "projected":
        mean, spread = peer.fit(X, np.stack([np.cos(y), np.sin(y)], axis=1)).predict(queries, return_std=True)
        np.testing.assert_allclose(dist.mean, mean, atol=1e-8)
        np.testing.assert_allclose(dist.cov, spread[:, :, None] ** 2 * np.eye(2), atol=1e-8)
        evidence = peer.log_marginal_likelihood(peer.kernel_.theta)
    else:
        offset = np.angle(np.exp(1j * (y - model.center_)))
        mean, spread = peer.fit(X, offset).predict(queries, return_std=True)
        np.testing.assert_allclose(dist.mu, model.center_ + mean, atol=1e-8)
        np.testing.assert_allclose(dist.sigma, spread, atol=1e-8)
        evidence = peer.log_marginal_likelihood(peer.kernel_.theta)
    assert model.log_evidence_ == pytest.approx(evidence, rel=1e-9)


def test_merged_replicates_are_exact():
    X, y = circle_data()
    signal, noise = KERNEL.k1, KERNEL.k2.noise_level
    values = np.stack([np.cos(y), np.sin(y)], axis=1)
    model = FIXED["projected"].fit(X, y)
    assert len(model._solution.data.inputs) < len(X)
    assert model.log_evidence_ == pytest.approx(naive.log_evidence(signal, noise, X, values), rel=1e-10)
    queries = np.linspace(-0.5, 1.5, 30)[:, None]
    mean, variance = naive.predict(signal, noise, X, values, queries)
    dist = model.predict_dist(queries)
    np.testing.assert_allclose(dist.mean, mean, atol=1e-10)
    np.testing.assert_allclose(dist.cov[:, 0, 0], variance, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in FIXED if name != "forest"])  # draws rows, not counts
def test_weights_are_counts(name):
    X, y = circle_data(20)
    counts = np.arange(20) % 4
    whole = FIXED[name].fit(X, y, counts)
    some, left, whole_loo = counts > 0, whole.loo_log_density_[counts == 0], whole.loo_log_density_
    predictions = whole.predict(X)
    np.testing.assert_allclose(left, whole.predict_dist(X[~some]).logpdf(y[~some]), atol=1e-10)
    repeated = FIXED[name].fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(np.exp(1j * repeated.predict(X)), np.exp(1j * predictions), atol=1e-8)
    np.testing.assert_allclose(repeated.loo_log_density_, np.repeat(whole_loo, counts), atol=1e-8)


@pytest.mark.parametrize("name", ["projected", "doubled", "wrapped", "no input", "neighbours", "kernel"])
def test_leave_one_out_is_that_of_refits(name):
    X, y = circle_data(24)
    model = FIXED[name].fit(X, y)
    if name in ("neighbours", "kernel"):
        given = {"n_neighbors": model._scale} if name == "neighbours" else {"bandwidth": model._scale}
        smoothing = model._smoothing

        def refit(X_, y_):
            other = type(model)(**{key: int(v) if name == "neighbours" else v for key, v in given.items()}).fit(X_, y_)
            other._smoothing = smoothing
            return other.predict_dist
    elif name == "wrapped":
        # The cut of the circle stays that of all data.
        values = np.angle(np.exp(1j * (y - model.center_)))[:, None]

        def refit(X_, y_):
            kept = np.isin(y, y_)

            def dist(query):
                mean, variance = naive.predict(KERNEL.k1, KERNEL.k2.noise_level, X[kept], values[kept], query)
                return WrappedNormal(model.center_ + mean[:, 0], np.sqrt(variance))

            return dist
    else:

        def refit(X_, y_):
            return clone(model).fit(X_, y_).predict_dist

    np.testing.assert_allclose(model.loo_log_density_, naive.left_out(refit, X, y), atol=2e-7)


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize("chart", [PLANE, LINE], ids=["projected", "wrapped"])
def test_gradients(criterion, chart):
    X, y = circle_data(20, seed=3)
    rng = np.random.default_rng(5)
    found = merge_replicates(Training(X, y, rng.uniform(0.5, 3.0, 20)))
    process = make_candidates(None, found.inputs, 0.5, 0.5)[1]
    search = HyperparameterSearch(Problem.of(found.inputs, found.replicates, chart), process, criterion)
    for _ in range(3):
        at = process.theta + rng.normal(0.0, 0.7, process.theta.size)
        steps = 1e-5 * np.eye(at.size)
        slopes = [(search.value(at + step)[0] - search.value(at - step)[0]) / 2e-5 for step in steps]
        np.testing.assert_allclose(search.value(at)[1], slopes, rtol=1e-6, atol=1e-6)


def test_left_out_rows_and_inputs_make_the_criterion():
    X, y = circle_data(24)
    signal, noise = KERNEL.k1, KERNEL.k2.noise_level

    def dist(X_, y_, query):
        mean, variance = naive.predict(signal, noise, X_, PLANE.coordinates(y_), query)
        return ProjectedNormal(mean, variance[:, None, None] * np.eye(2))

    total = 0.0
    for row in range(24):
        same = (X[row] == X).all(axis=1)
        rest = np.arange(24) != row
        by_input, by_row = (dist(X[kept], y[kept], X[row : row + 1]).logpdf(y[row])[0] for kept in (~same, rest))
        total += by_input / same.sum() + by_row * (1.0 - 1.0 / same.sum())
    found = merge_replicates(Training(X, y, np.ones(24)))
    process = make_candidates(KERNEL, found.inputs, 0.5, 0.5)[0]
    search = HyperparameterSearch(Problem.of(found.inputs, found.replicates, PLANE), process, "loo")
    assert search.value(process.theta)[0] == pytest.approx(total, rel=1e-9)


def test_densities_of_gaussian_predictions():
    rng = np.random.default_rng(0)
    angles, means = rng.uniform(-np.pi, np.pi, 200), 3.0 * rng.normal(size=(200, 2))
    variance = np.exp(rng.normal(-1.0, 2.0, 200))
    dist = ProjectedNormal(means, variance[:, None, None] * np.eye(2))
    np.testing.assert_allclose(PLANE.density(angles, means, variance).log_density, dist.logpdf(angles), rtol=1e-10)
    line = WrappedNormal(means[:, 0], np.sqrt(variance))
    found = LINE.density(angles, means[:, :1], variance).log_density
    np.testing.assert_allclose(found, line.logpdf(angles), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("selection", ["evidence", "loo"])
def test_recovers_a_field(selection):
    rng = np.random.default_rng(1)
    X = np.linspace(0.0, 10.0, 200)[:, None]
    kernel = ConstantKernel(0.5) * Matern(1.0, nu=1.5)
    plane = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(200)) @ rng.normal(size=(200, 2))
    direction = np.arctan2(plane[:, 1], plane[:, 0])
    y = direction + 0.2 * rng.normal(size=200)
    model = ProjectedGPRegressor(selection=selection, n_starts=1).fit(X[::2], y[::2])
    assert np.cos(model.predict(X[1::2]) - direction[1::2]).mean() > 0.9
    assert abs(model.score(X[1::2], y[1::2]) - model.loo_log_density_.mean()) < 0.25


def test_axial_data_want_the_doubled_angle():
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(80, 1))
    y = 2.0 * X[:, 0] + 0.2 * rng.normal(size=80) + np.pi * rng.integers(0, 2, 80)
    plain, doubled = (ProjectedGPRegressor(angle_multiple=k, n_starts=1).fit(X, y) for k in (1, 2))
    assert doubled.loo_log_density_.mean() > plain.loo_log_density_.mean() + 0.5
    dist = doubled.predict_dist([[0.5]])
    np.testing.assert_allclose(dist.pdf(0.3), dist.pdf(0.3 + np.pi), rtol=1e-10)
    assert np.abs(np.cos(2.0 * (doubled.predict([[0.5]]) - 1.0))) > 0.9


def test_a_projected_process_does_not_see_the_zero_direction():
    X, y = circle_data()
    here = ProjectedGPRegressor(KERNEL, selection=None).fit(X, y).predict_dist(X)
    there = ProjectedGPRegressor(KERNEL, selection=None).fit(X, y + 1.0).predict_dist(X)
    np.testing.assert_allclose(there.logpdf(y + 1.0), here.logpdf(y), atol=1e-9)


def test_many_rides_on_few_days_are_fitted_fast():
    rng = np.random.default_rng(3)
    days = np.repeat(np.arange(10.0), 5000)[:, None]
    y = 0.3 * days[:, 0] + rng.vonmises(0.0, 1.0, 50_000)
    y = np.rint(200.0 * y) / 200.0
    model = ProjectedGPRegressor(n_starts=1).fit(days, y)
    assert model._solution.alpha.shape == (10, 2)
    assert model.loo_log_density_.shape == y.shape
    np.testing.assert_allclose(model.predict([[5.0]]), 1.5, atol=0.05)
    assert np.isfinite(model.score(days, y))


@pytest.mark.parametrize("sizes", [(0,), (1,), (7,), (3, 1, 5)])
def test_merging_adds_the_weights_of_equal_pairs(sizes):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (sum(sizes), 2)).astype(float)
    y, weights = rng.integers(-2, 2, sum(sizes)) / 2.0, rng.integers(0, 3, sum(sizes)).astype(float)
    found = merge_replicates(Training(X, y, weights))
    pairs = {}
    for x, angle, weight in zip(X.tolist(), y.tolist(), weights.tolist(), strict=True):
        if weight:
            pairs[*x, angle] = pairs.get((*x, angle), 0.0) + weight
    expected = sorted(pairs.items())
    np.testing.assert_array_equal(found.replicates.angles, [key[2] for key, _ in expected])
    np.testing.assert_array_equal(found.replicates.weights, [weight for _, weight in expected])
    inputs = sorted({key[:2] for key in pairs})
    np.testing.assert_array_equal(found.inputs, np.reshape(inputs, (-1, 2)))
    for row in range(len(y)):
        if not weights[row]:
            assert found.input_of_row[row] == found.angle_of_row[row] == -1
            continue
        np.testing.assert_array_equal(found.inputs[found.input_of_row[row]], X[row])
        assert found.replicates.angles[found.angle_of_row[row]] == y[row]
        assert found.replicates.starts[found.input_of_row[row]] <= found.angle_of_row[row]


def test_orders_and_single_inputs():
    rng = np.random.default_rng(4)
    y = GvM([0.5, 2.0]).sample(200, rng=rng)
    X = np.zeros((200, 1))
    assert GvMRegressor("auto").fit(X, y).order_ == 2
    assert GvMRegressor("auto").fit(rng.normal(size=(200, 1)), y).order_ == 2
    for model in (NeighborsCircularRegressor(), KernelCircularRegressor()):
        assert model.fit(X, y).score(X, y) > -1.5
    for estimator in FIXED.values():
        estimator.fit([[0.0]], [1.0])
        assert np.isfinite(estimator.predict([[0.0], [3.0]])).all()
        estimator.fit([[0.0], [1.0], [2.0]], [1.0, 1.0, 1.0])
        assert np.isfinite(estimator.score([[0.5]], [1.0]))


def test_rounded_angles_are_not_spikes():
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(200, 1))
    exact = 2.0 * X[:, 0] + 0.4 * rng.normal(size=200)
    step = np.pi / 18.0
    for model in (NeighborsCircularRegressor(20), KernelCircularRegressor(0.1)):
        fine = model.fit(X, exact).loo_log_density_.mean()
        coarse = model.fit(X, step * np.rint(exact / step))
        assert coarse.concentration_ <= 4.0 / step**2
        assert abs(coarse.loo_log_density_.mean() - fine) < 0.1


def test_in_pipelines_searches_and_frames():
    X, y = circle_data(40)
    frame = pd.DataFrame({"place": X[:, 0], "height": 100.0 * X[:, 0] ** 2})
    search = GridSearchCV(
        make_pipeline(StandardScaler(), NeighborsCircularRegressor()),
        {"neighborscircularregressor__n_neighbors": [1, 5]},
        cv=3,
    )
    assert search.fit(frame, y).best_score_ > -1.5
    model = KernelCircularRegressor().fit(frame, y)
    assert list(model.feature_names_in_) == ["place", "height"]
    assert model.predict(frame).shape == (40,)


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIXED)
def test_bad_input_is_named(name):
    X, y = circle_data(20)
    model = FIXED[name]
    holes = pd.DataFrame({"a": X[:, 0], "b": X[:, 0]})
    holes.loc[[2, 3], "b"] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN: 2 values in 2 of 20 rows, in column 'b'.*SimpleImputer"):
        model.fit(holes, y)
    with pytest.raises(ValueError, match=r"X contains infinity: 1 values in 1 of 20 rows, in column 0"):
        model.fit(np.where(np.arange(20)[:, None] == 4, np.inf, X), y)
    with pytest.raises(ValueError, match=r"y must be finite radians, got nan at index 3"):
        model.fit(X, np.where(np.arange(20) == 3, np.nan, y))
    with pytest.raises(ValueError, match=r"X has 20 rows and y has 19 angles"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"requires y"):
        model.fit(X, None)
    with pytest.raises(ValueError, match=r"sample_weight must be >= 0"):
        model.fit(X, y, -np.ones(20))
    with pytest.warns(DegreesWarning, match=r"looks like degrees"):
        model.fit(X, np.rad2deg(y % (2.0 * np.pi)))
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 1"):
        model.predict(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"NaN"):
        model.predict([[np.nan]])


@pytest.mark.parametrize("model", [ProjectedGPRegressor(KERNEL, selection=None), NeighborsCircularRegressor()])
def test_wild_scales_are_warned_of(model):
    X, y = circle_data(20)
    frame = pd.DataFrame({"near": X[:, 0], "far": 1e6 * X[::-1, 0]})
    with pytest.warns(UserWarning, match=r"column 'near' .*column 'far'.*StandardScaler"):
        model.fit(frame, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ProjectedGPRegressor("rbf"), "kernel must be a kernel"),
        (ProjectedGPRegressor(selection="cv"), "selection must be one of"),
        (ProjectedGPRegressor(angle_multiple=0), "angle_multiple must be >= 1"),
        (ProjectedGPRegressor(n_starts=0), "n_starts must be >= 1"),
        (ProjectedGPRegressor(ConstantKernel(-1.0, "fixed")), "not positive definite"),
        (WrappedGPRegressor(tuning_rows=1), "tuning_rows must be >= 2"),
        (GvMRegressor(0), "order must be >= 1"),
        (GvMRegressor("best"), "order must be one of 'auto'"),
        (NeighborsCircularRegressor(0), "n_neighbors must be >= 1"),
        (KernelCircularRegressor(-1.0), "bandwidth must be > 0"),
    ],
)
def test_bad_parameters_are_named(model, message):
    X, y = circle_data(20)
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(X, y)


@pytest.mark.parametrize("bandwidth", [0.2, 30.0])
def test_kernel_weights_of_near_inputs_are_those_of_all(bandwidth):
    # Few inputs are within reach of a narrow kernel, all of a wide one; the last query is far from every input.
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 300.0, 400))[:, None]
    model = KernelCircularRegressor(bandwidth=bandwidth).fit(X, rng.uniform(-3.0, 3.0, 400))
    queries, own = np.concatenate([X[:50], [[900.0]]]), np.append(np.arange(50), -1)
    found = next(model._weights(queries, [bandwidth], own))
    square = (queries - X[:, 0]) ** 2
    square[np.arange(50), np.arange(50)] = np.inf
    wanted = np.exp(-0.5 * (square - square.min(axis=1, keepdims=True)) / bandwidth**2)
    assert hasattr(found, "toarray") == (bandwidth < 1.0)
    # At the distance of 600 an exponent of 40 has the rounding of squares of 360,000 in units of h².
    found = found.toarray() if hasattr(found, "toarray") else found
    np.testing.assert_allclose(found, wanted, atol=1e-8)


@pytest.mark.parametrize("bandwidth", [0.001, 0.1, None])
@pytest.mark.parametrize("size", [60, 800])
def test_kernels_far_from_all_inputs_take_the_nearest(size, bandwidth):
    # Squares of the distances are rounded by more than the kernels are wide, and not alike from formula to formula.
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (size, 3))
    y = 2.0 * X[:, 0]
    model = KernelCircularRegressor(bandwidth).fit(X, y)
    for far in (10.0, 1e7, 1e9, 1e12, 1e100):
        found = model.predict([[far, far / 3, -far], [far, 0.2, 0.3]])
        assert (np.abs(found - 1.0) < 1.05).all()  # a mean of angles between 0 and 2, and a little of no direction


def test_inputs_far_from_all_others_are_left_out_in_silence():
    # Of an input left out the squared distance to itself, less that to the nearest other, is far below zero.
    rng = np.random.default_rng(0)
    X = np.concatenate([1e-3 * rng.normal(size=(500, 2)), rng.normal(size=(5, 2))])
    model = KernelCircularRegressor().fit(X, rng.vonmises(0.0, 5.0, 505))
    assert np.isfinite(model.loo_log_density_).all()
