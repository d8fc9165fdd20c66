"""The wrapped normal on the torus as plainly as possible: a cube of images, a cube of harmonics, a grid."""

import itertools

import mpmath
import numpy as np
from scipy.special import logsumexp


def _cube(size, reach):
    return np.array(list(itertools.product(range(-reach, reach + 1), repeat=size)), dtype=float)


def by_images(x, mean, cov, reach):
    """Log of Σ_k N(x - mean + 2πk | 0, cov) over the cube |k_d| <= reach, for x (n, D)."""
    factor = np.linalg.cholesky(cov)
    logs = []
    for point in np.asarray(x) - mean:
        white = np.linalg.solve(factor, (point + 2 * np.pi * _cube(len(cov), reach)).T)
        logs.append(logsumexp(-0.5 * (white**2).sum(axis=0)))
    return np.array(logs) - np.log(np.diagonal(factor)).sum() - 0.5 * len(cov) * np.log(2 * np.pi)


def by_harmonics(x, mean, cov, reach):
    """Log of Σ_n e^{-nᵀ cov n/2} cos n·(x - mean) / (2π)^D over the cube |n_d| <= reach."""
    n = _cube(len(cov), reach)
    weights = np.exp(-0.5 * np.einsum("ki,ij,kj->k", n, cov, n))
    return np.log(np.cos((np.asarray(x) - mean) @ n.T) @ weights) - len(cov) * np.log(2 * np.pi)


def mp_logpdf(x, mean, cov, reach):
    """One log density from the cube of images, with 40 digits throughout."""
    with mpmath.workdps(40):
        precision = mpmath.inverse(mpmath.matrix(cov.tolist()))
        offset = [mpmath.mpf(float(a)) - mpmath.mpf(float(b)) for a, b in zip(x, mean, strict=True)]
        total = mpmath.mpf(0)
        for k in itertools.product(range(-reach, reach + 1), repeat=len(offset)):
            image = mpmath.matrix([d + 2 * mpmath.pi * turns for d, turns in zip(offset, k, strict=True)])
            total += mpmath.exp(-(image.T * precision * image)[0] / 2)
        volume = mpmath.sqrt(mpmath.det(2 * mpmath.pi * mpmath.matrix(cov.tolist())))
        return mpmath.log(total / volume)


def grid(size, nodes):
    """Nodes (n, D) of a regular grid over the torus; each stands for (2π/nodes)^D."""
    axis = -np.pi + 2 * np.pi * np.arange(nodes) / nodes
    return np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1).reshape(-1, size)
