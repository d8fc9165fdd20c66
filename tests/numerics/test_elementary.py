"""The vectorised exponential, sine and cosine against NumPy over their whole domains."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from mgvm._numerics.exponential import bounded_exp, exp_pair, positive_log
from mgvm._numerics.trigonometry import LARGEST, sin_cos


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
        [np.linspace(-700, 700, 40 * many + 1), [0.0, 1e-300, -1e-20], np.log(2) * (np.arange(-9, 9) + 0.5)]
    )
    up, down, alone = exponentials(x)
    assert np.abs(up / np.exp(x) - 1).max() < 5e-16
    assert np.abs(down / np.exp(-x) - 1).max() < 5e-16
    assert (alone == up).all()


def test_logarithm(many):
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [np.exp(rng.uniform(-700, 700, 20 * many)), rng.uniform(0.5, 2, 20 * many), [1.0, 2.0, np.sqrt(2)]]
    )
    assert np.abs(logarithms(x) - np.log(x)).max() < 2e-13
    near = rng.uniform(0.5, 2, 20 * many)
    assert np.abs(logarithms(near) - np.log(near)).max() < 3e-16


def test_fast_math_of_a_caller_does_not_reach_the_exponential():
    x = np.linspace(-5, 5, 101)
    assert exponential_in_a_fast_loop(x) == pytest.approx(np.exp(x).sum(), rel=1e-14)


def test_sine_and_cosine(many):
    rng = np.random.default_rng(0)
    quarter_turns = np.arange(-40, 41) * (np.pi / 2)
    x = np.concatenate([rng.uniform(-LARGEST, LARGEST, 20 * many), rng.uniform(-7, 7, 20 * many), quarter_turns])
    sine, cosine = sines(x)
    assert np.abs(sine - np.sin(x)).max() < 3e-16
    assert np.abs(cosine - np.cos(x)).max() < 3e-16
    tiny = 10 ** rng.uniform(-300, -1, 5 * many)
    assert np.abs(sines(tiny)[0] / np.sin(tiny) - 1).max() < 3e-16
