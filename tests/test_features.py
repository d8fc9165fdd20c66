"""CircularFeatures: scikit-learn's contract, units, names, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from mgvm import CircularFeatures, TorusMixture, load, save
from mgvm.angles import DegreesWarning


@pytest.mark.filterwarnings("ignore:.*looks like")  # numbers of scikit-learn are of any size
@parametrize_with_checks([CircularFeatures(), CircularFeatures(2, unit="degrees")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_values_and_names():
    table = pd.DataFrame({"wind": [0.0, 90.0], "hour": [6.0, 18.0]})
    made = CircularFeatures(2, unit=["compass", "hours"]).set_output(transform="pandas").fit_transform(table)
    assert list(made) == [
        *("cos(wind)", "sin(wind)", "cos(2 wind)", "sin(2 wind)"),
        *("cos(hour)", "sin(hour)", "cos(2 hour)", "sin(2 hour)"),
    ]
    # North is a quarter turn from east, 6 o'clock a quarter of a day from midnight.
    assert_allclose(made.to_numpy(), [[0, 1, -1, 0, 0, 1, -1, 0], [1, 0, 1, 0, 0, -1, -1, 0]], atol=1e-15)


@pytest.mark.parametrize("unit", ["radians", "degrees", "compass", "hours"])
def test_the_way_back(unit):
    x = np.array([[0.5, 3.0], [2.0, 1.25]])
    features = CircularFeatures(3, unit=unit).fit(x)
    assert_allclose(features.inverse_transform(features.transform(x)), x, rtol=1e-13)


def test_a_linear_model_in_a_pipeline_recovers_waves():
    hour = np.random.default_rng(0).uniform(0, 24, 100)[:, None]
    y = 3.0 + 2.0 * np.cos(2 * np.pi * hour[:, 0] / 24) - np.sin(4 * np.pi * hour[:, 0] / 24)
    model = make_pipeline(CircularFeatures(2, unit="hours"), LinearRegression()).fit(hour, y)
    assert_allclose(model[-1].coef_, [2, 0, 0, -1], atol=1e-12)


def test_saved_and_loaded(tmp_path):
    features = CircularFeatures(2, unit="hours").fit(pd.DataFrame({"hour": [1.0, 2.0]}))
    save(features, tmp_path / "features.mgvm")
    back = load(tmp_path / "features.mgvm")
    assert list(back.get_feature_names_out()) == list(features.get_feature_names_out())


def test_missing_angles_stay_missing():
    made = CircularFeatures().fit_transform([[np.nan], [0.0]])
    assert np.isnan(made[0]).all()
    assert_allclose(made[1], [1.0, 0.0])


def test_bad_input():
    x = [[1.0, 2.0]]
    with pytest.raises(ValueError, match="unit must be one of 'radians', 'degrees', 'compass', 'hours', got 'gon'"):
        CircularFeatures(unit="gon").fit(x)
    with pytest.raises(ValueError, match="got 3 names for shape"):
        CircularFeatures(unit=["hours"] * 3).fit(x)
    with pytest.raises(ValueError, match="order must be >= 1, got 0"):
        CircularFeatures(0).fit(x)
    with pytest.raises(ValueError, match="text in column 'wind'; leave it out"):
        CircularFeatures().fit(pd.DataFrame({"wind": ["N", "SW"]}))
    features = CircularFeatures().fit(pd.DataFrame({"wind": [1.0], "wave": [2.0]}))
    with pytest.raises(ValueError, match="must be in the same order"):
        features.transform(pd.DataFrame({"wave": [2.0], "wind": [1.0]}))
    with pytest.raises(ValueError, match="the 4 columns that transform makes, got shape"):
        features.inverse_transform([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("unit", "column", "told"),
    [
        ("radians", 15.0 * np.arange(24), "reaches 345, more than two turns in radians"),
        ("degrees", np.linspace(-3.0, 3.0, 24), "column 'b' stays within 3, little for degrees: it looks like radians"),
        ("hours", 15.0 * np.arange(24), "column 'b' reaches 345, more than two days of hours: it looks like degrees"),
        (["degrees", "compass"], np.linspace(-3.0, 3.0, 24), "column 'b' stays within 3, little for compass"),
    ],
)
def test_a_column_in_another_unit_is_warned_of(unit, column, told):
    table = pd.DataFrame({"a": np.linspace(0.0, 11.9, 24) * (1.0 if unit == "radians" else 1.5), "b": column})
    for estimator in (CircularFeatures(unit=unit), TorusMixture(1, component="von_mises", unit=unit)):
        with pytest.warns(DegreesWarning, match=told):
            estimator.fit(table)
