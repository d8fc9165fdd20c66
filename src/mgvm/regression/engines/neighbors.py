"""Expectation propagation for many inputs: the cavity of an input is kriging from the sites of its nearest neighbors.

**Neighbours** are found under the kernel, and the small kernel matrices that kriging from them needs are made in
blocks: any scikit-learn kernel works, called on inputs that lie together with the union of their neighbors, some two
hundred points at a time, so that the cost is linear in the number of inputs.

**Fixed point.** Sites s (N, 5) are shared by all. With c(s) the natural parameters of the cavities and G(c) those of
the Gaussian with the moments of the tilted distribution, less c, it is s = G(c(s)). Sequential sweeps come near it;
Newton's step solves (1 - G' c') ds = G(c(s)) - s by GMRES, where products with c' cost a fraction of what the tilted
distributions cost. Inputs that are far from their fixed point while the others are near are swept alone, and what
follows is done again only for those that hear of it.

**Leave-one-out.** L = Σ_n [log ∫ cavity_n · radial · likelihood_n - log ∫ cavity_n · radial] depends on the
hyper-parameters through the fixed point. One transposed system gives its gradient,

    dL = (g + G'ᵀλ)·dc + (E_tilted[f] + λᵀ J⁻¹ Cov_tilted[T, f]) dρ,   λ = c'ᵀ(g + G'ᵀλ),   G' = J⁻¹ Cov_tilted[T] - 1,

g = dL/dc, f = d log-likelihood/dρ, J = Cov[T] of the matched Gaussian, dc what the kernel's change makes of cavities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import Kernel

from mgvm._grids import periodic_grid
from mgvm._numerics.propagation import (
    Places,
    Tables,
    cavity_response,
    covariance_pull,
    krige,
    site_pull,
    sweep,
)
from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._planar_gaussian import (
    RADIAL_FLOOR,
    covariance_of_statistics,
    mean_and_covariance,
    multiply_each,
    natural_parameters,
    site_precision,
)
from mgvm.regression.engines.base import Accuracy, Engine, Posterior, Problem, Scored, Solution
from mgvm.regression.engines.neighborhood import Neighborhood, Weights, default_count, embedding, query_weights
from mgvm.regression.engines.tilted import Observations, Tilted
from mgvm.regression.noise import bounded_likelihood
from mgvm.regression.prediction import project_gaussians, project_natural, radial_precision
from mgvm.regression.prior import NUGGET, GramKernel

# ---- the engine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NeighborsSettings:
    """How a search over many inputs is cut into pieces.

    More than `many` times `patches` x `patch` inputs are not searched as a whole: all starts are followed on `patches`
    patches of inputs that lie together, whose centres are drawn with `seed`. From the best end there, with the second
    derivatives of the patches times N/n, a few quasi-Newton steps go to the optimum of all inputs: as good as a search
    over all, for a fraction of its price.
    """

    patches: int = 10
    patch: int = 300  # inputs each
    many: float = 1.5
    refinements: int = 2  # of those steps above `huge` inputs, four times as many below
    huge: int = 30_000
    coarse: int = 8  # neighbours that the first sweeps hear
    queries: int = 20_000  # predicted at once
    seed: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborsSolution(Solution):
    """Sites at given hyper-parameters."""

    hood: Neighborhood
    state: NeighborsState

    @property
    def mismatch(self) -> float:
        """The largest mismatch of a moment, in standard deviations."""
        return self.state.mismatch

    @property
    def is_lost(self) -> bool:
        """Whether the moments of one input in a hundred are a hundredth of a standard deviation off, or more."""
        return not self.converged and self.state.outside(1e-2) > 1e-2


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborsPosterior(Posterior):
    """Sites of all inputs, from which any point is kriged, and cavities for leave-one-out."""

    inputs: FloatArray
    radial_scale: float
    n_neighbors: int
    sites: FloatArray  # (N, 5)
    cavity: FloatArray  # (N, 5)
    unmatched: tuple[float, float]  # share of inputs whose moments do not match, and by how much 2 in 100 are off
    queries: int  # predicted at once

    def leave_one_out(self) -> GridDensity:
        """The directions of the cavities on the soft circle."""
        return project_natural(self.cavity, self.radial_scale)

    def predict(self, queries: FloatArray, rng: np.random.Generator | None = None) -> GridDensity:
        """The direction of the Gaussian at every query, on the soft circle."""
        return project_gaussians(*self.predict_plane(queries), self.radial_scale)

    def predict_plane(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (M, 2) and covariance (M, 2, 2) of x at query points: kriging from the sites of the nearest inputs."""
        kernel, points = self.prior.kernels[0], np.asarray(queries, dtype=float)
        means, covariances = [np.empty((0, 2))], [np.empty((0, 2, 2))]
        for begin in range(0, len(points), self.queries):
            part = points[begin : begin + self.queries]
            neighbors, weights = query_weights(kernel, self.inputs, part, self.n_neighbors + 1)
            mean, covariance = krige_queries(self.sites, neighbors, weights)
            means.append(mean)
            covariances.append(covariance)
        return np.concatenate(means), np.concatenate(covariances)

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge: value, cause, cure."""
        share, off = self.unmatched
        return (
            f"nearest-neighbour propagation did not converge: the moments of {share:.1%} of the inputs do not match, "
            f"2 in 100 are off by {off:.2g} standard deviations or more. Smooth kernels with little noise, or "
            "neighbors that contradict each other, do that; add a WhiteKernel to the kernel, try a rougher one such as "
            f"Matern(nu=0.5), or another n_neighbors (now {self.n_neighbors})"
        )


class NeighborsEngine(Engine[NeighborsSolution]):
    """Nearest-neighbour expectation propagation, O(N m³) a sweep.

    The prior must be one kernel shared by both coordinates. With n_neighbors = None they are 30 on a line; of more
    input columns 24 for kernels as rough as the exponential, else 40. `tol` is the mismatch of moments at the end, in
    standard deviations.
    """

    def __init__(
        self,
        problem: Problem,
        tol: float | None = None,
        n_neighbors: int | None = None,
        settings: NeighborsSettings = NeighborsSettings(),
    ):
        if problem.prior.pair != "shared":
            raise ValueError(
                f"inference='neighbors' needs one kernel shared by both coordinates, got coordinates="
                f"{problem.prior.pair!r}; use coordinates='shared', or inference='ep'"
            )
        if isinstance(problem.prior.kernels[0], GramKernel):
            raise ValueError(
                "inference='neighbors' needs inputs with distances, got kernel='precomputed', whose Gram matrix has "
                "none; use inference='ep', or give the inputs and a kernel"
            )
        if problem.criterion != "loo":
            given = "fit(groups=...)" if problem.criterion == "folds" else f"selection={problem.criterion!r}"
            raise ValueError(
                f"inference='neighbors' chooses hyper-parameters by leave-one-out densities alone and cannot honour "
                f"{given}: cavities of nearest neighbors have no joint density and hold out no blocks; use "
                "inference='ep', or leave that option out"
            )
        super().__init__(problem, Accuracy(far=1e-2, near=1e-2, end=1e-3 if tol is None else tol))
        self.settings = settings
        self.inputs = np.asarray(problem.inputs, dtype=float)
        self.n_neighbors = n_neighbors or default_count(problem.prior.kernels[0], self.inputs.shape[1])
        self._sites: FloatArray | None = None
        self._hood: Neighborhood | None = None

    def solve(self, vector: FloatArray, tolerance: float) -> NeighborsSolution:
        """The sites and leave-one-out densities at given hyper-parameters."""
        if tolerance <= self.accuracy.end and self._is_stretched(vector, 1.05):
            self.forget()
        return self._solve(vector, tolerance)[0]

    def objective_and_gradient(self, vector: FloatArray, tolerance: float) -> Scored[NeighborsSolution]:
        """The same with the gradient of the sum of the densities."""
        found, score = self._solve(vector, tolerance)
        accuracy = min(1e-4, max(1e-7, 0.1 * tolerance))
        gradient, lack = score_gradient(found.hood, found.prior.kernels[0], found.state, score, accuracy)
        return Scored(found, found.score + lack, gradient)

    def posterior(self, solution: NeighborsSolution) -> NeighborsPosterior:
        """What is kept of a solution."""
        state = solution.state
        return NeighborsPosterior(
            prior=solution.prior,
            rho=solution.rho,
            converged=solution.converged,
            mismatch=solution.mismatch,
            inputs=self.inputs,
            radial_scale=self.problem.radial_scale,
            n_neighbors=solution.hood.neighbors.shape[1],
            sites=state.sites,
            cavity=state.cavity,
            unmatched=(state.outside(self.accuracy.end), state.bulk),
            queries=self.settings.queries,
        )

    def _solve(self, vector: FloatArray, tolerance: float) -> tuple[NeighborsSolution, NeighborsScore]:
        problem = self.problem
        prior, rho = problem.split(vector)
        if self._hood is None:
            # Kept while they hold: the objective would jump where neighbours change.
            self._hood = Neighborhood.of(prior.kernels[0], self.inputs, self.n_neighbors)
        hood, coarse = self._hood, self.settings.coarse
        observations = Observations(problem.replicates, problem.noise, rho, problem.radial_scale)
        order = np.concatenate([block.targets for block in hood.blocks]).astype(np.int64)
        used, count = np.ones(hood.neighbors.shape), hood.neighbors.shape[1]
        # Sites to begin with are found with few neighbors.
        counts = (count, coarse) if self._sites is None and count > coarse else (count,)
        dists = hood.several_weights(prior.kernels[0], counts)
        propagation = NeighborsPropagation(
            hood.neighbors, dists[0], observations, order, used, coarse=dists[-1] if len(counts) > 1 else None
        )
        state, converged = propagation.run(self._sites, tolerance)
        self._sites = state.sites if converged else None
        score = score_leave_one_out(propagation, state)
        total = float(score.parts.sum())
        found = NeighborsSolution(
            prior=prior, rho=rho, score=total, loo=score.parts, converged=converged, hood=hood, state=state
        )
        return found, score

    # ---- how it wants to be searched --------------------------------------------------------------------------------

    @property
    def least_gain(self) -> float:
        """What a step must promise, in nats: less than a standard error, more than inputs that flip."""
        return max(1e-2, 1e-4 * self.problem.size)

    def preliminary(self) -> NeighborsEngine | None:
        """The same on a few patches of inputs that lie together, where there are many."""
        settings = self.settings
        if self.problem.size <= settings.many * settings.patches * settings.patch:
            return None
        places = embedding(self.problem.prior.kernels[0], self.inputs)
        centres = np.random.default_rng(settings.seed).choice(len(places), settings.patches, replace=False)
        which = np.unique(cKDTree(places).query(places[centres], settings.patch)[1])
        return NeighborsEngine(self.problem.take(which), self.accuracy.end, self.n_neighbors, settings)

    @property
    def refinements(self) -> int | None:
        """Two steps where inputs are very many, else eight."""
        return (1 if self.problem.size > self.settings.huge else 4) * self.settings.refinements

    def forget(self) -> None:
        """Choose neighbours anew, and start from no sites."""
        self._sites = self._hood = None

    def is_stale(self, vector: FloatArray) -> bool:
        """Whether length scales have moved apart since the neighbours were chosen."""
        return self._is_stretched(vector, 1.5)

    def _is_stretched(self, vector: FloatArray, factor: float) -> bool:
        hood = self._hood
        return hood is not None and not hood.still_valid(self.problem.split(vector)[0].kernels[0], factor)


# ---- states ---------------------------------------------------------------------------------------------------------


class Kriged(NamedTuple):
    """Means and covariances (N, 5), cavities (N, 5), what their derivatives need, and which are distributions."""

    moments: FloatArray
    cavity: FloatArray
    places: Places
    sound: np.ndarray


@dataclass(frozen=True, eq=False)
class NeighborsState:
    """Sites with all that follows from them."""

    sites: FloatArray  # (N, 5)
    cavity: FloatArray  # (N, 5)
    places: Places
    tilted: Tilted
    change: FloatArray  # (N, 5), G(c(s)) - s
    own: FloatArray  # (N, 5, 5), J
    errors: (
        FloatArray  # (N,), largest mismatch of a moment in standard deviations; inf without distribution, NaN if silent
    )

    @property
    def mismatch(self) -> float:
        """The largest of all."""
        return float(np.nanmax(self.errors, initial=0.0))

    @property
    def bulk(self) -> float:
        """The mismatch that all but two in a hundred stay below: what a step must lower."""
        place = min(int(0.98 * self.errors.size), self.errors.size - 1)
        return float(np.partition(self.errors, place)[place])

    def outside(self, tolerance: float) -> float:
        """The share of inputs whose moments do not match."""
        return float(np.mean(self.errors > tolerance))

    def has_converged(self, tolerance: float) -> bool:
        """Whether all moments match, but for one input in a thousand (or one at all), and most ten times better."""
        single = 1.5 / self.errors.size if self.errors.size > 100 else 0.0
        return self.outside(tolerance) <= max(1e-3, single) and self.bulk <= 0.1 * tolerance

    @cached_property
    def held(self) -> np.ndarray:
        """Inputs that are silent, or too far from their fixed point for derivatives to mean anything.

        Their sites are held while the others take a Newton step.
        """
        return np.asarray(~(self.errors <= 0.5))

    @cached_property
    def own_inverse(self) -> FloatArray:
        """J⁻¹ (N, 5, 5), 0 for inputs that are held."""
        out = np.zeros_like(self.own)
        out[~self.held] = np.linalg.inv(self.own[~self.held])
        return out

    @cached_property
    def slope(self) -> FloatArray:
        """G' (N, 5, 5), 0 for inputs that are held."""
        out = self.own_inverse @ self.tilted.covariance - np.eye(5)
        out[self.held] = 0.0
        return np.asarray(out)

    def patch(self, sites: FloatArray, rows: np.ndarray, part: NeighborsState) -> NeighborsState:
        """The state at other sites, with what follows from them for some rows."""
        fields = ("cavity", "change", "own", "errors")
        values = {name: _put(getattr(self, name), rows, getattr(part, name)) for name in fields}
        neighbors, rest = self.places[0], self.places[1:]
        used, shared, local = (_put(a, rows, b) for a, b in zip(rest, part.places[1:], strict=True))
        tilted = Tilted(*(_put(a, rows, b) for a, b in zip(self.tilted, part.tilted, strict=True)))
        return replace(self, sites=sites, places=(neighbors, used, shared, local), tilted=tilted, **values)


def _put(whole: FloatArray, rows: np.ndarray, part: FloatArray) -> FloatArray:
    out = whole.copy()
    out[rows] = part
    return out


def evaluate(observations: Observations, own_sites: FloatArray, found: Kriged) -> NeighborsState:
    """All that follows from cavities and the sites of the same inputs."""
    tilted = observations.tilted(np.where(np.isfinite(found.cavity), found.cavity, 0.0))
    inside, spread = mean_and_covariance(tilted.mean)
    spread = spread + RADIAL_FLOOR * np.eye(2)
    change, own = (
        natural_parameters(inside, spread) - found.cavity - own_sites,
        covariance_of_statistics(inside, spread),
    )
    errors = np.where(found.sound, _errors(tilted, own, change), np.inf)
    return NeighborsState(own_sites, found.cavity, found.places, tilted, change, own, errors)


def krige_sites(sites: FloatArray, near: tuple[np.ndarray, FloatArray], weights: Weights) -> Kriged:
    """Gaussians of targets given the sites of their neighbors."""
    moments, shared, local, pivots = krige(sites, near, (weights.inverses, weights.weights, weights.rest))
    one, cross, two = moments[:, 2:].T
    with np.errstate(invalid="ignore", over="ignore"):
        # A cavity eight times wider than the prior is about to be none.
        sound = (pivots > 0.0) & (one * two > cross * cross) & (one + two < 8.0 * weights.variances)
    return Kriged(moments, natural_parameters(moments[:, :2], _square(one, cross, two)), (*near, shared, local), sound)


def drop_neighbors(near: tuple[np.ndarray, FloatArray], lost: np.ndarray, sites: FloatArray, every: bool) -> FloatArray:
    """Which neighbours still count once lost neighbourhoods do without those of indefinite sites, or without any."""
    neighbors, used = near
    one, cross, two = site_precision(sites)
    indefinite = (one < 0.0) | (two < 0.0) | (one * two < cross * cross)
    out = used.copy()
    out[lost] *= 0.0 if every else ~indefinite[neighbors[lost]]
    return out


def krige_queries(sites: FloatArray, neighbors: np.ndarray, weights: Weights) -> tuple[FloatArray, FloatArray]:
    """Mean (M, 2) and covariance (M, 2, 2) of targets given the sites of their neighbors."""
    used = np.ones(neighbors.shape)
    for every in (False, True):
        found = krige_sites(sites, (neighbors, used), weights)
        if found.sound.all():
            break
        used = drop_neighbors((neighbors, used), ~found.sound, sites, every)
    else:
        found = krige_sites(sites, (neighbors, used), weights)
    return found.moments[:, :2], _square(*found.moments[:, 2:].T)


def _square(one: FloatArray, cross: FloatArray, two: FloatArray) -> FloatArray:
    return np.moveaxis(np.array([[one, cross], [cross, two]]), -1, 0)


def _errors(tilted: Tilted, own: FloatArray, change: FloatArray) -> FloatArray:
    """Largest move J·change of a moment in units of its distribution's standard deviation, inf where there is no
    distribution.

    To first order that is the mismatch of the moments; unlike that it is known where cavity times site is no
    distribution.
    """
    width = np.sqrt(np.maximum(np.diagonal(tilted.covariance, axis1=1, axis2=2), RADIAL_FLOOR))
    errors = np.abs(multiply_each(own, change) / width).max(axis=1)
    return np.where(np.isfinite(tilted.log_normalizer) & np.isfinite(errors), errors, np.inf)


class NeighborsLinearization:
    """1 - G' c' at a state, the sites of inputs that are held being constants."""

    def __init__(self, state: NeighborsState):
        self._state = state
        neighbors, used, shared, local = state.places
        # A cavity that is no distribution may hold anything: it does not move.
        finite = [np.isfinite(values).reshape(len(values), -1).all(axis=1) for values in (state.cavity, shared, local)]
        clean = np.logical_and.reduce(finite)
        self._cavity, self._places = state.cavity, state.places
        if not clean.all():
            self._cavity = np.where(clean[:, None], state.cavity, 0.0)
            shared, local = (np.where(clean[:, None, None], values, 0.0) for values in (shared, local))
            self._places = (neighbors, used, shared, local)

    def solve(self, residual: FloatArray, tolerance: float) -> FloatArray:
        """ds with (1 - G' c') ds = residual; 0 for inputs that are held."""
        state = self._state
        right = np.where(state.held[:, None], 0.0, residual)

        def product(change: FloatArray) -> FloatArray:
            return change - multiply_each(state.slope, cavity_response(self._cavity, self._places, change))

        return _gmres(product, right, tolerance)

    def pull(self, gradient: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """λ and g + G'ᵀλ with λ = c'ᵀ(g + G'ᵀλ)."""
        turned = np.swapaxes(self._state.slope, 1, 2)
        size = gradient.shape[0]

        def transposed(values: FloatArray) -> FloatArray:
            return site_pull(self._cavity, self._places, values, size)

        adjoint = _gmres(lambda v: v - transposed(multiply_each(turned, v)), transposed(gradient), tolerance)
        return adjoint, gradient + multiply_each(turned, adjoint)


def _gmres(product: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float) -> FloatArray:
    operator = LinearOperator((right.size, right.size), matvec=lambda v: product(v.reshape(right.shape)).ravel())
    found, _ = gmres(operator, right.ravel(), rtol=tolerance, restart=30, maxiter=4)
    return np.asarray(found).reshape(right.shape)


# ---- propagation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepSettings:
    """When inputs are swept, alone or together, when Newton's steps are tried, and when an input falls silent.

    Mismatches and moves are in standard deviations of a moment.
    """

    sweeps: int = 16
    still: float = 1e-2  # move up to which sweeps leave an input alone
    newton_below: float = 0.3  # mismatch of most inputs from which Newton's steps are tried
    restless: float = 0.1  # mismatch of an input that is swept alone: at least that,
    apart: float = 4.0  # and so many times that of most others,
    few: float = 0.1  # where no larger share of the inputs is so
    damping: float = 0.6  # of those sweeps
    patience: int = 3  # steps after which inputs that stay so may fall silent,
    stubborn: float = 5e-3  # if no larger share of them does
    sharpest: float = 1.7e4  # curvature of a likelihood on the grid of sweeps: that has 1,024 nodes at most


@dataclass
class NeighborsPropagation:
    """The problem: neighbours (N, m), their conditional distributions, and observations.

    Sites may have negative precisions, and those of some neighbors may make their posterior improper. A neighbour that
    does so is left out of that one neighbourhood: `used` (N, m) tells. Single inputs, between neighbors that disagree,
    have no fixed point at all: these fall silent, their site is 0.
    """

    neighbors: np.ndarray
    weights: Weights
    observations: Observations
    order: np.ndarray  # (N,), in which inputs are visited
    used: FloatArray
    coarse: Weights | None = None  # the same given the first few neighbours alone, for the first sweeps
    settings: SweepSettings = SweepSettings()
    silent: np.ndarray = field(init=False)  # (N,)
    _made: Tables | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.silent = np.zeros(self.order.size, dtype=bool)

    def run(self, sites: FloatArray | None, tolerance: float, max_steps: int = 20) -> tuple[NeighborsState, bool]:
        """Steps from given sites (or none) until the moments match; the best state and whether it does."""
        state = self._move(*self._first()) if sites is None else self._move(0.0 * sites, sites)
        best, damping = state, 1.0
        for count in range(max_steps):
            state = self._calm(state, tolerance, count >= self.settings.patience)
            if state.has_converged(tolerance):
                break
            found = self._newton(state)
            if found is None:
                found = self._move(state.sites, self._sweep(state.sites, self.order, damping, most=2) - state.sites)
                damping = max(0.5 * damping, 0.05)
            state = found
            if self._progress(state, tolerance) < self._progress(best, tolerance):
                best = state
        best = state if state.outside(tolerance) < best.outside(tolerance) else best
        return best, best.has_converged(tolerance)

    def _first(self) -> tuple[FloatArray, FloatArray]:
        """Sites to begin with, and a change to try.

        Sweeps that hear few neighbors converge in little time, also under smooth kernels.
        """
        sites = np.zeros((self.observations.size, 5))
        if self.coarse is None:
            return sites, self._sweep(sites, self.order, 1.0)
        few = self.coarse.weights.shape[1]
        near = np.ascontiguousarray(self.neighbors[:, :few])
        part = NeighborsPropagation(near, self.coarse, self.observations, self.order, np.ones(near.shape))
        part._made = self._tables()
        return sites, part._sweep(sites, self.order, 1.0)

    def _tables(self) -> Tables:
        """Log-likelihoods on a grid that is fine enough for sweeps."""
        if self._made is None:
            observations = self.observations
            noise, rho, replicates = observations.noise, observations.rho, observations.replicates
            sharpest = self.settings.sharpest
            widest = min(noise.concentration(rho) * float(replicates.total.max()), sharpest)
            # Cavities of neighbours that agree add some tens to the curvature; later steps choose their own grid.
            count = max(64, 16 * math.ceil((20.0 + 7.5 * math.sqrt(widest + 20.0)) / 16.0))
            nodes = periodic_grid(count)
            values = bounded_likelihood(noise, rho, replicates, nodes, sharpest)[0]
            self._made = values, np.stack([np.cos(nodes), np.sin(nodes)]), radial_precision(observations.radial_scale)
        return self._made

    def _sweep(
        self,
        sites: FloatArray,
        order: np.ndarray,
        damping: float,
        *,
        near: float | None = None,
        most: int | None = None,
    ) -> FloatArray:
        """Sites after sequential sweeps, which converge where parallel updates would overshoot.

        The first is over all inputs of `order`, the others over those that still move by more than `near`
        standard deviations and their neighbors: a few stubborn ones cost little.
        """
        moved, order = sites.copy(), order[~self.silent[order]]
        conditional = (self.weights.inverses, self.weights.weights, self.weights.rest)
        near = self.settings.still if near is None else near
        for count in range(most or self.settings.sweeps):
            far = sweep(moved, order, (self.neighbors, self.used), conditional, self._tables(), damping)
            restless = order[far > near]
            if restless.size == 0:
                break
            if count % 4 == 3 and count > 4:
                damping *= 0.7
                lost = np.zeros(len(sites), dtype=bool)
                lost[order[np.isinf(far)]] = True
                self.used = drop_neighbors((self.neighbors, self.used), lost, moved, False)
            order = self._around(restless)
        return moved

    def _around(self, rows: np.ndarray) -> np.ndarray:
        """Inputs and their neighbours, in the order of visits."""
        asked = np.zeros(self.order.size, dtype=bool)
        asked[rows] = True
        asked[self.neighbors[rows]] = True
        asked &= ~self.silent
        return self.order[asked[self.order]]

    def _calm(self, state: NeighborsState, tolerance: float, last: bool) -> NeighborsState:
        """The state after sweeps over a few inputs that are far off, where all others are near.

        At last those that stay so fall silent.
        """
        bulk = state.bulk
        limit = max(self.settings.restless, min(self.settings.apart * bulk, self.settings.newton_below), tolerance)
        restless = np.flatnonzero(~(state.errors <= limit) & ~self.silent)
        if (
            restless.size == 0
            or restless.size > self.settings.few * state.errors.size
            or state.has_converged(tolerance)
        ):
            return state
        near = min(max(self.settings.still, bulk), 0.5 * limit)
        found = self._renew(state, self._sweep(state.sites, self._around(restless), self.settings.damping, near=near))
        state = found if found.outside(limit) < state.outside(limit) else state
        stubborn = ~(state.errors <= limit) & ~self.silent
        if (
            not last
            or bulk > self.settings.still
            or not 0 < stubborn.sum() <= max(3, self.settings.stubborn * stubborn.size)
        ):
            return state
        self.silent |= stubborn
        around = self._around(np.flatnonzero(stubborn))
        quiet = np.where(stubborn[:, None], 0.0, state.sites)
        return self._renew(state, self._sweep(quiet, around, self.settings.damping, near=near))

    def _renew(self, state: NeighborsState, sites: FloatArray) -> NeighborsState:
        """The state at other sites, done again where it differs."""
        moved = (sites != state.sites).any(axis=1)
        heard = moved | moved[self.neighbors].any(axis=1) | (self.used != state.places[1]).any(axis=1)
        rows = np.flatnonzero(heard)
        if rows.size == 0:
            return state
        part = Weights(*(values[rows] for values in self.weights))
        found = krige_sites(sites, (self.neighbors[rows], self.used[rows]), part)
        seen = self.observations
        seen = Observations(seen.replicates.take(rows), seen.noise, seen.rho, seen.radial_scale)
        return state.patch(sites, rows, self._silence(evaluate(seen, sites[rows], found), rows))

    def _move(self, sites: FloatArray, change: FloatArray) -> NeighborsState:
        """The state after a change of the sites.

        Where that leaves no cavity the neighbourhood takes half of its change back, a few times; then neighbors with
        indefinite sites are left out of it.
        """
        change = np.where(np.isfinite(change), change, 0.0)
        found = krige_sites(sites + change, (self.neighbors, self.used), self.weights)
        for retreat in range(12):
            lost = ~found.sound
            if not lost.any():
                break
            back = lost.copy()
            if retreat < 4:
                back[self.neighbors[lost]] = True
                change[back] *= 0.5
            else:
                self.used = drop_neighbors((self.neighbors, self.used), lost, sites + change, retreat > 5)
            found = self._krige_again(found, sites + change, lost | back[self.neighbors].any(axis=1))
        return self._silence(evaluate(self.observations, sites + change, found), np.arange(self.order.size))

    def _silence(self, state: NeighborsState, rows: np.ndarray) -> NeighborsState:
        """The same, with no mismatch to speak of where inputs are silent."""
        silent = self.silent[rows]
        return replace(state, errors=np.where(silent, np.nan, state.errors)) if silent.any() else state

    def _krige_again(self, found: Kriged, sites: FloatArray, which: np.ndarray) -> Kriged:
        """Cavities of some inputs, put among those of the others."""
        rows = np.flatnonzero(which)
        part = Weights(*(values[rows] for values in self.weights))
        again = krige_sites(sites, (self.neighbors[rows], self.used[rows]), part)
        for whole, values in zip(
            (found.moments, found.cavity, found.sound), (again[0], again[1], again[3]), strict=True
        ):
            whole[rows] = values
        for whole, values in zip(found.places[2:], again.places[2:], strict=True):
            whole[rows] = values
        return found._replace(places=(self.neighbors, self.used, *found.places[2:]))

    def _progress(self, state: NeighborsState, tolerance: float) -> float:
        """What shall fall: the mismatch of most inputs, and the share of those that do not match at all."""
        return state.bulk + state.outside(max(self.settings.restless, tolerance))

    def _newton(self, state: NeighborsState) -> NeighborsState | None:
        """A Newton step, taken where it brings the moments of most inputs closer."""
        if state.bulk > self.settings.newton_below:
            return None
        kept, step = self.used, NeighborsLinearization(state).solve(state.change, 1e-2)
        for part, enough in ((1.0, 0.5), (0.4, 0.9)):
            found = self._move(state.sites, part * step)
            if found.bulk < enough * state.bulk or found.outside(self.settings.restless) < state.outside(
                self.settings.restless
            ):
                return found
            self.used = kept
        return None


# ---- scores ---------------------------------------------------------------------------------------------------------


class NeighborsScore(NamedTuple):
    """Leave-one-out log densities (N,), and their slopes (N, 5) in the cavities."""

    parts: FloatArray
    slopes: FloatArray


def score_leave_one_out(problem: NeighborsPropagation, state: NeighborsState) -> NeighborsScore:
    """The leave-one-out log densities of all inputs."""
    alone = problem.observations.cavities(state.cavity)
    return NeighborsScore(state.tilted.log_normalizer - alone.log_normalizer, state.tilted.mean - alone.mean)


def score_gradient(
    hood: Neighborhood, kernel: Kernel, state: NeighborsState, score: NeighborsScore, tolerance: float = 1e-7
) -> tuple[FloatArray, float]:
    """The gradient of the sum of leave-one-out log densities in (θ, ρ), and how much that sum lacks.

    At sites that are not quite the fixed point, λ·(G(c(s)) - s) is what the sum will gain on the way there, to first
    order: with it a rough propagation gives the value to second order.
    """
    adjoint, pulled = NeighborsLinearization(state).pull(score.slopes, tolerance)
    own = multiply_each(np.swapaxes(state.own_inverse, 1, 2), adjoint)
    noise = state.tilted.noise_mean.sum(axis=0) + np.einsum("np,npq->q", own, state.tilted.noise_cross)
    near = state.errors <= 0.1  # further away first order does not tell
    lack = float((adjoint[near] * state.change[near]).sum())
    return np.concatenate([kernel_gradient(hood, kernel, state, pulled), noise]), lack


def kernel_gradient(hood: Neighborhood, kernel: Kernel, state: NeighborsState, pulled: FloatArray) -> FloatArray:
    """The gradient in the kernel's logarithms θ of a function whose gradient in the cavities is `pulled`."""
    neighbors, used, shared, local = state.places
    out, diagonal, trace = np.zeros(kernel.n_dims), np.zeros(kernel.n_dims), 0.0
    for block in hood.blocks:
        part = block.targets
        places = (neighbors[part], used[part], shared[part], local[part])
        count = block.points.size
        gradient = covariance_pull(state.sites, state.cavity[part], places, pulled[part], block.members, count)
        slopes = kernel(hood.inputs[block.points], eval_gradient=True)[1]
        out += np.tensordot(gradient, slopes, axes=2)
        trace += float(np.trace(gradient))
        own = block.members[:, 0]
        diagonal += slopes[own, own].sum(axis=0)
    # The nugget follows the mean variance of the inputs.
    return np.asarray(out + NUGGET * trace * diagonal / len(hood.inputs))
