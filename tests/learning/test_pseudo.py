"""Pseudo-likelihood: its twin, derivatives, submodels and standard errors, and where it has no maximum."""

from __future__ import annotations

import numpy as np
import pytest
from naive import pseudo
from naive.torus import random_parameters

from mgvm import GvM, MGvM
from mgvm.inference import ConvergenceWarning, exact_grid
from mgvm.learning import pseudo_likelihood, score_matching
from mgvm.learning._pseudo_likelihood import PseudoLikelihood, coupling_gradient
from mgvm.learning.rows import as_rows
from mgvm.learning.score_operator import real_coupling
from mgvm.learning.standard_errors import score_matching_errors
from mgvm.natural import Natural, pack, unpack

SHAPES = [(1, 1), (1, 3), (2, 3), (3, 1), (3, 2), (4, 2)]


def random_distribution(rng, dimension, order, scale=1.0):
    a, b, P, Q = (np.asarray(part, dtype=complex) for part in random_parameters(rng, dimension, order, scale))
    return Natural(a, b.reshape(order - 1, dimension), P, Q)


@pytest.mark.parametrize(("dimension", "order"), SHAPES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0])
def test_value_gradient_and_curvature(dimension, order, scale):
    rng = np.random.default_rng(dimension * 10 + order)
    dist, x, w = (
        random_distribution(rng, dimension, order, scale),
        rng.uniform(-4, 4, (6, dimension)),
        rng.uniform(0.2, 2, 6),
    )
    objective, theta = PseudoLikelihood(as_rows(x, w), order), pack(dist)
    value, slope, curvature = objective.gradient(dist)
    assert value == pytest.approx(pseudo.log_pseudo_likelihood(x, w, *dist, n=600), rel=1e-12)
    assert value == pytest.approx(objective.value(dist), rel=1e-14)
    gradient, h = pack(slope), 1e-5
    for k in range(theta.size):
        up, down = (objective.value(unpack(theta + s * h * np.eye(theta.size)[k], dimension, order)) for s in (1, -1))
        assert gradient[k] == pytest.approx((up - down) / (2 * h), abs=2e-8)
    direction = rng.normal(size=theta.size)
    ahead, behind = (pack(objective.gradient(unpack(theta + s * h * direction, dimension, order))[1]) for s in (1, -1))
    product = pack(objective.product(curvature, unpack(direction, dimension, order)))
    np.testing.assert_allclose(product, (behind - ahead) / (2 * h), atol=1e-7)


def test_chunks_and_single_precision_covariances_add_up():
    rng = np.random.default_rng(0)
    dist, x = random_distribution(rng, 3, 2), rng.uniform(-3, 3, (50, 3))
    whole = PseudoLikelihood(as_rows(x), 2)
    parts = PseudoLikelihood(as_rows(x), 2, chunk=20, double_up_to=0)
    direction = unpack(rng.normal(size=24), 3, 2)
    one, other = whole.gradient(dist), parts.gradient(dist)
    assert one[0] == pytest.approx(other[0], rel=1e-14)
    np.testing.assert_allclose(pack(one[1]), pack(other[1]), atol=1e-14)
    assert other[2].chunks[0].turn.dtype == np.complex64
    np.testing.assert_allclose(
        pack(whole.product(one[2], direction)), pack(parts.product(other[2], direction)), rtol=1e-5, atol=1e-6
    )


def test_coupling_gradient_is_the_adjoint():
    rng = np.random.default_rng(1)
    dist, other = random_distribution(rng, 4, 1), rng.normal(size=(8, 8))
    P, Q = coupling_gradient(other)
    inner = 0.5 * np.vdot(P, dist.P).real + 0.5 * np.vdot(Q, dist.Q).real
    assert inner == pytest.approx((other * real_coupling(dist.P, dist.Q)).sum(), rel=1e-12)


@pytest.mark.parametrize("choice", [None, "torus graph", "differences", "sine", "independent", [(0, 2)]])
def test_maximum_agrees_with_the_twin(choice):
    rng = np.random.default_rng(3)
    x = MGvM(*random_parameters(rng, 3, 2)).sample(40, rng=2)
    w = rng.uniform(0.5, 1.5, 40)
    fit = pseudo_likelihood(x, submodel=choice, weights=w)
    basis = fit.submodel.basis()
    assert basis.shape[1] == fit.submodel.n_parameters
    theta, height = pseudo.maximum(x, w, fit.submodel.order, basis, n=60)
    assert fit.converged
    assert fit.objective == pytest.approx(height, abs=1e-9)
    np.testing.assert_allclose(pack(fit.natural), theta, atol=2e-4)


def test_one_angle_is_the_maximum_likelihood_of_the_gvm():
    x = GvM([2.0, 1.0 + 0.5j, 0.3]).sample(300, rng=0)
    for order in (1, 2, 3):
        fit, dist = pseudo_likelihood(x[:, None], order=order), GvM.fit(x, order=order)
        np.testing.assert_allclose(np.concatenate([fit.a, fit.b[:, 0]]), np.atleast_1d(dist.eta), rtol=1e-5)


def test_the_objective_rises_and_the_start_does_not_matter():
    rng = np.random.default_rng(5)
    x = MGvM(*random_parameters(rng, 5, 2, 3.0)).sample(400, rng=1)
    fit = pseudo_likelihood(x)
    far = MGvM(*random_parameters(rng, 5, 2, 2.0))
    again = pseudo_likelihood(x, start=far)
    assert np.diff(again.trace).min() > 0
    assert again.n_iterations > fit.n_iterations
    np.testing.assert_allclose(pack(again.natural), pack(fit.natural), atol=1e-4)
    score = score_matching(x)
    assert fit.objective > PseudoLikelihood(as_rows(x), 2).value(score.natural)


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(6)
    x = MGvM(*random_parameters(rng, 3, 2)).sample(60, rng=1)
    count = rng.integers(0, 3, 60)
    one, other = pseudo_likelihood(x, weights=count), pseudo_likelihood(np.repeat(x, count, axis=0))
    np.testing.assert_allclose(pack(one.natural), pack(other.natural), atol=1e-6)


def test_rotation_moves_the_fit():
    rng = np.random.default_rng(7)
    x, delta = MGvM(*random_parameters(rng, 3, 2)).sample(200, rng=1), rng.uniform(-3, 3, 3)
    one, other = pseudo_likelihood(x), pseudo_likelihood(x + delta)
    turned = MGvM(*one.natural).rotate(delta)
    np.testing.assert_allclose(other.P, turned.P, atol=1e-5)
    np.testing.assert_allclose(other.b, turned.b, atol=1e-5)


@pytest.mark.parametrize("method", ["pseudo", "score"])
def test_standard_errors_in_simulation(method):
    rng = np.random.default_rng(8)
    dist = MGvM(*random_parameters(rng, 2, 2, 0.7))
    truth, theta, z = exact_grid(dist), dist.natural_vector(), []
    for seed in range(120):
        x = truth.sample(500, rng=seed)
        if method == "pseudo":
            fit = pseudo_likelihood(x, standard_errors=True)
            errors = fit.standard_errors
        else:
            fit = score_matching(x)
            errors = score_matching_errors(as_rows(x), fit.submodel, fit.natural)
        z.append((pack(fit.natural) - theta) / errors)
    square = (np.array(z) ** 2).mean()
    # 12 correlated numbers of 120 sets: the standard error of the mean square is at most sqrt(2 / 120) = 0.13.
    assert square == pytest.approx(1.0, abs=0.25)


def test_standard_errors_of_weighted_rows_and_of_submodels():
    rng = np.random.default_rng(9)
    x = MGvM(*random_parameters(rng, 3, 2)).sample(400, rng=1)
    plain = pseudo_likelihood(x, submodel=[(0, 1)], standard_errors=True)
    doubled = pseudo_likelihood(np.repeat(x, 2, axis=0), submodel=[(0, 1)], standard_errors=True)
    scaled = pseudo_likelihood(x, submodel=[(0, 1)], weights=np.full(400, 7.0), standard_errors=True)
    np.testing.assert_allclose(doubled.standard_errors, plain.standard_errors / np.sqrt(2), rtol=1e-5)
    np.testing.assert_allclose(scaled.standard_errors, plain.standard_errors, rtol=1e-5)
    free = plain.submodel.basis().any(axis=1)
    assert (plain.standard_errors[~free] == 0).all()
    assert (plain.standard_errors[free] > 0).all()
    # One angle: the sandwich of a distribution that is true is the inverse Fisher information, the covariance of (z,
    # z²).
    dist = GvM([1.0, 0.5])
    y = dist.sample(200_000, rng=0)
    T = np.stack([np.cos(y), np.sin(y), np.cos(2 * y), np.sin(2 * y)], axis=1)
    fisher = np.sqrt(np.diag(np.linalg.inv(np.cov(T.T))) / y.size)
    np.testing.assert_allclose(pseudo_likelihood(y[:, None], standard_errors=True).standard_errors, fisher, rtol=0.02)


def test_too_many_parameters_for_standard_errors():
    x = np.random.default_rng(0).uniform(-3, 3, (60, 50))
    with pytest.raises(ValueError, match="standard errors need the covariance of all parameters, and 5,100"):
        pseudo_likelihood(x, max_iterations=50, standard_errors=True, tolerance=1.0)


DEGENERATE = {
    "constant": (lambda x: np.c_[x[:, :2], np.full(len(x), 0.3)], "column 2 of data holds one angle only"),
    "duplicated": (lambda x: np.c_[x, x[:, 0] + 1.0], "difference of columns 0 and 3 of data is constant"),
    "mirrored": (lambda x: np.c_[x, 2.0 - x[:, 1]], "sum of columns 1 and 3 of data is constant"),
    "narrow": (lambda x: 1e-3 * x, "radians of its mean"),
    "two rows": (lambda x: x[:2], "too few rows"),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_no_finite_maximum(case):
    spoil, message = DEGENERATE[case]
    x = np.random.default_rng(1).normal(size=(100, 3))
    with pytest.warns(ConvergenceWarning, match=message):
        fit = pseudo_likelihood(spoil(x))
    assert not fit.converged
    assert np.isfinite(pack(fit.natural)).all()
    assert np.isfinite(fit.objective)
    assert abs(pack(fit.natural)).max() < 1e6


def test_steps_run_out():
    x = np.random.default_rng(1).normal(size=(100, 3))
    far = MGvM([30.0, 30.0, 30.0])
    with pytest.warns(ConvergenceWarning, match="stopped after 1 of 1 Newton steps with a gradient of"):
        fit = pseudo_likelihood(x, start=far, max_iterations=1)
    assert not fit.converged
    assert fit.gradient_norm > 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": np.zeros((1, 2))}, "got a single row"),
        ({"data": np.zeros(5)}, "one row an observation"),
        ({"data": np.full((3, 2), np.nan)}, "NaN|nan|finite"),
        ({"data": np.ones((4, 2)), "order": 0}, "order"),
        ({"data": np.ones((4, 2)), "start": MGvM([1.0])}, "start is a distribution of 1 angles, the data have 2"),
        ({"data": np.ones((4, 2)), "tolerance": 0.0}, "tolerance"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        pseudo_likelihood(**options)
