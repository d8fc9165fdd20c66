"""Wrapped normal distributions by a cube of images, written out."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import logsumexp


def images(offset, reach):
    """All d + 2πm with |m_i| <= reach, (images, D)."""
    turns = np.array(list(itertools.product(range(-reach, reach + 1), repeat=len(offset))))
    return offset + 2.0 * np.pi * turns


def log_weights(x, mean, cov, reach):
    """Images of x - mean and the logs of their normal densities."""
    away = images(x - mean, reach)
    square = np.einsum("ki,ij,kj->k", away, np.linalg.inv(cov), away)
    return away, -0.5 * square - 0.5 * np.log(np.linalg.det(2.0 * np.pi * cov))


def log_density(x, mean, cov, reach=10):
    """log Σ_m N(x - mean + 2πm | 0, cov)."""
    return logsumexp(log_weights(x, mean, cov, reach)[1])


def maximisation(x, weights, mean, cov, prior, pseudo_count, reach=4):
    """Mean and covariance of one M step: images are latent, `pseudo_count` rows have the variances `prior`."""
    first, second, total = np.zeros(len(mean)), np.zeros((len(mean), len(mean))), 0.0
    for row, weight in zip(x, weights, strict=True):
        away, logs = log_weights(row, mean, cov, reach)
        mass = weight * np.exp(logs - logsumexp(logs))
        first += mass @ away
        second += (mass[:, None] * away).T @ away
        total += weight
    shift = first / total
    scatter = second - total * np.outer(shift, shift)
    return mean + shift, (scatter + pseudo_count * np.diag(prior)) / (total + pseudo_count)
