"""Weights are numbers of copies of rows: as many as there may be give the right answer, others are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from portable import von_mises_draws
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from mgvm import CircularGPRegressor, CircularRegressor, CircularStackingRegressor, GvM, HarmonicGPRegressor
from mgvm.regression import RecalibratedRegressor
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Replicates, bounded_likelihood

KERNEL = ConstantKernel(0.35) * Matern(3.6, nu=1.5) + ConstantKernel(0.14)
MODELS = {
    "front door": CircularRegressor(),
    "circular": CircularGPRegressor(KERNEL, n_starts=1, average=False),
    "neighbours of a process": CircularGPRegressor(
        KERNEL, n_starts=1, average=False, inference="neighbors", n_neighbors=8
    ),
    "harmonic": HarmonicGPRegressor(Matern(0.5, nu=1.5), order=1),
    "projected": ProjectedGPRegressor(n_starts=1),
    "wrapped": WrappedGPRegressor(n_starts=1),
    "no input": GvMRegressor(),
    "forest": ForestCircularRegressor(n_estimators=10),
    "neighbours": NeighborsCircularRegressor(),
    "kernel": KernelCircularRegressor(),
    "stack": CircularStackingRegressor([("none", GvMRegressor()), ("near", NeighborsCircularRegressor(3))]),
    "recalibrated": RecalibratedRegressor(KernelCircularRegressor()),
}
PROCESSES = ("circular", "neighbours of a process", "harmonic")
X = np.linspace(0.0, 1.0, 20)[:, None] ** 1.2
SCATTERED = von_mises_draws(np.random.default_rng(0), 0.7, 3.0, 20)
SMOOTH = 4.0 * X[:, 0] * (1.0 - X[:, 0]) + von_mises_draws(np.random.default_rng(1), 0.0, 100.0, 20)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(20, 1e8), r"counts copies of rows, and sums to 2e\+09, more than 1e\+09.*divide the weights"),
        (np.full(20, 1e308), r"sums to inf, more than"),
        (np.full(20, 1e-300), r"is 1e-300 at most, 2e-299 in all, less than 1e-09.*multiply the weights"),
        (np.full(20, 5e-324), r"nothing would be learnt"),
    ],
)
def test_counts_that_cannot_be_are_refused(name, weights, message):
    with pytest.raises(ValueError, match=message):
        clone(MODELS[name]).fit(X, SCATTERED, sample_weight=weights)


@pytest.mark.parametrize("name", ["no input", "circular", "front door", "stack", "recalibrated"])
def test_shares_are_warned_of_once(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(MODELS[name]).fit(X, SCATTERED, sample_weight=np.full(20, 0.05))
    (said,) = (str(entry.message) for entry in caught)
    assert said.startswith("sample_weight sums to 1 over 20 rows: it counts copies of rows")
    assert "as from one observation; if the weights are relative, multiply them by 20" in said


def test_few_rows_and_zeros_are_no_shares():
    GvMRegressor().fit(X[:9], SCATTERED[:9], sample_weight=np.full(9, 0.1))
    GvMRegressor().fit(X, SCATTERED, sample_weight=np.eye(20)[3])


@pytest.mark.parametrize("name", ["kernel", "forest", "circular"])
def test_weights_that_vanish_beside_others_are_none(name):
    few = np.arange(20) % 2.0
    one, other = (clone(MODELS[name]).fit(X, SMOOTH, sample_weight=w) for w in (few, np.where(few, few, 5e-324)))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_scores_hold_weights_of_any_size():
    model = GvMRegressor().fit(X, SCATTERED)
    some = 1.0 + np.arange(20)
    expected = np.average(model.log_density(X, SCATTERED), weights=some)
    for scale in (1e-320, 1e306):
        assert model.score(X, SCATTERED, scale * some) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("angles", [SCATTERED, SMOOTH])
def test_a_thousand_copies_of_each_angle_are_a_weight_of_a_thousand(name, angles):
    weighted = clone(MODELS[name]).fit(X, angles, sample_weight=np.full(20, 1000.0))
    repeated = clone(MODELS[name]).fit(np.repeat(X, 1000, axis=0), np.repeat(angles, 1000))
    assert weighted.converged_
    np.testing.assert_allclose(repeated.predict(X), weighted.predict(X), atol=1e-9)
    np.testing.assert_allclose(repeated.loo_log_density_[::1000], weighted.loo_log_density_, atol=1e-6)
    # All of a thousand angles are equal: so will the next be, up to what the nugget of a kernel lets inputs differ by.
    away = np.abs(np.exp(1j * weighted.predict(X)) - np.exp(1j * angles)).max()
    if name == "harmonic":
        assert away < 0.01
        assert weighted.predict_dist(X).resultant_length().min() > 0.999
    elif angles is SMOOTH:
        assert away < 0.3  # three standard deviations of the scatter about the curve
    assert weighted.loo_log_density_.min() > 3.0


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("most", [1e3, 4e7])
def test_uneven_counts_of_any_size_are_fitted(name, most):
    weights = most * np.linspace(0.1, 1.0, 20)[np.random.default_rng(2).permutation(20)]
    model = clone(MODELS[name]).fit(X, SCATTERED, sample_weight=weights)
    assert model.converged_
    assert np.isfinite(model.predict_dist(X).entropy()).all()
    assert model.loo_log_density_.min() > 3.0


def test_copies_leave_the_kernel_to_be_learnt():
    few, many = (
        CircularGPRegressor(average=False, n_starts=1).fit(X, SMOOTH, sample_weight=np.full(20, w)) for w in (10.0, 1e4)
    )
    np.testing.assert_allclose(many.kernel_.theta, few.kernel_.theta, atol=0.4)


def test_variances_at_queries_are_no_less_than_what_exact_knowledge_leaves():
    model = CircularGPRegressor(KERNEL, selection=None).fit(X, SCATTERED, sample_weight=np.full(20, 1e5))
    posterior = model._posteriors[0][1]
    queries = np.linspace(0.01, 0.99, 50)[:, None]
    covariance = posterior.predict_plane(queries)[1]
    between = KERNEL(queries, X)
    known = posterior.prior.covariance(X)
    least = 1.001 * KERNEL.diag(queries) - (between * np.linalg.solve(known, between.T).T).sum(axis=1)
    assert (np.linalg.eigvalsh(covariance)[:, 0] > 0.999 * least).all()


def test_inputs_held_out_are_not_seen():
    model = clone(MODELS["harmonic"]).fit(X, SCATTERED, sample_weight=np.full(20, 1e6))
    assert model.held_out_log_density_.mean() < -np.log(2.0 * np.pi)


def test_where_copies_leave_nothing_to_predict_no_higher_orders_are_tried():
    model = HarmonicGPRegressor().fit(X, SCATTERED, sample_weight=np.full(20, 1e6))
    assert {name.split(",")[0] for name, _ in model.candidates_} == {"order 1"}
    # Copies are blurred to 0.0035 radians.
    assert 0.003 < np.sqrt(-2.0 * np.log(model.predict_dist(X).resultant_length().max())) < 0.01


NOISES = {
    "von Mises": (GvMNoise(), np.array([9.0])),
    "order 2": (GvMNoise(2), np.array([9.0, 3.0])),
    "contaminated": (ContaminatedNoise(GvMNoise()), np.array([8.0, -2.0])),
}


@pytest.mark.parametrize("name", NOISES)
def test_a_sharp_likelihood_keeps_its_peak_and_is_as_wide_as_the_grid_resolves(name):
    noise, rho = NOISES[name]
    angles = np.array([0.3, 1.0])
    copies = Replicates(angles, np.array([1e7, 1.0]), np.arange(2))
    nodes = -np.pi + 2.0 * np.pi / 4096 * np.arange(4096)

    def find(rho):
        return bounded_likelihood(noise, rho, copies, nodes, 4e5)

    values, slopes = find(rho)
    np.testing.assert_array_equal(values[1], noise.likelihood(rho, copies, nodes)[0][1])
    # The parabola through nodes 0.0015 apart is off by its fourth order, some 1e-6 of the fall of κ·0.0015²/2 nats.
    peak = 1e7 * noise.log_density(rho, np.zeros(1))[0]
    top = values[0].max()
    assert 0.0 <= peak - top + 10.0 < 12.0
    chosen = np.exp(values[0] - top)
    spread = np.sqrt((chosen * (nodes - 0.3) ** 2).sum() / chosen.sum())
    assert spread == pytest.approx(4e5**-0.5, rel=0.2)
    step = 1e-6 * np.eye(rho.size)
    numeric = np.stack([(find(rho + s)[0] - find(rho - s)[0])[0] / 2e-6 for s in step], axis=1)
    near = values[0] > top - 30.0
    np.testing.assert_allclose(slopes[0][near], numeric[near], rtol=1e-4, atol=20.0)


def test_shares_do_not_take_the_highest_order():
    y = von_mises_draws(np.random.default_rng(3), 0.0, 3.0, 40)
    with pytest.warns(UserWarning, match="weights sums to 1 over 40 rows"):
        assert GvM.fit(y, weights=np.full(40, 1.0 / 40), order="bic").order == 1
