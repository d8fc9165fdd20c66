"""Hyper-parameters of circular regression on many inputs: leave-one-out densities of nearest-neighbour propagation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from mgvm._validation import FloatArray
from mgvm.models._gp_neighbour_gradient import NeighbourScore, leave_one_out, score_gradient
from mgvm.models._gp_neighbour_propagation import NeighbourPropagation
from mgvm.models._gp_neighbour_state import NeighbourState, predicted
from mgvm.models._gp_neighbours import Neighbourhood, default_count, embedding
from mgvm.models._gp_noise import Groups, Noise
from mgvm.models._gp_prior import Prior
from mgvm.models._gp_tilted import Observations
from mgvm.models._short_steps import minimise

_PRIOR_SPREAD = 1.5  # standard deviation of the weak prior on every logarithm
_ROUGH, FINE = 1e-2, 1e-3  # mismatch of expectation propagation while searching, and at the end
_COARSE = 8
_LOST = 1e-2  # mismatch, and share of inputs that have it, of a state that is no answer
_PATCHES, _PATCH = 10, 300  # parts of the inputs, each of points that lie together, on which a search begins
_MANY = 1.5  # times as many inputs are searched that way
_REFINEMENTS, _HUGE = 2, 30_000  # steps on all inputs, of which there are so many; four times that of fewer
_LONGEST = 1.0  # how far they may lead
_DIFFERENCE = 0.02  # of hyper-parameters, for second derivatives
_QUERIES = 20_000  # points predicted at once


class NeighbourTuned(NamedTuple):
    """Hyper-parameters with the sites they give."""

    prior: Prior
    rho: FloatArray
    state: NeighbourState
    hood: Neighbourhood
    loo: FloatArray  # (N,), leave-one-out log densities
    objective: float
    converged: bool

    def predict(self, queries: Any) -> tuple[FloatArray, FloatArray]:
        """Mean (M, 2) and covariance (M, 2, 2) of x at query points: kriging from the sites of the nearest inputs."""
        kernel, points = self.prior.kernels[0], np.asarray(queries, dtype=float)
        means, covariances = [np.empty((0, 2))], [np.empty((0, 2, 2))]
        for begin in range(0, len(points), _QUERIES):
            neighbours, weights = self.hood.query(kernel, points[begin : begin + _QUERIES])
            mean, covariance = predicted(self.state.sites, neighbours, weights)
            means.append(mean)
            covariances.append(covariance)
        return np.concatenate(means), np.concatenate(covariances)


@dataclass
class NeighbourTuning:
    """The problem: distinct inputs (N, d), observations grouped by input, and what is to be learnt.

    The prior must be one kernel shared by both coordinates. With n_neighbors = None they are 30 on a
    line; of more input columns 24 for kernels as rough as the exponential, else 40.

    Many inputs (N > 4,500) are not searched as a whole: all starts are followed on n = 3,000 of them, ten patches of
    inputs that lie together, whose centres are drawn with `seed`. From the best end there, with the second derivatives
    of the patches times N/n, a few quasi-Newton steps (two where N > 30,000) go to the optimum of all inputs: as good
    as a search over all, for a fraction of its price.
    """

    inputs: Any
    groups: Groups
    prior: Prior
    noise: Noise
    spread: float
    n_neighbors: int | None = None
    report: Callable[[float], object] = lambda value: None
    seed: int = 0
    best: NeighbourTuned | None = field(default=None, init=False)
    _sites: FloatArray | None = field(default=None, init=False)
    _hood: Neighbourhood | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.prior.pair != "shared":
            raise ValueError(
                f"nearest-neighbour propagation needs one kernel shared by both coordinates, got pair="
                f"{self.prior.pair!r}; use pair='shared', or fewer inputs with inference='ep'"
            )
        self.inputs = np.asarray(self.inputs, dtype=float)

    @property
    def start(self) -> FloatArray:
        """Where the search begins, and the centre of the weak prior."""
        return np.concatenate([self.prior.theta, self.noise.start])

    @property
    def _bounds(self) -> FloatArray:
        return np.concatenate([self.prior.bounds, np.tile([-12.0, 12.0], (self.noise.start.size, 1))])

    @property
    def _gain(self) -> float:
        """What a step must promise to be taken, in nats: less than a standard error, more than inputs that flip."""
        return max(1e-2, 1e-4 * len(self.inputs))

    @property
    def _count(self) -> int:
        return self.n_neighbors or default_count(self.prior.kernels[0], self.inputs.shape[1])

    def _split(self, vector: FloatArray) -> tuple[Prior, FloatArray]:
        size = self.prior.theta.size
        return self.prior.at(vector[:size]), vector[size:]

    def _neighbours(self, prior: Prior) -> Neighbourhood:
        """Those under the kernel at hand, kept while they hold: the objective would jump where they change."""
        if self._hood is None:
            self._hood = Neighbourhood.of(prior.kernels[0], self.inputs, self._count)
        return self._hood

    def tuned(self, vector: FloatArray, tolerance: float) -> tuple[NeighbourTuned, NeighbourScore]:
        """The sites and leave-one-out densities at given hyper-parameters."""
        prior, rho = self._split(vector)
        hood = self._neighbours(prior)
        observations = Observations(self.groups, self.noise, rho, self.spread)
        order = np.concatenate([block.targets for block in hood.blocks]).astype(np.int64)
        used, count = np.ones(hood.neighbours.shape), hood.neighbours.shape[1]
        # Sites to begin with are found with few neighbours.
        counts = (count, _COARSE) if self._sites is None and count > _COARSE else (count,)
        laws = hood.several_weights(prior.kernels[0], counts)
        problem = NeighbourPropagation(hood.neighbours, laws[0], observations, order, used, *laws[1:])
        state, converged = problem.run(self._sites, tolerance)
        self._sites = state.sites if converged else None
        score = leave_one_out(problem, state)
        away = (vector - self.start) / _PRIOR_SPREAD
        objective = float(score.parts.sum()) - 0.5 * float(away @ away)
        return NeighbourTuned(prior, rho, state, hood, score.parts, objective, converged), score

    def solve(self, vector: FloatArray, tolerance: float) -> tuple[NeighbourTuned, FloatArray]:
        """The same, and the gradient of the objective."""
        found, score = self.tuned(vector, tolerance)
        accuracy = min(1e-4, max(1e-7, 0.1 * tolerance))
        gradient, lack = score_gradient(found.hood, found.prior.kernels[0], found.state, score, accuracy)
        found = found._replace(objective=found.objective + lack)
        return found, gradient - (vector - self.start) / _PRIOR_SPREAD**2

    def search(self, starts: list[FloatArray], max_iterations: int = 60) -> NeighbourTuned:
        """The best of several searches; an interruption keeps the best so far."""
        if len(self.inputs) > _MANY * _PATCHES * _PATCH:
            self._refine(*self._on_patches(starts, max_iterations))
        else:
            for start in starts:
                self._descend(start, max_iterations)
        assert self.best is not None
        self.best = self.finish(np.concatenate([self.best.prior.theta, self.best.rho]))
        return self.best

    def _on_patches(self, starts: list[FloatArray], max_iterations: int) -> tuple[FloatArray, FloatArray]:
        """The optimum of a part of the inputs, and minus the second derivatives of all inputs that it suggests."""
        part = self._part()
        try:
            found = part.search(starts, max_iterations)
            vector = np.concatenate([found.prior.theta, found.rho])
            away = _DIFFERENCE * np.eye(vector.size)
            slopes = [part.solve(vector + step, _ROUGH)[1] - part.solve(vector - step, _ROUGH)[1] for step in away]
        except KeyboardInterrupt:
            if part.best is not None:
                # What was found on the part serves all inputs, once their sites are known.
                self.best = self.finish(np.concatenate([part.best.prior.theta, part.best.rho]))
            raise
        prior = _PRIOR_SPREAD**-2 * np.eye(vector.size)
        curvature = -np.array(slopes) / (2.0 * _DIFFERENCE) - prior
        values, axes = np.linalg.eigh(0.5 * (curvature + curvature.T) * len(self.inputs) / len(part.inputs))
        # In directions in which the part saw no maximum no step is taken to speak of.
        values = np.where(values > 0.0, values, 1e3 * np.abs(values).max())
        return vector, (axes * values) @ axes.T + prior

    def _refine(self, vector: FloatArray, curvature: FloatArray) -> None:
        """Quasi-Newton steps on all inputs from the optimum of a part of them, in coordinates of unit curvature."""
        lower = np.linalg.cholesky(curvature)
        limits = np.clip(np.stack([vector - _LONGEST, vector + _LONGEST], axis=1), *self._bounds.T[:, :, None])

        def whitened(place: FloatArray) -> tuple[float, FloatArray]:
            value, slope = self._negative(np.clip(np.linalg.solve(lower.T, place), *limits.T))
            return value, np.linalg.solve(lower, slope)

        self._sites = self._hood = None
        nowhere = np.tile([-np.inf, np.inf], (vector.size, 1))
        gain, most = self._gain, _REFINEMENTS if len(self.inputs) > _HUGE else 4 * _REFINEMENTS
        minimise(whitened, lower.T @ vector, nowhere, curvature=1.0, longest=np.inf, gain=gain, max_steps=most)

    def _descend(self, start: FloatArray, max_iterations: int) -> None:
        """A search with fixed neighbours, begun again where length scales have moved apart."""
        curvature = 0.1 * float(self.groups.total.sum()) + _PRIOR_SPREAD**-2
        for _ in range(3):
            self._sites = self._hood = None
            start, _ = minimise(
                self._negative, start, self._bounds, curvature=curvature, gain=self._gain, max_steps=max_iterations
            )
            if self._neighbours(self.prior).still_valid(self._split(start)[0].kernels[0]):
                return

    def _part(self) -> NeighbourTuning:
        """The same problem on a few patches of inputs that lie together."""
        places = embedding(self.prior.kernels[0], self.inputs)
        centres = np.random.default_rng(self.seed).choice(len(places), _PATCHES, replace=False)
        which = np.unique(cKDTree(places).query(places[centres], _PATCH)[1])
        part = NeighbourTuning(
            self.inputs[which], self.groups.take(which), self.prior, self.noise, self.spread, self._count
        )
        scale = len(self.inputs) / which.size
        part.report = lambda value: self.report(value * scale)
        return part

    def finish(self, vector: FloatArray) -> NeighbourTuned:
        """The sites at given hyper-parameters, to full accuracy, with neighbours under their kernel."""
        if self._hood is not None and not self._hood.still_valid(self._split(vector)[0].kernels[0], 1.05):
            self._hood = self._sites = None
        return self.tuned(vector, FINE)[0]

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        found, gradient = self.solve(vector, _ROUGH)
        if self.best is None or (found.converged, found.objective) > (self.best.converged, self.best.objective):
            self.best = found
        self.report(found.objective)
        # Where the moments of many inputs do not come to match, neither value nor gradient means much.
        lost = not found.converged and self.best.converged and found.state.outside(_LOST) > _LOST
        return (np.inf if lost else -found.objective), -gradient
