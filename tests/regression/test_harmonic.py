"""The harmonic Gaussian process: its inference against slow twins, and what the regressor promises its users."""

import warnings

import numpy as np
import pytest
from naive import harmonic as naive
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern
from sklearn.utils.estimator_checks import check_estimator

from mgvm import GvM, HarmonicGPRegressor, VonMises
from mgvm.datasets import load_wind_nyc
from mgvm.regression import harmonic
from mgvm.regression.engines import harmonic as engine
from mgvm.regression.engines.harmonic import Design, HarmonicSettings, Statistics
from mgvm.regression.harmonic import _Candidate, _Data, _Learner, scale_matrix
from mgvm.regression.noise import Replicates

RNG = np.random.default_rng(0)
PLACES = RNG.uniform(0.0, 3.0, (6, 1))
ANGLES = RNG.uniform(-3.0, 3.0, 6)
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0])
EXACT = HarmonicSettings(tolerance=1e-12)


def statistics(angles, weights, order):
    return Statistics(weights, weights[:, None] * engine.sufficient_statistics(angles, order))


def small_problem(order, jitter=1e-6):
    """A design at all inputs, its statistics, and the prior covariance of every latent function."""
    kernel, scale, constant = Matern(0.8, nu=1.5), 2.0 / np.arange(1.0, order + 1.0), np.full(order, 1.5)
    features = engine.make_features(kernel, PLACES, PLACES, jitter)
    design = Design(features.phi, scale_matrix(scale, constant, len(PLACES)))
    # With Z = X the features are K L⁻ᵀ, so that their covariance is K (K + jitter)⁻¹ K.
    K = kernel(PLACES)
    inner = K @ np.linalg.solve(K + jitter * np.eye(len(K)), K)
    covariances = [s**2 * inner + c**2 for s, c in zip(scale, constant, strict=True)] * 2
    return design, statistics(ANGLES, WEIGHTS, order), covariances


@pytest.mark.parametrize("order", [1, 2])
def test_newton_finds_the_mode_of_a_slow_twin(order):
    design, data, covariances = small_problem(order)
    mode = engine.find_mode(design, data, settings=EXACT)
    assert mode.converged
    expected = naive.find_mode(ANGLES, WEIGHTS, covariances)
    # BFGS ends at a gradient of 1e-7 in whitened weights, whose curvature is 1 at least: √(2T n) 1e-7 times the scale
    # of F, some 3.
    np.testing.assert_allclose(mode.F, expected, atol=5e-6)
    evidence = naive.log_evidence(mode.F, ANGLES, WEIGHTS, covariances)
    # Differences of a value of some 20 nats at steps of 1e-4: 20 · 2e-16 / 1e-8 = 4e-7 in each of 12 or 24 curvatures
    # of size 1 or more, plus h² f'''' of 1e-8.
    assert mode.evidence == pytest.approx(evidence, abs=2e-5)


def test_there_is_one_optimum_whatever_the_start():
    design, data, _ = small_problem(3)
    first = engine.find_mode(design, data, settings=EXACT)
    for seed in range(3):
        start = 3.0 * np.random.default_rng(seed).normal(size=design.shape)
        again = engine.find_mode(design, data, [start], EXACT)
        # The tolerance, 1e-12 nats, is half a squared distance in weights: 1.4e-6.
        np.testing.assert_allclose(again.weights, first.weights, atol=3e-6)


def learner(order=3, inducing=7):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 2))
    angles = rng.uniform(-3.0, 3.0, 25)
    kernel = ConstantKernel(0.7) * Matern([0.8, 1.3], nu=1.5) + ConstantKernel(0.2)
    candidate = _Candidate(kernel, np.eye(kernel.n_dims), order, 2.0)
    replicates = Replicates(angles, rng.uniform(0.5, 2.0, 25), np.arange(25))
    data = _Data(X, replicates, X if inducing is None else rng.normal(size=(inducing, 2)), np.arange(25) % 5)
    return _Learner(candidate, data, EXACT)


@pytest.mark.parametrize("inducing", [7, None])
def test_the_gradient_of_the_evidence_is_that_of_differences(inducing):
    one = learner(inducing=inducing)
    one.variational = False
    vector = one.candidate.centre + np.linspace(-0.3, 0.3, one.candidate.centre.size)
    _, gradient = one.negative_log_posterior(vector)
    for i, step in enumerate(0.01 * np.eye(vector.size)):
        values = [one.negative_log_posterior(vector + k * step)[0] for k in (-2, -1, 1, 2)]
        # Four points leave h⁴ f⁽⁵⁾/30, 3e-10 of a derivative of some 100; the tolerance of the mode, 1e-12 nats or 1e-6
        # in the weights, moves log|A| by some 1e-6 / 0.01 at the worst.
        assert gradient[i] == pytest.approx(np.dot([1, -8, 8, -1], values) / 0.12, abs=1e-4)


def test_the_gradient_of_the_bound_is_that_of_differences():
    one = learner(order=1)
    one.settings = HarmonicSettings(tolerance=1e-12, gain=1e-12, least=0.0, rounds=100, n_points=1024)
    assert one.variational
    vector = one.candidate.centre + np.linspace(-0.3, 0.3, one.candidate.centre.size)
    _, gradient = one.negative_log_posterior(vector)
    for i, step in enumerate(0.01 * np.eye(vector.size)):
        values = [one.negative_log_posterior(vector + k * step)[0] for k in (-2, -1, 1, 2)]
        # Means over points are not those over the Gaussian, and the bound is as flat in it as they are exact: off by
        # 7e-4, measured, of slopes of up to 4; with 32 points by 0.02.
        assert gradient[i] == pytest.approx(np.dot([1, -8, 8, -1], values) / 0.12, abs=1.5e-3)


def test_covariances_are_those_of_the_whole_matrix():
    design, data, _ = small_problem(2)
    count, size = design.shape
    mode = engine.find_mode(design, data, settings=EXACT)
    whole = np.eye(count * size)
    rows = [
        np.concatenate([(d == e) * phi * design.scales[e] for e in range(count)])
        for phi in design.features
        for d in range(count)
    ]
    B = np.array(rows).reshape(len(PLACES), count, -1)
    for b, weight, V in zip(B, WEIGHTS, mode.moments.covariance, strict=True):
        whole += weight * b.T @ V @ b
    inverse = engine.invert(mode.factor)
    # Of a matrix with a condition of some 1e4.
    np.testing.assert_allclose(inverse, np.linalg.inv(whole), atol=1e-11)
    np.testing.assert_allclose(design.covariance(inverse), B @ inverse @ np.swapaxes(B, 1, 2), atol=1e-10)


@pytest.mark.parametrize("size", [0.0, 5.0, 500.0, 3e4])
def test_moments_are_those_of_the_distribution(size):
    F = np.random.default_rng(0).normal(size=(50, 6)) * size
    F[:10, [0, 2, 3, 5]] = 0.0  # two equal modes, no window holds both
    found = engine.gvm_moments(F)
    dist = GvM(F[:, :3] + 1j * F[:, 3:])
    np.testing.assert_allclose(found.log_z, dist.log_normalizer(), rtol=1e-13, atol=1e-12)
    for t in (1, 2, 3):
        mean = found.mean[:, t - 1] + 1j * found.mean[:, 2 + t]
        # Exponents of up to 3e5 carry roundings of 2e-16 of themselves, and so do weights: 6e-11 where two modes are
        # weighed against each other.
        np.testing.assert_allclose(mean, dist.moment(t), atol=1e-13 + 1e-15 * size)
    variance = 0.5 + 0.5 * dist.moment(2).real - dist.moment(1).real ** 2
    np.testing.assert_allclose(found.covariance[:, 0, 0], variance, atol=1e-13 + 1e-15 * size)


def test_the_variational_gaussian_is_a_fixed_point_and_wider_than_laplace():
    design, data, _ = small_problem(2)
    mode = engine.find_mode(design, data, settings=EXACT)
    start = engine.laplace(data, mode)
    found = engine.find_gaussian(design, data, start, HarmonicSettings(gain=1e-16, least=0.0, rounds=600))
    assert found.converged
    F, C = found.predict(design)
    moments = engine.mean_moments(F, engine.roots(C), engine.normal_points(4, 32))
    residual = data.sums - data.weight[:, None] * moments.mean
    np.testing.assert_allclose(design.transpose(residual), found.weights, atol=1e-6)
    factor = design.precision(data.weight[:, None, None] * moments.covariance)
    np.testing.assert_allclose(engine.invert(factor), found.inverse, atol=1e-6)
    assert np.trace(found.inverse) > np.trace(engine.invert(mode.factor))


def test_points_have_the_moments_of_the_normal_distribution():
    points = engine.normal_points(5, 64)
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose(points.T @ points / len(points), np.eye(5), atol=1e-13)


@pytest.mark.parametrize("size", [1.0, 300.0])
def test_a_predictive_density_is_the_mean_of_its_parts(size):
    rng = np.random.default_rng(0)
    F, root = size * rng.normal(size=(20, 4)), 0.1 * size * rng.normal(size=(20, 4, 4))
    C = root @ np.swapaxes(root, 1, 2)
    dist = engine.mixture_density(F, C, 32)
    for _ in range(5):
        angles = np.asarray(dist.sample(rng=rng))
        np.testing.assert_allclose(dist.logpdf(angles), engine.log_mixture(F, C, angles, 32), atol=1e-6)


# ---- the estimator --------------------------------------------------------------------------------------------------

KERNEL = Matern(1.0, nu=1.5)


def curve(count=60, seed=0):
    """A direction that turns, ever more surely."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 6.0, count))[:, None]
    return X, rng.vonmises(np.sin(X[:, 0]) + 2.5, 1.0 + 4.0 * X[:, 0])


def kennedy(count, seed=0):
    """Wind at JFK given two other airports."""
    wind = load_wind_nyc()
    known = np.flatnonzero(np.isfinite(wind.angles).all(axis=1))
    rows = np.random.default_rng(seed).permutation(known)[:count]
    others = wind.angles[rows, ::2]
    return np.column_stack([np.cos(others), np.sin(others)]), wind.angles[rows, 1]


@pytest.fixture(scope="module")
def fitted():
    return HarmonicGPRegressor(KERNEL, order=1).fit(*curve())


@pytest.mark.filterwarnings("ignore")  # the checks hand in targets that look like degrees
def test_scikit_learn_conventions():
    check_estimator(HarmonicGPRegressor(Matern(1.0, "fixed"), order=1, n_inducing=8))


def test_spread_follows_the_input(fitted):
    dist = fitted.predict_dist([[0.3], [5.5]])
    assert dist.resultant_length()[0] < 0.8 < 0.93 < dist.resultant_length()[1]
    X, y = curve(seed=1)
    error = np.angle(np.exp(1j * (fitted.predict(X) - np.sin(X[:, 0]) - 2.5)))
    assert np.abs(error)[X[:, 0] > 2.0].mean() < 0.15
    assert fitted.score(X, y) > VonMises(2.5, 3.0).logpdf(y).mean() + 0.2
    assert fitted.converged_
    assert fitted.order_ == 1


def test_turning_all_angles_turns_all_predictions(fitted):
    X, y = curve()
    turned = clone(fitted).fit(X, y + 2.0)
    difference = turned.predict(X) - fitted.predict(X) - 2.0
    # Points of averages do not turn along: their error is what differs, some 1e-3 of a standard deviation.
    np.testing.assert_allclose(np.angle(np.exp(1j * difference)), 0.0, atol=0.02)
    assert turned.loo_log_density_.mean() == pytest.approx(fitted.loo_log_density_.mean(), abs=0.02)


def test_repeated_rows_are_weights():
    X, y = curve(20)
    count = np.arange(20) % 3
    once = HarmonicGPRegressor(KERNEL, order=2).fit(X, y, sample_weight=count.astype(float))
    rows = np.repeat(np.arange(20), count)
    repeated = HarmonicGPRegressor(KERNEL, order=2).fit(X[rows], y[rows])
    np.testing.assert_array_equal(once.predict_dist(X).log_values, repeated.predict_dist(X).log_values)
    np.testing.assert_array_equal(once.loo_log_density_[rows], repeated.loo_log_density_)
    assert np.isfinite(once.loo_log_density_).all()
    assert once.n_inputs_ == np.count_nonzero(count)


def test_a_constant_kernel_gives_the_distribution_of_all_angles():
    rng = np.random.default_rng(0)
    y = rng.vonmises(1.0, 3.0, 400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the kernel does not see the inputs
        model = HarmonicGPRegressor(ConstantKernel(1.0, "fixed"), order=1).fit(np.arange(400.0)[:, None] / 400, y)
    found, expected = model.predict_dist([[0.5]])[0], VonMises.fit(y)
    # The prior holds about as much as an observation of 400, the posterior widens the density by as little.
    nodes = np.linspace(-np.pi, np.pi, 200)
    assert np.abs(found.pdf(nodes) - expected.pdf(nodes)).max() < 0.02


def test_far_from_all_data_queries_are_alike():
    X, y = curve()
    sparse = HarmonicGPRegressor(KERNEL, order=2, n_inducing=10).fit(X, y)
    dist = sparse.predict_dist([[100.0], [-500.0]])
    np.testing.assert_allclose(dist.log_values[0], dist.log_values[1], atol=1e-12)
    # The constant alone, a GvM with what is not known of it.
    assert dist.resultant_length()[0] < 0.9
    dense = HarmonicGPRegressor(KERNEL, order=2).fit(X, y)
    far, near = dense.predict_dist([[100.0], [3.0]]).entropy()
    assert far > near


def test_what_is_left_out_is_predicted_by_the_others(fitted):
    """Folds with hyper-parameters kept are true refits: beside them the mean of held-out folds of new fits."""
    X, y = curve()
    folds = np.arange(len(y)) % 10
    values = np.empty(len(y))
    for fold in range(10):
        out = folds == fold
        part = HarmonicGPRegressor(
            Matern(fitted.kernel_.length_scale, "fixed", nu=1.5), order=1, prior_scale=fitted.scale_[0]
        ).fit(X[~out], y[~out])
        values[out] = part.log_density(X[out], y[out])
    difference = values - fitted.loo_log_density_
    # Paired differences: other folds and other scales.
    assert abs(difference.mean()) < 5.0 * difference.std() / np.sqrt(len(y)) + 0.02
    np.testing.assert_array_equal(fitted.loo_log_density_, fitted.held_out_log_density_)


def test_replicates_stay_when_one_is_left_out():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [10.0]], 40, axis=0)
    y = np.concatenate([rng.vonmises(0.0, 5.0, 40), rng.vonmises(2.0, 5.0, 40)])
    model = HarmonicGPRegressor(KERNEL, order=1).fit(X, y)
    assert model.loo_log_density_.mean() > model.held_out_log_density_.mean() + 0.5
    # An input seen 39 times more: the score of what made the angles.
    assert model.loo_log_density_.mean() == pytest.approx(
        VonMises(0.0, 5.0).logpdf(rng.vonmises(0, 5, 4000)).mean(), abs=0.25
    )


def test_order_is_chosen_by_inputs_held_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, 150)[:, None]
    y = np.sin(X[:, 0]) + np.pi * rng.integers(2, size=150) + 0.3 * rng.normal(size=150)
    model = HarmonicGPRegressor(KERNEL).fit(X, y)
    assert model.order_ >= 2
    assert len(model.candidates_) >= 2
    assert model.predict_dist([[2.0]]).modes().location.shape[-1] >= 2


def test_groups_are_held_out_whole():
    X, y = curve()
    model = HarmonicGPRegressor(KERNEL, order=1).fit(X, y, groups=np.arange(60) // 20)
    assert model.held_out_log_density_.mean() < model.loo_log_density_.mean()
    with pytest.raises(ValueError, match="single label"):
        HarmonicGPRegressor(KERNEL, order=1).fit(X, y, groups=np.zeros(60))


def test_kernels_of_all_kinds():
    X, y = curve(40)
    periodic = HarmonicGPRegressor(ExpSineSquared(1.0, 6.0, periodicity_bounds="fixed"), order=1).fit(X, y)
    np.testing.assert_allclose(*(periodic.predict_dist(X + shift).log_values for shift in (0.0, 6.0)), atol=1e-9)
    several = HarmonicGPRegressor([RBF(1.0), Matern(1.0, nu=0.5)], order=1).fit(X, y)
    assert isinstance(several.kernel_, (RBF, Matern))
    assert len(several.candidates_) == 2
    kernel = Matern(1.0, "fixed", nu=1.5)
    by_gram = HarmonicGPRegressor("precomputed", order=1).fit(kernel(X), y)
    by_kernel = HarmonicGPRegressor(kernel, order=1).fit(X, y)
    queries = X[:5] + 0.1
    np.testing.assert_allclose(
        by_gram.predict_dist(kernel(queries, X)).log_values, by_kernel.predict_dist(queries).log_values, atol=1e-6
    )
    with pytest.raises(TypeError, match="kernel must be a scikit-learn kernel"):
        HarmonicGPRegressor(kernel="rbf").fit(X, y)


def test_columns_of_very_different_scale_are_measured_each_by_its_own():
    X, y = curve(80)
    wide = np.column_stack([X, 1e6 * np.random.default_rng(1).normal(size=80)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = HarmonicGPRegressor(order=1).fit(wide, y)
    test, angles = curve(200, seed=3)
    asked = np.column_stack([test, 1e6 * np.random.default_rng(2).normal(size=200)])
    assert model.score(asked, angles) > VonMises.fit(y).logpdf(angles).mean() + 0.1
    assert model.kernel_.length_scale[1] > 1e4 * model.kernel_.length_scale[0]


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale):
    X, y = curve(30)
    one, other = (HarmonicGPRegressor(order=1).fit(factor * X, y) for factor in (1.0, scale))
    np.testing.assert_allclose(other.predict(scale * X), one.predict(X), atol=1e-3)


def test_scales_do_not_run_away_with_few_inputs():
    """By Laplace's evidence they do at higher orders: these 60 hours lost 9 nats to the first order."""
    X, y = kennedy(460)
    first, best = (HarmonicGPRegressor(order=order).fit(X[:60], y[:60]) for order in (1, "auto"))
    assert best.score(X[60:], y[60:]) > first.score(X[60:], y[60:]) - 0.1


def test_odd_data():
    X, y = curve(30)
    alone = HarmonicGPRegressor().fit([[1.0]], [0.5])
    assert np.isfinite(alone.predict_dist([[1.0]]).entropy()).all()
    one_input = HarmonicGPRegressor().fit(np.ones((30, 1)), y)
    assert abs(np.angle(np.exp(1j * (one_input.predict([[1.0]])[0] - np.angle(np.exp(1j * y).mean()))))) < 0.1
    constant = HarmonicGPRegressor(order=1).fit(np.column_stack([X, np.ones(30)]), y)
    assert np.isfinite(constant.loo_log_density_).all()
    collinear = HarmonicGPRegressor(order=1).fit(np.column_stack([X, 2.0 * X]), y)
    assert np.isfinite(collinear.loo_log_density_).all()
    with pytest.warns(UserWarning, match="order=5 is lowered to 2: y has 3 different angles"):
        lowered = HarmonicGPRegressor(KERNEL, order=5).fit(X[:9], np.tile([0.0, 1.0, 2.0], 3))
    assert lowered.order_ == 2
    with pytest.warns(UserWarning, match="order=5 is lowered to 1: y has 1 different angle, and"):
        HarmonicGPRegressor(KERNEL, order=5).fit(X[:9], np.full(9, 0.3))
    with pytest.raises(ValueError, match="order must be at most 12, got 24: it is the number of modes"):
        HarmonicGPRegressor(order=24).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="order must be a whole number >= 1 or 'auto', got 'many'"):
        HarmonicGPRegressor(order="many").fit(X, y)
    for name, value in {
        "order": 0,
        "n_inducing": 0,
        "prior_scale": -1.0,
        "anisotropic": "often",
        "average": "often",
    }.items():
        with pytest.raises(ValueError, match=name):
            HarmonicGPRegressor(**{name: value}).fit(X, y)


def test_few_inputs_are_predicted_by_an_average_over_hyper_parameters():
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(2):
        X = rng.uniform(0.0, 6.0, (420, 1))
        y = rng.vonmises(2.0 * np.sin(X[:, 0]), 4.0)
        best, averaged = (
            HarmonicGPRegressor(KERNEL, order=1, average=one).fit(X[:20], y[:20]) for one in (False, True)
        )
        gains.append(averaged.log_density(X[20:], y[20:]) - best.log_density(X[20:], y[20:]))
        assert len(averaged._posteriors) > 1
        assert averaged.kernel_ == best.kernel_
        # What is left out is predicted by the average too: hyper-parameters that fit it by chance count for less.
        assert not np.allclose(averaged.loo_log_density_, best.loo_log_density_, atol=1e-3)
    gain = np.concatenate(gains)
    # Over 16 such data sets the gain was 0.002 ± 0.005 nats, of a single one up to 0.05: level, and not the same.
    assert np.abs(gain).max() > 0.05
    assert abs(gain.mean()) < 0.1
    assert len(best._posteriors) == 1


def test_few_inputs_are_predicted_by_a_mixture_of_what_was_compared():
    """Held-out angles of a few inputs hardly tell one order from another, and the one that leads may lose by much."""
    gains = []
    for seed in range(4):
        X, y = kennedy(420, seed)
        best, mixed = (HarmonicGPRegressor(average=one).fit(X[:20], y[:20]) for one in (False, "auto"))
        gains.append(mixed.log_density(X[20:], y[20:]).mean() - best.log_density(X[20:], y[20:]).mean())
        assert mixed.kernel_ == best.kernel_
        assert 1 < len(mixed._posteriors) <= len(mixed.candidates_)
        parts = [np.log(weight) + engine.log_mixture(*one.latent(X), y, 32) for weight, one in mixed._posteriors]
        np.testing.assert_allclose(mixed.log_density(X, y), np.logaddexp.reduce(parts), atol=1e-12)
    # 0.006 here, measured; 0.04 ± 0.02 over 57 subsets of ten data sets, and -0.05 at the worst.
    assert np.mean(gains) > -0.005
    assert max(gains) > 0.01


def test_higher_orders_are_tried_where_the_second_tells_nothing():
    """Three modes alike have no harmonic below the third, and only from there on is one column told from the other."""
    rng = np.random.default_rng(0)

    def turning(X):
        return 2.5 * X[:, 0] + 2.0 * np.pi / 3.0 * rng.integers(3, size=len(X)) + rng.normal(0.0, 0.25, len(X))

    X, new = rng.uniform(size=(25, 2)).repeat(10, axis=0), rng.uniform(size=(400, 2))
    y, y_new = turning(X), turning(new)
    one_length, own_lengths = (HarmonicGPRegressor(anisotropic=how).fit(X, y) for how in (False, "auto"))
    assert own_lengths.order_ >= 4
    assert one_length.score(new, y_new) > -1.5  # of order 2 it is -1.84, no better than uniform
    assert own_lengths.score(new, y_new) > one_length.score(new, y_new) + 0.05


def test_an_average_is_the_mean_of_its_parts():
    X, y = curve(25)
    model = HarmonicGPRegressor(KERNEL, order=2, average=True).fit(X, y)
    parts = [np.log(weight) + engine.log_mixture(*one.latent(X), y, 32) for weight, one in model._posteriors]
    assert sum(weight for weight, _ in model._posteriors) == pytest.approx(1.0)
    np.testing.assert_allclose(model.log_density(X, y), np.logaddexp.reduce(parts), atol=1e-12)
    # Nodes of densities resolve them to 1e-6.
    np.testing.assert_allclose(model.predict_dist(X).logpdf(y), model.log_density(X, y), atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_rounds_on_a_narrow_field_do_not_lose_evidence(order):
    """Newton's steps are too long there: taken as they are they end anywhere, thousands of nats lower."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, (120, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=120)
    features = engine.make_features(Matern(2.0, nu=0.5), X, X)
    design = Design(features.phi, scale_matrix(np.full(order, 300.0), np.full(order, 10.0), 120))
    data = statistics(y, np.ones(120), order)
    start = engine.laplace(data, engine.find_mode(design, data))
    bounds = [
        engine.find_gaussian(design, data, start, HarmonicSettings(rounds=rounds)).evidence
        for rounds in range(1, 25, 4)
    ]
    assert (np.diff(bounds) > -0.4).all()
    told = np.arange(120) % 5 > 0
    kept = Statistics(data.weight * told, data.sums * told[:, None])
    whole = engine.find_gaussian(design, data, start)
    fold = engine.find_gaussian(design, kept, whole, HarmonicSettings(rounds=6, gain=0.005, slack=0.1))
    out = np.arange(120) % 5 == 0
    values = engine.log_mixture(*(part[out] for part in fold.predict(design)), y[out], 32)
    assert values.mean() > 0.0


def test_duplicated_inputs_of_zero_weight_and_missing_values():
    X, y = curve(30)
    plain = HarmonicGPRegressor(KERNEL, order=1).fit(X, y)
    weight = np.concatenate([np.ones(30), np.zeros(30)])
    shadowed = HarmonicGPRegressor(KERNEL, order=1).fit(np.tile(X, (2, 1)), np.concatenate([y, y + 3.0]), weight)
    np.testing.assert_array_equal(shadowed.predict(X), plain.predict(X))
    with pytest.raises(ValueError, match="sample_weight"):
        HarmonicGPRegressor().fit(X, y, np.zeros(30))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"(?i)nan|infinity"):
            HarmonicGPRegressor().fit(np.where(X[3] == X, bad, X), y)
        with pytest.raises(ValueError, match=r"(?i)nan|finite|infinity"):
            HarmonicGPRegressor().fit(X, np.where(y == y[3], bad, y))


def test_leave_one_out_is_not_too_kind_on_a_narrow_field():
    """What one step of Newton's method says of left-out rows of such fields is too good by nats."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, (460, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=460)
    model = HarmonicGPRegressor(KERNEL, order=1).fit(X[:60], y[:60])
    held_out = model.log_density(X[60:], y[60:])
    error = np.hypot(held_out.std() / np.sqrt(400), model.loo_log_density_.std() / np.sqrt(60))
    assert abs(model.loo_log_density_.mean() - held_out.mean()) < 5.0 * error
    assert held_out.mean() > 0.5  # the noise itself has 1.6


def test_a_row_of_many_is_taken_out_of_the_gaussian_of_all():
    # Of 400 rows for 16 weights, eight are left out one at a time by a fit to the others; the rest is the last fold.
    rng = np.random.default_rng(3)
    X = np.linspace(0.0, 6.0, 400)[:, None]
    angles = rng.normal(0.4 * X[:, 0], 0.5)
    left_out = np.arange(8) * 50
    folds = np.full(400, 8)
    folds[left_out] = np.arange(8)
    candidate = _Candidate(Matern(1.0, nu=1.5), np.eye(1), 1, 2.0)
    data = _Data(X, Replicates(angles, np.ones(400), np.arange(400)), np.linspace(0.0, 6.0, 7)[:, None], folds)
    one = _Learner(candidate, data, EXACT)
    design, gaussian = one.posterior(candidate.centre)
    found = one.remove_rows(design, gaussian)
    wanted = one.held_out(design, gaussian, 30)
    # Off by the square of what a row tells: by 0.008, measured, at the end of the line; with the row itself by 0.16.
    np.testing.assert_allclose(found[left_out], wanted[left_out], atol=0.016)
    known = engine.log_mixture(*gaussian.predict(design), angles, 32)
    assert np.abs(known - wanted)[left_out].max() > 0.05
    # Too few rows for the weights, or rows that share an input, are left to folds.
    few = _Learner(candidate, data._replace(inducing=X[::8]), EXACT)
    assert few.remove_rows(few.design(candidate.centre), gaussian) is None


def planar_field(rows, columns, seed):
    """Directions of a smooth planar Gaussian process, seen with a scatter of ten degrees."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, columns))
    plane = np.linalg.cholesky(Matern(0.5, nu=1.5)(X) + 1e-8 * np.eye(rows)) @ rng.normal(size=(rows, 2))
    return X, rng.vonmises(np.arctan2(plane[:, 1], plane[:, 0]), 30.0)


def test_scales_do_not_run_away_where_laplace_finds_evidence_for_it():
    X, y = planar_field(650, 5, 1)
    model = HarmonicGPRegressor().fit(X[:150], y[:150])
    assert model.converged_
    held_out = model.log_density(X[150:], y[150:]).mean()
    # By Laplace's evidence alone -1.49, and -0.50 by folds: these saw what the posterior of all rows had learnt. Now
    # -1.21; the uniform density has -1.84, a planar process -1.19.
    assert held_out > -1.35
    assert abs(model.loo_log_density_.mean() - held_out) < 0.5


def test_a_warm_start_refines_and_looks_at_higher_orders():
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(700, 1))
    y = 2.0 * x[:, 0] + np.pi * (rng.random(700) < x[:, 0]) + 0.3 * rng.normal(size=700)
    model = HarmonicGPRegressor(order=1, warm_start=True).fit(x[:200], y[:200])
    first = model.kernel_
    model.set_params(order="auto").fit(x[:500], y[:500])
    assert model.order_ > 1
    assert model.kernel_.nu == first.nu
    assert len(model.candidates_) <= 4  # one kernel, the first order and those above it
    cold = HarmonicGPRegressor().fit(x[:500], y[:500])
    assert model.log_density(x[500:], y[500:]).mean() > cold.log_density(x[500:], y[500:]).mean() - 0.02
    assert model.set_params(order=2).fit(x[:300], y[:300]).order_ == 2


def test_a_warm_start_from_many_inputs_keeps_the_order(monkeypatch):
    X, y = curve(120)
    model = HarmonicGPRegressor(KERNEL, warm_start=True).fit(X[:80], y[:80])
    again = clone(model)
    again.__dict__.update(model.__dict__)
    model.fit(X, y)
    assert {name.partition(",")[0] for name, _ in model.candidates_} > {f"order {again.order_}"}
    monkeypatch.setattr(harmonic, "SETTINGS", harmonic.HarmonicSearchSettings(refine=80))
    again.fit(X, y)
    assert again.candidates_ == []
    assert again.order_ == 1
