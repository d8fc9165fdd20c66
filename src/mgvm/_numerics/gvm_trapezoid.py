"""The periodic trapezoid rule for a GvM of order 2 at low concentration, many laws at a time.

In the frame of `gvm_frame` the four nodes φ, -φ, π - φ, π + φ share their exponentials:
e^{κ₂ cos 2φ} e^{±p cos φ} e^{±q sin φ}. Their sums are products of cosh and sinh, so four nodes cost three exponentials
and each moment one multiplication. The inner loop runs over laws, where LLVM vectorises it without reordering a sum.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import inner
from mgvm._numerics.exponential import bounded_exp, exp_pair

HIGHEST = 400.0  # total concentration up to which the rule is used
_QUARTERS = 48  # most nodes in a quadrant


def _node_table() -> np.ndarray:
    """cos kφ and sin kφ, k = 1..4, at midpoints of m cells of a quadrant, m = 1.._QUARTERS one below another."""
    angles = [0.5 * np.pi * (np.arange(m) + 0.5) / m for m in range(1, _QUARTERS + 1)]
    phi = np.concatenate(angles)
    return np.stack([wave(k * phi) for k in range(1, 5) for wave in (np.cos, np.sin)], axis=1)


_TABLE = _node_table()


@inner()
def quadrant_nodes(total: float) -> int:
    """Nodes a quadrant, even: 17 + 7.5 √K in all, K the total concentration, keep moments 0..4 at rounding."""
    return 2 * math.ceil(0.125 * (17.0 + 7.5 * math.sqrt(total)))


@inner(forceinline=True)
def _table_row(j: int) -> tuple[float, float, float, float, float, float, float, float]:
    row = _TABLE
    return row[j, 0], row[j, 1], row[j, 2], row[j, 3], row[j, 4], row[j, 5], row[j, 6], row[j, 7]


@inner(forceinline=True, fastmath={"contract"})
def _four_nodes(p: float, q: float, even: float) -> tuple[float, float, float, float]:
    """Sums of exp(even ± p ± q) over the four signs with the signs (++), (p), (q), (pq)."""
    common = bounded_exp(even)
    up, down = exp_pair(p)
    left, right = exp_pair(q)
    even_p, odd_p = common * (up + down), common * (up - down)
    even_q, odd_q = left + right, left - right
    return even_p * even_q, odd_p * even_q, even_p * odd_q, odd_p * odd_q


@inner(fastmath={"contract"})
def trapezoid_sums(work: np.ndarray, m: int, lanes: int) -> None:
    """Rows 0..2 of `work` hold p, q, κ₂ of each lane; rows 6..14 get 2m/π times Z, Re m₁, Im m₁, ..., Im m₄.

    Two nodes of the quadrant a turn of the loop halve the traffic of the sums.
    """
    first = m * (m - 1) // 2
    for row in range(6, 16):
        for lane in range(lanes):
            work[row, lane] = 0.0
    for i in range(first, first + m, 2):
        j = i + 1
        c1, s1, c2, s2, c3, s3, c4, s4 = _table_row(i)
        e1, r1, e2, r2, e3, r3, e4, r4 = _table_row(j)
        for lane in range(lanes):
            p, q, second = work[0, lane], work[1, lane], work[2, lane]
            z, x, y, xy = _four_nodes(p * c1, q * s1, second * c2)
            b, f, g, fg = _four_nodes(p * e1, q * r1, second * e2)
            work[6, lane] += z + b
            work[7, lane] += x * c1 + f * e1
            work[8, lane] += y * s1 + g * r1
            work[9, lane] += z * c2 + b * e2
            work[10, lane] += xy * s2 + fg * r2
            work[11, lane] += x * c3 + f * e3
            work[12, lane] += y * s3 + g * r3
            work[13, lane] += z * c4 + b * e4
            work[14, lane] += xy * s4 + fg * r4
