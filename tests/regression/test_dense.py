"""Dense expectation propagation: its linear algebra, its fixed points, and gradients through them."""

from __future__ import annotations

import numpy as np
import pytest
from portable import periodic_grid
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from mgvm.inference._planar_gaussian import invert_symmetric
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.dense import DenseEngine, DensePropagation, DenseSettings, gmres, invert_covariance
from mgvm.regression.engines.tilted import Observations
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Replicates
from mgvm.regression.prior import Prior
from mgvm.regression.search import Descent

KERNEL = ConstantKernel(0.5) * Matern(1.0, nu=1.5) + ConstantKernel(0.1)


def _problem(radial_scale, noise, pair="shared", criterion="loo", turn=0.0):
    rng = np.random.default_rng(1)
    inputs = np.sort(rng.uniform(0.0, 6.0, 25))[:, None]
    angles = np.repeat(1.5 * np.sin(inputs[:, 0]), 2) + 0.2 * rng.normal(size=50) + turn
    angles[7] += np.pi  # an outlier
    replicates = Replicates(angles, rng.uniform(0.5, 2.0, 50), np.arange(0, 50, 2))
    kernels = (KERNEL, KERNEL) if pair == "separate" else (KERNEL,)
    return Problem(inputs, replicates, Prior(kernels, pair), noise, radial_scale, criterion)


@pytest.mark.parametrize("pair", ["shared", "separate", "coregionalised"])
def test_the_posterior_is_an_inverse(pair):
    known = _problem(1.0, GvMNoise(), pair)
    rng = np.random.default_rng(0)
    size = known.size
    blocks = rng.normal(size=(size, 2, 2))
    blocks = blocks @ np.swapaxes(blocks, 1, 2) - 0.02 * np.eye(2)  # some are indefinite
    linear = rng.normal(size=(size, 2))
    halves = -0.5 * blocks[:, 0, 0], -blocks[:, 0, 1], -0.5 * blocks[:, 1, 1]
    sites = np.column_stack([linear, *halves])
    covariance = known.prior.covariance(known.inputs)
    observations = Observations(known.replicates, known.noise, known.noise.start, 1.0)
    problem = DensePropagation(observations, invert_covariance(covariance))
    whole = np.kron(np.eye(2), covariance) if pair == "shared" else covariance
    precision = np.linalg.inv(whole)
    for i in range(2):
        for j in range(2):
            precision[i * size : (i + 1) * size, j * size : (j + 1) * size] += np.diag(blocks[:, i, j])
    found = problem.posterior(sites)
    wanted = np.linalg.inv(precision)
    np.testing.assert_allclose(found.covariance, wanted, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(found.mean.T.ravel(), wanted @ linear.T.ravel(), rtol=1e-8, atol=1e-10)
    assert problem.posterior(sites + np.array([0.0, 0.0, 1e4, 0.0, 0.0])) is None
    assert problem.posterior(sites + np.array([0.0, 0.0, 0.0, 0.0, 1e4])) is None


def test_what_is_not_positive_definite_has_no_inverse():
    assert invert_symmetric(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    assert invert_symmetric(np.array([[4.0]])).item() == 0.25


def test_minimal_residuals():
    rng = np.random.default_rng(0)
    matrix = np.eye(30) + 0.3 * rng.normal(size=(30, 30))
    right = rng.normal(size=30)
    rough, fine = (gmres(lambda v: matrix @ v, right, tolerance) for tolerance in (0.1, 1e-12))
    np.testing.assert_allclose(fine, np.linalg.solve(matrix, right), rtol=1e-9)
    assert 1e-12 < np.linalg.norm(right - matrix @ rough) / np.linalg.norm(right) <= 0.1
    np.testing.assert_allclose(gmres(lambda v: 2.0 * v, right, 1e-12), 0.5 * right)  # nothing is left after one product
    assert not gmres(lambda v: matrix @ v, np.zeros(30), 1e-12).any()


@pytest.mark.parametrize("radial_scale", [0.0, 1.0, np.inf])
def test_moments_match(radial_scale):
    problem = _problem(radial_scale, ContaminatedNoise(GvMNoise(2)))
    found = DenseEngine(problem).solve(Descent(DenseEngine(problem)).prior.centre, 1e-7)
    assert found.converged
    tilted = tilted_moments(problem, found)
    mean = found.state.mean
    second = found.state.marginal + mean[:, :, None] * mean[:, None, :]
    np.testing.assert_allclose(tilted[:, :2], mean, atol=1e-6)
    np.testing.assert_allclose(tilted[:, [2, 3, 4]], second[:, [0, 0, 1], [0, 1, 1]], atol=1e-6)


def tilted_moments(problem, found):
    """E[T] of cavities times likelihoods, on more nodes than the library takes."""
    nodes = -np.pi + 2.0 * np.pi / 256 * np.arange(256)
    values, _ = problem.noise.likelihood(found.rho, problem.replicates, nodes)
    radii = np.linspace(0.0, 6.0, 3001)[1:] if problem.radial_scale else np.ones(1)
    c, s = np.cos(nodes), np.sin(nodes)
    out = []
    for xi, value in zip(found.state.cavity, values, strict=True):
        first, second = xi[0] * c + xi[1] * s, xi[2] * c * c + xi[3] * c * s + xi[4] * s * s
        penalty = 0.5 * ((radii - 1.0) / problem.radial_scale) ** 2 if problem.radial_scale else np.zeros(1)
        logs = value[:, None] + np.multiply.outer(first, radii) + np.multiply.outer(second, radii**2) - penalty
        mass = np.exp(logs - logs.max()) * (radii if problem.radial_scale else 1.0)
        one, two = mass @ radii / mass.sum(), mass @ radii**2 / mass.sum()
        out.append([one @ c, one @ s, two @ (c * c), two @ (c * s), two @ (s * s)])
    return np.array(out)


@pytest.mark.parametrize(
    ("radial_scale", "noise", "pair", "criterion"),
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
def test_gradients(radial_scale, noise, pair, criterion):
    descent = Descent(DenseEngine(_problem(radial_scale, noise, pair, criterion)))
    centre = descent.prior.centre
    at = centre + 0.1 * np.random.default_rng(2).normal(size=centre.size)
    _, gradient = descent.evaluate(at, 1e-8)
    for k in range(at.size):
        step = np.zeros(at.size)
        step[k] = 1e-3
        ahead, behind, far, back = (descent.evaluate(at + by * step, 1e-8)[0].objective for by in (1, -1, 2, -2))
        slope = (8.0 * (ahead - behind) - (far - back)) / (12.0 * step[k])
        assert gradient[k] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("radial_scale", [0.0, 1.0, np.inf])
def test_objectives_of_rough_states_are_good_to_second_order(radial_scale):
    descent = Descent(DenseEngine(_problem(radial_scale, GvMNoise())))
    start = descent.prior.centre
    rough, exact = descent.evaluate(start, 3e-3)[0], descent.finish(start)
    assert 1e-6 < rough.solution.mismatch <= 3e-3
    uncorrected = abs(rough.solution.loo.sum() - exact.solution.loo.sum())
    assert uncorrected > 1e-5
    assert abs(rough.objective - exact.objective) < 0.1 * uncorrected


def test_turning_all_angles_turns_every_step():
    plain, turned = (Descent(DenseEngine(_problem(1.0, GvMNoise(), turn=turn))) for turn in (0.0, 0.7))
    one, two = (descent.evaluate(descent.prior.centre, 3e-3)[0] for descent in (plain, turned))
    assert one.solution.mismatch == pytest.approx(two.solution.mismatch, rel=1e-6)
    assert one.objective == pytest.approx(two.objective, abs=1e-9)


def test_the_engine_of_many_inputs_begins_on_a_part_of_them():
    problem = _problem(1.0, GvMNoise())
    settings = DenseSettings(many=20, part=12)
    assert DenseEngine(problem).preliminary() is None
    assert DenseEngine(problem, settings=settings).preliminary().problem.size == 12
    whole, part = Descent(DenseEngine(problem)), Descent(DenseEngine(problem, settings=settings))
    ends = [descent.run([descent.prior.centre]).objective for descent in (whole, part)]
    assert ends[0] == pytest.approx(ends[1], abs=0.05)


# ---- against a grid of radii and angles ------------------------------------------------------------------------------


def polar_grid(covariance, log_likelihood, radial_scale, radii=24, reach=4.0):
    """log Z and directions' densities of N(x; 0, K) Π exp(-(|x_n| - 1)²/2τ²) likelihood_n, by a grid in r and φ."""
    size, points = log_likelihood.shape
    nodes, weights = np.polynomial.legendre.leggauss(radii)
    r, weights = 0.5 * reach * (nodes + 1.0), 0.5 * reach * weights
    z = np.exp(1j * periodic_grid(points))
    x = (r[:, None] * z).ravel()
    own = np.log(weights[:, None] * r[:, None]) - 0.5 * ((r[:, None] - 1.0) / radial_scale) ** 2 + np.zeros(points)
    own = own[None] + log_likelihood[:, None, :]
    precision = np.linalg.inv(covariance)
    value = np.zeros((x.size,) * size)
    for i in range(size):
        shape = [1] * size
        shape[i] = x.size
        value = value + (own[i].ravel() - 0.5 * precision[i, i] * np.abs(x) ** 2).reshape(shape)
    if size == 2:
        value = value - precision[0, 1] * np.real(np.conj(x)[:, None] * x)
    value -= np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    mass = np.exp(value - value.max())
    log_z = value.max() + np.log(mass.sum()) + size * np.log(2.0 * np.pi / points)
    rows = [
        mass.sum(axis=tuple(k for k in range(size) if k != n)).reshape(radii, points).sum(axis=0) for n in range(size)
    ]
    return log_z, np.array([row / row.sum() * points / (2.0 * np.pi) for row in rows])


@pytest.mark.parametrize("radial_scale", [0.5, 1.0, np.inf])
def test_two_soft_angles_on_a_grid(radial_scale):
    noise, rho = GvMNoise(1, first=2.0), GvMNoise(1, first=2.0).start
    replicates = Replicates(np.array([0.5, -1.1]), np.ones(2), np.arange(2))
    prior = Prior((ConstantKernel(0.5) * Matern(1.0, nu=1.5),))
    inputs = np.array([[0.0], [1.0]])
    engine = DenseEngine(Problem(inputs, replicates, prior, noise, radial_scale))
    solution = engine.solve(np.concatenate([prior.theta, rho]), 1e-9)
    values = noise.likelihood(rho, replicates, periodic_grid(24))[0]
    covariance = prior.covariance(inputs)
    log_z, _ = polar_grid(covariance, values, radial_scale)
    rest, alone = polar_grid(covariance, values * [[0.0], [1.0]], radial_scale)
    assert solution.loo[0] == pytest.approx(log_z - rest, abs=0.06)
    posterior = engine.posterior(solution)
    density = posterior.leave_one_out()[:, None].pdf(periodic_grid(24))
    assert np.abs(density - alone)[0].sum() * np.pi / 24 < 0.06
    if np.isinf(radial_scale):
        assert posterior.log_evidence == pytest.approx(log_z, abs=0.015)
