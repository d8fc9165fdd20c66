"""How functions are compiled, in one place.

Compiled code is kept on disk. `entry` is for what Python calls, `inner` for what only compiled code calls: without the
wrappers that Python would need it compiles in about two thirds of the time (and crashes the interpreter if called from
it: tests reach such a function through one of their own). Division follows NumPy (no exception), so
that loops vectorise. Fast-math flags are given flag by flag; a callee without any inherits its caller's.

exp and log for compiled loops: branch-free, so that LLVM turns them into vector instructions.

x = k log 2 + r with |r| <= log(2)/2, and e^{±r} = cosh r ± sinh r by two short polynomials in r²; 2^{±k} is written
straight into the exponent bits.

The fast-math flag of each function is spelt out: a callee without one inherits its caller's, and "reassoc" would
cancel the rounding trick.

Sine and cosine for compiled loops: branch-free, so that LLVM turns them into vector instructions.

x = k π/2 + r with |r| <= π/4, π/2 taken off in three parts; sine and cosine of r by Taylor polynomials of degree 15 and
16, whose remainders at π/4 are below 1e-16; the quadrant swaps and signs them.

Mills' ratio for compiled loops: branch-free, so that LLVM turns it into vector instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

_WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def entry(**flags: Any) -> Callable[[_Function], _Function]:
    """Compile a function that Python calls."""
    return njit(cache=True, error_model="numpy", **flags)


def inner(**flags: Any) -> Callable[[_Function], _Function]:
    """Compile a function that only compiled code calls."""
    return njit(cache=True, error_model="numpy", **_WITHOUT_WRAPPERS, **flags)


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


LARGEST = 1e5  # of |x|: up to here k fits the exact products below
_TWO_OVER_PI = 2.0 / math.pi
# π/2 in three parts of 33 bits and the rest (Cody & Waite): k times the first two is exact for |k| < 2^20.
_PI_1 = 1.57079632673412561417e00
_PI_2 = 6.07710050630396597660e-11
_PI_3 = 2.02226624879595063154e-21
_S3_TRIGONOMETRY, _S5_TRIGONOMETRY, _S7_TRIGONOMETRY, _S9_TRIGONOMETRY, _S11_TRIGONOMETRY, _S13, _S15 = (
    (-1) ** (n // 2) / math.factorial(n) for n in range(3, 16, 2)
)
_C2_TRIGONOMETRY, _C4_TRIGONOMETRY, _C6_TRIGONOMETRY, _C8_TRIGONOMETRY, _C10_TRIGONOMETRY, _C12, _C14, _C16 = (
    (-1) ** (n // 2) / math.factorial(n) for n in range(2, 17, 2)
)
_ONE_TRIGONOMETRY = np.int64(1)
_TWO = np.int64(2)


@inner(forceinline=True, fastmath={"contract"})
def sin_cos(x: float) -> tuple[float, float]:
    """sin x and cos x for |x| <= LARGEST, to about a unit in the last place."""
    rounded = np.float64(x * _TWO_OVER_PI + _ROUND)
    k = rounded - _ROUND
    r = ((x - k * _PI_1) - k * _PI_2) - k * _PI_3
    r2 = r * r
    sine = _S13 + r2 * _S15
    sine = _S7_TRIGONOMETRY + r2 * (_S9_TRIGONOMETRY + r2 * (_S11_TRIGONOMETRY + r2 * sine))
    sine = r + r * (r2 * (_S3_TRIGONOMETRY + r2 * (_S5_TRIGONOMETRY + r2 * sine)))
    cosine = _C14 + r2 * _C16
    cosine = _C8_TRIGONOMETRY + r2 * (_C10_TRIGONOMETRY + r2 * (_C12 + r2 * cosine))
    cosine = 1.0 + r2 * (_C2_TRIGONOMETRY + r2 * (_C4_TRIGONOMETRY + r2 * (_C6_TRIGONOMETRY + r2 * cosine)))
    quadrant = rounded.view(np.int64)
    odd = (quadrant & _ONE_TRIGONOMETRY) != 0
    first, second = (cosine, sine) if odd else (sine, cosine)
    return (-first if (quadrant & _TWO) != 0 else first), (
        -second if ((quadrant + _ONE_TRIGONOMETRY) & _TWO) != 0 else second
    )


# mpmath.chebyfit of (1 + u) m(u) in t = (u - 5)/(u + 5) on [-1, 1], by powers of t: error 2.7e-17.
_C0, _C1, _C2_MILLS, _C3 = 1.1568486282918946, -0.2294875382521129, 0.07778159886873764, 0.02507217930161715
_C4_MILLS, _C5, _C6_MILLS, _C7 = -0.06617760077909461, 0.06150504584074597, -0.03802659218586716, 0.016348231274349995
_C8_MILLS, _C9, _C10_MILLS, _C11 = (
    -0.0042012903289861386,
    1.9530682704042314e-05,
    0.00045704392266072,
    -0.00013437445842160464,
)
_C12_MILLS, _C13, _C14_MILLS = -2.4805835828998953e-05, 2.2710081536644496e-05, -1.7633721137504215e-07
_C15, _C16_MILLS, _C17 = -3.2780889332747656e-06, 3.2054886338682205e-07, 4.92889412763629e-07
_C18, _C19, _C20 = -6.589393318333421e-08, -7.821049220473805e-08, 9.094218432472913e-09
_C21, _C22, _C23 = 1.1281645525139734e-08, -7.077031841982677e-10, -9.99802240829343e-10


@inner(forceinline=True, fastmath={"contract"})
def mills_ratio(u: float) -> float:
    """m(u) = ∫₀^∞ exp(-ut - t²/2) dt = √(2π) e^{u²/2} Φ(-u) for u >= 0, to a few units in the last place."""
    t = (u - 5.0) / (u + 5.0)
    t2 = t * t
    even = _C14_MILLS + t2 * (_C16_MILLS + t2 * (_C18 + t2 * (_C20 + t2 * _C22)))
    even = _C6_MILLS + t2 * (_C8_MILLS + t2 * (_C10_MILLS + t2 * (_C12_MILLS + t2 * even)))
    even = _C0 + t2 * (_C2_MILLS + t2 * (_C4_MILLS + t2 * even))
    odd = _C15 + t2 * (_C17 + t2 * (_C19 + t2 * (_C21 + t2 * _C23)))
    odd = _C7 + t2 * (_C9 + t2 * (_C11 + t2 * (_C13 + t2 * odd)))
    odd = _C1 + t2 * (_C3 + t2 * (_C5 + t2 * odd))
    return (even + t * odd) / (1.0 + u)
