"""Directed GvM distributions and their mixtures written out: one row, one component, one factor at a time."""

from __future__ import annotations

import numpy as np

_NODES = 2048


def log_normalizer(first, second):
    """log of the integral of exp Re(conj(η₁) z + conj(η₂) z²) by a fine trapezoid rule."""
    z = np.exp(2j * np.pi * np.arange(_NODES) / _NODES)
    values = (np.conj(first) * z + np.conj(second) * z * z).real
    top = values.max()
    return top + np.log(np.exp(values - top).mean() * 2.0 * np.pi)


def directed_log_density(matrices, seconds, order, row):
    """Σ_d log GvM(φ_d | φ_<d): matrices[d] is B (2, 1 + 2d), seconds[d] is η₂, d counting along `order`."""
    features, total = [1.0], 0.0
    for d, column in enumerate(order):
        pull = matrices[d] @ np.array(features[: matrices[d].shape[1]])
        first = complex(pull[0], pull[1])
        z = np.exp(1j * row[column])
        total += (np.conj(first) * z + np.conj(seconds[d]) * z * z).real - log_normalizer(first, seconds[d])
        features += [np.cos(row[column]), np.sin(row[column])]
    return total


def unpacked(family, parameters, k):
    """(B, η₂) of every factor of component k."""
    matrices, seconds = [], []
    for d in range(len(family.order)):
        size = 1 + 2 * d if family.coupled else 1
        numbers = parameters.packed[k, d]
        matrices.append(numbers[: 2 * size].reshape(2, size))
        seconds.append(complex(numbers[2 * size], numbers[2 * size + 1]))
    return matrices, seconds


def sum_over_missing(log_density, row, n):
    """log ∫ p over the missing angles of a row (NaN), and E[e^{iφ}] of all angles; `log_density` is of rows."""
    lost = np.flatnonzero(np.isnan(row))
    nodes = 2.0 * np.pi * np.arange(n) / n
    points = np.tile(row, (n**lost.size, 1))
    points[:, lost] = np.stack(np.meshgrid(*[nodes] * lost.size), axis=-1).reshape(-1, lost.size)
    values = log_density(points)
    top = values.max()
    shares = np.exp(values - top)
    log_integral = top + np.log(shares.mean()) + lost.size * np.log(2.0 * np.pi)
    return log_integral, shares @ np.exp(1j * points) / shares.sum()
