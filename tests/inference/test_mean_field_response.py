"""Mean field under strong coupling, its Newton steps, and linear response."""

from __future__ import annotations

import numpy as np
import pytest
from inference.mean_field_distributions import as_sparse, chain, draw, quietly, random_distribution
from naive import mean_field as naive
from naive import torus
from portable import exp, polar

from mgvm import GvM
from mgvm._numerics.gvm import gvm_facts
from mgvm.inference import _coordinate_ascent, mean_field
from mgvm.inference._coordinate_ascent import gvm_step, planes, sweeper
from mgvm.natural import Natural, dense_coupling


@pytest.mark.jit_only
@pytest.mark.parametrize(("coupling", "strength"), [(1.0, 1.0), (5.0, 0.5), (20.0, 0.1), (100.0, 0.1)])
def test_strongly_coupled_chain_converges(coupling, strength):
    dist = chain(np.random.default_rng(9), 2000, coupling, strength, order=2)
    result = quietly(dist, n_starts=2)
    assert result.converged
    # Plain sweeps leave 1 - strength/coupling of an error that is long as the chain, so 1e-9 of it would take up to
    # log(1e9) · 100/0.1 = 20,000 of them. With acceleration 167 were the most on any CPU; twice that.
    assert result.n_sweeps < 340
    # Floor of what sums of this size resolve.
    assert (np.diff(result.trace) >= -1e-13 * np.abs(result.free_energy)).all()
    # A fixed point: every factor is the conditional at the moments of the others.
    first = dist.a + dist.P @ result.moments + dist.Q @ result.moments.conj()
    again = gvm_facts(np.stack([first, dist.b[0]], axis=1))
    spread = np.sqrt(2 * again.dispersion)
    assert (np.abs(again.moments[:, 0] - result.moments) / spread).max() < 1e-6


@pytest.mark.jit_only
def test_strongly_coupled_dense_distribution_converges():
    dist = chain(np.random.default_rng(9), 150, 50.0, 0.05, order=2)
    dist = dist._replace(P=dist.P.toarray(), Q=dist.Q.toarray())
    dense, thin = quietly(dist, n_starts=1), quietly(as_sparse(dist), n_starts=1)
    assert dense.converged
    assert dense.n_sweeps < 340
    np.testing.assert_allclose(dense.free_energy, thin.free_energy, rtol=1e-12)


@pytest.mark.parametrize("store", [lambda dist: dist, as_sparse])
def test_newton_step_solves_its_system(store):
    rng = np.random.default_rng(11)
    dist = store(random_distribution(rng, 8, 2, 0.05))
    engine = sweeper(dist, gvm_step)
    state = engine.state(planes(dist.a[None]), np.zeros((8, 2, 1)))
    engine.sweep(state)
    step = _coordinate_ascent.newton_step(engine, state, 100)[:16, 0]
    C = dense_coupling(dist)
    V = np.zeros((16, 16))
    for d in range(8):
        factor = GvM([complex(*state.first[d, :, 0]), dist.b[0, d]])
        x, y, second = factor.moment(1).real, factor.moment(1).imag, factor.moment(2)
        V[2 * d : 2 * d + 2, 2 * d : 2 * d + 2] = [
            [(1 + second.real) / 2 - x * x, second.imag / 2 - x * y],
            [second.imag / 2 - x * y, (1 - second.real) / 2 - y * y],
        ]
    gradient = (state.a + engine.multiply(state.m) - state.first).ravel()
    expected = np.linalg.solve(np.linalg.inv(V) - C, gradient)
    # The iteration stops at a hundredth of the residual.
    assert np.linalg.norm(step - expected) < 0.03 * np.linalg.norm(expected)


def test_gradient_and_curvature_of_the_free_energy():
    # F along a path of first natural parameters: its slope is (a + C m - η)·V δη.
    rng = np.random.default_rng(12)
    dist = random_distribution(rng, 4, 2, 0.5)
    eta, direction = draw(rng, 4), draw(rng, 4)

    def free_energy(step):
        return naive.free_energy(
            *dist, [naive.factor([e, b]) for e, b in zip(eta + step * direction, dist.b[0], strict=True)]
        )

    slope = (free_energy(1e-5) - free_energy(-1e-5)) / 2e-5
    m = np.array([np.sum(naive.factor([e, b]) * np.exp(1j * naive.GRID)) for e, b in zip(eta, dist.b[0], strict=True)])
    gradient = dist.a + dist.P @ m + dist.Q @ m.conj() - eta
    V = _coordinate_ascent._covariances(planes(eta[None]), np.array(dist.b))
    change = _coordinate_ascent._times(V, planes(direction[None]))
    np.testing.assert_allclose((planes(gradient[None]) * change).sum(), slope, rtol=1e-7)


def ornstein_uhlenbeck(size, step, variance, seed):
    """Conditioned on the circle, a chain of plane vectors with covariance v e^{-|i-j| step}, and weak data."""
    rng = np.random.default_rng(seed)
    decay = exp(-step)
    diagonal = np.full(size, (1 + decay * decay) / (1 - decay * decay) / variance)
    beside = np.full(size - 1, -decay / (1 - decay * decay) / variance)
    W = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    P = -W.astype(complex)
    np.fill_diagonal(P, 0)
    path = np.cumsum(rng.normal(scale=np.sqrt(step), size=size))
    return Natural(polar(0.5, path), np.zeros((0, size), dtype=complex), P, np.zeros((size, size), dtype=complex))


@pytest.mark.parametrize("store", [lambda dist: dist, as_sparse])
def test_linear_response_repairs_the_variance_of_chains(store):
    dist = ornstein_uhlenbeck(40, 0.1, 0.5, 0)
    density = torus.chain_marginals(*dist, 256)
    mass = density / density.sum(axis=1, keepdims=True)
    exact = (1 - np.abs(mass @ np.exp(1j * torus.nodes(256)))).mean()
    result = mean_field(store(dist))
    plain = result.marginals.circular_variance().mean()
    response = result.linear_response(full=False)
    # Weak data under a stiff prior: .13 exact, .03 by mean field alone.
    assert plain < 0.3 * exact
    assert abs(response.circular_variance.mean() - exact) < 0.05 * exact
    full = result.linear_response()
    np.testing.assert_allclose(full.blocks, response.blocks, atol=1e-12)
    assert full.covariance.shape == (80, 80)
    np.testing.assert_allclose(full.resultant_length, 1 - full.circular_variance, atol=1e-14)


def test_linear_response_is_the_answer_to_a_small_field():
    dist = random_distribution(np.random.default_rng(16), 5, 2, 0.2)
    options = {"tolerance": 1e-13, "n_starts": 1}
    covariance = mean_field(dist, **options).linear_response().covariance
    for d, unit in [(0, 1.0), (3, 1.0j)]:
        shift = np.zeros(5, dtype=complex)
        shift[d] = 1e-5 * unit
        up, down = (
            mean_field(dist._replace(a=dist.a + shift), **options),
            mean_field(dist._replace(a=dist.a - shift), **options),
        )
        answer = (up.moments - down.moments) / 2e-5
        column = covariance[:, 2 * d + (unit == 1.0j)]
        np.testing.assert_allclose(answer, column[::2] + 1j * column[1::2], atol=1e-7)


def test_linear_response_at_high_concentration():
    # Narrow distributions are Gaussian in the angles: Cov of the angles is the inverse of the curvature.
    P = np.array([[0, 1e5], [1e5, 0]], dtype=complex)
    dist = Natural(np.array([1e4, 3e4], dtype=complex), np.zeros((0, 2), dtype=complex), P, 0 * P)
    covariance = mean_field(dist).linear_response().covariance
    curvature = np.array([[1e4 + 1e5, -1e5], [-1e5, 3e4 + 1e5]])
    np.testing.assert_allclose(covariance[1::2, 1::2], np.linalg.inv(curvature), rtol=1e-3)


@pytest.mark.jit_only
def test_linear_response_refuses_what_it_cannot_do():
    rng = np.random.default_rng(17)
    dist = random_distribution(rng, 3, 2, 0.2, (4,))
    with pytest.raises(ValueError, match="one distribution at a time"):
        mean_field(dist).linear_response()
    with pytest.raises(ValueError, match="factors='gvm'"):
        mean_field(dist._replace(a=dist.a[0]), "von_mises").linear_response()
    long = chain(rng, 6000, 0.1, 1.0)
    with pytest.raises(ValueError, match="GB"):
        mean_field(long).linear_response()
