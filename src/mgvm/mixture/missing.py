"""Missing angles: densities of what was observed, draws of what was not, and EM on rows completed by such draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.learning.rows import WeightedRows
from mgvm.mixture import em
from mgvm.mixture.em import Fit, Mixture
from mgvm.mixture.families.base import Family, IntArray, take

_NODES, _MOST_NODES = 256, 4096
_RESOLVED = 1e-5
_SWEEPS = 10  # of Gibbs draws where several angles of a row are missing
_ROUNDS = 6  # of draws and EM
_COPIES = 5  # of every incomplete row in the last round
_MEAN_DRAWS = 64
_CHUNK = 200_000


def log_joint(family: Family, mixture: Mixture, x: FloatArray) -> FloatArray:
    """log π_k p_k of the observed angles, (N, K)."""
    lacking = np.isnan(x).any(axis=1)
    if not lacking.any():
        return em.log_joint(family, mixture, x)
    out = np.empty((x.shape[0], mixture.size))
    if not lacking.all():
        out[~lacking] = family.log_density(mixture.parameters, x[~lacking])
    out[lacking] = family.log_marginal(mixture.parameters, x[lacking])
    return np.asarray(out + mixture.log_weights)


def drawn(family: Family, mixture: Mixture, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rows completed by a joint draw: of a component given what was observed, then of the angles by Gibbs steps.

    Each step draws an angle exactly given all others of its component, by its density on a grid: with one angle missing
    the draw is exact.
    """
    lacking = np.flatnonzero(np.isnan(x).any(axis=1))
    out = x.copy()
    if lacking.size == 0:
        return out
    joint = log_joint(family, mixture, x[lacking])
    shares = em.responsibilities(joint, em.log_sum(joint))
    labels = (shares.cumsum(axis=1) > rng.random((lacking.size, 1)) * shares.sum(axis=1, keepdims=True)).argmax(axis=1)
    out[lacking] = _completed(family, mixture, x[lacking], labels, rng)
    return out


def _completed(
    family: Family, mixture: Mixture, x: FloatArray, labels: IntArray, rng: np.random.Generator
) -> FloatArray:
    missing = np.isnan(x)
    out = np.where(missing, family.sample(mixture.parameters, labels, rng), x)
    sweeps = 1 if missing.sum(axis=1).max() == 1 else _SWEEPS
    for k in np.unique(labels):
        one = take(mixture.parameters, [k])
        for _ in range(sweeps):
            for angle in np.flatnonzero(missing[labels == k].any(axis=0)):
                rows = np.flatnonzero((labels == k) & missing[:, angle])
                values = grid_values(_of_first(family, one), out[rows], int(angle))
                out[rows, angle] = GridDensity(values).sample((), rng)
    return out


def _of_first(family: Family, parameters: Any) -> Callable[[FloatArray], FloatArray]:
    """The log density of the first component."""
    return lambda x: family.log_density(parameters, x)[:, 0]


def grid_values(log_density: Callable[[FloatArray], FloatArray], x: FloatArray, angle: int) -> FloatArray:
    """Log densities (N, n) with one angle set to n nodes, doubled until every other node gives the same integral."""
    n = _NODES
    while True:
        values = _on_grid(log_density, x, angle, n)
        top = values.max(axis=1, keepdims=True)
        weights = np.exp(values - top)
        error = np.abs(np.log(weights[:, ::2].mean(axis=1) + 1e-300) - np.log(weights.mean(axis=1)))
        if n >= _MOST_NODES or error.max(initial=0.0) < _RESOLVED:
            return values
        n *= 2


def _on_grid(log_density: Callable[[FloatArray], FloatArray], x: FloatArray, angle: int, n: int) -> FloatArray:
    nodes = -np.pi + 2.0 * np.pi * np.arange(n) / n
    out = np.empty((len(x), n))
    step = max(1, _CHUNK // n)
    for begin in range(0, len(x), step):
        part = np.repeat(x[begin : begin + step], n, axis=0)
        part[:, angle] = np.tile(nodes, len(part) // n)
        out[begin : begin + step] = log_density(part).reshape(-1, n)
    return out


def mean_directions(family: Family, mixture: Mixture, x: FloatArray) -> FloatArray:
    """Rows completed by the mean directions of the missing angles given the others.

    Exact where one angle of a row is missing; else the direction of the mean of 64 draws.
    """
    out = x.copy()
    missing = np.isnan(x)
    single = missing.sum(axis=1) == 1
    for angle in range(x.shape[1]):
        rows = np.flatnonzero(single & missing[:, angle])
        if rows.size:
            values = grid_values(lambda part: em.log_sum(em.log_joint(family, mixture, part)), x[rows], angle)
            out[rows, angle] = GridDensity(values).mean_direction()
    several = np.flatnonzero(missing.sum(axis=1) > 1)
    if several.size:
        rng = np.random.default_rng(0)
        draws = drawn(family, mixture, np.repeat(x[several], _MEAN_DRAWS, axis=0), rng)
        z = np.exp(1j * draws).reshape(several.size, _MEAN_DRAWS, -1).mean(axis=1)
        out[several] = np.where(missing[several], np.angle(z), x[several])
    return np.where(missing, wrap(out), x)


def fit(task: Fit, data: WeightedRows, sizes: tuple[int, float], warm: Mixture | None) -> None:
    """Fit a mixture to rows, imputing what is missing by draws between EM runs."""
    missing = np.isnan(data.x)
    x = _from_column(data.x, task.rng) if missing.any() else data.x
    size, fraction = sizes
    if warm is not None:
        task.polish(x, data.weights, warm)
    elif fraction:
        task.by_held_out(x, data.weights, size, fraction)
    else:
        task.of_size(x, data.weights, size)
    if not missing.any():
        return
    lacking = missing.any(axis=1)
    for round_number in range(_ROUNDS):
        assert task.best is not None
        copies = _COPIES if round_number == _ROUNDS - 1 else 1
        parts = [drawn(task.family, task.best, data.x[lacking], task.rng) for _ in range(copies)]
        x = np.concatenate([data.x[~lacking], *parts])
        weights = np.concatenate([data.weights[~lacking], *([data.weights[lacking] / copies] * copies)])
        task.tell(f"missing angles drawn, round {round_number + 1} of {_ROUNDS}")
        task.polish(x, weights, task.best)


def _from_column(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Missing angles filled by observed ones of the same column."""
    out = x.copy()
    for column in out.T:
        gaps = np.isnan(column)
        if gaps.any():
            column[gaps] = rng.choice(column[~gaps], size=int(gaps.sum()))
    return out
