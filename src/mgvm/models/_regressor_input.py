"""What circular regressors refuse or warn of in X and y: what is wrong, where, and the cure."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from mgvm import _validation as check
from mgvm._validation import FloatArray

_WILD = 1e3  # ratio of standard deviations of two columns beyond which one length scale cannot serve both
_LARGEST = 1e150
_NAMED = 5  # columns spelt out in a message


def targets(y: Any) -> FloatArray:
    """Angles (N,), any finite real numbers, with a warning where they look like degrees."""
    array = np.asarray(y)
    if array.dtype.kind == "b":
        raise TypeError("y holds truth values (bool), not angles; give radians, or use a classifier")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must be angles in radians; give np.angle(y)")
    if array.ndim == 2 and array.shape[1] > 1:
        raise ValueError(
            f"y must have one angle a row, shape ({array.shape[0]},), got {array.shape}; give np.arctan2(sin, cos) if "
            "its columns are cosine and sine, else fit one regressor a column"
        )
    return check.angle_data(column_or_1d(y, warn=True), "y")


def refuse_text(X: Any) -> None:
    """Columns that hold words, which scikit-learn would name by their first value alone."""
    kinds = getattr(X, "dtypes", None)
    if kinds is None or not hasattr(X, "columns"):
        if getattr(getattr(X, "dtype", None), "kind", "f") not in "US":
            return
        columns = np.arange(1 if X.ndim < 2 else X.shape[1])
    else:
        words = [name for name in X.columns if X[name].dtype.kind == "O" and X[name].map(type).eq(str).any()]
        columns = np.flatnonzero([name in words or str(kinds[name]) in ("category", "str") for name in X.columns])
    if columns.size:
        raise ValueError(
            f"could not convert string to float: X has text in {_columns(X, columns)}; encode it first, with "
            "sklearn.preprocessing.OneHotEncoder in a ColumnTransformer say; CircularGPRegressor also takes a Gram "
            "matrix of strings, with kernel='precomputed'"
        )


def refuse_holes(X: Any, inputs: FloatArray) -> None:
    """NaN, infinity and numbers whose squares overflow, with the columns they are in."""
    for test, what, cure in (
        (np.isnan, "NaN", "impute them first (sklearn.impute.SimpleImputer in a Pipeline) or drop these rows"),
        (np.isinf, "infinity", "replace or drop these rows first"),
    ):
        bad = test(inputs)
        if bad.any():
            columns = np.flatnonzero(bad.any(axis=0))
            raise ValueError(
                f"X contains {what}: {int(bad.sum())} values in {int(bad.any(axis=1).sum())} of {len(bad)} rows, in "
                f"{_columns(X, columns)}; {cure}"
            )
    if inputs.size and np.abs(inputs).max() > _LARGEST:
        raise ValueError(
            f"X reaches {np.abs(inputs).max():.3g}: squares of distances overflow; scale the features first, with "
            "sklearn.preprocessing.StandardScaler in a Pipeline"
        )


def warn_of_scales(X: Any, inputs: FloatArray) -> None:
    """Columns whose spreads differ by orders of magnitude, for methods that measure distances across columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = inputs.std(axis=0)
    varying = np.flatnonzero(spread > 0.0)
    if varying.size < 2:
        return
    widest = spread[varying].max()
    narrow = varying[spread[varying] * _WILD < widest]
    if narrow.size:
        wide = varying[spread[varying] == widest]
        warnings.warn(
            f"the features of X are on wildly different scales: the spread of {_columns(X, narrow)} is below "
            f"1/{_WILD:g} of that of {_columns(X, wide)} ({widest:.3g}), so that distances hardly see it; scale the "
            "features first, with sklearn.preprocessing.StandardScaler in a Pipeline",
            stacklevel=4,
        )


def _columns(X: Any, which: np.ndarray) -> str:
    """Columns by name where X has names, else by number."""
    names = getattr(X, "columns", None)
    shown = [repr(names[i]) if names is not None else str(i) for i in which[:_NAMED].tolist()]
    more = f" and {which.size - _NAMED} more" if which.size > _NAMED else ""
    return f"column{'s' if which.size > 1 else ''} {', '.join(shown)}{more}"
