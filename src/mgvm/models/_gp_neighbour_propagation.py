"""Nearest-neighbour expectation propagation: the cavity of an input is kriging from the sites of its neighbours.

Sites s (N, 5) are shared by all. With c(s) the natural parameters of the cavities and G(c) those of the Gaussian with
the moments of the tilted law, less c, the fixed point is s = G(c(s)). Sequential sweeps come near it; Newton's step
solves (1 - G' c') ds = G(c(s)) - s by GMRES, where products with c' cost a fraction of what the tilted laws cost.
Inputs that are far from their fixed point while the others are near are swept alone, and what follows is done again
only for those that hear of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mgvm._numerics.neighbour_propagation import Tables, sweep
from mgvm._validation import FloatArray
from mgvm.models._gp_neighbour_linear import Linearisation
from mgvm.models._gp_neighbour_state import Kriged, NeighbourState, evaluated, kriged, left_out
from mgvm.models._gp_neighbours import Weights
from mgvm.models._gp_tilted import Observations

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
    """The problem: neighbours (N, m), their conditional laws, and observations.

    Sites may have negative precisions, and those of some neighbours may make their posterior improper. A neighbour that
    does so is left out of that one neighbourhood: `used` (N, m) tells. Single inputs, between neighbours that disagree,
    have no fixed point at all: these fall silent, their site is 0.
    """

    neighbours: np.ndarray
    weights: Weights
    observations: Observations
    order: np.ndarray  # (N,), in which inputs are visited
    used: FloatArray
    coarse: Weights | None = None  # conditional laws given the first few neighbours alone, for the first sweeps
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
            widest = observations.noise.concentration(observations.rho) * float(observations.groups.total.max())
            # Cavities of neighbours that agree add some tens to the curvature; later steps choose their own grid.
            count = int(np.clip(16 * np.ceil((20.0 + 7.5 * np.sqrt(widest + 20.0)) / 16.0), 64, 1024))
            nodes = np.asarray(-np.pi + 2.0 * np.pi / count * np.arange(count), dtype=np.float64)
            values = observations.noise.likelihood(observations.rho, observations.groups, nodes)[0]
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
        seen = Observations(seen.groups.take(rows), seen.noise, seen.rho, seen.spread)
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
