"""Regressors with their defaults: what the tasks hold out, paired gains, runs that are kept, and what is told."""

import re

import made_data
import numpy as np
import pytest
from sklearn.base import BaseEstimator

from mgvm import VonMises
from mgvm.regression.baselines import GvMRegressor, NeighborsCircularRegressor
from paper.table1 import defaults, shipped
from paper.table1.defaults import Column, Extent, Store, make_default_tasks
from paper.table1.scores import paired_error
from paper.table1.tasks import Model, Split, Task

TINY = Extent(training_rows=40, test_rows=60, random_splits=2)


@pytest.fixture
def made(monkeypatch):
    made_data.use(monkeypatch)


@pytest.fixture(scope="module")
def shipped_splits():
    return {task.name: next(task.splits()) for task in shipped.make_shipped_tasks()}


class Stub(BaseEstimator):
    """Von Mises distributions around the input; it counts its fits."""

    fits = 0

    def __init__(self, kappa=2.0):
        self.kappa = kappa

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return self

    def predict_dist(self, X):
        return VonMises(X[:, 0], np.full(len(X), self.kappa))


# ---- tasks -----------------------------------------------------------------------------------------------------------


def test_two_days_lie_between_the_parts_of_a_series():
    time = np.datetime64("2020-01-01T00:00:00") + np.arange(240) * np.timedelta64(1, "h")
    hours = shipped.Hours(time, np.arange(240.0)[:, None], np.zeros(240))
    cut = np.datetime64("2020-01-06T00:00:00")
    every, some = hours.split(cut), hours.split(cut, 10)
    np.testing.assert_array_equal(every.X[:, 0], np.arange(120))
    np.testing.assert_array_equal(every.X_test[:, 0], np.arange(168, 240))
    np.testing.assert_array_equal(every.block, np.repeat([0, 1, 2], 24))
    assert some.X.shape == (10, 1)
    assert set(some.X[:, 0]) <= set(every.X[:, 0])


def test_lags_are_rows_so_many_hours_before():
    time = np.datetime64("2020-01-01T00:00:00") + np.array([0, 1, 2, 5, 6]) * np.timedelta64(1, "h")
    found = shipped.make_lags(time, np.array([10.0, 11.0, 12.0, 15.0, 16.0]), 1, (0, 3))
    nan = np.nan
    np.testing.assert_array_equal(found, [[nan, nan], [10.0, nan], [11.0, nan], [nan, 11.0], [15.0, 12.0]])


def test_shipped_tasks_have_the_rows_that_they_tell_of(shipped_splits):
    sizes = {name: (len(split.y), split.X.shape[1], len(split.y_test)) for name, split in shipped_splits.items()}
    assert sizes == {
        "Wind at JFK": (1000, 6, 2001),
        "Wind at a mast": (600, 12, 2130),
        "Wind at a mast, all": (6534, 12, 2130),
        "Mast in 1 h": (2000, 8, 2130),
        "Mast in 6 h": (2000, 8, 2130),
        "Wind over Europe": (300, 2, 500),
        "Wind over Europe, all": (4300, 2, 500),
        "Tides, British Isles": (741, 2, 364),
    }
    for task in shipped.make_shipped_tasks():
        rows = sizes[task.name][0]
        assert task.name.startswith("Tides") or re.search(rf"\b{rows:,}\b", task.about), task.about
    for name, split in shipped_splits.items():
        assert np.isfinite(split.X).all()
        assert np.isfinite(split.y).all()
        if "Europe" in name or "Tides" in name:
            assert not set(map(tuple, split.X)) & set(map(tuple, split.X_test))
        # One length scale may serve all columns.
        assert split.X.std(axis=0).max() < 2.0 * split.X.std(axis=0).min()


def test_the_last_hour_is_what_persistence_takes(shipped_splits):
    (model,) = next(task for task in shipped.make_shipped_tasks() if task.name == "Mast in 1 h").models
    split = shipped_splits["Mast in 1 h"]
    fitted = model.estimator.fit(split.X, split.y)
    direction = fitted.predict_dist(split.X_test).mean_direction()
    assert np.cos(split.y_test - direction).mean() > 0.9
    # The density of an angle is that of its turn.
    turn = split.y_test - np.arctan2(split.X_test[:, 3], split.X_test[:, 0])
    np.testing.assert_allclose(
        fitted.predict_dist(split.X_test).logpdf(split.y_test), fitted.turn_.logpdf(turn), atol=1e-9
    )


def test_the_day_of_the_week_repeats(made):
    tasks = {task.name: task for task in make_default_tasks()}
    split = next(tasks["Rides, other days"].splits())
    by_day = {round(7.0 * row[0]): row[1:] for row in split.X}
    np.testing.assert_allclose(by_day[1], by_day[8], atol=1e-12)
    assert np.linalg.norm(by_day[1] - by_day[4]) > 1.0


def test_an_extent_takes_rows_and_splits(made):
    for task in make_default_tasks(TINY):
        splits = list(task.splits())
        assert len(splits) == (2 if task.name.endswith("random") else 1)
        for split in splits:
            assert len(split.X) == len(split.y) <= 40
            assert len(split.X_test) == len(split.y_test) == len(split.weight_test) == len(split.block) <= 60
    (random,) = [task for task in make_default_tasks(TINY) if task.name.endswith("random")]
    assert "2 random splits" in random.about


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stub_task():
    x, apart, block = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.2, 0.5, -1.0, 0.1]), np.array([0, 0, 1, 1])
    split = Split(x[:, None], x, None, x[:, None], x + apart, np.array([1.0, 2.0, 1.0, 1.0]), block)
    return Task("task", "about", lambda: iter([split]), [Model("own", Stub(0.5))])


COLUMNS = [Column(Model("ours", Stub(3.0)), ours=True), Column(Model("sharp", Stub(40.0)))]


def test_gains_are_over_the_best_baseline(stub_task):
    found = {row.model: row for row in defaults.measure(stub_task, COLUMNS)}
    (split,) = stub_task.splits()
    apart, weight = split.y_test - split.X_test[:, 0], split.weight_test
    logs = {
        name: kappa * np.cos(apart) - np.log(2.0 * np.pi * np.i0(kappa))
        for name, kappa in (("ours", 3.0), ("sharp", 40.0), ("own", 0.5))
    }
    assert found["own"].gain == found["own"].standard_error == 0.0
    assert not found["own"].ours
    gap = logs["ours"] - logs["own"]
    assert found["ours"].gain == pytest.approx(weight @ gap / 5.0)
    assert found["ours"].standard_error == pytest.approx(paired_error(gap, weight, split.block))
    assert found["ours"].ours
    assert not found["ours"].behind
    assert found["sharp"].gain < 0.0


def test_more_rows_than_a_column_takes_leave_it_out(stub_task):
    assert [row.model for row in defaults.measure(stub_task, [COLUMNS[0]._replace(most=3), COLUMNS[1]])] == [
        "sharp",
        "own",
    ]


def test_what_is_kept_is_not_run_again(stub_task, tmp_path):
    store = Store(tmp_path / "kept")
    first = defaults.measure(stub_task, COLUMNS, store)
    before = Stub.fits
    assert defaults.measure(stub_task, COLUMNS, store) == first
    assert Stub.fits == before
    # Another option is another run.
    defaults.measure(stub_task, [Column(Model("ours", Stub(4.0)), ours=True)], store)
    assert Stub.fits == before + 1
    # A closed store runs nothing: what it lacks is left out.
    more = [*COLUMNS, Column(Model("new", Stub(5.0)))]
    assert defaults.measure(stub_task, more, Store(store.folder, closed=True)) == first
    assert Stub.fits == before + 1


# ---- told and drawn --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    columns = [
        Column(Model(defaults.OURS[0], NeighborsCircularRegressor()), ours=True),
        Column(Model("no input", GvMRegressor())),
    ]
    with pytest.MonkeyPatch.context() as patch:
        made_data.use(patch)
        patch.setattr(defaults, "make_columns", lambda: columns)
        return defaults.compute(TINY)


def test_all_data_sets_are_told_and_drawn(result, tmp_path):
    text = defaults.text(result)
    assert max(map(len, text.splitlines())) <= 80
    figure = defaults.draw(result, dpi=40)
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == [task.name for task in result.tasks]
    page = tmp_path / "paper" / "table1.md"
    page.parent.mkdir()
    (tmp_path / "images").mkdir()
    page.write_text("before\n<!-- numbers -->\nold\n<!-- end of numbers -->\nafter\n")
    defaults.write_guide(result, tmp_path)
    words = page.read_text()
    assert words.startswith("before\n")
    assert words.endswith("after\n")
    assert "old" not in words
    assert words.count("<details>") == len(result.tasks) == 17
    tables = [line for line in words.splitlines() if line.startswith("|")]
    assert max(line.count("|") - 1 for line in tables) <= 7
    assert (tmp_path / "images" / defaults.FIGURE).stat().st_size > 10_000
    for task in result.tasks:
        ours = next(row for row in result.of(task.name) if row.ours)
        assert f"{ours.log_density:.3f}".replace("-", "−") in words
        low, high = defaults._REACH
        drawn = [line.get_xdata() for line in ax.lines]
        if low < ours.gain < high:
            assert any(np.isclose(x, ours.gain).any() for x in drawn if len(x))


def test_a_page_without_marks_is_refused(result, tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "paper" / "table1.md").write_text("no marks")
    with pytest.raises(ValueError, match="no marks"):
        defaults.write_guide(result, tmp_path)
