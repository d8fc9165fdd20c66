"""Hamiltonian moves: slopes and curvature against differences, energy that hardly changes, the metric's use."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus

from mgvm._numerics.gibbs import Metric
from mgvm.inference._moves import DenseSweeps, HamiltonianMoves, angles, precision, states
from mgvm.natural import Natural


def random_distribution(dimension, order, *, alike=False):
    a, b, P, Q = torus.random_parameters(np.random.default_rng(dimension), dimension, order, 1.0)
    if alike:
        P, Q = P.real.astype(complex), np.zeros_like(Q)
    return Natural(a, b, P, Q)


DISTS = {
    "one angle": random_distribution(1, 2),
    "order 1": random_distribution(5, 1),
    "order 2": random_distribution(9, 2),
    "alike": random_distribution(7, 1, alike=True),
}


@pytest.mark.parametrize("name", DISTS)
def test_precision_is_minus_the_hessian(name):
    dist, step = DISTS[name], 1e-4
    phi = np.random.default_rng(1).uniform(-np.pi, np.pi, dist.dimension)
    unit = step * np.eye(dist.dimension)

    def value(shift):
        return torus.log_density(phi + shift, *dist)

    expected = np.array([[value(u + v) - value(u - v) - value(v - u) + value(-u - v) for v in unit] for u in unit])
    np.testing.assert_allclose(precision(dist, states(phi[None])), -expected / (4 * step**2), atol=1e-5)


@pytest.mark.parametrize("name", DISTS)
@pytest.mark.parametrize("chains", [1, 3, 8])
def test_short_steps_hardly_change_the_energy(name, chains):
    dist, rng = DISTS[name], np.random.default_rng(2)
    start = states(rng.uniform(-np.pi, np.pi, (chains, dist.dimension)))
    lost = []
    for size in (0.02, 0.01):
        moves = HamiltonianMoves(DenseSweeps(dist))
        x = start.copy()
        moves.observe(x)
        moves.step_size = size
        taken = [moves.run(x, np.random.default_rng(seed)) for seed in range(20)]
        lost.append(1.0 - np.mean(taken))
    # The error of the rule is of second order; a wrong slope would make it of first.
    assert lost[0] < 0.02
    assert lost[1] < 0.5 * lost[0] + 1e-6


def test_rejected_moves_leave_the_state_alone():
    dist = DISTS["order 2"]._replace(a=1e6 * DISTS["order 2"].a)
    x = states(np.zeros((4, 9)))
    before = angles(x)
    moves = HamiltonianMoves(DenseSweeps(dist))
    moves.metric = Metric(np.eye(9), np.eye(9))  # far too long steps for so narrow a distribution
    moves.step_size = 1.0
    assert moves.run(x, np.random.default_rng(0)) < 1e-6
    np.testing.assert_array_equal(angles(x), before)


def test_the_step_is_learnt():
    dist = DISTS["order 2"]
    x = states(np.random.default_rng(3).uniform(-np.pi, np.pi, (8, 9)))
    moves = HamiltonianMoves(DenseSweeps(dist))
    rng = np.random.default_rng(4)
    moves.step_size = 1e-3
    moves.observe(x)
    for _ in range(60):
        moves.adapt(x, rng)
    assert moves.step_size > 0.02
