"""Directed GvM components: each angle is a GvM given the angles before it.

    p(φ) = Π_d GvM(φ_d; η₁ = a_d + Σ_{j<d} C_dj x_j, η₂ = b_d),   x_j = (cos φ_j, sin φ_j), C_dj any real 2 x 2 block.

The normaliser of every factor is exact at any number of angles, its log-likelihood is concave, and draws are ancestral.
Without couplings this is a product of GvM, without second harmonics as well one of von Mises distributions.

In marginal densities, angles that are missing at the end fall away; those before are integrated out: one or two of them
on a grid that resolves the component, more on grids that are refined until two agree. Where that would take too many
nodes it is likelihood weighting, the mean over ancestral draws of the missing angles of the density of what was
observed after them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import erf

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.directed import (
    complete,
    log_densities,
    natural_parameters,
    slopes_and_curvatures,
    von_mises_derivatives,
    von_mises_log_densities,
)
from mgvm._numerics.gvm import gvm_sample
from mgvm._numerics.gvm.order_two import order_two_moments
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.learning.rows import group_by_missing
from mgvm.mixture.families.base import NEGLIGIBLE, BoolArray, IntArray, by_component, count, draw_places

# Held at once: pairs of row and component in EM, some 30 MB, and points of rows times nodes in marginal densities.
_PAIRS, _POINTS = 200_000, 400_000


class DirectedParameters(NamedTuple):
    """Of K components and D angles in the family's order.

    packed (K, D, M): of angle d the first 2p + 2 numbers count, rows of the real matrix B (2, p) and η₂; p = 1 + 2d.
    slope (K, D, M) and metric (K, D, M, M): the log prior is slope·θ - θ' metric θ / 2.
    """

    packed: FloatArray
    slope: FloatArray
    metric: FloatArray


class Pairs(NamedTuple):
    """Pairs of row and component that count, those of a component together."""

    rows: IntArray
    owners: IntArray
    weights: FloatArray


class Factor(NamedTuple):
    """What the log-likelihood of one angle and its prior are made of."""

    features: FloatArray
    points: FloatArray
    slope: FloatArray
    metric: FloatArray


@dataclass(frozen=True)
class DirectedFamily:
    """K directed GvM distributions.

    Parameters
    ----------
    order : tuple of int
        The angles from first to last.
    coupled, second : bool
        Whether angles depend on those before, and whether there are second harmonics.
    ridge : float
        The log prior of a coupling is -ridge |C|²/2: it silences what a narrow component cannot tell anyway.
    stiffness : float
        The same for couplings other than those of turns to turns, in the frame of the component's mean directions.
    pseudo_count : float
        Rows' worth of independence: couplings and second harmonics shrink by n/(n + pseudo_count) in the metric of
        their Fisher information.
    jitter : float
        A component sees one row more, off by this angle: no concentration exceeds n/jitter².
    """

    order: tuple[int, ...]
    coupled: bool = True
    second: bool = True
    ridge: float = 1e-3
    stiffness: float = 0.0
    pseudo_count: float = 0.0
    jitter: float = 0.05

    @property
    def name(self) -> str:
        """The word for `component=`."""
        return "directed" if self.coupled else "von_mises"

    def n_parameters(self, dimension: int) -> int:
        """2 numbers of a_d and η₂ each, and 4 of every C_dj."""
        return (4 if self.second else 2) * dimension + (2 * dimension * (dimension - 1) if self.coupled else 0)

    def features_of(self, angle: int) -> int:
        """How many features an angle depends on, the constant among them."""
        return 1 + 2 * angle if self.coupled else 1

    def _free(self, angle: int) -> int:
        """How many numbers of an angle are fitted."""
        return 2 * self.features_of(angle) + (2 if self.second else 0)

    def start(self, x: FloatArray, weights: FloatArray) -> DirectedParameters:
        """Independent angles by their moments, then Newton steps."""
        dimension, components = x.shape[1], weights.shape[1]
        longest = 2 * self.features_of(dimension - 1) + 2
        packed = np.zeros((components, dimension, longest))
        total = weights.sum(axis=0)
        for angle, column in enumerate(self.order):
            size = self.features_of(angle)
            z = weights.T @ np.exp(1j * x[:, column]) / total
            length = np.minimum(np.abs(z), 1.0)
            # 1/κ = 2 (1 - |m|) when narrow; a little less concentrated is a safer start than a little more.
            eta = z / np.maximum(1e-4, (1.0 - length) * (1.0 + length) + self.jitter**2)
            packed[:, angle, 0], packed[:, angle, size] = eta.real, eta.imag
        empty = DirectedParameters(
            packed, np.zeros((components, dimension, longest)), np.zeros((components, dimension, longest, longest))
        )
        parameters = self.renew_prior(empty, x, weights)
        for _ in range(4):
            parameters = self.update(parameters, x, weights)
        return self.renew_prior(parameters, x, weights)

    def log_density(self, parameters: DirectedParameters, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
        """Normalised log densities (N, K), -inf where `near` is False."""
        return self.log_factors(parameters, x, near, range(x.shape[1]))

    def log_factors(
        self, parameters: DirectedParameters, x: FloatArray, near: BoolArray | None, angles: Iterable[int]
    ) -> FloatArray:
        """log Π of the factors of some angles, numbered in the family's order; (N, K)."""
        chosen = list(angles)
        components = count(parameters)
        shape = (components, x.shape[0])
        flat = np.arange(shape[0] * shape[1]) if near is None else np.flatnonzero(np.ascontiguousarray(near.T))
        out = np.full(shape[0] * shape[1], -np.inf)
        features, points = self._features(x)
        for begin in range(0, flat.size, _PAIRS):
            part = flat[begin : begin + _PAIRS]
            owners, rows = np.divmod(part, shape[1])
            sums = np.zeros(part.size)
            for angle in chosen:
                block = self._block(parameters.packed, angle)
                self._add_log_density(block, features, points[angle], Pairs(rows, owners, sums))
            out[part] = sums
        return out.reshape(shape).T

    def update(self, parameters: DirectedParameters, x: FloatArray, weights: FloatArray) -> DirectedParameters:
        """A Newton step of every angle of every component, halved until nothing falls."""
        pairs = _list_pairs(weights)
        features, points = self._features(x)
        packed = parameters.packed.copy()
        for angle in range(x.shape[1]):
            old = self._block(packed, angle)
            length = old.shape[1]
            slope, metric = parameters.slope[:, angle, :length], parameters.metric[:, angle, :length, :length]
            value, gradient, curvature = self._derivatives(old, features, points[angle], pairs)
            value += _log_prior(old, slope, metric)
            gradient += slope - np.einsum("kij,kj->ki", metric, old)
            step = self._newton(angle, gradient, curvature + metric)
            # A promise of less than 1e-8 nats a row is not worth a step.
            many = np.bincount(pairs.owners, pairs.weights, len(old))
            moving = (gradient * step).sum(axis=1) > 1e-8 * np.maximum(many, 1e-3)
            factor = Factor(features, points[angle], slope, metric)
            packed[:, angle, :length] = self._search_line(old, value, step, moving, pairs, factor)
        return parameters._replace(packed=packed)

    def log_prior(self, parameters: DirectedParameters) -> FloatArray:
        """slope·θ - θ' metric θ / 2 of every component."""
        packed, slope, metric = parameters
        shape = (-1, packed.shape[-1])
        flat = _log_prior(packed.reshape(shape), slope.reshape(shape), metric.reshape(-1, shape[1], shape[1]))
        return np.asarray(flat.reshape(packed.shape[:2]).sum(axis=1))

    def renew_prior(self, parameters: DirectedParameters, x: FloatArray, weights: FloatArray) -> DirectedParameters:
        """The prior anew from where the components stand."""
        pairs = _list_pairs(weights)
        features, points = self._features(x)
        total = np.maximum(weights.sum(axis=0), 1e-300)
        slope, metric = np.zeros_like(parameters.slope), np.zeros_like(parameters.metric)
        means = weights.T @ features / total[:, None]
        for angle in range(x.shape[1]):
            size, length = self.features_of(angle), 2 * self.features_of(angle) + 2
            across = weights.T @ points[angle] / total[:, None]
            first, second = _unit(across[:, :2]), _unit(across[:, 2:])
            toward = (1.0 - np.exp(-0.5 * self.jitter**2)) * first[:, :, None] * means[:, None, :size]
            slope[:, angle, : 2 * size] = -toward.reshape(total.size, -1)
            slope[:, angle, 2 * size : length] = -(1.0 - np.exp(-2.0 * self.jitter**2)) * second
            if not self.second:
                slope[:, angle, 2 * size : length] = 0.0
            metric[:, angle, :length, :length] = self._metric(angle, first, means[:, 1:size])
            if self.pseudo_count:
                block = self._block(parameters.packed, angle)
                _, _, curvature = self._derivatives(block, features, points[angle], pairs)
                shrunk = np.delete(np.arange(self._free(angle)), [0, size])
                if shrunk.size:
                    fisher = _profile(curvature / total[:, None, None], shrunk, np.array([0, size]))
                    metric[:, angle, shrunk[:, None], shrunk] += self.pseudo_count * fisher
        return DirectedParameters(parameters.packed, slope, metric)

    def _metric(self, angle: int, first: FloatArray, means: FloatArray) -> FloatArray:
        """Ridge and stiffness of the couplings, (K, m, m); mean directions of the angle, and means of those before."""
        size = self.features_of(angle)
        out = np.zeros((len(first), 2 * size + 2, 2 * size + 2))
        if size > 1:
            coupling = np.delete(np.arange(2 * size), [0, size])
            block = (self.ridge + self.stiffness) * np.eye(coupling.size) - self.stiffness * _project_on_turns(
                first, means
            )
            out[:, coupling[:, None], coupling] = block
        return out

    def sample(self, parameters: DirectedParameters, labels: IntArray, rng: np.random.Generator) -> FloatArray:
        """Ancestral draws (n, D)."""
        dimension = len(self.order)
        out = np.zeros((labels.size, dimension))
        pairs = _all_pairs(np.arange(labels.size), labels)
        features, _ = self._features(out)
        for angle, column in enumerate(self.order):
            eta = _natural(self._block(parameters.packed, angle), features, pairs)
            out[:, column] = wrap(gvm_sample(eta, 1, rng)[0])
            features[:, 1 + 2 * angle], features[:, 2 + 2 * angle] = np.cos(out[:, column]), np.sin(out[:, column])
        return out

    def log_marginal(self, parameters: DirectedParameters, x: FloatArray) -> FloatArray:
        """Log densities (N, K) of the observed angles."""
        out = np.zeros((x.shape[0], count(parameters)))
        components = self._components(parameters)
        for pattern in self._list_patterns(x):
            if pattern.last < 0:
                continue
            for floor in _lower_floors() if pattern.hidden else [-np.inf]:
                _fill_marginals(components, pattern, floor, out)
                low = out[pattern.rows].max(axis=1) < floor + SETTINGS.margin
                if not low.any():
                    break
                pattern = pattern._replace(rows=pattern.rows[low])
        return out

    def expect_missing(self, parameters: DirectedParameters, x: FloatArray, labels: IntArray) -> ComplexArray:
        """E[e^{iφ}] (n, D) of missing angles given the others."""
        out = np.zeros(x.shape, dtype=complex)
        components = self._components(parameters)
        for pattern in self._list_patterns(x):
            for k, mine in by_component(pattern.rows, labels):
                _fill_expectations(components[k], pattern._replace(rows=mine), out)
        return out[:, np.argsort(self.order)]

    def draw_missing(
        self, parameters: DirectedParameters, x: FloatArray, labels: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Rows (n, D) completed by draws.

        Of several angles before the last observed one a node is drawn, then each angle given all others. A sum over
        nodes is exact for smooth functions, such as the density of one angle given those at nodes: so are the draws.
        """
        components = self._components(parameters)
        out = x[:, list(self.order)]
        for pattern in self._list_patterns(x):
            hidden, pairs = pattern.hidden, _all_pairs(pattern.rows, labels[pattern.rows])
            exact = len(hidden) < 2 or _draw_nodes(components, pattern, labels, rng)
            for angle in hidden * (1 if exact else SETTINGS.sweeps):
                _set_angle(pattern, angle, out, _draw_on_grid(components, pattern, pairs.owners, angle, rng))
            for angle in range(pattern.last + 1, x.shape[1]):
                eta = _natural(self._block(parameters.packed, angle), pattern.features, pairs)
                _set_angle(pattern, angle, out, gvm_sample(eta, 1, rng)[0])
        return np.where(np.isnan(x), wrap(out[:, np.argsort(self.order)]), x)

    def _components(self, parameters: DirectedParameters) -> list[Component]:
        """The components one by one."""
        found = []
        for packed in parameters.packed:
            size = len(packed)
            slopes, second = np.zeros((size, 2 * size + 1), dtype=complex), np.empty(size, dtype=complex)
            for angle, numbers in enumerate(packed):
                width = self.features_of(angle)
                slopes[angle, :width] = numbers[:width] + 1j * numbers[width : 2 * width]
                second[angle] = complex(numbers[2 * width], numbers[2 * width + 1])
            curvature = np.abs(slopes).sum(axis=1) + 4.0 * np.abs(second) + 1e-300
            bounds = 0.5 * np.log(curvature / (2.0 * np.pi)) - np.log(erf(np.pi * np.sqrt(0.5 * curvature)))
            found.append(Component(slopes, second, bounds))
        return found

    def _list_patterns(self, x: FloatArray) -> Iterator[Pattern]:
        """The rows by which angles they lack, numbered in the family's order."""
        missing = np.isnan(x[:, list(self.order)])
        features = self._features(np.where(np.isnan(x), 0.0, x))[0]
        features[:, 1:][np.repeat(missing, 2, axis=1)] = 0.0
        for rows, lost, _ in group_by_missing(x[:, list(self.order)]):
            yield Pattern(rows, features, np.isin(np.arange(x.shape[1]), lost))

    def _features(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(1, cos, sin, cos, sin, …) (N, 2D + 1) in the family's order, and (D, N, 4) with the doubled angles."""
        z = np.exp(1j * x[:, list(self.order)])
        features = np.ones((x.shape[0], 2 * x.shape[1] + 1))
        features[:, 1::2], features[:, 2::2] = z.real, z.imag
        square = z * z
        points = np.stack([z.real, z.imag, square.real, square.imag], axis=-1)
        return features, np.ascontiguousarray(points.transpose(1, 0, 2))

    def _block(self, packed: FloatArray, angle: int) -> FloatArray:
        """The numbers of one angle, (K, m)."""
        return np.ascontiguousarray(packed[:, angle, : 2 * self.features_of(angle) + 2])

    def _add_log_density(self, block: FloatArray, features: FloatArray, points: FloatArray, pairs: Pairs) -> None:
        """Add log p of one angle to the weights of the pairs, which serve as the sums."""
        if not self.second:
            von_mises_log_densities(features, points, pairs.rows, pairs.owners, block, pairs.weights)
            return
        eta = _natural(block, features, pairs)
        facts, _, _ = order_two_moments(eta)
        log_densities(points, pairs.rows, eta, facts, pairs.weights)

    def _derivatives(
        self, block: FloatArray, features: FloatArray, points: FloatArray, pairs: Pairs
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ w log p (K,) of one angle, its gradient (K, m) and negative Hessian (K, m, m)."""
        value, gradient = np.zeros(len(block)), np.zeros_like(block)
        curvature = np.zeros((*block.shape, block.shape[1]))
        if self.second:
            eta, sums = _natural(block, features, pairs), np.zeros(pairs.rows.size)
            facts, _, moments = order_two_moments(eta)
            log_densities(points, pairs.rows, eta, facts, sums)
            value += np.bincount(pairs.owners, pairs.weights * sums, len(block))
            slopes_and_curvatures(features, points, pairs, moments, gradient, curvature)
        else:
            von_mises_derivatives(features, points, pairs, block, value, gradient, curvature)
        complete(curvature)
        return value, gradient, curvature

    def _search_line(
        self, old: FloatArray, value: FloatArray, step: FloatArray, moving: BoolArray, pairs: Pairs, factor: Factor
    ) -> FloatArray:
        """old + step where `moving`, the step halved until the objective is not below `value`."""
        features, points, slope, metric = factor
        best = old.copy()
        for _ in range(12):
            chosen = moving[pairs.owners]
            if not chosen.any():
                break
            if not chosen.all():
                pairs = Pairs(pairs.rows[chosen], pairs.owners[chosen], pairs.weights[chosen])
            trial = np.where(moving[:, None], old + step, old)
            sums = np.zeros(pairs.rows.size)
            self._add_log_density(trial, features, points, pairs._replace(weights=sums))
            reached = np.bincount(pairs.owners, pairs.weights * sums, len(old)) + _log_prior(trial, slope, metric)
            good = moving & (reached >= value) & (np.abs(trial).max(axis=1) < 1e7)
            best[good] = trial[good]
            moving &= ~good
            step = 0.5 * step
        return best

    def _newton(self, angle: int, gradient: FloatArray, curvature: FloatArray) -> FloatArray:
        """The Newton step of the free parameters; rounding may leave a flat curvature slightly negative."""
        free = self._free(angle)
        matrix = curvature[:, :free, :free]
        scale = np.einsum("kii->ki", matrix)
        diagonal = 1e-11 * scale + 1e-13 * scale.max(axis=1, keepdims=True) + 1e-12
        step = np.zeros_like(gradient)
        step[:, :free] = np.linalg.solve(matrix + diagonal[:, :, None] * np.eye(free), gradient[:, :free, None])[..., 0]
        return step


# ---- pairs, natural parameters and what the prior is made of --------------------------------------------------------


def _natural(block: FloatArray, features: FloatArray, pairs: Pairs) -> ComplexArray:
    """η (n, 2) of one angle for every pair."""
    eta = np.empty((pairs.rows.size, 2), dtype=complex)
    natural_parameters(features, pairs.rows, pairs.owners, block, (block.shape[1] - 2) // 2, eta)
    return eta


def _all_pairs(rows: IntArray, labels: IntArray) -> Pairs:
    """Rows and the component of each, of weight 1."""
    return Pairs(rows, labels.astype(np.int64), np.ones(rows.size))


def _list_pairs(weights: FloatArray) -> Pairs:
    """The pairs whose weight (N, K) is not negligible."""
    owners, rows = np.nonzero(np.ascontiguousarray(weights.T) > NEGLIGIBLE)
    return Pairs(rows, owners, weights[rows, owners])


def _log_prior(theta: FloatArray, slope: FloatArray, metric: FloatArray) -> FloatArray:
    """slope·θ - θ' metric θ / 2, (K,)."""
    turned = (metric @ theta[:, :, None])[:, :, 0]
    return np.asarray(((slope - 0.5 * turned) * theta).sum(axis=1))


def _unit(vectors: FloatArray) -> FloatArray:
    """Vectors (K, p) of length 1 in the same directions."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def _profile(fisher: FloatArray, kept: IntArray, others: IntArray) -> FloatArray:
    """Information on the kept parameters when the others are fitted along: F_kk - F_ko F_oo⁻¹ F_ok."""
    mixed = fisher[:, kept[:, None], others]
    nuisance = fisher[:, others[:, None], others]
    ridge = 1e-9 * np.einsum("kii->k", nuisance) + 1e-12
    nuisance = nuisance + ridge[:, None, None] * np.eye(others.size)
    return np.asarray(fisher[:, kept[:, None], kept] - mixed @ np.linalg.solve(nuisance, np.swapaxes(mixed, 1, 2)))


def _project_on_turns(first: FloatArray, means: FloatArray) -> FloatArray:
    """Projection onto couplings of turns to turns: τ_d τ_j' of every angle j before, τ the tangents at the means.

    Of a narrow component these are the entries of a Gaussian precision; the others bend it or change its width.
    """
    components, length = means.shape
    turn = np.stack([-first[:, 1], first[:, 0]], axis=1)
    out = np.zeros((components, 2, length, 2, length))
    for j in range(0, length, 2):
        there = _unit(means[:, j : j + 2])
        tangent = np.einsum("ka,kb->kab", turn, np.stack([-there[:, 1], there[:, 0]], axis=1))
        out[:, :, j : j + 2, :, j : j + 2] = np.einsum("kab,kcd->kabcd", tangent, tangent)
    return out.reshape(components, 2 * length, 2 * length)


# ---- missing angles -------------------------------------------------------------------------------------------------
#
# Of a row the factors of all angles up to the last observed one count. Those of missing angles are summed over nodes,
# which are laid out one missing angle after the other: a node of the angles before stays only if it may still matter,
# for a factor has a bound. From f'' >= -c of a log density f, c = |η₁| + 4|η₂|,
#
#     max p <= 1 / ∫ exp(-c x²/2) dx = √(c/2π) / erf(π√(c/2)).


@dataclass(frozen=True)
class MarginalSettings:
    """How marginal densities are summed.

    Attributes
    ----------
    floor : float
        Nodes whose log density is certainly below are left out.
    margin : float
        A row's log density must be so much higher, under one component at least: what is left out is less than
        exp(-margin) of it. Else it is summed again with a floor three times as low.
    largest_grid : int
        Nodes of a row at once; where more would be needed, `n_draws` ancestral draws stand for them.
    n_draws : int
        The relative error is some 1/√n_draws of the spread of their weights.
    sweeps : int
        Gibbs sweeps from one of these draws, where an angle is to be drawn.
    seed : int
        Of the draws, so that the same question gets the same answer.
    coarser : tuple of float
        Three and more angles are summed over so many times fewer nodes each, one after the other, until two sums agree.
    tolerance : float
        Nats by which two sums may differ. The error of the finer one is smaller still: it falls by a constant factor or
        more with every node.
    """

    floor: float = -45.0
    margin: float = 27.0
    largest_grid: int = 400_000
    n_draws: int = 2048
    sweeps: int = 10
    seed: int = 20170204
    coarser: tuple[float, ...] = (8.0, 5.6, 4.0, 2.8, 2.0, 1.4, 1.0)
    tolerance: float = 1e-5


SETTINGS = MarginalSettings()


class TooManyNodesError(ValueError):
    """A row has more missing angles than a grid can hold."""


class Component(NamedTuple):
    """η₁ of angle d is slopes[d]·(1, cos φ_0, sin φ_0, …), complex (D, 2D + 1); η₂ (D,); log bounds of p (D,)."""

    slopes: ComplexArray
    second: ComplexArray
    bounds: FloatArray


class WeightedNodes(NamedTuple):
    """Rows (R,), nodes (P, 2D + 1) by the features of the angles on the grid, and log weights (R, P).

    Log weights (1, P) hold for all rows.
    """

    rows: IntArray
    nodes: FloatArray
    values: FloatArray

    def take(self, which: BoolArray | slice) -> WeightedNodes:
        """Some of the rows."""
        values = self.values[which] if len(self.values) > 1 else self.values
        return self._replace(rows=self.rows[which], values=values)

    def prune(self, least: float) -> WeightedNodes:
        """Without rows and nodes whose log weights are all below."""
        near = self.values >= least
        nodes, rows = np.asarray(near.any(axis=0)), np.asarray(near.any(axis=1))
        if nodes.all() and rows.all():
            return self
        part = self.take(np.broadcast_to(rows, self.rows.shape))
        return part._replace(nodes=self.nodes[nodes], values=part.values[:, nodes])


class Pattern(NamedTuple):
    """Rows (n,) of features (N, 2D + 1), zero where an angle is missing, that lack the same angles."""

    rows: IntArray
    features: FloatArray
    missing: BoolArray

    @property
    def last(self) -> int:
        """The last angle observed, -1 where there is none."""
        return int(np.flatnonzero(~self.missing).max(initial=-1))

    @property
    def hidden(self) -> list[int]:
        """Missing angles before the last observed one; those after it fall away."""
        return [int(angle) for angle in np.flatnonzero(self.missing[: self.last + 1])]


def _count_nodes(one: Component, angle: int, last: int) -> int:
    """Nodes for which the trapezoid rule is exact to 1e-6 at least: 12 + 5.5 √K, K a bound of the curvature."""
    size = np.abs(one.slopes.real) + np.abs(one.slopes.imag)
    second = abs(one.second[angle].real) + abs(one.second[angle].imag)
    after = size[angle + 1 : last + 1, 1 + 2 * angle : 3 + 2 * angle].sum()
    return int(12.0 + 5.5 * math.sqrt(size[angle].sum() + 8.0 * second + 2.0 * after))


def _lay_nodes(one: Component, angles: list[int], last: int, coarser: float) -> dict[int, ComplexArray]:
    """e^{iφ} at the nodes of each angle, so many times fewer than are always enough; 8 at least."""
    counts = {angle: max(8, int(_count_nodes(one, angle, last) / coarser)) for angle in angles}
    return {angle: np.exp(1j * periodic_grid(count)) for angle, count in counts.items()}


def _weigh_nodes(
    one: Component, pattern: Pattern, nodes: dict[int, ComplexArray], last: int, floor: float, largest: int
) -> Iterator[WeightedNodes]:
    """log of the product of the factors up to `last` at the nodes that matter, for blocks of the rows.

    Rows under which no node matters are left out.
    """
    width = one.slopes.shape[1]
    stack = [(WeightedNodes(pattern.rows, np.zeros((1, width)), np.zeros((1, 1))), 0)]
    while stack:
        part, angle = stack.pop()
        if angle > last:
            yield part
            continue
        count = len(nodes[angle]) if angle in nodes else 1
        if len(part.nodes) * count > largest:
            raise TooManyNodesError
        alike = len(part.values) == 1 and angle in nodes and not _depends(one, pattern, angle)[0]
        if not alike and part.rows.size * len(part.nodes) * count > _POINTS and part.rows.size > 1:
            half = part.rows.size // 2
            stack.extend((part.take(rows), angle) for rows in (slice(half), slice(half, None)))
            continue
        rest = float(one.bounds[angle : last + 1].sum())
        part = _add_factor(one, part, pattern, nodes.get(angle), angle, floor - rest)
        part = part.prune(floor - float(one.bounds[angle + 1 : last + 1].sum()))
        if part.rows.size:
            stack.append((part, angle + 1))


def _lower_floors() -> Iterator[float]:
    """Floors to try one after the other; no log density is below the last but one."""
    floor = SETTINGS.floor
    while floor > -1e9:
        yield floor
        floor *= 3.0
    yield -np.inf


def _weigh_finely(
    one: Component, pattern: Pattern, angles: list[int], ends: tuple[int, int], floor: float, large: FloatArray
) -> Iterator[tuple[WeightedNodes, FloatArray]]:
    """`_weigh_nodes` over nodes of some angles that are as fine as each row needs, and log sums (R,) over the torus.

    `large` (N,) are log densities in whose units sums must agree. Of two ends the first is the last factor that counts,
    the second the last angle that nodes must be fine for.

    How many nodes are always enough hangs on the greatest curvature anywhere, which few components have where their
    mass is: the product over three angles would be a hundred times as many as needed.
    """
    before = np.full(len(pattern.features), np.nan)
    for coarser in SETTINGS.coarser if len(angles) > 2 else (1.0,):
        nodes = _lay_nodes(one, angles, ends[1], coarser)
        log_cell = sum(math.log(2.0 * math.pi / z.size) for z in nodes.values())
        now, enough = np.full(before.size, -np.inf), np.full(before.size, coarser == 1.0)
        for part in _weigh_nodes(one, pattern, nodes, ends[0], floor, SETTINGS.largest_grid):
            now[part.rows] = log_sum_exp(part.values, axis=1) + log_cell
            enough[part.rows] |= _agree(before[part.rows], now[part.rows], large[part.rows])
            chosen = enough[part.rows]
            if chosen.any():
                yield part.take(chosen), now[part.rows[chosen]]
        enough |= np.isneginf(now) & _agree(before, now, large)
        before, pattern = now, pattern._replace(rows=pattern.rows[~enough[pattern.rows]])
        if not pattern.rows.size:
            return


def _agree(before: FloatArray, now: FloatArray, large: FloatArray) -> BoolArray:
    """Whether two log sums differ by less than the tolerance, in units of the larger of both and of `large`."""
    unit = np.maximum(np.maximum(before, now), np.maximum(large, -1e300))  # -inf twice agrees
    return np.asarray(np.abs(np.exp(now - unit) - np.exp(before - unit)) < SETTINGS.tolerance)


def _weigh_surely(
    one: Component, pattern: Pattern, angles: list[int], ends: tuple[int, int]
) -> Iterator[WeightedNodes]:
    """`_weigh_finely` of all rows, with a floor low enough for each."""
    left = np.zeros(len(pattern.features), dtype=bool)
    left[pattern.rows] = True
    for floor in _lower_floors():
        rest = pattern._replace(rows=pattern.rows[left[pattern.rows]])
        if not rest.rows.size:
            return
        large = np.full(left.size, floor + SETTINGS.margin)  # what is less is summed again
        for part, total in _weigh_finely(one, rest, angles, ends, floor, large):
            sure = total >= floor + SETTINGS.margin
            left[part.rows[sure]] = False
            if sure.any():
                yield part.take(sure)


def _field(one: Component, part: WeightedNodes, pattern: Pattern, angle: int) -> tuple[ComplexArray, ComplexArray]:
    """η₁ of an angle: what observed angles add, (R, 1) or (1, 1), and what those on the grid do, (1, P) or (1, 1)."""
    by_observed, by_summed = _depends(one, pattern, angle)
    observed = pattern.features[part.rows if by_observed else part.rows[:1]] @ one.slopes[angle]
    summed = part.nodes @ one.slopes[angle] if by_summed else np.zeros(1, dtype=complex)
    return observed[:, None], summed[None, :]


def _depends(one: Component, pattern: Pattern, angle: int) -> tuple[bool, bool]:
    """Whether an angle depends on observed ones before it, and whether on missing ones."""
    coupled = one.slopes[angle, 1 : 1 + 2 * angle] != 0.0
    gone = np.repeat(pattern.missing[:angle], 2)
    return bool((coupled & ~gone).any()), bool((coupled & gone).any())


def _add_factor(
    one: Component,
    part: WeightedNodes,
    pattern: Pattern,
    nodes: ComplexArray | None,
    angle: int,
    least: float,
) -> WeightedNodes:
    """With log p of one angle given those before it added; the angle is observed, or put on the nodes.

    Its normalisers are not computed where log weights are below `least`.
    """
    observed, summed = _field(one, part, pattern, angle)
    second, values = one.second[angle], part.values
    values = values - _log_normalizers(observed, summed, second, values, least)
    if nodes is None:
        z = (pattern.features[part.rows, 1 + 2 * angle] + 1j * pattern.features[part.rows, 2 + 2 * angle])[:, None]
        own = (observed.conj() * z).real + (second.conjugate() * z * z).real
        values = values + (own + _cross(z, summed))
        return WeightedNodes(part.rows, part.nodes, values)
    features = np.repeat(part.nodes, nodes.size, axis=0)
    z = np.tile(nodes, len(part.nodes))[None, :]
    features[:, 1 + 2 * angle], features[:, 2 + 2 * angle] = z[0].real, z[0].imag
    own = (np.repeat(summed, nodes.size * len(part.nodes) // summed.size, axis=1).conj() * z).real
    own += (second.conjugate() * z * z).real
    values = np.repeat(values, nodes.size, axis=1) + (own + _cross(observed, z))
    return WeightedNodes(part.rows, features, values)


def _cross(left: ComplexArray, right: ComplexArray) -> FloatArray:
    """Re conj(left) right of a column (R, 1) and a row (1, P)."""
    return np.asarray(np.concatenate([left.real, left.imag], axis=1) @ np.concatenate([right.real, right.imag], axis=0))


def _log_normalizers(
    observed: ComplexArray, summed: ComplexArray, second: complex, values: FloatArray, least: float
) -> FloatArray:
    """log Z of η₁ = observed + summed, +inf where both vary and the log weights are below `least`."""
    if len(observed) == 1 or summed.size == 1:
        first = observed + summed
        return _log_normalizer(first.ravel(), second).reshape(first.shape)
    out = np.full((len(observed), summed.size), np.inf)
    rows, nodes = np.nonzero(np.broadcast_to(values >= least, out.shape))
    out[rows, nodes] = _log_normalizer(observed[rows, 0] + summed[0, nodes], second)
    return out


def _log_normalizer(first: ComplexArray, second: complex) -> FloatArray:
    return np.asarray(order_two_moments(_with_second(first, second))[0][:, 0])


def _with_second(first: ComplexArray, second: complex) -> ComplexArray:
    """η (n, 2) of η₁ (n,) and η₂."""
    return np.stack([first, np.full(first.shape, second)], axis=1)


# ---- densities, means and draws -------------------------------------------------------------------------------------


def _fill_marginals(components: list[Component], pattern: Pattern, floor: float, out: FloatArray) -> None:
    """Write log densities of the rows of one pattern."""
    out[pattern.rows] = -np.inf
    for k, one in enumerate(components):
        large = np.maximum(out.max(axis=1), floor + SETTINGS.margin)
        try:
            for part, total in _weigh_finely(one, pattern, pattern.hidden, (pattern.last, pattern.last), floor, large):
                out[part.rows, k] = total
        except TooManyNodesError:
            for rows, _, weights in _weigh_draws(one, pattern, pattern.hidden, pattern.last):
                out[rows, k] = log_sum_exp(weights, axis=1) - math.log(SETTINGS.n_draws)


def _weigh_draws(
    one: Component, pattern: Pattern, drawn: list[int], last: int
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Likelihood weighting, some rows (R,) at a time: those, draws (R, n, 2D + 1) of the missing angles by features,
    and their log weights (R, n).

    An angle is drawn given those before it; the weight is the density of what was observed, given the draws.
    """
    n = SETTINGS.n_draws
    for rows in np.array_split(pattern.rows, -(-pattern.rows.size * n // _POINTS)):
        rng = np.random.default_rng(SETTINGS.seed)
        features = np.repeat(pattern.features[rows], n, axis=0)
        weights = np.zeros(len(features))
        for angle in range(last + 1):
            eta = _with_second(features @ one.slopes[angle], one.second[angle])
            own = [1 + 2 * angle, 2 + 2 * angle]
            if angle in drawn:
                phi = gvm_sample(eta, 1, rng)[0]
                features[:, own[0]], features[:, own[1]] = np.cos(phi), np.sin(phi)
            else:
                z = features[:, own[0]] + 1j * features[:, own[1]]
                weights += (eta[:, 0].conj() * z + eta[:, 1].conj() * z * z).real - order_two_moments(eta)[0][:, 0]
        yield rows, features.reshape(rows.size, n, -1), weights.reshape(rows.size, n)


def _fill_expectations(one: Component, pattern: Pattern, out: ComplexArray) -> None:
    """Write E[e^{iφ}] of missing angles for rows of one pattern; of the last one in closed form given the others."""
    missing = [int(angle) for angle in np.flatnonzero(pattern.missing)]
    closed = missing[-1] if missing and missing[-1] > pattern.last else None
    summed = missing if closed is None else missing[:-1]
    last = max([pattern.last, *summed])
    try:
        for part in _weigh_surely(one, pattern, summed, (last, last if closed is None else closed)):
            _add_expectations(one, part, pattern, summed, closed, out)
    except TooManyNodesError:
        for rows, draws, weights in _weigh_draws(one, pattern, missing, max(last, missing[-1])):
            shares = np.exp(weights - log_sum_exp(weights, axis=1)[:, None])
            for angle in missing:
                z = draws[:, :, 1 + 2 * angle] + 1j * draws[:, :, 2 + 2 * angle]
                out[rows, angle] = (shares * z).sum(axis=1)


def _add_expectations(
    one: Component,
    part: WeightedNodes,
    pattern: Pattern,
    summed: list[int],
    closed: int | None,
    out: ComplexArray,
) -> None:
    """Write the means of angles that were summed over nodes, and of one that has a closed form at each node."""
    shares = np.exp(part.values - log_sum_exp(part.values, axis=1)[:, None])
    for angle in summed:
        out[part.rows, angle] = shares @ (part.nodes[:, 1 + 2 * angle] + 1j * part.nodes[:, 2 + 2 * angle])
    if closed is None:
        return
    observed, moved = _field(one, part, pattern, closed)
    first = observed + moved
    whole = len(observed) > 1 and moved.size > 1
    used = np.broadcast_to(shares > 1e-13, first.shape) if whole else np.ones(first.shape, dtype=bool)
    moments = np.zeros(first.shape, dtype=complex)
    moments[used] = order_two_moments(_with_second(first[used], one.second[closed]))[2][:, 0]
    out[part.rows, closed] = (shares * moments).sum(axis=1)


def _set_angle(pattern: Pattern, angle: int, out: FloatArray, phi: FloatArray) -> None:
    """Put a drawn angle into the rows and their features."""
    out[pattern.rows, angle] = phi
    pattern.features[pattern.rows, 1 + 2 * angle] = np.cos(phi)
    pattern.features[pattern.rows, 2 + 2 * angle] = np.sin(phi)


def _draw_nodes(components: list[Component], pattern: Pattern, labels: IntArray, rng: np.random.Generator) -> bool:
    """Put one of the nodes of the hidden angles, drawn by its weight, into the features of each row.

    False where draws had to stand for the nodes of some row.
    """
    exact = True
    columns = [place for angle in pattern.hidden for place in (1 + 2 * angle, 2 + 2 * angle)]
    for k, own in by_component(pattern.rows, labels):
        mine = pattern._replace(rows=own)
        try:
            for part in _weigh_surely(components[k], mine, mine.hidden, (mine.last, mine.last)):
                chosen = part.nodes[draw_places(part.values, part.rows.size, rng)]
                pattern.features[part.rows[:, None], columns] = chosen[:, columns]
        except TooManyNodesError:
            exact = False
            for rows, draws, weights in _weigh_draws(components[k], mine, mine.hidden, mine.last):
                chosen = draws[np.arange(rows.size), draw_places(weights, rows.size, rng)]
                pattern.features[rows[:, None], columns] = chosen[:, columns]
    return exact


def _draw_on_grid(
    components: list[Component], pattern: Pattern, labels: IntArray, angle: int, rng: np.random.Generator
) -> FloatArray:
    """A hidden angle of each row given all others, by its density on four times as many nodes as a sum needs."""
    out = np.empty(pattern.rows.size)
    features = pattern.features[pattern.rows]
    features[:, [1 + 2 * angle, 2 + 2 * angle]] = 0.0
    alone = Pattern(np.arange(out.size), features, np.arange(pattern.missing.size) == angle)
    counts = np.array([_count_nodes(one, angle, pattern.last) for one in components])
    sizes = 2 ** np.ceil(np.log2(4.0 * counts)).astype(np.int64)
    for n in np.unique(sizes[labels]):
        mine = np.flatnonzero(sizes[labels] == n)
        nodes = {angle: np.exp(1j * periodic_grid(int(n)))}
        for block in np.array_split(mine, -(-mine.size * int(n) // _POINTS)):
            values = np.empty((block.size, n))
            for k, own in by_component(block, labels):
                rows = alone._replace(rows=own)
                for part in _weigh_nodes(components[k], rows, nodes, pattern.last, -np.inf, int(n)):
                    values[np.searchsorted(block, part.rows)] = part.values
            out[block] = GridDensity(values).sample((), rng)
    return out
