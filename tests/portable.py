"""Elementary functions with the same last bit on every machine, for the parameters of tests and for references.

NumPy picks its loops for cos, exp and the like, and for products of complex numbers, by what the CPU can do, and so
does the C library behind `math`: their last bits differ. mpmath works with integers. Sums, products, quotients and
square roots of real numbers are correctly rounded everywhere, and NumPy's uniform draws are the same.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np


def _each(function):
    def of_array(x):
        x = np.asarray(x, dtype=float)
        with mp.workprec(53):
            return np.array([float(function(mp.mpf(value))) for value in x.ravel().tolist()]).reshape(x.shape)

    return of_array


cos, sin, tan, exp, log = (_each(function) for function in (mp.cos, mp.sin, mp.tan, mp.exp, mp.log))


def power_of_ten(exponent):
    """10^x."""
    return _each(lambda x: mp.power(10, x))(exponent)


def spaced(low, high, count):
    """`count` numbers of equal ratio from low to high."""
    with mp.workprec(53):
        step = mp.log(mp.mpf(high) / low) / (count - 1)
        return np.array([float(low * mp.exp(k * step)) for k in range(count - 1)] + [float(high)])


def complex_of(real, imag):
    """real + i imag, without a product."""
    real, imag = np.broadcast_arrays(real, imag)
    out = np.empty(real.shape, dtype=complex)
    out.real, out.imag = real, imag
    return out[()]  # a number where they were numbers


def polar(radius, angle):
    """r e^{ix}."""
    return complex_of(radius * cos(angle), radius * sin(angle))


def turned(point, angle):
    """z e^{ix}."""
    c, s = cos(angle), sin(angle)
    return complex_of(point.real * c - point.imag * s, point.real * s + point.imag * c)


def errors(found, function, x):
    """found - function(x), the function of mpmath with 40 digits: the reference adds no rounding of its own."""
    with mp.workdps(40):
        pairs = zip(np.ravel(found).tolist(), np.ravel(x).tolist(), strict=True)
        return np.array([float(mp.mpf(value) - function(mp.mpf(place))) for value, place in pairs])
