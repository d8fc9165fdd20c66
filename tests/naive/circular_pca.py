"""Circular PCA of one row by brute force: the posterior of its angles on a grid of the torus."""

import numpy as np


def grid(size, count):
    nodes = -np.pi + 2.0 * np.pi / count * np.arange(count)
    return np.stack([mesh.ravel() for mesh in np.meshgrid(*[nodes] * size, indexing="ij")], axis=1)


def log_joint(y, angles, A, B, offset, variance, weights, eta):
    """log p(y, φ) at angles (n, D); entries of y that are NaN are left out; the prior has weights (K,), η (K, D)."""
    seen = ~np.isnan(y)
    mean = offset + np.cos(angles) @ A.T + np.sin(angles) @ B.T
    normal = -0.5 * (y - mean)[:, seen] ** 2 / variance - 0.5 * np.log(2.0 * np.pi * variance)
    prior = 0.0
    for weight, resultant in zip(weights, eta, strict=True):
        dists = np.exp((np.conj(resultant) * np.exp(1j * angles)).real) / (2.0 * np.pi * np.i0(abs(resultant)))
        prior = prior + weight * dists.prod(axis=1)
    return normal.sum(axis=1) + np.log(prior)


def posterior(y, size, count, **model):
    """log p(y), E[v] and E[vvᵀ] given y."""
    angles = grid(size, count)
    logs = log_joint(y, angles, **model)
    top = logs.max()
    share = np.exp(logs - top)
    value = top + np.log(share.sum()) + size * np.log(2.0 * np.pi / count)
    share /= share.sum()
    v = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    return value, share @ v, (v * share[:, None]).T @ v
