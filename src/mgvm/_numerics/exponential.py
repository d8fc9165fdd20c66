"""exp and log for compiled loops: branch-free, so that LLVM turns them into vector instructions.

x = k log 2 + r with |r| <= log(2)/2, and e^{±r} = cosh r ± sinh r by two short polynomials in r²; 2^{±k} is written
straight into the exponent bits.

The fast-math flag of each function is spelt out: a callee without one inherits its caller's, and "reassoc" would
cancel the rounding trick.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import inner

_LOG2_E = 1.0 / math.log(2.0)
# log 2 in two parts: k * _LOG2_HIGH is exact for |k| < 2^11.
_LOG2_HIGH = 6.93147180369123816490e-01
_LOG2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits of the significand.
_ROUND = 6755399441055744.0
_ONE = np.int64(1023)
_SHIFT = np.int64(52)
# mpmath.chebyfit of (cosh r - 1)/r² and (sinh r - r)/r³ in r² on [0, (log 2)²/4]: errors 1.2e-17 and 1e-18.
_C2, _C4, _C6 = 0.5000000000000001, 0.041666666666624164, 0.0013888888917196719
_C8, _C10 = 2.4801521322368692e-05, 2.7620075879983367e-07
_S3, _S5, _S7 = 0.16666666666666669, 0.008333333333330065, 0.00019841269863040545
_S9, _S11 = 2.7557268480310024e-06, 2.5100375832561234e-08


@inner(forceinline=True, fastmath={"contract"})
def exp_pair(x: float) -> tuple[float, float]:
    """exp(x) and exp(-x) for |x| <= 700, for little more than the price of one."""
    rounded = np.float64(x * _LOG2_E + _ROUND)
    k = rounded - _ROUND
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    r2 = r * r
    cosh = 1.0 + r2 * (_C2 + r2 * (_C4 + r2 * (_C6 + r2 * (_C8 + r2 * _C10))))
    sinh = r + r * (r2 * (_S3 + r2 * (_S5 + r2 * (_S7 + r2 * (_S9 + r2 * _S11)))))
    bits = rounded.view(np.int64)
    up = np.int64((bits + _ONE) << _SHIFT).view(np.float64)
    down = np.int64((_ONE - bits) << _SHIFT).view(np.float64)
    return (cosh + sinh) * up, (cosh - sinh) * down


@inner(forceinline=True, fastmath={"contract"})
def bounded_exp(x: float) -> float:
    """exp(x) for |x| <= 700."""
    return exp_pair(x)[0]


# Unsigned, for AVX2 has no arithmetic shift of 64-bit integers.
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_BITS_OF_ONE = np.uint64(0x3FF0000000000000)
_BITS_OF_TWO_52 = np.uint64(0x4330000000000000)
_UNSIGNED_SHIFT = np.uint64(52)
_TWO_52 = 4503599627370496.0
_ROOT_TWO = math.sqrt(2.0)
_L3, _L5, _L7, _L9, _L11, _L13, _L15, _L17, _L19, _L21 = (2.0 / n for n in range(3, 22, 2))


@inner(forceinline=True, fastmath={"contract"})
def positive_log(x: float) -> float:
    """log(x) for normal x > 0: x = 2^k m with m in (√½, √2], and log m = 2 atanh(s), s = (m - 1)/(m + 1) <= 0.172."""
    bits = np.float64(x).view(np.uint64)
    k = np.uint64((bits >> _UNSIGNED_SHIFT) | _BITS_OF_TWO_52).view(np.float64) - (_TWO_52 + 1023.0)
    m = np.uint64((bits & _MANTISSA) | _BITS_OF_ONE).view(np.float64)
    k += 1.0 if m > _ROOT_TWO else 0.0
    m *= 0.5 if m > _ROOT_TWO else 1.0
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    tail = _L13 + s2 * (_L15 + s2 * (_L17 + s2 * (_L19 + s2 * _L21)))
    tail = s2 * (_L3 + s2 * (_L5 + s2 * (_L7 + s2 * (_L9 + s2 * (_L11 + s2 * tail)))))
    return k * _LOG2_HIGH + (k * _LOG2_LOW + (s * tail + 2.0 * s))
