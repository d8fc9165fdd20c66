"""Distributions that the tests of mean field share."""

from __future__ import annotations

import warnings

import numpy as np
from portable import polar
from scipy import sparse

from mgvm.inference import ConvergenceWarning, mean_field
from mgvm.natural import Natural


def draw(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def random_distribution(rng, dimension, order=2, scale=1.0, batch=()):
    P, Q = draw(rng, dimension, dimension), draw(rng, dimension, dimension)
    P, Q = scale * (P + P.conj().T), scale * (Q + Q.T)
    np.fill_diagonal(P, 0)
    np.fill_diagonal(Q, 0)
    return Natural(scale * draw(rng, *batch, dimension), scale * draw(rng, order - 1, dimension), P, Q)


def chain(rng, size, coupling, strength, order=1):
    """A chain of angles with random fields around a direction that drifts."""
    beside = np.full(size - 1, coupling, dtype=complex)
    P = sparse.csr_array(sparse.diags_array([beside, beside], offsets=[1, -1]))
    drift = 0.3 * np.cumsum(rng.normal(size=size))
    b = 0.1 * strength * draw(rng, order - 1, size)
    a = polar(strength * rng.exponential(size=size), drift)
    return Natural(a, b, P, sparse.csr_array((size, size), dtype=complex))


def as_sparse(dist):
    return dist._replace(P=sparse.csr_array(dist.P), Q=sparse.csr_array(dist.Q))


def quietly(*arguments, **options):
    """Mean field of a distribution that may have several optima."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the distribution is multimodal", ConvergenceWarning)
        return mean_field(*arguments, **options)
