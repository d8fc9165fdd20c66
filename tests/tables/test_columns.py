"""Columns by name, as numbers and as times."""

import numpy as np
import pandas as pd
import pytest

from mgvm.tables import TableError, elapsed, find_columns, hours_of_day, numbers
from mgvm.tables.columns import is_time

FRAME = pd.DataFrame({"direction": [1.0], "Lat": [2.0], "lon": [3.0]})


def test_columns_are_found_and_typos_guessed():
    assert find_columns(FRAME, ["lon", "direction"]) == ["lon", "direction"]
    with pytest.raises(TableError, match="'lat'; did you mean 'Lat'"):
        find_columns(FRAME, ["lat"])
    with pytest.raises(TableError, match="no column 'xyz'\\. The columns are 'direction', 'Lat', 'lon'"):
        find_columns(FRAME, ["xyz"])
    with pytest.raises(TableError, match="asked for twice"):
        find_columns(FRAME, ["lon", "lon"])
    with pytest.raises(TableError, match="2 columns called 'a'"):
        find_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]), ["a"])


def test_a_long_list_of_columns_is_cut():
    with pytest.raises(TableError, match="and 88 more"):
        find_columns(pd.DataFrame(columns=[f"c{i}" for i in range(100)]), ["zzz"])


@pytest.mark.parametrize(
    "column",
    [
        [1.5, np.nan, 2.0],
        ["1.5", "", " 2 "],
        [1.5, None, 2],
        pd.array([1.5, None, 2.0], dtype="Float64"),
        pd.Series(["1.5", None, "2"], dtype="category"),
    ],
)
def test_numbers_of_many_kinds_of_columns(column):
    np.testing.assert_array_equal(numbers(pd.DataFrame({"x": column}), "x"), [1.5, np.nan, 2.0])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["1", "2", "calm"], ["'calm' in row 3", "--missing 'calm'"]),
        (["1,5", "2,5"], ["'1,5' in row 1", "--decimal ,"]),
        (["13,5", "1.267,5"], ["'1.267,5' in row 2", "thousands", "write 1267.5 (1267,5 in a file"]),
        (["3", "1,267.5"], ["'1,267.5' in row 2", "thousands", "write 1267.5 (1267,5 in a file"]),
        (["-1.267.500", "2.100.500"], ["thousands", "write -1267500, without"]),
        (["1 267", "3 100"], ["thousands", "write 1267, without"]),
        (["267.4°", "12°"], ["'267.4°' in row 1", "'°' stands behind it", "write 267.4 alone", "--unit"]),
        (["3.5", "12 deg"], ["'12 deg' in row 2", "'deg' stands behind it", "write 12 alone"]),
        (["red", "blue", "red"], ["no numbers", "'red', 'blue'"]),
        ([1.0, np.inf], ["infinite in row 2"]),
        (["2024-03-01", "2024-03-02"], ["time stamps", "--time-as"]),
    ],
)
def test_what_is_no_number_is_named_with_its_row(column, words):
    with pytest.raises(TableError) as error:
        numbers(pd.DataFrame({"x": column}), "x")
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("cell", "time"),
    [
        ("2024-03-01", True),
        ("2024-03-01T06:00Z", True),
        ("17:30", True),
        ("1.3.2024 6:00", True),
        ("12.5", False),
        ("a", False),
    ],
)
def test_what_is_a_time_stamp(cell, time):
    assert is_time(pd.Series([None, cell])) is time


def test_time_of_day_is_what_the_clock_showed():
    stamps = ["2024-03-01 06:30:36", None, "2024-07-01T23:00:00+02:00", "2024-07-01T01:00:00-05:00"]
    np.testing.assert_allclose(hours_of_day(pd.DataFrame({"at": stamps}), "at"), [6.51, np.nan, 23.0, 1.0])
    parsed = pd.DataFrame({"at": pd.to_datetime(["2024-03-01 06:30", None])})
    np.testing.assert_allclose(hours_of_day(parsed, "at"), [6.5, np.nan])
    np.testing.assert_allclose(hours_of_day(pd.DataFrame({"at": ["17:30", "00:15:36"]}), "at"), [17.5, 0.26])


def test_elapsed_time_across_a_change_of_the_clock():
    frame = pd.DataFrame({"at": ["2024-03-31T00:00+01:00", "2024-03-31T06:00+02:00"]})
    hours, origin = elapsed(frame, "at", "hours")
    assert origin == "2024-03-30T00:00:00"
    assert np.diff(hours) == 5.0
    days, _ = elapsed(pd.DataFrame({"at": ["2024-04-02"]}), "at", "days", "2024-03-30T00:00:00")
    assert days == [3.0]


def test_days_and_months_are_told_apart_or_refused():
    def days(*texts):
        return elapsed(pd.DataFrame({"at": list(texts)}), "at", "days")[0].tolist()

    assert days("1.3.2024", "3.3.2024") == [0.0, 2.0]
    assert days("03/01/2024", "03/15/2024") == [0.0, 14.0]
    assert days("01/03/2024", "15/03/2024") == [0.0, 14.0]
    with pytest.raises(TableError, match="cannot be told apart"):
        days("01/03/2024", "02/03/2024")


def test_what_is_no_time_is_named_with_its_row():
    with pytest.raises(TableError, match="'later' in row 2"):
        elapsed(pd.DataFrame({"at": ["2024-03-01", "later"]}), "at", "days")
    with pytest.raises(TableError, match="'25:00' in row 2"):
        hours_of_day(pd.DataFrame({"at": ["17:30", "25:00"]}), "at")
    with pytest.raises(TableError, match="no time stamp at all"):
        elapsed(pd.DataFrame({"at": pd.to_datetime([None, None])}), "at", "days")
