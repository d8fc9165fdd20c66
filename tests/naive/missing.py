"""Slow, obvious twin of rows with missing angles: sums over a product grid of those that are missing."""

from __future__ import annotations

import itertools

import numpy as np
from naive.family import statistics
from naive.torus import log_density, log_normalizer, nodes


def completions(row, n):
    """All rows with the missing angles of one filled in from a grid."""
    gaps = np.flatnonzero(np.isnan(row))
    filled = np.tile(row, (n ** len(gaps), 1))
    filled[:, gaps] = list(itertools.product(nodes(n), repeat=len(gaps)))
    return filled, len(gaps)


def expectation(row, order, a, b, P, Q, n):
    """E[T | observed], and log ∫ exp(θ·T) over the missing angles."""
    filled, gaps = completions(row, n)
    value = np.array([log_density(point, a, b, P, Q) for point in filled])
    weight = np.exp(value - value.max())
    height = value.max() + np.log(weight.sum()) + gaps * np.log(2 * np.pi / n)
    return weight / weight.sum() @ statistics(filled, order), height


def observed_log_likelihood(x, weights, a, b, P, Q, n):
    """Weighted mean of log p(observed angles)."""
    order = len(b) + 1
    heights = [expectation(row, order, a, b, P, Q, n)[1] for row in x]
    return float(np.dot(weights, heights) / np.sum(weights)) - log_normalizer(a, b, P, Q, n)
