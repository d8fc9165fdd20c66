"""The mGvM as an exponential family, log p = θ·T(φ) - log Z: θ and T as flat real vectors.

Order: Re and Im of a and z (2D), of b_t and z^t for t = 2..T (2D each), of P_ij and z_i conj(z_j), and of Q_ij and
z_i z_j, both for i < j in row order (D(D - 1) each).
"""

from __future__ import annotations

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural


def pack(law: Natural) -> FloatArray:
    """θ of dense couplings."""
    upper = np.triu_indices(law.dimension, 1)
    P, Q = (matrix.toarray() if law.is_sparse else matrix for matrix in (law.P, law.Q))
    parts = [_pairs(row) for row in (law.a, *law.b, P[upper], Q[upper])]
    return np.concatenate(parts, axis=-1)


def unpack(theta: FloatArray, dimension: int, order: int) -> Natural:
    """The law with parameters θ."""
    pairs = dimension * (dimension - 1) // 2
    wanted = 2 * dimension * order + 4 * pairs
    if theta.shape != (wanted,):
        raise ValueError(
            f"theta must have shape ({wanted},) for {dimension} angles and order {order}, got {theta.shape}"
        )
    numbers = np.ascontiguousarray(theta).view(complex)
    first, rest = numbers[: dimension * order].reshape(order, dimension), numbers[dimension * order :]
    return Natural(first[0], first[1:], _hermitian(rest[:pairs], dimension), _symmetric(rest[pairs:], dimension))


def statistics(x: FloatArray, order: int) -> FloatArray:
    """T(φ) of every row of x (n, D)."""
    z = np.exp(1j * x)
    i, j = np.triu_indices(x.shape[1], 1)
    parts = [z**t for t in range(1, order + 1)] + [z[:, i] * z[:, j].conj(), z[:, i] * z[:, j]]
    return np.concatenate([_pairs(part) for part in parts], axis=1)


def _pairs(values: ComplexArray) -> FloatArray:
    """Real and imaginary parts next to each other."""
    return np.ascontiguousarray(values, dtype=complex).view(np.float64)


def _hermitian(values: ComplexArray, dimension: int) -> ComplexArray:
    out = np.zeros((dimension, dimension), dtype=complex)
    out[np.triu_indices(dimension, 1)] = values
    return out + out.conj().T


def _symmetric(values: ComplexArray, dimension: int) -> ComplexArray:
    out = np.zeros((dimension, dimension), dtype=complex)
    out[np.triu_indices(dimension, 1)] = values
    return out + out.T
