"""Slow twin of a distributional forest: weights of shared leaves by loops, a von Mises kernel at every angle."""

from __future__ import annotations

import numpy as np
from scipy.special import ive


def leaf_weights(forest, train, queries, counts, own):
    """Weights (M, N): for each query and tree, the training rows in its leaf by their draws, as shares of the leaf.

    `own` (M,) are the training rows that queries are, None for others; a tree that has seen one is not asked.
    """
    weights = np.zeros((len(queries), len(train)))
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        leaf_of_row, leaf_of_query = tree.apply(train.astype(np.float32)), tree.apply(queries.astype(np.float32))
        for m in range(len(queries)):
            if own[m] is not None and own[m] in drawn:
                continue
            draws = [j for j in drawn if leaf_of_row[j] == leaf_of_query[m]]
            mass = sum(counts[j] for j in draws)
            for j in draws:
                weights[m, j] += counts[j] / mass
    return weights


def density(weights, angles, kappa, share, x):
    """(1 - ε) Σ_j w_j VM(x | ψ_j, κ) / Σ_j w_j + ε / 2π at one angle."""
    kernels = np.exp(kappa * (np.cos(x - angles) - 1.0)) / (2.0 * np.pi * ive(0, kappa))
    return (1.0 - share) * (weights @ kernels) / weights.sum() + share / (2.0 * np.pi)
