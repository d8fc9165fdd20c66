"""Safeguarded Newton for many monotone scalar equations at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mgvm._validation import FloatArray

# index of the unfinished equations, points -> values and slopes there
Evaluate = Callable[[np.ndarray, FloatArray], tuple[FloatArray, FloatArray]]

_MAX_ROUNDS = 200


def increasing_roots(
    evaluate: Evaluate,
    lower: FloatArray,
    upper: FloatArray,
    start: FloatArray,
    *,
    noise: float | FloatArray = 0.0,
    tolerance: float | FloatArray = 0.0,
) -> FloatArray:
    """Roots of increasing functions, one in each [lower, upper].

    Values within `noise` of zero count as zero; steps below `tolerance`, or below a few roundings of the root, end the
    search. Each is one number or one for each function. A Newton step that leaves the bracket, or that is more than
    half of the step before, is replaced by bisection, so the number of rounds is bounded whatever the slopes.
    """
    lower, upper, point = lower.copy(), upper.copy(), start.copy()
    active = np.arange(point.size)
    last_step = upper - lower
    noise, tolerance = np.broadcast_to(noise, point.shape), np.broadcast_to(tolerance, point.shape)
    for _ in range(_MAX_ROUNDS):
        if not active.size:
            break
        here = point[active]
        value, slope = evaluate(active, here)
        lower[active] = np.where(value <= 0, here, lower[active])
        upper[active] = np.where(value >= 0, here, upper[active])
        low, high = lower[active], upper[active]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = here - value / slope
            good = (new >= low) & (new <= high) & (np.abs(new - here) <= 0.5 * last_step[active])
        new = np.where(good, new, 0.5 * (low + high))
        found = np.abs(value) <= noise[active]
        point[active] = np.where(found, here, new)
        last_step[active] = np.abs(new - here)
        close = np.maximum(8.0 * np.spacing(np.abs(here)), tolerance[active])
        active = active[~(found | (last_step[active] <= close) | (high - low <= close))]
    return point
