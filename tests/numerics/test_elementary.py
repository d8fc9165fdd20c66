"""The vectorised exponential, logarithm, sine and cosine against mpmath over their whole domains.

Not against NumPy, whose loops for AVX-512 are themselves off by more than half a unit in the last place.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import portable
import pytest
from numba import njit

from mgvm._numerics.elementary import LARGEST, bounded_exp, exp_pair, positive_log, sin_cos


@njit
def exponentials(x):
    out = np.empty((3, x.size))
    for i in range(x.size):
        out[0, i], out[1, i] = exp_pair(x[i])
        out[2, i] = bounded_exp(x[i])
    return out


@njit
def logarithms(x):
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = positive_log(x[i])
    return out


@njit
def sines(x):
    out = np.empty((2, x.size))
    for i in range(x.size):
        out[0, i], out[1, i] = sin_cos(x[i])
    return out


@njit(fastmath=True)
def exponential_in_a_fast_loop(x):
    total = 0.0
    for i in range(x.size):
        total += bounded_exp(x[i])
    return total


def test_exponential(many):
    x = np.concatenate(
        [np.linspace(-700, 700, 20 * many + 1), [0.0, 1e-300, -1e-20], 0.6931471805599453 * (np.arange(-9, 9) + 0.5)]
    )
    up, down, alone = exponentials(x)
    # With u = 2^-53 the roundings of cosh r >= 1, sinh r < 0.36 and their sum v are u, u/4 and u/2 (u where v >= 1); r
    # is off by u/4: relative to v >= √½ at most (7/4)/√½ u + u/4 = 2.7 u. Twice that.
    bound = 5.5 * 2.0**-53
    assert np.abs(portable.errors(up, mp.exp, x) / up).max() < bound
    assert np.abs(portable.errors(down, mp.exp, -x) / down).max() < bound
    assert (alone == up).all()


def test_logarithm(many):
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [portable.exp(rng.uniform(-700, 700, 20 * many)), rng.uniform(0.5, 2, 20 * many), [1.0, 2.0, np.sqrt(2)]]
    )
    assert np.abs(portable.errors(logarithms(x), mp.log, x)).max() < 2e-13
    near = rng.uniform(0.5, 2, 20 * many)
    assert np.abs(portable.errors(logarithms(near), mp.log, near)).max() < 3e-16


def test_fast_math_of_a_caller_does_not_reach_the_exponential():
    x = np.linspace(-5, 5, 101)
    assert exponential_in_a_fast_loop(x) == pytest.approx(np.exp(x).sum(), rel=1e-14)


def test_sine_and_cosine(many):
    rng = np.random.default_rng(0)
    quarter_turns = np.arange(-40, 41) * (np.pi / 2)
    x = np.concatenate([rng.uniform(-LARGEST, LARGEST, 20 * many), rng.uniform(-7, 7, 20 * many), quarter_turns])
    sine, cosine = sines(x)
    # With u = 2^-53: two roundings of r <= π/4 by u/2 each, one of the result by u/2, and those of the terms that are
    # added to r (together below 0.13) or to 1 (below 0.3, of which r² brings 0.3 u) by u/4: at most 1.8 u. Twice that.
    bound = 3.6 * 2.0**-53
    assert np.abs(portable.errors(sine, mp.sin, x)).max() < bound
    assert np.abs(portable.errors(cosine, mp.cos, x)).max() < bound
    tiny = portable.power_of_ten(rng.uniform(-300, -1, 5 * many))
    assert np.abs(portable.errors(sines(tiny)[0], mp.sin, tiny) / tiny).max() < 3e-16
