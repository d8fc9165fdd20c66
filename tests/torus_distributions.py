"""Distributions on the torus that the tests of several engines share."""

from __future__ import annotations

import numpy as np
from naive import torus
from portable import polar, turned

from mgvm import MGvM
from mgvm.natural import Natural


def distribution_of(*parameters):
    return Natural(*(np.asarray(part, dtype=complex) for part in parameters))


def random_distribution(seed, dimension, order=2, scale=1.0):
    return distribution_of(*torus.random_parameters(np.random.default_rng(seed), dimension, order, scale))


def rotated(dist, delta):
    """The distribution of φ + δ."""
    delta = np.asarray(delta, dtype=float)
    multiples = np.arange(2, len(dist.b) + 2)[:, None] * delta
    P, Q = turned(dist.P, delta[:, None] - delta), turned(dist.Q, delta[:, None] + delta)
    return Natural(turned(dist.a, delta), turned(dist.b, multiples), P, Q)


def couplings(dimension, difference=0.0, total=0.0):
    off = 1.0 - np.eye(dimension)
    return difference * off, total * off


def bimodal(strength):
    """Only even harmonics: each of the four corners (0 or π) of the torus has its mirror image."""
    P, Q = couplings(2, 0.2 * strength, 0.1 * strength)
    return distribution_of(np.zeros(2), np.full((1, 2), strength), P, Q)


def ridge(dimension, strength, pull=0.5):
    """Angles tied to each other, and hardly to anything else."""
    return distribution_of(np.full(dimension, pull), np.zeros((0, dimension)), *couplings(dimension, strength))


def chain_distribution(size, strength=0.8, seed=0):
    """Differences coupled along a chain, with second harmonics and one sum."""
    rng = np.random.default_rng(seed)
    P = np.zeros((size, size), dtype=complex)
    for i in range(size - 1):
        P[i, i + 1] = polar(strength, rng.uniform(-3, 3))
    Q = np.zeros((size, size), dtype=complex)
    Q[0, 1] = Q[1, 0] = 0.3j
    b = polar(0.3, rng.uniform(-3, 3, size))
    return MGvM(polar(0.7, rng.uniform(-3, 3, size)), b, P + P.conj().T, Q)
