"""Symmetric laws in expectation propagation: which turns leave a law as it is, and solutions that are mirror images.

A law without odd harmonics is the same after half a turn of all angles. Its Gaussian approximation either sits at the
symmetric point (all means zero) or has picked one of two mirror solutions; then both are the answer. Angles that no
coupling connects turn on their own, so all is done for each connected component.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse import csgraph

from mgvm._validation import FloatArray
from mgvm.inference._ep_iterate import Approximation, Problem, Run, State, Workspace, log_normalizer_shares, stepped

_CONNECTED = 1e-12  # of the geometric mean of two diagonal entries: a smaller entry is rounding
_TILT = 3.0  # linear term that leads a start away from a symmetric point; 1 often falls back where 3 does not
_POWER_STEPS = 30
_SHORT = 0.5  # means below it may belong to a solution between two sides
_BROKEN = 1e-3  # mean length from which a symmetric component counts as having picked a side
MIRROR_ENERGY = 10.0  # nats: a half turn that costs more leaves the other side below 5e-5 of the mass
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


class Symmetry(NamedTuple):
    """The components of a problem and the turns that leave each as it is."""

    labels: np.ndarray  # (N,) component of each angle
    orders: np.ndarray  # (components,) unchanged by turns of 2π/order; 1 none, 0 any turn

    @property
    def any(self) -> bool:
        """Whether some component is symmetric."""
        return bool((self.orders != 1).any())

    def total(self, values: FloatArray) -> FloatArray:
        """Sums over each component."""
        return np.bincount(self.labels, values, minlength=self.orders.size).astype(float)

    def largest(self, values: FloatArray) -> FloatArray:
        """The largest of non-negative values in each component."""
        out = np.zeros(self.orders.size)
        np.maximum.at(out, self.labels, values)
        return out


def _blocks(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Λ_cc, Λ_ss and Λ_sc of the prior; the last is empty where it is zero."""
    size, prior = problem.size, problem.precision
    if prior.shape[0] == size:
        return prior, prior, np.zeros((0, 0))
    return prior[:size, :size], prior[size:, size:], prior[size:, :size]


def symmetry(problem: Problem) -> Symmetry:
    """Components of the prior's graph, and the greatest common divisor of all harmonics in each."""
    cos, sin, cross = _blocks(problem)
    scale = np.sqrt(np.abs(np.diagonal(cos)))
    bound = _CONNECTED * np.maximum(scale, np.finfo(float).tiny)
    bound = bound[:, None] * scale
    linked = np.asarray(np.abs(cos) > bound)
    uneven = np.asarray(np.zeros(problem.size, dtype=bool))
    if cross.size:
        linked = np.asarray(linked | (np.abs(sin) > bound) | (np.abs(cross) > bound) | (np.abs(cross.T) > bound))
        # Sums of angles, and second harmonics, are in Λ_cc - Λ_ss and in Λ_sc + Λ_csᵀ.
        uneven = np.asarray(((np.abs(cos - sin) > bound) | (np.abs(cross + cross.T) > bound)).any(axis=1))
    count, labels = csgraph.connected_components(sparse.csr_array(linked), directed=False)
    own = problem.sites.rotation_orders()
    own = np.gcd(own, np.where(uneven, 2, 0))
    own = np.gcd(own, np.where((problem.linear != 0.0).any(axis=1), 1, 0))
    orders = np.zeros(count, dtype=own.dtype)
    np.gcd.at(orders, labels, own)
    return Symmetry(labels, orders)


def tilted_start(workspace: Workspace, level: State, found: Symmetry, chosen: np.ndarray) -> Approximation:
    """Sites with the chosen components tilted along their softest direction, to the side where their means are.

    That is the leading eigenvector of the posterior covariance after one step from `level`, by inverse iteration.
    """
    size, sites = workspace.problem.size, stepped(level, 1.0)
    factor = workspace.factor(sites.precision)
    vector = np.random.default_rng(0).uniform(0.5, 1.0, 2 * size)
    for _ in range(0 if factor is None else _POWER_STEPS):
        vector = lapack.dpotrs(factor, vector, lower=1)[0]
        pairs = vector.reshape(2, size)
        length = np.sqrt(found.total((pairs**2).sum(axis=0)))[found.labels]
        vector = (pairs / length).ravel()
    pairs = vector.reshape(2, size).T
    scale = found.largest(np.abs(pairs).max(axis=1))
    sign = np.where(found.total((pairs * level.posterior.mean).sum(axis=1)) < 0.0, -_TILT, _TILT)
    factors = np.where(chosen, sign / scale, 0.0)[found.labels]
    return Approximation(level.sites.precision, level.sites.linear + factors[:, None] * pairs)


def broken(state: State, found: Symmetry) -> np.ndarray:
    """Which symmetric components have picked a side, (components,)."""
    length = found.largest(np.abs(state.tilted.mean).max(axis=1))
    return (found.orders != 1) & (length > _BROKEN)


def undecided(state: State, found: Symmetry, turned: np.ndarray) -> np.ndarray:
    """Which of the given components have short means only: a solution between two sides, perhaps."""
    return turned & (found.largest(np.abs(state.tilted.mean).max(axis=1)) < _SHORT)


def reversible(problem: Problem, state: State, found: Symmetry) -> np.ndarray:
    """Components without symmetry whose half turn is cheap: the far side may hold a second solution."""
    law = problem.sites.law(state.cavity_precision, state.cavity_linear)
    energy = found.total(problem.sites.mirror_energy(law) + 2.0 * (problem.linear * state.tilted.mean).sum(axis=1))
    several = np.bincount(found.labels, minlength=found.orders.size) > 1
    return (found.orders == 1) & (energy < MIRROR_ENERGY) & several


def separation_information(distance: FloatArray) -> FloatArray:
    """Mutual information (nats) of a fair label and a Gaussian whose means lie `distance` deviations apart."""
    # The log-likelihood ratio is N(d²/2, d²): I = log 2 - E log(1 + e^-L).
    ratio = 0.5 * distance[..., None] ** 2 + distance[..., None] * _NODES
    lost = (np.logaddexp(0.0, -ratio) * _WEIGHTS).sum(axis=-1) / _WEIGHTS.sum()
    return np.asarray(np.maximum(np.log(2.0) - lost, 0.0))


def side_gain(workspace: Workspace, state: State, found: Symmetry) -> FloatArray:
    """What the other sides add to log Z in each component that has picked one.

    A mixture of turned copies has the entropy of one plus the information x holds on which it is: log g when they lie
    apart, less when they overlap. Over a continuum of turns it is about ½ log(1 + 2πF/e), F the Fisher information of x
    on the turn.
    """
    mean, problem = state.posterior.mean, workspace.problem
    across = np.stack([-mean[:, 1], mean[:, 0]], axis=1)
    fisher = found.total((across * _times_precision(problem, state, across)).sum(axis=1))
    # Σ⁻¹m = h₀ + h.
    length = found.total((mean * (problem.linear + state.sites.linear)).sum(axis=1))
    fair = separation_information(2.0 * np.sqrt(np.maximum(length, 0.0))) / np.log(2.0)
    turns = 0.5 * np.log1p(2.0 * np.pi / math.e * np.maximum(fisher, 0.0))
    return np.where(found.orders == 0, turns, fair * np.log(np.maximum(found.orders, 1)))


def _times_precision(problem: Problem, state: State, vectors: FloatArray) -> FloatArray:
    """(Λ₀ + S) times vectors (N, 2)."""
    prior = problem.precision
    shared = prior.shape[0] == problem.size
    out = prior @ vectors if shared else (prior @ vectors.T.ravel()).reshape(2, problem.size).T
    return np.asarray(out + np.einsum("nij,nj->ni", state.sites.precision, vectors))


def mixed_log_normalizer(first: FloatArray, second: FloatArray, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log Z of two solutions together, from each one's, and the weight of the first."""
    weight = 1.0 / (1.0 + np.exp(np.clip(second - first, -700.0, 700.0)))
    rest = 1.0 - weight
    entropy = -(weight * np.log(np.maximum(weight, 1e-300)) + rest * np.log(np.maximum(rest, 1e-300)))
    # Where the two overlap, only part of the label's entropy is gained.
    gained = separation_information(distance) / np.log(2.0)
    return np.logaddexp(first, second) - entropy * (1.0 - gained), weight


def component_log_normalizers(problem: Problem, found: Symmetry, state: State) -> FloatArray:
    """log Z of each component, without the problem's constant."""
    return found.total(log_normalizer_shares(problem, state))


def reversed_sites(state: State, found: Symmetry, turned: np.ndarray) -> Approximation:
    """The sites seen after half a turn of the given components."""
    sign = np.where(turned, -1.0, 1.0)[found.labels]
    return Approximation(state.sites.precision, state.sites.linear * sign[:, None])


def better_first(problem: Problem, found: Symmetry, first: Run, second: Run) -> tuple[Run, Run]:
    """Two runs, the one of larger log Z first; one that did not converge comes last."""
    values = [component_log_normalizers(problem, found, run.state).sum() for run in (first, second)]
    if (second.converged, values[1]) > (first.converged, values[0]):
        return second, first
    return first, second


def with_other(
    problem: Problem, found: Symmetry, state: State, other: State, logs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """log Z and weight of the first solution in each component, the second counted where it is another one."""
    apart = found.largest(np.abs(state.tilted.mean - other.tilted.mean).max(axis=1))
    # Only across: a solution on the same side describes the same mass.
    across = found.total((state.tilted.mean * other.tilted.mean).sum(axis=1)) < 0.0
    new = (apart > _BROKEN) & (found.orders == 1) & across
    # With Σ⁻¹m = h₀ + h, the distance of two Gaussians of like covariance is (m - m')·(h - h').
    moved = (state.posterior.mean - other.posterior.mean) * (state.sites.linear - other.sites.linear)
    distance = np.sqrt(np.maximum(found.total(moved.sum(axis=1)), 0.0))
    mixed, weight = mixed_log_normalizer(logs, component_log_normalizers(problem, found, other), distance)
    return np.where(new, mixed, logs), np.where(new, weight, 1.0)
