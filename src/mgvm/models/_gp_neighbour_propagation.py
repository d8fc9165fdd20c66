"""Nearest-neighbour expectation propagation: the cavity of an input is kriging from the sites of its neighbours.

Sites s (N, 5) are shared by all. With c(s) the natural parameters of the cavities and G(c) those of the Gaussian with
the moments of the tilted law, less c, the fixed point is s = G(c(s)). Newton's step solves (1 - G' c') ds = G(c(s)) - s
by GMRES: products with c' cost a fraction of what the tilted laws cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from mgvm._numerics.neighbour_propagation import Tables, krige, sweep
from mgvm._numerics.neighbour_response import Places, cavity_response, site_pull
from mgvm._validation import FloatArray
from mgvm.models._gp_dense import each
from mgvm.models._gp_neighbours import Weights
from mgvm.models._gp_plane import covariance_of, from_moments
from mgvm.models._gp_tilted import Observations, Tilted

_FLOOR = 1e-10  # of the variance along the radius, which vanishes on the circle
_RETREATS, _HALVINGS = 12, 4
_STALE = 3
_SWEEPS, _SETTLED = 16, 1e-2
_NEWTON_BELOW = 0.3
_WIDEST = 8.0  # of the variances of a cavity, relative to the prior's
_LEFT = 1e-3  # share of inputs whose moments need not match: single ones may have no fixed point


class Kriged(NamedTuple):
    """Means and covariances (N, 5), cavities (N, 5), what their derivatives need, and which are laws."""

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
    errors: FloatArray  # (N,), largest mismatch of a moment in standard deviations; inf where there is no law

    @property
    def mismatch(self) -> float:
        """The largest of all."""
        return float(self.errors.max())

    @property
    def size(self) -> float:
        """Root mean square of the errors: what a step must lower; none counts for more than 1."""
        return float(np.sqrt(np.mean(np.minimum(self.errors, 1.0) ** 2)))

    def outside(self, tolerance: float) -> float:
        """The share of inputs whose moments do not match."""
        return float(np.mean(self.errors > tolerance))

    @cached_property
    def own_inverse(self) -> FloatArray:
        """J⁻¹ (N, 5, 5)."""
        return np.asarray(np.linalg.inv(self.own))

    @cached_property
    def slope(self) -> FloatArray:
        """G' (N, 5, 5)."""
        return np.asarray(self.own_inverse @ self.tilted.covariance - np.eye(5))


@dataclass
class NeighbourPropagation:
    """The problem: neighbours (N, m), their conditional laws, and observations.

    Sites may have negative precisions, and those of some neighbours may make their posterior improper. A neighbour that
    does so is left out of that one neighbourhood: `used` (N, m) tells.
    """

    neighbours: np.ndarray
    weights: Weights
    observations: Observations
    order: np.ndarray  # (N,), in which inputs are visited
    used: FloatArray

    def krige(self, sites: FloatArray) -> Kriged:
        """Cavities of all inputs, and whether they are laws."""
        return kriged(sites, (self.neighbours, self.used), self.weights)

    def _tables(self) -> Tables:
        """Log-likelihoods on a grid that is fine enough for sweeps."""
        observations = self.observations
        widest = observations.noise.concentration(observations.rho) * float(observations.groups.total.max())
        # Cavities of neighbours that agree add some tens to the curvature; the steps that follow choose their own grid.
        count = int(np.clip(16 * np.ceil((20.0 + 7.5 * np.sqrt(widest + 20.0)) / 16.0), 64, 1024))
        nodes = np.asarray(-np.pi + 2.0 * np.pi / count * np.arange(count), dtype=np.float64)
        values = observations.noise.likelihood(observations.rho, observations.groups, nodes)[0]
        return values, np.stack([np.cos(nodes), np.sin(nodes)]), observations.pull

    def _swept(self, sites: FloatArray, tables: Tables, damping: float) -> NeighbourState:
        """The state after sequential sweeps, which settle where parallel updates would overshoot.

        Two over all inputs, then over those that still move and their neighbours: a few stubborn ones cost little.
        """
        moved = sites.copy()
        conditional = (self.weights.inverses, self.weights.weights, self.weights.rest)
        order = self.order
        for count in range(_SWEEPS):
            far = sweep(moved, order, (self.neighbours, self.used), conditional, tables, damping)
            if count == 0:
                continue
            restless = order[far > _SETTLED]
            if restless.size == 0:
                break
            if count % 4 == 3 and count > 4:
                damping *= 0.7
                lost = np.zeros(len(sites), dtype=bool)
                lost[order[np.isinf(far)]] = True
                self.used = left_out((self.neighbours, self.used), lost, moved, False)
            order = np.union1d(restless, self.neighbours[restless])
        return self._moved(sites, moved - sites)

    def evaluate(self, sites: FloatArray, found: Kriged) -> NeighbourState:
        """All that follows from sites and their cavities."""
        tilted = self.observations.tilted(np.where(np.isfinite(found.cavity), found.cavity, 0.0))
        inside, spread = from_moments(tilted.mean)
        spread = spread + _FLOOR * np.eye(2)
        change, own = _natural(inside, spread) - found.cavity - sites, covariance_of(inside, spread)
        errors = np.where(found.sound, _errors(tilted, own, change), np.inf)
        return NeighbourState(sites, found.cavity, found.places, tilted, change, own, errors)

    def run(self, sites: FloatArray | None, tolerance: float, max_steps: int = 50) -> tuple[NeighbourState, bool]:
        """Steps from given sites (or none) until the moments match; the best state and whether it does."""
        nothing, tables = np.zeros((self.observations.size, 5)), None
        if sites is None:
            tables = self._tables()
            state = self._swept(nothing, tables, 1.0)
        else:
            state = self._moved(nothing, sites)
        best, damping, stale = state, 1.0, 0
        for _ in range(max_steps):
            if state.outside(tolerance) <= _LEFT:
                break
            found = self._newton(state)
            if found is None:
                tables = tables or self._tables()
                found = self._swept(state.sites, tables, damping)
            state = found
            stale = 0 if state.size < 0.9 * best.size else stale + 1
            if state.size < best.size:
                best = state
            if stale >= _STALE:
                damping, stale, state = max(0.5 * damping, 0.05), 0, best
        best = state if state.outside(tolerance) < best.outside(tolerance) else best
        return best, best.outside(tolerance) <= _LEFT

    def _moved(self, sites: FloatArray, change: FloatArray) -> NeighbourState:
        """The state after a change of the sites.

        Where that leaves no cavity the neighbourhood takes half of its change back, a few times; then neighbours with
        indefinite sites are left out of it.
        """
        change = np.where(np.isfinite(change), change, 0.0)
        for retreat in range(_RETREATS):
            found = self.krige(sites + change)
            lost = ~found.sound
            if not lost.any():
                break
            if retreat < _HALVINGS:
                change[np.union1d(np.flatnonzero(lost), self.neighbours[lost])] *= 0.5
            else:
                self.used = left_out((self.neighbours, self.used), lost, sites + change, retreat > _HALVINGS + 1)
        return self.evaluate(sites + change, found)

    def _newton(self, state: NeighbourState) -> NeighbourState | None:
        """A Newton step, taken where it brings the moments closer."""
        if state.size > _NEWTON_BELOW or not np.isfinite(state.mismatch):
            return None
        kept = self.used
        found = self._moved(state.sites, Linearisation(state).solve(state.change, 1e-2))
        if found.size < 0.5 * state.size:
            return found
        self.used = kept
        return None


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


class Linearisation:
    """1 - G' c' at a state: systems with it and with its transpose."""

    def __init__(self, state: NeighbourState):
        self._state = state

    def solve(self, residual: FloatArray, tolerance: float) -> FloatArray:
        """ds with (1 - G' c') ds = residual."""
        state = self._state

        def product(change: FloatArray) -> FloatArray:
            return change - each(state.slope, cavity_response(state.cavity, state.places, change))

        return _gmres(product, residual, tolerance)

    def pull(self, gradient: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """λ and g + G'ᵀλ with λ = c'ᵀ(g + G'ᵀλ)."""
        state, size = self._state, gradient.shape[0]
        turned = np.swapaxes(state.slope, 1, 2)

        def transposed(values: FloatArray) -> FloatArray:
            return site_pull(state.cavity, state.places, values, size)

        adjoint = _gmres(lambda v: v - transposed(each(turned, v)), transposed(gradient), tolerance)
        return adjoint, gradient + each(turned, adjoint)


def _gmres(product: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float) -> FloatArray:
    operator = LinearOperator((right.size, right.size), matvec=lambda v: product(v.reshape(right.shape)).ravel())
    found, _ = gmres(operator, right.ravel(), rtol=tolerance, restart=30, maxiter=4)
    return np.asarray(found).reshape(right.shape)


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
    """Largest move J·change of a moment in units of its law's standard deviation, inf where there is no law.

    To first order that is the mismatch of the moments; unlike that it is known where cavity times site is no law.
    """
    width = np.sqrt(np.maximum(np.diagonal(tilted.covariance, axis1=1, axis2=2), _FLOOR))
    errors = np.abs(each(own, change) / width).max(axis=1)
    return np.where(np.isfinite(tilted.log_normalizer) & np.isfinite(errors), errors, np.inf)
