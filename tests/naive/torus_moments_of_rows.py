"""Moments of exp(hᵀv - ½vᵀGv), v = (cos φ, sin φ), by brute force on a grid of the torus."""

import numpy as np


def grid_moments(h, G, count):
    """log Z, E[v] and E[vvᵀ] of one distribution, with `count` nodes an angle."""
    size = h.size // 2
    nodes = -np.pi + 2.0 * np.pi / count * np.arange(count)
    angles = np.stack([mesh.ravel() for mesh in np.meshgrid(*[nodes] * size, indexing="ij")], axis=1)
    v = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    logs = v @ h - 0.5 * np.einsum("ni,ij,nj->n", v, G, v)
    top = logs.max()
    share = np.exp(logs - top)
    total = share.sum()
    log_normalizer = top + np.log(total) + size * np.log(2.0 * np.pi / count)
    share /= total
    return log_normalizer, share @ v, (v * share[:, None]).T @ v
