from __future__ import annotations

import numpy as np
import pytest
from naive import forest as naive
from sklearn.ensemble import RandomForestRegressor

from mgvm.regression.baselines import ForestCircularRegressor, KernelCircularRegressor


def rows(size=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 30, (size, 3)).astype(float)
    return X, 0.1 * X[:, 0] + 0.4 * rng.normal(size=size), rng.integers(1, 4, size).astype(float)


def test_agrees_with_loops_over_trees():
    X, y, counts = rows()
    model = ForestCircularRegressor(15, min_samples_leaf=4, random_state=3).fit(X, y, counts)
    # The same forest: its rows are the sorted pairs, here all different, and on integers from 0 ranks are values.
    order = np.lexsort([y, *X.T[::-1]])
    train, angles, counts = X[order], y[order], counts[order]
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in train.T], axis=1)
    seed = int(np.random.default_rng(3).integers(2**31))
    peer = RandomForestRegressor(15, min_samples_leaf=4, max_features=0.5, random_state=seed)
    peer.fit(ranks, np.stack([np.cos(angles), np.sin(angles)], axis=1), counts)
    kappa, share = model.concentration_, model.background_
    for own in (None, 0):
        given = list(range(len(train))) if own is not None else [None] * len(train)
        weights = naive.leaf_weights(peer, ranks, ranks, counts, given)
        expected = [naive.density(w, angles, kappa, share, a) for w, a in zip(weights, angles, strict=True)]
        found = model.loo_log_density_[order] if own is not None else model.log_density(train, angles)
        # An angle is shared between two nodes of 2048, which widens a kernel of variance 1/κ by 2e-6 κ in the log.
        np.testing.assert_allclose(found, np.log(expected), atol=1e-4)


def test_out_of_bag_tells_what_new_rows_do():
    X, y, _ = rows(600, seed=1)
    model = ForestCircularRegressor().fit(X, y)
    new_X, new_y, _ = rows(600, seed=2)
    held_out = model.log_density(new_X, new_y)
    gap = held_out.mean() - model.loo_log_density_.mean()
    error = np.hypot(held_out.std(), model.loo_log_density_.std()) / np.sqrt(600.0)
    assert abs(gap) < 5.0 * error
    assert model.score(X, y) > model.loo_log_density_.mean() + 0.1  # trees have seen their rows


def test_scales_of_columns_do_not_matter():
    X, y, _ = rows()
    plain = ForestCircularRegressor(10).fit(X, y)
    for scale in (1e-6, 1e9, 1e140):
        scaled = ForestCircularRegressor(10).fit(X * [scale, 1.0, 1.0] + [0.0, 1e8, 0.0], y)
        np.testing.assert_allclose(scaled.loo_log_density_, plain.loo_log_density_, atol=1e-12)


def test_columns_that_tell_nothing_do_little_harm():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 10))
    y = 2.0 * np.arctan(X[:, 0]) + 0.3 * rng.normal(size=300)
    forest, kernel = ForestCircularRegressor(max_features=1.0).fit(X, y), KernelCircularRegressor().fit(X, y)
    assert forest.loo_log_density_.mean() > kernel.loo_log_density_.mean() + 0.2


def test_the_size_of_leaves_follows_the_data():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(400, 1))
    sharp = ForestCircularRegressor(30).fit(X, 6.0 * X[:, 0] + 0.02 * rng.normal(size=400))
    broad = ForestCircularRegressor(30).fit(X, rng.vonmises(0.0, 0.5, 400))
    assert sharp.min_samples_leaf_ == 3
    assert broad.min_samples_leaf_ == 30
    assert len(sharp._forests) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_estimators": 0}, "n_estimators must be >= 1"), ({"min_samples_leaf": 0}, "min_samples_leaf must be >= 1")],
)
def test_bad_options_are_named(options, message):
    X, y, _ = rows(20)
    with pytest.raises(ValueError, match=message):
        ForestCircularRegressor(**options).fit(X, y)
