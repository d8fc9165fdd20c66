"""The demo's regressions: their tables, and figures that show what they say."""

import numpy as np
import pytest

from mgvm import VonMises
from mgvm.datasets import load_tides, load_wind_germany
from mgvm.experiments import _demo_text, _tides_figure, _wind_figure, demo, regressions
from mgvm.models import GvMRegressor, NeighborsCircularRegressor


@pytest.fixture(scope="module")
def results():
    """The real data with quick models in place of ours."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regressions, "CircularGPRegressor", lambda **_: NeighborsCircularRegressor())
        patch.setattr(regressions, "ProjectedGPRegressor", lambda **_: GvMRegressor(1))
        said = []
        found["wind"], found["tides"] = regressions.wind(said.append), regressions.tides(said.append)
        assert said[0] == "fitting soft circle"
    return found


def test_results_hold_the_rows_and_the_model(results):
    wind, tides = results["wind"], results["tides"]
    assert (len(wind.split.X), len(wind.split.X_test)) == (208, 52)
    assert len(np.unique(tides.split.X_test, axis=0)) == 25
    for result, count in ((wind, 3), (tides, 4)):
        assert len(result.scores) == count
        assert result.scores[0].best
        assert isinstance(result.model, NeighborsCircularRegressor)
        mean = float(np.mean(result.model.log_density(result.split.X_test, result.split.y_test)))
        (ours,) = (score for score in result.scores if score.model == regressions.OURS)
        assert ours.log_density == pytest.approx(mean, abs=1e-9)


def test_texts_fit_a_terminal_and_show_every_model(results):
    for text, result in (
        (_demo_text.wind(results["wind"]), results["wind"]),
        (_demo_text.tides(results["tides"]), results["tides"]),
    ):
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        first = lines[2]
        assert first.startswith(f"  {result.scores[0].model} ")
        assert f"{result.scores[0].log_density:.3f}" in first
        assert "±" not in first
        assert "±" in lines[3]
        assert f"{np.rad2deg(result.scores[1].crps):.1f}°" in lines[3]


@pytest.mark.parametrize("name", ["wind", "tides"])
def test_tables_have_the_scores(results, name):
    experiment = demo.EXPERIMENTS[name]()
    assert experiment.files == (f"{name}.png", f"{name}.csv")
    ((_, columns, rows),) = experiment.rows(results[name])
    assert len(rows) == len(results[name].scores)
    score, row = results[name].scores[1], dict(zip(columns, rows[1], strict=True))
    assert row["model"] == score.model
    assert float(row["behind_the_best"]) == pytest.approx(score.behind, abs=1e-6)
    assert float(row["share_in_90_percent_set"]) == pytest.approx(score.cover90, abs=1e-6)


class Eastward:
    """Sure that all winds blow to the east, 90 degrees by the compass."""

    def predict_dist(self, X):
        return VonMises(np.full(len(X), np.pi / 2), np.full(len(X), 50.0))

    def predict(self, X):
        return np.full(len(X), np.pi / 2)


def test_the_map_of_the_wind_points_where_it_goes(results):
    figure = _wind_figure.draw(regressions.Regression([], results["wind"].split, Eastward()), dpi=30)
    left, right = figure.axes[:2]
    (field,) = (drawn for drawn in right.collections if hasattr(drawn, "U"))
    np.testing.assert_allclose(field.U, 1.0)
    np.testing.assert_allclose(field.V, 0.0, atol=1e-12)
    (seen,) = (drawn for drawn in left.collections if hasattr(drawn, "U"))
    split = results["wind"].split
    # Clockwise from north: the east part is the sine.
    np.testing.assert_allclose(seen.U, np.sin(split.y))
    np.testing.assert_allclose(seen.V, np.cos(split.y))
    wide, narrow, needles = (drawn for drawn in left.collections if drawn is not seen)
    assert all(len(drawn.get_paths()) == 52 for drawn in (wide, narrow, needles))
    middle = narrow.get_paths()[0].vertices.mean(axis=0)
    assert middle[0] > 0
    assert abs(middle[1]) < 1e-9
    # No wind of the data blows to the east.
    assert len(np.unique(needles.get_colors(), axis=0)) == 1
    assert not (np.abs(np.angle(np.exp(1j * (split.y_test - np.pi / 2)))) < 0.3).any()
    # The right scale: a degree of longitude is shorter than one of latitude.
    assert left.get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(51.2)))


def test_all_stations_are_on_the_map(results):
    figure = _wind_figure.draw(regressions.Regression([], results["wind"].split, Eastward()), dpi=30)
    wind = load_wind_germany()
    for ax in figure.axes[:2]:
        assert ax.get_xlim()[0] < wind.longitude.min()
        assert wind.longitude.max() < ax.get_xlim()[1]
        assert ax.get_ylim()[0] < wind.latitude.min()
        assert wind.latitude.max() < ax.get_ylim()[1]


def test_dials_of_the_tides_stand_for_their_ports(results):
    figure = _tides_figure.draw(results["tides"].model, dpi=30)
    tides = load_tides()
    dials = figure.axes[0].child_axes
    ports = _tides_figure._every_other_port(tides)
    assert len(dials) == len(ports) == 13
    assert set(tides.split[np.isin(tides.port, ports)]) == {"valid"}
    places = {tuple(line.get_xydata()[0]) for line in figure.axes[0].lines if len(line.get_xdata()) == 2}
    assert {tuple(tides.positions[tides.port == port][0]) for port in ports} <= places
    for port, dial in zip(ports, dials, strict=True):
        law = results["tides"].model.predict_dist(tides.positions[tides.port == port][:1])[0]
        (curve,) = (line for line in dial.lines if len(line.get_xdata()) > 100)
        np.testing.assert_allclose(curve.get_ydata() ** 2 / 2, law.pdf(curve.get_xdata()), rtol=1e-9)
