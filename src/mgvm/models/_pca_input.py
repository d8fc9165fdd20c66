"""Data of circular PCA as users hand them in: checked, and named in messages that say what to do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from mgvm.models import _pca_dask as on_dask
from mgvm.models._pca_rows import ArrayRows, Facts, Source


def source_of(estimator: Any, X: Any) -> Source:
    """Data to learn from; a Dask array stays where it is, a mapped file is read in chunks."""
    Y = checked(estimator, X, reset=True)
    if Y.shape[0] == 0:
        raise ValueError("X has no rows; give two at least")
    source: Source = on_dask.DaskRows(Y) if on_dask.is_dask(Y) else ArrayRows(Y)
    refuse(source.facts)
    return source


def checked(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """An array (n, M), or a Dask array; one mapped from a file is not converted, for that would read it whole."""
    if on_dask.is_dask(X):
        array = on_dask.as_array(X)
        if reset:
            estimator.n_features_in_ = array.shape[1]
        elif array.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )
        return array
    mapped = isinstance(X, np.memmap) and X.dtype.kind in "fiub"
    return validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None if mapped else np.float64,
        ensure_all_finite=False if mapped else "allow-nan",
        ensure_min_samples=2 if reset else 1,
    )


def refuse(facts: Facts) -> None:
    """What nothing can be learnt from; rows without entries are counted, and left out."""
    if facts.infinite:
        raise ValueError(f"X has {facts.infinite} infinite entries; mark missing ones with NaN")
    if facts.rows - facts.empty < 2:
        raise ValueError(
            f"{facts.rows - facts.empty} of {facts.rows} rows (n_samples={facts.rows}) have an entry; at least two must"
        )
    if not facts.counts.all():
        raise ValueError(f"column {int(np.argmin(facts.counts))} has no entry at all; leave it out")
    if facts.empty:
        warnings.warn(
            f"{facts.empty} of {facts.rows} rows have no entry at all: nothing is learnt from them, and they are left "
            "out of the fit",
            UserWarning,
            stacklevel=4,
        )
    if (facts.least == facts.most).all():
        raise ValueError("all columns are constant: there are no angles to learn")


def warn_of(facts: Facts, size: int, *, structured: bool) -> None:
    """What the data cannot tell."""
    steady, columns = np.flatnonzero(facts.least == facts.most), facts.counts.size
    if steady.size:
        warnings.warn(
            f"column {steady[0]} is constant ({steady.size} in all): it says nothing of the angles and lowers the "
            "noise variance that all columns share; leave it out",
            UserWarning,
            stacklevel=3,
        )
    if 2 * size > columns and not structured:
        warnings.warn(
            f"n_components = {size} angles have {2 * size} cosines and sines, more than the {columns} columns: without "
            "structure they are not identifiable; give structure= or fewer components, and look at several n_init",
            UserWarning,
            stacklevel=3,
        )
    if facts.rows - facts.empty < columns:
        warnings.warn(
            f"{facts.rows - facts.empty} rows for {columns} columns: the noise variance will come out too small; give "
            "more rows",
            UserWarning,
            stacklevel=3,
        )
