"""Missing angles: densities of what was observed, draws and means of what was not, EM on rows completed by draws.

A row that lacks angles has the density of its observed ones, which every family integrates (`Family.log_marginal`). The
others follow from it by the chain rule: a component given what was observed, then each missing angle in turn given all
others of its component, by its density on a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.learning.rows import WeightedRows
from mgvm.mixture import em
from mgvm.mixture.em import Mixture, MixtureFit
from mgvm.mixture.families.base import Family, IntArray, take


class Size(NamedTuple):
    """Components to fit; the most of them, where a fraction of the rows is held out to choose among sizes."""

    components: int
    validation_fraction: float = 0.0


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


def evaluate_mixture_on_grid(family: Family, mixture: Mixture, x: FloatArray, angle: int) -> FloatArray:
    """Log densities (N, n) of the mixture with one angle set to n nodes."""
    return evaluate_on_grid(lambda part: log_sum_exp(em.log_joint(family, mixture, part), axis=1), x, angle)


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


def impute_draws(family: Family, mixture: Mixture, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rows completed by a joint draw: of a component given what was observed, then of the angles by Gibbs steps.

    Each step draws an angle exactly given all others of its component, by its density on a grid: with one angle missing
    the draw is exact.
    """
    lacking = np.flatnonzero(np.isnan(x).any(axis=1))
    out = x.copy()
    if lacking.size == 0:
        return out
    joint = log_joint(family, mixture, x[lacking])
    shares = em.responsibilities(joint, log_sum_exp(joint, axis=1))
    labels = (shares.cumsum(axis=1) > rng.random((lacking.size, 1)) * shares.sum(axis=1, keepdims=True)).argmax(axis=1)
    out[lacking] = _draw_within(family, mixture.parameters, x[lacking], labels, rng)
    return out


def _draw_within(
    family: Family, parameters: Any, x: FloatArray, labels: IntArray, rng: np.random.Generator, sweeps: int = 10
) -> FloatArray:
    """Rows completed by draws from their components; Gibbs `sweeps` where several angles of a row are missing."""
    missing = np.isnan(x)
    out = np.where(missing, family.sample(parameters, labels, rng), x)
    if missing.sum(axis=1).max() == 1:
        sweeps = 1
    for k in np.unique(labels):
        log_density = _single_log_density(family, take(parameters, [k]))
        for _ in range(sweeps):
            for angle in np.flatnonzero(missing[labels == k].any(axis=0)):
                rows = np.flatnonzero((labels == k) & missing[:, angle])
                values = evaluate_on_grid(log_density, out[rows], int(angle))
                out[rows, angle] = GridDensity(values).sample((), rng)
    return out


def _single_log_density(family: Family, parameters: Any) -> Callable[[FloatArray], FloatArray]:
    """The log density of a batch of one component, as a function of rows."""
    return lambda x: family.log_density(parameters, x)[:, 0]


def impute_mean_directions(family: Family, mixture: Mixture, x: FloatArray, n_draws: int = 64) -> FloatArray:
    """Rows completed by the mean directions of the missing angles given the others.

    Exact where one angle of a row is missing; else the direction of the mean of `n_draws` draws, the same in every
    call.
    """
    out = x.copy()
    missing = np.isnan(x)
    single = missing.sum(axis=1) == 1
    for angle in range(x.shape[1]):
        rows = np.flatnonzero(single & missing[:, angle])
        if rows.size:
            values = evaluate_mixture_on_grid(family, mixture, x[rows], angle)
            out[rows, angle] = GridDensity(values).mean_direction()
    several = np.flatnonzero(missing.sum(axis=1) > 1)
    if several.size:
        draws = impute_draws(family, mixture, np.repeat(x[several], n_draws, axis=0), np.random.default_rng(0))
        z = np.exp(1j * draws).reshape(several.size, n_draws, -1).mean(axis=1)
        out[several] = np.where(missing[several], np.angle(z), x[several])
    return np.where(missing, wrap(out), x)


# ---- fitting --------------------------------------------------------------------------------------------------------


def fit_rows(
    fit: MixtureFit, data: WeightedRows, size: Size, warm: Mixture | None, *, rounds: int = 6, copies: int = 5
) -> None:
    """Fit a mixture to rows, missing angles imputed by draws between `rounds` of EM.

    The last round sees `copies` draws of every incomplete row, each with its part of the weight, so that the answer
    hangs less on chance.
    """
    missing = np.isnan(data.x)
    x = _fill_from_columns(data.x, fit.rng) if missing.any() else data.x
    if warm is not None:
        fit.polish(x, data.weights, warm)
    elif size.validation_fraction:
        fit.fit_size_by_validation(x, data.weights, size.components, size.validation_fraction)
    else:
        fit.fit_size(x, data.weights, size.components)
    if not missing.any():
        return
    lacking = missing.any(axis=1)
    for number in range(1, rounds + 1):
        assert fit.best is not None
        many = copies if number == rounds else 1
        parts = [impute_draws(fit.family, fit.best, data.x[lacking], fit.rng) for _ in range(many)]
        x = np.concatenate([data.x[~lacking], *parts])
        weights = np.concatenate([data.weights[~lacking], *([data.weights[lacking] / many] * many)])
        fit.report(f"missing angles drawn, round {number} of {rounds}")
        fit.polish(x, weights, fit.best)


def _fill_from_columns(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Missing angles filled by observed ones of the same column, drawn at random."""
    out = x.copy()
    for column in out.T:
        gaps = np.isnan(column)
        if gaps.any():
            column[gaps] = rng.choice(column[~gaps], size=int(gaps.sum()))
    return out
