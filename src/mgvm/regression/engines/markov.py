"""Expectation propagation on a line under Matérn kernels, which are Markov there: the dense engine's answer in O(N).

A Matérn process of ν = p - ½ is one component of a p-dimensional Markov process, a constant is one that never moves,
and sums of them stack. So the Gaussian posterior of all inputs needs no N x N matrix: it is smoothed from end to end
(`mgvm._numerics.smoothing`), and so is what every marginal answers to a change of every site, which is all that
Newton's steps and the adjoint of leave-one-out ask for (`mgvm.regression.engines.dense`). The nugget is summed out
input by input. Slopes in the kernel's hyper-parameters are central differences of the smoothed moments at given sites,
which are smooth functions of them. A query is one more input with no site.

In units of ℓ/√(2ν) the process is dx = F x dt + noise with F = -1 + N, N nilpotent, so that exp(Ft) =
e^{-t} Σ_k (Nt)^k/k! ends after p terms, and with the stationary covariance P a step adds Q = P - A P Aᵀ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from mgvm._numerics.smoothing import Chain, Smoothed, line_response, smooth
from mgvm._validation import FloatArray
from mgvm.inference._planar_gaussian import expected_statistics, site_precision
from mgvm.regression.engines.base import Problem, Scored
from mgvm.regression.engines.dense import (
    DenseEngine,
    DenseSettings,
    DenseSolution,
    PlanarPosterior,
    Propagation,
    leave_one_out,
)
from mgvm.regression.prior import NUGGET, Prior, line_terms

# ---- the engine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class MarkovPosterior(PlanarPosterior):
    """Sites of all inputs, from which any point is smoothed."""

    sites: FloatArray  # (N, 5)

    def predict_plane(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (M, 2) and covariance (M, 2, 2) of the planar vector at query points."""
        times = np.concatenate([self.inputs[:, 0], np.asarray(queries, dtype=float).reshape(-1)])
        order = np.argsort(times, kind="stable")
        sites = np.concatenate([self.sites, np.zeros((times.size - len(self.sites), 5))])
        joint = smooth_line(Line.of(self.prior.kernels[0], times[order]), sites[order])
        assert joint is not None  # queries have no site: it exists as it does without them
        where = np.argsort(order)[len(self.sites) :]
        return joint.mean[where], joint.marginal[where]


class MarkovEngine(DenseEngine):
    """Expectation propagation for one input column and sums of constants and Matérn kernels, O(N) an evaluation."""

    def __init__(
        self,
        problem: Problem,
        tol: float | None = None,
        settings: DenseSettings = DenseSettings(),  # noqa: B008, frozen
        *,
        stretches: int = 4,
    ):
        kernel, times = problem.prior.kernels[0], np.asarray(problem.inputs, dtype=float)
        if problem.prior.pair != "shared" or line_terms(kernel) is None:
            raise ValueError(
                "inference='markov' needs one kernel shared by both coordinates, a sum of constants and of Matern "
                f"kernels of nu 0.5, 1.5 or 2.5 times constants, got {kernel} and coordinates={problem.prior.pair!r}; "
                "use inference='ep'"
            )
        if times.ndim != 2 or times.shape[1] != 1 or not (np.diff(times[:, 0]) > 0.0).all():
            raise ValueError(
                f"inference='markov' needs one column of inputs, distinct and rising, got shape {times.shape}; use "
                "inference='ep', or merge the replicates of equal inputs"
            )
        if problem.criterion != "loo":
            given = "fit(groups=...)" if problem.criterion == "folds" else f"selection={problem.criterion!r}"
            raise ValueError(
                f"inference='markov' chooses hyper-parameters by leave-one-out densities and cannot honour {given}; "
                "use inference='ep', or leave that option out"
            )
        super().__init__(problem, tol, settings)
        self._stretches = stretches  # of inputs in a row, that a search begins on

    def objective_and_gradient(self, vector: FloatArray, tolerance: float) -> Scored[DenseSolution]:
        """The solution at given hyper-parameters, its score and the gradient of that."""
        prior, rho = self.problem.split(vector)
        propagation = self._propagation(prior, rho)
        state, converged = self._run(propagation, vector, tolerance)
        score = leave_one_out(propagation.observations, state, 1e-2 * tolerance)
        found = DenseSolution(
            prior=prior,
            rho=rho,
            score=score.value,
            loo=score.parts,
            converged=converged,
            propagation=propagation,
            state=state,
        )
        slopes = self._slopes(prior, state.sites, score.moments)
        return Scored(found, score.value, np.concatenate([slopes, score.noise_gradient]))

    def posterior(self, solution: DenseSolution) -> MarkovPosterior:
        """What is kept of a solution."""
        return MarkovPosterior(
            prior=solution.prior,
            rho=solution.rho,
            converged=solution.converged,
            mismatch=solution.mismatch,
            inputs=self.problem.inputs,
            radial_scale=self.problem.radial_scale,
            cavity=solution.state.cavity,
            sites=solution.state.sites,
        )

    def _propagation(self, prior: Prior, rho: FloatArray) -> Propagation:
        return MarkovPropagation(self._observations(rho), Line.of(prior.kernels[0], self.problem.inputs[:, 0]))

    def _slopes(self, prior: Prior, sites: FloatArray, weights: FloatArray) -> FloatArray:
        """The gradient in θ of weights·E[T] at given sites."""
        step, out = 1e-4, np.zeros(prior.theta.size)
        for i, away in enumerate(step * np.eye(prior.theta.size)):
            ends = []
            for theta in (prior.theta + away, prior.theta - away):
                joint = smooth_line(Line.of(prior.at(theta).kernels[0], self.problem.inputs[:, 0]), sites)
                ends.append(None if joint is None else expected_statistics(joint.mean, joint.marginal))
            if ends[0] is not None and ends[1] is not None:
                out[i] = float((weights * (ends[0] - ends[1])).sum()) / (2.0 * step)
        return out

    def preliminary(self) -> MarkovEngine | None:
        """The same on a few stretches of inputs in a row, where many evaluations cost as much as one of all."""
        size, part = self.problem.size, self.settings.part
        if size <= self.settings.many:
            return None
        each = part // self._stretches
        begins = np.linspace(0, size - each, self._stretches).astype(int)
        which = np.unique(begins[:, None] + np.arange(each))
        engine = MarkovEngine(self.problem.take(which), self.accuracy.end, self.settings, stretches=self._stretches)
        self._part = engine, which
        return engine


# ---- the chain of the inputs ---------------------------------------------------------------------------------------

# Stationary covariances of a process of variance 1 and its derivatives, time in units of ℓ/√(2ν).
_STATIONARY = {
    0.5: np.eye(1),
    1.5: np.eye(2),
    2.5: np.array([[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]]),
}
# N = F + 1, the last row of F the coefficients of (s + 1)^p with signs turned.
_NILPOTENT = {
    0.5: np.zeros((1, 1)),
    1.5: np.array([[1.0, 1.0], [-1.0, -1.0]]),
    2.5: np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [-1.0, -3.0, -2.0]]),
}


class Line(NamedTuple):
    """A kernel on a line as a Markov chain of its inputs."""

    chain: Chain
    nugget: float

    @classmethod
    def of(cls, kernel: Kernel, times: FloatArray) -> Line:
        """Of rising times (N,)."""
        terms = line_terms(kernel)
        assert terms is not None  # the engine has refused all other kernels
        sizes = [int(term.smoothness + 0.5) for term in terms]
        gaps, ends = np.diff(times), np.cumsum(sizes)
        steps = np.zeros((gaps.size, ends[-1], ends[-1]))
        if (gaps == gaps[:1]).all():
            gaps = gaps[:1]  # equal steps have one transition
        noises, first, seen = np.zeros_like(steps), np.zeros(steps.shape[1:]), np.zeros(ends[-1])
        for term, end, size in zip(terms, ends, sizes, strict=True):
            block = np.s_[end - size : end]
            stationary = term.variance * _STATIONARY[term.smoothness]
            move = _transitions(math.sqrt(2.0 * term.smoothness) * gaps / term.length, _NILPOTENT[term.smoothness])
            steps[:, block, block] = move
            noises[:, block, block] = stationary - move @ stationary @ np.swapaxes(move, 1, 2)
            first[block, block] = stationary
            seen[end - size] = 1.0
        return cls((steps, noises, first, seen), NUGGET * sum(term.variance for term in terms))


def _transitions(times: FloatArray, nilpotent: FloatArray) -> FloatArray:
    """exp(Ft) (N, p, p), where N^p = 0."""
    out, power = np.zeros((times.size, *nilpotent.shape)), np.eye(len(nilpotent))
    for k in range(len(nilpotent)):
        out += times[:, None, None] ** k / math.factorial(k) * power
        power = power @ nilpotent
    return np.asarray(np.exp(-times)[:, None, None] * out)


# ---- the posterior --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarkovPropagation(Propagation):
    """With a Markov prior on a line."""

    line: Line

    def posterior(self, sites: FloatArray) -> MarkovJoint | None:
        """Prior times sites; None where that is no distribution."""
        return smooth_line(self.line, sites)


@dataclass(frozen=True, eq=False)
class MarkovJoint:
    """The Gaussian posterior of all inputs, as what smoothing leaves of it."""

    smoothed: Smoothed

    @property
    def mean(self) -> FloatArray:
        """(N, 2)."""
        return self.smoothed[0]

    @property
    def marginal(self) -> FloatArray:
        """Covariances (N, 2, 2) of every input."""
        return _square(self.smoothed[1])

    def response(self, change: FloatArray) -> FloatArray:
        """C · change: dE[T] (N, 5) of all marginals for a change (N, 5) of the sites."""
        return line_response(self.smoothed, np.ascontiguousarray(change))


# Entries (N,), (N,), (N,) of symmetric matrices: xx, xy and yy.
Entries = tuple[FloatArray, FloatArray, FloatArray]


def smooth_line(line: Line, sites: FloatArray) -> MarkovJoint | None:
    """Prior times sites; None where that is no distribution.

    x = f + √ν ε has the site (h, S), so f has (Mh, MS) with M = (1 + νS)⁻¹, and then x has the mean M(E[f] + νh) and
    the covariance M Cov[f] M + νM.
    """
    precision = site_precision(sites)
    shrink = _invert(1.0 + line.nugget * precision[0], line.nugget * precision[1], 1.0 + line.nugget * precision[2])
    if shrink is None:
        return None
    linear = sites[:, 0], sites[:, 1]
    first, second = _times(shrink, precision[:2]), _times(shrink, precision[1:])
    inner = np.stack([*_times(shrink, linear), first[0], second[0], second[1]], axis=1)
    mean, spread, cross, gains, exists = smooth(line.chain, inner)
    if not exists or not np.isfinite(spread).all():
        return None
    whole = _times(shrink, (mean[:, 0] + line.nugget * linear[0], mean[:, 1] + line.nugget * linear[1]))
    left, right = _times(shrink, (spread[:, 0], spread[:, 1])), _times(shrink, (spread[:, 1], spread[:, 2]))
    upper, lower = _times(shrink, (left[0], right[0])), _times(shrink, (left[1], right[1]))
    square = np.stack(shrink, axis=1)
    covariance = np.stack([*upper, lower[1]], axis=1) + line.nugget * square
    return MarkovJoint((np.stack(whole, axis=1), covariance, square, gains, cross, line.chain[3]))


def _invert(one: FloatArray, cross: FloatArray, two: FloatArray) -> Entries | None:
    """The inverses of symmetric matrices; None unless all are positive definite."""
    determinant = one * two - cross**2
    if not ((determinant > 0.0) & (one > 0.0)).all():
        return None
    return two / determinant, -cross / determinant, one / determinant


def _times(square: Entries, vector: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Symmetric matrices times vectors, entry by entry: NumPy multiplies stacks of such small matrices more slowly."""
    one, cross, two = square
    return one * vector[0] + cross * vector[1], cross * vector[0] + two * vector[1]


def _square(entries: FloatArray) -> FloatArray:
    """Symmetric matrices (N, 2, 2) of their entries (N, 3)."""
    return entries[:, [0, 1, 1, 2]].reshape(-1, 2, 2)
