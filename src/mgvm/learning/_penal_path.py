"""The path of penalised fits from the largest penalty that leaves an edge downwards, and its information criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.learning._edge_design import Design, Indices
from mgvm.learning._penal_active import ActiveSet, Point, edge_scores, own_scores, slopes
from mgvm.learning.submodel import BoolArray

_EDGES_AT_ONCE = 64


class Step(NamedTuple):
    """One penalty of a path: the penalised minimum and the fit without penalty on its edges."""

    penalty: float
    point: Point
    objective: float  # J + λ Σ w|θ|
    refit: Point
    refit_objective: float  # J
    violation: float  # of the optimality conditions, over all edges
    sweeps: int


def largest_penalty(gradient: FloatArray, weights: FloatArray) -> float:
    """The smallest λ that leaves no edge: max |∂_e J|/w_e at independence."""
    return float(np.max(np.linalg.norm(gradient, axis=0) / weights))


class PathSolver:
    """Penalised fits, each started from the last."""

    def __init__(self, design: Design, weights: FloatArray | None = None, tolerance: float = 1e-6):
        size = design.dimension
        self.design = design
        self.weights = np.ones((size, size)) if weights is None else weights
        self.allowed: BoolArray = np.triu(design.free.any(axis=2) & np.isfinite(self.weights), 1)
        self.tolerance = tolerance
        self.active = ActiveSet(design)
        self.point = self.active.solve(np.zeros(0), np.zeros((0, 4)), 1e-14)[0]
        self.norms = np.linalg.norm(self.active.gradient(self.point), axis=0)
        self.penalty = float(np.max(self.norms / self.weights, initial=0.0, where=self.allowed))

    def step(self, penalty: float, refit: bool = True) -> Step:
        """The exact minimum for one penalty; a last look at the slopes of all edges proves it."""
        # Slopes seldom change faster than the penalty (the strong rule); what it overlooks the check below brings in.
        reach = max(2.0 * penalty - self.penalty, 0.5 * penalty)
        self._join(self.norms >= self.weights * reach)
        total = 0
        while True:
            tau = penalty * self.weights[self.active.first, self.active.second]
            goal = self.tolerance * max(penalty, 1e-3)
            self.point, value, sweeps, _ = self.active.solve(tau, self._padded(), goal)
            total += sweeps
            gradient = self.active.gradient(self.point)
            self.norms = np.linalg.norm(gradient, axis=0)
            if not self._join(self.norms > self.weights * penalty * (1.0 + self.tolerance)):
                break
        self.penalty = penalty
        value += float(tau @ np.linalg.norm(self.point.numbers, axis=1))
        again, plain = self.refit(self.point) if refit else (self.point, math.nan)
        return Step(penalty, self.point, value, again, plain, self._violation(gradient, penalty), total)

    def refit(self, point: Point) -> tuple[Point, float]:
        """The minimum of J over the edges that are not zero."""
        held = np.where(point.numbers.any(axis=1), 0.0, np.inf)
        again, value, _, _ = self.active.solve(held, point.numbers, 1e-7)
        return again, value

    def _padded(self) -> FloatArray:
        more = self.active.first.size - self.point.numbers.shape[0]
        return np.concatenate([self.point.numbers, np.zeros((more, 4))])

    def _join(self, wanted: BoolArray) -> bool:
        first, second = np.nonzero(wanted & self.allowed & ~self.active.members)
        if first.size:
            self.active.add(first, second)
        return bool(first.size)

    def _violation(self, gradient: FloatArray, penalty: float) -> float:
        """How far the least subgradient is from zero, over all edges."""
        point, free = self.point, self.allowed
        outside = np.where(free, self.norms - penalty * self.weights, 0.0)
        length = np.linalg.norm(point.numbers, axis=1)
        used = length > 0
        i, j = point.first[used], point.second[used]
        outside[i, j] = 0.0
        push = penalty * self.weights[i, j] / length[used]
        inside = gradient[:, i, j].T + push[:, None] * point.numbers[used]
        return max(float(outside.max(initial=0.0)), float(np.abs(inside).max(initial=0.0)))


def effective_parameters(solver: PathSolver, point: Point) -> FloatArray:
    """tr(H_e⁻¹ Σ_e) of every edge of a refit, H_e the Hessian of J and Σ_e the covariance of its rows' gradients.

    Under a null edge 2N times the fall of J is a sum of χ²₁ weighted by the eigenvalues of H⁻¹Σ, where a log-likelihood
    would have weights 1: so this many parameters is what the edge counts for (Takeuchi; Varin and Vidoni).
    """
    design = solver.design
    used = np.flatnonzero(point.numbers.any(axis=1))
    g = slopes(design, point)[0]
    out = np.empty(used.size)
    for start in range(0, used.size, _EDGES_AT_ONCE):
        part = slice(start, start + _EDGES_AT_ONCE)
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


def extended_bic(solver: PathSolver, step: Step, gamma: float) -> float:
    """2N J + Σ_e tr(H_e⁻¹Σ_e) (log N + 4γ log(D)/q_e) at the refit, q_e the number of free reals of the edge."""
    design = solver.design
    used = step.refit.numbers.any(axis=1)
    numbers = design.free[step.refit.first[used], step.refit.second[used]].sum(axis=1)
    each = math.log(design.n_rows) + 4.0 * gamma * math.log(design.dimension) / numbers
    return 2.0 * design.n_rows * step.refit_objective + float(effective_parameters(solver, step.refit) @ each)


def descending(largest: float, count: int, ratio: float) -> FloatArray:
    """Penalties evenly spaced in the logarithm."""
    # Above the largest by more than rounding, so that the path begins with independence.
    return largest * (1.0 + 1e-9) * ratio ** (np.arange(count) / max(count - 1, 1))


def walk(solver: PathSolver, penalties: FloatArray, stop: Callable[[list[Step]], bool]) -> Iterator[Step]:
    """The steps of a path until `stop` has seen enough or a node has as many parameters as rows."""
    steps: list[Step] = []
    for penalty in penalties:
        step = solver.step(float(penalty))
        steps.append(step)
        yield step
        if stop(steps) or crowded(solver.design, step.refit):
            return


def crowded(design: Design, point: Point) -> bool:
    """Whether some node has more parameters than a third of the rows."""
    used = point.numbers.any(axis=1)
    degree = np.bincount(np.concatenate([point.first[used], point.second[used]]), minlength=design.dimension)
    return bool(design.n_own + 4 * degree.max(initial=0) > design.n_rows / 3)


def support(point: Point) -> tuple[Indices, Indices]:
    """The edges that are not zero."""
    used = point.numbers.any(axis=1)
    return point.first[used], point.second[used]
