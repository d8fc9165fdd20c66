"""The figures of Table 1 show the models' own predictions, where and when the data are."""

import made_data
import numpy as np
import pytest

from mgvm import VonMises
from paper.table1 import FIGURES, figures
from paper.table1.scores import Score, Table1
from paper.table1.tasks import WIND, make_tasks

TASKS = ("Uber, by day", "Yeast", WIND, "Protein")
SCORES = {"soft circle": -1.2, "2D-GP": -1.3, "1D-GP, wrapped": -1.6, "a stack": -1.1}


class Stub:
    """Predicts 6:00, a quarter of a turn, and is asked how often."""

    def __init__(self):
        self.asked = []

    def predict_dist(self, X):
        self.asked.append(np.asarray(X))
        return VonMises(np.full(len(X), np.pi / 2), np.full(len(X), 4.0))

    def predict(self, X):
        return np.full(len(X), np.pi / 2)


@pytest.fixture
def result(monkeypatch):
    made_data.use(monkeypatch)
    chosen = [task for task in make_tasks() if task.name in TASKS]
    scores = [
        Score(task.name, model, value, -1.1 - value, 0.01, 0.3, 0.2, 0.5, 0.9, 1.0, True)
        for task in chosen
        for model, value in SCORES.items()
    ]
    fitted = {(task.name, model): Stub() for task in chosen for model in SCORES}
    return Table1(tuple(chosen), tuple(scores), fitted, full=False)


def test_the_best_model_comes_first_and_once(result):
    names = [score.model for score in figures.choose_models(result, "Yeast")]
    assert names == ["a stack", "soft circle", "2D-GP", "1D-GP, wrapped"]
    assert [score.model for score in figures.choose_models(result, "Yeast", ("a stack",))] == ["a stack"]


def test_rides_of_every_day_above_what_is_predicted(result):
    figure = FIGURES["table1_uber.png"].draw(result)
    seen, *predicted, bar = figure.axes
    assert [ax.get_title() for ax in predicted] == [
        "predicted, a stack, the best: -1.10 nats",
        "predicted, soft circle: -1.20 nats",
        "predicted, 2D-GP: -1.30 nats",
        "predicted, 1D-GP, wrapped: -1.60 nats",
    ]
    shares = np.asarray(seen.collections[0].get_array()).reshape(48, 30)
    np.testing.assert_allclose(shares.sum(axis=0) * 2 * np.pi / 48, 1.0)
    rides = made_data.uber()
    busiest = np.bincount(rides.minute_of_day[rides.day == 9] // 30, rides.count[rides.day == 9]).argmax()
    assert shares[:, 8].argmax() == busiest
    shades = predicted[0].collections[0]
    heights = shades.get_coordinates()[:, 0, 1]
    values = np.asarray(shades.get_array()).reshape(heights.size - 1, 30)
    assert 0.5 * (heights[1:] + heights[:-1])[values[:, 0].argmax()] == pytest.approx(6.0, abs=0.2)
    # The days that were held out have orange names.
    held_out = set(np.unique(rides.day[rides.split == "valid"]))
    orange = {
        int(text.get_text().split()[1])
        for text in predicted[-1].get_xticklabels()
        if text.get_color() == figures._ORANGE
    }
    assert orange == held_out
    assert bar.get_ylabel() == "density per radian"


def test_phases_at_the_minutes_that_were_held_out(result):
    figure = FIGURES["table1_yeast.png"].draw(result)
    yeast = made_data.yeast()
    test = yeast.split == "valid"
    np.testing.assert_array_equal(result.fitted["Yeast", "2D-GP"].asked[0], yeast.expression[test])
    ax = figure.axes[0]
    points = np.concatenate([drawn.get_offsets() for drawn in ax.collections[1:]])
    wanted = np.stack([yeast.minutes[test], np.rad2deg(yeast.phase[test])], axis=1)
    for point in wanted:
        assert np.abs(points - point).max(axis=1).min() < 1e-6
    assert ax.get_title() == "a stack, the best:\n-1.10 nats"


def test_side_chains_where_there_are_residues(result):
    figure = FIGURES["table1_protein.png"].draw(result)
    seen, predicted, ring, *dials = figure.axes
    assert ring.name == "polar"
    assert len(seen.collections[0].get_offsets()) == len(made_data.rotamers().valid)
    field, *single = result.fitted["Protein", "a stack"].asked
    assert len(predicted.collections[0].get_paths()) == len(field) > 50
    np.testing.assert_allclose(np.hypot(field[:, :2], field[:, 2:]), 1.0)
    assert [ax.get_title().split(",")[0] for ax in dials] == ["1: helix", "2: extended", "3: left-handed", "4: bridge"]
    np.testing.assert_allclose(np.rad2deg(np.arctan2(single[0][0, 2:], single[0][0, :2])), figures._PLACES["helix"])
    # Every cell is asked for the angle that is drawn: 90 degrees.
    assert len(np.unique(predicted.collections[0].get_facecolors(), axis=0)) == 1


def test_the_wind_is_that_of_the_published_split(result):
    figure = FIGURES["table1_wind.png"].draw(result)
    asked = result.fitted[WIND, "soft circle"].asked[0]
    np.testing.assert_array_equal(asked, next(iter(result.tasks[2].splits())).X_test)
    assert "52" in figure.get_suptitle()


def test_what_was_not_measured_says_so(result):
    interrupted = Table1((), (), {}, full=False, left_out=TASKS)
    for name, drawing in FIGURES.items():
        if name not in ("table1_toy.png", "table1_tides.png"):  # nothing is kept of a table without these
            (text,) = drawing.draw(interrupted).texts
            assert text.get_text().endswith("interrupted before it was measured")
