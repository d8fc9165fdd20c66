"""A GvM of order 2 at high concentration: a trapezoid rule in windows around its one or two peaks.

With α = π/2 - (angle of the highest mode) and ψ = φ - π/2 in the frame of `gvm_frame`, the drop below the highest mode
is

    f(mode) - f = 2 m sin²((ψ+α)/2) + 8 κ₂ sin²((ψ+α)/2) sin²((ψ-α)/2),

a tilt plus an even double well, both positive: nothing cancels, whether the law has one mode, two, a flat one, or is
about to grow a second. In τ = tan(ψ/2), with t = tan(α/2), v = 1/(1+τ²) and w = 1/(1+t²),

    sin²((ψ±α)/2) = (τ±t)² v w,   cos ψ = 2v - 1,   dψ = 2v dτ,

so a node costs one division and one exponential.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import inner
from mgvm._numerics.exponential import bounded_exp
from mgvm._numerics.gvm_frame import highest_modes

_DROP = 34.5  # windows end where either part of the drop exceeds this: a Gaussian leaves 1e-16 outside
_DIGITS = 36.0  # the step keeps the rule's own error below e^-36 = 2e-16
_MIRROR = 27.0  # half the drop from which a second peak is left out; deep, for it weighs in 1 - |m₁| beside 1/(2K)
_ALMOST_ALL = 2.0 - 1e-6  # cap of 1 - cos: keeps tangents finite where a band does not bind


@inner(forceinline=True, fastmath={"contract"})
def _step(curvature: float, k: float) -> float:
    """Largest step, in ψ, that keeps the rule's error below e^-_DIGITS.

    The error of the trapezoid rule is e^{-2πy/h} times the growth of the integrand a distance y off the real axis.
    For the double well that growth is exp(½ c y² + k y⁴), c the curvature at the mode and k = 4κ₂ (maximise over the
    real part); y is chosen best, where _DIGITS = ½ c y² + 3 k y⁴.
    """
    half = 0.5 * curvature
    y2 = 2.0 * _DIGITS / (half + math.sqrt(half * half + 12.0 * k * _DIGITS))
    return 2.0 * math.pi * math.sqrt(y2) / (_DIGITS + half * y2 + k * y2 * y2)


@inner(forceinline=True, fastmath={"contract"})
def _bands(m: float, k: float, t: float, w: float) -> tuple[float, float, float, float]:
    """Where the drop can be small: inner and outer end of the well's |τ|, lower and upper end of the tilt's τ."""
    # |cos ψ - cos α| < reach, with 1 - cos α = 2t²w.
    reach, depth = math.sqrt(2.0 * _DROP / max(k, 1e-300)), 2.0 * t * t * w
    low, high = max(depth - reach, 0.0), min(depth + reach, _ALMOST_ALL)
    inner, outer = math.sqrt(low / (2.0 - low)), math.sqrt(high / (2.0 - high))
    # sin²((ψ+α)/2) < _DROP/(2m), which binds nobody where m is small
    share = min(0.5 * _DROP / max(m, 1e-300), 0.5 * _ALMOST_ALL)
    tangent = math.sqrt(share / (1.0 - share))
    lower = (tangent + t) / min(tangent * t - 1.0, -1e-3)
    upper = (tangent - t) / (1.0 + tangent * t)
    return inner, outer, lower, upper if m > 0.5 * _DROP else 1e3


@inner(fastmath={"contract"})
def find_windows(peaks: np.ndarray, count: int) -> None:
    """The peak and the one or two windows of each law: a loop without branches, so that it vectorises.

    Rows 0..2 of `peaks` hold p, q and k = 4κ₂; rows 3..5 get m, cosine and sine of the highest mode, row 6 the largest
    step in τ, rows 7..10 the ends of both windows; a second window that is not needed is empty.
    """
    highest_modes(peaks, count)
    for i in range(count):
        k, m, cosine, sine = peaks[2, i], peaks[3, i], peaks[4, i], peaks[5, i]
        t, w = cosine / (1.0 + sine), 0.5 * (1.0 + sine)
        inner, outer, lower, upper = _bands(m, k, t, w)
        # Where the valley between the peaks is not deep, one window covers both.
        merged = inner <= 0.0
        peaks[6, i] = 0.5 * _step(m + k * cosine * cosine, k) * (1.0 if merged else 1.0 + t * t)
        peaks[7, i] = max(-outer, lower)
        peaks[8, i] = min(outer if merged else -inner, upper)
        peaks[9, i] = inner
        peaks[10, i] = inner if merged or m * cosine * cosine > _MIRROR else outer


@inner(fastmath={"contract"})
def window_sums(work: np.ndarray, count: int, lanes: int) -> None:
    """Sums over nodes τ, `count` a lane, of the weight v e^{-drop} alone and times each of nine functions.

    Rows 0..5 of `work` hold first node less centre, step, m, k, t and the centre (-t or t) of each lane, so that the
    small distances from a peak are never differences of large numbers; rows 6..15 get the sums of the weight, of
    weight·drop, and of weight times 1 - cos δ, sin δ, cos 2δ, sin 2δ, ..., sin 4δ, with δ = ψ + α the angle from the
    mode.
    """
    for row in range(6, 16):
        for lane in range(lanes):
            work[row, lane] = 0.0
    for j in range(count):
        for lane in range(lanes):
            x = work[0, lane] + j * work[1, lane]
            t, centre = work[4, lane], work[5, lane]
            tau, near, far = x + centre, x + (centre + t), x + (centre - t)
            v = 1.0 / ((1.0 + tau * tau) * (1.0 + t * t))
            half_sine2 = near * near * v
            drop = 2.0 * half_sine2 * (work[2, lane] + work[3, lane] * (far * far * v))
            weight = v * bounded_exp(-drop)
            one_less = 2.0 * half_sine2
            s1 = 2.0 * near * (1.0 - tau * t) * v
            c1 = 1.0 - one_less
            c2, s2 = c1 * c1 - s1 * s1, 2.0 * c1 * s1
            work[6, lane] += weight
            work[7, lane] += weight * drop
            work[8, lane] += weight * one_less
            work[9, lane] += weight * s1
            work[10, lane] += weight * c2
            work[11, lane] += weight * s2
            work[12, lane] += weight * (c2 * c1 - s2 * s1)
            work[13, lane] += weight * (s2 * c1 + c2 * s1)
            work[14, lane] += weight * (c2 * c2 - s2 * s2)
            work[15, lane] += weight * (2.0 * c2 * s2)
