"""Units of angles in files."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgvm.tables import Unit
from mgvm.tables.columns import TableError
from mgvm.tables.units import UNITS, named_unit, read_angle


@given(st.sampled_from(UNITS), st.booleans(), st.floats(-50.0, 50.0))
def test_there_and_back(name, signed, x):
    unit = Unit(name, signed)
    there = float(unit.from_radians(x))
    low = -0.5 * unit.turn if signed else unit.first
    assert low <= there < low + unit.turn
    assert np.cos(unit.to_radians(there) - x) == pytest.approx(1.0, abs=1e-9)


def test_known_values():
    assert Unit("compass").to_radians(0.0) == pytest.approx(np.pi / 2)
    assert Unit("hours").to_radians(6.0) == pytest.approx(np.pi / 2)
    assert Unit("degrees").length(np.pi) == pytest.approx(180.0)
    assert Unit("radians").to_radians(7.0) == pytest.approx(7.0 - 2.0 * np.pi)


def test_the_sign_follows_the_values():
    assert Unit("degrees").like([-170.0, 20.0, np.nan]).signed
    assert not Unit("degrees").like([10.0, 350.0]).signed
    assert not Unit("degrees").like([-10.0, 350.0]).signed
    assert not Unit("degrees").like([np.nan]).signed


def test_arcs_of_compass_bearings_go_clockwise():
    lower, upper = Unit("compass").arc(np.deg2rad(80.0), np.deg2rad(110.0))
    assert (float(lower), float(upper)) == (pytest.approx(340.0), pytest.approx(10.0))


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="'degrees', 'radians', 'hours', .*'compass'"):
        Unit("grad")


def test_units_of_clocks_and_calendars():
    assert Unit("minutes").to_radians(360.0) == pytest.approx(np.pi / 2)
    assert Unit("days").to_radians([1.0, 92.3125]) == pytest.approx([0.0, np.pi / 2])
    assert Unit("months").from_radians(np.pi / 2) == pytest.approx(4.0)
    assert Unit("12.42").to_radians(3.105) == pytest.approx(np.pi / 2)
    assert Unit("12.42").description == "of 12.42"
    with pytest.raises(ValueError, match="unit must be one of .*'minutes'.*got '-3'"):
        Unit("-3")


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("minute_of_day", "minutes"),
        ("dir_deg", "degrees"),
        ("phi (rad)", "radians"),
        ("Hour", "hours"),
        ("hourOfDay", "hours"),
        ("day_of_year", "days"),
        ("month", "months"),
        ("direction", None),
        ("radius", None),
        ("grade", None),
        ("monthly_mean", None),
    ],
)
def test_names_that_tell_their_unit(name, unit):
    assert named_unit(name) == unit


def column(name, values):
    return pd.DataFrame({name: values})


def test_a_column_far_beyond_a_turn_is_refused_with_the_likely_unit():
    minutes = np.arange(0.0, 1440.0, 13.0)
    for name in ("low_water", "at"):
        with pytest.raises(
            TableError, match=rf"{name} goes from 0 to 1430, .* beyond a turn of 360 degrees.*--unit minutes"
        ):
            read_angle(column(name, minutes), name, None)
    with pytest.raises(TableError, match="--period-of-angle"):
        read_angle(column("at", 60.0 * minutes), "at", None)
    several = read_angle(column("at", minutes), "at", "degrees")
    assert several.unit.name == "degrees"
    assert read_angle(column("at", minutes), "at", "minutes").warnings == ()
    # One number far away marks a missing value, and is asked about.
    marked = np.where(np.arange(50) % 5 == 0, 9999.0, np.linspace(0.0, 359.0, 50))
    assert "--missing 9999" in read_angle(column("dir", marked), "dir", None).warnings[0]


def test_a_name_that_tells_the_unit_is_heeded_or_contradicted_aloud():
    minutes = np.arange(0.0, 1440.0, 13.0)
    heeded = read_angle(column("minute_of_day", minutes), "minute_of_day", None)
    assert heeded.unit.name == "minutes"
    assert heeded.warnings == ("minute_of_day is read in minutes of the day, as its name says",)
    hours = read_angle(column("hour", np.arange(24.0)), "hour", None)
    assert hours.unit.name == "hours"
    overruled = read_angle(column("hour", np.arange(24.0)), "hour", "degrees")
    assert overruled.unit.name == "degrees"
    assert "although its name says hours" in overruled.warnings[0]
    wrong = read_angle(column("phi_rad", np.arange(0.0, 360.0, 7.0)), "phi_rad", None)
    assert wrong.unit.name == "degrees"
    assert "the name of phi_rad says radians" in wrong.warnings[0]
    assert read_angle(column("dir_deg", np.arange(0.0, 360.0, 7.0)), "dir_deg", "compass").warnings == ()


def test_days_of_the_year_in_degrees_are_doubted():
    assert "--unit days" in read_angle(column("at", np.arange(1.0, 366.0)), "at", None).warnings[0]
