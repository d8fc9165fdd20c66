"""Checks of what users hand in, where other tests do not come by: missing numbers, huge ones, and words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mgvm import MGvM, VonMises
from mgvm import _validation as check
from mgvm.inference import mean_field


@pytest.mark.parametrize("dtype", [float, int])
def test_masked_numbers_are_missing(dtype):
    masked = np.ma.array(np.array([1, 2, 3], dtype=dtype), mask=[False, True, False])
    np.testing.assert_array_equal(check.finite_or_nan(masked, "x"), [1.0, np.nan, 3.0])
    with pytest.raises(ValueError, match="x must be finite, got nan at index 1"):
        check.finite(masked, "x")
    with pytest.raises(ValueError, match="data must be finite radians, got nan at index 1"):
        VonMises.fit(masked)
    with pytest.raises(ValueError, match="x must be finite, got .*nan.* at index 1"):
        check.finite_complex(masked, "x")
    np.testing.assert_array_equal(check.finite(np.ma.array([1.0, 2.0]), "x"), [1.0, 2.0])


def test_names_of_columns_are_cut():
    with pytest.raises(TypeError, match="whose columns x+… are not numbers") as error:
        check.real(pd.DataFrame({"x" * 100_000: ["a"]}), "X")
    assert len(str(error.value)) < 400


def test_missing_integers_of_pandas():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([1, None, 3], dtype="Int64")
    np.testing.assert_array_equal(check.finite_or_nan(column, "x"), [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(check.finite_or_nan(column.to_frame(), "x"), [[1.0], [np.nan], [3.0]])
    with pytest.raises(ValueError, match="x must be finite, got nan at index 1"):
        check.finite(column, "x")


@pytest.mark.parametrize("value", [10**400, [1, -(10**400)], 10**5000], ids=["one", "in a list", "longest"])
def test_numbers_beyond_doubles(value):
    with pytest.raises(ValueError, match=r"x holds a whole number beyond 1\.8e308.*scale it down"):
        check.real(value, "x")
    with pytest.raises(ValueError, match=r"x holds a whole number beyond 1\.8e308"):
        check.finite_complex(value, "x")


def test_long_doubles_beyond_doubles():
    # The cast warned of an overflow before infinities were looked for.
    with pytest.raises(ValueError, match="x must be finite, got inf"):
        check.finite(np.array([np.longdouble(10) ** 400]), "x")


def test_huge_integers_in_messages():
    with pytest.raises(ValueError, match="word must be one of 'a', got a very large int"):
        check.choice(10**5000, "word", ["a"])


def test_none_is_named():
    with pytest.raises(TypeError, match="kappa must be real numbers, got None"):
        VonMises(0.0, None)
    with pytest.raises(TypeError, match="a must be complex numbers, got None"):
        MGvM(None)


@pytest.mark.parametrize("value", [np.array(["gvm", "von_mises"]), None, 3, ["gvm"]])
def test_words_of_a_list(value):
    with pytest.raises(ValueError, match=f"factors must be one of 'gvm', 'von_mises', got {type(value).__name__}"):
        mean_field(MGvM([1.0]), factors=value)
    assert check.choice(np.str_("gvm"), "factors", ["gvm"]) == "gvm"


@pytest.mark.parametrize(
    ("value", "message"),
    [([0.1, 0.2], r"a single number, got shape \(2,\)"), (0.0, "> 0, got 0.0"), (np.nan, "finite, got nan")],
)
def test_one_positive_number(value, message):
    assert check.single_positive(0.5, "tolerance") == 0.5
    with pytest.raises(ValueError, match=message):
        check.single_positive(value, "tolerance")


def test_minutes_of_the_day_are_no_radians():
    with pytest.warns(check.DegreesWarning, match=r"reach 1439.*minutes of the day.*from_hours\(minutes, 1440\)"):
        check.angle_data(np.arange(0.0, 1440.0, 7.0) + 4.0)
    check.angle_data(np.arange(0.0, 1440.0, 7.5))  # an unwrapped phase may be as large
