"""The demo's regressions: their tables, and figures that show what they say."""

import numpy as np
import pytest

from mgvm import VonMises
from mgvm.datasets import load_tides, load_wind_europe
from mgvm.experiments import _demo_text, _tides_figure, _wind_figure, demo, regressions
from mgvm.regression.baselines import GvMRegressor, NeighborsCircularRegressor


@pytest.fixture(scope="module")
def results():
    """The real data with quick models in place of ours."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regressions, "CircularGPRegressor", lambda **_: NeighborsCircularRegressor())
        for name in ("ProjectedGPRegressor", "KernelCircularRegressor"):
            patch.setattr(regressions, name, lambda **_: GvMRegressor(1))
        said = []
        found["wind"], found["tides"] = regressions.wind(said.append), regressions.tides(said.append)
        assert said[0] == "fitting circular GP"
    return found


def test_results_hold_the_rows_and_the_model(results):
    wind, tides = results["wind"], results["tides"]
    assert (len(wind.split.X), len(wind.split.X_test)) == (300, 300)
    assert len(np.unique(tides.split.X, axis=0)) == 57
    assert len(np.unique(tides.split.X_test, axis=0)) == 28
    for result, count in ((wind, 4), (tides, 5)):
        assert not {tuple(row) for row in result.split.X} & {tuple(row) for row in result.split.X_test}
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
    assert "300 held-out grid points, given 300" in _demo_text.wind(results["wind"])
    assert "28 held-out ports, given 57" in _demo_text.tides(results["tides"])


@pytest.mark.parametrize("name", ["wind", "tides"])
def test_tables_have_the_scores(results, name):
    experiment = demo.EXPERIMENTS[name]()
    assert experiment.files == (f"{name}.png", f"{name}.csv")
    ((_, columns, rows),) = experiment.rows(results[name])
    assert len(rows) == len(results[name].scores)
    score, row = results[name].scores[1], dict(zip(columns, rows[1], strict=True))
    assert row["model"] == score.model
    assert float(row["difference_to_the_best"]) == pytest.approx(score.behind, abs=1e-6)
    assert float(row["share_in_90_percent_region"]) == pytest.approx(score.cover90, abs=1e-6)


class FromTheWest:
    """Sure that all winds come from the west, so that they go to the east."""

    def predict_dist(self, X):
        return VonMises(np.full(len(X), np.pi), np.full(len(X), 50.0))


@pytest.fixture(scope="module")
def wind_figure(results):
    return _wind_figure.draw(regressions.Regression([], results["wind"].split, FromTheWest()), dpi=30)


def test_the_map_of_the_wind_points_where_it_goes(results, wind_figure):
    left, right = wind_figure.axes[:2]
    (field,) = (drawn for drawn in right.collections if hasattr(drawn, "U"))
    np.testing.assert_allclose(field.U, 1.0)
    np.testing.assert_allclose(field.V, 0.0, atol=1e-9)
    (seen,) = (drawn for drawn in left.collections if hasattr(drawn, "U"))
    split = results["wind"].split
    wind = load_wind_europe()
    (row,) = np.flatnonzero((wind.positions == split.X[0]).all(axis=1))
    # Clockwise from north, and where the wind comes from.
    assert seen.U[0] == pytest.approx(-np.sin(np.deg2rad(wind.bearing[row])))
    assert seen.V[0] == pytest.approx(-np.cos(np.deg2rad(wind.bearing[row])))
    wide, narrow, needles = (drawn for drawn in left.collections if drawn is not seen)
    shown = _wind_figure.spread_out(split.X_test)
    assert len(shown) == _wind_figure._SHOWN
    assert all(len(drawn.get_paths()) == len(shown) for drawn in (wide, narrow, needles))
    middle = narrow.get_paths()[0].vertices.mean(axis=0)
    assert middle[0] > 0
    assert abs(middle[1]) < 1e-2 * middle[0]
    # Needles of one colour where the wind is within the 90 % region, about 1.645 / sqrt(50) to either side.
    inside = np.abs(np.angle(np.exp(1j * (split.y_test[shown] - np.pi)))) < 0.234
    colours = needles.get_colors()
    assert 0 < inside.sum() < len(shown)
    assert len(np.unique(colours[inside], axis=0)) == len(np.unique(colours[~inside], axis=0)) == 1
    assert (colours[inside][0] != colours[~inside][0]).any()
    # The right scale: a degree of longitude is shorter than one of latitude.
    assert left.get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(52.5)))


def test_the_whole_grid_is_on_the_map(wind_figure):
    wind = load_wind_europe()
    for ax in wind_figure.axes[:2]:
        assert ax.get_xlim()[0] < wind.longitude.min()
        assert wind.longitude.max() < ax.get_xlim()[1]
        assert ax.get_ylim()[0] < wind.latitude.min()
        assert wind.latitude.max() < ax.get_ylim()[1]


def test_dials_of_the_tides_stand_for_their_ports(results):
    result = results["tides"]
    figure = _tides_figure.draw(result, dpi=30)
    tides = load_tides()
    dials = figure.axes[0].child_axes
    ports, _ = _tides_figure.places_of_dials(np.unique(result.split.X_test, axis=0))
    assert len(dials) == len(ports) == len(np.unique(ports, axis=0)) == 10
    held_out = {tuple(place) for place in result.split.X_test}
    assert {tuple(port) for port in ports} <= held_out
    places = {tuple(line.get_xydata()[0]) for line in figure.axes[0].lines if len(line.get_xdata()) == 2}
    assert {tuple(port) for port in ports} <= places
    names = [text.get_text() for text in figure.axes[0].texts]
    for port, dial, name in zip(ports, dials, names, strict=True):
        assert set(tides.port[(tides.positions == port).all(axis=1)].tolist()) == {name.lower()}
        distribution = result.model.predict_dist(port[None])[0]
        (curve,) = (line for line in dial.lines if len(line.get_xdata()) > 100)
        np.testing.assert_allclose(curve.get_ydata() ** 2 / 2, distribution.pdf(curve.get_xdata()), rtol=1e-9)
