"""Minimisation of smooth, costly functions of a few logarithms: BFGS whose steps stay on the scale of the problem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mgvm._validation import FloatArray

_SUFFICIENT = 1e-4
_HALVINGS = 6
_FEW = 3  # steps after which the curvature is known well enough to tell what is left


def minimise(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    bounds: FloatArray,
    *,
    curvature: float,
    longest: float = 1.0,
    gain: float = 1e-2,
    max_steps: int = 60,
    redundant: Callable[[FloatArray, float, float], bool] = lambda x, value, promised: False,
) -> tuple[FloatArray, bool]:
    """The end of a descent, and whether it ended because a step promised less than `gain`.

    `curvature` is a guess of the second derivatives; no parameter moves by more than `longest` in a step. A logarithm
    that is moved further at once often lands where the function is flat and another optimum begins. Once it has made a
    few steps, `redundant` is asked with where it is, the value there and what the next step promises.
    """
    x = np.clip(start, bounds[:, 0], bounds[:, 1])
    value, slope = function(x)
    inverse = np.eye(x.size) / curvature
    for count in range(max_steps):
        # Parameters that would leave their bounds stay where they are.
        free = ~(((x <= bounds[:, 0]) & (slope > 0.0)) | ((x >= bounds[:, 1]) & (slope < 0.0)))
        step = np.where(free, -(inverse * np.outer(free, free)) @ slope, 0.0)
        promised = -0.5 * float(step @ slope)
        if promised < gain or (count >= _FEW and redundant(x, value, promised)):
            return x, True
        step *= min(1.0, longest / float(np.abs(step).max()))
        found = _backtracked(function, x, step, (value, slope), bounds)
        if found is None:
            if (inverse == np.diag(np.diagonal(inverse))).all():
                return x, False
            inverse = np.eye(x.size) / curvature
            continue
        moved, changed = found[0] - x, found[2] - slope
        x, value, slope = found
        inverse = _updated(inverse, moved, changed)
    return x, False


def _backtracked(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    step: FloatArray,
    here: tuple[float, FloatArray],
    bounds: FloatArray,
) -> tuple[FloatArray, float, FloatArray] | None:
    """The first of ever shorter steps with a sufficient decrease."""
    value, slope = here
    for _ in range(_HALVINGS):
        there = np.clip(x + step, bounds[:, 0], bounds[:, 1])
        found, gradient = function(there)
        if np.isfinite(found) and found <= value + _SUFFICIENT * float(slope @ (there - x)):
            return there, found, gradient
        step = 0.35 * step
    return None


def _updated(inverse: FloatArray, moved: FloatArray, changed: FloatArray) -> FloatArray:
    """The BFGS update of an inverse Hessian; left alone where the curvature along the step is not positive."""
    along = float(moved @ changed)
    if along <= 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(changed)):
        return inverse
    left = np.eye(moved.size) - np.outer(moved, changed) / along
    return np.asarray(left @ inverse @ left.T + np.outer(moved, moved) / along)
