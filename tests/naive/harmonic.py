"""Slow twin of the harmonic Gaussian process: all latent values at once, grids of the circle, a general optimiser."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def log_likelihood(F, angles, weights, nodes=256):
    """Of rows with natural parameters F (n, 2T): real parts, then imaginary parts."""
    order = F.shape[1] // 2
    t = np.arange(1, order + 1)
    grid = 2.0 * np.pi * np.arange(nodes) / nodes
    total = 0.0
    for f, angle, weight in zip(F, angles, weights, strict=True):
        exponent = f[:order] @ np.cos(np.outer(t, grid)) + f[order:] @ np.sin(np.outer(t, grid))
        log_z = np.log(np.exp(exponent - exponent.max()).mean() * 2.0 * np.pi) + exponent.max()
        total += weight * (f[:order] @ np.cos(t * angle) + f[order:] @ np.sin(t * angle) - log_z)
    return total


def log_posterior(F, angles, weights, covariances):
    """Log likelihood plus log prior of the latent values, each column with its covariance (n, n), up to a constant."""
    out = log_likelihood(F, angles, weights)
    for column, covariance in zip(F.T, covariances, strict=True):
        out -= 0.5 * column @ np.linalg.solve(covariance, column)
    return out


def find_mode(angles, weights, covariances):
    """The most probable latent values (n, 2T)."""
    shape = (len(angles), len(covariances))
    roots = [np.linalg.cholesky(covariance) for covariance in covariances]

    def values(whitened):
        return np.stack([root @ w for root, w in zip(roots, whitened.reshape(shape).T, strict=True)], axis=1)

    def negative(whitened):
        return 0.5 * whitened @ whitened - log_likelihood(values(whitened), angles, weights)

    return values(minimize(negative, np.zeros(shape).ravel(), method="BFGS", options={"gtol": 1e-7}).x)


def log_evidence(F, angles, weights, covariances, step=1e-4):
    """Laplace's, with the Hessian in the latent values by differences of the log posterior."""
    flat = F.ravel()
    size = flat.size

    def value(x):
        return log_posterior(x.reshape(F.shape), angles, weights, covariances)

    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            a, b = step * np.eye(size)[i], step * np.eye(size)[j]
            four = value(flat + a + b) - value(flat + a - b) - value(flat - a + b) + value(flat - a - b)
            hessian[i, j] = hessian[j, i] = -four / (4.0 * step**2)
    log_prior = sum(np.linalg.slogdet(covariance)[1] for covariance in covariances)
    return value(flat) - 0.5 * (np.linalg.slogdet(hessian)[1] + log_prior)
