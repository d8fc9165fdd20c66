from __future__ import annotations

import numpy as np
import pytest
from naive.gp_chain import marginal, table
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from mgvm import CircularGPRegressor
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.chain import ChainEngine, couplings
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Replicates
from mgvm.regression.prior import Prior, exponential_scales
from mgvm.regression.search import Descent

COUNT = 96
NODES = -np.pi + 2.0 * np.pi / COUNT * np.arange(COUNT)
KERNEL = ConstantKernel(0.5) * Matern(0.7, nu=0.5)


def single(angles):
    return Replicates(np.asarray(angles, float), np.ones(len(angles)), np.arange(len(angles)))


def problem_of(times, angles, noise=None, criterion="loo", kernel=KERNEL):
    return Problem(np.reshape(times, (-1, 1)), single(angles), Prior((kernel,)), noise or GvMNoise(1), 0.0, criterion)


def chain(*arguments, **options):
    return Descent(ChainEngine(problem_of(*arguments, **options)))


def brute(times, logs, kernel=KERNEL):
    precision = np.linalg.inv(kernel(np.reshape(times, (-1, 1))))
    weights, log_posterior = table(precision, logs)
    _, log_prior = table(precision, np.zeros_like(logs))
    return weights, log_posterior - log_prior


@pytest.mark.parametrize("noise", [GvMNoise(1), GvMNoise(2, symmetric=False), ContaminatedNoise(GvMNoise(1))])
def test_evidence_and_leave_one_out_are_those_of_the_whole_table(noise):
    times, angles = [0.0, 0.4, 1.5], [0.3, 1.1, -2.8]
    descent = chain(times, angles, noise)
    vector = descent.prior.centre + 0.2
    found = descent.engine.solve(vector)
    kernel, rho = found.prior.kernels[0], found.rho
    logs = noise.likelihood(rho, single(angles), NODES)[0]
    _, evidence = brute(times, logs, kernel)
    assert found.state.log_normalizer == pytest.approx(evidence, abs=1e-10)
    for n in range(3):
        without = logs.copy()
        without[n] = 0.0
        others = marginal(brute(times, without, kernel)[0], n)
        assert found.loo[n] == pytest.approx(np.log(others @ np.exp(logs[n])), abs=1e-10)


def test_the_order_of_inputs_does_not_matter():
    times, angles, turn = np.array([0.0, 0.4, 1.5, 2.0]), np.array([0.3, 1.1, -2.8, 2.0]), [2, 0, 3, 1]
    options = {"kernel": KERNEL, "radial_scale": "hard", "inference": "chain", "selection": None}
    a = CircularGPRegressor(**options).fit(times[:, None], angles)
    b = CircularGPRegressor(**options).fit(times[turn, None], angles[turn])
    assert a.log_evidence_ == pytest.approx(b.log_evidence_, abs=1e-11)
    np.testing.assert_allclose(a.loo_log_density_[turn], b.loo_log_density_, atol=1e-11)


@pytest.mark.parametrize("query", [-0.8, 0.25, 0.3999, 2.4, 0.4])
def test_a_query_is_one_more_link(query):
    times, angles = np.array([0.0, 0.4]), [0.3, 1.9]
    descent = chain(times, angles)
    found = descent.engine.solve(descent.prior.centre)
    dist = descent.engine.posterior(found).predict(np.array([[query]]))[0]
    logs = GvMNoise(1).likelihood(found.rho, single(angles), NODES)[0]
    if query == 0.25 or query < 0.0 or query > 0.4:
        every = np.append(times, query)
        order = np.argsort(every)
        expected = marginal(
            brute(every[order], np.vstack([logs, np.zeros(COUNT)])[order])[0], int(np.argmax(order == 2))
        )
        tolerance = 1e-10
    else:
        # So close to an input a coupling of thousands is beyond a table; the query is all but that input.
        expected, tolerance = marginal(brute(times, logs)[0], 1), 1e-10 if query == 0.4 else 2e-4
    got = dist.pdf(NODES) * 2 * np.pi / COUNT
    np.testing.assert_allclose(got, expected, atol=tolerance)


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_gradients(criterion):
    rng = np.random.default_rng(0)
    times, angles = np.cumsum(rng.exponential(0.3, 12)), rng.vonmises(0.5, 2.0, 12)
    descent = chain(times, angles, GvMNoise(2, symmetric=False), criterion)
    vector = descent.prior.centre + rng.normal(0.0, 0.2, descent.prior.centre.size)
    _, gradient = descent.evaluate(vector, 0.0)
    step = 1e-5
    for k, unit in enumerate(np.eye(vector.size)):
        slope = (descent.finish(vector + step * unit).objective - descent.finish(vector - step * unit).objective) / (
            2 * step
        )
        assert gradient[k] == pytest.approx(slope, abs=1e-7 if criterion == "evidence" else 2e-3)


def test_couplings_are_the_inverse_of_the_kernel_matrix():
    times = np.array([0.0, 0.2, 1.0, 1.05])
    precision = np.linalg.inv(KERNEL(times[:, None]))
    values, slopes = couplings(np.diff(times), 0.5, 0.7)
    np.testing.assert_allclose(values, -np.diagonal(precision, 1), rtol=1e-10)
    e = 1e-6
    longer, shorter = (
        couplings(np.diff(times), 0.5, 0.7 * np.exp(e))[0],
        couplings(np.diff(times), 0.5, 0.7 * np.exp(-e))[0],
    )
    np.testing.assert_allclose(slopes, (longer - shorter) / (2 * e), rtol=1e-8)


def test_far_apart_and_single_inputs():
    descent = chain([0.0, 1e5], [0.3, 2.0])
    np.testing.assert_allclose(descent.engine.solve(descent.prior.centre).loo, -np.log(2 * np.pi), atol=1e-12)
    alone = chain([0.0], [0.3])
    assert alone.engine.solve(alone.prior.centre).state.log_normalizer == pytest.approx(-np.log(2 * np.pi))


def test_hyper_parameters_are_found_again():
    rng = np.random.default_rng(0)
    times = np.arange(2000.0)
    turn = np.cumsum(rng.vonmises(0.0, 1.0 / np.sinh(0.1), 2000))  # s² = 0.5: p = 1/sinh(Δ/ℓ)
    angles = turn + rng.vonmises(0.0, 8.0, 2000)
    kernel = ConstantKernel(0.5, "fixed") * Matern(3.0, nu=0.5)
    descent = chain(times, angles, criterion="evidence", kernel=kernel)
    found = descent.run([descent.prior.centre]).solution
    assert 8.0 < exponential_scales(found.prior.kernels[0])[1] < 12.5
    assert 6.8 < np.sinh(found.rho[0]) < 9.4


def test_kernels_that_are_chains_and_those_that_are_not():
    assert all(exponential_scales(kernel) for kernel in (KERNEL, Matern(nu=0.5), 2.0 * Matern(nu=0.5) * 3.0))
    for kernel in (RBF(), ConstantKernel(), KERNEL + KERNEL, Matern(nu=0.5) * Matern(nu=0.5), Matern(nu=1.5)):
        assert exponential_scales(kernel) is None
    with pytest.raises(ValueError, match="exact chain needs one kernel"):
        chain([0.0, 1.0], [0.0, 1.0], kernel=RBF())
    with pytest.raises(ValueError, match="distinct"):
        chain([0.0, 0.0], [0.0, 1.0])
    close = chain([0.0, 1e-7], [0.0, 1.0])
    with pytest.raises(ValueError, match="closer than"):
        close.engine.solve(close.prior.centre)


def test_a_few_inputs_may_all_but_coincide():
    # Two inputs 1e-9 length scales apart would need a million nodes; a thousandth apart they say the same.
    rng = np.random.default_rng(3)
    times = np.sort(rng.uniform(0.0, 20.0, 40))
    close, apart = np.sort(np.append(times, times[7] + 1e-9)), np.sort(np.append(times, times[7] + 0.7e-3))
    angles = np.angle(np.exp(1j * (np.sin(close) + rng.vonmises(0.0, 5.0, 41))))
    found, wide = (chain(one, angles, criterion="evidence") for one in (close, apart))
    vector = found.prior.centre
    close, wide = (descent.engine.solve(vector).state.log_normalizer for descent in (found, wide))
    assert close == pytest.approx(wide, abs=1e-3)
    steps = 1e-5 * np.eye(vector.size)
    slopes = [(found.finish(vector + e).objective - found.finish(vector - e).objective) / 2e-5 for e in steps]
    np.testing.assert_allclose(found.evaluate(vector, 0.0)[1], slopes, rtol=1e-5, atol=1e-5)


def test_a_chain_of_inputs_that_are_all_too_close_is_left_to_other_engines():
    rng = np.random.default_rng(4)
    times = np.append(np.linspace(0.0, 1e-6, 30), 1.0)[:, None]
    y = 0.5 + rng.vonmises(0.0, 5.0, 31)
    kernel = ConstantKernel(0.5) * Matern(1.0, (0.5, 2.0), nu=0.5)
    with pytest.raises(ValueError, match="some inputs are closer than"):
        CircularGPRegressor(kernel, radial_scale="hard", inference="chain").fit(times, y)
    model = CircularGPRegressor(kernel, radial_scale="hard").fit(times, y)
    assert abs(model.predict([[0.0]])[0] - 0.5) < 0.4
