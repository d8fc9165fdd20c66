"""Slow, obvious twins of mgvm.angles: plain loops, mpmath where digits matter."""

import math

import mpmath
import numpy as np


def wrap(x):
    """x less whole turns, with 400 digits of π."""
    with mpmath.workdps(400):
        exact = mpmath.mpf(x)
        return float(exact - 2 * mpmath.pi * mpmath.floor((exact + mpmath.pi) / (2 * mpmath.pi)))


def distance(a, b):
    gap = abs(a - b) % (2 * math.pi)
    return min(gap, 2 * math.pi - gap)


def mean_distance(theta, x, weights):
    return sum(w * distance(v, theta) for v, w in zip(x, weights, strict=True)) / sum(weights)


def median_candidates(x, weights=None):
    """All observations whose mean distance to the sample is least, O(n²)."""
    weights = np.ones(len(x)) if weights is None else weights
    used = [(v, w) for v, w in zip(x, weights, strict=True) if w > 0]
    values, masses = [v for v, _ in used], [w for _, w in used]
    scores = [mean_distance(theta, values, masses) for theta in values]
    return sorted({v for v, s in zip(values, scores, strict=True) if s <= min(scores) + 1e-12})


def variance(x):
    """1 - |mean of e^{ix}| with 60 digits."""
    with mpmath.workdps(60):
        return float(1 - abs(mpmath.fsum(mpmath.expj(mpmath.mpf(float(v))) for v in x)) / len(x))
