"""The periodic trapezoid rule for a GvM of order 2 at low concentration, many laws at a time.

In the frame of `gvm_frame` the four nodes φ, -φ, π - φ, π + φ share their exponentials:
e^{κ₂ cos 2φ} e^{±p cos φ} e^{±q sin φ}. Their sums are products of cosh and sinh, so four nodes cost three exponentials
and each moment one multiplication. The inner loop runs over laws, where LLVM vectorises it without reordering a sum.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import inner
from mgvm._numerics.exponential import exp_pair, positive_log

HIGHEST = 400.0  # total concentration up to which the rule is used
_TWO_52 = 4503599627370496.0
_QUARTERS = 48  # most nodes in a quadrant


def _node_table() -> np.ndarray:
    """cos kφ and sin kφ, k = 1..4, at midpoints of m cells of a quadrant, m = 1.._QUARTERS one below another."""
    angles = [0.5 * np.pi * (np.arange(m) + 0.5) / m for m in range(1, _QUARTERS + 1)]
    phi = np.concatenate(angles)
    return np.stack([wave(k * phi) for k in range(1, 5) for wave in (np.cos, np.sin)], axis=1)


_TABLE = _node_table()


@inner(forceinline=True)
def quadrant_nodes(total: float) -> float:
    """Nodes a quadrant, even: 17 + 7.5 √K in all, K the total concentration, keep moments 0..4 at rounding."""
    # Adding and taking off 2^52 rounds, in arithmetic that vectorises; the half more makes it round up.
    return 2.0 * ((0.125 * (17.0 + 7.5 * math.sqrt(total)) + 0.5 + _TWO_52) - _TWO_52)


@inner(forceinline=True, fastmath={"contract"})
def _four_nodes(p: float, q: float, common: float) -> tuple[float, float, float, float]:
    """Sums of common·e^{±p±q} over the four signs: plain, with the sign of p, with that of q, with both."""
    up, down = exp_pair(p)
    left, right = exp_pair(q)
    even_p, odd_p = common * (up + down), common * (up - down)
    even_q, odd_q = left + right, left - right
    return even_p * even_q, odd_p * even_q, even_p * odd_q, odd_p * odd_q


@inner(fastmath={"contract"})
def trapezoid_sums(work: np.ndarray, m: int, lanes: int) -> None:
    """Rows 0..2 of `work` hold p, q, κ₂ of each lane; rows 6..14 get 2m/π times Z, Re m₁, Im m₁, ..., Im m₄.

    A node φ is taken together with π/2 - φ (m is even), which swaps cosine and sine and turns κ₂ cos 2φ into its
    negative: one more exponential shared, half the table, half the traffic of the sums.
    """
    first = m * (m - 1) // 2
    for row in range(6, 16):
        for lane in range(lanes):
            work[row, lane] = 0.0
    for i in range(first, first + m // 2):
        c1, s1, c2, s2 = _TABLE[i, 0], _TABLE[i, 1], _TABLE[i, 2], _TABLE[i, 3]
        c3, s3, c4, s4 = _TABLE[i, 4], _TABLE[i, 5], _TABLE[i, 6], _TABLE[i, 7]
        for lane in range(lanes):
            p, q = work[0, lane], work[1, lane]
            common, inverse = exp_pair(work[2, lane] * c2)
            z, x, y, xy = _four_nodes(p * c1, q * s1, common)
            zz, xx, yy, xxyy = _four_nodes(p * s1, q * c1, inverse)
            total = z + zz
            work[6, lane] += total
            work[7, lane] = (work[7, lane] + x * c1) + xx * s1
            work[8, lane] = (work[8, lane] + y * s1) + yy * c1
            work[9, lane] += (z - zz) * c2
            work[10, lane] += (xy + xxyy) * s2
            work[11, lane] = (work[11, lane] + x * c3) - xx * s3
            work[12, lane] = (work[12, lane] + y * s3) - yy * c3
            work[13, lane] += total * c4
            work[14, lane] += (xy - xxyy) * s4


@inner(fastmath={"contract"})
def trapezoid_facts(work: np.ndarray, m: int, lanes: int) -> None:
    """What the sums say of each lane's law: rows 0..2 hold p, q, κ₂ and rows 3..5 the way back of `quadrant_frame`.

    Rows 0..3 get log Z, 1 - |m₁|, entropy and the log density at the frame's origin, rows 4, 5 its cosine and sine,
    rows 7..14 the moments, conjugated if reflected and turned back.
    """
    weight = 0.5 * math.pi / m
    for lane in range(lanes):
        p, q, second = work[0, lane], work[1, lane], work[2, lane]
        cos, sin, sign = work[3, lane], work[4, lane], work[5, lane]
        z = 1.0 / work[6, lane]
        x1, y1, x2, y2 = work[7, lane] * z, work[8, lane] * z, work[9, lane] * z, work[10, lane] * z
        x3, y3, x4, y4 = work[11, lane] * z, work[12, lane] * z, work[13, lane] * z, work[14, lane] * z
        log_z = positive_log(work[6, lane] * weight)
        work[0, lane] = log_z
        work[1, lane] = 1.0 - math.sqrt(x1 * x1 + y1 * y1)
        work[2, lane] = log_z - (p * x1 + q * y1 + second * x2)
        work[3, lane] = p + second - log_z
        work[4, lane], work[5, lane] = cos, sin
        y1, y2, y3, y4 = sign * y1, sign * y2, sign * y3, sign * y4
        c2, s2 = cos * cos - sin * sin, 2.0 * cos * sin
        c3, s3 = c2 * cos - s2 * sin, s2 * cos + c2 * sin
        c4, s4 = c2 * c2 - s2 * s2, 2.0 * c2 * s2
        work[7, lane], work[8, lane] = cos * x1 - sin * y1, sin * x1 + cos * y1
        work[9, lane], work[10, lane] = c2 * x2 - s2 * y2, s2 * x2 + c2 * y2
        work[11, lane], work[12, lane] = c3 * x3 - s3 * y3, s3 * x3 + c3 * y3
        work[13, lane], work[14, lane] = c4 * x4 - s4 * y4, s4 * x4 + c4 * y4
