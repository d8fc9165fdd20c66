"""Elementary functions with the same last bit on every machine, for the parameters of tests and for references.

NumPy picks its loops for cos, exp, powers and the like, and for products of complex numbers, by what the CPU can do,
and so do the C library behind `math` and the linear algebra behind `@`: their last bits differ. mpmath works with
integers.
Sums, products, quotients, squares and square roots of real numbers are correctly rounded everywhere. CONTRIBUTING.md
lists what else was found to have the same bits.
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


def periodic_grid(count):
    """Nodes -π + 2πj/count."""
    return -np.pi + 2.0 * np.pi / count * np.arange(count)


def angle(x, y):
    """The angle of the point (x, y)."""
    x, y = np.broadcast_arrays(x, y)
    with mp.workprec(53):
        pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        return np.array([float(mp.atan2(b, a)) for a, b in pairs]).reshape(x.shape)


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


def rotation(x):
    """The matrix that turns the plane by an angle."""
    c, s = float(cos(x)), float(sin(x))
    return np.array([[c, -s], [s, c]])


def product(left, right):
    """left @ right, the sums in the order of the columns."""
    return np.einsum("ij,jk->ik", left, right)


def inverse(matrix):
    """The inverse of a positive definite matrix, by elimination without pivots."""
    size = len(matrix)
    table = np.concatenate([np.array(matrix, dtype=float), np.eye(size)], axis=1)
    for k in range(size):
        table[k] /= table[k, k]
        others = np.arange(size) != k
        table[others] -= table[others, k, None] * table[k]
    return table[:, size:]


def cholesky(matrix):
    """The lower triangle L of LLᵀ."""
    rest, lower = np.array(matrix, dtype=float), np.zeros(np.shape(matrix))
    for k in range(len(rest)):
        lower[k:, k] = rest[k:, k] / np.sqrt(rest[k, k])
        rest[k:, k:] -= lower[k:, k, None] * lower[k:, k]
    return lower


def von_mises_draws(rng, mu, kappa, shape):
    """Draws by Best and Fisher's rejection, which takes the uniforms that NumPy's own takes; about 0.1 ms each."""
    with mp.workprec(53):
        r = 1 + mp.sqrt(1 + 4 * mp.mpf(kappa) ** 2)
        rho = (r - mp.sqrt(2 * r)) / (2 * mp.mpf(kappa))
        s = (1 + rho**2) / (2 * rho)

        def draw():
            while True:
                z = mp.cos(mp.pi * rng.random())
                w = (1 + s * z) / (s + z)
                y, v = kappa * (s - w), rng.random()
                if y * (2 - y) >= v or mp.log(y / v) + 1 >= y:
                    return float(mp.acos(w) if rng.random() >= 0.5 else -mp.acos(w))

        draws = np.array([draw() for _ in range(int(np.prod(shape)))]).reshape(shape)
    return (mu + draws + np.pi) % (2 * np.pi) - np.pi


def errors(found, function, x):
    """found - function(x), the function of mpmath with 40 digits: the reference adds no rounding of its own."""
    with mp.workdps(40):
        pairs = zip(np.ravel(found).tolist(), np.ravel(x).tolist(), strict=True)
        return np.array([float(mp.mpf(value) - function(mp.mpf(place))) for value, place in pairs])
