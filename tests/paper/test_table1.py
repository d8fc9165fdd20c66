"""Table 1: the tasks are what they say, and the scores and their errors are those worked out by hand."""

import contextlib
import warnings

import made_data
import numpy as np
import pytest
from sklearn.base import BaseEstimator

from mgvm import VonMises, scores
from mgvm.datasets import SOURCES, fetch_wind_germany, fetched
from mgvm.inference import ConvergenceWarning
from mgvm.regression.baselines import GvMRegressor, NeighborsCircularRegressor
from paper import table1
from paper.table1 import figures
from paper.table1 import scores as table1_scores
from paper.table1 import tasks as table1_tasks
from paper.table1.tasks import Model, Split, Task, baselines, circular, engines, make_tasks, stacked, weekly_kernel

# The first rows that np.random.seed(18); np.random.choice(260, size=52, replace=False) draws.
PUBLISHED = [207, 168, 163]


class Stub(BaseEstimator):
    """Von Mises distributions around the input."""

    def __init__(self, kappa=2.0, unconverged=False):
        self.kappa = kappa
        self.unconverged = unconverged

    def fit(self, X, y, sample_weight=None):
        self.n_rows_ = len(X)
        if self.unconverged:
            warnings.warn("it did not converge", ConvergenceWarning, stacklevel=2)
        return self

    def predict_dist(self, X, joint=False):
        return VonMises(X[:, 0] + (0.5 if joint else 0.0), np.full(len(X), self.kappa))


def split(X_test, y_test, weight=None, block=None):
    X_test, y_test = np.asarray(X_test, float)[:, None], np.asarray(y_test, float)
    weight = np.ones(y_test.size) if weight is None else np.asarray(weight, float)
    block = np.arange(y_test.size) if block is None else np.asarray(block)
    return Split(np.zeros((4, 1)), np.zeros(4), None, X_test, y_test, weight, block)


def log_von_mises(difference, kappa):
    return kappa * np.cos(difference) - np.log(2.0 * np.pi * np.i0(kappa))


@pytest.fixture(scope="module")
def everything():
    return {task.name: task for task in make_tasks()}


@pytest.fixture
def made(monkeypatch):
    made_data.use(monkeypatch)


@pytest.mark.parametrize("inputs", [5, 1000])
@pytest.mark.parametrize("kappa", [0.0, 2.0, 300.0])
def test_scores_of_rows_are_those_of_the_package(inputs, kappa):
    rng = np.random.default_rng(0)
    x = rng.integers(0, inputs, 60).astype(float)
    y = rng.vonmises(x, kappa)
    found = table1_scores.score_predictions(Stub(kappa), split(x, y))
    dist = VonMises(x, np.full(60, kappa))
    np.testing.assert_allclose(found[0], log_von_mises(y - x, kappa), atol=1e-10)
    np.testing.assert_allclose(found[1], scores.crps(dist, y), atol=1e-4)
    np.testing.assert_allclose(found[2], scores.crps(dist, y, kind="cosine"), atol=1e-10)
    if kappa:
        for row, mass in ((3, 0.5), (4, 0.9)):
            # The regions of a von Mises distribution are about its mean; at their very ends the grid may err.
            edge = VonMises(0.0, kappa).interval(mass)[0, 1]
            clear = np.abs(np.abs(np.angle(np.exp(1j * (y - x)))) - edge) > 0.004
            assert clear.sum() > 50
            np.testing.assert_array_equal(found[row][clear], scores.coverage(dist, y, mass, reduce=False)[clear])


def test_joint_predictions_are_asked_for():
    plain, joint = (
        table1_scores.score_predictions(Stub(), split([0.0, 1.0], [0.3, 1.0]), joint) for joint in (False, True)
    )
    np.testing.assert_allclose(plain[0], log_von_mises(np.array([0.3, 0.0]), 2.0), atol=1e-10)
    np.testing.assert_allclose(joint[0], log_von_mises(np.array([-0.2, -0.5]), 2.0), atol=1e-10)


def test_standard_errors_by_hand():
    difference = np.array([1.0, 3.0, 2.0, 6.0])
    ones = np.ones(4)
    plain = table1_scores.paired_error(difference, ones, np.arange(4))
    assert plain == pytest.approx(difference.std(ddof=1) / 2.0)
    # Two blocks with means 2 and 4: the standard error of a mean of two numbers.
    assert table1_scores.paired_error(difference, ones, np.array([0, 0, 1, 1])) == pytest.approx(
        np.sqrt(2.0) / np.sqrt(2.0)
    )
    # A weight is a number of copies, within a block.
    block = np.array([0, 0, 1, 1])
    doubled = table1_scores.paired_error(
        np.repeat(difference, [1, 2, 1, 3]), np.ones(7), np.repeat(block, [1, 2, 1, 3])
    )
    assert table1_scores.paired_error(difference, np.array([1.0, 2.0, 1.0, 3.0]), block) == pytest.approx(doubled)
    assert np.isnan(table1_scores.paired_error(difference, ones, np.zeros(4)))


def test_errors_over_splits_count_their_overlap():
    values = np.array([0.1, 0.3, 0.2, 0.4])
    assert table1_scores.split_error(values, 25.0, 100.0) == pytest.approx(values.std(ddof=1) * np.sqrt(0.5))


def test_errors_of_random_splits_are_about_right():
    # Two constant predictions whose gap is a linear function of the row: the gap of the whole population is known.
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(300):
        gap = rng.standard_normal(100)
        means = np.array([gap[rng.choice(100, 20, replace=False)].mean() for _ in range(20)])
        ratios.append(means.mean() / table1_scores.split_error(means, 20.0, 80.0))
    assert 0.6 < np.std(ratios) < 1.2


def test_a_task_is_measured():
    rows = split([0.0, 1.0, 2.0], [0.2, 1.5, 1.0], weight=[1.0, 2.0, 1.0])
    models = [Model("wide", Stub(1.0)), Model("sharp", Stub(8.0)), Model("odd", Stub(2.0, unconverged=True))]
    measured, fitted = table1_scores.measure(Task("task", "about", lambda: iter([rows]), models))
    by_name = {score.model: score for score in measured}
    weight, apart = np.array([1.0, 2.0, 1.0]), np.array([0.2, 0.5, -1.0])
    values = {"wide": log_von_mises(apart, 1.0), "sharp": log_von_mises(apart, 8.0), "odd": log_von_mises(apart, 2.0)}
    best = max(values, key=lambda name: weight @ values[name])
    for name, value in values.items():
        assert by_name[name].log_density == pytest.approx(weight @ value / 4.0)
        gap = values[best] - value
        assert by_name[name].difference == pytest.approx(weight @ gap / 4.0)
        assert by_name[name].standard_error == pytest.approx(table1_scores.paired_error(gap, weight, np.arange(3)))
        assert by_name[name].best == (name == best)
        assert fitted["task", name].n_rows_ == 4
    assert not by_name["odd"].converged
    assert by_name["wide"].converged
    assert not hasattr(models[0].estimator, "n_rows_")


def test_random_splits_are_averaged():
    one, two = split([0.0, 0.0], [0.1, 0.2]), split([0.0, 0.0], [1.0, 2.0])
    task = Task("task", "about", lambda: iter([one, two]), [Model("wide", Stub(1.0)), Model("sharp", Stub(4.0))])
    wide, sharp = table1_scores.measure(task)[0]
    values = [log_von_mises(np.array([[0.1, 0.2], [1.0, 2.0]]), kappa).mean(axis=1) for kappa in (1.0, 4.0)]
    assert wide.log_density == pytest.approx(values[0].mean())
    gaps = values[0] - values[1]
    assert sharp.difference == pytest.approx(gaps.mean())
    assert sharp.standard_error == pytest.approx(table1_scores.split_error(gaps, 2.0, 4.0))
    assert wide.cover90 == pytest.approx(0.75 if np.abs(2.0) > VonMises(0.0, 1.0).interval(0.9)[0, 1] else 1.0)


def test_splits_have_as_many_inputs_as_angles(made):
    for full in (False, True):
        for task in make_tasks(full):
            for one in task.splits():
                assert len(one.X) == len(one.y)
                assert len(one.X_test) == len(one.y_test) == len(one.weight_test) == len(one.block)
            assert len({model.name for model in task.models}) == len(task.models), task.name


def test_days_and_ports_are_not_in_both_parts(made, everything):
    by_day, halves, ports = (next(everything[name].splits()) for name in ("Uber, by day", "Uber, halves", "Tides"))
    assert not set(by_day.X[:, 0]) & set(by_day.X_test[:, 0])
    assert not set(map(tuple, ports.X)) & set(map(tuple, ports.X_test))
    assert halves.weight.sum() + halves.weight_test.sum() == by_day.weight.sum() + by_day.weight_test.sum()


def test_files_of_the_tasks_are_those_that_the_splits_read(everything, monkeypatch):
    assert {name: task.files for name, task in everything.items()} == {
        "Toy": (),
        "Yeast": ("Spellman-alpha.csv",),
        "Tides": ("simpletide.mat",),
        "Uber, by day": ("uber_apr_2014.mat",),
        "Uber, halves": ("uber_apr_2014.mat",),
        "Wind, published": ("data_calm.csv",),
        "Wind, random": ("data_calm.csv",),
        "Protein": ("rota8000-cys-noss.csv",),
    }
    for task in make_tasks(full=True):
        asked = []
        monkeypatch.setattr(fetched, "_read", lambda file, *_, asked=asked: asked.append(file) or _stop())
        with pytest.raises(InterruptedError) if task.files else contextlib.nullcontext():
            next(task.splits())
        assert tuple(asked) == task.files
        assert set(task.files) <= set(SOURCES)


def _stop():
    raise InterruptedError


def test_rows_of_the_tasks(everything, originals):
    assert {name: len(next(task.splits()).y_test) for name, task in everything.items() if "Uber" not in name} == {
        "Toy": 100,
        "Yeast": 9,
        "Tides": 325,
        "Wind, published": 52,
        "Wind, random": 52,
        "Protein": 1000,
    }
    by_day, halves = (next(everything[name].splits()) for name in ("Uber, by day", "Uber, halves"))
    assert (by_day.weight.sum(), by_day.weight_test.sum()) == (297_893, 266_623)
    assert halves.weight.sum() + halves.weight_test.sum() == 564_516
    assert abs(halves.weight.sum() / 564_516 - 0.5) < 0.005


def test_the_published_split_of_the_wind(everything, originals):
    found = next(everything["Wind, published"].splits())
    wind = fetch_wind_germany()
    np.testing.assert_array_equal(found.X_test[:3], wind.positions[PUBLISHED])
    np.testing.assert_array_equal(found.y_test[:3], wind.angles[PUBLISHED])


def test_the_full_table_takes_more_splits_and_residues(everything, originals):
    assert len(list(everything["Wind, random"].splits())) == 3
    assert len(next(everything["Protein"].splits()).y) == 150
    full = {task.name: task for task in make_tasks(full=True)}
    assert len(list(full["Wind, random"].splits())) == 20
    assert len(next(full["Protein"].splits()).y) == 1000
    every = next(full["Protein, all"].splits())
    assert f"all {len(every.y_test):,} held-out cysteines given {len(every.y):,}" in full["Protein, all"].about


def test_models_by_name():
    assert [model.name for model in circular(label="!")] == ["soft circle!", "free radial scale!", "mGvM, hard circle!"]
    assert [model.estimator.radial_scale for model in circular()] == ["soft", "free", "hard"]
    assert {model.estimator.radial_scale for model in engines(joint=True)} == {"hard"}
    assert sum(model.joint for model in engines(joint=True)) == 2
    assert not any(model.joint for model in engines())
    assert [name for name, _ in stacked(kernel_too=True).estimator.estimators] == [
        "soft",
        "projected",
        "none",
        "kernel",
    ]
    assert any(model.estimator.get_params().get("angle_multiple") == 2 for model in baselines(doubled=True))
    days = np.arange(1.0, 31.0)[:, None]
    gram = weekly_kernel()(days)
    # A week apart is nearer than four days.
    assert gram[0, 7] > gram[0, 4]


@pytest.fixture(scope="module")
def result(everything):
    models = [Model("soft circle", NeighborsCircularRegressor()), Model("no input, GvM", GvMRegressor())]
    chosen = [everything[name]._replace(models=models) for name in ("Toy", "Tides")]
    with pytest.MonkeyPatch.context() as patch:
        made_data.use(patch)
        patch.setattr(table1_scores, "make_tasks", lambda full: chosen)
        return table1_scores.compute()


def test_the_text_marks_losses_and_fits_a_terminal(result):
    text = table1.text(result)
    assert max(map(len, text.splitlines())) <= 80
    assert all(len(f"{task.name}: {task.about}") <= 80 for full in (False, True) for task in make_tasks(full))
    (toy,) = [block for block in text.split("\n\n") if block.startswith("Toy")]
    assert "paper's score: mGvM 2.02e4, 1D-GP -1.62e3, 2D-GP 8.28e2" in toy
    lines = toy.splitlines()
    assert lines[2].startswith("  soft circle")
    assert "*" in lines[2]
    assert "±" in lines[3]
    (tides,) = [block for block in text.split("\n\n") if block.startswith("Tides")]
    assert [line.split()[k] for line, k in zip(tides.splitlines()[2:4], (3, 4), strict=True)] == ["*", "-"]


def test_figures_are_drawn(result, made):
    toy = figures.draw_toy(result, dpi=30)
    titles = [ax.get_title() for ax in toy.axes if ax.get_visible() and ax.get_title()]
    assert titles[0].startswith("soft circle: -1.")
    assert titles[1].startswith("no input, GvM: -")
    tides = figures.draw_tides(result, dpi=30)
    roses = tides.axes[0].child_axes
    assert len(roses) == 13
    assert all(len(rose.patches) == 48 for rose in roses)


def test_an_interruption_keeps_the_data_sets_that_are_done(everything, made, monkeypatch):
    models = [Model("soft circle", NeighborsCircularRegressor())]
    chosen = [everything[name]._replace(models=models) for name in ("Toy", "Tides", "Yeast")]

    def stops_at(name):
        def report(step):
            if step.startswith(name):
                raise KeyboardInterrupt

        return report

    monkeypatch.setattr(table1_scores, "make_tasks", lambda full: chosen)
    found = table1_scores.compute(report=stops_at("Yeast"))
    assert [task.name for task in found.tasks] == ["Toy", "Tides"]
    assert found.left_out == ("Yeast",)
    assert "Interrupted; not measured: Yeast" in table1.text(found)
    # The figures show the tides: without them there is nothing to keep.
    with pytest.raises(KeyboardInterrupt):
        table1_scores.compute(report=stops_at("Tides"))


def test_the_conditional_of_a_mixture_is_a_regressor():
    rng = np.random.default_rng(0)
    given = rng.uniform(-np.pi, np.pi, (400, 2))
    y = rng.vonmises(given[:, 0] - given[:, 1], 8.0)
    X = table1_tasks.features_of(given)
    np.testing.assert_allclose(table1_tasks.angles_of(X), given)
    model = table1_tasks.MixtureRegressor(8).fit(X, y)
    assert np.mean(model.predict_dist(X).logpdf(y)) > np.mean(GvMRegressor().fit(X, y).predict_dist(X).logpdf(y)) + 0.3
    with pytest.raises(ValueError, match="takes no weights"):
        model.fit(X, y, sample_weight=np.ones(400))


class Interrupted(Stub):
    """As a search does that is stopped: it keeps its best, and says so."""

    def fit(self, X, y, sample_weight=None):
        warnings.warn("the search was interrupted; the best so far is kept", ConvergenceWarning, stacklevel=2)
        return self


def test_an_interrupted_search_stops_the_table():
    task = Task("task", "about", lambda: iter([split([0.0], [0.1])]), [Model("stopped", Interrupted())])
    with pytest.raises(KeyboardInterrupt):
        table1_scores.measure(task)
