"""Slow, obvious twin of the log pseudo-likelihood: conditionals slice by slice on a grid, maximised by SciPy."""

from __future__ import annotations

import numpy as np
from naive.family import unpack
from naive.torus import nodes
from scipy.optimize import minimize


def log_conditional(x, d, a, b, P, Q, n):
    """log p(φ_d | all others) of every row of x (N, D), the normaliser a sum over the slice."""
    grid = np.concatenate([np.tile(nodes(n), (len(x), 1)), x[:, [d]]], axis=1)
    w, z = np.exp(1j * grid), np.exp(1j * x)[:, None, :]
    value = np.real(np.conj(a[d]) * w)
    for t, harmonic in enumerate(b, start=2):
        value = value + np.real(np.conj(harmonic[d]) * w**t)
    for j in range(x.shape[1]):
        if j != d:
            value = value + np.real(np.conj(w) * P[d, j] * z[..., j]) + np.real(np.conj(Q[d, j]) * w * z[..., j])
    top = value.max(axis=1)
    return value[:, -1] - top - np.log(np.exp(value[:, :-1] - top[:, None]).sum(axis=1) * 2 * np.pi / n)


def log_pseudo_likelihood(x, weights, a, b, P, Q, n=400):
    """Weighted mean over rows of the sum of the log conditionals."""
    rows = sum(log_conditional(x, d, a, b, P, Q, n) for d in range(x.shape[1]))
    return float(np.dot(weights, rows) / np.sum(weights))


def maximum(x, weights, order, basis, n=120):
    """The θ = basis @ free of highest pseudo-likelihood, by quasi-Newton steps with numerical gradients."""
    dimension = x.shape[1]

    def height(free):
        dist = unpack(basis @ free, dimension, order)
        return -log_pseudo_likelihood(x, weights, *dist, n)

    found = minimize(height, np.zeros(basis.shape[1]), method="BFGS", options={"gtol": 1e-7})
    return basis @ found.x, -found.fun
