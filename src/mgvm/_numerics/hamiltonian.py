"""Hamiltonian trajectories of all angles of an mGvM of order 2 or less, many chains at a time.

log p(φ) - ½ pᵀ M⁻¹ p is followed by the leapfrog rule from momenta p ~ N(0, M); where it ends is taken or not, by
Metropolis. M is an estimate of the precision of the angles, so that all directions, stiff and slack, are crossed in the
same number of steps. The slope of the log density is h_s cos φ - h_c sin φ - 2 Im(conj(b) z²), h = a + C x the field.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gibbs_fields import Dense, Group, group_field, load
from mgvm._numerics.trigonometry import LARGEST, sin_cos

# M⁻¹ and a root R of M, R Rᵀ = M, both (D, D)
Metric = tuple[np.ndarray, np.ndarray]
# Momenta by chain (lanes, D), their velocities (D, lanes), slopes by chain (lanes, D), a copy of the state (2D, chains)
Paths = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def path_scratch(chains: int, angles: int) -> Paths:
    """Memory for the trajectories; lanes of four chains, those that only fill up stay zero."""
    lanes = -(-chains // 4) * 4
    return (
        np.zeros((lanes, angles)),
        np.empty((angles, lanes)),
        np.zeros((lanes, angles)),
        np.empty((2 * angles, chains)),
    )


@inner(fastmath={"contract"})
def _slopes(law: Dense, x: np.ndarray, group: Group, slope: np.ndarray, value: np.ndarray) -> None:
    """Slope of the log density in every angle and its value, in every chain."""
    linear, coupling, second = law
    chains, pair = x.shape[1], group[2].shape[0] == 2
    load(x, group)
    group_field(coupling, 0 * chains, coupling.shape[0], group)
    field = group[1]
    for c in range(chains):
        value[c] = 0.0
    for d in range(x.shape[0] // 2):
        up, down, shift = (2 * d, 2 * d + 1, 0) if pair else (d, d, chains)
        a, b, u, v = linear[2 * d], linear[2 * d + 1], second[d, 0], second[d, 1]
        for c in range(chains):
            cosine, sine = x[2 * d, c], x[2 * d + 1, c]
            h, k = field[up, c], field[down, c + shift]
            even, odd = cosine * cosine - sine * sine, 2.0 * cosine * sine
            slope[c, d] = (b + k) * cosine - (a + h) * sine + 2.0 * (v * even - u * odd)
            value[c] += (a + 0.5 * h) * cosine + (b + 0.5 * k) * sine + u * even + v * odd


@inner()
def _kick(size: float, slope: np.ndarray, momentum: np.ndarray) -> None:
    for c in range(momentum.shape[0]):
        for d in range(momentum.shape[1]):
            momentum[c, d] += size * slope[c, d]


@inner(fastmath={"contract"})
def _drift(size: float, velocity: np.ndarray, x: np.ndarray) -> None:
    """Turn every angle by size times its velocity."""
    for d in range(velocity.shape[0]):
        for c in range(x.shape[1]):
            turn = size * velocity[d, c]
            sine, cosine = sin_cos(min(max(turn, -LARGEST), LARGEST))
            old = x[2 * d, c]
            x[2 * d, c] = cosine * old - sine * x[2 * d + 1, c]
            x[2 * d + 1, c] = sine * old + cosine * x[2 * d + 1, c]


@inner()
def _velocities(metric: Metric, paths: Paths) -> None:
    """M⁻¹ p of every chain."""
    momentum, velocity, _, _ = paths
    first = 0 * momentum.shape[0]
    group_field(metric[0], first, metric[0].shape[0], (momentum, velocity, velocity))


@inner()
def _kinetic(paths: Paths, energy: np.ndarray) -> None:
    """½ pᵀ M⁻¹ p of every chain, the velocities being known."""
    momentum, velocity, _, _ = paths
    for c in range(energy.size):
        total = 0.0
        for d in range(momentum.shape[1]):
            total += momentum[c, d] * velocity[d, c]
        energy[c] = 0.5 * total


@inner()
def _draw_momenta(metric: Metric, chains: int, rng: np.random.Generator, paths: Paths) -> None:
    """p = R ξ, ξ standard normal."""
    momentum, velocity, _, _ = paths
    for c in range(chains):
        for d in range(momentum.shape[1]):
            momentum[c, d] = rng.standard_normal()
    first = 0 * chains
    group_field(metric[1], first, metric[1].shape[0], (momentum, velocity, velocity))
    for c in range(chains):
        for d in range(momentum.shape[1]):
            momentum[c, d] = velocity[d, c]


@entry()
def trajectory(
    law: Dense,
    x: np.ndarray,
    metric: Metric,
    plan: tuple[float, int],
    rng: np.random.Generator,
    scratch: tuple[Group, Paths],
) -> float:
    """One trajectory of so many steps of such a size, in place; returns the mean probability of taking its end."""
    (size, steps), (group, paths) = plan, scratch
    momentum, velocity, slope, before = paths
    chains = x.shape[1]
    start, end, still, moving = np.empty(chains), np.empty(chains), np.empty(chains), np.empty(chains)
    before[:] = x
    _draw_momenta(metric, chains, rng, paths)
    _velocities(metric, paths)
    _kinetic(paths, still)
    _slopes(law, x, group, slope, start)
    for _ in range(steps):
        _kick(0.5 * size, slope, momentum)
        _velocities(metric, paths)
        _drift(size, velocity, x)
        _slopes(law, x, group, slope, end)
        _kick(0.5 * size, slope, momentum)
    _velocities(metric, paths)
    _kinetic(paths, moving)
    mean = 0.0
    for c in range(chains):
        rise = (end[c] - moving[c]) - (start[c] - still[c])
        chance = math.exp(min(max(rise, -700.0), 0.0)) if rise == rise else 0.0
        mean += chance / chains
        if rng.random() >= chance:
            for row in range(x.shape[0]):
                x[row, c] = before[row, c]
    return mean
