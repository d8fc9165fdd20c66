"""Slow, obvious twins of the distributions on the torus: sums written out on a product grid (D <= 3), and transfer
operators.

Angles are the nodes -π + 2π j/n of a periodic trapezoid rule; an integral is the sum times (2π/n)^D.
"""

from __future__ import annotations

import itertools

import numpy as np


def nodes(n):
    """The angles of an n-point rule."""
    return -np.pi + 2 * np.pi * np.arange(n) / n


def log_density(phi, a, b, P, Q):
    """Unnormalised log density at one point phi (D,), term by term."""
    z = np.exp(1j * np.asarray(phi))
    value = np.real(np.conj(a) @ z)
    for t, harmonic in enumerate(b, start=2):
        value += np.real(np.conj(harmonic) @ z**t)
    return value + 0.5 * np.real(np.conj(z) @ P @ z) + 0.5 * np.real(z @ np.conj(Q) @ z)


def log_density_on_grid(a, b, P, Q, n):
    """Unnormalised log density on the product grid, shape (n,) * D; each unordered pair enters once."""
    a, b, P, Q = (np.asarray(part) for part in (a, b, P, Q))
    dimension = a.size
    z = [np.exp(1j * axis) for axis in np.meshgrid(*[nodes(n)] * dimension, indexing="ij", sparse=True)]
    value = np.zeros((n,) * dimension)
    for d in range(dimension):
        value = value + np.real(np.conj(a[d]) * z[d])
        for t, harmonic in enumerate(b, start=2):
            value = value + np.real(np.conj(harmonic[d]) * z[d] ** t)
    for i, j in itertools.combinations(range(dimension), 2):
        value = value + np.real(np.conj(z[i]) * P[i, j] * z[j]) + np.real(np.conj(Q[i, j]) * z[i] * z[j])
    return value


def log_normalizer(a, b, P, Q, n=120):
    """log ∫ exp(log density) over [-π, π)^D."""
    value = log_density_on_grid(a, b, P, Q, n)
    top = value.max()
    return top + np.log(np.exp(value - top).sum()) + np.asarray(a).size * np.log(2 * np.pi / n)


def probabilities(a, b, P, Q, n=120):
    """Probability of every point of the product grid."""
    value = log_density_on_grid(a, b, P, Q, n)
    weight = np.exp(value - value.max())
    return weight / weight.sum()


def marginal(a, b, P, Q, d, n=120):
    """Density of angle d at the nodes, shape (n,)."""
    mass = probabilities(a, b, P, Q, n)
    return mass.sum(axis=tuple(axis for axis in range(mass.ndim) if axis != d)) * n / (2 * np.pi)


def moments(a, b, P, Q, n=120):
    """E[z] (D,), E[z conj(z)^T] (D, D), E[z z^T] (D, D) and E[z²] (D,)."""
    mass = probabilities(a, b, P, Q, n)
    dimension = mass.ndim
    z = [np.exp(1j * axis) for axis in np.meshgrid(*[nodes(n)] * dimension, indexing="ij", sparse=True)]
    first = np.array([(mass * z[d]).sum() for d in range(dimension)])
    difference = np.array([[(mass * z[i] * np.conj(z[j])).sum() for j in range(dimension)] for i in range(dimension)])
    total = np.array([[(mass * z[i] * z[j]).sum() for j in range(dimension)] for i in range(dimension)])
    second = np.array([(mass * z[d] ** 2).sum() for d in range(dimension)])
    return first, difference, total, second


def _edge(P, Q, i, j, n):
    """The n x n table of one coupling, rows angle i."""
    z = np.exp(1j * nodes(n))
    return np.real(P[i, j] * np.conj(z)[:, None] * z) + np.real(np.conj(Q[i, j]) * z[:, None] * z)


def _site(a, b, d, n):
    z = np.exp(1j * nodes(n))
    return np.real(np.conj(a[d]) * z) + sum(np.real(np.conj(row[d]) * z**t) for t, row in enumerate(b, start=2))


def _absorb(log_message):
    """A message with its largest value taken off, and that value."""
    top = log_message.max()
    return log_message - top, top


def chain_log_normalizer(a, b, P, Q, n=120):
    """log Z of a chain 0 - 1 - ... - (D-1) by its transfer operators, left to right, in logs throughout."""
    message, total = _absorb(_site(a, b, 0, n))
    for d in range(1, len(a)):
        table = message[:, None] + _edge(P, Q, d - 1, d, n)
        top = table.max(axis=0)
        message, gain = _absorb(top + np.log(np.exp(table - top).sum(axis=0)) + _site(a, b, d, n))
        total += gain
    return total + np.log(np.exp(message).sum()) + len(a) * np.log(2 * np.pi / n)


def chain_marginals(a, b, P, Q, n=120):
    """Densities of all angles of a chain 0 - 1 - ... at the nodes, (D, n), from left and right messages in logs."""
    size = len(a)
    left, right = np.zeros((size, n)), np.zeros((size, n))
    for d in range(1, size):
        table = (left[d - 1] + _site(a, b, d - 1, n))[:, None] + _edge(P, Q, d - 1, d, n)
        top = table.max(axis=0)
        left[d], _ = _absorb(top + np.log(np.exp(table - top).sum(axis=0)))
    for d in range(size - 2, -1, -1):
        table = (right[d + 1] + _site(a, b, d + 1, n)) + _edge(P, Q, d, d + 1, n)
        top = table.max(axis=1)[:, None]
        right[d], _ = _absorb(top[:, 0] + np.log(np.exp(table - top).sum(axis=1)))
    value = np.array([left[d] + right[d] + _site(a, b, d, n) for d in range(size)])
    weight = np.exp(value - value.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True) * n / (2 * np.pi)


def random_parameters(rng, dimension, order=2, scale=1.0, edges=None, sums=True):
    """Random a, b, P, Q; coupled pairs are all, or the given ones; Q is zero unless `sums`."""

    def draw(*shape):
        return scale * (rng.normal(size=shape) + 1j * rng.normal(size=shape))

    a, b = draw(dimension), draw(order - 1, dimension)
    P, Q = np.zeros((2, dimension, dimension), dtype=complex)
    for i, j in itertools.combinations(range(dimension), 2) if edges is None else edges:
        P[i, j], Q[i, j] = draw(2) if sums else (draw(1)[0], 0)
        P[j, i], Q[j, i] = np.conj(P[i, j]), Q[i, j]
    return a, b, P, Q
