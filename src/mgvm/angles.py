"""Angles: wrapping, units, and statistics that know that -π and π are the same.

Radians in [-π, π) come out, any real number goes in. Degrees, hours, days of the year and compass bearings pass through
the `from_*` and `to_*` functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._units import (
    from_compass,
    from_day_of_year,
    from_degrees,
    from_hours,
    to_compass,
    to_day_of_year,
    to_degrees,
    to_hours,
)
from mgvm._validation import FloatArray
from mgvm._wrapping import difference, from_cos_sin, to_cos_sin, wrap

__all__ = [
    "wrap",
    "difference",
    "mean",
    "resultant_length",
    "variance",
    "median",
    "to_cos_sin",
    "from_cos_sin",
    "from_degrees",
    "to_degrees",
    "from_hours",
    "to_hours",
    "from_day_of_year",
    "to_day_of_year",
    "from_compass",
    "to_compass",
]

Axis = int | tuple[int, ...] | None

_EPS = float(np.finfo(float).eps)
_TURN = 2.0 * np.pi
_NAN_POLICIES = ("propagate", "raise", "omit")
_MEDIAN_TIE = 1e-12  # mean angular distances closer than this, in radians, are equal up to summation error


def _sample(x: ArrayLike, weights: ArrayLike | None, axis: Axis, nan_policy: str) -> tuple[FloatArray, FloatArray]:
    """Angles and weights (..., n), the axes to be reduced gathered in the last; an omitted angle has weight 0."""
    array = check.angle_data_or_nan(x, "x")
    check.choice(nan_policy, "nan_policy", _NAN_POLICIES)
    weight = check.weights_like(weights, array.shape)
    missing = np.isnan(array)
    if nan_policy == "raise" and missing.any():
        check.angles(array, "x")
    if nan_policy == "omit":
        array, weight = np.where(missing, 0.0, array), np.where(missing, 0.0, weight)
    axes = check.axes(axis, array.ndim)
    last = range(array.ndim - len(axes), array.ndim)
    kept = tuple(size for i, size in enumerate(array.shape) if i not in axes)
    return np.moveaxis(array, axes, last).reshape(*kept, -1), np.moveaxis(weight, axes, last).reshape(*kept, -1)


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
        What a NaN in `x` does: make the result NaN, raise, or be left out.

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
    turns = np.concatenate([x - _TURN, x, x + _TURN])
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
    return np.unique(x[valley][distance <= distance.min() + _MEDIAN_TIE])
