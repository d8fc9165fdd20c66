"""Multivariate generalised von Mises components of up to three angles, with exact normalisers.

    log p_k(φ) = θ_k·T(φ) - log Z_k,   Z_k by quadrature, exact to some 1e-11.

The M step of one component maximises θ·t - log Z over the natural parameters, t the mean statistics of its share of the
rows: concave, one Newton step an iteration. Shrinkage is a number of rows spread evenly over the torus, whose mean
statistics are zero: the maximum exists for any data, and a distribution pays for natural parameters that few rows speak
for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics import torus_moments as frame
from mgvm._numerics.gvm import gvm_facts, gvm_sample
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._exact_grid import exact_grid, grid_log_normalizers
from mgvm.learning import exact_likelihood as newton
from mgvm.learning.missing import expectation
from mgvm.learning.rows import group_by_missing
from mgvm.mixture.families.base import BoolArray, IntArray, by_component
from mgvm.natural.parameters import (
    Natural,
    condition,
    log_densities,
    restrict,
    statistics,
    unit_points,
    unpack,
    with_harmonics,
)


class MGvMComponents(NamedTuple):
    """K distributions: θ (K, p), log Z (K,), and moments of the local statistics around anchors (K, D), kept for the
    next step.

    `local` is θ in local statistics, `mean` and `covariance` those of the statistics under the distribution.
    """

    theta: FloatArray
    log_normalizer: FloatArray
    anchor: FloatArray
    local: FloatArray
    log_integral: FloatArray
    mean: FloatArray
    covariance: FloatArray

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.anchor.shape[1])


@dataclass(frozen=True)
class MGvMFamily:
    """mGvM components with T = `order` harmonics of every angle, D <= 3."""

    order: int = 2
    shrinkage: float = 0.3

    @property
    def name(self) -> str:
        """The word for `component=`."""
        return "mgvm"

    def n_parameters(self, dimension: int) -> int:
        """2DT + 2D(D - 1)."""
        return frame.n_statistics(dimension, self.order)

    def start(self, x: FloatArray, weights: FloatArray) -> MGvMComponents:
        """The best Gaussian-like distribution of each column of weights, and a few Newton steps from there."""
        _check_dimension(x.shape[1])
        total = weights.sum(axis=0)
        mean = _mean_statistics(statistics(x, self.order), weights, total)
        anchor = _directions(mean, x.shape[1])
        target = self._target(mean, total, anchor)
        space = self._space(x.shape[1])
        first = newton.gaussian_start(target, x.shape[1], self.order, floor=2e-3)
        at = newton.evaluate(first, target, space._replace(largest=np.inf))
        for _ in range(8):
            at = newton.newton_step(at, target, space)[0]
        return self._components(at, anchor)

    def log_density(self, parameters: MGvMComponents, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
        """θ_k·T(φ) - log Z_k, (N, K)."""
        values = statistics(x, self.order) @ parameters.theta.T
        values -= parameters.log_normalizer
        return values if near is None else np.where(near, values, -np.inf)

    def update(self, parameters: MGvMComponents, x: FloatArray, weights: FloatArray) -> MGvMComponents:
        """One Newton step of every component, halved until its objective does not fall."""
        total = weights.sum(axis=0)
        mean = _mean_statistics(statistics(x, self.order), weights, total)
        used = total > 0.0
        parameters = self._anchor_anew(parameters, _directions(mean, x.shape[1]), used)
        target = self._target(mean, total, parameters.anchor)
        target[~used] = parameters.mean[~used]  # a distribution that is its own target stays
        moments = frame.Moments(parameters.log_integral, parameters.mean, parameters.covariance)
        at = newton.NewtonState(
            parameters.local, moments, (parameters.local * target).sum(axis=1) - parameters.log_integral
        )
        space = self._space(x.shape[1])
        return self._components(newton.newton_step(at, target, space)[0], parameters.anchor)

    def log_prior(self, parameters: MGvMComponents) -> FloatArray:
        """The log density of `shrinkage` rows spread evenly, (K,): -shrinkage · log Z, but for a constant."""
        return -self.shrinkage * (parameters.log_normalizer - parameters.dimension * math.log(2.0 * math.pi))

    def renew_prior(self, parameters: MGvMComponents, x: FloatArray, weights: FloatArray) -> MGvMComponents:
        """The same: the prior knows nothing of the data."""
        return parameters

    def sample(self, parameters: MGvMComponents, labels: IntArray, rng: np.random.Generator) -> FloatArray:
        """Exact draws, (n, D)."""
        out = np.empty((labels.size, parameters.dimension))
        for k, rows in by_component(np.arange(labels.size), labels):
            out[rows] = exact_grid(self.dist(parameters, k)).sample(rows.size, rng)
        return out

    def log_marginal(self, parameters: MGvMComponents, x: FloatArray) -> FloatArray:
        """Log densities (N, K) of the observed angles: f of the observed, plus log Z of the missing given them."""
        out = np.zeros((x.shape[0], parameters.log_normalizer.size))
        for rows, lost, seen in group_by_missing(x):
            if not lost.size:
                out[rows] = self.log_density(parameters, x[rows])
            elif seen.size:
                points = x[np.ix_(rows, seen)]
                for k, log_normalizer in enumerate(parameters.log_normalizer):
                    dist = self.dist(parameters, k)
                    out[rows, k] = log_densities(restrict(dist, seen), points) - log_normalizer
                    out[rows, k] += grid_log_normalizers(condition(dist, seen, unit_points(points)))
        return out

    def expect_missing(self, parameters: MGvMComponents, x: FloatArray, labels: IntArray) -> ComplexArray:
        """E[e^{iφ}] (n, D) of missing angles given the others, from exact moments of all rows at once."""
        out = np.zeros(x.shape, dtype=complex)
        empty = np.isnan(x).all(axis=1)
        for k, rows in by_component(np.flatnonzero(~empty), labels):
            expected, _ = expectation(self.dist(parameters, k), x[rows])
            out[rows] = np.ascontiguousarray(expected[:, : 2 * x.shape[1]]).view(complex)
        whole = frame.means(parameters.mean, parameters.anchor, self.order)[:, : 2 * x.shape[1]]
        out[empty] = np.ascontiguousarray(whole).view(complex)[labels[empty]]
        return np.where(np.isnan(x), out, 0.0)

    def draw_missing(
        self, parameters: MGvMComponents, x: FloatArray, labels: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Rows (n, D) completed by draws: all but one missing angle on a grid, the last one a GvM given the others."""
        out = x.copy()
        for rows, lost, seen in group_by_missing(x):
            if not seen.size:
                out[rows] = self.sample(parameters, labels[rows], rng)
            elif lost.size:
                for k, mine in by_component(rows, labels):
                    out[mine] = _draw_pattern(self.dist(parameters, k), x[mine], lost, rng)
        return out

    def dist(self, parameters: MGvMComponents, k: int) -> Natural:
        """Component k by its natural parameters."""
        return unpack(parameters.theta[k], parameters.dimension, self.order)

    def _space(self, dimension: int) -> newton.Space:
        """Where Newton steps may go: the largest concentration by dimension.

        Narrower distributions take long, and rows on a line or a plane have no maximum: steps would creep on for
        minutes.
        """
        return newton.Space(dimension, self.order, quick=True, largest={1: 1e6, 2: 2e4, 3: 1e3}[dimension])

    def _target(self, mean: FloatArray, total: FloatArray, anchor: FloatArray) -> FloatArray:
        """Mean local statistics of the rows and of those that shrinkage adds."""
        share = total / (total + self.shrinkage)
        return frame.local_means(share[:, None] * mean, anchor, self.order)

    def _anchor_anew(self, parameters: MGvMComponents, centre: FloatArray, used: BoolArray) -> MGvMComponents:
        """With new anchors for components that the data have drawn away from theirs."""
        gap = np.abs(np.angle(np.exp(1j * (centre - parameters.anchor))))
        # The first local statistics are 1 - cos, half a variance; two standard deviations are far enough to re-anchor.
        places = 2 * np.arange(parameters.dimension)
        spread = np.sqrt(2.0 * np.maximum(parameters.mean[:, places], 1e-4))
        moved = np.flatnonzero((gap > 2.0 * spread).any(axis=1) & used)
        if moved.size == 0:
            return parameters
        anchor = centre[moved]
        local = frame.to_local(parameters.theta[moved], anchor, self.order)
        moments = frame.local_moments(local, parameters.dimension, self.order, quick=True)
        fresh = self._components(newton.NewtonState(local, moments, moments.log_integral), anchor)
        parts = [part.copy() for part in parameters]
        for part, new in zip(parts, fresh, strict=True):
            part[moved] = new
        return MGvMComponents(*parts)

    def _components(self, at: newton.NewtonState, anchor: FloatArray) -> MGvMComponents:
        """Where Newton steps ended, as components."""
        theta = frame.from_local(at.local, anchor, self.order)
        log_integral = at.moments.log_integral
        log_normalizer = log_integral + frame.base(theta, anchor, self.order)
        return MGvMComponents(
            theta, log_normalizer, anchor, at.local, log_integral, at.moments.mean, at.moments.covariance
        )


def _check_dimension(dimension: int) -> None:
    if dimension > frame.MOST_ANGLES:
        raise ValueError(
            f"mGvM components have exact normalisers for up to {frame.MOST_ANGLES} angles, got D = {dimension}; use "
            'component="directed"'
        )


def _mean_statistics(rows: FloatArray, weights: FloatArray, total: FloatArray) -> FloatArray:
    """Σ_n w_nk T(φ_n) / Σ_n w_nk, (K, p)."""
    return (rows.T @ weights).T / np.where(total > 0.0, total, 1.0)[:, None]


def _directions(mean: FloatArray, dimension: int) -> FloatArray:
    """Mean directions (K, D)."""
    places = 2 * np.arange(dimension)
    return np.arctan2(mean[:, places + 1], mean[:, places])


def _draw_pattern(dist: Natural, x: FloatArray, lost: IntArray, rng: np.random.Generator) -> FloatArray:
    """Rows whose one or two angles `lost` are drawn given the others."""
    out, z = x.copy(), np.where(np.isnan(x), 0.0, np.exp(1j * x))
    first, last = lost[0], lost[-1]
    if lost.size > 1:
        # Log densities of the first angle with the last one integrated out; the grid is four times as fine as its
        # curvature asks for.
        coupling = abs(dist.P[first, last]) + abs(dist.Q[first, last])
        own = np.abs(dist.a[first]) + np.abs(dist.P[first]).sum() + np.abs(dist.Q[first]).sum() + coupling
        count = 4.0 * (12.0 + 5.5 * math.sqrt(own + sum(t * t * abs(dist.b[t - 2, first]) for t in _orders(dist))))
        nodes = np.exp(1j * periodic_grid(2 ** math.ceil(math.log2(count))))
        for rows in np.array_split(np.arange(len(x)), -(-len(x) * nodes.size // 400_000)):  # some 20 MB
            eta = _given(dist, z[rows], last)[:, None] + (dist.P[last, first] * nodes + dist.Q[last, first] / nodes)
            values = gvm_facts(with_harmonics(eta.ravel(), dist.b[:, last]), 1).log_normalizer.reshape(eta.shape)
            values = values + (_given(dist, z[rows], first)[:, None].conj() * nodes).real
            values += sum((dist.b[t - 2, first].conj() * nodes**t).real for t in _orders(dist))
            out[rows, first] = GridDensity(values).sample((), rng)
        z[:, first] = np.exp(1j * out[:, first])
    out[:, last] = wrap(gvm_sample(with_harmonics(_given(dist, z, last), dist.b[:, last]), 1, rng)[0])
    return out


def _orders(dist: Natural) -> range:
    """2 … T."""
    return range(2, dist.order + 1)


def _given(dist: Natural, z: ComplexArray, angle: int) -> ComplexArray:
    """η₁ of an angle given the others, those with z = 0 left out."""
    return np.asarray(dist.a[angle] + z @ dist.P[angle] + z.conj() @ dist.Q[angle])
