"""How far the vectors of circular regression may leave the unit circle: by name, by number, or by K-fold comparison."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.models._circular_regressor import Merged, Training

_NAMED = {"soft": 1.0, "hard": 0.0, "free": np.inf}
_CANDIDATES = (1.0, 0.0, 0.5, np.inf)  # the first is kept unless another is clearly better
_FOLDS = 5


def radius_scale(radius: Any) -> float | None:
    """τ, or None where it is to be chosen by folds."""
    if isinstance(radius, str):
        name = check.choice(radius, "radius", [*_NAMED, "cv"])
        return None if name == "cv" else _NAMED[name]
    value = check.real(radius, "radius")
    if value.ndim or not value >= 0.0:
        raise ValueError(f"radius must be 'soft', 'hard', 'free', 'cv' or a number >= 0, got {radius!r}")
    return float(value)


def chosen_by_folds(model: Any, data: Training, together: Merged, groups: Any) -> tuple[float, dict[float, float]]:
    """τ by K-fold, and the mean held-out log density of every candidate.

    Leave-one-out of expectation propagation does not serve here: at small τ the sites of the neighbours have seen the
    angle that is left out. Whole inputs (or blocks) are held out; τ = 1 gives way to what beats it by more than a
    standard error of the paired differences, summed by input or block.
    """
    rows = np.flatnonzero(data.weights > 0.0)
    units = together.group[rows] if groups is None else np.unique(np.asarray(groups)[rows], return_inverse=True)[1]
    count = np.unique(units).size
    if count < 2:
        what = "different inputs" if groups is None else "groups"
        raise ValueError(f"radius='cv' needs 2 {what} at least to hold one out, got {count}; use radius='soft'")
    folds = list(GroupKFold(min(_FOLDS, count), shuffle=True, random_state=0).split(rows, groups=units))
    found: dict[float, FloatArray] = {}
    for scale in _CANDIDATES:
        densities = np.empty(rows.size)
        for train, test in folds:
            given = None if groups is None else np.asarray(groups)[rows[train]]
            fitted, stopped = _fitted(clone(model).set_params(radius=scale), data, rows[train], given)
            densities[test] = fitted.log_density(_part(model, data.X, rows[test], rows[train]), data.y[rows[test]])
            if stopped:
                text = "the choice of the radius was interrupted; radius='soft' is kept"
                warnings.warn(text, ConvergenceWarning, stacklevel=4)
                return _CANDIDATES[0], {}
        found[scale] = data.weights[rows] * densities
    best, most = _CANDIDATES[0], 0.0
    for scale in _CANDIDATES[1:]:
        gain = np.bincount(units, found[scale] - found[_CANDIDATES[0]])
        if gain.sum() > max(most, float(np.sqrt(gain.size) * gain.std(ddof=1))):
            best, most = scale, float(gain.sum())
    return best, {scale: float(values.sum() / data.weights.sum()) for scale, values in found.items()}


def _fitted(model: Any, data: Training, train: np.ndarray, groups: np.ndarray | None) -> tuple[Any, bool]:
    """A fit to some rows, and whether it was interrupted; what else it complains of, the last fit will say."""
    if groups is not None and np.unique(groups).size < 2:
        groups = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(_part(model, data.X, train, train), data.y[train], data.weights[train], groups)
    return model, any("interrupted" in str(warning.message) for warning in caught)


def _part(model: Any, X: FloatArray, rows: np.ndarray, inputs: np.ndarray) -> FloatArray:
    """Rows of X; of a Gram matrix their covariances with the inputs."""
    return X[np.ix_(rows, inputs)] if isinstance(model.kernel, str) else X[rows]
