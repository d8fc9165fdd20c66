"""Exact inference on the torus for up to three angles, against plain product grids and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus
from portable import polar, power_of_ten
from scipy import integrate, special
from torus_distributions import bimodal, couplings, distribution_of, random_distribution, ridge, rotated

from mgvm import GvM, MGvM
from mgvm.inference import exact_grid
from mgvm.inference._exact_grid import grid_log_normalizers, reorder
from mgvm.inference._grid_cells import GridSettings, find_nodes

EPS = np.finfo(float).eps
BRUTE = {1: 300, 2: 300, 3: 128}  # nodes of the plain rule, enough for the scales below
SCALES = {1: [0.0, 1e-3, 1.0, 30.0], 2: [0.0, 1e-3, 1.0, 20.0], 3: [0.0, 1e-3, 1.0, 5.0]}
SHAPES = [(d, order, scale) for d in (1, 2, 3) for order in (1, 2, 3) for scale in SCALES[d]]


def same_log(found, expected, dist):
    """Equal to a few units in the last place of the largest terms of the log density."""
    size = np.abs(dist.a).sum() + np.abs(dist.b).sum() + np.abs(dist.P).sum() + np.abs(dist.Q).sum()
    assert abs(found - expected) <= 16 * EPS * (size + 10.0)


# ---- against the plain product rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("dimension", "order", "scale"), SHAPES)
def test_normalizer_and_moments_of_random_distributions(dimension, order, scale):
    dist = random_distribution(7, dimension, order, scale)
    n = BRUTE[dimension] // (1 if scale > 1.0 else 2)
    found = exact_grid(dist)
    first, difference, total, second = torus.moments(*dist, n)
    same_log(found.log_normalizer, torus.log_normalizer(*dist, n), dist)
    np.testing.assert_allclose(found.moments, first, atol=2e-14)
    np.testing.assert_allclose(found.harmonics[:2], [first, second], atol=2e-14)
    pairs = found.pair_moments
    np.testing.assert_array_equal([pairs.first, pairs.second], np.triu_indices(dimension, 1))
    np.testing.assert_allclose(pairs.difference, difference[pairs.first, pairs.second], atol=2e-14)
    np.testing.assert_allclose(pairs.sum, total[pairs.first, pairs.second], atol=2e-14)


@pytest.mark.parametrize(("dimension", "order", "scale"), SHAPES)
def test_marginals_of_random_distributions(dimension, order, scale):
    dist = random_distribution(8, dimension, order, scale)
    n = BRUTE[dimension]
    marginals = exact_grid(dist).marginals
    assert marginals.batch_shape == (dimension,)
    for d in range(dimension):
        expected = torus.marginal(*dist, d, n)
        np.testing.assert_allclose(marginals[d].pdf(torus.nodes(n)), expected, rtol=1e-9, atol=1e-11 * expected.max())


def test_third_harmonics_of_an_order_three_distribution():
    dist = random_distribution(9, 2, order=3, scale=3.0)
    mass = torus.probabilities(*dist, 200)
    z = np.exp(1j * torus.nodes(200))
    expected = [mass.sum(axis=1) @ z**3, mass.sum(axis=0) @ z**3]
    np.testing.assert_allclose(exact_grid(dist).harmonics[2], expected, atol=1e-14)


def test_high_orders_take_the_general_kernel():
    dist = random_distribution(10, 2, order=5, scale=2.0)
    found = exact_grid(dist)
    same_log(found.log_normalizer, torus.log_normalizer(*dist, 300), dist)
    assert found.harmonics.shape == (5, 2)


# ---- closed forms at any concentration ------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [1e-3, 1.0, 30.0, 1e3, 1e5, 1e8])
@pytest.mark.parametrize("sums", [False, True])
def test_two_angles_tied_to_each_other_only(strength, sums):
    """Z = (2π)² I₀(κ), E[z₁ conj(z₂)] = I₁(κ)/I₀(κ) for a difference, E[z₁ z₂] for a sum; E[z] = 0."""
    tie = couplings(2, strength)[0]
    dist = distribution_of(np.zeros(2), np.zeros((0, 2)), *((0 * tie, tie) if sums else (tie, 0 * tie)))
    found = exact_grid(dist)
    same_log(found.log_normalizer, 2 * np.log(2 * np.pi) + np.log(special.ive(0, strength)) + strength, dist)
    ratio = special.ive(1, strength) / special.ive(0, strength)
    pairs = found.pair_moments
    tied, other = (pairs.sum, pairs.difference) if sums else (pairs.difference, pairs.sum)
    np.testing.assert_allclose(tied, ratio, rtol=1e-14, atol=1e-16)
    # Where the two stand together is decided by log densities that are known to eps·K.
    np.testing.assert_allclose([*other, *found.moments], 0.0, atol=EPS * (1.0 + strength))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0, 1e4, 1e6, 1e8])
@pytest.mark.parametrize(("dimension", "order"), [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)])
def test_products(dimension, order, scale):
    dist = random_distribution(11, dimension, order, scale)
    dist = dist._replace(P=0 * dist.P, Q=0 * dist.Q)
    parts = GvM(np.vstack([dist.a[None], dist.b]).T)
    found = exact_grid(dist)
    same_log(found.log_normalizer, parts.log_normalizer().sum(), dist)
    np.testing.assert_allclose(found.moments, parts.moment(1), atol=1e-13)
    pairs = found.pair_moments
    expected = parts.moment(1)[pairs.first] * parts.moment(1)[pairs.second]
    np.testing.assert_allclose(pairs.sum, expected, atol=1e-13)


@pytest.mark.parametrize("dimension", [2, 3])
def test_far_tails_of_narrow_marginals(dimension):
    """Angles that carry no weight are left out, but none that a double can tell from zero."""
    dist = random_distribution(25, dimension, 2, 1e6)
    dist = dist._replace(P=0 * dist.P, Q=0 * dist.Q)
    marginals = exact_grid(dist).marginals
    for d, parameters in enumerate(np.vstack([dist.a[None], dist.b]).T):
        part = GvM(parameters)
        x = part.mean_direction() + np.linspace(-1.0, 1.0, 101) * 0.02
        expected = part.logpdf(x)
        near = expected > expected.max() - 650.0
        assert (expected[near] < expected.max() - 300.0).any()
        np.testing.assert_allclose(marginals[d].logpdf(x[near]), expected[near], atol=1e-7)


def test_sine_model_series():
    """Z = 4π² Σ_m C(2m, m) (λ²/(4κ₁κ₂))^m I_m(κ₁) I_m(κ₂) for κ₁ cos φ₁ + κ₂ cos φ₂ + λ sin φ₁ sin φ₂ (Singh 2002)."""
    kappa, coupling = (3.0, 5.0), 2.5
    m = np.arange(80)
    terms = special.comb(2 * m, m) * (coupling**2 / (4 * kappa[0] * kappa[1])) ** m
    terms *= special.iv(m, kappa[0]) * special.iv(m, kappa[1])
    P, Q = couplings(2, coupling / 2, -coupling / 2)
    found = exact_grid(distribution_of(kappa, np.zeros((0, 2)), P, Q)).log_normalizer
    assert abs(found - np.log(4 * np.pi**2 * terms.sum())) < 1e-14 * 20


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("strength", [1e6, 1e8])
def test_narrow_distributions_are_gaussian_in_the_limit(dimension, strength):
    """log Z = f(0) + (D/2) log 2π - ½ log|H| + O(1/K), covariance H⁻¹ (1 + O(1/K)), at the mode 0."""
    P, Q = couplings(dimension, 0.3 * strength, -0.2 * strength)
    dist = distribution_of(np.linspace(1.0, 2.0, dimension) * strength, np.full((1, dimension), 0.1 * strength), P, Q)
    hessian = np.diag((dist.a + 4 * dist.b[0] + dist.P.sum(1) + dist.Q.sum(1)).real) - dist.P.real + dist.Q.real
    peak = (dist.a.sum() + dist.b.sum() + 0.5 * (dist.P + dist.Q).sum()).real
    laplace = dimension / 2 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(hessian)[1]
    found = exact_grid(dist)
    base, relative = found._nodes.frame.base[0], found._nodes.weights()[0][0]
    assert abs(relative + (base - peak) - laplace) < 3.0 / strength + 2 * EPS * peak
    covariance = np.linalg.inv(hessian)
    pairs = found.pair_moments
    np.testing.assert_allclose(
        0.5 * (pairs.difference - pairs.sum).real, covariance[pairs.first, pairs.second], rtol=1e-4
    )
    np.testing.assert_allclose(1 - found.marginals.moment(1).real, 0.5 * np.diag(covariance), rtol=1e-4)


@pytest.mark.parametrize("strength", [1e2, 1e6])
def test_two_wells_of_a_flip_symmetric_distribution(strength):
    found = exact_grid(bimodal(strength))
    np.testing.assert_allclose(found.moments, 0.0, atol=1e-9)
    for d in range(2):
        peaks = found.marginals[d].pdf([0.0, -np.pi])
        assert peaks[0] > 1.0
        np.testing.assert_allclose(peaks[1], peaks[0], rtol=1e-7)


@pytest.mark.parametrize("strength", [1e4, 1e6])
def test_strong_ridge_with_a_weak_pull(strength):
    """Three angles that are nearly one: a von Mises with κ = 3·0.5, but for O(1/K)."""
    found = exact_grid(ridge(3, strength))
    expected = special.i1(1.5) / special.i0(1.5)
    np.testing.assert_allclose(found.moments, expected, atol=1.0 / strength)
    # Integrating out two tied differences: Hessian [[2, -1], [-1, 2]] K, determinant 3 K².
    gaussian = np.log(2 * np.pi) - 0.5 * np.log(3 * strength**2)
    limit = 3 * strength + np.log(2 * np.pi * special.i0(1.5)) + gaussian
    assert abs(found.log_normalizer - limit) < 2.0 / strength + 8 * EPS * strength


def test_against_adaptive_quadrature_at_high_concentration():
    dist = random_distribution(12, 2, order=2, scale=3e3)
    found = exact_grid(dist)
    centre = np.angle(found.moments)
    width = 12 * np.sqrt(2 * np.max(1 - np.abs(found.moments)))
    top = torus.log_density(centre, *dist)
    value, _ = integrate.dblquad(
        lambda y, x: np.exp(torus.log_density([x, y], *dist) - top),
        *(centre[0] - width, centre[0] + width, centre[1] - width, centre[1] + width),
        epsabs=0,
        epsrel=1e-10,
    )
    assert abs(top + np.log(value) - found.log_normalizer) < 1e-9


# ---- what must not matter -------------------------------------------------------------------------------------------

CORNERS = {
    "random": random_distribution(1, 3, 2, 40.0),
    "narrow": random_distribution(2, 3, 2, 1e7),
    "order three": random_distribution(3, 2, 3, 1e3),
    "bimodal": bimodal(50.0),
    "bimodal, narrow": bimodal(1e5),
    "ridge": ridge(3, 3e3),
    "ridge of two": ridge(2, 1e5),
    "one narrow angle": distribution_of([1e6, 0.3, 0.1], np.zeros((0, 3)), *couplings(3, 0.5, 0.2)),
    "flat mode": distribution_of([4e4, 4e4], [[-1e4, -1e4]], *couplings(2, 0.0)),
}


@pytest.mark.parametrize("name", CORNERS)
def test_rotation(name):
    dist = CORNERS[name]
    delta = np.array([0.7, -2.9, 1.3])[: dist.dimension]
    plain, turned = exact_grid(dist), exact_grid(rotated(dist, delta))
    same_log(turned.log_normalizer, plain.log_normalizer, dist)
    np.testing.assert_allclose(turned.moments, plain.moments * np.exp(1j * delta), atol=1e-9)


def mixed_distribution(rng):
    """Parameters of sizes from 0 to 1e6 side by side, with phases at random or all along one line."""
    dimension, order = int(rng.integers(2, 4)), int(rng.integers(1, 3))

    def draw(*shape):
        size = power_of_ten(rng.uniform(-3, 6, shape)) * (rng.random(shape) < 0.7)
        return polar(size, rng.choice([0.0, np.pi, rng.uniform(-np.pi, np.pi)], shape))

    P, Q = np.triu(draw(dimension, dimension), 1), np.triu(draw(dimension, dimension), 1)
    return distribution_of(draw(dimension), draw(order - 1, dimension), P + P.conj().T, Q + Q.T)


@pytest.mark.parametrize("seed", range(25))
def test_any_angle_may_be_integrated_out(seed):
    dist = mixed_distribution(np.random.default_rng(seed))
    single = dist._replace(a=dist.a[None])
    for analytic in range(dist.dimension):
        found = find_nodes(reorder(single, np.roll(np.arange(dist.dimension), -1 - analytic)))
        same_log(found.frame.base[0] + found.weights()[0][0], exact_grid(dist).log_normalizer, dist)


@pytest.mark.parametrize("name", CORNERS)
def test_twice_the_nodes_change_nothing(name):
    dist = CORNERS[name]
    finer = exact_grid(dist, settings=GridSettings(fineness=2))
    same_log(exact_grid(dist).log_normalizer, finer.log_normalizer, dist)


@pytest.mark.parametrize("name", [name for name in CORNERS if name != "narrow"])
def test_pruning_loses_nothing(name):
    dist = CORNERS[name]
    pruned = exact_grid(dist)
    whole = exact_grid(dist, settings=GridSettings(whole=(1, 10**7, 10**7)))
    same_log(pruned.log_normalizer, whole.log_normalizer, dist)
    # Rounding of the largest terms is what the weights of separate modes are off by.
    size = np.abs(dist.a).sum() + np.abs(dist.b).sum() + np.abs(dist.P).sum() + np.abs(dist.Q).sum()
    np.testing.assert_allclose(pruned.moments, whole.moments, rtol=0, atol=1e-12 + 4 * EPS * size)


@pytest.mark.parametrize(
    ("dimension", "scale", "count"), [(1, 2.0, 50), (2, 2.0, 40), (2, 1e4, 40), (3, 2.0, 20), (3, 1e4, 12)]
)
def test_batch_is_the_distributions_one_by_one(dimension, scale, count):
    dist = random_distribution(4, dimension, 2, scale)
    batch = dist._replace(a=dist.a + scale * np.random.default_rng(5).normal(size=(count, dimension)))
    found = MGvM(*batch).log_normalizer(method="grid")
    assert found.shape == (count,)
    for value, a in zip(found, batch.a, strict=True):
        same_log(value, exact_grid(batch._replace(a=a)).log_normalizer, batch._replace(a=a))


def test_empty_batch():
    dist = random_distribution(4, 2)
    assert grid_log_normalizers(dist._replace(a=np.zeros((0, 2), dtype=complex))).shape == (0,)


def test_marginals_that_fit_in_no_memory_are_refused():
    # 5·10⁹ nodes of two angles, 75 GB.
    result = exact_grid(MGvM([1e15, 1.0]))
    assert abs(result.moments[0] - 1.0) < 1e-12
    with pytest.raises(ValueError, match="marginals need a grid of 5,003,800,416 nodes.*`moments`"):
        result.marginals
