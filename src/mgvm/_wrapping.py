"""Radians in [-π, π): wrapping, differences, and points of the unit circle."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray


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


def to_cos_sin(x: ArrayLike) -> FloatArray:
    """[cos x; sin x] along the last axis.

    Parameters
    ----------
    x : array_like
        Radians (..., D); a single angle counts as D = 1. NaN stays NaN.

    Returns
    -------
    ndarray
        Shape (..., 2D): the D cosines, then the D sines.

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.to_cos_sin([0.0, 1.0])
    array([1.        , 0.54030231, 0.        , 0.84147098])
    """
    array = np.atleast_1d(check.finite_or_nan(x, "x"))
    return np.concatenate([np.cos(array), np.sin(array)], axis=-1)


def from_cos_sin(v: ArrayLike) -> FloatArray:
    """``arg(v_d + i v_{D+d})``: the angles of [cos; sin] vectors, whatever their lengths.

    Parameters
    ----------
    v : array_like
        Real numbers (..., 2D): D first coordinates, then D second ones. NaN stays NaN.

    Returns
    -------
    ndarray
        Radians (..., D) in [-π, π); NaN for a zero vector, which has no direction.

    Examples
    --------
    >>> from mgvm import angles
    >>> angles.from_cos_sin([1.0, 0.0, 0.0, 3.0])
    array([0.        , 1.57079633])
    """
    array = check.finite_or_nan(v, "v")
    if array.ndim == 0 or array.shape[-1] % 2:
        raise ValueError(f"v must have shape (..., 2D), cosines then sines, got {array.shape}")
    cos, sin = np.split(array, 2, axis=-1)
    return np.where((cos == 0.0) & (sin == 0.0), np.nan, wrap(np.arctan2(sin, cos)))
