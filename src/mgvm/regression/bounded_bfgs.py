"""Bounded BFGS for smooth, costly functions of a few logarithms: steps stay on the scale of the problem.

SciPy's L-BFGS-B starts with a step as long as the gradient: a logarithm that is moved so far at once often lands where
the function is flat and another optimum begins. Here a guess of the curvature is given and every step is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray

Function = Callable[[FloatArray], tuple[float, FloatArray]]


class Point(NamedTuple):
    """Where a descent is: the place, the value and the gradient there."""

    x: FloatArray
    value: float
    gradient: FloatArray


def minimize(
    function: Function,
    start: FloatArray,
    bounds: FloatArray,
    *,
    curvature: float | FloatArray,
    longest: float = 1.0,
    gain: float = 1e-2,
    max_steps: int = 60,
    give_up: Callable[[Point, float], bool] | None = None,
    patience: int = 3,
) -> FloatArray:
    """The end of a descent: where a step promises less than `gain`.

    `curvature` is a guess of the second derivatives, a number or a matrix; no parameter moves by more than `longest` in
    a step. Once it has made `patience` steps, after which the curvature is known well enough, `give_up` is asked with
    where it is and what the next step promises.
    """
    x = np.clip(start, bounds[:, 0], bounds[:, 1])
    here = Point(x, *function(x))
    first = inverse = np.asarray(np.linalg.inv(curvature * np.eye(x.size) if np.ndim(curvature) == 0 else curvature))
    for count in range(max_steps):
        # Parameters that would leave their bounds stay where they are.
        slope = here.gradient
        free = ~(((here.x <= bounds[:, 0]) & (slope > 0.0)) | ((here.x >= bounds[:, 1]) & (slope < 0.0)))
        step = np.where(free, -(inverse * np.outer(free, free)) @ slope, 0.0)
        promised = -0.5 * float(step @ slope)
        if promised < gain or (give_up is not None and count >= patience and give_up(here, promised)):
            break
        step *= min(1.0, longest / float(np.abs(step).max()))
        there = _backtrack(function, here, step, bounds)
        if there is None:
            if inverse is first:
                break
            inverse = first
            continue
        inverse = _update(inverse, there.x - here.x, there.gradient - here.gradient)
        here = there
    return here.x


def _backtrack(function: Function, here: Point, step: FloatArray, bounds: FloatArray) -> Point | None:
    """The first of six ever shorter steps with a sufficient decrease (Armijo's rule, 1e-4 of the slope)."""
    for _ in range(6):
        x = np.clip(here.x + step, bounds[:, 0], bounds[:, 1])
        value, gradient = function(x)
        if np.isfinite(value) and value <= here.value + 1e-4 * float(here.gradient @ (x - here.x)):
            return Point(x, value, gradient)
        step = 0.35 * step
    return None


def _update(inverse: FloatArray, moved: FloatArray, changed: FloatArray) -> FloatArray:
    """The BFGS update of an inverse Hessian; left alone where the curvature along the step is not positive."""
    along = float(moved @ changed)
    if along <= 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(changed)):
        return inverse
    left = np.eye(moved.size) - np.outer(moved, changed) / along
    return np.asarray(left @ inverse @ left.T + np.outer(moved, moved) / along)
