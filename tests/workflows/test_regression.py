"""The workflow `regression`: what it fits, predicts, counts and refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from mgvm import CircularGPRegressor, CircularRegressor
from mgvm.regression import front_door
from mgvm.regression.baselines import GvMRegressor
from mgvm.report import regression_report
from mgvm.tables import TableError
from mgvm.workflows import RegressionOptions, apply_regression, regression, run_regression
from mgvm.workflows.inputs import find_inputs


def wind(count=40, seed=0):
    rng = np.random.default_rng(seed)
    lon, lat = rng.uniform(6.0, 15.0, count), rng.uniform(47.0, 55.0, count)
    bearing = (340.0 + 15.0 * (lon - 6.0) + np.rad2deg(rng.vonmises(0.0, 60.0, count))) % 360.0
    return pd.DataFrame({"lon": lon, "lat": lat, "dir": bearing})


def run(frame, angle, inputs, *, predict=None, predict_source="the other table", progress=lambda *_: None, **options):
    """The workflow with its options as keywords."""
    asked = RegressionOptions(angle, inputs, **options)
    return run_regression(frame, asked, predict=predict, predict_source=predict_source, progress=progress)


_BUILD_MODEL = regression.build_model


def at_once(kernel, options):
    """The model without a search for hyper-parameters, which is not what these tests are about."""
    kernel = kernel or ConstantKernel(0.5) * Matern(5.0, nu=1.5) + ConstantKernel(0.1)
    return CircularGPRegressor(kernel, selection=None, average=False, n_starts=1, random_state=options.seed)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(regression, "build_model", at_once)
    monkeypatch.setattr(regression, "build_baselines", lambda kernel: {"no inputs": GvMRegressor()})


def test_every_member_has_a_name():
    assert set(regression.NAMES) == {*front_door.MEMBERS, *front_door.FEW_MEMBERS}


def test_predictions_scores_and_gaps():
    frame = wind()
    frame.loc[3, "dir"] = np.nan
    frame.loc[5, "lat"] = np.nan
    said = []
    result = run(frame, "dir", ["lon", "lat"], unit="compass", progress=lambda *step: said.append(step))
    assert (result.data.rows, result.data.used, result.data.missing) == (40, 38, 2)
    assert [column.missing for column in result.data.columns] == [1, 0, 1]
    assert [note[-3:] for note in result.data.notes] == [" 1.", " 1."]
    table = result.predictions
    assert table.columns[:3].tolist() == ["lon", "lat", "dir"]
    assert table.drop(columns="dir").isna().any(axis=1).to_numpy().nonzero()[0].tolist() == [5]
    truth = 340.0 + 15.0 * (frame["lon"] - 6.0)
    off = (table["dir_mean"] - truth + 180.0) % 360.0 - 180.0
    assert off.abs().max() < 15.0
    lower, upper = table["dir_hdr90_lower"], table["dir_hdr90_upper"]
    width = (upper - lower) % 360.0
    inside = (table["dir"] - lower) % 360.0 <= width
    assert 0.75 < inside[table["dir"].notna() & table["dir_mean"].notna()].mean() <= 1.0
    assert (((table["dir_hdr50_upper"] - table["dir_hdr50_lower"]) % 360.0) < width).drop(5).all()
    assert table["dir_hdr90_arcs"][0] == f"{lower[0]:.1f}..{upper[0]:.1f}"
    # κ and the resultant length say the same.
    assert table["dir_kappa"][0] == pytest.approx(0.5 / (1.0 - table["dir_resultant_length"][0]), rel=0.1)
    ours, other = result.comparison.scores
    assert (ours.name, ours.ours, ours.best) == ("circular Gaussian process", True, True)
    assert other.worse
    assert set(ours.measures) == {"CRPS (degrees)", "mean error (degrees)"}
    assert ours.measures["mean error (degrees)"] < 12.0
    assert result.calibration.pit.size == result.comparison.rows == 38
    assert 0.7 < result.calibration.share(0.9) <= 1.0
    assert any("± " in sentence for sentence in result.sentences)
    assert said[0] == (0, 41, "comparing model 1 of 2: circular Gaussian process, fold 1 of 5")
    assert [done for done, _, _ in said] == [0, 5, 10, 15, 20, 25, 26, 27, 28, 29, 30, 40]
    assert [text for _, _, text in said[-2:]] == ["fitting to all 38 rows", "predicting 40 rows"]


def test_all_baselines_run_with_a_kernel_by_name(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(regression, "build_model", at_once)
    result = run(wind(15), "dir", ["lon"], kernel="rbf", seed=3)
    assert len(result.comparison.scores) == 5
    assert sum(score.best for score in result.comparison.scores) == 1
    assert all(np.isfinite(score.log_likelihood) for score in result.comparison.scores)


def test_predictions_elsewhere_need_the_inputs_only():
    new = pd.DataFrame({"name": ["a", "b"], "lat": [50.0, np.nan], "lon": [10.0, 11.0]})
    result = run(wind(), "dir", ["lon", "lat"], predict=new, compare=False, predict_source="new.csv")
    assert result.predictions["name"].tolist() == ["a", "b"]
    assert np.isfinite(result.predictions["dir_mean"][0])
    assert np.isnan(result.predictions["dir_mean"][1])
    assert any("new.csv without an input" in note for note in result.data.notes)
    assert result.comparison is None
    with pytest.raises(TableError, match=r"^new.csv: there is no column 'lat'"):
        run(wind(), "dir", ["lon", "lat"], predict=new.drop(columns="lat"), predict_source="new.csv")


def test_a_saved_model_on_new_rows_gives_the_same_and_scores(tmp_path):
    frame = wind()
    first = run(frame, "dir", ["lon"], compare=False)
    path = first.save(tmp_path / "model.mgvm")
    again = apply_regression(path, frame)
    pd.testing.assert_frame_equal(again.predictions, first.predictions)
    assert again.comparison.rows == 40
    without = apply_regression(path, frame[["lon"]])
    assert without.comparison is None
    assert without.predictions["dir_mean"].equals(first.predictions["dir_mean"])
    order = np.argsort(first.X[:, 0])
    np.testing.assert_array_equal(without.X, first.X[order])
    np.testing.assert_array_equal(without.y, first.y[order])


def test_uneven_inputs_are_scaled_and_say_so():
    frame = wind().assign(height=lambda table: 1000.0 * table["lat"])
    result = run(frame, "dir", ["lon", "height"], compare=False)
    assert any("standard deviation" in note for note in result.data.notes)
    assert result.inputs.scale(result.X).std(axis=0) == pytest.approx([1.0, 1.0])
    asked = result.predict_dist(result.X[:2]).mean_direction()
    assert result.unit.from_radians(asked) == pytest.approx(result.predictions["dir_mean"][:2], abs=1e-5)
    assert [p.name for p in result.parameters if "length" in p.name] == [
        "length scale of lon",
        "length scale of height",
    ]
    assert not any("StandardScaler" in text for text in result.warnings)


def test_groups_are_left_out_whole(monkeypatch):
    seen = []
    fit = regression.fit_model
    monkeypatch.setattr(regression, "fit_model", lambda model, data: seen.append(data.groups) or fit(model, data))
    frame = wind(30).assign(day=np.repeat(["a", "b", "c", None, "e", "f"], 5))
    result = run(frame, "dir", ["lon"], groups="day")
    assert "whole groups of day" in result.comparison.how
    assert np.unique(seen[-1]).size == 10  # rows without a group are groups of their own
    # An input in two groups cannot be left out with both.
    again = run(frame.assign(lon=np.tile(np.arange(5.0), 6)), "dir", ["lon"], groups="day", compare=False)
    assert seen[-1] is None
    assert again.comparison is None


def test_inputs_that_turn_and_inputs_that_are_times():
    frame = pd.DataFrame({"at": ["2024-03-01 06:00", "2024-03-02 18:00"], "phi": [0.0, 90.0], "x": [1.0, 2.0]})
    inputs = find_inputs(frame, ["x"], ["phi"], None, "degrees")
    np.testing.assert_allclose(inputs.read(frame), [[1.0, 1.0, 0.0], [2.0, 0.0, 1.0]], atol=1e-12)
    assert inputs.labels == ("x", "cos phi", "sin phi")
    np.testing.assert_allclose(
        find_inputs(frame, ["at"], [], "time-of-day", "degrees").read(frame), [[0, 1], [0, -1]], atol=1e-12
    )
    days = find_inputs(frame, ["at"], [], "days", "degrees")
    np.testing.assert_allclose(days.read(frame), [[0.25], [1.75]])
    assert days.columns[0].meaning == "days since 2024-03-01"
    # New rows count from the same day.
    assert days.read(pd.DataFrame({"at": ["2024-03-11"]})) == [[10.0]]
    in_hours = find_inputs(frame, [], ["x:hours"], None, "degrees")
    np.testing.assert_allclose(in_hours.read(frame)[0], [np.cos(np.pi / 12), np.sin(np.pi / 12)])
    with pytest.raises(TableError, match="--time-as"):
        find_inputs(frame, ["at"], [], None, "degrees")


def test_the_time_of_day_is_an_angle_in_hours():
    hours = (22.0 + np.linspace(0.0, 5.0, 20)) % 24.0
    frame = pd.DataFrame({"x": np.arange(20.0), "at": pd.Timestamp("2024-03-01") + pd.to_timedelta(hours, "h")})
    result = run(frame, "at", ["x"], compare=False)
    assert result.unit.name == "hours"
    assert ((result.predictions["at_mean"] - hours + 12.0) % 24.0 - 12.0).abs().max() < 1.0
    with pytest.raises(TableError, match="hours, not in degrees"):
        run(frame, "at", ["x"], unit="degrees")


@pytest.mark.parametrize(
    ("change", "unit", "word"),
    [
        (lambda a: a, "radians", "looks like degrees"),
        (lambda a: np.deg2rad(a), None, "looks like radians"),
        (lambda a: a / 15.0, None, "hours of the day"),
        (lambda a: np.where(np.arange(a.size) < 3, -999.0, a), "compass", "--missing -999"),
        (lambda a: a, "hours", "more than two days"),
    ],
)
def test_doubts_about_the_unit_are_said(change, unit, word):
    frame = wind(12)
    frame["dir"] = change(np.linspace(1.0, 359.0, 12))
    result = run(frame, "dir", ["lon"], unit=unit, compare=False)
    assert any(word in text for text in result.warnings)


def test_any_period_is_a_unit():
    frame = wind(12)
    frame["phase"] = frame["dir"] * (12.42 / 360.0)
    result = run(frame, "phase", ["lon"], period_of_angle=12.42, compare=False)
    assert result.unit.turn == 12.42
    assert result.predictions["phase_mean"].between(0.0, 12.42).all()
    with pytest.raises(ValueError, match="unit 'hours' and period_of_angle 12.42 both"):
        run(frame, "phase", ["lon"], period_of_angle=12.42, unit="hours")
    with pytest.raises(ValueError, match="period_of_angle must be a number above 0, got -1"):
        run(frame, "phase", ["lon"], period_of_angle=-1.0)


def test_minutes_of_the_day_taken_for_degrees_are_refused():
    frame = pd.DataFrame({"lon": np.arange(60.0), "low_water": np.arange(60.0) * 24.0})
    with pytest.raises(TableError, match="--unit minutes"):
        run(frame, "low_water", ["lon"])


@pytest.mark.parametrize("unit", ["degrees", "compass"])
def test_plain_degrees_raise_no_doubts(unit):
    assert run(wind(12), "dir", ["lon"], unit=unit, compare=False).warnings == ()


@pytest.mark.parametrize(
    ("arguments", "options", "word"),
    [
        (("dirr", ["lon"]), {}, "did you mean 'dir'"),
        (("dir", ["dir"]), {}, "cannot be an input as well"),
        (("dir", []), {}, "no input column"),
        (("dir", ["lon", "lon"]), {}, "asked for twice"),
        (("dir", ["lon"]), {"kernel": "periodic"}, "needs a period"),
        (("dir", ["lon", "lat"]), {"kernel": "periodic", "period": 3.0}, "for one input"),
        (("dir", ["lon"]), {"period": 3.0}, "a period is for kernel 'periodic'"),
        (("dir", ["lon"]), {"groups": "dya"}, "no column 'dya'"),
    ],
)
def test_wrong_calls_are_refused_before_the_work(monkeypatch, arguments, options, word):
    monkeypatch.setattr(regression, "fit_model", lambda *_: pytest.fail("fitted before looking"))
    with pytest.raises(TableError, match=word):
        run(wind(), *arguments, **options)


def test_too_few_rows_one_value_and_taken_names_are_refused():
    frame = wind(5)
    with pytest.raises(TableError, match="2 of 2"):
        run(frame.head(2), "dir", ["lon"])
    with pytest.raises(TableError, match="all 5 are missing"):
        run(frame.assign(dir=np.nan), "dir", ["lon"])
    with pytest.raises(TableError, match="is 90 in every row"):
        run(frame.assign(dir=90.0), "dir", ["lon"])
    with pytest.raises(TableError, match="already has a column 'dir_mean'"):
        run(frame.assign(dir_mean=1.0), "dir", ["lon"])


def test_hyper_parameters_are_learnt(monkeypatch):
    monkeypatch.undo()
    result = run(wind(12), "dir", ["lon"], model="gp", kernel="matern32", compare=False, seed=1)
    assert result.model.selection == "auto"
    assert result.model.random_state == 1
    assert float(result.parameters[1].value) > 3.0  # degrees of longitude


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "rational-quadratic", "periodic"])
def test_every_kernel_by_name(kernel):
    period = 9.0 if kernel == "periodic" else None
    result = run(wind(15), "dir", ["lon"], kernel=kernel, period=period, compare=False)
    word = {"periodic": "period 9", "rational-quadratic": "rational"}.get(kernel, f"Matérn-{kernel[-2]}/2")
    assert word in result.parameters[0].value


def test_two_tides_a_day_have_two_arcs(monkeypatch):
    monkeypatch.setattr(regression, "build_model", _BUILD_MODEL)
    rng = np.random.default_rng(3)
    place = np.linspace(0.0, 1.0, 60)
    hours = (4.0 + 3.0 * place + 12.0 * rng.integers(2, size=60) + 0.4 * rng.normal(size=60)) % 24.0
    table = pd.DataFrame({"place": place, "tide": hours})
    options = {"unit": "hours", "compare": False, "model": "gp"}
    both = run(table, "tide", ["place"], **options).predictions["tide_hdr50_arcs"]
    assert both.str.contains(";").mean() > 0.9
    one = run(table, "tide", ["place"], **options, noise_order=1).predictions["tide_hdr50_arcs"]
    assert not one.str.contains(";").any()


# ---- which model ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cheap(monkeypatch):
    """The front door with members that take a moment."""
    monkeypatch.setattr(regression, "build_model", _BUILD_MODEL)
    monkeypatch.setattr("mgvm.regression.front_door.MEMBERS", ("kernel", "forest", "none"))


def test_a_mixture_is_the_default_and_tells_its_members(cheap, tmp_path):
    frame = wind(60)
    result = run(frame, "dir", ["lon", "lat"], unit="compass")
    assert isinstance(result.model, CircularRegressor)
    assert result.comparison.scores[0].name == "mixture of regressors" or result.comparison.scores[0].best
    assert "a mixture of regressors, weighted by how well each predicts held-out rows: " in result.sentences[0]
    shares = {part.name: part.value for part in result.parameters}
    assert set(shares) == {"kernel density", "random forest", "no inputs"}
    assert sum(int(value.removesuffix("%")) for value in shares.values()) in (99, 100, 101)
    assert any(f"{name} {value}" in result.sentences[0] for name, value in shares.items())
    again = apply_regression(result.save(tmp_path / "model.mgvm"), frame)
    pd.testing.assert_frame_equal(again.predictions, result.predictions)
    assert again.X.shape == (60, 2)
    assert again.sentences[0] == result.sentences[0]


def test_numbers_of_a_mixture_say_whose_they_are(monkeypatch):
    monkeypatch.setattr(regression, "build_model", _BUILD_MODEL)
    monkeypatch.setattr("mgvm.regression.front_door.MEMBERS", ("planar", "none"))
    result = run(wind(), "dir", ["lon"], unit="compass", compare=False)
    meanings = {part.name: part.meaning for part in result.parameters}
    assert meanings["noise concentration"].startswith("of the circular Gaussian process: of single observations")
    assert "The kernel of the circular Gaussian process, with its" in regression_report(result).html()


def test_many_rows_are_learnt_from_a_part_of_them(cheap):
    result = run(wind(700), "dir", ["lon"], unit="compass")
    assert "told which Gaussian processes to mix" in " ".join(result.sentences)
    assert result.model.loo_log_density_.size == 700
    assert not result.model.warm_start


@pytest.mark.parametrize(
    ("model", "name"),
    [("gp", "circular Gaussian process"), ("kernel", "kernel density"), ("forest", "random forest")],
)
def test_one_kind_of_regressor_may_be_asked_for(cheap, model, name):
    result = run(wind(25), "dir", ["lon"], model=model, kernel="matern32")
    ours = next(score for score in result.comparison.scores if score.ours)
    assert ours.name == name
    assert f"by a {name}" in result.sentences[0]


def test_models_are_named():
    with pytest.raises(ValueError, match="model must be one of 'auto'"):
        _BUILD_MODEL(None, RegressionOptions("dir", ["lon"], model="neural"))
