"""The E-step of circular PCA by brute force: exp(hᵀv - ½vᵀGv) of one or two angles on a grid of the torus."""

from typing import NamedTuple

import numpy as np


class Expected(NamedTuple):
    """Of every distribution: log normaliser, highest mode, E[v] and the lower triangle of E[vvᵀ]."""

    log_normalizer: np.ndarray
    mode: np.ndarray
    mean: np.ndarray
    second: np.ndarray


class OnGrid:
    def __init__(self, count=48):
        self.count = count

    def __call__(self, dist, start):
        size = dist.linear.shape[1] // 2
        nodes = 2.0 * np.pi / self.count * np.arange(self.count) - np.pi
        angles = np.stack([mesh.ravel() for mesh in np.meshgrid(*[nodes] * size)], axis=1)
        v = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        logs = dist.linear @ v.T - 0.5 * np.einsum("qi,ij,qj->q", v, dist.coupling, v)
        top = logs.max(axis=1, keepdims=True)
        share = np.exp(logs - top)
        total = share.sum(axis=1, keepdims=True)
        lower = np.tril_indices(2 * size)
        value = (top + np.log(total))[:, 0] + size * np.log(2.0 * np.pi / self.count)
        share /= total
        return Expected(value, angles[np.argmax(share, axis=1)], share @ v, share @ (v[:, lower[0]] * v[:, lower[1]]))
