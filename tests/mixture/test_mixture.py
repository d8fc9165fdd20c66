"""TorusMixture: EM, growth, missing angles, conditionals, bad input, and scikit-learn's own checks."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from mgvm import GridDensity, TorusMixture
from mgvm.angles import DegreesWarning
from mgvm.inference import ConvergenceWarning
from mgvm.mixture import em
from mgvm.mixture.families.directed import DirectedFamily

COMPONENTS = ["von_mises", "directed", "directed_von_mises", "mgvm", "wrapped_normal"]


def two_clusters(rng, size=300, dimension=2):
    """Half the rows around 1, half around -2, the first cluster with dependent angles."""
    first = rng.normal(1.0, 0.3, (size, dimension))
    first[:, 1] += 0.8 * (first[:, 0] - 1.0)
    second = rng.vonmises(-2.0, 12.0, (size, dimension))
    return np.concatenate([first, second]), np.repeat([0, 1], size)


def grid(side, dimension):
    axis = -np.pi + 2 * np.pi * np.arange(side) / side
    return np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


@parametrize_with_checks([TorusMixture(component="von_mises"), TorusMixture(component="directed_von_mises")])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("component", COMPONENTS)
def test_two_clusters_are_found_and_the_density_is_one(component):
    rng = np.random.default_rng(0)
    x, truth = two_clusters(rng)
    mixture = TorusMixture(2, component=component, random_state=0).fit(x)
    labels = mixture.predict(x)
    assert max(np.mean(labels == truth), np.mean(labels != truth)) > 0.99
    np.testing.assert_allclose(mixture.weights_, 0.5, atol=0.02)
    total = np.exp(mixture.score_samples(grid(128, 2))).mean() * (2 * np.pi) ** 2
    assert total == pytest.approx(1.0, abs=1e-6)
    assert mixture.converged_
    assert mixture.score(x) == pytest.approx(mixture.score_samples(x).mean())
    np.testing.assert_allclose(mixture.predict_proba(x).sum(axis=1), 1.0)
    draws, drawn_from = mixture.sample(4000, random_state=1)
    assert draws.shape == (4000, 2)
    assert np.mean(mixture.predict(draws) == drawn_from) > 0.98
    # A distribution's own draws score its entropy's negative: near the score of the rows it was fitted to.
    assert mixture.score(draws) == pytest.approx(mixture.score(x), abs=0.12)


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_bound_never_falls(component):
    rng = np.random.default_rng(1)
    x = rng.vonmises(0.0, 1.0, (200, 2)) + rng.choice([0.0, 2.5], (200, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture = TorusMixture(5, component=component, tol=1e-7, max_iter=60, random_state=0).fit(x)
    assert len(mixture.lower_bounds_) > 5
    assert (np.diff(mixture.lower_bounds_) > -1e-7).all()


def test_a_known_mixture_is_recovered():
    rng = np.random.default_rng(2)
    truth = TorusMixture(3, component="directed_von_mises", random_state=0).fit(rng.uniform(-3, 3, (60, 4)))
    x, _ = truth.sample(6000, random_state=3)
    fresh, _ = truth.sample(4000, random_state=4)
    fitted = TorusMixture(3, component="directed_von_mises", n_init=3, pseudo_count=0.0, random_state=1).fit(x)
    n_parameters = fitted.n_parameters()
    # The expected excess is parameters/(2N) a row; three times that allows for a local optimum's worth of chance.
    assert truth.score(fresh) - fitted.score(fresh) < 3 * n_parameters / (2 * 6000)


def test_an_average_is_the_mean_of_densities_and_scores_better_than_its_parts():
    rng = np.random.default_rng(20)
    x, fresh = rng.uniform(-np.pi, np.pi, (2, 150, 3))
    average = TorusMixture(4, component="directed_von_mises", n_average=3, pseudo_count=0.0, random_state=0).fit(x)
    assert average.n_components_ == 12
    assert average.weights_.sum() == pytest.approx(1.0)
    parts, one = [], copy.copy(average)
    for part in range(3):
        chosen = slice(4 * part, 4 * part + 4)
        one.weights_ = 3 * average.weights_[chosen]
        one.components_ = type(average.components_)(*(array[chosen] for array in average.components_))
        parts.append(one.score_samples(fresh))
    mean = np.log(np.exp(parts).mean(axis=0))
    np.testing.assert_allclose(average.score_samples(fresh), mean, atol=1e-10)
    assert average.score(fresh) > np.mean(parts) + 0.05


def test_weights_are_repetitions():
    rng = np.random.default_rng(5)
    x, _ = two_clusters(rng, 60)
    weights = rng.integers(0, 4, 120)
    family = DirectedFamily((0, 1), second=False)
    start = em.start_mixture(family, x, np.ones(120), 2, rng)
    one = em.run(family, start, x, weights.astype(float), max_iter=30, tol=1e-12)
    two = em.run(family, start, np.repeat(x, weights, axis=0), np.ones(weights.sum()), max_iter=30, tol=1e-12)
    np.testing.assert_allclose(one.trace[:20], two.trace[:20], rtol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_weights_are_repetitions_where_rows_are_drawn_at_random(missing):
    rng = np.random.default_rng(11)
    x, _ = two_clusters(rng, size=60)
    if missing:
        x[rng.random(len(x)) < 0.1, 1] = np.nan
    copies = rng.integers(0, 4, len(x))
    order = rng.permutation(len(x))
    settings = {"n_components": "auto", "max_components": 6, "component": "directed_von_mises", "random_state": 0}
    weighted = TorusMixture(**settings).fit(x[order], sample_weight=copies[order])
    repeated = TorusMixture(**settings).fit(np.repeat(x, copies, axis=0))
    assert weighted.n_components_ == repeated.n_components_
    assert weighted.validation_scores_ == pytest.approx(repeated.validation_scores_, rel=1e-12)
    np.testing.assert_array_equal(weighted.score_samples(x), repeated.score_samples(x))


@pytest.mark.parametrize(("distinct", "copies"), [(2, 1), (3, 1), (2, 100), (5, 40), (12, 5)])
@pytest.mark.parametrize("component", ["auto", "directed", "von_mises", "wrapped_normal"])
@pytest.mark.parametrize("dimension", [2, 3])
def test_a_size_is_chosen_from_few_rows_that_differ(component, dimension, distinct, copies):
    # Growth asked k-means for more clusters than there were rows to grow on; and it ended in components so narrow about
    # these that EM could not move them towards the rows held out: 60,000 nats a row below the uniform density.
    for seed in range(3):
        x = np.repeat(np.random.default_rng(seed).uniform(-3.0, 3.0, (distinct, dimension)), copies, axis=0)
        model = TorusMixture("auto", component=component, random_state=0).fit(x)
        assert model.score(x) > -dimension * np.log(2.0 * np.pi)


def test_a_warm_start_far_from_the_rows_begins_anew():
    rng = np.random.default_rng(0)
    model = TorusMixture(1, component="directed", warm_start=True, random_state=0).fit(rng.normal(0.0, 1e-3, (50, 3)))
    elsewhere = rng.normal(2.0, 0.5, (50, 3))
    fresh = TorusMixture(1, component="directed", random_state=0).fit(elsewhere)
    assert model.fit(elsewhere).score(elsewhere) == pytest.approx(fresh.score(elsewhere), abs=0.01)


def test_weights_that_count_for_few_rows_are_pointed_out():
    x, _ = two_clusters(np.random.default_rng(12), size=30)
    with pytest.warns(UserWarning, match=r"sums to 1 for 60 rows.*mean of 1"):
        TorusMixture(2, component="von_mises", random_state=0).fit(x, sample_weight=np.full(60, 1 / 60))


def test_growth_by_held_out_rows_finds_enough_components():
    rng = np.random.default_rng(6)
    centres = rng.uniform(-np.pi, np.pi, (6, 2))
    x = centres[rng.integers(0, 6, 900)] + rng.normal(0.0, 0.15, (900, 2))
    mixture = TorusMixture("auto", component="von_mises", random_state=0).fit(x)
    assert 5 <= mixture.n_components_ <= 12
    assert max(mixture.validation_scores_, key=mixture.validation_scores_.get) >= mixture.n_components_ - 1
    fresh = centres[rng.integers(0, 6, 900)] + rng.normal(0.0, 0.15, (900, 2))
    few = TorusMixture(2, component="von_mises", random_state=0).fit(x)
    assert mixture.score(fresh) > few.score(fresh) + 0.3
    assert mixture.bic(x) < few.bic(x)
    assert mixture.aic(x) < few.aic(x)


def test_a_split_raises_the_bound_where_a_component_covers_two_clusters():
    rng = np.random.default_rng(7)
    x, _ = two_clusters(rng, 100)
    family = DirectedFamily((0, 1), second=False)
    weights = np.ones(200)
    one = em.start_mixture(family, x, weights, 1, rng)
    two = em.split(family, one, x, weights, 1)
    assert two.size == 2
    assert np.exp(two.log_weights).sum() == pytest.approx(1.0)
    before, after = (em.mean_log_density(family, m, x, weights) for m in (one, two))
    assert after > before + 0.5


@pytest.mark.parametrize("component", ["von_mises", "directed", "mgvm", "wrapped_normal"])
def test_missing_angles(component):
    rng = np.random.default_rng(8)
    x, _ = two_clusters(rng, 200)
    holes = x.copy()
    holes[rng.random(400) < 0.2, 0] = np.nan
    holes[np.isfinite(holes[:, 0]) & (rng.random(400) < 0.2), 1] = np.nan
    mixture = TorusMixture(2, component=component, random_state=0).fit(holes)
    whole = TorusMixture(2, component=component, random_state=0).fit(x)
    assert mixture.score(x) > whole.score(x) - 0.06
    # A marginal is the joint integrated over what is missing.
    axis = 2 * np.pi * np.arange(256) / 256
    for angle in (0, 1):
        row = x[:1].copy()
        row[0, angle] = np.nan
        full = np.repeat(x[:1], 256, axis=0)
        full[:, angle] = axis
        expected = np.log(np.exp(mixture.score_samples(full)).mean() * 2 * np.pi)
        assert mixture.score_samples(row)[0] == pytest.approx(expected, abs=1e-6)
    assert np.mean(mixture.predict(holes) == mixture.predict(x)) > 0.99
    for method in ("mean", "sample"):
        filled = mixture.impute(holes, method=method, random_state=0)
        seen = np.isfinite(holes)
        np.testing.assert_array_equal(filled[seen], holes[seen])
        error = np.abs(np.angle(np.exp(1j * (filled - x))))[~seen]
        assert np.isfinite(filled).all()
        assert np.median(error) < 0.5


def test_rows_with_nothing_observed():
    x = np.random.default_rng(9).normal(size=(50, 3))
    mixture = TorusMixture(2, component="directed", random_state=0).fit(x)
    nothing = np.full((1, 3), np.nan)
    assert mixture.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(mixture.predict_proba(nothing)[0], mixture.weights_)
    assert np.isfinite(mixture.impute(nothing)).all()


@pytest.mark.parametrize("component", ["directed", "mgvm"])
def test_conditional_of_one_angle_is_a_slice_of_the_joint(component):
    rng = np.random.default_rng(10)
    x, _ = two_clusters(rng, 150, dimension=3)
    mixture = TorusMixture(2, component=component, random_state=0).fit(pd.DataFrame(x, columns=["a", "b", "c"]))
    for left in range(3):
        given = {column: x[:4, column] for column in range(3) if column != left}
        dist = mixture.conditional(given)
        assert isinstance(dist, GridDensity)
        assert dist.batch_shape == (4,)
        full = pd.DataFrame(x[:4], columns=["a", "b", "c"])
        hidden = full.copy()
        hidden.iloc[:, left] = np.nan
        expected = mixture.score_samples(full) - mixture.score_samples(hidden)
        np.testing.assert_allclose(dist.logpdf(x[:4, left]), expected, atol=1e-5)
    by_name = mixture.conditional({"a": 0.3, "c": 1.0})
    np.testing.assert_allclose(by_name.log_values, mixture.conditional({0: 0.3, -1: 1.0}).log_values)


def test_narrow_conditionals_are_resolved():
    rng = np.random.default_rng(21)
    x = rng.normal(size=(300, 2))
    x[:, 1] = 0.5 + rng.normal(0.0, 0.004, 300)
    mixture = TorusMixture(1, component="directed_von_mises", random_state=0).fit(x)
    dist = mixture.conditional({0: 0.2})
    assert dist.log_values.shape[-1] > 256
    given = mixture.score_samples([[0.2, np.nan]])[0]
    at = np.array([0.495, 0.5, 0.507])
    joint = mixture.score_samples(np.column_stack([np.full(3, 0.2), at]))
    np.testing.assert_allclose(dist.logpdf(at), joint - given, atol=1e-4)


def test_conditional_of_several_angles():
    rng = np.random.default_rng(11)
    x, _ = two_clusters(rng, 150, dimension=3)
    mixture = TorusMixture(2, component="directed_von_mises", random_state=0).fit(x)
    dist = mixture.conditional({1: np.array([1.0, -2.0])})
    assert dist.angles == (0, 2)
    points = grid(64, 2)
    values = dist.logpdf(points[:, None, :])
    np.testing.assert_allclose(np.exp(values).mean(axis=0) * (2 * np.pi) ** 2, 1.0, atol=1e-6)
    draws = dist.sample(300, rng=0)
    assert draws.shape == (300, 2, 2)
    for b in range(2):
        p = np.exp(values[:, b])
        for power in ([1, 0], [0, 1], [1, -1]):
            expected = (p / p.sum()) @ np.exp(1j * points @ power)
            assert abs(np.exp(1j * draws[:, b] @ power).mean() - expected) < 5 / np.sqrt(300)
    np.testing.assert_allclose(dist.weights.sum(axis=-1), 1.0)
    assert "angles (0, 2)" in repr(dist)


def test_warm_start_goes_on_and_clones_pickle():
    rng = np.random.default_rng(12)
    x, _ = two_clusters(rng, 100)
    mixture = TorusMixture(3, component="von_mises", max_iter=2, tol=1e-9, warm_start=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        mixture.fit(x)
    first = mixture.lower_bound_
    with pytest.warns(ConvergenceWarning):
        mixture.fit(x)
    assert mixture.lower_bound_ > first
    again = pickle.loads(pickle.dumps(mixture))
    np.testing.assert_array_equal(again.score_samples(x), mixture.score_samples(x))
    with pytest.raises(NotFittedError):
        clone(mixture).score(x)


def test_progress_is_printed(capsys):
    x, _ = two_clusters(np.random.default_rng(13), 50)
    TorusMixture(2, component="von_mises", verbose=2, random_state=0).fit(x)
    assert "EM iteration 0: 2 components" in capsys.readouterr().err


def test_an_interrupted_fit_keeps_the_best_so_far(monkeypatch):
    x, _ = two_clusters(np.random.default_rng(14), 50)
    mixture = TorusMixture(2, component="von_mises", verbose=2, random_state=0)

    class Terminal(io.StringIO):
        def write(self, text):
            if "EM iteration" in text:
                raise KeyboardInterrupt
            return super().write(text)

    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        mixture.fit(x)
    assert np.isfinite(mixture.score(x))
    monkeypatch.setattr(em, "start_mixture", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        TorusMixture(2, component="von_mises").fit(x)


def test_angle_order_changes_the_distribution_and_is_checked():
    x, _ = two_clusters(np.random.default_rng(15), 80)
    one = TorusMixture(1, component="directed", random_state=0).fit(x)
    two = TorusMixture(1, component="directed", angle_order=[1, 0], random_state=0).fit(x)
    assert two.family_.order == (1, 0)
    assert abs(one.score(x) - two.score(x)) > 1e-6
    with pytest.raises(ValueError, match="angle_order must name each"):
        TorusMixture(1, component="directed", angle_order=[0, 0]).fit(x)


@pytest.mark.parametrize("component", COMPONENTS)
def test_hard_data_give_finite_densities(component):
    rng = np.random.default_rng(16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        single = TorusMixture(1, component=component).fit([[0.3, -2.0]])
        assert np.isfinite(single.score([[0.3, -2.0], [1.0, 1.0]]))
        column = rng.normal(size=(40, 1))
        doubled = TorusMixture(2, component=component, random_state=0).fit(np.hstack([column, column]))
        assert np.isfinite(doubled.score(np.hstack([column, column + 0.1])))
        with pytest.warns(UserWarning, match="column 1 of X is constant"):
            constant = TorusMixture(2, component=component, random_state=0).fit(np.hstack([column, 0 * column]))
        assert np.isfinite(constant.score(np.hstack([column, 0 * column])))
        same = TorusMixture(3, component=component, random_state=0)
        with pytest.warns(UserWarning, match="is constant"):
            same.fit(np.full((5, 2), 0.7))
        assert same.n_components_ <= 3
        assert np.isfinite(same.score([[0.7, 0.7]]))
        with pytest.warns(UserWarning, match="is constant"):
            many = TorusMixture(2, component=component, random_state=0).fit(np.full((50, 2), 0.7))
        assert np.isfinite(many.score([[0.7, 0.7]]))


def test_bad_input_is_named():
    x = np.random.default_rng(17).normal(size=(5, 2))
    with pytest.raises(ValueError, match="n_components = 6 needs as many rows, got n_samples = 5"):
        TorusMixture(6).fit(x)
    with pytest.raises(ValueError, match="component must be one of"):
        TorusMixture(component="gauss").fit(x)
    with pytest.raises(ValueError, match="n_components must be one of 'auto'"):
        TorusMixture("many").fit(x)
    with pytest.raises(ValueError, match="n_components must be >= 1"):
        TorusMixture(0).fit(x)
    with pytest.raises(ValueError, match="holds rows out"):
        TorusMixture("auto").fit(x[:1])
    with pytest.raises(ValueError, match="column 1 of data has no observed angle"):
        TorusMixture(component="von_mises").fit(np.column_stack([x[:, 0], np.full(5, np.nan)]))
    with pytest.warns(DegreesWarning):
        TorusMixture(component="von_mises").fit(np.degrees(np.linspace(-2, 2, 20)).reshape(10, 2))
    with pytest.raises(ValueError, match="up to 3 angles"):
        TorusMixture(component="mgvm").fit(np.random.default_rng(0).normal(size=(20, 4)))
    mixture = TorusMixture(component="von_mises").fit(x)
    with pytest.raises(ValueError, match="fixes all 2 angles"):
        mixture.conditional({0: 0.1, 1: 0.2})
    with pytest.raises(ValueError, match="column 'phi'"):
        mixture.conditional({"phi": 0.1})
    with pytest.raises(ValueError, match="column 7"):
        mixture.conditional({7: 0.1})
    with pytest.raises(ValueError, match="twice"):
        mixture.conditional({0: 0.1, -2: 0.1})
    with pytest.raises(ValueError, match="method must be one of"):
        mixture.impute(x, method="median")


def test_pseudo_count_reaches_wrapped_normals():
    x = np.random.default_rng(0).multivariate_normal([0.0, 0.0], [[0.1, 0.09], [0.09, 0.1]], 40)
    free, default, stiff = (
        TorusMixture(component="wrapped_normal", pseudo_count=count).fit(x) for count in (0.0, 30.0, 300.0)
    )
    assert (free.family_.pseudo_count, default.family_.pseudo_count) == (0.0, 10.0)
    correlations = [abs(m.components_.cov[0, 0, 1]) / m.components_.cov[0, 0, 0] for m in (free, default, stiff)]
    assert correlations[0] > correlations[1] > correlations[2]
    np.testing.assert_allclose(free.components_.cov[0], np.cov(x.T, bias=True), rtol=1e-3)


@pytest.mark.parametrize("component", ["mgvm", "von_mises"])
def test_more_components_than_distinct_rows(component):
    """Components that are split and come to nothing, again and again, do not keep the fit going."""
    x = np.repeat([[1.0], [1.4], [-2.0], [-1.7]], 20, axis=0)
    mixture = TorusMixture(7, component=component, random_state=0).fit(x)
    assert 1 <= mixture.n_components_ <= 7
    assert np.isfinite(mixture.score_samples(x)).all()


def test_conditionals_given_no_angles_are_refused():
    x = np.random.default_rng(0).vonmises(0.5, 3.0, (40, 3))
    with pytest.raises(ValueError, match=r"given holds no angles, its shape is \(0,\)"):
        TorusMixture(1, random_state=0).fit(x).conditional({0: []})
