"""Where nearest-neighbour propagation stands: sites, the cavities that neighbours' sites make, and tilted laws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mgvm._numerics.neighbour_propagation import krige
from mgvm._numerics.neighbour_response import Places
from mgvm._validation import FloatArray
from mgvm.models._gp_dense import each
from mgvm.models._gp_neighbours import Weights
from mgvm.models._gp_plane import covariance_of, from_moments
from mgvm.models._gp_tilted import Observations, Tilted

_FLOOR = 1e-10  # of the variance along the radius, which vanishes on the circle
_WIDEST = 8.0  # of the variances of a cavity, relative to the prior's
_BULK = 0.98
_LEFT = 1e-3  # share of inputs whose moments need not match: single ones may have no fixed point
_LINEAR = 0.5  # mismatch above which the site of an input is held while the others take a Newton step


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
    errors: FloatArray  # (N,), largest mismatch of a moment in standard deviations; inf without law, NaN if silent

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
    """Largest move J·change of a moment in units of its law's standard deviation, inf where there is no law.

    To first order that is the mismatch of the moments; unlike that it is known where cavity times site is no law.
    """
    width = np.sqrt(np.maximum(np.diagonal(tilted.covariance, axis1=1, axis2=2), _FLOOR))
    errors = np.abs(each(own, change) / width).max(axis=1)
    return np.where(np.isfinite(tilted.log_normalizer) & np.isfinite(errors), errors, np.inf)
