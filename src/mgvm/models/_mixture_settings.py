"""What a TorusMixture is asked for, checked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_random_state

from mgvm import _validation as check
from mgvm.learning._rows import Rows, circular_spread
from mgvm.models._components import FAMILIES

_CONSTANT = 1e-8  # circular spread of a column below which it is taken for constant


def sizes(settings: Any) -> tuple[int, float]:
    """(K, 0), or (largest K, fraction held out) for "auto"."""
    if isinstance(settings.n_components, str):
        check.choice(settings.n_components, "n_components", ["auto"])
        largest = check.integer(settings.max_components, "max_components", minimum=1)
        return largest, check.single_fraction(settings.validation_fraction, "validation_fraction")
    return check.integer(settings.n_components, "n_components", minimum=1), 0.0


def check_settings(settings: Any, data: Rows) -> None:
    """Refuse what cannot be fitted; warn of a constant column."""
    check.integer(settings.n_init, "n_init", minimum=1)
    check.integer(settings.n_average, "n_average", minimum=1)
    check.integer(settings.max_iter, "max_iter", minimum=1)
    check.single_positive(settings.tol, "tol")
    check.non_negative(settings.ridge, "ridge")
    check.non_negative(settings.pseudo_count, "pseudo_count")
    check.choice(settings.component, "component", FAMILIES)
    size, fraction = sizes(settings)
    if not fraction and size > data.n_rows:
        raise ValueError(
            f"n_components = {size} needs as many rows, got n_samples = {data.n_rows}; give more rows or ask for "
            "fewer components"
        )
    if fraction and data.n_rows < 2:
        raise ValueError(
            f'n_components="auto" holds rows out and needs 2 at least, got n_samples = {data.n_rows}; give '
            "n_components as a number"
        )
    spread = circular_spread(data.x, data.weights)
    if data.n_rows > 1 and (spread < _CONSTANT).any():
        warnings.warn(
            f"column {int(np.argmin(spread))} of X is constant: its density has no finite maximum, so that "
            "shrinkage alone bounds its concentration; leave the column out",
            stacklevel=3,
        )


def generator(state: Any) -> np.random.Generator:
    """A generator from any of scikit-learn's or NumPy's random states."""
    if isinstance(state, np.random.Generator):
        return state
    if isinstance(state, np.random.RandomState):
        return np.random.default_rng(check_random_state(state).randint(2**31))
    return check.generator(state)
