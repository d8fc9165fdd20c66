"""Hyper-parameters of circular regression: leave-one-out densities (or the evidence) with weak priors, by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._gp_dense import DensePropagation, State, symmetric_inverse
from mgvm.models._gp_gradient import Score, evidence, leave_one_out
from mgvm.models._gp_noise import Groups, Noise
from mgvm.models._gp_prior import Prior
from mgvm.models._gp_tilted import Observations
from mgvm.models._short_steps import minimise

_PRIOR_SPREAD = 1.5  # standard deviation of the weak prior on every logarithm
_MOST = 50  # evaluations of expectation propagation while searching
_FEWER = 14  # once a place is known where it settles: what needs more is no place to stay at
_FAR = 3.0  # times that, while a step still changes the objective by a nat or more
_NEAR = 2.0  # of logarithms: from further away propagation starts anew
_SAME = 0.3  # of logarithms: so near to an earlier optimum a search would only find that again
_HOPELESS = 0.1  # times what it is behind: a search that promises less is given up
_LOST = 1e-2  # mismatch of a state that is no answer
_ROUGH, _FINE = 3e-3, 1e-7  # mismatch of expectation propagation while searching (its value is corrected), at the end


class Tuned(NamedTuple):
    """Hyper-parameters with the posterior they give."""

    prior: Prior
    rho: FloatArray
    state: State
    score: Score
    objective: float
    converged: bool

    @property
    def vector(self) -> FloatArray:
        """All hyper-parameters: the prior's, then the noise's."""
        return np.concatenate([self.prior.theta, self.rho])


@dataclass
class Tuning:
    """The problem: inputs, observations grouped by input, and what is to be learnt."""

    inputs: Any
    groups: Groups
    prior: Prior
    noise: Noise
    spread: float
    criterion: str = "loo"
    report: Callable[[float], object] = lambda value: None
    best: Tuned | None = field(default=None, init=False)
    _settling: bool = field(default=False, init=False)
    _last: float | None = field(default=None, init=False)
    _solved: list[tuple[FloatArray, FloatArray]] = field(default_factory=list, init=False)  # with their sites

    @property
    def start(self) -> FloatArray:
        """Where the search begins, and the centre of the weak prior."""
        return np.concatenate([self.prior.theta, self.noise.start])

    @property
    def prior_precision(self) -> float:
        """Of the weak prior on every hyper-parameter."""
        return _PRIOR_SPREAD**-2

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper bounds (p, 2)."""
        rest = np.tile([-12.0, 12.0], (self.noise.start.size, 1))
        return np.concatenate([self.prior.bounds, rest])

    def solve(self, vector: FloatArray, tolerance: float) -> tuple[Tuned, FloatArray]:
        """The posterior at given hyper-parameters, and the gradient of the objective."""
        prior, rho = self.prior.at(vector[: self.prior.theta.size]), vector[self.prior.theta.size :]
        matrix, pull_back = prior.with_gradient(self.inputs)
        problem = DensePropagation(inverse(matrix), Observations(self.groups, self.noise, rho, self.spread))
        state, converged = problem.run(self._near(vector), tolerance, self._most(tolerance))
        if converged:
            self._solved.append((vector, state.sites))
        score = (evidence if self.criterion == "evidence" else leave_one_out)(problem, state)
        gradient = np.concatenate([pull_back(score.covariance_gradient), score.noise_gradient])
        away = (vector - self.start) / _PRIOR_SPREAD
        objective = score.value - 0.5 * float(away @ away)
        return Tuned(prior, rho, state, score, objective, converged), gradient - away / _PRIOR_SPREAD

    def _near(self, vector: FloatArray) -> FloatArray | None:
        """Sites of the nearest hyper-parameters where propagation has settled, if any is near."""
        known = [(float(np.abs(vector - other).max()), sites) for other, sites in self._solved]
        distance, sites = min(known, key=lambda item: item[0], default=(np.inf, None))
        return sites if distance < _NEAR else None

    def _most(self, tolerance: float) -> int:
        """Evaluations that are worth while."""
        if tolerance <= _FINE:
            return 4 * _MOST
        return _MOST if self.best is None or not self.best.converged else _FEWER

    def search(self, starts: list[FloatArray], max_iterations: int = 60) -> Tuned:
        """The best of several searches; an interruption keeps the best so far."""
        # An observation tells about 0.1 nats of each logarithm, its prior the rest.
        curvature = 0.1 * float(self.groups.total.sum()) + _PRIOR_SPREAD**-2
        for start in starts:
            before, self._last, self._settling = self.best, None, False

            def redundant(vector: FloatArray, value: float, promised: float, before: Tuned | None = before) -> bool:
                """Whether an earlier search has ended nearby, or above all that this one can hope for."""
                if before is None or not before.converged:
                    return False
                behind = value + before.objective
                close = float(np.abs(vector - before.vector).max()) < _SAME
                return (close and behind > 0.0) or promised < _HOPELESS * behind

            minimise(
                self._negative, start, self.bounds, curvature=curvature, max_steps=max_iterations, redundant=redundant
            )
        assert self.best is not None
        return self.finish(self.best.vector)

    def finish(self, vector: FloatArray) -> Tuned:
        """The posterior at given hyper-parameters, to full accuracy."""
        return self.solve(vector, _FINE)[0]

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        found, gradient = self.solve(vector, _ROUGH if self._settling else _FAR * _ROUGH)
        self._settling = self._last is not None and abs(found.objective - self._last) < 1.0
        self._last = found.objective
        if self.best is None or (found.converged, found.objective) > (self.best.converged, self.best.objective):
            self.best = found
        self.report(found.objective)
        # Where the moments do not come to match, neither value nor gradient means much: the search steps back.
        lost = not found.converged and found.state.mismatch > _LOST and self.best.converged
        return (np.inf if lost else -found.objective), -gradient


def inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a covariance matrix; an error with the cure where there is none."""
    found = symmetric_inverse(np.array(matrix, dtype=float))
    if found is None:
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        raise ValueError(
            f"the kernel matrix is not positive definite (smallest eigenvalue {smallest:.3g}); use a valid kernel, or "
            "add a WhiteKernel that lifts its diagonal by more than that"
        )
    return found
