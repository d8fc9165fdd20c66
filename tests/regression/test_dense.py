"""Dense expectation propagation: its linear algebra, its fixed points, and gradients through them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from mgvm.regression.engines.dense import DensePropagation, Tuning, gmres, inverse, symmetric_inverse
from mgvm.regression.engines.tilted import Observations
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Replicates
from mgvm.regression.prior import Prior

KERNEL = ConstantKernel(0.5) * Matern(1.0, nu=1.5) + ConstantKernel(0.1)


def _tuning(spread, noise, pair="shared", criterion="loo", turn=0.0):
    rng = np.random.default_rng(1)
    inputs = np.sort(rng.uniform(0.0, 6.0, 25))[:, None]
    angles = np.repeat(1.5 * np.sin(inputs[:, 0]), 2) + 0.2 * rng.normal(size=50) + turn
    angles[7] += np.pi  # an outlier
    replicates = Replicates(angles, rng.uniform(0.5, 2.0, 50), np.arange(0, 50, 2))
    kernels = (KERNEL, KERNEL) if pair == "separate" else (KERNEL,)
    return Tuning(inputs, replicates, Prior(kernels, pair), noise, spread, criterion)


@pytest.mark.parametrize("pair", ["shared", "separate", "coregionalised"])
def test_the_posterior_is_an_inverse(pair):
    tuning = _tuning(1.0, GvMNoise(), pair)
    rng = np.random.default_rng(0)
    size = len(tuning.inputs)
    blocks = rng.normal(size=(size, 2, 2))
    blocks = blocks @ np.swapaxes(blocks, 1, 2) - 0.02 * np.eye(2)  # some are indefinite
    linear = rng.normal(size=(size, 2))
    halves = -0.5 * blocks[:, 0, 0], -blocks[:, 0, 1], -0.5 * blocks[:, 1, 1]
    sites = np.column_stack([linear, *halves])
    covariance = tuning.prior.covariance(tuning.inputs)
    problem = DensePropagation(
        inverse(covariance), Observations(tuning.replicates, tuning.noise, tuning.noise.start, 1.0)
    )
    whole = np.kron(np.eye(2), covariance) if pair == "shared" else covariance
    precision = np.linalg.inv(whole)
    for i in range(2):
        for j in range(2):
            precision[i * size : (i + 1) * size, j * size : (j + 1) * size] += np.diag(blocks[:, i, j])
    found, mean = problem.posterior(sites)
    wanted = np.linalg.inv(precision)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(mean.T.ravel(), wanted @ linear.T.ravel(), rtol=1e-8, atol=1e-10)
    assert problem.posterior(sites + np.array([0.0, 0.0, 1e4, 0.0, 0.0])) is None
    assert problem.posterior(sites + np.array([0.0, 0.0, 0.0, 0.0, 1e4])) is None


def test_what_is_not_positive_definite_has_no_inverse():
    assert symmetric_inverse(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    assert symmetric_inverse(np.array([[4.0]])).item() == 0.25


def test_minimal_residuals():
    rng = np.random.default_rng(0)
    matrix = np.eye(30) + 0.3 * rng.normal(size=(30, 30))
    right = rng.normal(size=30)
    rough, fine = (gmres(lambda v: matrix @ v, right, tolerance) for tolerance in (0.1, 1e-12))
    np.testing.assert_allclose(fine, np.linalg.solve(matrix, right), rtol=1e-9)
    assert 1e-12 < np.linalg.norm(right - matrix @ rough) / np.linalg.norm(right) <= 0.1
    np.testing.assert_allclose(gmres(lambda v: 2.0 * v, right, 1e-12), 0.5 * right)  # nothing is left after one product
    assert not gmres(lambda v: matrix @ v, np.zeros(30), 1e-12).any()


@pytest.mark.parametrize("spread", [0.0, 1.0, np.inf])
def test_moments_match(spread):
    tuning = _tuning(spread, ContaminatedNoise(GvMNoise(2)))
    found = tuning.finish(tuning.start)
    assert found.converged
    tilted = tuning_moments(tuning, found)
    mean = found.state.mean
    second = found.state.marginal + mean[:, :, None] * mean[:, None, :]
    np.testing.assert_allclose(tilted[:, :2], mean, atol=1e-6)
    np.testing.assert_allclose(tilted[:, [2, 3, 4]], second[:, [0, 0, 1], [0, 1, 1]], atol=1e-6)


def tuning_moments(tuning, found):
    """E[T] of cavities times likelihoods, on more nodes than the library takes."""
    nodes = -np.pi + 2.0 * np.pi / 256 * np.arange(256)
    values, _ = tuning.noise.likelihood(found.rho, tuning.replicates, nodes)
    radii = np.linspace(0.0, 6.0, 3001)[1:] if tuning.spread else np.ones(1)
    c, s = np.cos(nodes), np.sin(nodes)
    out = []
    for xi, value in zip(found.state.cavity, values, strict=True):
        first, second = xi[0] * c + xi[1] * s, xi[2] * c * c + xi[3] * c * s + xi[4] * s * s
        pull = 0.5 * ((radii - 1.0) / tuning.spread) ** 2 if tuning.spread else np.zeros(1)
        logs = value[:, None] + np.multiply.outer(first, radii) + np.multiply.outer(second, radii**2) - pull
        mass = np.exp(logs - logs.max()) * (radii if tuning.spread else 1.0)
        one, two = mass @ radii / mass.sum(), mass @ radii**2 / mass.sum()
        out.append([one @ c, one @ s, two @ (c * c), two @ (c * s), two @ (s * s)])
    return np.array(out)


@pytest.mark.parametrize(
    ("spread", "noise", "pair", "criterion"),
    [
        (1.0, GvMNoise(), "shared", "loo"),
        (0.0, GvMNoise(2), "shared", "loo"),
        (np.inf, ContaminatedNoise(GvMNoise()), "shared", "loo"),
        (1.0, GvMNoise(2, symmetric=False), "separate", "loo"),
        (1.0, GvMNoise(), "coregionalised", "loo"),
        (np.inf, GvMNoise(), "shared", "evidence"),
        (np.inf, GvMNoise(), "coregionalised", "evidence"),
    ],
)
def test_gradients(spread, noise, pair, criterion):
    tuning = _tuning(spread, noise, pair, criterion)
    at = tuning.start + 0.1 * np.random.default_rng(2).normal(size=tuning.start.size)
    _, gradient = tuning.solve(at, 1e-8)
    for k in range(at.size):
        step = np.zeros(at.size)
        step[k] = 1e-3
        ahead, behind, far, back = (tuning.solve(at + by * step, 1e-8)[0].objective for by in (1, -1, 2, -2))
        slope = (8.0 * (ahead - behind) - (far - back)) / (12.0 * step[k])
        assert gradient[k] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("spread", [0.0, 1.0, np.inf])
def test_objectives_of_rough_states_are_good_to_second_order(spread):
    tuning = _tuning(spread, GvMNoise())
    start = tuning.start
    rough, exact = tuning.solve(start, 3e-3)[0], tuning.finish(start)
    assert 1e-6 < rough.state.mismatch <= 3e-3
    uncorrected = abs(rough.score.parts.sum() - exact.score.parts.sum())
    assert uncorrected > 1e-5
    assert abs(rough.objective - exact.objective) < 0.1 * uncorrected


def test_turning_all_angles_turns_every_step():
    plain, turned = (_tuning(1.0, GvMNoise(), turn=turn) for turn in (0.0, 0.7))
    one, two = (tuning.solve(tuning.start, 3e-3)[0] for tuning in (plain, turned))
    assert one.state.mismatch == pytest.approx(two.state.mismatch, rel=1e-6)
    assert one.objective == pytest.approx(two.objective, abs=1e-9)
