"""Scorers of mgvm.scores in scikit-learn's cross-validation and searches, and metadata that travels through both."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from portable import von_mises_draws
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgvm import CircularStackingRegressor, scores
from mgvm.angles import to_compass
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, NeighborsCircularRegressor
from mgvm.scores import make_scorer

NAMES = ("log", "crps", "angular_error")
ROWS = 60


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (ROWS, 1))
    return X, X[:, 0] + von_mises_draws(rng, 0.0, 8.0, ROWS)


@pytest.fixture
def model(data):
    return NeighborsCircularRegressor(8).fit(*data)


def test_values_are_means_of_the_scores(data, model):
    X, y = data
    dist = model.predict_dist(X)
    assert make_scorer("log")(model, X, y) == pytest.approx(scores.log_score(dist, y).mean())
    assert make_scorer("crps")(model, X, y) == pytest.approx(-scores.crps(dist, y).mean())
    assert make_scorer("angular_error")(model, X, y) == pytest.approx(-scores.angular_error(model.predict(X), y).mean())


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_counts(name, data, model):
    X, y = data
    weights = np.arange(ROWS) % 3
    score = make_scorer(name)
    rows = np.repeat(np.arange(ROWS), weights)
    assert score(model, X, y, sample_weight=weights) == pytest.approx(score(model, X[rows], y[rows]))


def test_pipelines_and_searches_are_looked_into(data):
    X, y = data
    plain = NeighborsCircularRegressor(8).fit(StandardScaler().fit_transform(X), y)
    piped = make_pipeline(StandardScaler(), NeighborsCircularRegressor(8)).fit(X, y)
    for name in NAMES:
        score = make_scorer(name)
        expected = score(plain, StandardScaler().fit_transform(X), y)
        assert score(piped, X, y) == pytest.approx(expected)
        grid = GridSearchCV(piped, {"neighborscircularregressor__n_neighbors": [8]}, scoring=score, cv=2).fit(X, y)
        assert score(grid, X, y) == pytest.approx(expected)


def test_a_search_chooses_by_the_score(data):
    X, y = data
    for name in NAMES:
        grid = GridSearchCV(
            NeighborsCircularRegressor(), {"n_neighbors": [5, ROWS // 2]}, scoring=make_scorer(name), cv=3
        )
        assert grid.fit(X, y).best_params_ == {"n_neighbors": 5}


def test_several_at_once(data):
    found = cross_validate(GvMRegressor(), *data, scoring={name: make_scorer(name) for name in NAMES}, cv=3)
    assert all(np.isfinite(found[f"test_{name}"]).all() for name in NAMES)


def test_errors_are_in_the_unit_of_the_estimator(data, model):
    X, y = data
    bearing = NeighborsCircularRegressor(8, unit="compass").fit(X, to_compass(y))
    for name, factor in (("log", 1.0), ("crps", 1.0), ("angular_error", 180.0 / np.pi)):
        score = make_scorer(name)
        assert score(bearing, X, to_compass(y)) == pytest.approx(factor * score(model, X, y), rel=1e-9)


def test_any_regressor_has_an_angular_error(data):
    X, y = data
    line = LinearRegression().fit(X, y)
    assert make_scorer("angular_error")(line, X, y) == pytest.approx(-scores.angular_error(line.predict(X), y).mean())


@pytest.mark.parametrize("name", ["log", "crps"])
def test_a_regressor_without_densities_is_refused(name, data):
    with pytest.raises(TypeError, match="needs densities, and LinearRegression has no predict_dist; score it by"):
        make_scorer(name)(LinearRegression().fit(*data), *data)
    with pytest.raises(TypeError, match="needs densities"):
        cross_validate(LinearRegression(), *data, scoring=make_scorer(name), error_score="raise")


def test_names_and_copies():
    with pytest.raises(ValueError, match="name must be one of 'log', 'crps', 'angular_error', got 'r2'"):
        make_scorer("r2")
    assert repr(pickle.loads(pickle.dumps(make_scorer("log")))) == "make_scorer('log')"


class TestMetadata:
    """Weights and groups reach the estimator's fit, its score and the scorer where they were asked for."""

    @pytest.fixture(autouse=True)
    def routing(self):
        with config_context(enable_metadata_routing=True):
            yield

    @pytest.mark.parametrize("kind", [GvMRegressor, NeighborsCircularRegressor, KernelCircularRegressor])
    def test_weights_through_a_pipeline_and_a_cross_validation(self, kind, data):
        X, y = data
        weights = np.where(np.arange(ROWS) < 20, 0.0, 1.0)
        folds = [(np.arange(ROWS), np.arange(40, ROWS))]
        member = kind().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(
            make_pipeline(StandardScaler().set_fit_request(sample_weight=False), member),
            X,
            y,
            params={"sample_weight": weights},
            cv=folds,
            scoring=make_scorer("log").set_score_request(sample_weight=False),
            return_estimator=True,
        )
        inside = found["estimator"][0][-1]
        alone = kind().fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
        rows = StandardScaler().fit(X).transform(X)
        assert_allclose(inside.predict(rows), alone.predict(rows), rtol=1e-9)

    def test_weights_to_a_scorer(self, data):
        X, y = data
        weights = np.arange(ROWS) % 4
        score = make_scorer("crps").set_score_request(sample_weight=True)
        model = GvMRegressor().set_fit_request(sample_weight=False)
        folds = list(KFold(3).split(X))
        found = cross_validate(model, X, y, params={"sample_weight": weights}, scoring=score, cv=folds)["test_score"]
        for value, (train, test) in zip(found, folds, strict=True):
            alone = GvMRegressor().fit(X[train], y[train])
            assert value == pytest.approx(make_scorer("crps")(alone, X[test], y[test], weights[test]))

    def test_groups_to_the_folds_and_to_the_fit(self, data):
        X, y = data
        groups = np.arange(ROWS) // 10
        stack = CircularStackingRegressor([("none", GvMRegressor()), ("near", NeighborsCircularRegressor(5))])
        found = cross_validate(
            stack.set_fit_request(groups=True),
            X,
            y,
            params={"groups": groups},
            cv=GroupKFold(2),
            scoring=make_scorer("log"),
            return_estimator=True,
            return_indices=True,
        )
        for fitted, train in zip(found["estimator"], found["indices"]["train"], strict=True):
            alone = CircularStackingRegressor(stack.estimators).fit(X[train], y[train], groups=groups[train])
            assert_allclose(fitted.weights_, alone.weights_, rtol=1e-9)

    def test_groups_through_a_search_of_a_pipeline(self, data):
        X, y = data
        groups = np.arange(ROWS) // 10
        stack = CircularStackingRegressor([("none", GvMRegressor()), ("near", NeighborsCircularRegressor(5))])
        model = stack.set_fit_request(groups=True, sample_weight=False)
        grid = GridSearchCV(
            make_pipeline(StandardScaler(), model),
            {"circularstackingregressor__near__n_neighbors": [5, 10]},
            scoring=make_scorer("log"),
            cv=GroupKFold(2),
        )
        assert np.isfinite(grid.fit(X, y, groups=groups).best_score_)

    def test_what_was_not_asked_for_is_refused(self, data):
        X, y = data
        pipe = make_pipeline(StandardScaler(), GvMRegressor())
        with pytest.raises(ValueError, match="sample_weight"):
            pipe.fit(X, y, sample_weight=np.ones(ROWS))
