"""Expectation propagation against grids, transfer operators and its own invariances."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive import torus
from portable import angle, cholesky, cos, exp, inverse, polar, product, turned, von_mises_draws
from scipy import sparse

from mgvm import GvM, MGvM, MultivariateWrappedNormal
from mgvm.inference import ConvergenceWarning, LogNormalizer, exact_chain, exact_grid, expectation_propagation
from mgvm.inference import _expectation_propagation as ep
from mgvm.natural import Natural, log_densities


def exponential_kernel(size, length, variance):
    place = np.arange(size)
    return variance * exp(-np.abs(place[:, None] - place) / length)


def chain_sites(rng, covariance, concentration, share=1.0):
    """Noisy sightings of a path drawn from the Gaussian, (N, 1)."""
    size = covariance.shape[0]
    path = product(cholesky(covariance), rng.standard_normal((size, 2)))
    seen = angle(path[:, 0], path[:, 1]) + von_mises_draws(rng, 0.0, concentration, size)
    return polar(concentration * (rng.random(size) < share), seen)[:, None]


def as_distribution(covariance, sites):
    """The mGvM of an isotropic kernel with tridiagonal inverse."""
    precision = inverse(covariance)
    P = -np.triu(np.tril(precision, 1), -1).astype(complex)
    np.fill_diagonal(P, 0.0)
    size = len(P)
    b = np.zeros((max(sites.shape[1] - 1, 1), size), complex)
    b[: sites.shape[1] - 1] = sites[:, 1:].T
    return Natural(sites[:, 0].copy(), b, P, np.zeros((size, size), complex))


def total_variation(dist, density):
    points = density.shape[1]
    return np.abs(dist[:, None].pdf(torus.nodes(points)) - density).sum(axis=1) * np.pi / points


def gaussian_grid(covariance, mean, log_sites):
    """log Z and marginal densities of N([cos; sin]; mean, covariance) Π site by a product grid, any N <= 3."""
    size, points = log_sites.shape
    z = np.exp(1j * torus.nodes(points))
    axes = np.meshgrid(*[np.arange(points)] * size, indexing="ij")
    x = np.stack([z[axis].real for axis in axes] + [z[axis].imag for axis in axes], axis=-1) - mean
    value = -0.5 * np.einsum("...i,ij,...j->...", x, np.linalg.inv(covariance), x)
    value -= 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    for n, axis in enumerate(axes):
        value = value + log_sites[n][axis]
    mass = np.exp(value - value.max())
    log_z = value.max() + np.log(mass.sum()) + size * np.log(2.0 * np.pi / points)
    marginals = [mass.sum(axis=tuple(k for k in range(size) if k != n)) for n in range(size)]
    return log_z, np.array([row / row.sum() * points / (2.0 * np.pi) for row in marginals])


def site_values(sites, points):
    z = np.exp(1j * torus.nodes(points))
    return sum(np.real(np.conj(sites[:, [t]]) * z ** (t + 1)) for t in range(sites.shape[1]))


# ---- exact where it should be ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [[[1 + 2j]], [[0j]], [[0.5j, 2 + 1j]], [[1, 0.3j, -0.4 + 2j]], [[300.0, 80j]]])
@pytest.mark.parametrize("mean", [None, [0.7, -0.4]])
def test_one_angle_is_exact(eta, mean):
    covariance = np.array([[0.7, 0.2], [0.2, 0.4]])
    centre = np.zeros(2) if mean is None else np.array(mean)
    sites = np.array(eta, dtype=complex)
    result = expectation_propagation(covariance, sites, mean=mean)
    log_z, marginal = gaussian_grid(covariance, centre, site_values(sites, 400))
    assert result.converged
    assert result.log_normalizer == pytest.approx(log_z, rel=1e-12, abs=1e-11)
    np.testing.assert_allclose(total_variation(result.marginals, marginal), 0.0, atol=1e-11)


def test_independent_angles_are_exact():
    rng = np.random.default_rng(1)
    sites = rng.normal(size=(6, 3)) + 1j * rng.normal(size=(6, 3))
    result = expectation_propagation(0.3 * np.eye(6), sites)
    dists = GvM(sites)
    expected = dists.log_normalizer().sum() - 6 * (np.log(2 * np.pi * 0.3) + 0.5 / 0.3)
    assert result.log_normalizer == pytest.approx(expected, abs=1e-11)
    np.testing.assert_allclose(result.marginals.moment(1), dists.moment(1), atol=1e-13)
    np.testing.assert_allclose(
        result.leave_one_out_log_density(), dists.log_normalizer() - np.log(2 * np.pi), atol=1e-12
    )
    assert isinstance(result.log_normalizer, LogNormalizer)
    assert np.isnan(result.log_normalizer.standard_error)


def test_product_distribution_is_exact():
    rng = np.random.default_rng(2)
    a, b, P, Q = torus.random_parameters(rng, 4, order=3, scale=2.0, edges=[])
    result = expectation_propagation(Natural(a, b, P, Q))
    dists = GvM(np.concatenate([a[None], b]).T)
    assert result.log_normalizer == pytest.approx(dists.log_normalizer().sum(), abs=1e-11)
    np.testing.assert_allclose(result.marginals.moment(2), dists.moment(2), atol=1e-12)


# The bounds below, and those of leaving one out, of several solutions and of the soft circle, are on the error of the
# approximation itself, the same on every CPU: at least twice what was measured.

# ---- close to grids and chains ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_three_coupled_angles_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    covariance = 0.5 * (product(root, root.T) / 6 + 0.5 * np.eye(6))
    sites = 2.0 * (rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))) * [1.0, 0.3]
    mean = rng.normal(0.0, 0.3, 6)
    result = expectation_propagation(covariance, sites, mean=mean)
    log_z, marginals = gaussian_grid(covariance, mean, site_values(sites, 48))
    assert result.converged
    assert total_variation(result.marginals, marginals).max() < 0.021
    assert result.log_normalizer == pytest.approx(log_z, abs=0.02)


def test_distribution_and_covariance_agree():
    covariance = exponential_kernel(20, 3.0, 0.5)
    sites = chain_sites(np.random.default_rng(3), covariance, 3.0)
    by_kernel = expectation_propagation(covariance, sites)
    both = np.kron(np.eye(2), covariance)
    by_blocks = expectation_propagation(both, sites)
    by_distribution = expectation_propagation(as_distribution(covariance, sites))
    # N(x; 0, K) on the torus: the determinant and the trace of K^-1, which the distribution leaves out.
    constant = -0.5 * np.linalg.slogdet(2 * np.pi * both)[1] - 0.5 * np.trace(np.linalg.inv(covariance))
    assert by_blocks.log_normalizer == pytest.approx(by_kernel.log_normalizer, abs=1e-9)
    assert by_distribution.log_normalizer + constant == pytest.approx(by_kernel.log_normalizer, abs=1e-6)
    np.testing.assert_allclose(by_distribution.marginals.moment(1), by_kernel.marginals.moment(1), atol=1e-7)
    np.testing.assert_allclose(by_distribution.leave_one_out.moment(1), by_kernel.leave_one_out.moment(1), atol=1e-6)


@pytest.mark.parametrize(
    ("size", "length", "variance", "concentration"), [(300, 2.0, 1.0, 5.0), (100, 5.0, 3.0, 5.0), (100, 1.0, 0.5, 10.0)]
)
def test_chains_rich_in_data(size, length, variance, concentration):
    covariance = exponential_kernel(size, length, variance)
    dist = as_distribution(covariance, chain_sites(np.random.default_rng(4), covariance, concentration))
    result = expectation_propagation(dist)
    gap = total_variation(result.marginals, torus.chain_marginals(*dist, n=72))
    assert result.converged
    assert gap.max() < 0.01
    assert result.log_normalizer == pytest.approx(torus.chain_log_normalizer(*dist, n=72), abs=2e-3 * size)


@pytest.mark.parametrize(("length", "variance"), [(2.0, 0.5), (10.0, 3.0)])
def test_chains_poor_in_data_beat_mean_field(length, variance):
    covariance = exponential_kernel(100, length, variance)
    dist = as_distribution(covariance, chain_sites(np.random.default_rng(5), covariance, 1.0))
    truth = torus.chain_marginals(*dist, n=72)
    result = expectation_propagation(dist)
    moment = np.zeros(100, complex)
    for _ in range(400):
        eta = dist.a + dist.P @ moment
        moment = 0.5 * moment + 0.5 * GvM(eta[:, None]).moment(1)
    gap = total_variation(result.marginals, truth)
    mean_field_gap = total_variation(GvM((dist.a + dist.P @ moment)[:, None]), truth)
    assert gap.mean() < 0.08
    assert gap.mean() < mean_field_gap.mean() / 3
    variances = [dist.circular_variance().mean() for dist in (GvM(eta[:, None]), result.marginals)]
    exact = 1.0 - np.abs(truth @ np.exp(1j * torus.nodes(72)) * 2 * np.pi / 72).mean()
    assert variances[0] < variances[1] < exact


# ---- leave one out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("coupling", "allowed"), [(0.01, 1.6e-6), (0.05, 2e-4), (0.2, 0.03)])
def test_leave_one_out_is_removal_of_a_site_for_two_angles(coupling, allowed):
    covariance = np.array([[0.5, coupling], [coupling, 0.5]])
    sites = np.array([[2 + 1j], [0.5 - 1j]])
    result = expectation_propagation(covariance, sites)
    whole = gaussian_grid(np.kron(np.eye(2), covariance), 0.0, site_values(sites, 128))[0]
    for n in range(2):
        without = sites.copy()
        without[n] = 0.0
        log_z, marginals = gaussian_grid(np.kron(np.eye(2), covariance), 0.0, site_values(without, 128))
        assert total_variation(result.leave_one_out, marginals)[n] < allowed
        assert result.leave_one_out_log_density()[n] == pytest.approx(whole - log_z, abs=allowed)


def test_cavities_are_marginals_without_their_sites():
    covariance = exponential_kernel(10, 3.0, 0.5)
    result = expectation_propagation(covariance, chain_sites(np.random.default_rng(6), covariance, 3.0))
    precision = np.zeros((20, 20))
    precision[:10, :10] = precision[10:, 10:] = np.linalg.inv(covariance)
    for n in range(10):
        pair = [n, n + 10]
        precision[np.ix_(pair, pair)] += result.site_precision[n]
    inverse = np.linalg.inv(precision)
    mean = inverse @ result.site_linear.T.ravel()
    np.testing.assert_allclose(mean.reshape(2, 10).T, result.mean, atol=1e-12)
    for n in range(10):
        marginal = np.linalg.inv(inverse[np.ix_([n, n + 10], [n, n + 10])])
        np.testing.assert_allclose(
            marginal - result.site_precision[n], result.cavity_precision[n], rtol=1e-8, atol=1e-8
        )
        np.testing.assert_allclose(result.marginals[n].moment(1), result.mean[n] @ [1, 1j], atol=1e-8)


def test_sparse_distribution_of_the_library():
    dist = as_distribution(exponential_kernel(8, 2.0, 0.5), chain_sites(np.random.default_rng(15), np.eye(8), 2.0))
    dense = expectation_propagation(MGvM(dist.a, dist.b, dist.P, dist.Q))
    thin = expectation_propagation(MGvM(dist.a, dist.b, sparse.csr_array(dist.P), sparse.csr_array(dist.Q)))
    assert thin.log_normalizer == pytest.approx(dense.log_normalizer, rel=1e-13)
    assert dense.log_normalizer == pytest.approx(expectation_propagation(dist).log_normalizer, rel=1e-13)


# ---- other ways in ---------------------------------------------------------------------------------------------------


def test_grid_likelihood_is_the_harmonic_one():
    covariance = exponential_kernel(12, 3.0, 0.5)
    rng = np.random.default_rng(7)
    sites = np.concatenate([chain_sites(rng, covariance, 3.0), 0.5 * rng.normal(size=(12, 2)) + 0j], axis=1)
    by_harmonics = expectation_propagation(covariance, sites)
    by_grid = expectation_propagation(covariance, log_likelihood=site_values(sites, 256) + 3.0)
    assert by_grid.log_normalizer == pytest.approx(by_harmonics.log_normalizer + 36.0, abs=1e-8)
    np.testing.assert_allclose(by_grid.marginals.moment(1), by_harmonics.marginals.moment(1), atol=1e-8)
    np.testing.assert_allclose(by_grid.leave_one_out.moment(1), by_harmonics.leave_one_out.moment(1), atol=1e-6)
    np.testing.assert_allclose(
        by_grid.leave_one_out_log_density(), by_harmonics.leave_one_out_log_density() + 3.0, atol=1e-6
    )


def test_hard_likelihood_with_impossible_angles():
    nodes = torus.nodes(64)
    values = np.where(np.abs(nodes) < 1.0, 0.0, -np.inf)[None, :].repeat(2, axis=0)
    covariance = np.array([[0.5, 0.3], [0.3, 0.5]])
    result = expectation_propagation(covariance, log_likelihood=values)
    log_z, marginals = gaussian_grid(np.kron(np.eye(2), covariance), 0.0, values)
    assert result.converged
    assert result.log_normalizer == pytest.approx(log_z, abs=0.01)
    seen = marginals[0] > 0
    np.testing.assert_allclose(result.marginals[0].pdf(nodes[seen]), marginals[0][seen], atol=0.012)


def test_warm_start_finds_the_same_point_sooner():
    covariance = exponential_kernel(40, 3.0, 0.5)
    sites = chain_sites(np.random.default_rng(8), covariance, 2.0)
    cold = expectation_propagation(covariance, sites)
    warm = expectation_propagation(covariance, sites, start=cold)
    assert warm.trace.size == 1
    near = expectation_propagation(1.05 * covariance, sites, start=cold)
    fresh = expectation_propagation(1.05 * covariance, sites)
    assert near.trace.size < fresh.trace.size
    np.testing.assert_allclose(near.marginals.moment(1), fresh.marginals.moment(1), atol=1e-6)
    dist = as_distribution(covariance, sites)
    stiffer = dist._replace(P=1.05 * dist.P)
    moved = expectation_propagation(stiffer, start=expectation_propagation(dist))
    assert moved.log_normalizer == pytest.approx(expectation_propagation(stiffer).log_normalizer, abs=1e-6)


@pytest.mark.parametrize("shift", [-0.5, 0.5, 20.0])
def test_no_answer_depends_on_the_shift(shift, monkeypatch):
    from mgvm.inference import _expectation_propagation

    covariance = exponential_kernel(30, 3.0, 0.5)
    dist = as_distribution(covariance, chain_sites(np.random.default_rng(9), covariance, 3.0))
    usual = expectation_propagation(dist)
    rule = _expectation_propagation._spherical_shift
    monkeypatch.setattr(
        _expectation_propagation, "_spherical_shift", lambda coupling: rule(coupling) * (1 + 0.01 * shift)
    )
    other = expectation_propagation(dist)
    assert other.shift != usual.shift
    assert other.log_normalizer == pytest.approx(usual.log_normalizer, abs=1e-6)
    np.testing.assert_allclose(other.marginals.moment(1), usual.marginals.moment(1), atol=1e-6)


def test_many_angles_start_elsewhere_and_end_alike(monkeypatch):
    from mgvm.inference import _expectation_propagation

    covariance = exponential_kernel(30, 3.0, 0.5)
    dist = as_distribution(covariance, chain_sites(np.random.default_rng(16), covariance, 3.0))
    usual = expectation_propagation(dist)
    monkeypatch.setattr(_expectation_propagation, "_spherical_shift", _expectation_propagation._lanczos_shift)
    other = expectation_propagation(dist)
    assert other.shift != usual.shift
    assert other.log_normalizer == pytest.approx(usual.log_normalizer, abs=1e-6)
    uncoupled = Natural(dist.a, dist.b, 0.0 * dist.P, dist.Q)
    assert expectation_propagation(uncoupled).log_normalizer == pytest.approx(
        GvM(dist.a[:, None]).log_normalizer().sum(), rel=1e-12
    )


def test_damping_does_not_move_the_answer():
    covariance = exponential_kernel(20, 3.0, 0.5)
    sites = chain_sites(np.random.default_rng(10), covariance, 2.0)
    plain, damped = (expectation_propagation(covariance, sites, damping=step) for step in (1.0, 0.4))
    assert damped.log_normalizer == pytest.approx(plain.log_normalizer, abs=1e-7)


# ---- symmetric distributions
# --------------------------------------------------------------------------------------------------


def ring(size, strength, second=0.5, third=0.0, field=0.0):
    """A chain of equal couplings with equal sites."""
    P = np.diag(np.full(size - 1, strength), 1).astype(complex)
    b = np.zeros((2, size), complex)
    b[0], b[1] = second, third
    return Natural(np.full(size, field, complex), b, P + P.T, np.zeros((size, size), complex))


@pytest.mark.parametrize(
    ("dist", "sides"),
    [(ring(10, 5.0), 2), (ring(10, 5.0, 0.0, 0.5), 3), (ring(10, 5.0, field=0.02), None)],
)
def test_mirror_solutions_are_mixed_and_reported(dist, sides):
    with pytest.warns(ConvergenceWarning, match="several solutions"):
        result = expectation_propagation(dist)
    assert result.converged
    assert result.symmetric is (sides is not None)
    assert total_variation(result.marginals, torus.chain_marginals(*dist, n=72)).max() < 0.15
    assert result.log_normalizer == pytest.approx(torus.chain_log_normalizer(*dist, n=72), abs=0.9)
    if sides:
        np.testing.assert_allclose(result.solution_weight, 1.0 / sides)
        turned = result.marginals[:, None].pdf(torus.nodes(50) + 2 * np.pi / sides)
        np.testing.assert_allclose(turned, result.marginals[:, None].pdf(torus.nodes(50)), atol=1e-5)
        np.testing.assert_allclose(result.leave_one_out.moment(1), 0.0, atol=1e-9)
    else:
        assert (result.solution_weight > 0.5).all()
        assert (result.solution_weight < 0.8).all()


def test_isotropic_prior_has_uniform_marginals():
    with pytest.warns(ConvergenceWarning, match="unchanged by a turn"):
        result = expectation_propagation(exponential_kernel(10, 5.0, 0.5), np.zeros((10, 1), complex))
    assert result.symmetric
    np.testing.assert_allclose(result.marginals.moment(1), 0.0, atol=1e-12)
    np.testing.assert_allclose(result.leave_one_out.resultant_length(), 0.0, atol=1e-12)


def test_symmetric_point_that_holds_is_the_whole_truth():
    dist = ring(4, 0.5)
    result = expectation_propagation(dist)
    assert result.symmetric
    assert total_variation(result.marginals, torus.chain_marginals(*dist, n=72)).max() < 0.002


def test_only_the_unconnected_part_without_field_is_mirrored():
    dist = ring(12, 5.0)
    P = dist.P.copy()
    P[5, 6] = P[6, 5] = 0.0
    a = dist.a.copy()
    a[:6] = 1.0
    dist = dist._replace(P=P, a=a)
    with pytest.warns(ConvergenceWarning, match="several solutions"):
        result = expectation_propagation(dist)
    np.testing.assert_allclose(result.solution_weight, np.repeat([1.0, 0.5], 6))
    assert total_variation(result.marginals, torus.chain_marginals(*dist, n=72)).max() < 0.16
    assert result.log_normalizer == pytest.approx(torus.chain_log_normalizer(*dist, n=72), abs=0.6)


def test_symmetric_grid_likelihood_is_found():
    values = 2.0 * cos(2.0 * torus.nodes(64))[None, :].repeat(8, axis=0)
    with pytest.warns(ConvergenceWarning, match="unchanged by a turn"):
        result = expectation_propagation(exponential_kernel(8, 20.0, 0.5), log_likelihood=values)
    assert result.symmetric
    np.testing.assert_allclose(result.marginals.moment(1), 0.0, atol=1e-9)


# ---- never a NaN -----------------------------------------------------------------------------------------------------


def assert_sound(result):
    for name in ("trace", "site_precision", "site_linear", "cavity_precision", "cavity_linear", "mean", "covariance"):
        assert np.isfinite(getattr(result, name)).all(), name
    assert np.isfinite(result.log_normalizer)
    assert np.isfinite(result.leave_one_out_log_density()).all()
    assert np.isfinite(result.marginals.moment(1)).all()
    assert np.isfinite(result.leave_one_out.moment(1)).all()


@pytest.mark.parametrize("variance", [1e-2, 0.5, 1e2])
@pytest.mark.parametrize("nugget", [1e-6, 1e-3])
@pytest.mark.parametrize("length", [0.5, 5.0, 1e6])
@pytest.mark.parametrize("concentration", [0.0, 0.1, 5.0, 1e4])
def test_nasty_problems_stay_finite(variance, nugget, length, concentration):
    place = np.arange(15)
    covariance = variance * (exp(-0.5 * ((place[:, None] - place) / length) ** 2) + nugget * np.eye(15))
    rng = np.random.default_rng(11)
    sites = polar(concentration, rng.uniform(-np.pi, np.pi, (15, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = expectation_propagation(covariance, sites, max_sweeps=30, verify=False)
    assert_sound(result)
    assert result.converged == (result.trace.min() <= 1e-8)


@pytest.mark.parametrize("eta", [[[1e9, 0]], [[0, 1e9]], [[4e8, -1e8]], [[0, 1e3j]], [[1e12, 0]]])
def test_narrow_sites(eta):
    covariance = exponential_kernel(3, 2.0, 0.5)
    sites = np.repeat(np.array(eta, complex), 3, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = expectation_propagation(covariance, sites)
    assert_sound(result)
    assert result.converged


def test_marginals_of_two_narrow_modes_are_resolved():
    sites = np.full((3, 2), [0.0, 1e9], dtype=complex)
    with pytest.warns(ConvergenceWarning, match="several solutions"):
        result = expectation_propagation(exponential_kernel(3, 2.0, 0.5), sites)
    # Two normal peaks half a turn apart, of a curvature of 4e9: of 32,768 equal nodes each had one.
    np.testing.assert_allclose(
        result.marginals.entropy(), np.log(2.0) + 0.5 * np.log(2.0 * np.pi * np.e / 4e9), atol=1e-6
    )


def test_too_few_sweeps_warn_with_what_to_try():
    covariance = exponential_kernel(30, 10.0, 0.5)
    sites = chain_sites(np.random.default_rng(12), covariance, 1.0)
    with pytest.warns(ConvergenceWarning, match=r"after 2 sweeps.*max_sweeps.*damping=0.5.*nugget.*start"):
        result = expectation_propagation(covariance, sites, max_sweeps=2, verify=False)
    assert not result.converged
    assert result.trace.size == 3


# ---- bad input ------------------------------------------------------------------------------------------------------

GOOD = np.eye(3)
SITES = np.ones((3, 1), complex)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((np.eye(4), SITES), {}, ValueError, r"covariance must have shape \(3, 3\).*got \(4, 4\)"),
        ((np.ones(3), SITES), {}, ValueError, "covariance must have shape"),
        ((np.triu(np.ones((3, 3))), SITES), {}, ValueError, "must be symmetric"),
        ((np.ones((3, 3)) - 2 * GOOD, SITES), {}, ValueError, r"positive definite, its smallest eigenvalue is -2"),
        ((np.full((3, 3), np.nan), SITES), {}, ValueError, "covariance must be finite"),
        ((GOOD, np.full((3, 1), np.nan + 0j)), {}, ValueError, "sites must be finite"),
        ((GOOD, np.ones((3, 1))), {}, TypeError, "sites must be complex.*log_likelihood="),
        ((GOOD, np.ones(3, complex)), {}, ValueError, r"shape \(N, T\).*sites\[:, None\]"),
        ((GOOD, np.zeros((0, 1), complex)), {}, ValueError, r"N >= 1 angles"),
        ((GOOD, np.full((3, 1), 1e16 + 0j)), {}, ValueError, "total concentration"),
        ((GOOD,), {}, ValueError, "got neither"),
        ((None,), {}, TypeError, "must be a covariance matrix, with sites .* or an MGvM alone, got NoneType"),
        (("abc",), {}, TypeError, "or an MGvM alone, got str"),
        ((GvM([1.0, 0.5]),), {}, TypeError, "or an MGvM alone, got GvM"),
        ((MultivariateWrappedNormal([0.0], [[1.0]]),), {}, TypeError, "alone, got MultivariateWrappedNormal"),
        ((MGvM([1.0, 0.5]),), {"tolerance": [1e-8, 1e-6]}, ValueError, "tolerance must be a single number"),
        ((MGvM([1.0, 0.5]),), {"damping": [0.5]}, ValueError, r"damping must be a single number, got shape \(1,\)"),
        ((GOOD, SITES), {"log_likelihood": np.zeros((3, 32))}, ValueError, "got both"),
        ((GOOD,), {"log_likelihood": np.zeros((3, 4))}, ValueError, "n >= 16"),
        ((GOOD,), {"log_likelihood": np.zeros((3, 32), complex)}, TypeError, "log_likelihood must be real"),
        ((GOOD,), {"log_likelihood": np.full((3, 32), np.nan)}, ValueError, r"finite or -inf.*nan at index \(0, 0\)"),
        ((GOOD,), {"log_likelihood": np.full((3, 32), -np.inf)}, ValueError, "-inf everywhere in row 0"),
        ((GOOD, SITES), {"mean": np.zeros(3)}, ValueError, r"mean must have shape \(6,\)"),
        ((GOOD, SITES), {"max_sweeps": 0}, ValueError, "max_sweeps must be >= 1"),
        ((GOOD, SITES), {"tolerance": 0.0}, ValueError, "tolerance must be > 0"),
        ((GOOD, SITES), {"damping": 1.5}, ValueError, "damping must be at most 1"),
        ((GOOD, SITES), {"start": 3}, TypeError, "start must be an EPResult"),
        ((ring(3, 1.0), SITES), {}, ValueError, "a distribution brings its own sites"),
        ((ring(3, 1.0)._replace(a=np.ones((2, 3), complex)),), {}, ValueError, "one distribution at a time"),
        (("kernel", SITES), {}, TypeError, "must be a covariance matrix.*got str"),
    ],
)
def test_bad_input(arguments, options, error, message):
    with pytest.raises(error, match=message):
        expectation_propagation(*arguments, **options)


def test_start_of_another_size():
    start = expectation_propagation(GOOD, SITES)
    with pytest.raises(ValueError, match="start has 3 angles, the problem 2"):
        expectation_propagation(np.eye(2), SITES[:2], start=start)


def test_result_is_frozen():
    result = expectation_propagation(GOOD, SITES)
    with pytest.raises(AttributeError):
        result.converged = False


# ---- verification ---------------------------------------------------------------------------------------------------


def contradicting_chain(size, coupling, field):
    """Neighbours that want to agree, and fields that want the halves of the chain to be opposite."""
    P = coupling * (np.eye(size, k=1) + np.eye(size, k=-1))
    return MGvM(field * np.where(np.arange(size) < size / 2, 1.0, -1.0), P=P)


def spin_glass(seed, size=3, strength=10.0):
    P = np.triu(np.random.default_rng(seed).normal(0.0, strength, (size, size)), 1)
    return MGvM(np.full(size, 0.3), P=P + P.T)


def find_errors(dists, exact):
    """Largest error of E[e^{iφ}], and whether the result says so, of every distribution."""
    rows = []
    for dist in dists:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = expectation_propagation(dist)
        error = np.abs(result.marginals.moment(1) - exact(dist).marginals.moment(1)).max()
        rows.append((error, result.converged))
    return rows


@pytest.mark.parametrize(
    ("dists", "exact"),
    [
        ([contradicting_chain(n, p, f) for n in (4, 5, 9) for p in (3.0, 10.0, 30.0) for f in (0.5, 2.0)], exact_chain),
        ([spin_glass(seed) for seed in range(40)], exact_grid),
    ],
    ids=["chains", "glasses"],
)
def test_no_answer_is_far_off_and_calls_itself_converged(dists, exact):
    rows = find_errors(dists, exact)
    assert sum(error > 0.3 for error, _ in rows) >= 2
    assert not [error for error, converged in rows if converged and error > 0.3]


def test_distributions_that_are_easy_raise_no_alarm():
    rng = np.random.default_rng(1)
    for _ in range(20):
        P = np.triu(rng.normal(0.0, 0.5, (3, 3)), 1)
        dist = MGvM(rng.uniform(0.5, 3.0, 3) * turned(np.ones(3, complex), rng.uniform(-3, 3, 3)), P=P + P.T)
        result = expectation_propagation(dist)
        assert result.converged
        assert result.disagreement < 0.1


def test_verification_sees_the_distribution_that_a_covariance_and_sites_make():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    eta, mean = rng.normal(size=(4, 3)) + 1j * rng.normal(size=(4, 3)), rng.normal(size=8)
    problem = ep.from_covariance(root @ root.T + np.eye(8), eta, mean=mean)
    dist = ep._to_natural(problem, eta)
    phi = rng.uniform(-np.pi, np.pi, (6, 4))
    x = np.concatenate([np.cos(phi), np.sin(phi)], axis=1)
    prior = -0.5 * np.einsum("ni,ij,nj->n", x - mean, np.linalg.inv(root @ root.T + np.eye(8)), x - mean)
    likelihood = sum((eta[:, t - 1].conj() * np.exp(1j * t * phi)).real.sum(axis=1) for t in (1, 2, 3))
    both = log_densities(dist, phi) - prior - likelihood
    np.testing.assert_allclose(both - both[0], 0.0, atol=1e-11)


def test_verification_can_be_left_out_and_says_what_it_cannot_do():
    dist = contradicting_chain(5, 10.0, 2.0)
    assert np.isnan(expectation_propagation(dist, verify=False).disagreement)
    with pytest.warns(ConvergenceWarning, match="cannot be relied on here: .*exact_chain"):
        assert not expectation_propagation(dist).converged
    on_grid = {"log_likelihood": np.zeros((2, 32))}
    assert np.isnan(expectation_propagation(np.eye(2), **on_grid).disagreement)
    with pytest.raises(ValueError, match="verify=True needs sites that are natural parameters"):
        expectation_propagation(np.eye(2), **on_grid, verify=True)
    many = np.ones((65, 1), complex)
    assert np.isnan(expectation_propagation(np.eye(65), many).disagreement)
    assert expectation_propagation(np.eye(65), many, verify=True).disagreement < 0.15
