"""How functions are compiled, and exp, log, sine, cosine and Mills' ratio for compiled loops.

`entry` is for what Python calls: it is compiled when it is first called, and the compiler is not imported before. It is
kept on disk with all that it contains. `inner` is for what only compiled code calls: without the wrappers that Python
would need it compiles in about two thirds of the time; called from Python it runs as plain Python. Division follows
NumPy (no exception), so that loops vectorise. Fast-math flags are given flag by flag; a callee without any inherits
its caller's.

What a first call waits for is the number of functions and of types more than the number of lines. An entry has one
signature: arrays of one type each, contiguous and writable (`np.require` where that is not sure). Two processes that
compile it at once then write the same file. Arrays are made by NumPy and handed in; np.zeros, np.max and the like are
compiled as often as they are met, an array assigned to a slice takes 2 s.

The elementary functions are free of branches, so that LLVM turns loops over them into vector instructions. Their flags
are spelt out: an inherited "reassoc" would cancel the trick that rounds. Coefficients stand in tuples, which the
compiler takes for constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any, TypeVar, cast

import numpy as np

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Compiled:
    """A function that is compiled on first use, by Python or by compiled code."""

    def __init__(self, function: Callable[..., Any], flags: dict[str, Any]):
        update_wrapper(cast(Any, self), function)
        self._function, self._flags = function, flags

    def _compile(self, **flags: Any) -> Any:
        from numba import njit

        flags = {"error_model": "numpy", "no_cfunc_wrapper": True, **self._flags, **flags}
        return cast(Any, njit)(**flags)(self._function)

    @cached_property
    def _dispatcher(self) -> Any:
        return self._compile()

    @property
    def _numba_type_(self) -> Any:
        """What the compiler asks of a name that it does not know: here, which of its functions that is."""
        return self._dispatcher._numba_type_


class _Entry(_Compiled):
    """Kept on disk where that can be done: a full disk or a home that is read only costs time, no result."""

    @cached_property
    def _dispatcher(self) -> Any:
        try:
            return self._compile(cache=True)
        except RuntimeError:  # there is no folder that can be written to
            return self._compile()

    def __call__(self, *args: Any) -> Any:
        try:
            return self._dispatcher(*args)
        except OSError:  # of the files of compiled code, for loops have no others
            if not self._dispatcher.signatures:
                self._dispatcher = self._compile()
            return self._dispatcher(*args)


class _Inner(_Compiled):
    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


def entry(**flags: Any) -> Callable[[_Function], _Function]:
    """Compile a function that Python calls."""
    return cast(Any, partial(_Entry, flags=flags))


def inner(**flags: Any) -> Callable[[_Function], _Function]:
    """Compile a function that only compiled code calls."""
    return cast(Any, partial(_Inner, flags={"no_cpython_wrapper": True, **flags}))


def plain(function: _Function) -> _Function:
    """The same function as Python runs it, for work too small to compile for."""
    return cast(Any, function).__wrapped__


# Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits of the significand.
_ROUND = 6755399441055744.0
# log 2 in two parts: k times the first is exact for |k| < 2^11.
_LOG_TWO = (6.93147180369123816490e-01, 1.90821492927058770002e-10)

# ---- exp ------------------------------------------------------------------------------------------------------------

# mpmath.chebyfit of (cosh r - 1)/r² and (sinh r - r)/r³ in r² on [0, (log 2)²/4]: errors 1.2e-17 and 1e-18.
_COSH = (
    0.5000000000000001,
    0.041666666666624164,
    0.0013888888917196719,
    2.4801521322368692e-05,
    2.7620075879983367e-07,
)
_SINH = (
    0.16666666666666669,
    0.008333333333330065,
    0.00019841269863040545,
    2.7557268480310024e-06,
    2.5100375832561234e-08,
)


@inner(forceinline=True, fastmath={"contract"})
def exp_pair(x: float) -> tuple[float, float]:
    """exp(x) and exp(-x) for |x| <= 700, for little more than the price of one.

    x = k log 2 + r with |r| <= log(2)/2, and e^{±r} = cosh r ± sinh r by two short polynomials in r²; 2^{±k} is written
    straight into the exponent bits.
    """
    a, b = _COSH, _SINH
    rounded = np.float64(x * (1.0 / math.log(2.0)) + _ROUND)
    k = rounded - _ROUND
    r = (x - k * _LOG_TWO[0]) - k * _LOG_TWO[1]
    r2 = r * r
    cosh = 1.0 + r2 * (a[0] + r2 * (a[1] + r2 * (a[2] + r2 * (a[3] + r2 * a[4]))))
    sinh = r + r * (r2 * (b[0] + r2 * (b[1] + r2 * (b[2] + r2 * (b[3] + r2 * b[4])))))
    bits = rounded.view(np.int64)
    bias, shift = np.int64(1023), np.int64(52)
    up = np.int64((bits + bias) << shift).view(np.float64)
    down = np.int64((bias - bits) << shift).view(np.float64)
    return (cosh + sinh) * up, (cosh - sinh) * down


@inner(forceinline=True, fastmath={"contract"})
def bounded_exp(x: float) -> float:
    """exp(x) for |x| <= 700."""
    return exp_pair(x)[0]


# ---- log ------------------------------------------------------------------------------------------------------------

# 2 atanh(s) = 2s + s³ (2/3 + 2/5 s² + ... + 2/21 s^18)
_ATANH = tuple(2.0 / n for n in range(3, 22, 2))


@inner(forceinline=True, fastmath={"contract"})
def positive_log(x: float) -> float:
    """log(x) for normal x > 0: x = 2^k m with m in (√½, √2], and log m = 2 atanh(s), s = (m - 1)/(m + 1) <= 0.172."""
    a = _ATANH
    # Unsigned, for AVX2 has no arithmetic shift of 64-bit integers: the exponent bits below those of 2^52 are k + 1023.
    bits = np.float64(x).view(np.uint64)
    two_52 = np.uint64(0x4330000000000000)
    k = np.uint64((bits >> np.uint64(52)) | two_52).view(np.float64) - (4503599627370496.0 + 1023.0)
    m = np.uint64((bits & np.uint64(0x000FFFFFFFFFFFFF)) | np.uint64(0x3FF0000000000000)).view(np.float64)
    k += 1.0 if m > math.sqrt(2.0) else 0.0
    m *= 0.5 if m > math.sqrt(2.0) else 1.0
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    tail = a[5] + s2 * (a[6] + s2 * (a[7] + s2 * (a[8] + s2 * a[9])))
    tail = s2 * (a[0] + s2 * (a[1] + s2 * (a[2] + s2 * (a[3] + s2 * (a[4] + s2 * tail)))))
    return k * _LOG_TWO[0] + (k * _LOG_TWO[1] + (s * tail + 2.0 * s))


# ---- sine and cosine ------------------------------------------------------------------------------------------------

LARGEST = 1e5  # of |x|, radians: up to here the products with the parts of π/2 are exact
# π/2 in three parts of 33 bits and the rest (Cody & Waite): k times the first two is exact for |k| < 2^20.
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
_SINE = tuple((-1) ** (n // 2) / math.factorial(n) for n in range(3, 16, 2))
_COSINE = tuple((-1) ** (n // 2) / math.factorial(n) for n in range(2, 17, 2))


@inner(forceinline=True, fastmath={"contract"})
def sin_cos(x: float) -> tuple[float, float]:
    """sin x and cos x for |x| <= LARGEST, to about a unit in the last place.

    x = k π/2 + r with |r| <= π/4; sine and cosine of r by Taylor polynomials of degree 15 and 16, whose remainders at
    π/4 are below 1e-16; the quadrant swaps and signs them.
    """
    a, b = _SINE, _COSINE
    rounded = np.float64(x * (2.0 / math.pi) + _ROUND)
    k = rounded - _ROUND
    r = ((x - k * _HALF_PI[0]) - k * _HALF_PI[1]) - k * _HALF_PI[2]
    r2 = r * r
    sine = a[5] + r2 * a[6]
    sine = a[2] + r2 * (a[3] + r2 * (a[4] + r2 * sine))
    sine = r + r * (r2 * (a[0] + r2 * (a[1] + r2 * sine)))
    cosine = b[6] + r2 * b[7]
    cosine = b[3] + r2 * (b[4] + r2 * (b[5] + r2 * cosine))
    cosine = 1.0 + r2 * (b[0] + r2 * (b[1] + r2 * (b[2] + r2 * cosine)))
    quadrant = rounded.view(np.int64)
    one, two = np.int64(1), np.int64(2)
    odd = (quadrant & one) != 0
    first, second = (cosine, sine) if odd else (sine, cosine)
    return (-first if (quadrant & two) != 0 else first), (-second if ((quadrant + one) & two) != 0 else second)


# ---- Mills' ratio ---------------------------------------------------------------------------------------------------

# mpmath.chebyfit of (1 + u) m(u) in t = (u - 5)/(u + 5) on [-1, 1], by powers of t: error 2.7e-17.
_MILLS = (
    1.1568486282918946,
    -0.2294875382521129,
    0.07778159886873764,
    0.02507217930161715,
    -0.06617760077909461,
    0.06150504584074597,
    -0.03802659218586716,
    0.016348231274349995,
    -0.0042012903289861386,
    1.9530682704042314e-05,
    0.00045704392266072,
    -0.00013437445842160464,
    -2.4805835828998953e-05,
    2.2710081536644496e-05,
    -1.7633721137504215e-07,
    -3.2780889332747656e-06,
    3.2054886338682205e-07,
    4.92889412763629e-07,
    -6.589393318333421e-08,
    -7.821049220473805e-08,
    9.094218432472913e-09,
    1.1281645525139734e-08,
    -7.077031841982677e-10,
    -9.99802240829343e-10,
)


@inner(forceinline=True, fastmath={"contract"})
def mills_ratio(u: float) -> float:
    """m(u) = ∫₀^∞ exp(-ut - t²/2) dt = √(2π) e^{u²/2} Φ(-u) for u >= 0, to a few units in the last place."""
    c = _MILLS
    t = (u - 5.0) / (u + 5.0)
    t2 = t * t
    even = c[14] + t2 * (c[16] + t2 * (c[18] + t2 * (c[20] + t2 * c[22])))
    even = c[6] + t2 * (c[8] + t2 * (c[10] + t2 * (c[12] + t2 * even)))
    even = c[0] + t2 * (c[2] + t2 * (c[4] + t2 * even))
    odd = c[15] + t2 * (c[17] + t2 * (c[19] + t2 * (c[21] + t2 * c[23])))
    odd = c[7] + t2 * (c[9] + t2 * (c[11] + t2 * (c[13] + t2 * odd)))
    odd = c[1] + t2 * (c[3] + t2 * (c[5] + t2 * odd))
    return (even + t * odd) / (1.0 + u)
