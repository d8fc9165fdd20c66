"""Missing angles: densities of what was observed, draws and means of what was not, EM on rows completed by draws, and
the distribution of some angles given the others.

A row that lacks angles has the density of its observed ones, which every family integrates (`Family.log_marginal`), so
that a component given what was observed follows. Means and draws of the missing angles given both are the family's too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._validation import FloatArray, Seed
from mgvm.angles import to_radians, wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.learning.rows import WeightedRows
from mgvm.mixture import em
from mgvm.mixture.em import Mixture, MixtureFit, Size
from mgvm.mixture.families.base import NEGLIGIBLE, Family, draw_places


def log_joint(family: Family, mixture: Mixture, x: FloatArray) -> FloatArray:
    """Return log π_k p_k of the observed angles, (N, K)."""
    lacking = np.isnan(x).any(axis=1)
    if not lacking.any():
        return em.log_joint(family, mixture, x)
    out = np.empty((x.shape[0], mixture.size))
    if not lacking.all():
        out[~lacking] = family.log_density(mixture.parameters, x[~lacking])
    out[lacking] = family.log_marginal(mixture.parameters, x[lacking])
    return np.asarray(out + mixture.log_weights)


# ---- densities of one angle given the others ------------------------------------------------------------------------


def evaluate_on_grid(
    log_density: Callable[[FloatArray], FloatArray], x: FloatArray, angle: int, *, tol: float = 1e-5, most: int = 4096
) -> FloatArray:
    """Log densities (N, n) with one angle set to n nodes, from 256 up to `most`.

    n doubles until every other node gives the same log integral to within `tol` nats.
    """
    n = 256
    while True:
        values = _evaluate(log_density, x, angle, periodic_grid(n))
        weights = np.exp(values - values.max(axis=1, keepdims=True))
        error = np.abs(np.log(weights[:, ::2].mean(axis=1) + 1e-300) - np.log(weights.mean(axis=1)))
        if n >= most or error.max(initial=0.0) < tol:
            return values
        n *= 2


def _evaluate(
    log_density: Callable[[FloatArray], FloatArray], x: FloatArray, angle: int, nodes: FloatArray
) -> FloatArray:
    """Log densities (N, n) with one angle set to n nodes, 200,000 points at a time (some 10 MB)."""
    out = np.empty((len(x), nodes.size))
    step = max(1, 200_000 // nodes.size)
    for begin in range(0, len(x), step):
        part = np.repeat(x[begin : begin + step], nodes.size, axis=0)
        part[:, angle] = np.tile(nodes, len(part) // nodes.size)
        out[begin : begin + step] = log_density(part).reshape(-1, nodes.size)
    return out


# ---- imputation -----------------------------------------------------------------------------------------------------


def impute_draws(
    family: Family, mixture: Mixture, x: FloatArray, rng: np.random.Generator, copies: int = 1
) -> FloatArray:
    """Rows completed by a joint draw: of a component given what was observed, then of the angles given both.

    `copies` of all rows, one after the other.
    """
    lacking = np.flatnonzero(np.isnan(x).any(axis=1))
    out = np.tile(x, (copies, 1))
    if lacking.size == 0:
        return out
    joint = np.tile(log_joint(family, mixture, x[lacking]), (copies, 1))
    labels = draw_places(joint, len(joint), rng)
    rows = np.concatenate([lacking + len(x) * number for number in range(copies)])
    out[rows] = family.draw_missing(mixture.parameters, out[rows], labels, rng)
    return out


def impute_mean_directions(family: Family, mixture: Mixture, x: FloatArray) -> FloatArray:
    """Rows completed by the mean directions of the missing angles given the others."""
    out, missing = x.copy(), np.isnan(x)
    lacking = np.flatnonzero(missing.any(axis=1))
    if lacking.size == 0:
        return out
    joint = log_joint(family, mixture, x[lacking])
    shares = em.responsibilities(joint, log_sum_exp(joint, axis=1))
    rows, labels = np.nonzero(shares > NEGLIGIBLE)
    expected = family.expect_missing(mixture.parameters, x[lacking[rows]], labels) * shares[rows, labels, None]
    # The pairs are sorted by row.
    mean = np.add.reduceat(expected, np.flatnonzero(np.diff(rows, prepend=-1)), axis=0)
    out[lacking] = np.where(missing[lacking], wrap(np.angle(mean)), x[lacking])
    return out


# ---- fitting --------------------------------------------------------------------------------------------------------


def fit_incomplete(
    fit: MixtureFit, data: WeightedRows, size: Size, warm: Mixture | None, *, rounds: int = 6, copies: int = 5
) -> None:
    """Fit a mixture to rows of which some lack angles, imputed by draws between `rounds` of EM.

    All rounds but the last are short; two are enough after a fit before (`warm`). The last one sees `copies` draws of
    every incomplete row, each with its part of the weight, so that the answer hangs less on chance.
    """
    lacking = np.isnan(data.x).any(axis=1)
    growth = fit.growth
    short = replace(fit, max_iter=min(fit.max_iter, growth.short_iter), tol=max(fit.tol, growth.short_tol))
    try:
        if warm is None:
            short.fit(_fill_from_columns(data.x, fit.rng), data.weights, size)
        else:
            short.best, rounds = warm, min(rounds, 2)
        for number in range(1, rounds + 1):
            assert short.best is not None
            last = number == rounds
            drawn = impute_draws(fit.family, short.best, data.x[lacking], fit.rng, copies if last else 1)
            x = np.concatenate([data.x[~lacking], drawn])
            repeated = np.tile(data.weights[lacking], copies if last else 1)
            weights = np.concatenate([data.weights[~lacking], repeated / (copies if last else 1)])
            fit.report(f"missing angles drawn, round {number} of {rounds}")
            (fit if last else short).polish(x, weights, short.best)
    finally:
        fit.best, fit.scores = fit.best or short.best, short.scores


def _fill_from_columns(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Missing angles filled by observed ones of the same column, drawn at random.

    Angles of the nearest complete rows were tried: the mixtures that begin with them are narrower, and score worse.
    """
    out = x.copy()
    for column in out.T:
        gaps = np.isnan(column)
        if gaps.any():
            column[gaps] = rng.choice(column[~gaps], size=int(gaps.sum()))
    return out


# ---- the distribution of some angles given the others ----------------------------------------------------------------


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
        joint = log_joint(family, mixture, given)
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

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Draws of shape ``shape + batch_shape + (angles left,)``, radians in [-π, π)."""
        size = check.shape(shape)
        rows = np.broadcast_to(self._given, (*size, *self._given.shape)).reshape(-1, self._given.shape[1])
        out = impute_draws(self._family, self._mixture, np.ascontiguousarray(rows), check.generator(rng))
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
    if 0 in batch:
        raise ValueError(f"given holds no angles, its shape is {batch}; give at least one of each column")
    rows = np.full((*batch, dimension), np.nan)
    for column, value in zip(columns, values, strict=True):
        rows[..., column] = value
    flat = rows.reshape(-1, dimension)
    if len(columns) < dimension - 1 or dimension == 1:
        return ConditionalMixture(family, mixture, flat, batch)
    (left,) = set(range(dimension)) - set(columns)
    density = evaluate_on_grid(lambda part: log_sum_exp(em.log_joint(family, mixture, part), axis=1), flat, left)
    return GridDensity(density.reshape(*batch, -1))


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
