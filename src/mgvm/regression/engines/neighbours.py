"""Hyper-parameters of circular regression on many inputs: leave-one-out densities of nearest-neighbour propagation.

Nearest neighbours of inputs under a kernel, and the small kernel matrices that kriging from them needs.

Any scikit-learn kernel works: it is called on blocks of inputs that lie together with the union of their neighbours,
some two hundred points at a time, so that the cost is linear in the number of inputs.

Where nearest-neighbour propagation stands: sites, the cavities that neighbours' sites make, and tilted distributions.

Nearest-neighbour propagation to first order: systems with 1 - G' c' at a state, and with its transpose.

Nearest-neighbour expectation propagation: the cavity of an input is kriging from the sites of its neighbours.

Sites s (N, 5) are shared by all. With c(s) the natural parameters of the cavities and G(c) those of the Gaussian with
the moments of the tilted distribution, less c, the fixed point is s = G(c(s)). Sequential sweeps come near it; Newton's
step solves (1 - G' c') ds = G(c(s)) - s by GMRES, where products with c' cost a fraction of what the tilted
distributions cost. Inputs that are far from their fixed point while the others are near are swept alone, and what
follows is done again only for those that hear of it.

Leave-one-out densities of nearest-neighbour propagation, with exact gradients.

L = Σ_n [log ∫ cavity_n · radial · likelihood_n - log ∫ cavity_n · radial] depends on the hyper-parameters through the
fixed point s = G(c(s)) of the sites, c the cavities. One transposed system gives its gradient,

    dL = (g + G'ᵀλ)·dc + (E_tilted[f] + λᵀ J⁻¹ Cov_tilted[T, f]) dρ,   λ = c'ᵀ(g + G'ᵀλ),   G' = J⁻¹ Cov_tilted[T] - 1,

g = dL/dc, f = d log-likelihood/dρ, J = Cov[T] of the matched Gaussian, dc what the kernel's change makes of cavities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.spatial import cKDTree

from mgvm._grids import periodic_grid
from mgvm._numerics.propagation import (
    Places,
    Tables,
    cavity_response,
    conditional_weights,
    covariance_pull,
    krige,
    site_pull,
    sweep,
)
from mgvm._validation import FloatArray
from mgvm.regression.bounded_bfgs import minimise
from mgvm.regression.engines.dense import each
from mgvm.regression.engines.tilted import Observations, Tilted, covariance_of, from_moments
from mgvm.regression.noise import Noise, Replicates
from mgvm.regression.prior import NUGGET, Prior

_BLOCK = 64  # targets to a call of the kernel, at most
_CALL = 10_000  # covariances that cost as much as one call


class Weights(NamedTuple):
    """Conditional distributions of targets given their neighbours: K⁻¹ (N, m, m), w (N, m), v (N,); prior variances (N,)."""

    inverses: FloatArray
    weights: FloatArray
    rest: FloatArray
    variances: FloatArray

    @classmethod
    def empty(cls, size: int, count: int) -> Weights:
        """Room for them."""
        return cls(np.empty((size, count, count)), np.empty((size, count)), np.empty(size), np.empty(size))


class Block(NamedTuple):
    """Targets, the points they and their neighbours make up, and the places of each target and its neighbours."""

    targets: np.ndarray  # (B,)
    points: np.ndarray  # (U,)
    members: np.ndarray  # (B, 1 + m), rows of `points`


def embedding(kernel: Any, X: FloatArray) -> FloatArray:
    """Coordinates whose Euclidean distance orders pairs of inputs by their correlation.

    Inputs over length scales; for a periodic kernel exp(-2 sin²(πd/p)/ℓ²) the points (cos, sin)(2πx/p)/ℓ of a circle,
    whose chords c give exp(-c²/2). The factors or terms of a composed kernel all contribute.
    """
    parts = _parts(kernel, X)
    return np.concatenate(parts, axis=1) if parts else X


def _parts(kernel: Any, X: FloatArray) -> list[FloatArray]:
    if hasattr(kernel, "k1"):
        return _parts(kernel.k1, X) + _parts(kernel.k2, X)
    if hasattr(kernel, "kernel"):  # Exponentiation
        return _parts(kernel.kernel, X)
    if hasattr(kernel, "periodicity"):
        turns = 2.0 * np.pi * X / kernel.periodicity
        return [np.cos(turns) / kernel.length_scale, np.sin(turns) / kernel.length_scale]
    if hasattr(kernel, "length_scale"):
        return [X / kernel.length_scale]
    return []


@dataclass(frozen=True)
class Neighbourhood:
    """The m nearest other inputs of every input (N, m), and blocks of inputs that lie together."""

    inputs: FloatArray
    places: FloatArray  # the embedding that distances were taken in
    neighbours: np.ndarray
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, kernel: Any, inputs: FloatArray, n_neighbors: int) -> Neighbourhood:
        """Neighbours of distinct inputs under a kernel."""
        places = embedding(kernel, inputs)
        tree = cKDTree(places)
        count = min(n_neighbors, len(inputs) - 1)
        found = np.asarray(tree.query(places, count + 1)[1], dtype=np.int64).reshape(len(inputs), count + 1)
        # A periodic kernel sends distinct inputs to one place: the input itself need not come first, or at all.
        own = found == np.arange(len(inputs))[:, None]
        own[~own.any(axis=1), -1] = True
        neighbours = np.ascontiguousarray(found[~own].reshape(len(inputs), count))
        return cls(inputs, places, neighbours, tuple(_blocks(np.asarray(tree.indices), neighbours)))

    def still_valid(self, kernel: Any, factor: float = 1.5) -> bool:
        """Whether no coordinate has been stretched relative to the others by more than a factor."""
        now = embedding(kernel, self.inputs)
        before, after = self.places.std(axis=0), now.std(axis=0)
        ratios = after[before > 0.0] / before[before > 0.0]
        return bool(ratios.size == 0 or ratios.max() <= factor * ratios.min())

    def weights(self, kernel: Any) -> Weights:
        """Conditional distributions of all inputs given their neighbours, nugget included."""
        return self.several_weights(kernel, (self.neighbours.shape[1],))[0]

    def several_weights(self, kernel: Any, counts: tuple[int, ...]) -> list[Weights]:
        """The same given only so many of the nearest neighbours, for several numbers at once."""
        outs = [Weights.empty(len(self.inputs), count) for count in counts]
        nugget = NUGGET * float(kernel.diag(self.inputs).mean())
        for block in self.blocks:
            gram = np.array(kernel(self.inputs[block.points]), dtype=float)
            np.fill_diagonal(gram, gram.diagonal() + nugget)
            own = block.members[:, 0]
            for count, out in zip(counts, outs, strict=True):
                near = np.ascontiguousarray(block.members[:, 1 : 1 + count])
                _fill(out, block.targets, gram, gram[own], gram.diagonal()[own], near)
        return [_checked(out) for out in outs]

    def query(self, kernel: Any, queries: FloatArray) -> tuple[np.ndarray, Weights]:
        """Neighbours (M, m) of new points among the inputs, and their conditional distributions."""
        tree = cKDTree(embedding(kernel, self.inputs))
        places = embedding(kernel, queries)
        count = min(self.neighbours.shape[1] + 1, len(self.inputs))
        found = np.asarray(tree.query(places, count)[1], dtype=np.int64).reshape(len(queries), count)
        out = Weights.empty(len(queries), count)
        nugget = NUGGET * float(kernel.diag(self.inputs).mean())
        for block in _blocks(np.argsort(found[:, 0], kind="stable"), found, own=False):
            near = self.inputs[block.points]
            gram = np.array(kernel(near), dtype=float)
            np.fill_diagonal(gram, gram.diagonal() + nugget)
            asked = queries[block.targets]
            cross = np.ascontiguousarray(kernel(asked, near), dtype=float)
            _fill(out, block.targets, gram, cross, (1.0 + NUGGET) * kernel.diag(asked), block.members)
        return found, _checked(out)


def _fill(
    out: Weights, targets: np.ndarray, gram: FloatArray, cross: FloatArray, variances: FloatArray, members: np.ndarray
) -> None:
    """The conditional distributions of one block, put where they belong."""
    rows = np.asarray(targets, dtype=np.int64)
    conditional_weights(gram, cross, variances, members, rows, (out.inverses, out.weights, out.rest))
    out.variances[rows] = variances


def _blocks(order: np.ndarray, neighbours: np.ndarray, *, own: bool = True) -> Iterator[Block]:
    """Targets in an order that keeps near ones together, cut into blocks.

    In many dimensions even near targets share few neighbours, and the kernel of all their points would be wasted: a
    block is halved as long as that saves covariances, a call of the kernel counted as some thousands of them.
    """
    waiting = [order[begin : begin + _BLOCK] for begin in range(0, order.size, _BLOCK)][::-1]
    while waiting:
        block = _block(waiting.pop(), neighbours, own)
        count = block.targets.size
        if count > 1 and block.points.size**2 > 2 * _CALL:
            halves = [_block(part, neighbours, own) for part in np.array_split(block.targets, 2)]
            if block.points.size**2 > _CALL + sum(half.points.size**2 for half in halves):
                waiting.extend(half.targets for half in halves[::-1])
                continue
        yield block


def _block(targets: np.ndarray, neighbours: np.ndarray, own: bool) -> Block:
    near = np.concatenate([targets[:, None], neighbours[targets]], axis=1) if own else neighbours[targets]
    points, members = np.unique(near, return_inverse=True)
    return Block(targets, points, members.reshape(near.shape).astype(np.int64))


def default_count(kernel: Any, dimension: int) -> int:
    """Neighbours for leave-one-out densities within some thousandths of a nat of those that hear all inputs.

    In the plane smooth kernels look further than rough ones.
    """
    if dimension == 1:
        return 30
    return 24 if _rough(kernel) else 40


def _rough(kernel: Any) -> bool:
    """Whether a kernel, or a part of it, is no smoother than the exponential."""
    parts = [getattr(kernel, name) for name in ("k1", "k2", "kernel") if hasattr(kernel, name)]
    return bool(getattr(kernel, "nu", np.inf) <= 0.5) or any(_rough(part) for part in parts)


def _checked(found: Weights) -> Weights:
    """The same, unless a kernel matrix could not be factorised."""
    wrong = ~(np.isfinite(found.rest) & (found.rest > 0.0))
    if wrong.any():
        raise ValueError(
            f"the kernel matrix of {int(wrong.sum())} neighbourhoods (the first that of point {int(wrong.argmax())}) "
            "is not positive definite; use a valid kernel, or add a WhiteKernel"
        )
    return found


_FLOOR = 1e-10  # of the variance along the radius, which vanishes on the circle
_WIDEST = 8.0  # of the variances of a cavity, relative to the prior's
_BULK = 0.98
_LEFT = 1e-3  # share of inputs whose moments need not match: single ones may have no fixed point
_LINEAR = 0.5  # mismatch above which the site of an input is held while the others take a Newton step


class Kriged(NamedTuple):
    """Means and covariances (N, 5), cavities (N, 5), what their derivatives need, and which are distributions."""

    moments: FloatArray
    cavity: FloatArray
    places: Places
    sound: np.ndarray


@dataclass(frozen=True, eq=False)
class NeighbourState:
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
        place = min(int(_BULK * self.errors.size), self.errors.size - 1)
        return float(np.partition(self.errors, place)[place])

    def outside(self, tolerance: float) -> float:
        """The share of inputs whose moments do not match."""
        return float(np.mean(self.errors > tolerance))

    def settled(self, tolerance: float) -> bool:
        """Whether all moments match, but for one input in a thousand (or one at all), and most ten times better."""
        single = 1.5 / self.errors.size if self.errors.size > 100 else 0.0
        return self.outside(tolerance) <= max(_LEFT, single) and self.bulk <= 0.1 * tolerance

    @cached_property
    def held(self) -> np.ndarray:
        """Inputs that are silent, or too far from their fixed point for derivatives to mean anything."""
        return np.asarray(~(self.errors <= _LINEAR))

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

    def patched(self, sites: FloatArray, rows: np.ndarray, part: NeighbourState) -> NeighbourState:
        """The state at other sites, with what follows from them for some rows."""
        fields = ("cavity", "change", "own", "errors")
        values = {name: _put(getattr(self, name), rows, getattr(part, name)) for name in fields}
        neighbours, rest = self.places[0], self.places[1:]
        used, shared, local = (_put(a, rows, b) for a, b in zip(rest, part.places[1:], strict=True))
        tilted = Tilted(*(_put(a, rows, b) for a, b in zip(self.tilted, part.tilted, strict=True)))
        return replace(self, sites=sites, places=(neighbours, used, shared, local), tilted=tilted, **values)


def _put(whole: FloatArray, rows: np.ndarray, part: FloatArray) -> FloatArray:
    out = whole.copy()
    out[rows] = part
    return out


def evaluated(observations: Observations, own_sites: FloatArray, found: Kriged) -> NeighbourState:
    """All that follows from cavities and the sites of the same inputs."""
    tilted = observations.tilted(np.where(np.isfinite(found.cavity), found.cavity, 0.0))
    inside, spread = from_moments(tilted.mean)
    spread = spread + _FLOOR * np.eye(2)
    change, own = _natural(inside, spread) - found.cavity - own_sites, covariance_of(inside, spread)
    errors = np.where(found.sound, _errors(tilted, own, change), np.inf)
    return NeighbourState(own_sites, found.cavity, found.places, tilted, change, own, errors)


def kriged(sites: FloatArray, near: tuple[np.ndarray, FloatArray], weights: Weights) -> Kriged:
    """Gaussians of targets given the sites of their neighbours."""
    moments, shared, local, pivots = krige(sites, near, (weights.inverses, weights.weights, weights.rest))
    one, cross, two = moments[:, 2:].T
    with np.errstate(invalid="ignore", over="ignore"):
        # A cavity far wider than the prior is about to be none.
        sound = (pivots > 0.0) & (one * two > cross * cross) & (one + two < _WIDEST * weights.variances)
    return Kriged(moments, _natural(moments[:, :2], _square(one, cross, two)), (*near, shared, local), sound)


def left_out(near: tuple[np.ndarray, FloatArray], lost: np.ndarray, sites: FloatArray, every: bool) -> FloatArray:
    """Which neighbours still count once lost neighbourhoods do without those of indefinite sites, or without any."""
    neighbours, used = near
    one, cross, two = -2.0 * sites[:, 2], -sites[:, 3], -2.0 * sites[:, 4]
    indefinite = (one < 0.0) | (two < 0.0) | (one * two < cross * cross)
    out = used.copy()
    out[lost] *= 0.0 if every else ~indefinite[neighbours[lost]]
    return out


def predicted(sites: FloatArray, neighbours: np.ndarray, weights: Weights) -> tuple[FloatArray, FloatArray]:
    """Mean (M, 2) and covariance (M, 2, 2) of targets given the sites of their neighbours."""
    used = np.ones(neighbours.shape)
    for every in (False, True):
        found = kriged(sites, (neighbours, used), weights)
        if found.sound.all():
            break
        used = left_out((neighbours, used), ~found.sound, sites, every)
    else:
        found = kriged(sites, (neighbours, used), weights)
    return found.moments[:, :2], _square(*found.moments[:, 2:].T)


def _square(one: FloatArray, cross: FloatArray, two: FloatArray) -> FloatArray:
    return np.moveaxis(np.array([[one, cross], [cross, two]]), -1, 0)


def _natural(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """ξ (N, 5); also of what is not positive definite, as cavities on the circle may be."""
    a, b, d = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        determinant = a * d - b * b
        one, cross, two = d / determinant, -b / determinant, a / determinant
        linear = (one * mean[:, 0] + cross * mean[:, 1], cross * mean[:, 0] + two * mean[:, 1])
        return np.stack([*linear, -0.5 * one, -cross, -0.5 * two], axis=1)


def _errors(tilted: Tilted, own: FloatArray, change: FloatArray) -> FloatArray:
    """Largest move J·change of a moment in units of its distribution's standard deviation, inf where there is no
    distribution.

    To first order that is the mismatch of the moments; unlike that it is known where cavity times site is no
    distribution.
    """
    width = np.sqrt(np.maximum(np.diagonal(tilted.covariance, axis1=1, axis2=2), _FLOOR))
    errors = np.abs(each(own, change) / width).max(axis=1)
    return np.where(np.isfinite(tilted.log_normalizer) & np.isfinite(errors), errors, np.inf)


class Linearisation:
    """1 - G' c' at a state, the sites of inputs that are held being constants."""

    def __init__(self, state: NeighbourState):
        self._state = state
        neighbours, used, shared, local = state.places
        # A cavity that is no distribution may hold anything: it does not move.
        finite = [np.isfinite(values).reshape(len(values), -1).all(axis=1) for values in (state.cavity, shared, local)]
        clean = np.logical_and.reduce(finite)
        self._cavity, self._places = state.cavity, state.places
        if not clean.all():
            self._cavity = np.where(clean[:, None], state.cavity, 0.0)
            shared, local = (np.where(clean[:, None, None], values, 0.0) for values in (shared, local))
            self._places = (neighbours, used, shared, local)

    def solve(self, residual: FloatArray, tolerance: float) -> FloatArray:
        """ds with (1 - G' c') ds = residual; 0 for inputs that are held."""
        state = self._state
        right = np.where(state.held[:, None], 0.0, residual)

        def product(change: FloatArray) -> FloatArray:
            return change - each(state.slope, cavity_response(self._cavity, self._places, change))

        return _gmres(product, right, tolerance)

    def pull(self, gradient: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """λ and g + G'ᵀλ with λ = c'ᵀ(g + G'ᵀλ)."""
        turned = np.swapaxes(self._state.slope, 1, 2)
        size = gradient.shape[0]

        def transposed(values: FloatArray) -> FloatArray:
            return site_pull(self._cavity, self._places, values, size)

        adjoint = _gmres(lambda v: v - transposed(each(turned, v)), transposed(gradient), tolerance)
        return adjoint, gradient + each(turned, adjoint)


def _gmres(product: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float) -> FloatArray:
    operator = LinearOperator((right.size, right.size), matvec=lambda v: product(v.reshape(right.shape)).ravel())
    found, _ = gmres(operator, right.ravel(), rtol=tolerance, restart=30, maxiter=4)
    return np.asarray(found).reshape(right.shape)


_RETREATS, _HALVINGS = 12, 4
_SWEEPS, _SETTLED = 16, 1e-2
_NEWTON_BELOW = 0.3
_RESTLESS, _APART = 0.1, 4.0  # mismatch of an input that is swept alone: at least that, and so much above the others'
_FEW = 0.1  # share of inputs for which that is worth it
_PATIENCE, _STUBBORN = 3, 5e-3  # steps after which so small a share of inputs may fall silent
_CAREFUL = 0.6  # damping of their sweeps
_ADJUSTED = 1e-2  # accuracy of a Newton step


@dataclass
class NeighbourPropagation:
    """The problem: neighbours (N, m), their conditional distributions, and observations.

    Sites may have negative precisions, and those of some neighbours may make their posterior improper. A neighbour that
    does so is left out of that one neighbourhood: `used` (N, m) tells. Single inputs, between neighbours that disagree,
    have no fixed point at all: these fall silent, their site is 0.
    """

    neighbours: np.ndarray
    weights: Weights
    observations: Observations
    order: np.ndarray  # (N,), in which inputs are visited
    used: FloatArray
    coarse: Weights | None = (
        None  # conditional distributions given the first few neighbours alone, for the first sweeps
    )
    silent: np.ndarray = field(init=False)  # (N,)
    _made: Tables | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.silent = np.zeros(self.order.size, dtype=bool)

    def run(self, sites: FloatArray | None, tolerance: float, max_steps: int = 20) -> tuple[NeighbourState, bool]:
        """Steps from given sites (or none) until the moments match; the best state and whether it does."""
        state = self._moved(*self._first()) if sites is None else self._moved(0.0 * sites, sites)
        best, damping = state, 1.0
        for count in range(max_steps):
            state = self._calmed(state, tolerance, count >= _PATIENCE)
            if state.settled(tolerance):
                break
            found = self._newton(state)
            if found is None:
                found = self._moved(state.sites, self._swept(state.sites, self.order, damping, most=2) - state.sites)
                damping = max(0.5 * damping, 0.05)
            state = found
            if _progress(state, tolerance) < _progress(best, tolerance):
                best = state
        best = state if state.outside(tolerance) < best.outside(tolerance) else best
        return best, best.settled(tolerance)

    def _first(self) -> tuple[FloatArray, FloatArray]:
        """Sites to begin with, and a change to try.

        Sweeps that hear few neighbours settle in little time, also under smooth kernels.
        """
        sites = np.zeros((self.observations.size, 5))
        if self.coarse is None:
            return sites, self._swept(sites, self.order, 1.0)
        few = self.coarse.weights.shape[1]
        near = np.ascontiguousarray(self.neighbours[:, :few])
        part = NeighbourPropagation(near, self.coarse, self.observations, self.order, np.ones(near.shape))
        part._made = self._tables()
        return sites, part._swept(sites, self.order, 1.0)

    def _tables(self) -> Tables:
        """Log-likelihoods on a grid that is fine enough for sweeps."""
        if self._made is None:
            observations = self.observations
            widest = observations.noise.concentration(observations.rho) * float(observations.replicates.total.max())
            # Cavities of neighbours that agree add some tens to the curvature; later steps choose their own grid.
            count = int(np.clip(16 * np.ceil((20.0 + 7.5 * np.sqrt(widest + 20.0)) / 16.0), 64, 1024))
            nodes = periodic_grid(count)
            values = observations.noise.likelihood(observations.rho, observations.replicates, nodes)[0]
            self._made = values, np.stack([np.cos(nodes), np.sin(nodes)]), observations.pull
        return self._made

    def _swept(
        self, sites: FloatArray, order: np.ndarray, damping: float, *, near: float = _SETTLED, most: int = _SWEEPS
    ) -> FloatArray:
        """Sites after sequential sweeps, which settle where parallel updates would overshoot.

        The first is over all inputs of `order`, the others over those that still move by more than `near`
        standard deviations and their neighbours: a few stubborn ones cost little.
        """
        moved, order = sites.copy(), order[~self.silent[order]]
        conditional = (self.weights.inverses, self.weights.weights, self.weights.rest)
        for count in range(most):
            far = sweep(moved, order, (self.neighbours, self.used), conditional, self._tables(), damping)
            restless = order[far > near]
            if restless.size == 0:
                break
            if count % 4 == 3 and count > 4:
                damping *= 0.7
                lost = np.zeros(len(sites), dtype=bool)
                lost[order[np.isinf(far)]] = True
                self.used = left_out((self.neighbours, self.used), lost, moved, False)
            order = self._around(restless)
        return moved

    def _around(self, rows: np.ndarray) -> np.ndarray:
        """Inputs and their neighbours, in the order of visits."""
        asked = np.zeros(self.order.size, dtype=bool)
        asked[rows] = True
        asked[self.neighbours[rows]] = True
        asked &= ~self.silent
        return self.order[asked[self.order]]

    def _calmed(self, state: NeighbourState, tolerance: float, last: bool) -> NeighbourState:
        """The state after sweeps over a few inputs that are far off, where all others are near.

        At last those that stay so fall silent.
        """
        bulk = state.bulk
        limit = max(_RESTLESS, min(_APART * bulk, _NEWTON_BELOW), tolerance)
        restless = np.flatnonzero(~(state.errors <= limit) & ~self.silent)
        if restless.size == 0 or restless.size > _FEW * state.errors.size or state.settled(tolerance):
            return state
        near = min(max(_SETTLED, bulk), 0.5 * limit)
        found = self._renewed(state, self._swept(state.sites, self._around(restless), _CAREFUL, near=near))
        state = found if found.outside(limit) < state.outside(limit) else state
        stubborn = ~(state.errors <= limit) & ~self.silent
        if not last or bulk > _SETTLED or not 0 < stubborn.sum() <= max(3, _STUBBORN * stubborn.size):
            return state
        self.silent |= stubborn
        around = self._around(np.flatnonzero(stubborn))
        quiet = np.where(stubborn[:, None], 0.0, state.sites)
        return self._renewed(state, self._swept(quiet, around, _CAREFUL, near=near))

    def _renewed(self, state: NeighbourState, sites: FloatArray) -> NeighbourState:
        """The state at other sites, done again where it differs."""
        moved = (sites != state.sites).any(axis=1)
        heard = moved | moved[self.neighbours].any(axis=1) | (self.used != state.places[1]).any(axis=1)
        rows = np.flatnonzero(heard)
        if rows.size == 0:
            return state
        part = Weights(*(values[rows] for values in self.weights))
        found = kriged(sites, (self.neighbours[rows], self.used[rows]), part)
        seen = self.observations
        seen = Observations(seen.replicates.take(rows), seen.noise, seen.rho, seen.spread)
        return state.patched(sites, rows, self._heard(evaluated(seen, sites[rows], found), rows))

    def _moved(self, sites: FloatArray, change: FloatArray) -> NeighbourState:
        """The state after a change of the sites.

        Where that leaves no cavity the neighbourhood takes half of its change back, a few times; then neighbours with
        indefinite sites are left out of it.
        """
        change = np.where(np.isfinite(change), change, 0.0)
        found = kriged(sites + change, (self.neighbours, self.used), self.weights)
        for retreat in range(_RETREATS):
            lost = ~found.sound
            if not lost.any():
                break
            back = lost.copy()
            if retreat < _HALVINGS:
                back[self.neighbours[lost]] = True
                change[back] *= 0.5
            else:
                self.used = left_out((self.neighbours, self.used), lost, sites + change, retreat > _HALVINGS + 1)
            found = self._kriged_again(found, sites + change, lost | back[self.neighbours].any(axis=1))
        return self._heard(evaluated(self.observations, sites + change, found), np.arange(self.order.size))

    def _heard(self, state: NeighbourState, rows: np.ndarray) -> NeighbourState:
        """The same, with no mismatch to speak of where inputs are silent."""
        silent = self.silent[rows]
        return replace(state, errors=np.where(silent, np.nan, state.errors)) if silent.any() else state

    def _kriged_again(self, found: Kriged, sites: FloatArray, which: np.ndarray) -> Kriged:
        """Cavities of some inputs, put among those of the others."""
        rows = np.flatnonzero(which)
        part = Weights(*(values[rows] for values in self.weights))
        again = kriged(sites, (self.neighbours[rows], self.used[rows]), part)
        for whole, values in zip(
            (found.moments, found.cavity, found.sound), (again[0], again[1], again[3]), strict=True
        ):
            whole[rows] = values
        for whole, values in zip(found.places[2:], again.places[2:], strict=True):
            whole[rows] = values
        return found._replace(places=(self.neighbours, self.used, *found.places[2:]))

    def _newton(self, state: NeighbourState) -> NeighbourState | None:
        """A Newton step, taken where it brings the moments of most inputs closer."""
        if state.bulk > _NEWTON_BELOW:
            return None
        kept, step = self.used, Linearisation(state).solve(state.change, _ADJUSTED)
        for part, enough in ((1.0, 0.5), (0.4, 0.9)):
            found = self._moved(state.sites, part * step)
            if found.bulk < enough * state.bulk or found.outside(_RESTLESS) < state.outside(_RESTLESS):
                return found
            self.used = kept
        return None


def _progress(state: NeighbourState, tolerance: float) -> float:
    """What shall fall: the mismatch of most inputs, and the share of those that do not match at all."""
    return state.bulk + state.outside(max(_RESTLESS, tolerance))


_NEAR = 0.1  # mismatch up to which first order tells


class NeighbourScore(NamedTuple):
    """Leave-one-out log densities (N,), and their slopes (N, 5) in the cavities."""

    parts: FloatArray
    slopes: FloatArray


def leave_one_out(problem: NeighbourPropagation, state: NeighbourState) -> NeighbourScore:
    """The leave-one-out log densities of all inputs."""
    alone = problem.observations.cavities(state.cavity)
    return NeighbourScore(state.tilted.log_normalizer - alone.log_normalizer, state.tilted.mean - alone.mean)


def score_gradient(
    hood: Neighbourhood, kernel: Any, state: NeighbourState, score: NeighbourScore, tolerance: float = 1e-7
) -> tuple[FloatArray, float]:
    """The gradient of the sum of leave-one-out log densities in (θ, ρ), and how much that sum lacks.

    At sites that are not quite the fixed point, λ·(G(c(s)) - s) is what the sum will gain on the way there, to first
    order: with it a rough propagation gives the value to second order.
    """
    adjoint, pulled = Linearisation(state).pull(score.slopes, tolerance)
    own = each(np.swapaxes(state.own_inverse, 1, 2), adjoint)
    noise = state.tilted.noise_mean.sum(axis=0) + np.einsum("np,npq->q", own, state.tilted.noise_cross)
    near = state.errors <= _NEAR
    lack = float((adjoint[near] * state.change[near]).sum())
    return np.concatenate([kernel_gradient(hood, kernel, state, pulled), noise]), lack


def kernel_gradient(hood: Neighbourhood, kernel: Any, state: NeighbourState, pulled: FloatArray) -> FloatArray:
    """The gradient in the kernel's logarithms θ of a function whose gradient in the cavities is `pulled`."""
    neighbours, used, shared, local = state.places
    out, diagonal, trace = np.zeros(kernel.n_dims), np.zeros(kernel.n_dims), 0.0
    for block in hood.blocks:
        part = block.targets
        places = (neighbours[part], used[part], shared[part], local[part])
        count = block.points.size
        gradient = covariance_pull(state.sites, state.cavity[part], places, pulled[part], block.members, count)
        slopes = kernel(hood.inputs[block.points], eval_gradient=True)[1]
        out += np.tensordot(gradient, slopes, axes=2)
        trace += float(np.trace(gradient))
        own = block.members[:, 0]
        diagonal += slopes[own, own].sum(axis=0)
    # The nugget follows the mean variance of the inputs.
    return np.asarray(out + NUGGET * trace * diagonal / len(hood.inputs))


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
    replicates: Replicates
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
        observations = Observations(self.replicates, self.noise, rho, self.spread)
        order = np.concatenate([block.targets for block in hood.blocks]).astype(np.int64)
        used, count = np.ones(hood.neighbours.shape), hood.neighbours.shape[1]
        # Sites to begin with are found with few neighbours.
        counts = (count, _COARSE) if self._sites is None and count > _COARSE else (count,)
        dists = hood.several_weights(prior.kernels[0], counts)
        problem = NeighbourPropagation(hood.neighbours, dists[0], observations, order, used, *dists[1:])
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
        curvature = 0.1 * float(self.replicates.total.sum()) + _PRIOR_SPREAD**-2
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
            self.inputs[which], self.replicates.take(which), self.prior, self.noise, self.spread, self._count
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
