"""Safeguarded Newton for many monotone scalar equations at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mgvm._validation import FloatArray

# index of the unfinished equations, points -> values and slopes there
Evaluate = Callable[[np.ndarray, FloatArray], tuple[FloatArray, FloatArray]]


def increasing_roots(evaluate: Evaluate, lower: FloatArray, upper: FloatArray, start: FloatArray) -> FloatArray:
    """Roots of increasing functions, one in each [lower, upper], to the last few bits.

    A Newton step that leaves the bracket, or that fails to halve it twice running, is replaced by bisection, so the
    number of rounds is bounded whatever the slopes.
    """
    lower, upper, point = lower.copy(), upper.copy(), start.copy()
    active = np.arange(point.size)
    old_width = upper - lower
    for round_ in range(200):
        if not active.size:
            break
        here = point[active]
        value, slope = evaluate(active, here)
        lower[active] = np.where(value <= 0, here, lower[active])
        upper[active] = np.where(value >= 0, here, upper[active])
        low, high = lower[active], upper[active]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = here - value / slope
        good = np.isfinite(step) & (step > low) & (step < high)
        if round_ % 3 == 2:
            good &= high - low < 0.5 * old_width[active]
            old_width[active] = high - low
        new = np.where(good, step, 0.5 * (low + high))
        point[active] = new
        scale = np.spacing(np.maximum(np.abs(here), 1e-300))
        done = (np.abs(new - here) <= scale) | (high - low <= 2 * scale) | (value == 0)
        point[active] = np.where(value == 0, here, new)
        active = active[~done]
    return point
