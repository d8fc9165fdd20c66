from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive import planar_gp as naive
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils.estimator_checks import check_estimator

from mgvm import CircularStackingRegressor
from mgvm.regression.baselines import (
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)
from mgvm.regression.stacking import simplex_weights

MEMBERS = [("none", GvMRegressor()), ("near", NeighborsCircularRegressor(5))]


def curve(size=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(size, 1))
    return X, 5.0 * X[:, 0] + 0.3 * rng.normal(size=size)


class Silent(GvMRegressor):
    """An estimator without leave-one-out densities, as others may be."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        del self.loo_log_density_
        return self


@pytest.mark.slow
def test_scikit_learn_accepts_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(CircularStackingRegressor([("one", GvMRegressor()), ("two", GvMRegressor(2))]))


def test_weights_are_the_best_on_the_simplex():
    rng = np.random.default_rng(0)
    logs, counts = rng.normal(0.0, 2.0, (50, 2)), rng.integers(0, 4, 50).astype(float)
    found = simplex_weights(logs, counts)
    np.testing.assert_allclose(found, naive.simplex_weights(np.exp(logs), counts), atol=1e-4)
    logs[7, 0] = -np.inf
    assert np.isfinite(simplex_weights(logs, counts)).all()


@pytest.mark.parametrize("cv", ["loo", 4, KFold(3, shuffle=True, random_state=0)])
def test_the_mixture_is_that_of_its_members(cv):
    X, y = curve()
    members = [*MEMBERS, ("line", WrappedGPRegressor(n_starts=1))]
    stack = CircularStackingRegressor(members, cv=cv).fit(X, y)
    dist = stack.predict_dist(X)
    pairs = zip(stack.weights_, stack.estimators_, strict=True)
    mixed = sum(w * member.predict_dist(X).pdf(y) for w, member in pairs)
    np.testing.assert_allclose(dist.pdf(y), mixed, rtol=1e-6)
    grid = -np.pi + 2.0 * np.pi / 4096 * np.arange(4096)
    np.testing.assert_allclose(dist[:, None].pdf(grid).mean(axis=1) * 2.0 * np.pi, 1.0, atol=1e-8)
    assert stack.weights_.sum() == pytest.approx(1.0)
    assert stack.weights_[0] < 0.1
    for weights in np.eye(3):
        with np.errstate(divide="ignore"):
            alone = np.logaddexp.reduce(stack.out_of_fold_log_density_ + np.log(weights), axis=1)
        assert stack.loo_log_density_.sum() > alone.sum() - np.log(len(y) * 3.0)


def test_leave_one_out_is_taken_from_the_members():
    X, y = curve()
    stack = CircularStackingRegressor(MEMBERS).fit(X, y)
    for k, (_, member) in enumerate(MEMBERS):
        np.testing.assert_array_equal(stack.out_of_fold_log_density_[:, k], clone(member).fit(X, y).loo_log_density_)


def test_folds_keep_equal_inputs_and_groups_together():
    X, y = curve(40)
    X[:20] = X[20:]
    y[:20] = y[20:]  # a leak, wherever a row's twin is among the training rows
    leaky = CircularStackingRegressor([("near", NeighborsCircularRegressor(1))], cv=KFold(20, shuffle=True)).fit(X, y)
    safe = CircularStackingRegressor([("near", NeighborsCircularRegressor(1))], cv=20).fit(X, y)
    assert leaky.loo_log_density_.mean() > safe.loo_log_density_.mean() + 0.2
    blocks = np.floor(4.0 * X[:, 0])
    by_block = CircularStackingRegressor([("near", NeighborsCircularRegressor(1))]).fit(X, y, groups=blocks)
    assert by_block.loo_log_density_.mean() < safe.loo_log_density_.mean()


def test_members_without_leave_one_out_are_folded():
    X, y = curve(30)
    stack = CircularStackingRegressor([("silent", Silent()), ("near", NeighborsCircularRegressor(3))]).fit(X, y)
    assert np.isfinite(stack.out_of_fold_log_density_).all()
    assert stack.weights_[1] > 0.9


def test_all_members_leave_out_one_row_where_inputs_repeat():
    # Two groups of angles at every input: who knows the input's other rows knows more than who knows but one peak.
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(5.0), 60)[:, None]
    y = rng.choice([-0.8, 0.8], 300) + X[:, 0] + rng.vonmises(0.0, 60.0, 300)
    members = [("plane", ProjectedGPRegressor(n_starts=1)), ("kernel", KernelCircularRegressor()), ("s", Silent(2))]
    stack = CircularStackingRegressor(members).fit(X, y)
    assert stack.weights_[1] > 0.9
    again = np.repeat(np.arange(5.0), 60)[:, None]
    new = rng.choice([-0.8, 0.8], 300) + again[:, 0] + rng.vonmises(0.0, 60.0, 300)
    best = max(member.score(again, new) for member in stack.estimators_)
    assert stack.score(again, new) > best - 0.01
    # At new inputs the kernel density does not win: groups tell.
    apart = CircularStackingRegressor(members).fit(X, y, groups=X[:, 0])
    assert apart.weights_[1] < 0.5


def test_insurance():
    X, y = curve(80, seed=3)
    members = [("plane", ProjectedGPRegressor(n_starts=1)), ("kernel", KernelCircularRegressor()), *MEMBERS]
    stack = CircularStackingRegressor(members).fit(X[:60], y[:60])
    scores = [member.score(X[60:], y[60:]) for member in stack.estimators_]
    assert stack.score(X[60:], y[60:]) > max(scores) - 0.1


def test_nested_parameters():
    stack = CircularStackingRegressor(MEMBERS)
    assert clone(stack).set_params(near__n_neighbors=7).get_params()["near__n_neighbors"] == 7
    X, y = curve(30)
    assert set(clone(stack).fit(X, y, np.ones(30)).named_estimators_) == {"none", "near"}


def test_bad_input_is_named():
    X, y = curve(20)
    with pytest.raises(ValueError, match="estimators must be a list of pairs"):
        CircularStackingRegressor([]).fit(X, y)
    with pytest.raises(ValueError, match="names of estimators must differ"):
        CircularStackingRegressor([MEMBERS[0], MEMBERS[0]]).fit(X, y)
    with pytest.raises(TypeError, match="'line' is a LinearRegression without predict_dist"):
        CircularStackingRegressor([("line", LinearRegression())]).fit(X, y)
    with pytest.raises(ValueError, match="cv must be one of 'loo'"):
        CircularStackingRegressor(MEMBERS, cv="kfold").fit(X, y)
    with pytest.raises(ValueError, match="groups must have one label a row"):
        CircularStackingRegressor(MEMBERS).fit(X, y, groups=[1, 2])
    with pytest.raises(ValueError, match="folds need rows in 2 different groups"):
        CircularStackingRegressor(MEMBERS).fit(X, y, groups=np.zeros(20))
    with pytest.raises(ValueError, match="rows without a prediction"):
        CircularStackingRegressor(MEMBERS, cv=ShuffleSplit(2, random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match="X contains NaN"):
        CircularStackingRegressor(MEMBERS).fit(np.where(X[0] == X, np.nan, X), y)


def test_random_state_decides_the_folds():
    X, y = curve(30)

    def scores(state):
        return CircularStackingRegressor(MEMBERS, cv=3, random_state=state).fit(X, y).out_of_fold_log_density_

    np.testing.assert_array_equal(scores(1), scores(1))
    np.testing.assert_array_equal(scores(np.random.default_rng(2)), scores(np.random.default_rng(2)))
    assert np.abs(scores(1) - scores(2)).max() > 1e-6
