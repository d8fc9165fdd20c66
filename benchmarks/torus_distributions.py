"""Distributions on the torus that several benchmarks share."""

from __future__ import annotations

import numpy as np

from mgvm import MGvM


def gp_posterior(dimension, length=1.0, span=10.0, concentration=2.0, seed=0):
    """A squared-exponential kernel on a line and a von Mises observation at every other input: circular regression."""
    rng = np.random.default_rng(seed)
    inputs = np.linspace(0.0, span, dimension)
    kernel = np.exp(-0.5 * ((inputs[:, None] - inputs) / length) ** 2) + 1e-2 * np.eye(dimension)
    W = np.linalg.inv(kernel)
    observed = np.sin(inputs) + 0.5 * rng.normal(size=dimension)
    a = np.where(np.arange(dimension) % 2 == 0, concentration, 0.0) * np.exp(1j * observed)
    return MGvM.from_precision(np.angle(a), np.abs(a), np.kron(np.eye(2), W))


def bimodal(dimension=10, seed=0):
    """Two wells half a turn apart: second harmonics of one axis and couplings of differences, nothing odd."""
    rng = np.random.default_rng(seed)
    axis = 0.3 * rng.normal(size=dimension)
    P = 0.4 * np.exp(-np.abs(np.subtract.outer(np.arange(dimension), np.arange(dimension))))
    np.fill_diagonal(P, 0.0)
    turn = np.exp(1j * axis)
    return MGvM(np.zeros(dimension), 0.8 * turn**2, turn[:, None] * P * turn.conj())


def strongly_coupled(dimension, strength=1.0, seed=0):
    """A stiff smooth prior, weakly held: a squared-exponential kernel of long range and faint observations."""
    return gp_posterior(dimension, length=5.0, concentration=0.1 * strength, seed=seed)


DISTS = {
    "GP kernel, D = 10": lambda: gp_posterior(10),
    "GP kernel, D = 100": lambda: gp_posterior(100),
    "two wells, D = 10": lambda: bimodal(10),
    "strongly coupled, D = 30": lambda: strongly_coupled(30),
    "strongly coupled, D = 100": lambda: strongly_coupled(100),
}
