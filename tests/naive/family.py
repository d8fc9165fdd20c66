"""The mGvM as an exponential family, θ·T(φ), written out entry by entry: the order of the numbers in θ and in T.

Re and Im of a_d, then of b_td for t = 2, 3, ..., then of P_ij, then of Q_ij, both for i < j row by row.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np


class Parameters(NamedTuple):
    """a (D,), b (T - 1, D), P Hermitian and Q symmetric (D, D)."""

    a: np.ndarray
    b: np.ndarray
    P: np.ndarray
    Q: np.ndarray


def unpack(theta, dimension, order):
    """Parameters from the vector θ."""
    numbers = iter(complex(real, imag) for real, imag in zip(theta[0::2], theta[1::2], strict=True))
    harmonics = np.array([[next(numbers) for _ in range(dimension)] for _ in range(order)])
    P, Q = np.zeros((2, dimension, dimension), dtype=complex)
    for i, j in itertools.combinations(range(dimension), 2):
        P[i, j] = next(numbers)
        P[j, i] = P[i, j].conjugate()
    for i, j in itertools.combinations(range(dimension), 2):
        Q[i, j] = Q[j, i] = next(numbers)
    assert next(numbers, None) is None
    return Parameters(harmonics[0], harmonics[1:], P, Q)


def pack(a, b, P, Q):
    """The vector θ of parameters."""
    pairs = list(itertools.combinations(range(len(a)), 2))
    numbers = [*a, *(value for row in b for value in row)]
    numbers += [P[pair] for pair in pairs] + [Q[pair] for pair in pairs]
    return np.array([part for number in numbers for part in (complex(number).real, complex(number).imag)])


def statistics(x, order):
    """T(φ) of every row of x (N, D): cosine and sine of every angle, multiple, difference and sum."""
    pairs = list(itertools.combinations(range(x.shape[1]), 2))
    angles = [t * x[:, d] for t in range(1, order + 1) for d in range(x.shape[1])]
    angles += [x[:, i] - x[:, j] for i, j in pairs] + [x[:, i] + x[:, j] for i, j in pairs]
    return np.stack([wave(angle) for angle in angles for wave in (np.cos, np.sin)], axis=1)
