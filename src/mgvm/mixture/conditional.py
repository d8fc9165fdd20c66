"""The distribution of some angles of a mixture given the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._grids import log_sum_exp
from mgvm._validation import FloatArray
from mgvm.angles import to_radians
from mgvm.circle.grid_density import GridDensity
from mgvm.mixture import em, missing
from mgvm.mixture.em import Mixture
from mgvm.mixture.families.base import Family


class ConditionalMixture:
    """p(φ_rest | φ_given) of a torus mixture: again a mixture, its weights the responsibilities of what is given.

    Attributes
    ----------
    angles : tuple of int
        The columns left, in the order of the last axis of `logpdf` and `sample`.
    batch_shape : tuple of int
        Shape of the angles given.
    weights : ndarray, shape batch_shape + (K,)
        Mixing weights given those angles.
    """

    def __init__(self, family: Family, mixture: Mixture, given: FloatArray, batch_shape: tuple[int, ...]):
        self._family, self._mixture, self._given = family, mixture, given
        self.batch_shape = batch_shape
        self.angles = tuple(int(i) for i in np.flatnonzero(np.isnan(given[0])))
        joint = missing.log_joint(family, mixture, given)
        self._log_given = log_sum_exp(joint, axis=1)
        self.weights = em.responsibilities(joint, self._log_given).reshape(*batch_shape, -1)

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """log p(x | given) for x (..., angles left), which broadcasts against the batch of angles given."""
        values = check.angles(x, "x")
        if values.shape[-1:] != (len(self.angles),):
            raise ValueError(f"x must hold {len(self.angles)} angles on its last axis, got shape {values.shape}")
        check.broadcast(x=values[..., 0], given=np.empty(self.batch_shape))
        shape = np.broadcast_shapes(values.shape[:-1], self.batch_shape)
        rows = np.broadcast_to(self._given.reshape(*self.batch_shape, -1), (*shape, self._given.shape[1])).copy()
        rows[..., list(self.angles)] = values
        joint = em.log_joint(self._family, self._mixture, np.ascontiguousarray(rows.reshape(-1, rows.shape[-1])))
        log_given = np.broadcast_to(self._log_given.reshape(self.batch_shape), shape)
        return np.asarray(log_sum_exp(joint, axis=1).reshape(shape) - log_given)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Draws of shape ``shape + batch_shape + (angles left,)``, radians in [-π, π)."""
        size = check.shape(shape)
        rows = np.broadcast_to(self._given, (*size, *self._given.shape)).reshape(-1, self._given.shape[1])
        out = missing.impute_draws(self._family, self._mixture, np.ascontiguousarray(rows), check.generator(rng))
        return out[:, list(self.angles)].reshape(*size, *self.batch_shape, -1)

    def __repr__(self) -> str:
        return (
            f"ConditionalMixture(angles {self.angles}, batch {self.batch_shape}, {self.weights.shape[-1]} components)"
        )


def condition_mixture(
    family: Family,
    mixture: Mixture,
    given: Mapping[Any, ArrayLike],
    dimension: int,
    names: list[str],
    unit: str | Sequence[str] = "radians",
) -> GridDensity | ConditionalMixture:
    """Return p(other angles | given): a grid density if one angle is left, else a `ConditionalMixture`.

    What is given is in `unit`, one for all columns or one for each.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"given must be a dictionary {{column: angle or angles}}, got {type(given).__name__}")
    columns = [_column(key, dimension, names) for key in given]
    if len(set(columns)) < len(columns):
        raise ValueError(f"given names a column twice: {list(given)}")
    if len(columns) == dimension:
        raise ValueError(f"given fixes all {dimension} angles, so that none is left; leave at least one out")
    values = [check.angles(value, f"given[{key!r}]") for key, value in given.items()]
    units = [unit if isinstance(unit, str) else unit[column] for column in columns]
    values = [x if name == "radians" else to_radians(x, name) for x, name in zip(values, units, strict=True)]
    check.broadcast(**{f"given[{key!r}]": value for key, value in zip(given, values, strict=True)})
    batch = np.broadcast_shapes(*(value.shape for value in values))
    rows = np.full((*batch, dimension), np.nan)
    for column, value in zip(columns, values, strict=True):
        rows[..., column] = value
    flat = rows.reshape(-1, dimension)
    if len(columns) < dimension - 1 or dimension == 1:
        return ConditionalMixture(family, mixture, flat, batch)
    (left,) = set(range(dimension)) - set(columns)
    return GridDensity(missing.evaluate_mixture_on_grid(family, mixture, flat, left).reshape(*batch, -1))


def _column(key: Any, dimension: int, names: list[str]) -> int:
    """The number of a column from its number, negative ones from the end, or its name."""
    if isinstance(key, str):
        if key not in names:
            known = f"; known are {names}" if names else ": the mixture was fitted to an array without column names"
            raise ValueError(f"given names the column {key!r}{known}")
        return names.index(key)
    number = check.integer(key, "columns of given")
    if not -dimension <= number < dimension:
        raise ValueError(f"given names column {number}, but there are {dimension} columns")
    return number % dimension
