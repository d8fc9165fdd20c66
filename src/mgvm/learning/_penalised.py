"""Penalised score matching as a fit: one penalty, or the one that a criterion picks along a path."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _penal_path as path
from mgvm.learning._edge_design import Design, design
from mgvm.learning._penal_active import Point, coupling_matrices, score_objective
from mgvm.learning._rows import Rows
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel

CRITERIA = ("ebic", "held-out")

_PATIENCE = 8
_MORE_EDGES = 1.25
_WARM_RATIO = 0.75
_FOLDS = 5


class Chosen(NamedTuple):
    """A path of steps, what the criterion said of each, and which it picked."""

    steps: list[path.Step]
    criteria: FloatArray
    picked: int


def penalised(
    rows: Rows, submodel: Submodel, penalty: float | str, *, gamma: float = 0.25, refit: bool | None = None
) -> TorusFit:
    """The minimiser of J + λ Σ_ij |(P_ij, Q_ij)|, edges exactly zero.

    A number is λ; a word from `CRITERIA` picks it along a path, and the edges it selects are then fitted without
    penalty (`refit`, which is off where λ is given).
    """
    known = design(rows, submodel)
    if isinstance(penalty, str):
        word = check.choice(penalty, "penalty", CRITERIA)
        chosen = choose(known, word, gamma=gamma)
        return torus_fit(known, submodel, chosen.steps[chosen.picked], refit=refit is not False)
    size = check.single_positive(penalty, "penalty")
    return torus_fit(known, submodel, single(known, size, refit=bool(refit)), refit=bool(refit))


def single(known: Design, penalty: float, refit: bool = False) -> path.Step:
    """The minimum for one penalty, walked to from the largest."""
    solver = path.PathSolver(known)
    while solver.penalty * _WARM_RATIO > penalty:
        solver.step(solver.penalty * _WARM_RATIO, refit=False)
    return solver.step(penalty, refit=refit)


def choose(known: Design, criterion: str, *, gamma: float = 0.25, n_penalties: int = 40, ratio: float = 0.05) -> Chosen:
    """Walk a path until the criterion has long been rising."""
    solver = path.PathSolver(known)
    penalties = path.descending(solver.penalty, n_penalties, ratio)  # the first leaves no edge
    if criterion == "ebic":
        values: list[float] = []

        def enough(steps: list[path.Step]) -> bool:
            values.append(path.extended_bic(solver, steps[-1], gamma))
            return _long_rising(values, steps)

        steps = list(path.walk(solver, penalties, enough))
        return Chosen(steps, np.array(values), int(np.argmin(values)))
    scores = _held_out(known, penalties)
    steps = list(path.walk(solver, penalties[: scores.size], lambda steps: False))
    return Chosen(steps, scores[: len(steps)], int(np.argmin(scores[: len(steps)])))


def _long_rising(values: list[float], steps: list[path.Step]) -> bool:
    """Whether the best step lies far back and many edges have come since: a pause of the path is not its end."""
    best = int(np.argmin(values))
    then, now = (path.support(steps[k].point)[0].size for k in (best, -1))
    return len(values) - 1 - best >= _PATIENCE and now >= _MORE_EDGES * then + _PATIENCE


def subset(known: Design, rows: np.ndarray) -> Design:
    """Some rows of a design."""
    weights = known.weights[rows]
    z, flat = np.ascontiguousarray(known.z[:, rows]), np.ascontiguousarray(known.flat[:, :, rows])
    return known._replace(z=z, flat=flat, weights=weights / weights.mean())


def _held_out(known: Design, penalties: FloatArray) -> FloatArray:
    """J of the refits on rows that they did not see, in five folds taken in turn."""
    fold = np.arange(known.n_rows) % min(_FOLDS, known.n_rows)
    total = np.zeros(penalties.size)
    reached = penalties.size
    for k in range(int(fold.max()) + 1):
        train, test = subset(known, fold != k), subset(known, fold == k)
        scores: list[float] = []

        def enough(steps: list[path.Step], test: Design = test, scores: list[float] = scores) -> bool:
            scores.append(score_objective(test, steps[-1].refit))
            return _long_rising(scores, steps)

        for _ in path.walk(path.PathSolver(train), penalties, enough):
            pass
        reached = min(reached, len(scores))
        total[: len(scores)] += np.array(scores)
    return total[:reached] / (fold.max() + 1)


def natural_of(known: Design, submodel: Submodel, point: Point) -> Natural:
    """The natural parameters at a point, dense."""
    turn = np.ones(known.dimension) if submodel.directions is None else np.exp(1j * submodel.directions)
    P, Q = (matrix.toarray() for matrix in coupling_matrices(known, point))
    if known.sine:
        return Natural(point.own[:, 0] * turn, np.zeros((0, known.dimension), dtype=complex),
                       P * turn[:, None] * turn.conj(), Q * turn[:, None] * turn)  # fmt: skip
    own = point.own[:, 0::2] + 1j * point.own[:, 1::2]
    return Natural(own[:, 0].copy(), own[:, 1:].T.copy(), P, Q)


def torus_fit(known: Design, submodel: Submodel, step: path.Step, *, refit: bool) -> TorusFit:
    """A step of a path as a fit."""
    point = step.refit if refit else step.point
    converged = step.violation <= 1e-4 * max(step.penalty, 1e-3)
    if not converged:
        warnings.warn(
            f"penalised score matching with penalty={step.penalty:g} stopped with a subgradient of "
            f"{step.violation:.2g} after {step.sweeps} sweeps; raise the penalty, leave out angles that nearly "
            "determine each other, or choose a smaller submodel",
            ConvergenceWarning,
            stacklevel=4,
        )
    edges = np.zeros((known.dimension, known.dimension), dtype=bool)
    edges[path.support(point)] = True
    return TorusFit(
        *natural_of(known, submodel, point),
        method="penalised score matching",
        objective=step.refit_objective if refit and not math.isnan(step.refit_objective) else step.objective,
        converged=converged,
        gradient_norm=step.violation,
        n_iterations=step.sweeps,
        submodel=submodel.restricted(edges | edges.T) if refit else submodel,
        n_rows=known.n_rows,
        penalty=step.penalty,
    )
