"""Sweeps of the Gibbs sampler. Without second harmonics over-relaxation is deterministic: kernels have exact twins."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus
from scipy import sparse

from mgvm.inference._moves import DenseSweeps, GeneralSweeps, SparseSweeps, angles, rotate, states
from mgvm.natural import Natural


def random_distribution(dimension, seed, *, alike=False, order=1, edges=None):
    a, b, P, Q = torus.random_parameters(np.random.default_rng(seed), dimension, order, 1.0, edges)
    if alike:
        P, Q = P.real.astype(complex), np.zeros_like(Q)
    return Natural(a, b, P, Q)


def as_sparse(dist):
    return dist._replace(P=sparse.csr_array(dist.P), Q=sparse.csr_array(dist.Q))


def over_relax(dist, phi, scale=1.0):
    """One sweep of reflections, angle by angle, chain by chain."""
    phi = phi.copy()
    for chain in phi:
        for d in range(chain.size):
            z = np.exp(1j * chain)
            field = dist.a[d] + scale * (dist.P[d] @ z + dist.Q[d] @ z.conj())
            chain[d] = 2 * np.angle(field) - chain[d]
    return phi


KERNELS = {
    "dense": DenseSweeps,
    "sparse": lambda dist: SparseSweeps(as_sparse(dist)),
    "general": GeneralSweeps,
}


# Groups hold eight angles and registers four chains: sizes on both sides of each.
@pytest.mark.parametrize(("dimension", "chains"), [(1, 1), (3, 4), (7, 3), (8, 5), (9, 16), (17, 8)])
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_over_relaxation(dimension, chains, alike, kernel):
    dist = random_distribution(dimension, dimension, alike=alike)
    rng = np.random.default_rng(0)
    phi = rng.uniform(-np.pi, np.pi, (chains, dimension))
    for scale in (1.0, 0.3):
        x = states(phi)
        KERNELS[kernel](dist).sweep(x, True, rng, scale)
        np.testing.assert_allclose(np.exp(1j * angles(x)), np.exp(1j * over_relax(dist, phi, scale)), atol=1e-11)


@pytest.mark.parametrize("kernel", KERNELS)
def test_pull_is_the_coupling_times_the_state(kernel):
    dist = random_distribution(5, 3)
    phi = np.random.default_rng(1).uniform(-np.pi, np.pi, (3, 5))
    pull = KERNELS[kernel](dist).pull(states(phi))
    z = np.exp(1j * phi.T)
    np.testing.assert_allclose(pull[0::2] + 1j * pull[1::2], dist.P @ z + dist.Q @ z.conj(), atol=1e-12)


def test_over_relaxation_keeps_the_density_of_distributions_without_second_harmonics():
    dist = random_distribution(6, 2)
    phi = np.random.default_rng(2).uniform(-np.pi, np.pi, (4, 6))
    x = states(phi)
    DenseSweeps(dist).sweep(x, True, np.random.default_rng(0))
    for before, after in zip(phi, angles(x), strict=True):
        assert torus.log_density(after, *dist) == pytest.approx(torus.log_density(before, *dist), abs=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("block", [None, np.array([0, 2])])
def test_a_turn_moves_the_block_as_one(order, block):
    dist = random_distribution(4, 4, order=order)
    phi = np.random.default_rng(3).uniform(-np.pi, np.pi, (5, 4))
    x = states(phi)
    rotate(DenseSweeps(dist), x, np.random.default_rng(0), block)
    step = np.exp(1j * (angles(x) - phi))
    moved = np.arange(4) if block is None else block
    np.testing.assert_allclose(step[:, moved], step[:, moved[:1]] * np.ones(len(moved)), atol=1e-12)
    rest = np.setdiff1d(np.arange(4), moved)
    np.testing.assert_allclose(step[:, rest], 1.0, atol=1e-12)


def test_a_field_of_zero_moves_nothing():
    dist = Natural(
        np.zeros(2, complex), np.zeros((0, 2), complex), np.zeros((2, 2), complex), np.zeros((2, 2), complex)
    )
    phi = np.array([[0.3, -2.0]])
    for kernel in (DenseSweeps, GeneralSweeps):
        x = states(phi)
        kernel(dist).sweep(x, True, np.random.default_rng(0))
        np.testing.assert_allclose(angles(x), phi, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("order", [1, 2])
def test_states_stay_on_the_circle(kernel, order):
    dist = random_distribution(9, 5, order=order)
    rng = np.random.default_rng(4)
    x = states(rng.uniform(-np.pi, np.pi, (3, 9)))
    engine = KERNELS[kernel](dist)
    for reflect in (False, True, True, False, True):
        engine.sweep(x, reflect, rng)
    np.testing.assert_allclose(x[0::2] ** 2 + x[1::2] ** 2, 1.0, atol=1e-13)
