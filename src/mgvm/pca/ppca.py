"""Probabilistic principal component analysis, in closed form."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mgvm import _validation as check
from mgvm._threads import single_thread
from mgvm._validation import FloatArray

_LEAST_VARIANCE = 1e-12  # of the mean variance of a column


class PPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """y = m + Wx + ε with x ~ N(0, I) and ε ~ N(0, σ²I) (Tipping & Bishop 1999), by maximum likelihood.

    With λ_k, u_k the eigenvalues and eigenvectors of the covariance of the rows, the highest first, W has the columns
    (λ_k - σ²)^½ u_k, and σ² is the mean of the eigenvalues that are left.

    Parameters
    ----------
    n_components : int, default 1
        Length of x, at most the number of columns. With one less than that this is a Wiener filter whose noise is the
        smallest eigenvalue.
    noise_variance : float, optional
        σ² where it is known; learnt by default.

    Attributes
    ----------
    mean_ : ndarray (M,)
        m.
    components_ : ndarray (n_components, M)
        The eigenvectors u_k; the largest entry of each is positive.
    explained_variance_ : ndarray (n_components,)
        Variance of the rows along them, λ_k, never below σ².
    noise_variance_ : float
        σ².

    Notes
    -----
    Rows that lie on a plane leave no noise; σ² and λ_k are then held at 1e-12 of the mean variance of a column.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.pca import PPCA
    >>> rng = np.random.default_rng(0)
    >>> clean = np.outer(rng.normal(size=500), [3.0, 4.0, 0.0])
    >>> noisy = clean + rng.normal(size=clean.shape)
    >>> model = PPCA(1).fit(noisy)
    >>> left = model.denoise(noisy) - clean
    >>> float(np.mean(left**2).round(1)), round(model.noise_variance_, 1)
    (0.3, 1.0)
    """

    def __init__(self, n_components: int = 1, noise_variance: float | None = None):
        self.n_components = n_components
        self.noise_variance = noise_variance

    @single_thread
    def fit(self, Y: ArrayLike, y: None = None) -> Self:
        """Learn m, W and σ² from rows Y (N, M); `y` is ignored."""
        check.refuse_text(Y, "leave it out")
        with check.validating("Y", Y):
            rows = np.asarray(validate_data(self, Y, dtype=np.float64, ensure_min_samples=2))
        check.moderate_scale(rows.min(axis=0), rows.max(axis=0), "Y")
        size = check.integer(self.n_components, "n_components", minimum=1)
        count, columns = rows.shape
        if size > min(rows.shape):
            raise ValueError(
                f"n_components must be at most the number of columns and of rows, {columns} and {count}, got "
                f"{size}; ask for fewer"
            )
        self.mean_ = rows.mean(axis=0)
        _, singular, vectors = np.linalg.svd(rows - self.mean_, full_matrices=False)
        spectrum = singular**2 / count
        total = float(spectrum.sum())
        if not total > 0.0:
            raise ValueError("all rows of Y are equal, so that there is nothing to learn; give rows that differ")
        least = _LEAST_VARIANCE * total / columns
        if self.noise_variance is None:
            noise = float(spectrum[size:].sum()) / max(columns - size, 1)
        else:
            noise = check.single_positive(self.noise_variance, "noise_variance")
        self.noise_variance_ = max(noise, least)
        self.explained_variance_ = np.maximum(spectrum[:size], self.noise_variance_)
        turn = np.sign(vectors[np.arange(size), np.argmax(np.abs(vectors[:size]), axis=1)])
        self.components_ = turn[:, None] * vectors[:size]
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, Y: ArrayLike) -> FloatArray:
        """E[x | y] of every row, shape (N, n_components)."""
        return self._along(self._rows(Y)) * np.sqrt(self._signal()) / self.explained_variance_

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Rows m + Wx for x in the rows of X (N, n_components)."""
        check_is_fitted(self)
        X = check.finite(X, "X")
        if X.ndim != 2 or X.shape[1] != len(self.components_):
            raise ValueError(f"X must have shape (N, {len(self.components_)}), one row an observation, got {X.shape}")
        return np.asarray(self.mean_ + (X * np.sqrt(self._signal())) @ self.components_)

    def denoise(self, Y: ArrayLike) -> FloatArray:
        """E[m + Wx | y] of every row: the rows without their noise, as far as it can be told."""
        return self.inverse_transform(self.transform(Y))

    def score_samples(self, Y: ArrayLike) -> FloatArray:
        """Log density of every row, nats."""
        Y = self._rows(Y)
        along = self._along(Y)
        across = Y - self.mean_ - along @ self.components_
        left = Y.shape[1] - len(self.components_)
        square = (along**2 / self.explained_variance_).sum(axis=1) + (across**2).sum(axis=1) / self.noise_variance_
        spread = np.log(self.explained_variance_).sum() + left * np.log(self.noise_variance_)
        return np.asarray(-0.5 * (square + spread + Y.shape[1] * np.log(2.0 * np.pi)))

    def score(self, Y: ArrayLike, y: None = None) -> float:
        """Mean log density of the rows, nats; `y` is ignored."""
        return float(self.score_samples(Y).mean())

    def _rows(self, Y: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        check.refuse_text(Y, "leave it out")
        return np.asarray(validate_data(self, Y, dtype=np.float64, reset=False))

    def _along(self, Y: FloatArray) -> FloatArray:
        return np.asarray((Y - self.mean_) @ self.components_.T)

    def _signal(self) -> FloatArray:
        return np.asarray(self.explained_variance_ - self.noise_variance_)
