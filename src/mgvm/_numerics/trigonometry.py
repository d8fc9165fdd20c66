"""Sine and cosine for compiled loops: branch-free, so that LLVM turns them into vector instructions.

x = k π/2 + r with |r| <= π/4, π/2 taken off in three parts; sine and cosine of r by Taylor polynomials of degree 15 and
16, whose remainders at π/4 are below 1e-16; the quadrant swaps and signs them.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import inner

LARGEST = 1e5  # of |x|: up to here k fits the exact products below
_TWO_OVER_PI = 2.0 / math.pi
# π/2 in three parts of 33 bits and the rest (Cody & Waite): k times the first two is exact for |k| < 2^20.
_PI_1 = 1.57079632673412561417e00
_PI_2 = 6.07710050630396597660e-11
_PI_3 = 2.02226624879595063154e-21
_S3, _S5, _S7, _S9, _S11, _S13, _S15 = ((-1) ** (n // 2) / math.factorial(n) for n in range(3, 16, 2))
_C2, _C4, _C6, _C8, _C10, _C12, _C14, _C16 = ((-1) ** (n // 2) / math.factorial(n) for n in range(2, 17, 2))
_ROUND = 6755399441055744.0
_ONE = np.int64(1)
_TWO = np.int64(2)


@inner(forceinline=True, fastmath={"contract"})
def sin_cos(x: float) -> tuple[float, float]:
    """sin x and cos x for |x| <= LARGEST, to about a unit in the last place."""
    rounded = np.float64(x * _TWO_OVER_PI + _ROUND)
    k = rounded - _ROUND
    r = ((x - k * _PI_1) - k * _PI_2) - k * _PI_3
    r2 = r * r
    sine = _S13 + r2 * _S15
    sine = _S7 + r2 * (_S9 + r2 * (_S11 + r2 * sine))
    sine = r + r * (r2 * (_S3 + r2 * (_S5 + r2 * sine)))
    cosine = _C14 + r2 * _C16
    cosine = _C8 + r2 * (_C10 + r2 * (_C12 + r2 * cosine))
    cosine = 1.0 + r2 * (_C2 + r2 * (_C4 + r2 * (_C6 + r2 * cosine)))
    quadrant = rounded.view(np.int64)
    odd = (quadrant & _ONE) != 0
    first, second = (cosine, sine) if odd else (sine, cosine)
    return (-first if (quadrant & _TWO) != 0 else first), (-second if ((quadrant + _ONE) & _TWO) != 0 else second)
