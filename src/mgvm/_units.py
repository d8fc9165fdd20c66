"""Degrees, hours, days of the year and compass bearings, to and from radians.

A whole turn of a unit is exact in that unit (360 is a float, 2π is not), so turns are taken off in the unit, with the
exact `fmod`, before the factor 2π enters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray

_TURN = 2.0 * np.pi


def _to_radians(value: FloatArray, period: FloatArray) -> FloatArray:
    """2π value / period, less whole turns: in [-π, π)."""
    rest = np.fmod(value, period)
    rest = np.where(rest >= 0.5 * period, rest - period, np.where(rest < -0.5 * period, rest + period, rest))
    return np.asarray(rest / period * _TURN)


def _below_period(value: FloatArray, period: FloatArray) -> FloatArray:
    """`value` less whole periods: in [0, period)."""
    rest = np.fmod(value, period)
    rest = np.where(rest < 0.0, rest + period, rest)
    # A tiny negative number plus the period rounds to the period itself.
    return np.where(rest >= period, 0.0, rest)


def _with_period(value: ArrayLike, name: str, period: ArrayLike) -> tuple[FloatArray, FloatArray]:
    checked = {name: check.finite_or_nan(value, name), "period": check.positive(period, "period")}
    value, period = check.broadcast(**checked)
    return value, period


def _from_unit(value: ArrayLike, name: str, period: ArrayLike) -> FloatArray:
    return _to_radians(*_with_period(value, name, period))[()]


def from_degrees(degrees: ArrayLike) -> FloatArray:
    """``π degrees / 180``, wrapped to [-π, π).

    Parameters
    ----------
    degrees : array_like
        Degrees, any real number; NaN stays NaN.

    Returns
    -------
    ndarray
        Radians in [-π, π).

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.from_degrees([0.0, 90.0, 180.0, 450.0])
    array([ 0.        ,  1.57079633, -3.14159265,  1.57079633])
    """
    return _from_unit(degrees, "degrees", 360.0)


def to_degrees(x: ArrayLike) -> FloatArray:
    """``180 x / π``, in [0, 360).

    Parameters
    ----------
    x : array_like
        Radians, any real number; NaN stays NaN.

    Returns
    -------
    ndarray
        Degrees in [0, 360).

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import angles
    >>> angles.to_degrees([0.0, np.pi, -np.pi / 2])
    array([  0., 180., 270.])
    """
    return to_hours(x, 360.0)


def from_hours(hours: ArrayLike, period: ArrayLike = 24.0) -> FloatArray:
    """``2π hours / period``, wrapped to [-π, π).

    Parameters
    ----------
    hours : array_like
        Time since the start of the period (midnight), any real number; NaN stays NaN.
    period : array_like, default 24
        Length of one turn in the same unit: 12.4206 for the lunar tide, 7 for days of the week.

    Returns
    -------
    ndarray
        Radians in [-π, π): midnight is 0, 6 a.m. is π/2, noon is -π.

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.from_hours([0, 6, 12, 18])
    array([ 0.        ,  1.57079633, -3.14159265, -1.57079633])
    """
    return _from_unit(hours, "hours", period)


def to_hours(x: ArrayLike, period: ArrayLike = 24.0) -> FloatArray:
    """``x period / 2π``, in [0, period).

    Parameters
    ----------
    x : array_like
        Radians, any real number; NaN stays NaN.
    period : array_like, default 24
        Length of one turn.

    Returns
    -------
    ndarray
        Hours in [0, period).

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import angles
    >>> angles.to_hours([0.0, np.pi / 2, -np.pi])
    array([ 0.,  6., 12.])
    """
    x, period = _with_period(x, "x", period)
    return _below_period(x / _TURN * period, period)[()]


def from_day_of_year(day: ArrayLike, period: ArrayLike = 365.25) -> FloatArray:
    """``2π (day - 1) / period``, wrapped to [-π, π).

    Parameters
    ----------
    day : array_like
        Day of the year counted from 1, as `datetime.timetuple().tm_yday` gives it: 1.0 is the start of 1 January,
        1.5 its noon. NaN stays NaN.
    period : array_like, default 365.25
        Days in the year; 365 and 366 by year put every 1 January on 0 and every 31 December next to it.

    Returns
    -------
    ndarray
        Radians in [-π, π).

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.from_day_of_year([1, 92.3125])
    array([0.        , 1.57079633])
    """
    day, period = _with_period(day, "day", period)
    return _to_radians(day - 1.0, period)[()]


def to_day_of_year(x: ArrayLike, period: ArrayLike = 365.25) -> FloatArray:
    """``1 + x period / 2π``, in [1, 1 + period).

    Parameters
    ----------
    x : array_like
        Radians, any real number; NaN stays NaN.
    period : array_like, default 365.25
        Days in the year.

    Returns
    -------
    ndarray
        Day of the year counted from 1, with its fraction.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import angles
    >>> angles.to_day_of_year([0.0, np.pi / 2])
    array([ 1.    , 92.3125])
    """
    return 1.0 + to_hours(x, period)


def from_compass(bearing: ArrayLike) -> FloatArray:
    """``π (90 - bearing) / 180``, wrapped to [-π, π).

    Parameters
    ----------
    bearing : array_like
        Degrees clockwise from north, any real number; NaN stays NaN.

    Returns
    -------
    ndarray
        Radians counter-clockwise from east, in [-π, π): north is π/2, east 0, south -π/2, west -π.

    Notes
    -----
    Only the sense of rotation and the zero change. Wind is reported by where it comes *from*; the direction it blows to
    is half a turn on, ``from_compass(bearing + 180)``.

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.from_compass([0, 90, 180, 270])
    array([ 1.57079633,  0.        , -1.57079633, -3.14159265])
    """
    return _to_radians(90.0 - check.finite_or_nan(bearing, "bearing"), np.asarray(360.0))[()]


def to_compass(x: ArrayLike) -> FloatArray:
    """``90 - 180 x / π``, in [0, 360).

    Parameters
    ----------
    x : array_like
        Radians counter-clockwise from east, any real number; NaN stays NaN.

    Returns
    -------
    ndarray
        Degrees clockwise from north, in [0, 360).

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import angles
    >>> angles.to_compass([np.pi / 2, 0.0, -np.pi / 2, np.pi])
    array([  0.,  90., 180., 270.])
    """
    return _below_period(90.0 - np.asarray(to_degrees(x)), np.asarray(360.0))[()]
