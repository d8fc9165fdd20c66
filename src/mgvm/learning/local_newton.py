"""Maximum likelihood of many mGvM distributions of up to three angles at once: damped Newton steps in local statistics.

    maximise θ'·t' - log ∫ exp(θ'·T'(ψ)) dψ,

concave, with gradient t' - E[T'] and Hessian -Cov(T'), both exact; t' are the data's mean statistics around an anchor
(`mgvm._numerics.torus_moments`). Scaled to a unit diagonal the covariance of local statistics is well conditioned at
any concentration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from mgvm._numerics.torus_moments import Moments, TooConcentratedError, codes, local_moments, rule_sizes
from mgvm._validation import FloatArray

_ARMIJO = 1e-4
_TINY_RIDGE = 1e-12  # of the scaled Hessian: directions of which doubles know nothing stay where they are
_LENGTHS = (1.0, 0.5, 0.25)  # of Newton's step that are tried in turn
# Where none will do, the step makes a second mode far from the data, where statistics are large: the covariance sees
# nothing of it while no mass is there. Moments of the distribution at higher temperatures, of which a little mass is
# there, and of evenly spread angles, added to the covariance, tell the step to leave the distribution alone there. The
# best is taken.
_TEMPERATURES = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_EVENNESS = (1e-7, 1e-5, 1e-4, 1e-3)
_NARROWER = 3.0  # times the concentration that such a step may reach: narrow distributions of three angles take long
_DEAR = 3e3  # concentration of three angles from which on the first step that will do is taken, not the best
_LAST_RESORT = (1e-2, 1.0, 1e2, 1e4, 1e6, 1e8)
_FLAT = 1e-12  # relative change of the objective below which rounding decides


class Space(NamedTuple):
    """What the distributions are made of; `basis` (K, p, q) are the directions in θ' that are free, None for all.

    No step goes to concentrations above `largest`.
    """

    dimension: int
    order: int
    basis: FloatArray | None = None
    quick: bool = False
    largest: float = np.inf

    def moments(self, local: FloatArray) -> Moments:
        """Exact moments of distributions (K, p)."""
        if np.isfinite(self.largest):
            strongest = float(rule_sizes(local, self.dimension, self.order, 1.0)[1].max())
            if strongest > self.largest:
                raise TooConcentratedError(f"a distribution of concentration {strongest:.3g} is not wanted")
        return local_moments(local, self.dimension, self.order, quick=self.quick)

    def take(self, rows: np.ndarray) -> Space:
        """The space of some of the distributions."""
        return self if self.basis is None else self._replace(basis=self.basis[rows])


class State(NamedTuple):
    """Distributions θ' (K, p), their moments, and the objective (K,)."""

    local: FloatArray
    moments: Moments
    objective: FloatArray

    def replaced(self, rows: np.ndarray, other: State) -> State:
        """With some distributions exchanged."""
        local, objective = self.local.copy(), self.objective.copy()
        moments = Moments(*(part.copy() for part in self.moments))
        local[rows], objective[rows] = other.local, other.objective
        for part, new in zip(moments, other.moments, strict=True):
            part[rows] = new
        return State(local, moments, objective)

    def take(self, rows: np.ndarray) -> State:
        """Some of the distributions."""
        return State(self.local[rows], Moments(*(part[rows] for part in self.moments)), self.objective[rows])


def state(local: FloatArray, target: FloatArray, space: Space) -> State:
    """The distributions θ' with moments and objective."""
    moments = space.moments(local)
    return State(local, moments, (local * target).sum(axis=1) - moments.log_integral)


@cache
def _even_moments(dimension: int, order: int) -> FloatArray:
    """E[T'T'ᵀ] of angles spread evenly over the torus, (p, p)."""
    nodes = 8 * order
    psi = 2.0 * np.pi * np.arange(nodes) / nodes
    c, s = 1.0 - np.cos(psi), np.sin(psi)
    functions = [np.ones(nodes)]
    for t in range(1, order + 1):
        functions += [s * c ** (t - 1), c**t]
    table = np.array(functions) @ np.array(functions).T / nodes
    code = codes(dimension, order)
    return np.asarray(np.prod([table[np.ix_(code[:, d], code[:, d])] for d in range(dimension)], axis=0))


def direction(
    at: State, target: FloatArray, space: Space, damping: FloatArray | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Newton steps (K, p) and squared Newton decrements g·F⁻¹g (K,), `damping` (p, p) or (K, p, p) added to F."""
    gradient, hessian = target - at.moments.mean, at.moments.covariance + damping
    if space.basis is not None:
        across = np.swapaxes(space.basis, 1, 2)
        gradient = (across @ gradient[..., None])[..., 0]
        hessian = across @ hessian @ space.basis
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("kii->ki", hessian), 1e-300))
    scaled = hessian * scale[:, :, None] * scale[:, None, :]
    scaled[:, np.arange(scale.shape[1]), np.arange(scale.shape[1])] += _TINY_RIDGE
    step = scale * np.linalg.solve(scaled, (scale * gradient)[..., None])[..., 0]
    decrement = (step * gradient).sum(axis=1)
    # Where rounding made the matrix indefinite, the gradient itself is a way up.
    bad = ~(decrement >= 0.0) | ~np.isfinite(step).all(axis=1)
    step[bad] = (scale**2 * gradient)[bad]
    decrement[bad] = (step * gradient).sum(axis=1)[bad]
    if space.basis is not None:
        step = (space.basis @ step[..., None])[..., 0]
    return step, decrement


def improve(at: State, target: FloatArray, space: Space) -> tuple[State, FloatArray, np.ndarray]:
    """One Newton step of every distribution, damped until its objective rises; decrements before it, and whether it moved."""
    step, decrement = direction(at, target, space)
    pending = np.arange(decrement.size)
    for length in _LENGTHS:
        at, pending = _taken(at, target, space, pending, [(length * step[pending], length * decrement[pending])])
        if pending.size == 0:
            break
    else:
        strongest = float(rule_sizes(at.local[pending], space.dimension, space.order, 1.0)[1].max())
        dear = space.dimension == 3 and strongest > _DEAR
        near = space._replace(largest=min(space.largest, (1.2 if dear else _NARROWER) * max(strongest, 1.0)))
        at, pending = _taken(at, target, near, pending, _cautious(at, target, space, pending), first=dear)
        for evenness in _LAST_RESORT:
            if pending.size:
                damping = evenness * _even_moments(space.dimension, space.order)
                shy = direction(at.take(pending), target[pending], space.take(pending), damping)
                at, pending = _taken(at, target, space, pending, [shy])
    moved = np.ones(decrement.size, dtype=bool)
    moved[pending] = False
    return at, decrement, moved


def _cautious(
    at: State, target: FloatArray, space: Space, which: np.ndarray
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Steps, and what they promise, that leave distributions alone far from the data."""
    mine, aims, room = at.take(which), target[which], space.take(which)
    for temperature in _TEMPERATURES:
        hot = local_moments(mine.local / temperature, space.dimension, space.order, quick=True)
        yield direction(mine, aims, room, hot.covariance / temperature**2)
    for evenness in _EVENNESS:
        yield direction(mine, aims, room, evenness * _even_moments(space.dimension, space.order))


def _taken(
    at: State,
    target: FloatArray,
    space: Space,
    which: np.ndarray,
    steps: Iterable[tuple[FloatArray, FloatArray]],
    *,
    first: bool = False,
) -> tuple[State, np.ndarray]:
    """Distributions `which` after the step that raises each most (or enough), and those of them that none raises enough."""
    before, start = at.objective[which], at.local[which]
    slack = _FLAT * (1.0 + np.abs(before))
    best, done = before - slack, np.zeros(which.size, dtype=bool)
    for step, promise in steps:
        trial = _tried(start + step, target[which], space.take(which))
        good = (trial.objective - before >= _ARMIJO * promise - slack) & (trial.objective >= best)
        at = at.replaced(which[good], trial.take(good))
        best = np.where(good, trial.objective, best)
        done |= good
        if first and done.all():
            break
    return at, which[~done]


def _tried(local: FloatArray, target: FloatArray, space: Space) -> State:
    """The distributions θ'; those too concentrated for the grid have objective -inf."""
    try:
        return state(local, target, space)
    except TooConcentratedError:
        if local.shape[0] == 1:
            size = local.shape[1]
            nothing = Moments(np.zeros(1), np.zeros((1, size)), np.zeros((1, size, size)))
            return State(local, nothing, np.array([-np.inf]))
    parts = [_tried(local[k : k + 1], target[k : k + 1], space.take(np.array([k]))) for k in range(local.shape[0])]
    moments = Moments(*(np.concatenate(part) for part in zip(*(p.moments for p in parts), strict=True)))
    return State(local, moments, np.concatenate([p.objective for p in parts]))


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
