"""A mixture of all angles together as a regressor: the distribution of the last angle given the others."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from mgvm import TorusMixture
from mgvm._validation import FloatArray
from mgvm.circle.base import CircularDistribution


class MixtureRegressor(BaseEstimator):  # type: ignore[misc]
    """p(ψ | φ) of a `TorusMixture` of (φ, ψ); the inputs are the cosines of φ, then their sines.

    Parameters
    ----------
    n_components : int or "auto"
        Of the mixture.
    n_average : int
        Fits that are averaged.
    """

    def __init__(self, n_components: int | str = "auto", n_average: int = 1) -> None:
        self.n_components = n_components
        self.n_average = n_average

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: None = None) -> Self:
        """Fit the mixture to all angles."""
        if sample_weight is not None:
            raise ValueError("a TorusMixture takes no weights; repeat the rows")
        mixture: Any = TorusMixture(self.n_components, n_average=self.n_average, tol=1e-4, random_state=0)  # type: ignore[arg-type]
        self.mixture_ = mixture.fit(np.column_stack([angles_of(X), y]))
        return self

    def predict_dist(self, X: FloatArray) -> CircularDistribution:
        """The conditional distributions."""
        given = angles_of(np.asarray(X))
        dist: CircularDistribution = self.mixture_.conditional({k: given[:, k] for k in range(given.shape[1])})
        return dist


def features_of(angles: FloatArray) -> FloatArray:
    """Cosines, then sines, of all columns."""
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def angles_of(features: FloatArray) -> FloatArray:
    """The way back."""
    half = features.shape[1] // 2
    return np.arctan2(features[:, half:], features[:, :half])
