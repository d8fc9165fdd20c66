"""Degrees, hours, days and bearings: exact values, ranges, round trips."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

from mgvm import angles

ANY = st.floats(-1e6, 1e6)
RADIANS = st.floats(-np.pi, np.pi)


def apart(a, b):
    """Angular distance, so that -π and π compare equal."""
    return np.abs(np.angle(np.exp(1j * (np.asarray(a) - np.asarray(b)))))


def test_exact_values():
    assert_array_equal(angles.from_degrees([0, 90, 180, -180, 270, 540]) / np.pi, [0, 0.5, -1, -1, -0.5, -1])
    assert_array_equal(angles.from_hours([0, 6, 12, 18, 24, -6]) / np.pi, [0, 0.5, -1, -0.5, 0, -0.5])
    assert_array_equal(angles.from_day_of_year([1, 1 + 365.25 / 4]) / np.pi, [0, 0.5])
    assert_array_equal(angles.from_compass([0, 90, 180, 270, 360, -90]) / np.pi, [0.5, 0, -0.5, -1, 0.5, -1])
    assert_array_equal(angles.to_degrees(np.pi * np.array([0, 0.5, 1, -1, -0.5, 2])), [0, 90, 180, 180, 270, 0])
    assert_array_equal(angles.to_hours(np.pi * np.array([0, 0.5, -1, -0.5])), [0, 6, 12, 18])
    assert_array_equal(angles.to_day_of_year([0.0, np.pi / 2]), [1, 1 + 365.25 / 4])
    assert_array_equal(angles.to_compass(np.pi * np.array([0.5, 0, -0.5, 1])), [0, 90, 180, 270])


def test_bearings_turn_clockwise_from_north():
    north_north_east = angles.from_compass(22.5)
    assert np.cos(north_north_east) > 0  # some way east
    assert np.sin(north_north_east) > 0.9  # mostly north


@given(ANY)
def test_ranges(x):
    for convert in (angles.from_degrees, angles.from_hours, angles.from_day_of_year, angles.from_compass):
        assert -np.pi <= convert(x) < np.pi
    assert 0 <= angles.to_degrees(x) < 360
    assert 0 <= angles.to_compass(x) < 360
    assert 0 <= angles.to_hours(x) < 24
    assert 1 <= angles.to_day_of_year(x) < 366.25


@given(st.floats(1e-3, 1e6))
def test_just_under_half_a_period_stays_under_pi(period):
    assert angles.from_hours(np.nextafter(period / 2, 0), period) < np.pi
    assert angles.from_hours(period / 2, period) == -np.pi


@pytest.mark.parametrize("tiny", [-1e-320, -1e-20, -1e-17, 1e-17])
def test_a_tiny_negative_angle_does_not_give_the_whole_period(tiny):
    assert 0 <= angles.to_degrees(tiny) < 360
    assert 0 <= angles.to_hours(tiny) < 24


@pytest.mark.parametrize(
    ("there", "back"),
    [
        (angles.from_degrees, angles.to_degrees),
        (angles.from_hours, angles.to_hours),
        (angles.from_day_of_year, angles.to_day_of_year),
        (angles.from_compass, angles.to_compass),
        (lambda t: angles.from_hours(t, 12.42), lambda x: angles.to_hours(x, 12.42)),
    ],
)
@given(x=RADIANS)
def test_round_trip(there, back, x):
    assert apart(there(back(x)), x) < 1e-14


def test_whole_turns_of_a_unit_are_exact():
    assert angles.from_degrees(360.0 * 10**12 + 90.0) == np.pi / 2
    assert angles.from_hours(24.0 * 10**12 + 6.0) == np.pi / 2
    assert angles.from_compass(360.0 * 10**12 + 90.0) == 0.0


def test_period_broadcasts_for_leap_years():
    assert_array_equal(angles.from_day_of_year([366, 367], period=[365, 366]), [0.0, 0.0])
    with pytest.raises(ValueError, match="day \\(3,\\), period \\(2,\\)"):
        angles.from_day_of_year([1, 2, 3], period=[365, 366])


def test_missing_stays_missing():
    assert np.isnan(angles.from_degrees(np.nan))
    assert np.isnan(angles.to_compass(np.nan))


@pytest.mark.parametrize("period", [0.0, -24.0, np.nan, "day"])
def test_bad_period(period):
    with pytest.raises((ValueError, TypeError), match="period must be"):
        angles.from_hours(1.0, period)


@pytest.mark.parametrize(
    "convert", [angles.from_hours, angles.to_hours, angles.from_day_of_year, angles.to_day_of_year]
)
def test_a_period_that_doubles_do_not_halve_is_refused(convert):
    # Half of it is zero: angles of -2π came out.
    with pytest.raises(ValueError, match=r"period must be at least 2\.23e-308, got 4\.94066e-324"):
        convert([0.5, 1.5], 5e-324)
