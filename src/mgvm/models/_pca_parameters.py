"""What circular PCA learns: y = W(v, 1) + noise, v = (cos φ, sin φ), and the prior of the angles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._pca_prior import Prior, uniform


class Parameters(NamedTuple):
    """W = [A B c] (M, 2D + 1), the variance of the noise, and the prior.

    Where W is known only in distribution, `spread` (M, 2D + 1, 2D + 1) has the covariances of its rows.
    """

    weights: FloatArray
    noise_variance: float
    prior: Prior
    spread: FloatArray | None = None

    @property
    def size(self) -> int:
        """D."""
        return (self.weights.shape[1] - 1) // 2

    def flattened(self) -> Parameters:
        """The same under a uniform prior."""
        return self._replace(prior=uniform(self.size))

    def at(self, angles: FloatArray) -> FloatArray:
        """y without noise at angles (n, D)."""
        return self.mean_at(np.concatenate([np.cos(angles), np.sin(angles)], axis=1))

    def mean_at(self, waves: FloatArray) -> FloatArray:
        """y without noise at E[v] (n, 2D)."""
        return np.asarray(waves @ self.weights[:, :-1].T + self.weights[:, -1])
