"""Units of angles in files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgvm.tables import Unit
from mgvm.tables.units import UNITS


@given(st.sampled_from(UNITS), st.booleans(), st.floats(-50.0, 50.0))
def test_there_and_back(name, signed, x):
    unit = Unit(name, signed)
    there = float(unit.from_radians(x))
    low = -0.5 * unit.turn if signed else 0.0
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
    with pytest.raises(ValueError, match="'degrees', 'radians', 'hours', 'compass'"):
        Unit("grad")
