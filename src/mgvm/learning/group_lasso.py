"""Score matching with a group lasso on the edges, and its regularisation path.

    J(θ) + λ Σ_ij |θ_ij|,   θ_ij = (Re P_ij, Im P_ij, Re Q_ij, Im Q_ij),

sets all four numbers of an edge to zero together. It is solved exactly on a small active set of edges, from Gram
matrices of its nodes whose cost does not depend on the number of rows; one product of (2D, N) by (N, 2D) then gives the
gradient of J for every edge, and those whose slope exceeds λ join. What remains at the end satisfies the
optimality conditions of the whole problem.

On the active set, block coordinate descent: a node's objective is ½ θᵀGθ - vᵀθ, its own harmonics eliminated; the
numbers of an edge stand in the vectors of both its ends and are kept equal. The step of one edge minimises
½ θᵀHθ - cᵀθ + τ|θ| over its four numbers, H the sum of its two blocks of G.

The path walks from the largest λ that leaves an edge downwards, each fit started from the last, until an information
criterion (or the objective on held-out rows) has long been rising.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mgvm import _validation as check
from mgvm._numerics.elementary import entry, inner
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning.node_regression import (
    Indices,
    NodeDesign,
    couplings,
    edge_numbers,
    edge_numbers_sum,
    node_design,
    node_features,
    own_features,
)
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import WeightedRows, as_rows, count_distinct
from mgvm.learning.submodel import BoolArray, Submodel, SubmodelLike, submodel_for
from mgvm.natural.parameters import Natural

CRITERIA = ("ebic", "held-out")


@dataclass(frozen=True, eq=False, repr=False)
class RegularizationPath:
    """Group-lasso fits from the largest penalty downwards.

    Attributes
    ----------
    penalties, criteria : ndarray, shape (K,)
        The penalties, and what the criterion says of each; smaller is better.
    criterion : str
        Which one.
    chosen : int
        The place of the penalty picked.
    """

    penalties: FloatArray
    criteria: FloatArray
    criterion: str
    chosen: int
    _steps: tuple[PathStep, ...] = field(repr=False)
    _design: NodeDesign = field(repr=False)
    _submodel: Submodel = field(repr=False)

    @property
    def penalty(self) -> float:
        """The penalty picked."""
        return float(self.penalties[self.chosen])

    @property
    def n_edges(self) -> NDArray[np.int64]:
        """How many edges each penalty leaves."""
        return np.array([np.count_nonzero(step.point.used) for step in self._steps], dtype=np.int64)

    def edges(self, index: int | None = None) -> NDArray[np.int64]:
        """Pairs (i, j) of the fit at a place of the path, the one picked by default; shape (edges, 2)."""
        return np.argwhere(support(self._steps[self.chosen if index is None else index].point))

    def fit(self, index: int | None = None, *, refit: bool = True) -> TorusFit:
        """The fit at a place of the path, without penalty on its edges unless `refit` is off."""
        step = self._steps[self.chosen if index is None else index]
        return _as_fit(self._design, self._submodel, step, refit=refit)

    def __repr__(self) -> str:
        return (
            f"RegularizationPath({self.penalties.size} penalties from {self.penalties[0]:.3g} to "
            f"{self.penalties[-1]:.3g}, {self.criterion} picks {self.penalty:.3g} with {len(self.edges())} edges)"
        )


def regularization_path(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: SubmodelLike = None,
    weights: ArrayLike | None = None,
    criterion: str = "ebic",
    gamma: float = 0.25,
) -> RegularizationPath:
    """Minimise J(θ) + λ Σ_ij |(P_ij, Q_ij)| for falling λ, each from the last, and pick a λ.

    J is the score-matching objective. Every fit is exact: the optimality conditions are checked for all edges. The
    first λ is the largest that leaves an edge; 40 go down to a twentieth of it, or end where the criterion has long
    been rising.

    Parameters
    ----------
    data : array_like, shape (N, D)
        Angles in radians, one row an observation.
    order, submodel, weights
        As in `score_matching`.
    criterion : {"ebic", "held-out"}
        "ebic": 2N J + Σ_e k_e (log N + 4γ log(D)/q_e) of the fit without penalty on the edges selected. J is no
        log-likelihood: 2N times its fall by a null edge is χ² weighted by the eigenvalues of H⁻¹Σ, H the Hessian of J
        and Σ the covariance of its gradient; k_e = tr(H_e⁻¹Σ_e) in place of the q_e numbers of an edge puts the two
        on one scale. "held-out": the same fit's J on rows left out, in five folds; it keeps more edges.
    gamma : float
        How much EBIC charges for the number of edges there are to choose from; 0 is BIC.

    Returns
    -------
    RegularizationPath

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.learning import regularization_path
    >>> dist = MGvM(a=[1.0, 1.0j, 0.5], P=[[0.0, 0.8, 0.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> regularization_path(dist.sample(1000, rng=0)).edges()
    array([[0, 1]])
    """
    harmonics = check.integer(order, "order", minimum=1)
    word = check.choice(criterion, "criterion", CRITERIA)
    charge = float(check.non_negative(gamma, "gamma"))
    given = as_rows(data, weights)
    model = submodel_for(submodel, given, harmonics)
    known = node_design(given, model)
    found = choose_penalty(known, word, gamma=charge)
    penalties = np.array([step.penalty for step in found.steps])
    return RegularizationPath(penalties, found.criteria, word, found.picked, tuple(found.steps), known, model)


# ---- choice of a penalty ---------------------------------------------------------------------------------------------


class ChosenPenalty(NamedTuple):
    """A path of steps, what the criterion said of each, and which it picked."""

    steps: list[PathStep]
    criteria: FloatArray
    picked: int


def fit_group_lasso(rows: WeightedRows, submodel: Submodel, penalty: float | str) -> TorusFit:
    """The minimiser of J + λ Σ_ij |(P_ij, Q_ij)|, edges exactly zero.

    A number is λ; a word from `CRITERIA` picks it along a path, and the edges it selects are then fitted without
    penalty.
    """
    known = node_design(rows, submodel)
    if isinstance(penalty, str):
        word = check.choice(penalty, "penalty", CRITERIA)
        chosen = choose_penalty(known, word)
        return _as_fit(known, submodel, chosen.steps[chosen.picked], refit=True)
    goal = check.single_positive(penalty, "penalty")
    solver, ratio = PathSolver(known), 0.75
    while solver.penalty * ratio > goal:  # walked to from the largest, for good starts
        solver.step(solver.penalty * ratio, refit=False)
    return _as_fit(known, submodel, solver.step(goal, refit=False), refit=False)


def choose_penalty(
    known: NodeDesign, criterion: str, *, gamma: float = 0.25, n_penalties: int = 40, smallest: float = 0.05
) -> ChosenPenalty:
    """Walk a path until the criterion has long been rising; its last penalty is `smallest` times the first."""
    solver = PathSolver(known)
    # Above the largest by more than rounding, so that the path begins with independence.
    penalties = solver.penalty * (1.0 + 1e-9) * smallest ** (np.arange(n_penalties) / max(n_penalties - 1, 1))
    if criterion == "ebic":
        steps, values = walk(solver, penalties, lambda step: extended_bic(solver, step, gamma))
        return ChosenPenalty(steps, np.array(values), int(np.argmin(values)))
    scores = _held_out(known, penalties)
    steps, _ = walk(solver, penalties[: scores.size], lambda step: step.penalty)  # which falls, and so ends no path
    return ChosenPenalty(steps, scores[: len(steps)], int(np.argmin(scores[: len(steps)])))


def walk(
    solver: PathSolver, penalties: FloatArray, score: Callable[[PathStep], float]
) -> tuple[list[PathStep], list[float]]:
    """The steps of a path with their scores, until these have long been rising or a node is crowded.

    The best step then lies far back, and many edges have come since: a pause of the path is not its end.
    """
    steps: list[PathStep] = []
    values: list[float] = []
    for penalty in penalties:
        steps.append(solver.step(float(penalty)))
        values.append(score(steps[-1]))
        best = int(np.argmin(values))
        then, now = (np.count_nonzero(steps[k].point.used) for k in (best, -1))
        rising = len(values) - 1 - best >= 8 and now >= 1.25 * then + 8
        if rising or _is_crowded(solver, steps[-1].refit):
            break
    return steps, values


def _subset(known: NodeDesign, rows: np.ndarray) -> NodeDesign:
    """Some rows of a design."""
    weights = known.weights[rows]
    z, flat = np.ascontiguousarray(known.z[:, rows]), np.ascontiguousarray(known.flat[:, :, rows])
    return known._replace(z=z, flat=flat, weights=weights / weights.mean())


def _held_out(known: NodeDesign, penalties: FloatArray, n_folds: int = 5) -> FloatArray:
    """J of the refits on held-out rows, in folds taken in turn."""
    fold = np.arange(known.n_rows) % min(n_folds, known.n_rows)
    total = np.zeros(penalties.size)
    reached = penalties.size
    for k in range(int(fold.max()) + 1):
        train, test = _subset(known, fold != k), _subset(known, fold == k)
        _, scores = walk(PathSolver(train), penalties, lambda step, test=test: score_objective(test, step.refit))  # type: ignore[misc]
        reached = min(reached, len(scores))
        total[: len(scores)] += np.array(scores)
    return total[:reached] / (fold.max() + 1)


def _natural(known: NodeDesign, submodel: Submodel, point: EdgePoint) -> Natural:
    """The natural parameters at a point, dense."""
    turn = np.ones(known.dimension) if submodel.directions is None else np.exp(1j * submodel.directions)
    P, Q = (matrix.toarray() for matrix in coupling_matrices(known, point))
    if known.sine:
        b = np.zeros((0, known.dimension), dtype=complex)
        return Natural(point.own[:, 0] * turn, b, P * turn[:, None] * turn.conj(), Q * turn[:, None] * turn)
    own = point.own[:, 0::2] + 1j * point.own[:, 1::2]
    return Natural(own[:, 0].copy(), own[:, 1:].T.copy(), P, Q)


def _as_fit(known: NodeDesign, submodel: Submodel, step: PathStep, *, refit: bool) -> TorusFit:
    """A step of a path as a fit."""
    point = step.refit if refit else step.point
    converged = step.violation <= 1e-4 * max(step.penalty, 1e-3)
    if not converged:
        warnings.warn(
            f"the group lasso with penalty={step.penalty:g} stopped with a subgradient of "
            f"{step.violation:.2g} after {step.sweeps} sweeps; raise the penalty, leave out angles that nearly "
            "determine each other, or choose a smaller submodel",
            ConvergenceWarning,
            stacklevel=4,
        )
    edges = support(point)
    return TorusFit(
        *_natural(known, submodel, point),
        method="group lasso",
        objective=step.refit_objective if refit and not math.isnan(step.refit_objective) else step.objective,
        converged=converged,
        gradient_norm=step.violation,
        n_iterations=step.sweeps,
        submodel=submodel.restricted(edges | edges.T) if refit else submodel,
        n_rows=known.n_rows,
        penalty=step.penalty,
    )


# ---- the path --------------------------------------------------------------------------------------------------------


class PathStep(NamedTuple):
    """One penalty of a path: the minimum with it, and the fit without it on the same edges."""

    penalty: float
    point: EdgePoint
    objective: float  # J + λ Σ|θ|
    refit: EdgePoint
    refit_objective: float  # J
    violation: float  # of the optimality conditions, over all edges
    sweeps: int


class PathSolver:
    """Group-lasso fits, each started from the last."""

    def __init__(self, design: NodeDesign, tolerance: float = 1e-6):
        self.design = design
        self.allowed: BoolArray = np.triu(design.free.any(axis=2), 1)
        self.tolerance = tolerance
        most = 3 * (design.n_own + 4 * design.dimension)  # of which no node is crowded
        self.distinct = count_distinct(design.flat.reshape(-1, design.n_rows).T, design.weights, most)
        self.active = ActiveSet(design)
        self.point = self.active.solve(np.zeros(0), np.zeros((0, 4)), 1e-14)[0]
        self.norms = np.linalg.norm(self.active.gradient(self.point), axis=2)
        self.penalty = float(np.max(self.norms, initial=0.0, where=self.allowed))

    def step(self, penalty: float, refit: bool = True) -> PathStep:
        """The exact minimum for one penalty; a last look at the slopes of all edges proves it."""
        # Slopes seldom change faster than the penalty (the strong rule); what it overlooks the check below brings in.
        reach = max(2.0 * penalty - self.penalty, 0.5 * penalty)
        self._join(self.norms >= reach)
        total = 0
        while True:
            tau = np.full(self.active.first.size, penalty)
            goal = self.tolerance * max(penalty, 1e-3)
            self.point, value, sweeps = self.active.solve(tau, self._extended_start(), goal)
            total += sweeps
            gradient = self.active.gradient(self.point)
            self.norms = np.linalg.norm(gradient, axis=2)
            if not self._join(self.norms > penalty * (1.0 + self.tolerance)):
                break
        self.penalty = penalty
        value += float(tau @ np.linalg.norm(self.point.numbers, axis=1))
        again, plain = self.refit(self.point) if refit else (self.point, math.nan)
        return PathStep(penalty, self.point, value, again, plain, self._violation(gradient, penalty), total)

    def refit(self, point: EdgePoint) -> tuple[EdgePoint, float]:
        """The minimum of J over the edges that are not zero."""
        held = np.where(point.used, 0.0, np.inf)
        return self.active.solve(held, point.numbers, 1e-7)[:2]

    def _extended_start(self) -> FloatArray:
        """The numbers of the edges in play at the last point, zero for those that joined since."""
        more = self.active.first.size - self.point.numbers.shape[0]
        return np.concatenate([self.point.numbers, np.zeros((more, 4))])

    def _join(self, wanted: BoolArray) -> bool:
        """Put the edges wanted into play; whether any was not yet."""
        first, second = np.nonzero(wanted & self.allowed & ~self.active.members)
        if first.size:
            self.active.add(first, second)
        return bool(first.size)

    def _violation(self, gradient: FloatArray, penalty: float) -> float:
        """How far the least subgradient is from zero, over all edges."""
        point, free = self.point, self.allowed
        outside = np.where(free, self.norms - penalty, 0.0)
        length = np.linalg.norm(point.numbers, axis=1)
        used = length > 0
        i, j = point.first[used], point.second[used]
        outside[i, j] = 0.0
        push = penalty / length[used]
        inside = gradient[i, j] + push[:, None] * point.numbers[used]
        return max(float(outside.max(initial=0.0)), float(np.abs(inside).max(initial=0.0)))


def effective_parameters(solver: PathSolver, point: EdgePoint) -> FloatArray:
    """tr(H_e⁻¹ Σ_e) of every edge of a refit, H_e the Hessian of J and Σ_e the covariance of its rows' gradients.

    Under a null edge 2N times the fall of J is a sum of χ²₁ weighted by the eigenvalues of H⁻¹Σ, where a log-likelihood
    would have weights 1: so this many parameters is what the edge counts for (Takeuchi; Varin and Vidoni).
    """
    design = solver.design
    used = np.flatnonzero(point.used)
    g = slopes(design, point)[0]
    out = np.empty(used.size)
    for start in range(0, used.size, 64):  # edges at a time: their scores are (64, 4, N)
        part = slice(start, start + 64)
        mine = used[part]
        free = design.free[point.first[mine], point.second[mine]]
        ends = point.first[mine], point.second[mine]
        hessian, *less = solver.active.profile(mine)
        rows = edge_scores(design, g, *ends)
        for end, by in zip(ends, less, strict=True):
            rows -= np.matmul(by.transpose(0, 2, 1), np.stack([own_scores(design, int(node), g[node]) for node in end]))
        rows *= design.weights
        spread = np.matmul(rows, rows.transpose(0, 2, 1)) / design.n_rows
        whole = hessian + np.eye(4) * ~free[:, None, :]
        out[part] = np.trace(np.linalg.solve(whole, spread), axis1=1, axis2=2)
    return out


def extended_bic(solver: PathSolver, step: PathStep, gamma: float) -> float:
    """2N J + Σ_e tr(H_e⁻¹Σ_e) (log N + 4γ log(D)/q_e) at the refit, q_e the number of free reals of the edge."""
    design = solver.design
    used = step.refit.used
    numbers = design.free[step.refit.first[used], step.refit.second[used]].sum(axis=1)
    each = math.log(design.n_rows) + 4.0 * gamma * math.log(design.dimension) / numbers
    return 2.0 * design.n_rows * step.refit_objective + float(effective_parameters(solver, step.refit) @ each)


class TooFewAnglesError(ValueError):
    """A column has too few different angles for its own harmonics."""


def _refuse_singular(gram: FloatArray, node: int, least: float = 1e-14) -> None:
    """Refuse a column whose own harmonics hang together linearly: of order T they need 2T angles that differ."""
    scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    if np.linalg.eigvalsh(gram / scale / scale[:, None])[0] < least:
        raise TooFewAnglesError(
            f"column {node} of data has too few different angles for {gram.shape[0]} numbers of its own; lower the "
            "order, leave the column out, or give more rows"
        )


def _is_crowded(solver: PathSolver, point: EdgePoint) -> bool:
    """Whether some node has more parameters than a third of the different rows."""
    degree = np.bincount(np.concatenate([point.first[point.used], point.second[point.used]]))
    return bool(solver.design.n_own + 4 * degree.max(initial=0) > solver.distinct / 3)


def support(point: EdgePoint) -> BoolArray:
    """Which edges i < j are not zero, (D, D)."""
    mask = np.zeros((len(point.own), len(point.own)), dtype=bool)
    mask[point.first[point.used], point.second[point.used]] = True
    return mask


# ---- the active set --------------------------------------------------------------------------------------------------


class EdgePoint(NamedTuple):
    """Own numbers (D, n_own) and edges with their numbers (edges, 4)."""

    own: FloatArray
    first: Indices
    second: Indices
    numbers: FloatArray

    @property
    def used(self) -> BoolArray:
        """Which edges are not zero."""
        return np.asarray(self.numbers.any(axis=1))


class ActiveSet:
    """Edges in play with their Gram matrices, and where they stand."""

    def __init__(self, design: NodeDesign):
        self.design = design
        size = design.dimension
        self.first = self.second = np.zeros(0, dtype=np.intp)
        self.neighbours: list[list[int]] = [[] for _ in range(size)]
        self.members = np.zeros((size, size), dtype=bool)
        self._grams: list[FloatArray] = [np.zeros((0, 0))] * size
        self._linear: list[FloatArray] = [np.zeros(0)] * size
        self._own_alone: list[FloatArray] = [np.zeros(0)] * size
        self._own_less: list[FloatArray] = [np.zeros((0, 0))] * size
        self._constant = np.zeros(size)
        self._measure(range(size))
        self._blocks = self._pack()

    def add(self, first: Indices, second: Indices) -> None:
        """Put edges i < j into play, at zero."""
        for i, j in zip(first, second, strict=True):
            self.neighbours[i].append(int(j))
            self.neighbours[j].append(int(i))
        self.members[first, second] = True
        self.first, self.second = np.concatenate([self.first, first]), np.concatenate([self.second, second])
        self._measure(np.unique(np.concatenate([first, second])))
        self._blocks = self._pack()

    def _measure(self, nodes: Indices | range) -> None:
        """Gram matrices and linear terms of some nodes, their own harmonics eliminated.

        Own numbers o carry no penalty and belong to one node, o = G_oo⁻¹(v_o - G_oe θ_e): what is left is a quadratic
        in the edges alone with the Schur complement, which stays well conditioned for concentrated angles.
        """
        design, own = self.design, self.design.n_own
        for node in nodes:
            u, v = node_features(design, int(node), np.array(self.neighbours[node], dtype=np.intp))
            gram = (design.weights * u) @ u.T / design.n_rows
            linear = v @ design.weights / design.n_rows
            right = np.column_stack([linear[:own], gram[:own, own:]])
            _refuse_singular(gram[:own, :own], int(node))
            answer: FloatArray = np.linalg.solve(gram[:own, :own], right).astype(np.float64)
            self._own_alone[node], self._own_less[node] = answer[:, 0], answer[:, 1:]
            self._grams[node] = gram[own:, own:] - gram[own:, :own] @ answer[:, 1:]
            self._linear[node] = linear[own:] - gram[own:, :own] @ answer[:, 0]
            self._constant[node] = -0.5 * linear[:own] @ answer[:, 0]

    def _pack(self) -> Blocks:
        sizes = np.array([gram.shape[0] for gram in self._grams], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes**2)])[:-1]
        bases = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        # An edge joins the lists of both its ends in the same order in which it joins the list of edges.
        met = np.zeros(self.design.dimension, dtype=np.int64)
        places = np.empty((2, self.first.size), dtype=np.int64)
        for edge, (i, j) in enumerate(zip(self.first, self.second, strict=True)):
            places[:, edge] = 4 * met[i], 4 * met[j]
            met[i] += 1
            met[j] += 1
        gram = np.concatenate([gram.ravel() for gram in self._grams])
        edges = self.first.astype(np.int64), self.second.astype(np.int64)
        return Blocks(gram, starts, bases, sizes, *edges, places[0], places[1])

    def solve(self, tau: FloatArray, start: FloatArray, tolerance: float) -> tuple[EdgePoint, float, int]:
        """Minimise J + Σ τ_e|θ_e| over the edges in play (those of infinite τ held at zero); with J and sweeps."""
        blocks = self._blocks
        theta = np.zeros(int(blocks.size.sum()))
        at_first = (blocks.base[self.first] + blocks.at_first)[:, None] + np.arange(4)
        at_second = (blocks.base[self.second] + blocks.at_second)[:, None] + np.arange(4)
        theta[at_first] = theta[at_second] = np.where(np.isinf(tau)[:, None], 0.0, start)
        linear = np.concatenate(self._linear)
        parts = [slice(b, b + size) for b, size in zip(blocks.base, blocks.size, strict=True)]
        slope = np.concatenate([gram @ theta[part] for gram, part in zip(self._grams, parts, strict=True)]) - linear
        sweeps = descend(blocks, tau, theta, slope, 2000, tolerance)
        value = 0.5 * float(theta @ (slope - linear)) + float(self._constant.sum())
        less = zip(self._own_alone, self._own_less, parts, strict=True)
        own = np.stack([alone - by @ theta[part] for alone, by, part in less])
        return EdgePoint(own, self.first, self.second, theta[at_first]), value, sweeps

    def profile(self, edges: Indices) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of some edges the 4 x 4 blocks of the Hessian, and G_oo⁻¹ G_oe of both their ends, (edges, n_own, 4)."""
        blocks, own = self._blocks, self.design.n_own
        hessian, less = np.empty((edges.size, 4, 4)), np.empty((2, edges.size, own, 4))
        for k, e in enumerate(edges):
            i, j = self.first[e], self.second[e]
            at_i, at_j = (slice(place[e], place[e] + 4) for place in (blocks.at_first, blocks.at_second))
            hessian[k] = self._grams[i][at_i, at_i] + self._grams[j][at_j, at_j]
            less[0, k], less[1, k] = self._own_less[i][:, at_i], self._own_less[j][:, at_j]
        return hessian, less[0], less[1]

    def gradient(self, point: EdgePoint) -> FloatArray:
        """∂J of the four numbers of every edge, (D, D, 4), the same of (i, j) and (j, i)."""
        c = pulls(self.design.z, slopes(self.design, point)[0])
        c *= self.design.weights / self.design.n_rows
        ends = edge_numbers_sum(self.design, np.arange(self.design.dimension), c)
        return ends + ends.transpose(1, 0, 2)


def slopes(design: NodeDesign, point: EdgePoint) -> tuple[FloatArray, FloatArray]:
    """g_d and -∂²_d log p of every row, both (D, N)."""
    P, Q = coupling_matrices(design, point)
    pull = np.asarray(P @ design.z)
    pull += np.asarray(Q @ design.z.conj())
    pull *= design.z.conj()
    g, curvature = pull.imag.copy(), pull.real.copy()
    for node in range(design.dimension):
        u, v = own_features(design, node)
        g[node] += point.own[node] @ u
        curvature[node] += point.own[node] @ v
    return g, curvature


def coupling_matrices(design: NodeDesign, point: EdgePoint) -> tuple[sparse.csr_array, sparse.csr_array]:
    """P and Q as sparse matrices, of edges that are not zero."""
    i, j = point.first[point.used], point.second[point.used]
    p, q = couplings(design, point.numbers[point.used])
    shape = (design.dimension, design.dimension)
    places = np.concatenate([i, j]), np.concatenate([j, i])
    P = sparse.coo_array((np.concatenate([p, p.conj()]), places), shape=shape)
    Q = sparse.coo_array((np.concatenate([q, q]), places), shape=shape)
    return P.tocsr(), Q.tocsr()


def pulls(z: ComplexArray, g: FloatArray) -> ComplexArray:
    """-(1 + i g_d) conj(z_d): times z_j or conj(z_j) its real and minus its imaginary part are u g - v of an edge."""
    return (-1.0 - 1j * g) * z.conj()


def score_objective(design: NodeDesign, point: EdgePoint) -> float:
    """J on the rows of a design."""
    g, curvature = slopes(design, point)
    return float(((0.5 * g**2 - curvature) @ design.weights).sum() / design.n_rows)


def own_scores(design: NodeDesign, node: int, g: FloatArray) -> FloatArray:
    """The gradient of J of every row along the harmonics of one angle, (n_own, N)."""
    u, v = own_features(design, node)
    return u * g - v


def edge_scores(design: NodeDesign, g: FloatArray, first: Indices, second: Indices) -> FloatArray:
    """The gradient of J of every row along some edges, (edges, 4, N)."""
    out = edge_numbers(design, first, second, pulls(design.z[first], g[first]))
    out += edge_numbers(design, second, first, pulls(design.z[second], g[second]))
    return out


# ---- block coordinate descent ----------------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """Gram matrices row by row in one vector, and where nodes and edges stand.

    Node d has `size[d]` numbers from `base[d]` on and its Gram matrix from `start[d]` on; edge e stands at
    `at_first[e]` in the vector of node `first[e]` (counted inside it) and at `at_second[e]` in that of `second[e]`.
    """

    gram: np.ndarray
    start: np.ndarray
    base: np.ndarray
    size: np.ndarray
    first: np.ndarray
    second: np.ndarray
    at_first: np.ndarray
    at_second: np.ndarray


@inner()
def _add(blocks: Blocks, node: int, place: int, step: np.ndarray, theta: np.ndarray, slope: np.ndarray) -> None:
    """θ += step at a place of one node, and what follows for its slope Gθ - v."""
    size, base = blocks.size[node], blocks.base[node]
    for k in range(4):
        change = step[k]
        if change == 0.0:
            continue
        theta[base + place + k] += change
        row = blocks.start[node] + (place + k) * size
        for i in range(size):
            slope[base + i] += blocks.gram[row + i] * change


@inner()
def _edge_minimum(hessian: np.ndarray, pull: np.ndarray, tau: float, out: np.ndarray) -> None:
    """The minimiser of ½ θᵀHθ - cᵀθ + τ|θ|, from what `out` holds, by proximal steps."""
    norm = 0.0
    for k in range(4):
        norm += pull[k] * pull[k]
    if norm <= tau * tau:
        for k in range(4):
            out[k] = 0.0
        return
    bound = 1e-300
    for k in range(4):
        row = 0.0
        for i in range(4):
            row += abs(hessian[k, i])
        bound = max(bound, row)
    trial = np.empty(4)
    for _ in range(50):
        norm = 0.0
        for k in range(4):
            trial[k] = out[k] * bound + pull[k]
            for i in range(4):
                trial[k] -= hessian[k, i] * out[i]
            norm += trial[k] * trial[k]
        keep = max(0.0, 1.0 - tau / max(np.sqrt(norm), 1e-300)) / bound
        moved, length = 0.0, 0.0
        for k in range(4):
            value = trial[k] * keep
            moved += (value - out[k]) ** 2
            length += value * value
            out[k] = value
        if moved <= 1e-24 * length:
            return


@inner()
def _edge_step(
    blocks: Blocks, edge: int, tau: float, work: tuple[np.ndarray, ...], theta: np.ndarray, slope: np.ndarray
) -> float:
    """Move one edge to its minimum; how much that changed the slope, at most."""
    hessian, pull, value = work
    i, j = blocks.first[edge], blocks.second[edge]
    at_i, at_j = blocks.at_first[edge], blocks.at_second[edge]
    place, other = blocks.base[i] + at_i, blocks.base[j] + at_j
    norm, current = 0.0, 0.0
    for k in range(4):
        pull[k] = -(slope[place + k] + slope[other + k])
        value[k] = theta[place + k]
        norm += pull[k] * pull[k]
        current += abs(value[k])
    if current == 0.0 and norm <= tau * tau:
        return 0.0
    for k in range(4):
        row_i = blocks.start[i] + (at_i + k) * blocks.size[i] + at_i
        row_j = blocks.start[j] + (at_j + k) * blocks.size[j] + at_j
        for m in range(4):
            hessian[k, m] = blocks.gram[row_i + m] + blocks.gram[row_j + m]
            pull[k] += hessian[k, m] * value[m]
    _edge_minimum(hessian, pull, tau, value)
    change = 0.0
    for k in range(4):
        value[k] -= theta[place + k]
        change = max(change, abs(value[k]) * hessian[k, k])
    _add(blocks, i, at_i, value, theta, slope)
    _add(blocks, j, at_j, value, theta, slope)
    return change


@entry()
def descend(
    blocks: Blocks, tau: np.ndarray, theta: np.ndarray, slope: np.ndarray, sweeps: int, tolerance: float
) -> int:
    """Sweep over edges until no step changes a slope by more than the tolerance; θ and slope in place.

    Edges with an infinite τ stay at zero. Returns the number of sweeps.
    """
    work = (np.empty((4, 4)), np.empty(4), np.empty(4))
    for sweep in range(sweeps):
        change = 0.0
        for edge in range(blocks.first.size):
            if tau[edge] < np.inf:
                change = max(change, _edge_step(blocks, edge, tau[edge], work, theta, slope))
        if change <= tolerance:
            return sweep + 1
    return sweeps
