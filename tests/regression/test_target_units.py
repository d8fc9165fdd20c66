"""What goes in as degrees comes out as degrees: the unit of every regressor's target."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from portable import von_mises_draws
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import mgvm
from mgvm import CircularGPRegressor, CircularRegressor, CircularStackingRegressor, HarmonicGPRegressor, angles
from mgvm.angles import DegreesWarning
from mgvm.regression import baselines
from mgvm.regression.base import BaseCircularRegressor

UNITS = ("degrees", "compass", "hours")
REGRESSORS = [
    CircularGPRegressor(selection=None),
    HarmonicGPRegressor(RBF(), order=1),
    CircularStackingRegressor([("none", baselines.GvMRegressor()), ("near", baselines.NeighborsCircularRegressor(5))]),
    CircularRegressor(["kernel", "none"]),
    CircularStackingRegressor([("near", baselines.NeighborsCircularRegressor(5, unit="hours"))], cv=2),
    baselines.GvMRegressor(),
    baselines.NeighborsCircularRegressor(5),
    baselines.KernelCircularRegressor(1.0),
    baselines.ForestCircularRegressor(5),
    baselines.ProjectedGPRegressor(n_starts=1),
    baselines.WrappedGPRegressor(n_starts=1),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, (40, 1))
    return X, X[:, 0] + von_mises_draws(rng, 0.0, 10.0, 40)


def subclasses(kind):
    for sub in kind.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_every_public_regressor_has_a_unit():
    public = [*mgvm.regression.__all__, *baselines.__all__]
    named = [kind for kind in subclasses(BaseCircularRegressor) if kind.__name__ in public]
    assert len(named) >= 8
    assert [kind.__name__ for kind in named if "unit" not in kind._get_param_names()] == []


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
def test_the_same_fit_in_every_unit(model, unit, data):
    X, y = data
    plain = clone(model).fit(X, y)
    other = clone(model).set_params(unit=unit).fit(X, angles.from_radians(y, unit))
    # Conversion rounds angles to 1e-15 of a turn; a fit that starts from it moves by its own tolerance, 1e-7 at most.
    tolerance = {"rtol": 0.0, "atol": 1e-4}
    back = angles.to_radians(other.predict(X), unit)
    assert_allclose(angles.difference(back, plain.predict(X)), 0.0, **tolerance)
    assert_allclose(other.log_density(X, angles.from_radians(y, unit)), plain.log_density(X, y), **tolerance)
    assert other.score(X, angles.from_radians(y, unit)) == pytest.approx(plain.score(X, y), abs=1e-4)
    draws = angles.to_radians(other.sample_y(X[:3], 20, random_state=1), unit)
    assert_allclose(angles.difference(draws, plain.sample_y(X[:3], 20, random_state=1)), 0.0, atol=1e-3)
    assert_allclose(other.predict_dist(X[:3]).mean_direction(), plain.predict_dist(X[:3]).mean_direction(), **tolerance)


def test_folds_inside_a_fit_see_radians(data):
    X, y = data[0][:20], data[1][:20]
    plain = CircularGPRegressor(selection=None, radial_scale="cv").fit(X, y)
    other = CircularGPRegressor(selection=None, radial_scale="cv", unit="hours").fit(X, angles.to_hours(y))
    for scale, score in plain.radial_scale_scores_.items():
        assert other.radial_scale_scores_[scale] == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize(("unit", "low", "high"), [("degrees", 0, 360), ("compass", 0, 360), ("hours", 0, 24)])
def test_answers_are_within_a_turn(unit, low, high, data):
    X, y = data
    model = baselines.NeighborsCircularRegressor(5, unit=unit).fit(X, angles.from_radians(y, unit) - high)
    for values in (model.predict(X), model.sample_y(X, 5, random_state=0)):
        assert values.min() >= low
        assert values.max() < high
        assert np.ptp(values) > 0.5 * high


class TestBadInput:
    def test_units_that_do_not_exist(self, data):
        with pytest.raises(ValueError, match="unit must be one of 'radians', 'degrees', 'compass', 'hours', got 'gon'"):
            baselines.GvMRegressor(unit="gon").fit(*data)
        with pytest.raises(ValueError, match="unit must be one of"):
            baselines.GvMRegressor(unit=["degrees"]).fit(*data)

    def test_mixed_units_are_warned_of(self, data):
        X, y = data
        with pytest.warns(DegreesWarning, match="y reaches .* looks like degrees"):
            baselines.GvMRegressor().fit(X, angles.to_degrees(y))
        with pytest.warns(
            DegreesWarning, match="little for degrees: it looks like radians. If so, change the estimator's"
        ):
            baselines.GvMRegressor(unit="degrees").fit(X, angles.wrap(y))
        with pytest.warns(DegreesWarning, match="more than two days of hours: it looks like degrees"):
            baselines.GvMRegressor(unit="hours").fit(X, angles.to_degrees(y))
        model = baselines.GvMRegressor(unit="degrees").fit(X, angles.to_degrees(y))
        with pytest.warns(DegreesWarning, match="it looks like radians"):
            model.score(X, angles.wrap(y))

    def test_tables(self, data):
        X, y = data
        table = pd.DataFrame({"temperature": X[:, 0], "pressure": X[::-1, 0]})
        model = baselines.NeighborsCircularRegressor(5).fit(table, pd.Series(y, name="wind"))
        assert list(model.feature_names_in_) == ["temperature", "pressure"]
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            model.predict(table[["pressure", "temperature"]])
        with pytest.raises(ValueError, match="unseen at fit time:\n- humidity"):
            model.predict(table.rename(columns={"pressure": "humidity"}))
        with pytest.raises(ValueError, match="text in column 'station'"):
            model.fit(table.assign(station="Kiel"), y)
        with pytest.raises(TypeError, match="y must be real numbers"):
            model.fit(table, pd.Series(["N", "SW"] * 20))
