"""CircularGPRegressor: what it promises its users."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from mgvm import CircularGPRegressor
from mgvm.angles import DegreesWarning
from mgvm.circle import GridDensity
from mgvm.inference import ConvergenceWarning
from mgvm.regression.base import Training, merge_replicates
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.gp import choose_radial_scale
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Replicates
from mgvm.regression.prediction import row_log_densities
from mgvm.regression.search import count_distinct, orders_worth_trying

KERNEL = ConstantKernel(0.5) * Matern(1.5, nu=1.5)


def data(count=60, seed=0, kappa=15.0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 10, count))[:, None]
    return X, rng.vonmises(np.angle(np.exp(1j * (1.2 * np.sin(X[:, 0]) + 2.5))), kappa)


@pytest.fixture(scope="module")
def fitted():
    return CircularGPRegressor(KERNEL, average=False).fit(*data())


@pytest.mark.filterwarnings("ignore")  # the checks hand in targets that look like degrees
def test_scikit_learn_conventions():
    check_estimator(CircularGPRegressor(KERNEL, n_starts=1, average=False))


@pytest.mark.filterwarnings("ignore")  # some checks have one row, or two angles: the order is lowered with a warning
def test_scikit_learn_conventions_where_the_order_is_chosen():
    check_estimator(CircularGPRegressor(KERNEL, noise_order="auto", selection=None))


@pytest.mark.parametrize("radial_scale", ["soft", "hard", "free", 0.7])
def test_it_learns_a_curve_across_the_cut(radial_scale):
    model = CircularGPRegressor(KERNEL, radial_scale=radial_scale, n_starts=1, average=False).fit(*data())
    grid = np.linspace(0.5, 9.5, 30)[:, None]
    error = np.angle(np.exp(1j * (model.predict(grid) - 1.2 * np.sin(grid[:, 0]) - 2.5)))
    assert np.abs(error).mean() < 0.15
    X, y = data(seed=1)
    assert model.score(X, y) > -0.25  # the noise itself has -0.08
    assert model.converged_
    assert model.noise_.shape == (1,)
    assert 5 < model.noise_[0].real < 50


def test_predictions_are_distributions(fitted):
    dist = fitted.predict_dist([[1.0], [5.0], [30.0]])
    nodes = -np.pi + 2 * np.pi * np.arange(4096) / 4096
    np.testing.assert_allclose(np.mean(dist[:, None].pdf(nodes), axis=1) * 2 * np.pi, 1.0, atol=1e-9)
    spread = 1 - dist.resultant_length()
    assert spread[2] > 5 * spread[0]  # far from all data little is known
    draws = fitted.sample_y([[1.0]], n_samples=2000, random_state=0)
    assert abs(np.angle(np.exp(1j * draws).mean() / dist[0].moment(1))) < 0.05


def test_turning_all_angles_turns_all_predictions(fitted):
    X, y = data()
    turned = CircularGPRegressor(KERNEL, average=False).fit(X, y + 2.0)
    difference = turned.predict(X) - fitted.predict(X) - 2.0
    np.testing.assert_allclose(np.angle(np.exp(1j * difference)), 0.0, atol=1e-5)
    assert turned.loo_log_density_.mean() == pytest.approx(fitted.loo_log_density_.mean(), abs=1e-6)


def test_replicates_are_merged_exactly():
    X, y = data(20)
    kernel = KERNEL + WhiteKernel(0.01)
    options = {"selection": None, "average": False}
    merged = CircularGPRegressor(kernel, **options).fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    weighted = CircularGPRegressor(kernel, **options).fit(X, y, sample_weight=np.full(20, 3.0))
    assert merged.n_inputs_ == 20
    np.testing.assert_allclose(merged.predict(X), weighted.predict(X), atol=1e-9)
    np.testing.assert_allclose(merged.loo_log_density_, np.repeat(weighted.loo_log_density_, 3), atol=1e-9)


def test_rows_without_weight_are_predicted():
    X, y = data(20)
    weights = np.where(np.arange(20) < 15, 1.0, 0.0)
    model = CircularGPRegressor(KERNEL, selection=None, average=False).fit(X, y, weights)
    np.testing.assert_allclose(model.loo_log_density_[15:], model.log_density(X[15:], y[15:]), atol=1e-10)
    alone = CircularGPRegressor(KERNEL, selection=None, average=False).fit(X[:15], y[:15])
    np.testing.assert_allclose(model.loo_log_density_[:15], alone.loo_log_density_, atol=1e-10)


@pytest.mark.parametrize("noise", [GvMNoise(2, symmetric=False), ContaminatedNoise(GvMNoise())])
def test_leave_one_out_takes_one_of_the_rows_a_weight_stands_for(noise):
    rho = noise.start + 0.3
    angles, weights = np.array([0.5, 1.0, -2.0, 0.7, 0.1, 0.2]), np.array([0.4, 1.0, 3.0, 2.5, 1.0, 2.0])
    starts, group_of = np.array([0, 3, 4]), np.array([0, 0, 0, 1, 2, 2])  # one input has a single row
    nodes = -np.pi + 2.0 * np.pi * np.arange(512) / 512
    alone = GridDensity(np.stack([np.cos(nodes), 2.0 * np.cos(nodes - 1.0), 3.0 * np.sin(nodes) + np.cos(2.0 * nodes)]))
    found = row_log_densities(alone, Replicates(angles, weights, starts), noise, rho)
    fine = -np.pi + 2.0 * np.pi * np.arange(8192) / 8192
    for row, group in enumerate(group_of):
        left = weights.copy()
        left[row] -= min(left[row], 1.0)
        left *= group_of == group
        logs = left @ np.stack([noise.log_density(rho, angle - fine) for angle in angles])
        dist = alone[group].pdf(fine) * np.exp(logs - logs.max())
        expected = np.log((dist * np.exp(noise.log_density(rho, angles[row] - fine))).sum() / dist.sum())
        assert found[row] == pytest.approx(expected, abs=1e-7)


@pytest.mark.slow
def test_half_a_million_rides_are_thirty_inputs():
    rng = np.random.default_rng(0)
    day = rng.integers(0, 30, 500_000).astype(float)[:, None]
    y = np.rint(rng.vonmises(0.1 * day[:, 0], 2.0) * 229.0) / 229.0
    model = CircularGPRegressor(KERNEL, n_starts=1, average=False).fit(day, y)
    assert model.n_inputs_ == 30
    assert model.loo_log_density_.shape == y.shape
    assert model._merged.replicates.angles.size < 45_000
    assert model.score(day[:1000], y[:1000]) > -1.5


def test_leave_one_out_is_a_refit_without_the_row(fitted):
    X, y = data()
    assert fitted.loo_log_density_.shape == (60,)
    assert np.isfinite(fitted.loo_log_density_).all()
    apart = []
    for i in (5, 30, 55):
        model = CircularGPRegressor(fitted.kernel_, average=False, n_starts=1)
        apart.append(model.fit(np.delete(X, i, 0), np.delete(y, i)).score(X[[i]], y[[i]]))
    np.testing.assert_allclose(fitted.loo_log_density_[[5, 30, 55]], apart, atol=0.15)


def test_rows_that_share_an_input_keep_their_say():
    X = np.repeat([[0.0], [1.0], [2.0]], 4, axis=0)
    y = np.tile([0.0, 0.1, -0.1, 0.05], 3)
    model = CircularGPRegressor(KERNEL, average=False).fit(X, y)
    # Three more rows at the same place tell where the fourth is.
    assert model.loo_log_density_.min() > 0.3


@pytest.mark.filterwarnings("ignore:expectation propagation did not converge")  # with noise of order 1, which is wrong
def test_two_tides_a_day_need_a_second_harmonic():
    rng = np.random.default_rng(0)
    X = np.repeat(np.linspace(0, 3, 10), 6)[:, None]
    y = rng.vonmises(0.8 * X[:, 0], 20.0) + np.pi * rng.integers(0, 2, X.shape[0])
    options = {"average": False, "n_starts": 1}
    one, two = (CircularGPRegressor(KERNEL, noise_order=order, **options).fit(X, y) for order in (1, 2))
    assert two.loo_log_density_.mean() > one.loo_log_density_.mean() + 0.4
    auto = CircularGPRegressor(KERNEL, noise_order="auto", **options).fit(X, y)
    assert auto.noise_.size >= 2
    assert auto.predict_dist([[1.5]]).interval(0.5).shape[-2] == 2
    plain = CircularGPRegressor(KERNEL, noise_order="auto", **options).fit(*data(40))
    assert plain.noise_.size == 1


def test_the_order_is_chosen_from_the_angles_of_a_single_input():
    rng = np.random.default_rng(0)
    X, options = np.zeros((60, 1)), {"average": False, "n_starts": 1}
    tides = rng.vonmises(0.3, 20.0, 60) + np.pi * rng.integers(0, 2, 60)
    auto = CircularGPRegressor(KERNEL, noise_order="auto", **options).fit(X, tides)
    assert auto.noise_.size >= 2
    assert auto.predict_dist([[0.0]]).interval(0.5).shape[-2] == 2
    plain = CircularGPRegressor(KERNEL, noise_order="auto", **options).fit(X, rng.vonmises(0.3, 20.0, 60))
    assert plain.noise_.size == 1


@pytest.mark.parametrize("angles", [[0.3], [0.3, 1.0], [0.4] * 6, [0.3, 0.7, 0.3, 0.7]])
def test_an_order_that_rows_do_not_tell_is_lowered_with_a_warning(angles):
    for X in (np.zeros((len(angles), 1)), np.zeros((len(angles), 1)) + 5.0):
        with pytest.warns(UserWarning, match="tries orders up to 1 alone, not 4"):
            model = CircularGPRegressor(KERNEL, noise_order="auto", average=False, n_starts=1).fit(X, angles)
        assert model.noise_.size == 1
        assert np.isfinite(model.loo_log_density_).all()


def test_angles_a_rounding_apart_are_one():
    assert count_distinct(np.array([])) == 0
    assert count_distinct(np.array([1.0, 1.0 + 1e-12, 1.0 + 2 * np.pi])) == 1
    assert count_distinct(np.array([-np.pi, np.pi, 0.0, 1e-12])) == 2
    assert count_distinct(np.array([2 * np.pi - 1e-12, 0.0, 1e-12, 3.0])) == 2


def test_orders_are_worth_trying_for_modes_far_apart_alone():
    ones = np.ones(200)
    scatter = 0.02 * np.random.default_rng(0).normal(size=200)
    close, opposite = (scatter + turn * (np.arange(200) % 2) for turn in (0.2, np.pi))
    # A steady change between neighbours looks like two modes close by.
    assert orders_worth_trying(close - 0.1, ones, 4) == []
    assert 2 in orders_worth_trying(opposite, ones, 4)
    assert orders_worth_trying(scatter, ones, 4) == []


def test_contaminated_noise_shrugs_off_outliers():
    X, y = data(60)
    y = y.copy()
    y[::10] += np.pi
    options = {"average": False, "n_starts": 1}
    clean, robust = (CircularGPRegressor(KERNEL, contaminated=c, **options).fit(X, y) for c in (False, True))
    assert 0.03 < robust.contamination_ < 0.3
    assert robust.loo_log_density_.mean() > clean.loo_log_density_.mean() + 0.1


@pytest.mark.parametrize("coordinates", ["separate", "coregionalised"])
def test_coordinates_of_their_own(coordinates):
    X, y = data()
    model = CircularGPRegressor(KERNEL, coordinates=coordinates, n_starts=1, average=False).fit(X, y)
    assert model.score(X, y) > 0.0


def test_evidence_where_it_exists():
    X, y = data()
    model = CircularGPRegressor(KERNEL, radial_scale="free", selection="evidence", n_starts=1, average=False).fit(X, y)
    assert model.log_evidence_ < 0.0
    longer = ConstantKernel(0.5) * Matern(100.0, nu=1.5)
    worse = CircularGPRegressor(longer, radial_scale="free", selection=None, average=False).fit(X, y)
    assert worse.log_evidence_ < model.log_evidence_
    with pytest.raises(ValueError, match="radial_scale='free'"):
        CircularGPRegressor(KERNEL, selection="evidence").fit(X, y)


def test_averaging_is_less_sure_of_itself():
    X, y = data(8)
    best, mean = (CircularGPRegressor(KERNEL, average=a).fit(X, y) for a in (False, True))
    assert len(mean._posteriors) > 3
    assert sum(weight for weight, _ in mean._posteriors) == pytest.approx(1.0, abs=0.01)
    assert best.predict([[2.0]]) == pytest.approx(mean.predict([[2.0]]), abs=0.5)


def test_the_papers_engines_agree_where_data_are_strong():
    X, y = data(25, kappa=50.0)
    grid = np.array([[2.0], [7.3]])
    kernel = KERNEL + WhiteKernel(0.01)
    means = {}
    for engine in ("ep", "mean_field", "gibbs"):
        model = CircularGPRegressor(
            kernel, radial_scale="hard", inference=engine, selection=None, average=False, random_state=0
        )
        model.fit(X, y)
        means[engine] = model.predict(grid)
        dist = model.predict_dist(grid, joint=True)
        assert np.abs(np.angle(np.exp(1j * (dist.mean_direction() - means[engine])))).max() < 0.3
    for engine in ("mean_field", "gibbs"):
        assert np.abs(np.angle(np.exp(1j * (means[engine] - means["ep"])))).max() < 0.15
    with pytest.raises(ValueError, match="radial_scale='hard'"):
        CircularGPRegressor(KERNEL, average=False).fit(X, y).predict_dist(grid, joint=True)


def test_precomputed_is_the_kernel_it_came_from():
    X, y = data(30)
    kernel = Matern(1.5, nu=1.5)
    grid = np.array([[2.0], [7.3]])
    direct = CircularGPRegressor(ConstantKernel(0.5) * kernel, average=False, n_starts=1)
    fixed = Matern(1.5, length_scale_bounds="fixed", nu=1.5)
    direct = CircularGPRegressor(ConstantKernel(0.5) * fixed, average=False, n_starts=1).fit(X, y)
    gram = CircularGPRegressor("precomputed", average=False, n_starts=1).fit(kernel(X), y)
    np.testing.assert_allclose(gram.predict(kernel(grid, X)), direct.predict(grid), atol=1e-4)


def test_groups_hold_out_blocks():
    X, y = data(24)
    blocks = np.arange(24) // 8
    model = CircularGPRegressor(KERNEL, n_starts=1).fit(X, y, groups=blocks)
    assert model.score(X, y) > -0.5
    with pytest.raises(ValueError, match="single label"):
        CircularGPRegressor(KERNEL).fit(X, y, groups=np.zeros(24))
    with pytest.raises(ValueError, match="same input"):
        CircularGPRegressor(KERNEL).fit(np.zeros((24, 1)), y, groups=blocks)


def test_pipelines_searches_pickles():
    X, y = data(30)
    pipeline = make_pipeline(StandardScaler(), CircularGPRegressor(KERNEL, n_starts=1, average=False)).fit(X, y)
    assert pipeline.score(X, y) > 0.0
    search = GridSearchCV(
        CircularGPRegressor(KERNEL, n_starts=1, average=False), {"radial_scale": ["soft", "hard"]}, cv=2
    )
    assert search.fit(X, y).best_params_["radial_scale"] in ("soft", "hard")
    model = CircularGPRegressor(KERNEL, n_starts=1, average=False).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


def test_periodic_inputs():
    hours = np.arange(0.0, 72.0, 2.0)[:, None]
    y = np.random.default_rng(0).vonmises(np.sin(hours[:, 0] * 2 * np.pi / 24), 20.0)
    kernel = ConstantKernel(0.5) * ExpSineSquared(1.0, 24.0, periodicity_bounds="fixed")
    model = CircularGPRegressor(kernel, n_starts=1, average=False).fit(hours, y)
    np.testing.assert_allclose(model.predict([[3.0]]), model.predict([[3.0 + 24 * 5]]), atol=1e-6)


def test_no_kernel_tries_both_roughnesses():
    X, y = data(40)
    model = CircularGPRegressor(average=False, n_starts=1).fit(X, y)
    assert "Matern" in str(model.kernel_)
    assert model.score(X, y) > 0.0


def test_bad_input_is_named():
    X, y = data(20)
    with pytest.warns(DegreesWarning, match="degrees"):
        CircularGPRegressor(KERNEL, n_starts=1, average=False).fit(X, np.rad2deg(y))
    holes = X.copy()
    holes[3] = np.nan
    with pytest.raises(ValueError, match="imput"):
        CircularGPRegressor(KERNEL).fit(holes, y)
    for option, value, text in [
        ("radial_scale", "firm", "radial_scale must be one of"),
        ("radial_scale", -1.0, "radial_scale must be"),
        ("inference", "magic", "inference must be one of"),
        ("selection", "luck", "selection must be one of"),
        ("noise_order", 0, "noise_order must be >= 1"),
        ("noise_order", 99, "noise_order must be at most 12, got 99: .* use 1, 2 or 4, or 'auto'"),
        ("noise_order", "high", "noise_order must be one of 'auto'"),
        ("n_starts", 0, "n_starts must be >= 1"),
        ("coordinates", "polar", "coordinates must be one of"),
        ("tol", 0.0, "tol must be"),
    ]:
        with pytest.raises(ValueError, match=text):
            CircularGPRegressor(KERNEL, **{option: value}).fit(X, y)
    with pytest.raises(TypeError, match="scikit-learn kernel"):
        CircularGPRegressor("rbf").fit(X, y)
    with pytest.raises(ValueError, match="symmetric"):
        CircularGPRegressor("precomputed").fit(np.triu(RBF(1.0)(X)), y)
    with pytest.raises(ValueError, match="positive definite"):
        CircularGPRegressor("precomputed").fit(RBF(1.0)(X) - 2 * np.eye(20), y)
    with pytest.raises(ValueError, match="square"):
        CircularGPRegressor("precomputed").fit(RBF(1.0)(X)[:, :5], y)


@pytest.mark.parametrize("case", ["one point", "constant", "contradicting"])
def test_thin_data_give_finite_answers(case):
    X, y = {
        "one point": (np.array([[1.0]]), np.array([0.5])),
        "constant": (np.arange(10.0)[:, None], np.full(10, 0.5)),
        "contradicting": (np.zeros((6, 1)), np.array([0.0, np.pi, 0.0, np.pi, 0.1, np.pi])),
    }[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CircularGPRegressor().fit(X, y)
    dist = model.predict_dist([[0.0], [100.0]])
    assert np.isfinite(dist.logpdf(0.3)).all()


def test_a_chain_is_exact_and_near_to_dense_propagation():
    X, y = data(40)
    kernel = ConstantKernel(0.5) * Matern(1.5, nu=0.5)
    options = {"radial_scale": "hard", "selection": None, "average": False}
    chain, dense = (CircularGPRegressor(kernel, inference=name, **options).fit(X, y) for name in ("auto", "ep"))
    assert chain.log_evidence_ < 0.0
    assert not hasattr(dense, "log_evidence_")
    # Dense propagation approximates, and has a nugget.
    assert np.abs(chain.loo_log_density_ - dense.loo_log_density_).mean() < 0.06
    grid = np.array([[2.0], [7.3], [30.0]])
    assert np.abs(np.angle(np.exp(1j * (chain.predict(grid)[:2] - dense.predict(grid)[:2])))).max() < 0.05
    with pytest.raises(ValueError, match="nu=0.5"):
        CircularGPRegressor(KERNEL, radial_scale="hard", inference="chain").fit(X, y)


def test_many_neighbours_are_the_dense_answer():
    X, y = data(30)
    options = {"selection": None, "average": False}
    dense = CircularGPRegressor(KERNEL, **options).fit(X, y)
    near = CircularGPRegressor(KERNEL, inference="neighbors", n_neighbors=29, **options).fit(X, y)
    np.testing.assert_allclose(near.loo_log_density_, dense.loo_log_density_, atol=1e-3)
    np.testing.assert_allclose(near.predict(X), dense.predict(X), atol=1e-3)


REFUSED = {
    "blocks and neighbours": ({"inference": "neighbors"}, True, r"cannot honour fit\(groups=...\).*inference='ep'"),
    "evidence and neighbours": (
        {"inference": "neighbors", "selection": "evidence", "radial_scale": "free"},
        False,
        r"cannot honour selection='evidence'.*inference='ep'",
    ),
    "coordinates and neighbours": (
        {"inference": "neighbors", "coordinates": "separate"},
        False,
        r"got coordinates='separate'; use coordinates='shared', or inference='ep'",
    ),
    "blocks and the chain": (
        {"inference": "chain", "radial_scale": "hard", "kernel": ConstantKernel(0.5) * Matern(1.5, nu=0.5)},
        True,
        r"cannot honour fit\(groups=...\).*inference='ep'",
    ),
    "mean field off the circle": ({"inference": "mean_field"}, False, r"radial_scale='hard' and contaminated=False"),
    "an average of neighbours": (
        {"inference": "neighbors", "average": True},
        False,
        "average=True needs.*average=False",
    ),
    "an average of nothing learnt": ({"selection": None, "average": True}, False, "average=True needs.*average=False"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_engine_cannot_do_is_refused(case):
    options, blocks, message = REFUSED[case]
    X, y = data(24)
    model = CircularGPRegressor(**{"kernel": KERNEL, "n_starts": 1, **options})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, groups=np.arange(24) // 8 if blocks else None)


def test_a_gram_matrix_has_no_neighbours():
    X, y = data(24)
    with pytest.raises(ValueError, match=r"kernel='precomputed'.*inference='ep'"):
        CircularGPRegressor("precomputed", inference="neighbors").fit(KERNEL(X), y)


def test_inference_is_as_accurate_as_its_tolerance():
    X, y = data(30)
    exact, rough = (CircularGPRegressor(KERNEL, selection=None, tol=tol).fit(X, y) for tol in (1e-10, 1e-1))
    default = CircularGPRegressor(KERNEL, selection=None).fit(X, y)
    error, coarse = (np.abs(m.loo_log_density_ - exact.loo_log_density_).max() for m in (default, rough))
    assert error < 1e-6 < 1e-4 < coarse


# ---- the radial scale by folds ---------------------------------------------------------------------------------------


class Oracle(BaseEstimator):
    """Held-out log densities that are known, by radial scale; it remembers what it was fitted to."""

    def __init__(self, gains, radial_scale="cv", kernel=None):
        self.gains, self.radial_scale, self.kernel = gains, radial_scale, kernel

    def fit(self, X, y, sample_weight=None, groups=None):
        self.seen_ = set(X[:, 0].tolist())
        assert groups is None or np.unique(groups).size > 1
        return self

    def log_density(self, X, y):
        assert not self.seen_ & set(X[:, 0].tolist())  # whole inputs are held out
        return self.gains[self.radial_scale](X[:, 0])


@pytest.mark.parametrize(
    ("half", "hard", "expected"),
    [(0.1, 0.05, 0.5), (0.1, 0.15, 0.0), (-0.1, -0.1, 1.0), (0.001, 0.0, 1.0)],
)
def test_another_radial_scale_must_win_by_a_standard_error(half, hard, expected):
    def values(gain):
        return lambda x: gain + 0.3 * np.sin(7.0 * x) if gain else 0.0 * x

    gains = {1.0: values(0.0), 0.5: values(half), 0.0: values(hard), np.inf: lambda x: -1.0 + 0.0 * x}
    X = np.repeat(np.arange(60.0), 2)[:, None]
    training = Training(X, np.zeros(120), np.ones(120))
    chosen, scores = choose_radial_scale(Oracle(gains), training, merge_replicates(training), None)
    assert chosen == expected
    assert scores[0.5] == pytest.approx(gains[0.5](X[:, 0]).mean())
    # Blocks of inputs are a few pieces of evidence only.
    chosen, _ = choose_radial_scale(Oracle(gains), training, merge_replicates(training), X[:, 0] // 30)
    assert chosen in (expected, 1.0)


def test_the_radial_scale_by_folds():
    X, y = data(40)
    options = {"n_starts": 1, "average": False}
    model = CircularGPRegressor(KERNEL, radial_scale="cv", **options).fit(X, y)
    assert set(model.radial_scale_scores_) == {0.0, 0.5, 1.0, np.inf}
    assert model.radial_scale_ in model.radial_scale_scores_
    direct = CircularGPRegressor(KERNEL, radial_scale=model.radial_scale_, **options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), direct.predict(X))
    folds = list(GroupKFold(5, shuffle=True, random_state=0).split(X, groups=np.arange(40)))
    parts = [CircularGPRegressor(KERNEL, **options).fit(X[a], y[a]).log_density(X[b], y[b]) for a, b in folds]
    assert model.radial_scale_scores_[1.0] == pytest.approx(np.concatenate(parts).mean(), abs=1e-9)
    kernel = Matern(1.5, nu=1.5)
    gram = CircularGPRegressor("precomputed", radial_scale="cv", **options).fit(kernel(X), y)
    assert np.isfinite(list(gram.radial_scale_scores_.values())).all()
    for few, blocks in [(X[:1], None), (X, np.zeros(40))]:
        with pytest.raises(ValueError, match="at least"):
            CircularGPRegressor(KERNEL, radial_scale="cv", **options).fit(few, y[: len(few)], groups=blocks)


def interrupted_at_the_fifth(monkeypatch):
    """Let the fifth evaluation of a search be interrupted; the calls made so far."""
    honest, calls = DenseEngine.objective_and_gradient, []

    def impatient(self, vector, tolerance):
        calls.append(tolerance)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return honest(self, vector, tolerance)

    monkeypatch.setattr(DenseEngine, "objective_and_gradient", impatient)
    return calls


def test_an_interrupted_choice_of_the_radial_scale_keeps_the_soft_circle(monkeypatch):
    interrupted_at_the_fifth(monkeypatch)
    with pytest.warns(ConvergenceWarning, match="choice of the radial scale was interrupted"):
        model = CircularGPRegressor(KERNEL, radial_scale="cv", n_starts=1, average=False).fit(*data(20))
    assert model.radial_scale_ == 1.0


def test_an_interrupted_search_keeps_the_best_so_far(monkeypatch):
    calls = interrupted_at_the_fifth(monkeypatch)
    X, y = data(20)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best found so far"):
        model = CircularGPRegressor(KERNEL, average=True).fit(X, y)
    assert len(calls) == 5
    assert np.isfinite(model.score(X, y))
    calls[:] = [0.0] * 4
    with pytest.raises(KeyboardInterrupt):  # nothing was found yet
        CircularGPRegressor(KERNEL).fit(X, y)
