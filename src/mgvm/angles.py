"""Angles: wrapping, statistics that know that -π and π are the same, and units.

Radians in [-π, π) come out, any real number goes in. Degrees, hours, days of the year and compass bearings pass through
the `from_*` and `to_*` functions. A whole turn of such a unit is exact in that unit (360 is a float, 2π is not), so
turns are taken off in the unit, with the exact `fmod`, before the factor 2π enters. Tests, correlations and intervals
are made in `mgvm._circular_statistics`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._circular_statistics import (
    CircularTest,
    DirectionInterval,
    circular_correlation,
    circular_linear_correlation,
    kuiper_test,
    mardia_watson_wheeler_test,
    mean_interval,
    rayleigh_test,
    watson_test,
    watson_two_sample_test,
)
from mgvm._validation import DegreesWarning, FloatArray

__all__ = [
    "wrap",
    "difference",
    "mean",
    "resultant_length",
    "variance",
    "median",
    "mean_interval",
    "rayleigh_test",
    "kuiper_test",
    "watson_test",
    "watson_two_sample_test",
    "mardia_watson_wheeler_test",
    "circular_correlation",
    "circular_linear_correlation",
    "CircularTest",
    "DirectionInterval",
    "DegreesWarning",
    "from_degrees",
    "to_degrees",
    "from_hours",
    "to_hours",
    "from_day_of_year",
    "to_day_of_year",
    "from_compass",
    "to_compass",
    "to_radians",
    "from_radians",
]

UNITS = ("radians", "degrees", "compass", "hours")  # of estimators, by name
Axis = int | tuple[int, ...] | None

_EPS = float(np.finfo(float).eps)

# ---- wrapping -------------------------------------------------------------------------------------------------------


def wrap(x: ArrayLike) -> FloatArray:
    """``x - 2π ⌊(x + π) / 2π⌋``: the same angle in [-π, π).

    Parameters
    ----------
    x : array_like
        Radians, any real number; NaN stays NaN.

    Returns
    -------
    ndarray
        Radians in [-π, π). Numbers already there come back unchanged, to the last bit.

    Notes
    -----
    The turns taken off are those of the true π, so that ``sin(wrap(x))`` is ``sin(x)`` for 1e15 as for 10. A float that
    is as near to a multiple of π as floats of its size can be is taken for that multiple: ``wrap(2 * np.pi)`` is 0 and
    ``wrap(3 * np.pi)`` is -π.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import angles
    >>> angles.wrap([0.5, np.pi, 7.0, -4.0])
    array([ 0.5       , -3.14159265,  0.71681469,  2.28318531])
    """
    out = np.array(check.finite_or_nan(x, "x"))
    far = np.abs(out) >= np.pi
    out[far] = _reduce(out[far])
    return out[()]


def _reduce(x: FloatArray) -> FloatArray:
    """`wrap` where |x| >= π."""
    # sin and cos reduce by the true π at any size; (x + π) % 2π - π loses what the float 2π lacks, at every turn.
    rest = np.arctan2(np.sin(x), np.cos(x))
    slack = np.minimum(np.finfo(float).eps * np.abs(x), 1e-9)
    rest = np.where(np.abs(rest) <= slack, 0.0, rest)
    return np.where(np.abs(rest) + slack >= np.pi, -np.pi, rest)


def difference(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """``a - b``, wrapped to [-π, π): the shortest way from b to a.

    Parameters
    ----------
    a, b : array_like
        Radians, any real numbers; they broadcast. NaN stays NaN.

    Returns
    -------
    ndarray
        Radians in [-π, π).

    Examples
    --------
    >>> from mgvm import angles
    >>> round(float(angles.difference(3.0, -3.0)), 4)
    -0.2832
    """
    a, b = check.broadcast(a=check.finite_or_nan(a, "a"), b=check.finite_or_nan(b, "b"))
    return wrap(a - b)


# ---- statistics -----------------------------------------------------------------------------------------------------


def _sample(x: ArrayLike, weights: ArrayLike | None, axis: Axis, nan_policy: str) -> tuple[FloatArray, FloatArray]:
    """Angles and weights (..., n), the axes to be reduced gathered in the last; an omitted angle has weight 0."""
    array = check.angle_data_or_nan(x, "x")
    check.choice(nan_policy, "nan_policy", ("propagate", "raise", "omit"))
    weight = check.weights_like(weights, array.shape)
    if isinstance(
        x, np.ma.MaskedArray
    ):  # masked is left out, as in NumPy; NaN may also be a computation that went wrong
        hidden = np.ma.getmaskarray(x)
        array, weight = np.where(hidden, 0.0, array), np.where(hidden, 0.0, weight)
    missing = np.isnan(array)
    if nan_policy == "raise" and missing.any():
        check.angles(array, "x")
    if nan_policy == "omit":
        array, weight = np.where(missing, 0.0, array), np.where(missing, 0.0, weight)
    axes = check.axes(axis, array.ndim)
    last = range(array.ndim - len(axes), array.ndim)
    kept = tuple(size for i, size in enumerate(array.shape) if i not in axes)
    return np.moveaxis(array, axes, last).reshape(*kept, -1), _scale(np.moveaxis(weight, axes, last).reshape(*kept, -1))


def _scale(weight: FloatArray) -> FloatArray:
    """Weights of at most 1 in every row where sums would overflow, or products with cosines would be subnormal."""
    most = weight.max(axis=-1, keepdims=True)
    extreme = (most > 0.0) & ((most > 1e200) | (most < 1e-200))
    return np.where(extreme, weight / np.where(extreme, most, 1.0), weight) if extreme.any() else weight


def _average(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ w v / Σ w over the last axis; NaN where nothing has weight."""
    with np.errstate(invalid="ignore"):
        return np.asarray((weight * values).sum(axis=-1) / weight.sum(axis=-1))


def _resultant(x: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Direction and length of the mean of e^{ix} over the last axis."""
    cos, sin = _average(np.cos(x), weight), _average(np.sin(x), weight)
    return np.arctan2(sin, cos), np.minimum(np.hypot(cos, sin), 1.0)


def _mean(x: FloatArray, weight: FloatArray) -> FloatArray:
    direction, length = _resultant(x, weight)
    # A float angle is known to half its spacing, eps·|x|/2, and so is the resultant.
    rounding = 2.0 * _EPS * np.maximum(np.abs(x).max(axis=-1), np.pi)
    return np.where(length <= rounding, np.nan, wrap(direction))


def mean(
    x: ArrayLike, weights: ArrayLike | None = None, axis: Axis = None, nan_policy: str = "propagate"
) -> FloatArray:
    """``arg Σ w e^{ix}``: the direction of the resultant.

    Parameters
    ----------
    x : array_like
        Radians, any real number.
    weights : array_like, optional
        Weights >= 0 that broadcast to the shape of `x`; equal when left out.
    axis : int, tuple of int or None, default None
        Axes to reduce; None reduces all.
    nan_policy : {'propagate', 'raise', 'omit'}, default 'propagate'
        What a NaN in `x` does: make the result NaN, raise, or be left out. What a masked array masks is left out.

    Returns
    -------
    ndarray
        Radians in [-π, π). NaN where the resultant is zero up to rounding (0 and π, say), since no direction is then
        the mean, and where nothing is left to average.

    Examples
    --------
    >>> from mgvm import angles
    >>> round(float(angles.mean(angles.from_degrees([350.0, 20.0]))), 6)
    0.087266
    """
    return _mean(*_sample(x, weights, axis, nan_policy))[()]


def resultant_length(
    x: ArrayLike, weights: ArrayLike | None = None, axis: Axis = None, nan_policy: str = "propagate"
) -> FloatArray:
    """``|Σ w e^{ix}| / Σ w``: 1 when all angles agree, 0 when they cancel.

    Parameters
    ----------
    x, weights, axis, nan_policy
        As for `mean`.

    Returns
    -------
    ndarray
        Numbers in [0, 1].

    Examples
    --------
    >>> from mgvm import angles
    >>> round(float(angles.resultant_length([0.0, 1.0])), 6)
    0.877583
    """
    return _resultant(*_sample(x, weights, axis, nan_policy))[1][()]


def variance(
    x: ArrayLike, weights: ArrayLike | None = None, axis: Axis = None, nan_policy: str = "propagate"
) -> FloatArray:
    """``1 - R = Σ w 2 sin²((x - mean)/2) / Σ w``: the mean of 1 - cos of the deviation.

    Parameters
    ----------
    x, weights, axis, nan_policy
        As for `mean`.

    Returns
    -------
    ndarray
        Numbers in [0, 1]: about half the usual variance for concentrated angles, 1 when they cancel. The sum of squares
        keeps its digits where 1 - R would lose them.

    Examples
    --------
    >>> from mgvm import angles
    >>> print(f"{angles.variance([1e-9, -1e-9]):.6g}")
    5e-19
    """
    values, weight = _sample(x, weights, axis, nan_policy)
    # Any direction will do where the resultant vanishes, so the one before the NaN rule of `mean`.
    direction, _ = _resultant(values, weight)
    deviation = values - direction[..., None]
    return np.minimum(_average(2.0 * np.sin(0.5 * deviation) ** 2, weight), 1.0)[()]


def median(
    x: ArrayLike, weights: ArrayLike | None = None, axis: Axis = None, nan_policy: str = "propagate"
) -> FloatArray:
    """``argmin_θ Σ w d(x, θ)``, d the angular distance in [0, π].

    Parameters
    ----------
    x, weights, axis, nan_policy
        As for `mean`.

    Returns
    -------
    ndarray
        Radians in [-π, π). The minimum is always reached at an observation. Where several distinct observations reach
        it (the two middle ones of an even number), the result is their unweighted circular mean, NaN where that has
        no direction.

    Notes
    -----
    O(n log n): the distances at all observations come from running sums over the sorted angles.

    Examples
    --------
    >>> from mgvm import angles
    >>> round(float(angles.median([3.0, -3.1, -3.0, 0.5])), 4)
    3.0916
    """
    values, weight = _sample(x, weights, axis, nan_policy)
    out = np.full(values.shape[:-1], np.nan)
    for index in np.ndindex(out.shape):
        used = weight[index] > 0.0
        if used.any() and not np.isnan(values[index]).any():
            ties = _median_ties(wrap(values[index][used]), weight[index][used])
            out[index] = ties[0] if ties.size == 1 else _mean(ties, np.ones(ties.size))
    return out[()]


def _median_ties(x: FloatArray, weight: FloatArray) -> FloatArray:
    """The distinct observations at which the mean distance to all of them is least."""
    order = np.argsort(x)
    x, weight = x[order], weight[order]
    turns = np.concatenate([x - 2.0 * np.pi, x, x + 2.0 * np.pi])
    mass = np.concatenate([[0.0], np.cumsum(np.tile(weight, 3))])
    first = np.concatenate([[0.0], np.cumsum(np.tile(weight, 3) * turns)])
    total = weight.sum()
    # The mean distance is piecewise linear in θ, with slope (mass of the half turn behind - mass of the half turn
    # ahead). Slopes are exact for whole-number weights, so they decide between neighbours, values between valleys.
    slack = 4.0 * _EPS * total * x.size
    slope = {}
    for side in ("left", "right"):
        far, near = np.searchsorted(turns, x - np.pi, side), np.searchsorted(turns, x, side)
        slope[side] = 2.0 * (mass[near] - mass[far]) - total
    end = far + x.size
    behind = x * (mass[near] - mass[far]) - (first[near] - first[far])
    ahead = (first[end] - first[near]) - x * (mass[end] - mass[near])
    valley = np.flatnonzero((slope["left"] <= slack) & (slope["right"] >= -slack))
    distance = (behind + ahead)[valley] / total
    # Mean distances closer than 1e-12 radians are equal up to summation error.
    return np.unique(x[valley][distance <= distance.min() + 1e-12])


# ---- units ----------------------------------------------------------------------------------------------------------


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
    return _below_period(x / (2.0 * np.pi) * period, period)[()]


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


def to_radians(values: ArrayLike, unit: str | Sequence[str]) -> FloatArray:
    """Angles in a unit that goes by its name, as radians in [-π, π).

    Parameters
    ----------
    values : array_like
        Any real numbers; NaN stays NaN.
    unit : {"radians", "degrees", "compass", "hours"} or sequence of these
        Degrees counter-clockwise, degrees clockwise from north, or hours of the day; one for all, or one for each
        column (the last axis).

    Returns
    -------
    ndarray
        Radians in [-π, π).

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.to_radians([[90.0, 6.0]], ["compass", "hours"])
    array([[0.        , 1.57079633]])
    """
    return _by_column(
        values, unit, {"radians": wrap, "degrees": from_degrees, "compass": from_compass, "hours": from_hours}
    )


def from_radians(x: ArrayLike, unit: str | Sequence[str]) -> FloatArray:
    """Radians as numbers in a unit that goes by its name.

    Parameters
    ----------
    x : array_like
        Radians, any real numbers; NaN stays NaN.
    unit
        As for `to_radians`.

    Returns
    -------
    ndarray
        Radians in [-π, π), degrees in [0, 360), hours in [0, 24).

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.from_radians([0.0, -1.0], "compass").round(1)
    array([ 90. , 147.3])
    """
    return _by_column(x, unit, {"radians": wrap, "degrees": to_degrees, "compass": to_compass, "hours": to_hours})


def _by_column(
    values: ArrayLike, unit: str | Sequence[str], convert: dict[str, Callable[[ArrayLike], FloatArray]]
) -> FloatArray:
    """Values converted by the unit's function, or each column by that of its own."""
    if isinstance(unit, str) or not isinstance(unit, (list, tuple)):
        return convert[check.choice(unit, "unit", convert)](values)
    array = check.finite_or_nan(values, "values")
    functions = [convert[check.choice(name, "unit", convert)] for name in unit]
    if array.ndim == 0 or array.shape[-1] != len(functions):
        raise ValueError(
            f"unit must be one name for all columns or one for each, got {len(functions)} names for shape {array.shape}"
        )
    return np.stack([function(array[..., i]) for i, function in enumerate(functions)], axis=-1)


def _with_period(value: ArrayLike, name: str, period: ArrayLike) -> tuple[FloatArray, FloatArray]:
    checked = {name: check.finite_or_nan(value, name), "period": check.positive(period, "period")}
    if (checked["period"] < np.finfo(float).tiny).any():
        raise ValueError(f"period must be at least {np.finfo(float).tiny:.3g}, got {checked['period'].min():g}")
    value, period = check.broadcast(**checked)
    return value, period


def _from_unit(value: ArrayLike, name: str, period: ArrayLike) -> FloatArray:
    return _to_radians(*_with_period(value, name, period))[()]


def _to_radians(value: FloatArray, period: FloatArray) -> FloatArray:
    """2π value / period, less whole turns: in [-π, π)."""
    rest = np.fmod(value, period)
    rest = np.where(rest >= 0.5 * period, rest - period, np.where(rest < -0.5 * period, rest + period, rest))
    return np.asarray(rest / period * (2.0 * np.pi))


def _below_period(value: FloatArray, period: FloatArray) -> FloatArray:
    """`value` less whole periods: in [0, period)."""
    rest = np.fmod(value, period)
    rest = np.where(rest < 0.0, rest + period, rest)
    # A tiny negative number plus the period rounds to the period itself.
    return np.where(rest >= period, 0.0, rest)
