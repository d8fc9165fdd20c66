"""Angles as inputs of any method: `CircularFeatures`, cosines and sines of columns, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.angles import from_radians, to_radians

__all__ = ["CircularFeatures"]


class CircularFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """cos kx and sin kx, k = 1 … order, of every column of angles: 359° and 1° become neighbours.

    Parameters
    ----------
    order : int, default 1
        Harmonics. Two allow for two peaks a turn (rush hours, tides), and so on.
    unit : {"radians", "degrees", "compass", "hours"} or list of these, default "radians"
        Of the columns: one for all, or one for each. "compass" are degrees clockwise from north, "hours" those of the
        day.

    Attributes
    ----------
    n_features_in_ : int
        Columns seen by `fit`.
    feature_names_in_ : ndarray of str
        Their names, where X was a DataFrame.

    Notes
    -----
    Columns that are no angles pass by in a `ColumnTransformer`: see the example. NaN stays NaN, for an imputer
    behind it.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from mgvm import CircularFeatures
    >>> table = pd.DataFrame({"hour": [0.0, 6.0, 23.0], "pressure": [1013.0, 1009.0, 1011.0]})
    >>> inputs = make_column_transformer(
    ...     (CircularFeatures(unit="hours"), ["hour"]), remainder="passthrough", verbose_feature_names_out=False
    ... ).set_output(transform="pandas")
    >>> inputs.fit_transform(table).round(2)
       cos(hour)  sin(hour)  pressure
    0       1.00       0.00    1013.0
    1       0.00       1.00    1009.0
    2       0.97      -0.26    1011.0
    """

    def __init__(self, order: int = 1, *, unit: str | Sequence[str] = "radians"):
        self.order = order
        self.unit = unit

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the columns and remember their names; nothing is learnt."""
        check.integer(self.order, "order", minimum=1)
        self._angles(X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Columns cos x, sin x, cos 2x, sin 2x, … of every column of X in turn: (N, 2 · order · columns)."""
        check_is_fitted(self, "n_features_in_")
        turns = np.multiply.outer(self._angles(X, reset=False), np.arange(1, self.order + 1))
        return np.stack([np.cos(turns), np.sin(turns)], axis=-1).reshape(len(turns), -1)

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """The angles, in their unit, of the first harmonics."""
        check_is_fitted(self, "n_features_in_")
        values = np.atleast_2d(check.finite_or_nan(X, "X"))
        wanted = 2 * self.order * self.n_features_in_
        if values.ndim != 2 or values.shape[1] != wanted:
            raise ValueError(f"X must have the {wanted} columns that transform makes, got shape {values.shape}")
        pairs = values.reshape(len(values), self.n_features_in_, self.order, 2)[:, :, 0]
        return from_radians(np.arctan2(pairs[..., 1], pairs[..., 0]), self.unit)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """cos(name), sin(name), cos(2 name), sin(2 name), …"""
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features)
        multiples = ["", *(f"{k} " for k in range(2, self.order + 1))]
        wave = ("cos", "sin")
        return np.array([f"{f}({k}{name})" for name in names for k in multiples for f in wave], dtype=object)

    def _angles(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        """Checked columns in radians."""
        check.refuse_text(X, "leave it out, or make angles of it first")
        with check.validating("X", X):
            values = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        angles = to_radians(values, self.unit)
        if reset:
            check.warn_of_units(values, self.unit, X)
        return angles

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
