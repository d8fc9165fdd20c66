"""Predictive densities corrected by what left-out angles say of them."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

import mgvm
from mgvm import CircularGPRegressor, GridDensity, VonMises
from mgvm.regression import RecalibratedRegressor
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor
from mgvm.regression.recalibration import Recalibration, Transformed, learn_recalibration, transform_angles
from tests.naive.recalibration import recalibrated_density


def scattered(count, seed=0, columns=1):
    """A curve with a sharp peak of scatter on a broad one, which no von Mises noise is."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (count, columns))
    return X, np.sin(X[:, 0]) + rng.normal(0.0, rng.choice([0.1, 0.8], count, p=[0.8, 0.2]))


def constant(eta):
    model = GvMRegressor(len(eta)).fit(np.zeros((9, 1)), np.linspace(-2.0, 2.5, 9))
    model.distribution_ = mgvm.GvM(eta)
    return Recalibration("constant", model)


@pytest.mark.parametrize("concentration", [0.3, 5.0, 400.0])
@pytest.mark.parametrize("eta", [[0.4 - 0.2j, 0.3j], [-1.0 + 0.0j, 0.5 + 0.5j]])
def test_corrected_density_is_the_product_formula(concentration, eta):
    dist = VonMises(2.9, concentration)  # its mass lies across ±π
    count = 64 + 16 * int(np.sqrt(concentration))
    nodes = -np.pi + 2.0 * np.pi * np.arange(count) / count
    grid = GridDensity(dist.logpdf(nodes)[None])
    corrected = constant(np.array(eta)).apply(np.zeros((1, 1)), grid)
    points = 2.9 + np.linspace(-2.5, 2.5, 11) / np.sqrt(1.0 + concentration)
    # Sixteen-point polynomials of the logarithm, and the twin's midpoint rule on 200,000 cells.
    assert_allclose(corrected.pdf(points), recalibrated_density(dist.pdf, eta, points), rtol=1e-6)


def test_corrected_densities_are_normalised_before_they_are_divided():
    model = CircularGPRegressor(recalibrate="gp", random_state=0).fit(*scattered(150))
    X = np.linspace(0.0, 6.0, 50)[:, None]
    raw = CircularGPRegressor(random_state=0).fit(*scattered(150)).predict_dist(X)
    there = np.linspace(-np.pi, np.pi, 2_001)[:-1]
    v = transform_angles(raw, there[:, None])
    logs = raw.logpdf(there[:, None]) + model.recalibration_.log_factor(X, v)
    # The trapezoid rule on 2,000 points of densities no narrower than 0.05.
    assert_allclose(np.exp(logs).mean(axis=0) * 2.0 * np.pi, 1.0, atol=1e-6)
    assert_allclose(model.predict_dist(X).logpdf(there[::50, None]), logs[::50], atol=1e-5)


def test_transformed_angles_are_uniform_under_the_truth_and_cut_opposite_the_mean():
    dist = VonMises(np.linspace(-3.0, 3.0, 2000), 4.0)
    v = transform_angles(dist, dist.sample(rng=np.random.default_rng(0)))
    assert mgvm.angles.kuiper_test(v).p_value > 1e-5
    assert_allclose(transform_angles(dist, np.asarray(dist.mean_direction())), 0.0, atol=1e-12)


@pytest.mark.parametrize("method", ["constant", "gp"])
def test_a_correction_is_learnt_where_the_noise_has_another_shape(method):
    X, y = scattered(300)
    model = CircularGPRegressor(recalibrate=method, random_state=0).fit(X[:200], y[:200])
    plain = CircularGPRegressor(random_state=0).fit(X[:200], y[:200])
    assert model.recalibration_.method == method
    assert model.loo_log_density_.mean() > plain.loo_log_density_.mean() + 0.1
    assert model.score(X[200:], y[200:]) > plain.score(X[200:], y[200:]) + 0.1


def test_uniform_values_are_left_as_they_are():
    rng = np.random.default_rng(1)
    kept = [
        learn_recalibration(
            Transformed(rng.random((200, 1)), rng.uniform(-np.pi, np.pi, 200), np.ones(200), np.arange(200)), "constant"
        )
        for _ in range(20)
    ]
    # Four parameters lose about two nats on values not seen: a gain by chance is rarer than one in four.
    assert sum(gain is not None for gain in kept) <= 10


@pytest.mark.parametrize("inference", ["neighbors", "markov", "ep"])
def test_every_engine_is_corrected(inference):
    X, y = scattered(120, columns=1)
    model = CircularGPRegressor(recalibrate="constant", inference=inference, random_state=0).fit(X, y)
    assert model.recalibration_ is not None
    assert np.isfinite(model.predict_dist(X[:5]).logpdf(y[:5])).all()


def test_chains_are_corrected():
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    X, y = scattered(100)
    kernel = ConstantKernel(0.5) * Matern(1.0, nu=0.5)
    model = CircularGPRegressor(kernel, radial_scale="hard", recalibrate="constant").fit(X, y)
    assert model.recalibration_ is not None


def test_weights_are_repeated_rows_and_replicates_share_an_input():
    X, y = scattered(80)
    weight = np.where(np.arange(80) % 4 == 0, 2.0, 1.0)
    options = {"recalibrate": "constant", "random_state": 0}
    weighted = CircularGPRegressor(**options).fit(X, y, weight)
    rows = np.repeat(np.arange(80), weight.astype(int))
    repeated = CircularGPRegressor(**options).fit(X[rows], y[rows])
    # Both merge to the same replicates; what differs is the order of sums.
    assert_allclose(weighted.predict_dist(X).logpdf(y), repeated.predict_dist(X).logpdf(y), atol=1e-6)


def test_rows_without_weight_are_predicted():
    X, y = scattered(100)
    weight = np.ones(100)
    weight[::10] = 0.0
    model = CircularGPRegressor(recalibrate="constant", random_state=0).fit(X, y, weight)
    assert_allclose(model.loo_log_density_[::10], model.log_density(X[::10], y[::10]))


def test_a_gram_matrix_is_corrected():
    X, y = scattered(100)
    gram = np.exp(-0.5 * (X - X.T) ** 2)
    model = CircularGPRegressor("precomputed", recalibrate="gp", random_state=0).fit(gram, y)
    assert model.recalibration_ is not None
    assert np.isfinite(model.score(gram[:7], y[:7]))


def test_few_inputs_are_left_alone_and_that_is_said():
    X, y = scattered(50)
    assert CircularGPRegressor(recalibrate="auto", random_state=0).fit(X, y).recalibration_ is None
    with pytest.warns(UserWarning, match="averaged over hyper-parameters.*average=False"):
        CircularGPRegressor(recalibrate="gp", random_state=0).fit(X, y)
    model = CircularGPRegressor(recalibrate="constant", average=False, random_state=0).fit(X, y)
    assert model.recalibration_ is not None


def test_groups_are_left_to_the_meta_estimator():
    X, y = scattered(90)
    groups = np.arange(90) // 9
    assert CircularGPRegressor(recalibrate="auto", random_state=0).fit(X, y, groups=groups).recalibration_ is None
    with pytest.raises(ValueError, match="RecalibratedRegressor"):
        CircularGPRegressor(recalibrate="gp", random_state=0).fit(X, y, groups=groups)
    model = RecalibratedRegressor(ProjectedGPRegressor(), "constant").fit(X, y, groups=groups)
    assert model.loo_log_density_.shape == (90,)


def test_more_inputs_than_a_process_learns_from(monkeypatch):
    from mgvm.regression import recalibration

    monkeypatch.setattr(recalibration, "SETTINGS", recalibration.RecalibrationSettings(most=60))
    model = CircularGPRegressor(recalibrate="gp", random_state=0).fit(*scattered(150))
    assert model.recalibration_.model.n_inputs_ == 60
    assert model.loo_log_density_.shape == (150,)


def test_any_regressor_is_corrected_in_its_own_unit(tmp_path):
    X, y = scattered(200)
    # One distribution for all inputs is far too wide where there is little scatter.
    plain = KernelCircularRegressor().fit(X, y)
    model = RecalibratedRegressor(KernelCircularRegressor(), unit="degrees").fit(X, np.rad2deg(y))
    assert model.score(X, np.rad2deg(y)) > plain.score(X, y) - 0.05
    assert model.predict(X).max() > 60.0
    mgvm.save(model, tmp_path / "model.mgvm")
    again = mgvm.load(tmp_path / "model.mgvm")
    assert_allclose(again.predict(X[:9]), model.predict(X[:9]))


def test_what_cannot_be_corrected_is_refused():
    X, y = scattered(30)
    with pytest.raises(TypeError, match="LinearRegression without predict_dist"):
        RecalibratedRegressor(LinearRegression()).fit(X, y)
    with pytest.raises(ValueError, match="2 different ones at least"):
        RecalibratedRegressor(GvMRegressor()).fit(np.zeros((30, 1)), y)
    with pytest.raises(ValueError, match="recalibrate must be"):
        CircularGPRegressor(recalibrate="always").fit(X, y)
    with pytest.raises(ValueError, match="groups must have one label a row"):
        RecalibratedRegressor(GvMRegressor()).fit(X, y, groups=[1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CircularGPRegressor().fit(X, y).recalibration_ is None


def test_equal_angles_are_recalibrated_without_a_warning_about_an_order_nobody_asked_for():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RecalibratedRegressor(KernelCircularRegressor()).fit(X, np.full(60, 0.3))
    np.testing.assert_allclose(model.predict(X[:3]), 0.3, atol=0.05)


@pytest.mark.parametrize("spread", [1e-5, 1e-8])
def test_a_correction_much_narrower_than_the_density_keeps_its_place(spread):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), 0.3 + spread * rng.normal(size=60)
    predicted = RecalibratedRegressor(KernelCircularRegressor(), "constant").fit(X, y).predict_dist(X[:3])
    assert_allclose(predicted.mean_direction(), 0.3, atol=0.01)
    assert_allclose(predicted.circular_variance(), 0.0, atol=0.01)
