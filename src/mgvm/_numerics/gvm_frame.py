"""The frame in which every GvM of order 2 has the same shape.

Turned by the phase of its second harmonic, a GvM reads f(φ) = p cos φ + q sin φ + κ₂ cos 2φ. Half a turn flips the
signs of p and q, a reflection that of q: both are brought to p, q >= 0, so that the highest mode lies in [0, π/2].
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import inner


@inner(forceinline=True, fastmath={"contract"})
def quadrant_frame(a1: float, b1: float, a2: float, b2: float) -> tuple[float, float, float, float, float, float]:
    """p, q, κ₂ and the way back: cosine and sine of the turn, and the sign of the reflection.

    An angle φ of the frame stands for the angle turn + sign·φ of the law. The half angle comes from square roots
    alone, the larger of cosine and sine first, so nothing cancels. No branches, so loops over laws vectorise.
    """
    second = math.sqrt(a2 * a2 + b2 * b2)
    scale = 1.0 / max(second, 1e-300)
    cosine, sine = a2 * scale if second > 0.0 else 1.0, b2 * scale
    large = math.sqrt(0.5 + 0.5 * abs(cosine))
    small = 0.5 * sine / large
    turn_cos = large if cosine >= 0.0 else abs(small)
    turn_sin = small if cosine >= 0.0 else (large if sine >= 0.0 else -large)
    p = a1 * turn_cos + b1 * turn_sin
    q = b1 * turn_cos - a1 * turn_sin
    half_turn = 1.0 if p >= 0.0 else -1.0
    q *= half_turn
    return p * half_turn, abs(q), second, turn_cos * half_turn, turn_sin * half_turn, 1.0 if q >= 0.0 else -1.0


_TINY_TILT = 1e-70  # floor of p relative to p + q + k: what it adds to the law is nil, and p² stays normal
_TINY_WELL = 1e-30  # floor of k, likewise
_NOTHING = 1e-280
_STEPS = 5
_THIRD = 1.0 / 3.0
_CUBE_ROOT_BIAS = 715094163.0
_HIGH_WORD = np.uint64(32)
_TWO_52 = 4503599627370496.0
_BITS_OF_TWO_52 = np.uint64(0x4330000000000000)


@inner(forceinline=True)
def _rough_cube_root(x: float) -> float:
    """Cube root to 5 %: a third of the exponent bits, in arithmetic that vectorises."""
    high = np.uint64((np.float64(x).view(np.uint64) >> _HIGH_WORD) | _BITS_OF_TWO_52).view(np.float64) - _TWO_52
    third = np.float64(high * _THIRD + _CUBE_ROOT_BIAS + _TWO_52)
    return np.uint64((third.view(np.uint64) - _BITS_OF_TWO_52) << _HIGH_WORD).view(np.float64)


@inner(forceinline=True, fastmath={"contract"})
def _start(p: float, q: float, k: float) -> float:
    """The root y of `highest_modes` within a factor of about two, from its limiting equations."""
    below, above, shift = max(k - q, 0.0), max(q - k, 0.0), max(k, q)
    rest = (shift + q) / (shift * shift)
    y = min(math.sqrt(p * p + q * q), _rough_cube_root(p * p / rest))
    # Where `below` or `above` is zero its bound is huge and binds nobody.
    y = min(y, p / math.sqrt(below * rest + _NOTHING), p * p / (above * above * rest + _NOTHING))
    return max(y, p * p / (math.sqrt(p * p + above * above) + above))


@inner(forceinline=True, fastmath={"contract"})
def _improve(y: float, p: float, q: float, k: float) -> float:
    """A Newton step for log(left side / p²) as a function of log y, logarithm and exponential by their Padé forms."""
    shift = max(k, q)
    m, base, single, double = y + max(q - k, 0.0), y + shift, y + max(k - q, 0.0), y + shift + q
    left, right = m * m * single * double, base * base * p * p
    product = m * single * double * base
    slope = y * (2.0 * single * double * (base - m) + m * base * (double + single))
    step = -2.0 * (left - right) * product / ((left + right) * slope)
    step = min(max(step, -1.5), 1.5)
    return y * (2.0 + step) / (2.0 - step)


@inner(fastmath={"contract"})
def highest_modes(work: np.ndarray, count: int) -> None:
    """Multiplier m >= 0, cosine and sine of the highest mode of p cos φ + q sin φ + (k/4) cos 2φ in [0, π/2].

    Rows 0..2 of `work` hold p, q, k of each law, rows 3..5 get the answers, row 6 is scratch. Maximising over the unit
    circle with a multiplier gives cos φ = p/m and sin φ = q/(m + k), where m is the only root of
    (p/m)² + (q/(m + k))² = 1, that is of m² (m + k - q)(m + k + q)/(m + k)² = p². In the logarithm of y, the smaller of
    m and m + k - q, the left side is nearly a straight line of slope between 1 and 3, at the cusp p = 0, q = k too:
    five Newton steps reach rounding from anywhere. No branches, so the loops vectorise.
    """
    for i in range(count):
        scale = 1.0 / (work[0, i] + work[1, i] + work[2, i] + _NOTHING)
        p, q, k = max(work[0, i] * scale, _TINY_TILT), work[1, i] * scale, max(work[2, i] * scale, _TINY_WELL)
        work[3, i], work[4, i], work[5, i], work[6, i] = _start(p, q, k), p, q, k
    for _ in range(_STEPS):
        for i in range(count):
            work[3, i] = _improve(work[3, i], work[4, i], work[5, i], work[6, i])
    for i in range(count):
        y, p, q, k = work[3, i], work[4, i], work[5, i], work[6, i]
        m = y + max(q - k, 0.0)
        work[3, i] = m * (work[0, i] + work[1, i] + work[2, i])
        work[4, i], work[5, i] = p / m, q / (y + max(k, q))


@inner()
def one_less_length(x: float, y: float) -> float:
    """1 - |m| for m = (1 - x) + iy: |m|² = 1 - (2x - x² - y²), so that near |m| = 1 no ones cancel."""
    length = math.sqrt((1.0 - x) * (1.0 - x) + y * y)
    return (2.0 * x - x * x - y * y) / (1.0 + length)
