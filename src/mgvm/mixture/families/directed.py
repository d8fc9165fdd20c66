"""Directed GvM components: each angle is a GvM given the angles before it.

    p(φ) = Π_d GvM(φ_d; η₁ = a_d + Σ_{j<d} C_dj x_j, η₂ = b_d),   x_j = (cos φ_j, sin φ_j), C_dj any real 2 x 2 block.

The normaliser of every factor is exact at any number of angles, its log-likelihood is concave, and draws are ancestral.
Without couplings this is a product of GvM, without second harmonics as well one of von Mises distributions.

In marginal densities, angles that are missing at the end fall away; those before are integrated out: one or two of them
on a grid that resolves the component; more, or too fine a grid, by likelihood weighting, the mean over ancestral
draws of the missing angles of the density of what was observed after them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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
from mgvm._numerics.gvm_order_two import order_two_moments
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.mixture.families.base import NEGLIGIBLE, BoolArray, IntArray, count, take

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
    """What the log-likelihood of one angle is made of, and its prior."""

    features: FloatArray
    points: FloatArray
    pairs: Pairs
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
            slope, metric = self._prior(parameters, angle)
            old = self._block(packed, angle)
            gradient, curvature = self._derivatives(old, features, points[angle], pairs)
            gradient += slope - np.einsum("kij,kj->ki", metric, old)
            step = self._newton(angle, gradient, curvature + metric)
            factor = Factor(features, points[angle], pairs, slope, metric)
            packed[:, angle, : old.shape[1]] = self._search_line(old, step, (gradient * step).sum(axis=1), factor)
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
                _, curvature = self._derivatives(block, features, points[angle], pairs)
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
        pairs = Pairs(np.arange(labels.size), labels.astype(np.int64), np.ones(labels.size))
        features, _ = self._features(out)
        for angle, column in enumerate(self.order):
            eta = _natural(self._block(parameters.packed, angle), features, pairs)
            out[:, column] = wrap(gvm_sample(eta, 1, rng)[0])
            features[:, 1 + 2 * angle], features[:, 2 + 2 * angle] = np.cos(out[:, column]), np.sin(out[:, column])
        return out

    def log_marginal(self, parameters: DirectedParameters, x: FloatArray) -> FloatArray:
        """Log densities (N, K) of the observed angles."""
        return _log_marginal(self, parameters, x)

    def natural(self, parameters: DirectedParameters, x: FloatArray, angle: int) -> ComplexArray:
        """η (N, 2) of one angle of the first component, given the angles before it."""
        features, _ = self._features(x)
        rows = np.arange(x.shape[0])
        pairs = Pairs(rows, np.zeros_like(rows), np.ones(rows.size))
        return _natural(self._block(parameters.packed, angle), features, pairs)

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

    def _prior(self, parameters: DirectedParameters, angle: int) -> tuple[FloatArray, FloatArray]:
        """Slope (K, m) and metric (K, m, m) of one angle."""
        length = 2 * self.features_of(angle) + 2
        return parameters.slope[:, angle, :length], parameters.metric[:, angle, :length, :length]

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
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient (K, m) and negative Hessian (K, m, m) of Σ w log p of one angle."""
        gradient, curvature = np.zeros_like(block), np.zeros((*block.shape, block.shape[1]))
        if self.second:
            _, _, moments = order_two_moments(_natural(block, features, pairs))
            slopes_and_curvatures(features, points, pairs, moments, gradient, curvature)
        else:
            von_mises_derivatives(features, points, pairs, block, gradient, curvature)
        complete(curvature)
        return gradient, curvature

    def _value(self, block: FloatArray, features: FloatArray, points: FloatArray, pairs: Pairs) -> FloatArray:
        """Σ w log p of one angle, (K,)."""
        sums = np.zeros(pairs.rows.size)
        self._add_log_density(block, features, points, pairs._replace(weights=sums))
        return np.bincount(pairs.owners, pairs.weights * sums, block.shape[0]).astype(float)

    def _search_line(self, old: FloatArray, step: FloatArray, gain: FloatArray, factor: Factor) -> FloatArray:
        """old + step, the step halved until the objective does not fall; components at their best stay."""
        features, points, pairs, slope, metric = factor
        best = old.copy()
        # A promise of less than 1e-8 nats a row is not worth a step.
        moving = gain > 1e-8 * np.maximum(np.bincount(pairs.owners, pairs.weights, gain.size), 1e-3)
        value = self._value(old, features, points, pairs) + _log_prior(old, slope, metric)
        for _ in range(12):
            chosen = moving[pairs.owners]
            if not chosen.any():
                break
            if not chosen.all():
                pairs = Pairs(pairs.rows[chosen], pairs.owners[chosen], pairs.weights[chosen])
            trial = np.where(moving[:, None], old + step, old)
            reached = self._value(trial, features, points, pairs) + _log_prior(trial, slope, metric)
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


def _list_pairs(weights: FloatArray) -> Pairs:
    """The pairs whose weight (N, K) is not negligible."""
    owners, rows = np.nonzero(np.ascontiguousarray(weights.T) > NEGLIGIBLE)
    return Pairs(rows, owners, weights[rows, owners])


def _log_prior(theta: FloatArray, slope: FloatArray, metric: FloatArray) -> FloatArray:
    """slope·θ - θ' metric θ / 2, (K,)."""
    quadratic = np.einsum("ki,kij,kj->k", theta, metric, theta, optimize=True)
    return np.asarray((slope * theta).sum(axis=1) - 0.5 * quadratic)


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


# ---- marginal densities ---------------------------------------------------------------------------------------------


def _log_marginal(family: DirectedFamily, parameters: DirectedParameters, x: FloatArray) -> FloatArray:
    """Log densities (N, K) of the observed angles of each row."""
    out = np.zeros((x.shape[0], count(parameters)))
    ordered = np.isnan(x[:, list(family.order)])
    patterns, which = np.unique(ordered, axis=0, return_inverse=True)
    for p, missing in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == p)
        if missing.all():
            continue
        last = int(np.flatnonzero(~missing)[-1])
        hidden = np.flatnonzero(missing[: last + 1])
        filled = np.where(np.isnan(x[rows]), 0.0, x[rows])
        if hidden.size == 0:
            out[rows] = family.log_factors(parameters, filled, None, range(last + 1))
            continue
        for k in range(count(parameters)):
            out[rows, k] = _integrate(family, take(parameters, [k]), filled, hidden, last)
    return out


def _integrate(
    family: DirectedFamily,
    one: DirectedParameters,
    x: FloatArray,
    hidden: IntArray,
    last: int,
    *,
    largest_grid: int = 16_384,
) -> FloatArray:
    """log p of one component with the factors `hidden` integrated out, (N,)."""
    nodes = [_count_nodes(family, one, int(angle), last) for angle in hidden]
    if math.prod(nodes) > largest_grid:
        return _weigh_draws(family, one, x, hidden, last)
    grids = np.meshgrid(*(periodic_grid(n) for n in nodes), indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    log_cell = float(np.log(2.0 * np.pi / np.array(nodes)).sum())
    columns = [family.order[int(angle)] for angle in hidden]
    out = np.empty(len(x))
    step = max(1, _POINTS // len(points))
    for begin in range(0, len(x), step):
        part = np.repeat(x[begin : begin + step], len(points), axis=0)
        part[:, columns] = np.tile(points, (len(part) // len(points), 1))
        values = family.log_factors(one, part, None, range(last + 1)).reshape(-1, len(points))
        out[begin : begin + step] = log_sum_exp(values, axis=1) + log_cell
    return out


def _count_nodes(family: DirectedFamily, one: DirectedParameters, angle: int, last: int) -> int:
    """Nodes for which the trapezoid rule is exact to 1e-6 at least: 12 + 5.5 √K, K a bound of the curvature."""
    curvature = 0.0
    for factor in range(angle, last + 1):
        size = family.features_of(factor)
        block = np.abs(one.packed[0, factor])
        if factor == angle:
            curvature += float(block[: 2 * size].sum() + 8.0 * block[2 * size : 2 * size + 2].sum())
        elif size > 1:
            own = [1 + 2 * angle, 2 + 2 * angle]
            curvature += 2.0 * float(block[own].sum() + block[[size + j for j in own]].sum())
    return int(12.0 + 5.5 * math.sqrt(curvature))


def _weigh_draws(
    family: DirectedFamily,
    one: DirectedParameters,
    x: FloatArray,
    hidden: IntArray,
    last: int,
    *,
    n_draws: int = 2048,
    seed: int = 20170204,
) -> FloatArray:
    """Likelihood weighting: unbiased, its relative error some 1/√n_draws of the weights' spread.

    The seed is fixed: the same question gets the same answer.
    """
    rng = np.random.default_rng(seed)
    out = np.empty(len(x))
    step = max(1, _POINTS // n_draws)
    seen = [factor for factor in range(last + 1) if factor not in set(hidden.tolist())]
    for begin in range(0, len(x), step):
        part = np.repeat(x[begin : begin + step], n_draws, axis=0)
        for angle in hidden:
            eta = family.natural(one, part, int(angle))
            part[:, family.order[int(angle)]] = gvm_sample(eta, 1, rng)[0]
        values = family.log_factors(one, part, None, seen).reshape(-1, n_draws)
        out[begin : begin + step] = log_sum_exp(values, axis=1) - math.log(n_draws)
    return out
