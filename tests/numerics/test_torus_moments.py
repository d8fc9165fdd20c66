"""Exact log Z, means and Fisher matrices of distributions of up to three angles."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus, torus_moments
from portable import polar, product
from torus_distributions import bimodal, distribution_of, ridge

from mgvm._numerics import torus_moments as frame
from mgvm.inference import exact_grid
from mgvm.natural import pack, statistics


def moments_of(dists, anchor, **options):
    """log Z, E[T] and Cov(T) in the order of the natural vector."""
    theta = np.stack([pack(dist) for dist in dists])
    order, size = dists[0].order, dists[0].dimension
    found = frame.local_moments(frame.to_local(theta, anchor, order), size, order, **options)
    outward = frame.outward(anchor, order)
    covariance = outward @ found.covariance @ np.swapaxes(outward, 1, 2)
    return (
        found.log_integral + frame.base(theta, anchor, order),
        frame.means(found.mean, anchor, order),
        covariance,
    )


@pytest.mark.jit_only
@pytest.mark.parametrize(("dimension", "order"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 2)])
def test_moments_are_those_of_a_product_grid_from_any_anchor(dimension, order):
    rng = np.random.default_rng(dimension + 10 * order)
    dists = [distribution_of(*torus.random_parameters(rng, dimension, order, 1.0)) for _ in range(2)]
    anchor = rng.uniform(-3, 3, (2, dimension))
    log_normalizer, mean, covariance = moments_of(dists, anchor)
    for k, dist in enumerate(dists):
        expected = torus_moments.moments(*dist, n=32 if dimension == 3 else 60)
        assert log_normalizer[k] == pytest.approx(expected[0], abs=1e-11)
        np.testing.assert_allclose(mean[k], expected[1], atol=1e-11)
        np.testing.assert_allclose(covariance[k], expected[2], atol=1e-11)


@pytest.mark.parametrize(
    "dist",
    [bimodal(3.0), ridge(2, 8.0), distribution_of(np.zeros(2), np.zeros((1, 2)), np.zeros((2, 2)), np.zeros((2, 2)))],
)
def test_two_wells_ridges_and_the_uniform_distribution(dist):
    full = distribution_of(dist.a, dist.b if dist.order > 1 else np.zeros((1, 2)), dist.P, dist.Q)
    expected = torus_moments.moments(*full, n=60)
    log_normalizer, mean, covariance = moments_of([full], np.array([[0.3, -2.0]]))
    assert log_normalizer[0] == pytest.approx(expected[0], abs=1e-11)
    np.testing.assert_allclose(mean[0], expected[1], atol=1e-12)
    np.testing.assert_allclose(covariance[0], expected[2], atol=1e-12)


def narrow(dimension, concentration, seed):
    """Local parameters of a distribution near a normal one with correlated angles and some skew."""
    rng = np.random.default_rng(seed)
    local = 0.05 * rng.normal(size=frame.n_statistics(dimension, 2)) * concentration
    root = rng.normal(size=(dimension, dimension))
    precision = concentration * (product(root, root.T) / dimension + np.eye(dimension))
    codes = frame.codes(dimension, 2)
    local[0 : 2 * dimension : 2] = -np.diag(precision)
    local[1 : 2 * dimension : 2] = 0.3 * np.sqrt(concentration)
    for a in np.flatnonzero((codes == 1).sum(axis=1) == 2):
        i, j = np.flatnonzero(codes[a])
        local[a] = -precision[i, j]
    return local


@pytest.mark.jit_only
@pytest.mark.parametrize(("dimension", "concentration"), [(1, 1e4), (2, 300.0), (2, 1e4), (2, 1e5), (3, 1e3)])
def test_every_entry_of_narrow_distributions_keeps_its_digits(dimension, concentration):
    local = narrow(dimension, concentration, seed=dimension)
    found = frame.local_moments(local[None], dimension, 2)
    # The precision is at least the concentration: beyond 9 standard deviations lie e^-40. On 40 nodes over 24 of them
    # the reference itself is off by 1e-8.
    expected = torus_moments.narrow_local_moments(
        local, frame.codes(dimension, 2), 2, 9.0 / np.sqrt(concentration), n=40 if dimension == 3 else 80
    )
    scale = np.sqrt(np.diag(expected[2])).astype(float)
    assert found.log_integral[0] == pytest.approx(float(expected[0]), abs=1e-10)
    np.testing.assert_allclose(found.mean[0] / scale, (expected[1] / scale).astype(float), atol=1e-9)
    # Relative to the variances, which range over twelve orders of magnitude at 1e4.
    unit = (expected[2] / np.outer(scale, scale)).astype(float)
    np.testing.assert_allclose(found.covariance[0] / np.outer(scale, scale), unit, atol=1e-8)
    quick = frame.local_moments(local[None], dimension, 2, quick=True)
    assert quick.log_integral[0] == pytest.approx(float(expected[0]), abs=1e-9)
    np.testing.assert_allclose(quick.covariance[0] / np.outer(scale, scale), unit, atol=1e-6)


def test_log_normalizer_of_a_distribution_far_from_the_anchor_agrees_with_exact_grid():
    dist = distribution_of([polar(3e3, 2), 5e3 + 0j], [[800.0, 900j]], [[0, 2e3], [2e3, 0]], [[0, 300j], [300j, 0]])
    result = exact_grid(dist)
    log_normalizer, mean, _ = moments_of([dist], np.array([[0.0, 0.0]]))
    assert log_normalizer[0] == pytest.approx(float(result.log_normalizer), rel=1e-12)
    np.testing.assert_allclose(mean[0, :4].view(complex), result.moments, atol=1e-11)


@pytest.mark.parametrize(("dimension", "order"), [(1, 3), (2, 2), (3, 2), (3, 1)])
def test_local_statistics_and_back(dimension, order):
    rng = np.random.default_rng(0)
    x, theta = rng.uniform(-3, 3, (5, dimension)), rng.normal(size=(5, frame.n_statistics(dimension, order)))
    anchor = rng.uniform(-3, 3, (5, dimension))
    local, plain = frame.local_statistics(x - anchor, order), statistics(x, order)
    np.testing.assert_allclose(frame.means(local, anchor, order), plain, atol=1e-13)
    np.testing.assert_allclose(frame.local_means(plain, anchor, order), local, atol=1e-12)
    seen = frame.to_local(theta, anchor, order)
    np.testing.assert_allclose(frame.from_local(seen, anchor, order), theta, atol=1e-12)
    np.testing.assert_allclose(
        (seen * local).sum(axis=1) + frame.base(theta, anchor, order), (theta * plain).sum(axis=1), atol=1e-12
    )


def test_distributions_too_narrow_for_the_grid_are_refused_with_their_concentration():
    local = np.zeros((1, frame.n_statistics(3, 2)))
    local[0, 0:6:2] = -1e8
    with pytest.raises(frame.TooConcentratedError, match=r"concentration 1e\+08"):
        frame.local_moments(local, 3, 2)
