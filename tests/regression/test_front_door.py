from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from mgvm import CircularRegressor, CircularStackingRegressor, HarmonicGPRegressor
from mgvm.regression import front_door
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    ProjectedGPRegressor,
)
from mgvm.regression.front_door import FrontDoorSettings, choose_members, sample_neighborhoods, thins_out

CHEAP = ["kernel", "forest", "none"]


def curve(size=80, seed=0, columns=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(size, columns))
    return X, 4.0 * X[:, 0] + 0.3 * rng.normal(size=size)


@pytest.fixture(scope="module")
def fitted():
    X, y = curve()
    return CircularRegressor().fit(X, y)


@pytest.mark.slow
def test_scikit_learn_accepts_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(CircularRegressor(["kernel", "none"]))


def test_predictions_are_mixtures_of_the_members(fitted):
    X, y = curve(50, seed=1)
    parts = [member.predict_dist(X).pdf(y) for member in fitted.estimators_]
    mixed = sum(w * part for w, part in zip(fitted.weights_, parts, strict=True))
    # Each density is right to 1e-6 on its nodes, and so is the mixture.
    np.testing.assert_allclose(fitted.predict_dist(X).pdf(y), mixed, rtol=4e-6)
    np.testing.assert_allclose(fitted.log_density(X, y), np.log(mixed), rtol=0.0, atol=1e-6)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert fitted.weights_.min() >= 0.01


def test_it_tells_what_each_member_said(fitted):
    assert [member.name for member in fitted.members_] == list(front_door.MEMBERS)
    kept = [member for member in fitted.members_ if member.status == "kept"]
    assert [member.name for member in kept] == list(fitted.named_estimators_)
    np.testing.assert_allclose([member.weight for member in kept], fitted.weights_)
    for member in kept:
        own = fitted.named_estimators_[member.name].loo_log_density_
        assert member.log_likelihood == pytest.approx(own.mean())
    dropped = next(member for member in fitted.members_ if member.name == "none")
    assert (dropped.status, dropped.weight) == ("dropped", 0.0)
    assert fitted.loo_log_density_.mean() > max(member.log_likelihood for member in kept) - 0.05


def test_nothing_is_lost_where_inputs_tell_nothing():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)), rng.vonmises(1.0, 0.8, 60)
    model = CircularRegressor(CHEAP).fit(X, y)
    new = rng.vonmises(1.0, 0.8, 400)
    gap = model.log_density(rng.normal(size=(400, 3)), new) - GvMRegressor().fit(X, y).log_density(
        X[:1].repeat(400, 0), new
    )
    assert gap.mean() > -0.05 - 5.0 * gap.std() / 20.0


@pytest.mark.parametrize("seed", [0, 3])
def test_what_rows_seem_to_tell_by_chance_is_not_taken_for_a_relation(seed):
    """On these draws kernels and the forest would have a weight of a half, and lose 0.007 nats."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(120, 2)), rng.vonmises(1.0, 1.5, 120)
    assert list(CircularRegressor(CHEAP).fit(X, y).named_estimators_) == ["none"]
    assert {"kernel", "forest"} & CircularRegressor(CHEAP).fit(X, y + X[:, 0]).named_estimators_.keys()


def test_whole_inputs_are_held_out_where_they_repeat():
    # Every input has an angle of its own that new inputs do not share: rows beside a row tell too much.
    rng = np.random.default_rng(4)
    X = np.repeat(np.arange(30.0), 8)[:, None]
    centre = rng.uniform(-np.pi, np.pi, 30)
    y = np.repeat(centre, 8) + 0.2 * rng.normal(size=240)
    model = CircularRegressor(CHEAP).fit(X, y)
    assert model.held_out_ == "inputs"
    new = rng.uniform(-np.pi, np.pi, 200)
    assert model.log_density(rng.uniform(0.0, 30.0, (200, 1)), new).mean() > -np.log(2.0 * np.pi) - 0.1
    by_rows = CircularStackingRegressor([("kernel", KernelCircularRegressor()), ("none", GvMRegressor("auto"))])
    assert by_rows.fit(X, y).score(np.arange(29)[:, None] + 0.5, new[:29]) < -np.log(2.0 * np.pi) - 0.3
    few = CircularRegressor(CHEAP).fit(X[:40], y[:40])
    assert few.held_out_ == "rows"
    # At an input that was seen, its own rows are what tells.
    again = np.arange(30.0)[:, None], centre + 0.2 * rng.normal(size=30)
    assert model.score(*again) > 0.0
    assert model.score(again[0] + 0.5, again[1]) < -1.0
    np.testing.assert_allclose(model.predict_dist(again[0]).logpdf(again[1]), model.log_density(*again), atol=1e-5)


def test_groups_are_held_out():
    X, y = curve(80)
    groups = np.floor(4.0 * X[:, 0]).astype(int)
    model = CircularRegressor(["planar", "kernel", "none"]).fit(X, y, groups=groups)
    assert model.held_out_ == "groups"
    assert model.loo_log_density_.mean() < CircularRegressor(["kernel"]).fit(X, y).loo_log_density_.mean()
    with pytest.raises(ValueError, match="groups must have one label a row"):
        CircularRegressor(CHEAP).fit(X, y, groups=[1, 2])
    with pytest.raises(ValueError, match="single label"):
        CircularRegressor(CHEAP).fit(X, y, groups=np.zeros(80))


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(front_door, "SETTINGS", FrontDoorSettings(whole=60, look=40, refine=70))


def test_expensive_members_that_are_not_missed_are_skipped(hasty):
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(150, 1))
    # Two modes half a turn apart, whose shares follow the input: nothing for a planar process.
    y = np.pi * (rng.random(150) < X[:, 0]) + 0.2 * rng.normal(size=150)
    model = CircularRegressor(["planar", "kernel", "forest"]).fit(X, y)
    planar = model.members_[0]
    assert (planar.status, planar.inputs, planar.weight) == ("skipped", 40, 0.0)
    assert "planar" not in model.named_estimators_


def test_a_missed_member_is_refined_on_all_rows(hasty):
    X, y = curve(150, columns=2)
    model = CircularRegressor(["planar", "none"]).fit(X, y)
    planar = model.named_estimators_["planar"]
    assert planar.n_inputs_ == 150
    assert (planar.warm_start, planar.selection) == (False, "auto")
    again = CircularRegressor(["planar", "none"], warm_start=True).fit(X[:50], y[:50]).fit(X, y)
    assert again.named_estimators_["planar"].n_inputs_ == 150
    assert again.score(X, y) > model.score(X, y) - 0.1


def test_the_harmonic_process_is_left_out_of_many_concentrated_angles(hasty):
    rng = np.random.default_rng(6)
    X = np.sort(rng.uniform(size=(front_door.SETTINGS.whole + 10, 1)), axis=0)
    y = 4.0 * X[:, 0] + 0.02 * rng.normal(size=len(X))
    names = ["harmonic", "planar", "none"]
    narrow = CircularRegressor(names).fit(X, y)
    assert [member.status for member in narrow.members_] == ["skipped", "kept", "dropped"]
    assert narrow.members_[1].log_likelihood > front_door.SETTINGS.concentrated
    fewer = CircularRegressor(names).fit(X[:-10], y[:-10])
    assert fewer.members_[0].log_likelihood > front_door.SETTINGS.concentrated
    assert fewer.members_[0].status == "kept"


def test_columns_of_very_different_scale():
    X, y = curve(60, columns=2)
    plain = CircularRegressor(["kernel", "none"]).fit(X / X.std(axis=0), y)
    np.testing.assert_array_equal(plain.scale_, 1.0)
    uneven = CircularRegressor(["kernel", "none"]).fit(X * [1e-6, 1e6], y)
    np.testing.assert_allclose(uneven.loo_log_density_, plain.loo_log_density_, atol=1e-6)
    np.testing.assert_allclose(uneven.predict(X[:5] * [1e-6, 1e6]), plain.predict(X[:5] / X.std(axis=0)), atol=1e-6)


def test_weights_count_rows():
    X, y = curve(40)
    weights = np.where(np.arange(40) < 20, 2.0, 0.0)
    model = CircularRegressor(["kernel", "none"]).fit(X, y, weights)
    assert np.isfinite(model.loo_log_density_).all()
    only = CircularRegressor(["kernel", "none"]).fit(X[:20], y[:20], weights[:20])
    np.testing.assert_allclose(model.predict(X), only.predict(X), atol=1e-8)


@pytest.mark.parametrize(("size", "distinct"), [(1, 1), (2, 2), (8, 1), (12, 3)])
def test_hardly_any_data(size, distinct):
    X = np.linspace(0.0, 1.0, distinct)[np.arange(size) % distinct][:, None]
    y = np.random.default_rng(0).vonmises(1.0, 5.0, size)
    model = CircularRegressor().fit(X, y)
    assert np.isfinite(model.predict([[0.3], [7.0]])).all()
    assert np.isfinite(model.score(X, y))
    constant = CircularRegressor(CHEAP).fit(X, np.full(size, 0.5))
    np.testing.assert_allclose(constant.predict([[0.3]]), 0.5, atol=0.05)


def test_random_state_decides():
    X, y = curve(60)
    one, two, three = (CircularRegressor(CHEAP, random_state=state).fit(X, y) for state in (1, 1, 2))
    np.testing.assert_array_equal(one.loo_log_density_, two.loo_log_density_)
    assert np.abs(one.loo_log_density_ - three.loo_log_density_).max() > 1e-6


def test_progress_and_names(capsys, monkeypatch):
    monkeypatch.setattr("mgvm._progress._PATIENCE", 0.0)
    X, y = curve(40, columns=2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = CircularRegressor(["kernel", "none"], verbose=1).fit(frame, y)
    assert "fitting kernel to 40 rows" in capsys.readouterr().err
    assert list(model.feature_names_in_) == ["a", "b"]
    assert clone(model).get_params()["members"] == ["kernel", "none"]


@pytest.mark.parametrize(
    ("members", "message"),
    [("all", "members must be one of"), (["tree"], "members must be one of"), ([], "members must be different names")],
)
def test_bad_members_are_named(members, message):
    X, y = curve(20)
    with pytest.raises(ValueError, match=message):
        CircularRegressor(members).fit(X, y)


def test_samples_keep_neighbours_together():
    X = np.random.default_rng(0).uniform(size=(2000, 1))
    assert thins_out(X, 300)
    assert not thins_out(X[:, [0] * 6], 300)
    some = sample_neighborhoods(X, 160, np.random.default_rng(0))
    assert some.size == np.unique(some).size <= 160
    gaps = np.diff(np.sort(X[some, 0]))
    assert np.median(gaps) < 2.0 * np.median(np.diff(np.sort(X[:, 0])))


def test_members_are_the_public_estimators(fitted):
    kinds = {"harmonic": HarmonicGPRegressor, "kernel": KernelCircularRegressor, "forest": ForestCircularRegressor}
    for name, estimator in fitted.named_estimators_.items():
        assert isinstance(estimator, kinds.get(name, object))


def cycle(rows, columns, noise, seed):
    """Angles of a cycle, seen in noisy columns."""
    rng = np.random.default_rng(seed)
    phase = 2.0 * np.pi * rng.random(rows)
    X = np.stack([np.cos(phase), np.sin(phase)], axis=1) @ rng.normal(size=(2, columns))
    return X + noise * rng.normal(size=X.shape), phase


def test_members_follow_the_numbers_of_inputs_and_columns():
    few, many = list(front_door.FEW_MEMBERS), list(front_door.MEMBERS)
    assert [choose_members(19, columns) for columns in (1, 75)] == [few, few]
    assert choose_members(19, 76) == ["projected"]
    assert [choose_members(rows, rows) for rows in (20, 450)] == [many, many]
    assert [choose_members(rows, rows + 1) for rows in (20, 450)] == [[*many, "projected"]] * 2
    assert choose_members(451, 500) == many
    X, y = curve(19)
    assert [member.name for member in CircularRegressor().fit(X, y).members_] == few


@pytest.mark.parametrize(("rows", "columns"), [(10, 400), (30, 300)])
def test_rows_of_more_columns_are_learnt_by_the_projected_process(rows, columns):
    # The planar process is much too unsure of directions that many noisy columns tell together.
    X, y = cycle(rows + 60, columns, 1.0, 11)
    train, test = slice(rows), slice(rows, None)
    score = CircularRegressor().fit(X[train], y[train]).score(X[test], y[test])
    projected = ProjectedGPRegressor(selection="loo").fit(X[train], y[train])
    assert score > projected.score(X[test], y[test]) - 0.03
    planar = CircularRegressor(["planar", "kernel", "none"]).fit(X[train], y[train])
    assert score > planar.score(X[test], y[test]) + 0.1


def test_few_angles_with_two_modes_are_not_left_to_processes():
    rng = np.random.default_rng(14)
    X = rng.uniform(size=(215, 2))
    y = np.pi * (rng.random(215) < 0.5) + 0.2 * rng.normal(size=215)
    score = CircularRegressor().fit(X[:15], y[:15]).score(X[15:], y[15:])
    processes = CircularRegressor(["planar", "projected"]).fit(X[:15], y[:15])
    assert score > processes.score(X[15:], y[15:]) + 0.2


def test_some_columns_that_hardly_vary_do_not_scale_the_others():
    rng = np.random.default_rng(12)
    X, y = rng.normal(size=(30, 100)), rng.vonmises(0.0, 2.0, 30)
    X[:, :3] *= 1e-3
    np.testing.assert_array_equal(CircularRegressor(["none"]).fit(X, y).scale_, 1.0)
    X[:, :20] *= 1e-3
    assert CircularRegressor(["none"]).fit(X, y).scale_[0] < 1e-4


def test_the_planar_process_is_recalibrated_where_rows_are_held_out():
    rng = np.random.default_rng(13)
    X = np.sort(rng.uniform(0.0, 6.0, (200, 1)), axis=0)
    y = np.sin(X[:, 0]) + rng.normal(0.0, rng.choice([0.1, 0.8], 200, p=[0.8, 0.2]))
    model = CircularRegressor(["planar", "none"]).fit(X, y)
    assert model.named_estimators_["planar"].recalibration_ is not None
    grouped = CircularRegressor(["planar", "none"]).fit(X, y, groups=np.arange(200) // 20)
    assert grouped.named_estimators_["planar"].recalibration_ is None


def test_an_order_of_noise_beyond_reason_is_refused_before_any_member_is_fitted():
    X, y = curve(20)
    with pytest.raises(ValueError, match="noise_order must be at most 12, got 99"):
        CircularRegressor(["none"], noise_order=99).fit(X, y)
