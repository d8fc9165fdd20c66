"""Exact maximum likelihood of mGvM distributions of up to three angles: damped Newton steps in local statistics.

    maximise θ'·t' - log ∫ exp(θ'·T'(ψ)) dψ,

concave, with gradient t' - E[T'] and Hessian -Cov(T'), both exact; t' are the data's mean statistics around an anchor
(`mgvm._numerics.torus_moments`). Scaled to a unit diagonal the covariance of local statistics is well conditioned at
any concentration.

The first part takes steps of many distributions at once, as the components of a mixture need them (`evaluate`,
`newton_step`). The second climbs to the maximum of a single one from the mean statistics of rows (`maximize`), and
says where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics import torus_moments as frame
from mgvm._numerics.torus_moments import Moments, TooConcentratedError, codes, local_moments, rule_sizes
from mgvm._validation import FloatArray
from mgvm.learning.rows import WeightedRows
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural, pack, unpack

# ---- Newton steps of many distributions ----------------------------------------------------------------------------


@dataclass(frozen=True)
class StepSettings:
    """How a Newton step is damped.

    A plain step is tried in its `lengths` in turn, and taken where it gains `sufficient` of what its gradient promises
    (Armijo). Where no length will do, the step makes a second mode far from the data, where statistics are large: the
    covariance sees nothing of it while no mass is there. Moments of the distribution at higher `temperatures`, of which
    a little mass is there, and of `even_shares` of evenly spread angles, added to the covariance, tell the step to
    leave the distribution alone there. The best of these is taken, or above the concentration `expensive` of three
    angles, whose moments take long, the first that will do. What still does not rise is damped by `last_shares`.

    `narrowing` is how many times more concentrated such a step may become (`narrowing_expensive` where it takes long),
    and `rounding` the relative change of the objective below which rounding decides.
    """

    lengths: tuple[float, ...] = (1.0, 0.5, 0.25)
    sufficient: float = 1e-4
    temperatures: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    even_shares: tuple[float, ...] = (1e-7, 1e-5, 1e-4, 1e-3)
    last_shares: tuple[float, ...] = (1e-2, 1.0, 1e2, 1e4, 1e6, 1e8)
    narrowing: float = 3.0
    narrowing_expensive: float = 1.2
    expensive: float = 3e3
    rounding: float = 1e-12


class Space(NamedTuple):
    """What the distributions are made of; `basis` (K, p, q) are the directions in θ' that are free, None for all.

    No step goes to concentrations above `largest`; `quick` moments are exact to some 1e-11 instead of to rounding.
    """

    dimension: int
    order: int
    basis: FloatArray | None = None
    quick: bool = False
    largest: float = np.inf
    settings: StepSettings = StepSettings()

    def moments(self, local: FloatArray) -> Moments:
        """Exact moments of distributions (K, p)."""
        if np.isfinite(self.largest):
            strongest = self.concentration(local)
            if strongest > self.largest:
                raise TooConcentratedError(f"a distribution of concentration {strongest:.3g} is not wanted")
        return local_moments(local, self.dimension, self.order, quick=self.quick)

    def concentration(self, local: FloatArray) -> float:
        """The largest concentration of any angle of distributions (K, p) given the others."""
        return float(rule_sizes(local, self.dimension, self.order, 1.0)[1].max())

    def take(self, rows: np.ndarray) -> Space:
        """The space of some of the distributions."""
        return self if self.basis is None else self._replace(basis=self.basis[rows])


class NewtonState(NamedTuple):
    """Distributions θ' (K, p), their moments, and the objective (K,)."""

    local: FloatArray
    moments: Moments
    objective: FloatArray

    def replace(self, rows: np.ndarray, other: NewtonState) -> NewtonState:
        """With some distributions exchanged."""
        local, objective = self.local.copy(), self.objective.copy()
        moments = Moments(*(part.copy() for part in self.moments))
        local[rows], objective[rows] = other.local, other.objective
        for part, new in zip(moments, other.moments, strict=True):
            part[rows] = new
        return NewtonState(local, moments, objective)

    def take(self, rows: np.ndarray) -> NewtonState:
        """Some of the distributions."""
        return NewtonState(self.local[rows], Moments(*(part[rows] for part in self.moments)), self.objective[rows])


def evaluate(local: FloatArray, target: FloatArray, space: Space) -> NewtonState:
    """The distributions θ' with moments and objective."""
    moments = space.moments(local)
    return NewtonState(local, moments, (local * target).sum(axis=1) - moments.log_integral)


@cache
def _even_moments(dimension: int, order: int) -> FloatArray:
    """E[T'T'ᵀ] of angles spread evenly over the torus, (p, p)."""
    nodes = 8 * order
    psi = periodic_grid(nodes)
    c, s = 1.0 - np.cos(psi), np.sin(psi)
    functions = [np.ones(nodes)]
    for t in range(1, order + 1):
        functions += [s * c ** (t - 1), c**t]
    table = np.array(functions) @ np.array(functions).T / nodes
    code = codes(dimension, order)
    return np.asarray(np.prod([table[np.ix_(code[:, d], code[:, d])] for d in range(dimension)], axis=0))


def newton_direction(
    at: NewtonState, target: FloatArray, space: Space, damping: FloatArray | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Newton steps (K, p) and squared Newton decrements g·F⁻¹g (K,), `damping` (p, p) or (K, p, p) added to F."""
    gradient, hessian = target - at.moments.mean, at.moments.covariance + damping
    if space.basis is not None:
        across = np.swapaxes(space.basis, 1, 2)
        gradient = (across @ gradient[..., None])[..., 0]
        hessian = across @ hessian @ space.basis
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("kii->ki", hessian), 1e-300))
    scaled = hessian * scale[:, :, None] * scale[:, None, :]
    # Directions of which doubles know nothing stay where they are.
    scaled[:, np.arange(scale.shape[1]), np.arange(scale.shape[1])] += 1e-12
    step = scale * np.linalg.solve(scaled, (scale * gradient)[..., None])[..., 0]
    decrement = (step * gradient).sum(axis=1)
    # Where rounding made the matrix indefinite, the gradient itself is a way up.
    bad = ~(decrement >= 0.0) | ~np.isfinite(step).all(axis=1)
    step[bad] = (scale**2 * gradient)[bad]
    decrement[bad] = (step * gradient).sum(axis=1)[bad]
    if space.basis is not None:
        step = (space.basis @ step[..., None])[..., 0]
    return step, decrement


def newton_step(at: NewtonState, target: FloatArray, space: Space) -> tuple[NewtonState, FloatArray, np.ndarray]:
    """One Newton step of every distribution, damped until it rises; squared decrements before it, and which moved."""
    settings = space.settings
    step, decrement = newton_direction(at, target, space)
    pending = np.arange(decrement.size)
    for length in settings.lengths:
        at, pending = _take_best(at, target, space, pending, [(length * step[pending], length * decrement[pending])])
        if pending.size == 0:
            break
    else:
        strongest = space.concentration(at.local[pending])
        expensive = space.dimension == 3 and strongest > settings.expensive
        growth = settings.narrowing_expensive if expensive else settings.narrowing
        near = space._replace(largest=min(space.largest, growth * max(strongest, 1.0)))
        at, pending = _take_best(
            at, target, near, pending, _cautious_steps(at, target, space, pending), first=expensive
        )
        for share in settings.last_shares:
            if pending.size:
                damping = share * _even_moments(space.dimension, space.order)
                step_and_promise = newton_direction(at.take(pending), target[pending], space.take(pending), damping)
                at, pending = _take_best(at, target, space, pending, [step_and_promise])
    moved = np.ones(decrement.size, dtype=bool)
    moved[pending] = False
    return at, decrement, moved


def _cautious_steps(
    at: NewtonState, target: FloatArray, space: Space, which: np.ndarray
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Steps, and what they promise, that leave distributions alone far from the data."""
    mine, aims, room = at.take(which), target[which], space.take(which)
    for temperature in space.settings.temperatures:
        hot = local_moments(mine.local / temperature, space.dimension, space.order, quick=True)
        yield newton_direction(mine, aims, room, hot.covariance / temperature**2)
    for share in space.settings.even_shares:
        yield newton_direction(mine, aims, room, share * _even_moments(space.dimension, space.order))


def _take_best(
    at: NewtonState,
    target: FloatArray,
    space: Space,
    which: np.ndarray,
    steps: Iterable[tuple[FloatArray, FloatArray]],
    *,
    first: bool = False,
) -> tuple[NewtonState, np.ndarray]:
    """The state after the step that raises each of `which` most (or enough), and those that none raises enough."""
    before, start = at.objective[which], at.local[which]
    slack = space.settings.rounding * (1.0 + np.abs(before))
    best, done = before - slack, np.zeros(which.size, dtype=bool)
    for step, promise in steps:
        trial = _evaluate_or_refuse(start + step, target[which], space.take(which))
        good = (trial.objective - before >= space.settings.sufficient * promise - slack) & (trial.objective >= best)
        at = at.replace(which[good], trial.take(good))
        best = np.where(good, trial.objective, best)
        done |= good
        if first and done.all():
            break
    return at, which[~done]


def _evaluate_or_refuse(local: FloatArray, target: FloatArray, space: Space) -> NewtonState:
    """The distributions θ'; those too concentrated for the grid have objective -inf."""
    try:
        return evaluate(local, target, space)
    except TooConcentratedError:
        if local.shape[0] == 1:
            size = local.shape[1]
            nothing = Moments(np.zeros(1), np.zeros((1, size)), np.zeros((1, size, size)))
            return NewtonState(local, nothing, np.array([-np.inf]))
    parts = [
        _evaluate_or_refuse(local[k : k + 1], target[k : k + 1], space.take(np.array([k])))
        for k in range(local.shape[0])
    ]
    moments = Moments(*(np.concatenate(part) for part in zip(*(p.moments for p in parts), strict=True)))
    return NewtonState(local, moments, np.concatenate([p.objective for p in parts]))


def gaussian_start(target: FloatArray, dimension: int, order: int, floor: float = 1e-9) -> FloatArray:
    """θ' (K, p) whose curvature at the anchor is the inverse of the data's covariance there.

    -½ψᵀΛψ ≈ -Σ Λ_dd c_d - Σ_{i<j} Λ_ij s_i s_j, and ψ² ≈ 2c; the mean of ψ is that of s.
    """
    code, dists = codes(dimension, order), target.shape[0]
    pairs = [a for a in range(code.shape[0]) if np.count_nonzero(code[a] == 1) == 2]
    mean = target[:, 1 : 2 * dimension : 2]
    covariance = np.zeros((dists, dimension, dimension))
    spread = np.maximum(2.0 * target[:, 0 : 2 * dimension : 2] - mean**2, floor)
    covariance[:, np.arange(dimension), np.arange(dimension)] = spread
    for a in pairs:
        i, j = np.flatnonzero(code[a])
        most = 0.95 * np.sqrt(spread[:, i] * spread[:, j])
        value = np.clip(target[:, a] - mean[:, i] * mean[:, j], -most, most)
        covariance[:, i, j] = covariance[:, j, i] = value
    # Three correlations clipped one by one need not be those of a matrix: shrink them until they are.
    lowest = np.linalg.eigvalsh(covariance / np.sqrt(spread[:, :, None] * spread[:, None, :]))[:, 0]
    shrink = np.where(lowest < 0.02, 0.98 / np.maximum(1.0 - lowest, 0.98), 1.0)
    off = ~np.eye(dimension, dtype=bool)
    covariance[:, off] *= shrink[:, None]
    precision = np.linalg.inv(covariance)
    local = np.zeros_like(target)
    local[:, 0 : 2 * dimension : 2] = -precision[:, np.arange(dimension), np.arange(dimension)]
    local[:, 1 : 2 * dimension : 2] = (precision @ mean[..., None])[..., 0]
    for a in pairs:
        i, j = np.flatnonzero(code[a])
        local[:, a] = -precision[:, i, j]
    return local


# ---- the maximum of one distribution -------------------------------------------------------------------------------

# By dimension: the concentration from which on a maximum is taken not to exist, and the standard deviation in radians
# of the noise that is then added to the data, so that it does.
CONCENTRATION_LIMITS = {1: 1e6, 2: 1e5, 3: 2e4}
NOISE = {1: 0.005, 2: 0.01, 3: 0.02}


class ExactMaximum(NamedTuple):
    """Where Newton's method ended. `noise` is the standard deviation of noise that the data were given, 0 for none.

    `objective` is the mean log density of the data as they are, `trace` that of the data with noise; `unit_errors` are
    standard errors of θ for a single row, and `runaway` is the concentration at which no maximum was in sight, else 0.
    """

    dist: Natural
    objective: float
    trace: list[float]
    decrement: float
    gradient: FloatArray
    converged: bool
    unit_errors: FloatArray
    runaway: float = 0.0
    noise: float = 0.0


class MomentProblem(NamedTuple):
    """Mean statistics around an anchor, and what is free."""

    target: FloatArray  # (1, p), local
    anchor: FloatArray  # (1, D)
    space: Space
    basis: FloatArray  # (p, q), of the submodel


def problem_from_rows(sample: WeightedRows, model: Submodel) -> MomentProblem:
    """From rows: one pass, every statistic to its own digits however narrow the data."""
    share = sample.weights / sample.weights.sum()
    anchor = np.angle(share @ np.exp(1j * sample.x))[None]
    target = share @ frame.local_statistics(sample.x - anchor, model.order)
    basis = model.basis()
    inward = np.swapaxes(frame.outward(anchor, model.order), 1, 2) @ basis
    whole = basis.shape[0] == basis.shape[1]
    # A step may pass the bound, which then tells of it, but not by far: narrow distributions of three angles take long.
    most = 2.0 * CONCENTRATION_LIMITS[model.dimension]
    space = Space(model.dimension, model.order, None if whole else inward, largest=most)
    return MomentProblem(target[None], anchor, space, basis)


def maximize(
    task: MomentProblem,
    start: Natural | None,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object] = lambda done, total: None,
) -> ExactMaximum:
    """Newton steps until the decrement √(g·F⁻¹g) is below the tolerance.

    Where the concentration passes all bounds, the data's statistics lie on (or so near to) the border of what
    distributions can have that no maximum exists in doubles. It is then sought for the data with independent noise
    added to every angle, which has a density, and so statistics inside the border.
    """
    found = _climb(task, _start(task, start), tolerance, max_iterations, report)
    noise, reached = NOISE[task.space.dimension], found.runaway
    for _ in range(4):
        if not found.runaway:
            break
        blurred = task._replace(target=_blur(task, noise))
        found = _climb(blurred, _start(blurred, None), tolerance, max_iterations, report)._replace(noise=noise)
        local = frame.to_local(pack(found.dist)[None], task.anchor, task.space.order)
        found = found._replace(objective=found.objective + float(((task.target - blurred.target) * local).sum()))
        noise *= 2.0
    return found._replace(runaway=reached, converged=found.converged and not reached)


def _blur(task: MomentProblem, noise: float) -> FloatArray:
    """Mean statistics of the data with independent normal noise added: E[z^k] times exp(-½ noise² |k|²)."""
    size, order = task.space.dimension, task.space.order
    harmonics = np.repeat(np.arange(1.0, order + 1.0) ** 2, size)
    squares = np.concatenate([harmonics, np.full(size * (size - 1), 2.0)])
    factors = np.repeat(np.exp(-0.5 * noise**2 * squares), 2)
    return frame.local_means(factors * frame.means(task.target, task.anchor, order), task.anchor, order)


def _start(task: MomentProblem, start: Natural | None) -> NewtonState:
    """The best of the given distribution, a Gaussian-like one and the uniform one."""
    space, target = task.space, task.target
    # A start of another width than the data's makes Newton's method lose itself in higher harmonics.
    floor = 4.0 / CONCENTRATION_LIMITS[space.dimension]
    guesses = [np.zeros_like(target), gaussian_start(target, space.dimension, space.order, floor)]
    if start is not None:
        guesses.append(frame.to_local(pack(start)[None], task.anchor, space.order))
    states = []
    for guess in guesses:
        if space.basis is not None:
            # The nearest distribution of the submodel, in the natural parameters.
            natural = frame.from_local(guess, task.anchor, space.order) @ task.basis
            guess = natural @ space.basis[0].T
        if space.concentration(guess) < CONCENTRATION_LIMITS[space.dimension]:
            states.append(evaluate(guess, target, space))
    return states[int(np.argmax([state.objective[0] for state in states]))]


def _climb(
    task: MomentProblem,
    at: NewtonState,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object],
) -> ExactMaximum:
    """Newton steps from a state until one of the reasons to stop."""
    trace, converged, runaway, last, slow = [float(at.objective[0])], False, 0.0, np.inf, 0
    for step in range(max_iterations):
        last = float(newton_direction(at, task.target, task.space)[1][0])
        if last <= tolerance**2:
            converged = True
            break
        at, _, moved = newton_step(at, task.target, task.space)
        if not moved[0]:
            # Short of convergence, a step that cannot be taken means that there is no maximum.
            runaway = task.space.concentration(at.local) if last > 1e-12 else 0.0
            break
        trace.append(float(at.objective[0]))
        # Steps that gain less than a 50th of the squared decrement creep along the edge of distributions with a second
        # mode far away: after 15 of them a plainer model is wanted, not more.
        slow = slow + 1 if trace[-1] - trace[-2] < 0.02 * last else 0
        if slow >= 15:
            runaway = task.space.concentration(at.local)
            break
        report(step + 1, max_iterations)
        if (strength := task.space.concentration(at.local)) > CONCENTRATION_LIMITS[task.space.dimension]:
            runaway = strength
            break
    else:
        last = float(newton_direction(at, task.target, task.space)[1][0])
        converged = last <= tolerance**2
    theta = frame.from_local(at.local, task.anchor, task.space.order)
    gap = frame.outward(task.anchor, task.space.order)[0] @ (task.target - at.moments.mean)[0]
    dist = unpack(theta[0], task.space.dimension, task.space.order)
    errors = _unit_errors(task, at)
    return ExactMaximum(dist, trace[-1], trace, float(np.sqrt(last)), task.basis.T @ gap, converged, errors, runaway)


def _unit_errors(task: MomentProblem, at: NewtonState) -> FloatArray:
    """Standard errors of θ for a single row: roots of the diagonal of the inverse Fisher matrix."""
    outward = frame.outward(task.anchor, task.space.order)[0]
    inward = outward.T @ task.basis
    scale = np.sqrt(np.maximum(np.diag(at.moments.covariance[0]), 1e-300))
    scaled = at.moments.covariance[0] / scale[:, None] / scale
    values, axes = np.linalg.eigh(scaled)
    root = np.sqrt(np.maximum(values, 1e-14))[:, None] * axes.T
    # F = (root·scale·inward)ᵀ(same): its inverse from a triangle, without squaring the condition.
    triangle = np.linalg.qr((root * scale) @ inward, mode="r")
    inverse = np.linalg.pinv(triangle)
    return np.sqrt(((task.basis @ inverse) ** 2).sum(axis=1))
