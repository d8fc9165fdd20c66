"""MultivariateWrappedNormal against cubes of images and harmonics, grids, samples, and its symmetries."""

import copy
import pickle
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from naive import multivariate_wrapped_normal as naive
from numpy.testing import assert_allclose, assert_array_equal
from portable import cholesky, product, spaced

from mgvm import MGvM, MultivariateWrappedNormal, WrappedNormal
from mgvm.angles import DegreesWarning
from mgvm.circle import CircularDistribution, base
from mgvm.inference import ConvergenceWarning
from mgvm.torus import lattice, wrapped_normal


def equicorrelated(size, sigma, rho):
    return sigma * sigma * ((1 - rho) * np.eye(size) + rho)


def random_covariance(rng, size, scale):
    root = rng.standard_normal((size, size))
    return scale * scale * product(root, root.T) / size


def points(size, count=40, seed=0):
    return np.random.default_rng(seed).uniform(-np.pi, np.pi, (count, size))


class TestDensity:
    @pytest.mark.parametrize(("sigma", "reach"), [(0.02, 2), (0.5, 3), (1.0, 4), (1.5, 5), (2.5, 8), (4.0, 12)])
    @pytest.mark.parametrize("rho", [-0.45, 0.3, 0.9])
    @pytest.mark.parametrize("size", [2, 3])
    def test_cube_of_images(self, size, rho, sigma, reach):
        dist = MultivariateWrappedNormal(0.7 * np.arange(size), equicorrelated(size, sigma, rho))
        x = points(size, 12)
        assert_allclose(dist.logpdf(x), naive.by_images(x, dist.mean, dist.cov, reach), rtol=2e-13, atol=2e-13)

    @pytest.mark.parametrize("sigma", [1.6, 2.5, 4.0, 7.0])
    @pytest.mark.parametrize("size", [2, 3, 4])
    def test_cube_of_harmonics(self, size, sigma):
        dist = MultivariateWrappedNormal(0.7 * np.arange(size), equicorrelated(size, sigma, 0.3))
        x = points(size)
        assert_allclose(dist.logpdf(x), naive.by_harmonics(x, dist.mean, dist.cov, 6), rtol=1e-13, atol=5e-13)

    @pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
    @pytest.mark.parametrize("rho", [0.999, -0.999])
    def test_strong_correlation_against_forty_digits(self, rho, sigma):
        dist = MultivariateWrappedNormal([0.2, -1.0], equicorrelated(2, sigma, rho))
        for x in [[0.5, -0.7], [2.0, 1.0], [-3.0, 0.1]]:
            exact = float(naive.mp_logpdf(x, dist.mean, dist.cov, int(3 + 1.6 * sigma)))
            assert_allclose(dist.logpdf(x), exact, rtol=1e-12, atol=1e-12)

    def test_both_series_agree_where_both_hold(self):
        for size, sigma in [(2, 2.5), (3, 3.0), (4, 3.5), (5, 4.0)]:
            cov = equicorrelated(size, sigma, 0.4)
            images, harmonics = lattice.image_series(cov), lattice.harmonic_series(cov)
            x = points(size)
            assert_allclose(images.log_density(x), harmonics.log_density(x), rtol=1e-13, atol=1e-13)

    def test_random_covariances_and_both_sides_of_each_rule(self):
        rng = np.random.default_rng(4)
        for scale in spaced(0.3, 4.0, 25):
            cov = random_covariance(rng, 2, scale)
            dist, x = MultivariateWrappedNormal([0.0, 0.0], cov), points(2, 10)
            assert_allclose(dist.logpdf(x), naive.by_images(x, dist.mean, cov, 16), rtol=1e-12, atol=1e-12)

    def test_a_wide_and_a_narrow_direction(self):
        # A turn of one angle by 1 turns the other by 12: in the cube, images up to k = 100 matter.
        wide = np.array([[1.0, 12.0], [12.0, 144.2]])
        dist, x = MultivariateWrappedNormal([0.0, 1.0], wide), points(2, 5)
        assert_allclose(dist.logpdf(x), naive.by_images(x, dist.mean, wide, 25), rtol=1e-11, atol=1e-11)
        assert dist.truncation.terms < 30

    @pytest.mark.parametrize("sigma", [1e-12, 1e-6, 1e-3, 0.1])
    def test_tiny_spread_is_normal_even_far_out(self, sigma):
        cov = equicorrelated(3, sigma, 0.5)
        dist = MultivariateWrappedNormal(np.zeros(3), cov)
        x = sigma * np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [30.0, 0.0, 0.0], [17.0, 17.0, 18.0]])
        exact = -0.5 * np.einsum("ni,ij,nj->n", x, np.linalg.inv(cov), x)
        exact -= 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
        assert_allclose(dist.logpdf(x), exact, rtol=1e-12)
        assert np.isfinite(dist.logpdf([3.0, -3.0, 3.1]))

    def test_wide_spread_is_uniform(self):
        for size in (2, 3, 6):
            dist = MultivariateWrappedNormal(np.zeros(size), equicorrelated(size, 40.0, 0.3))
            assert_allclose(dist.logpdf(points(size)), -size * np.log(2 * np.pi), rtol=1e-14)
            assert dist.truncation.terms == 1

    @pytest.mark.parametrize("sigma", [1e-6, 0.3, 1.0, 1.5, 3.0, 9.0])
    def test_one_angle_is_the_distribution_on_the_circle(self, sigma):
        x = np.linspace(-7, 7, 41)
        dist = MultivariateWrappedNormal([1.0], [[sigma * sigma]])
        assert_allclose(dist.logpdf(x[:, None]), WrappedNormal(1.0, sigma).logpdf(x), rtol=1e-14)
        plan = lattice.choose_series(np.array([[sigma * sigma]]))
        offsets = np.linspace(-3.1, 3.1, 21)[:, None]
        alone = WrappedNormal(0.0, sigma).logpdf(offsets[:, 0])
        assert_allclose(plan.log_density(offsets), alone, rtol=1e-13, atol=1e-14)

    @pytest.mark.jit_only
    @pytest.mark.parametrize(("size", "nodes"), [(2, 256), (3, 64)])
    @pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
    def test_integrates_to_one(self, size, nodes, sigma):
        dist = MultivariateWrappedNormal(np.ones(size), equicorrelated(size, sigma, 0.6))
        mean_density = dist.pdf(naive.grid(size, nodes)).mean()
        assert_allclose((2 * np.pi) ** size * mean_density, 1.0, rtol=1e-12)

    def test_independent_groups(self):
        cov = np.zeros((5, 5))
        cov[np.ix_([0, 3], [0, 3])] = equicorrelated(2, 1.0, 0.7)
        cov[np.ix_([2, 4], [2, 4])] = equicorrelated(2, 2.0, -0.5)
        cov[1, 1] = 0.3
        dist, x = MultivariateWrappedNormal(np.arange(5.0), cov), points(5)
        parts = [dist.marginal([0, 3]).logpdf(x[:, [0, 3]]), dist.marginal([2, 4]).logpdf(x[:, [2, 4]])]
        assert_allclose(dist.logpdf(x), sum(parts) + dist.marginal(1).logpdf(x[:, 1]), rtol=1e-14)
        many = MultivariateWrappedNormal(np.zeros(200), np.diag(np.linspace(0.01, 30.0, 200)))
        assert np.isfinite(many.logpdf(np.ones(200)))

    @settings(max_examples=40, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        size=st.integers(2, 4),
        scale=st.floats(-2.0, 0.6).map(lambda e: 10.0**e),
        turns=st.integers(-5, 5),
    )
    def test_periodic_rotating_and_even(self, seed, size, scale, turns):
        rng = np.random.default_rng(seed)
        cov = random_covariance(rng, size, scale) + 1e-2 * scale**2 * np.eye(size)
        dist = MultivariateWrappedNormal(rng.uniform(-3, 3, size), cov)
        x, turn = rng.uniform(-3, 3, size), rng.uniform(-3, 3, size)
        value = dist.logpdf(x)
        # Angles of a few turns are known to 1e-14, and the density of a narrow distribution is as steep as its
        # precision.
        tolerance = {"rtol": 1e-11, "atol": 1e-13 * (1 + 10 / np.linalg.eigvalsh(cov)[0])}
        assert_allclose(dist.logpdf(x + 2 * np.pi * turns * np.eye(size)[0]), value, **tolerance)
        assert_allclose(MultivariateWrappedNormal(dist.mean + turn, cov).logpdf(x + turn), value, **tolerance)
        assert_allclose(dist.logpdf(2 * dist.mean - x), value, **tolerance)

    def test_shapes(self):
        dist = MultivariateWrappedNormal([0.0, 1.0], equicorrelated(2, 1.0, 0.5))
        x = points(2, 6)
        assert dist.logpdf(x[0]).shape == ()
        assert dist.logpdf(x.reshape(2, 3, 2)).shape == (2, 3)
        assert dist.logpdf(x[:0]).shape == (0,)
        assert_allclose(dist.pdf(x), np.exp(dist.logpdf(x)))


class TestTruncation:
    @pytest.mark.parametrize("size", [2, 3])
    @pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 3.0])
    def test_the_bound_bounds_what_a_short_budget_leaves_out(self, size, sigma):
        cov = equicorrelated(size, sigma, 0.4)
        plan, x = lattice.image_series(cov), points(size, 200)
        exact = plan.log_density(x)
        spacings = plan.lattice.spacings
        for error in (1e-2, 1e-4, 1e-8):
            short = plan._replace(budget=lattice.tail_budget(spacings, error))
            assert np.abs(np.expm1(short.log_density(x) - exact)).max() <= error

    def test_tail_bound_at_the_origin(self):
        basis = cholesky(equicorrelated(3, 1.3, 0.5)).T
        reduced = lattice.reduce_basis(basis)
        bound = 1e-6
        budget = lattice.tail_budget(reduced.spacings, bound, centred=True)
        squares = ((lattice.points_in_ball(reduced.basis, 144.0, 10**6) @ reduced.basis.T) ** 2).sum(axis=1)
        assert 0 < np.exp(-0.5 * squares[squares > budget]).sum() <= bound

    def test_reduced_basis_spans_the_same_lattice(self):
        rng = np.random.default_rng(1)
        for size in (2, 3, 6, 10):
            matrix = rng.standard_normal((size, size)) * spaced(1e-3, 1e3, size)
            reduced = lattice.reduce_basis(matrix)
            assert_array_equal(reduced.change @ reduced.inverse, np.eye(size))
            assert abs(abs(np.linalg.det(reduced.change)) - 1) < 1e-6
            short = matrix @ reduced.change
            assert_allclose(
                reduced.basis.T @ reduced.basis, short.T @ short, rtol=1e-8, atol=1e-8 * np.abs(short).max()
            )
            spacings = reduced.spacings
            assert (spacings > 0).all()
            assert (spacings[1:] >= 0.85 * spacings[:-1]).all()

    def test_ball_holds_every_point(self):
        basis = np.array([[1.0, 0.4, -0.3], [0.0, 1.3, 0.6], [0.0, 0.0, 0.8]])
        cube = naive._cube(3, 9)
        inside = cube[((cube @ basis.T) ** 2).sum(axis=1) <= 9.0]
        found = lattice.points_in_ball(basis, 9.0, 1000)
        assert_array_equal(np.unique(found, axis=0), np.unique(inside, axis=0))
        assert len(found) == len(inside)
        assert lattice.points_in_ball(basis, 9.0, len(inside) - 1) is None

    def test_stated(self):
        dist = MultivariateWrappedNormal(np.zeros(3), equicorrelated(3, 1.0, 0.5))
        assert dist.truncation.relative_error_bound <= 1e-13
        wider = MultivariateWrappedNormal(np.zeros(3), equicorrelated(3, 2.0, 0.5))
        assert 1 <= dist.truncation.terms < wider.truncation.terms < 1000

    @pytest.mark.jit_only
    def test_infeasible_says_why(self):
        dist = MultivariateWrappedNormal(np.zeros(20), equicorrelated(20, 2.0, 0.5))
        with pytest.raises(ValueError, match=r"2,000,000 terms.*20 dependent angles.*up to 2 .*use sample"):
            dist.logpdf(np.zeros(20))
        assert dist.sample(3, rng=0).shape == (3, 20)
        assert_allclose(np.abs(dist.moment(np.eye(20))), np.exp(-2.0))
        with pytest.raises(ValueError, match=r"would take some 4,000 s; evaluate fewer points at once \(up to 100\)"):
            lattice.check_work(2_000_000, 20_000, 8)

    def test_points_are_summed_some_at_a_time(self, monkeypatch):
        series, x = lattice.image_series(equicorrelated(3, 1.0, 0.5)), points(3)
        whole, calls, original = series.log_density(x), [], lattice.lattice_log_sums

        def counted(rows, *rest):
            calls.append(len(rows))
            return original(rows, *rest)

        monkeypatch.setattr(lattice, "lattice_log_sums", counted)
        assert_array_equal(series._replace(block_terms=7 * series.terms).log_density(x), whole)
        assert calls == [7, 7, 7, 7, 7, 5]


class TestValue:
    def test_equal_by_parameters(self):
        dist = MultivariateWrappedNormal([0.3, -2.0], [[1.0, 0.5], [0.5, 2.0]])
        assert dist == MultivariateWrappedNormal([0.3 + 2 * np.pi, -2.0], dist.cov * (1.0 + 1e-14))
        assert dist != MultivariateWrappedNormal([0.3 + 1e-9, -2.0], dist.cov)
        assert dist != MultivariateWrappedNormal(dist.mean, dist.cov * (1.0 + 1e-9))
        assert dist != MultivariateWrappedNormal([0.3], [[1.0]])
        assert dist != 3
        with pytest.raises(TypeError, match="unhashable"):
            hash(dist)

    def test_copies_are_frozen(self):
        dist = MultivariateWrappedNormal([0.3, -2.0], [[1.0, 0.5], [0.5, 2.0]])
        expected = dist.logpdf([0.0, 1.0])
        for twin in (copy.deepcopy(dist), pickle.loads(pickle.dumps(dist))):
            assert twin == dist
            assert twin.logpdf([0.0, 1.0]) == expected
            for array in (twin.mean, twin.cov):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 1.0


class TestMoments:
    @pytest.mark.parametrize("sigma", [0.3, 1.0])
    def test_samples(self, sigma):
        dist = MultivariateWrappedNormal([3.0, -1.0, 0.5], equicorrelated(3, sigma, 0.6))
        x = dist.sample(200_000, rng=2)
        assert x.min() >= -np.pi
        assert x.max() < np.pi
        for k in ([1, 0, 0], [1, -1, 0], [1, 1, 0], [2, -1, 1]):
            assert abs(np.exp(1j * x @ k).mean() - dist.moment(k)) < 5 / np.sqrt(len(x))
        assert_allclose(dist.mean_direction(), dist.mean)
        assert_allclose(dist.resultant_length(), np.abs(dist.moment(np.eye(3))))

    def test_grid(self):
        dist = MultivariateWrappedNormal([0.3, -2.0], [[1.0, -0.9], [-0.9, 2.0]])
        x = naive.grid(2, 128)
        for k in ([1, 0], [1, 1], [3, 2]):
            exact = (dist.pdf(x) * np.exp(1j * x @ k)).mean() * (2 * np.pi) ** 2
            assert_allclose(dist.moment(k), exact, rtol=0, atol=1e-13)

    def test_sample_shapes_and_seeds(self):
        dist = MultivariateWrappedNormal([0.3, -2.0], [[1.0, -0.9], [-0.9, 2.0]])
        assert dist.sample(rng=0).shape == (2,)
        assert dist.sample((4, 3), rng=0).shape == (4, 3, 2)
        assert_array_equal(dist.sample(5, rng=7), dist.sample(5, rng=np.random.default_rng(7)))

    def test_no_direction(self):
        assert np.isnan(MultivariateWrappedNormal([0.0, 1.0], np.diag([1.0, 100.0])).mean_direction()).tolist() == [
            False,
            True,
        ]


class TestMarginal:
    @pytest.mark.jit_only
    def test_integrates_out(self):
        dist = MultivariateWrappedNormal([0.3, -2.0, 1.0], equicorrelated(3, 0.9, 0.5))
        joint = dist.pdf(naive.grid(3, 64)).reshape(64, 64, 64)
        pair = dist.marginal([2, 0])
        assert isinstance(pair, MultivariateWrappedNormal)
        exact = joint.mean(axis=1).T * 2 * np.pi
        assert_allclose(pair.pdf(naive.grid(2, 64)).reshape(64, 64), exact, rtol=1e-11)
        one = dist.marginal(1)
        assert isinstance(one, WrappedNormal)
        exact = joint.mean(axis=(0, 2)) * (2 * np.pi) ** 2
        assert_allclose(one.pdf(naive.grid(1, 64)[:, 0]), exact, rtol=1e-11)

    def test_indices_from_the_end(self):
        dist = MultivariateWrappedNormal([0.3, -2.0, 1.0], np.diag([1.0, 2.0, 3.0]))
        assert_allclose([dist.marginal(-1).mu, dist.marginal(-1).sigma], [1.0, np.sqrt(3.0)])
        assert dist.marginal([-1, 0]) == dist.marginal([2, 0])

    @pytest.mark.parametrize(("bad", "name"), [(1.5, "float 1.5"), (None, "NoneType None"), ([1.5], "float 1.5")])
    def test_what_is_no_index(self, bad, name):
        with pytest.raises(TypeError, match=f"indices must be an integer.*got {name}"):
            MultivariateWrappedNormal(np.zeros(3), np.eye(3)).marginal(bad)

    @pytest.mark.parametrize("bad", [3, -4, [0, 0], [0, -3], [], [0, 5]])
    def test_bad_indices(self, bad):
        with pytest.raises(ValueError, match="indices must"):
            MultivariateWrappedNormal(np.zeros(3), np.eye(3)).marginal(bad)


class TestConditional:
    @pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 2.0, 5.0])
    @pytest.mark.parametrize("rho", [-0.4, 0.0, 0.9])
    def test_one_angle_left_is_a_slice(self, sigma, rho):
        dist = MultivariateWrappedNormal([0.3, -2.0, 1.0], equicorrelated(3, sigma, rho))
        first, last = (
            dist.mean[0] + sigma * np.array([0.0, 1.0, -0.6]),
            dist.mean[2] + sigma * np.array([0.5, 0.0, 1.0]),
        )
        conditional = dist.conditional({2: last, 0: first})
        assert isinstance(conditional, CircularDistribution)
        assert conditional.batch_shape == (3,)
        x = dist.mean[1] + sigma * np.linspace(-3, 3, 25)[:, None] * np.ones(3)
        joint = dist.logpdf(np.stack(np.broadcast_arrays(first, x, last), axis=-1))
        exact = joint - dist.marginal([0, 2]).logpdf(np.stack([first, last], axis=-1))
        assert_allclose(conditional.logpdf(x), exact, rtol=1e-11, atol=1e-11)

    def test_a_narrow_and_a_wide_angle_given(self):
        spread = np.array([1e-6, 1.0, 2.0])
        dist = MultivariateWrappedNormal(np.zeros(3), equicorrelated(3, 1.0, 0.4) * np.outer(spread, spread))
        conditional = dist.conditional({0: 2e-6, 1: 1.5})
        x = np.linspace(-3, 3, 9)
        joint = dist.logpdf(np.stack([np.full(9, 2e-6), np.full(9, 1.5), x], axis=-1))
        assert_allclose(conditional.logpdf(x), joint - dist.marginal([0, 1]).logpdf([2e-6, 1.5]), rtol=1e-10)
        assert conditional.log_weights.size < 20

    @pytest.mark.parametrize("sigma", [0.01, 0.4, 1.5])
    def test_is_a_distribution_on_the_circle(self, sigma):
        dist = MultivariateWrappedNormal([0.3, -2.0], equicorrelated(2, sigma, 0.8))
        conditional = dist.conditional({0: 3.0})
        nodes, weights = base.nodes_and_weights(conditional._panels())
        assert_allclose((weights * conditional.pdf(nodes)).sum(), 1.0, rtol=1e-12)
        assert_allclose(conditional.cdf(np.pi), 1.0, rtol=1e-12)
        x, h = conditional.icdf(np.array([0.1, 0.4, 0.8])), 1e-6 * sigma
        slope = (conditional.logpdf(x + h) - conditional.logpdf(x - h)) / (2 * h)
        assert_allclose(conditional._log_slope(x), slope, rtol=1e-5, atol=1e-4)
        draws = conditional.sample(20_000, rng=1)
        assert scipy.stats.kstest(draws, conditional.cdf).pvalue > 1e-5

    def test_two_modes_from_two_images(self):
        # Half a turn away both images of the given angle count alike, and each draws the other angle its own way.
        dist = MultivariateWrappedNormal([0.0, 0.0], equicorrelated(2, 0.8, 0.5))
        assert dist.conditional({0: np.pi}).modes().location.shape == (2,)

    def test_several_angles_left(self):
        dist = MultivariateWrappedNormal([0.3, -2.0, 1.0], equicorrelated(3, 1.2, 0.7))
        conditional, x = dist.conditional({1: 1.0}), points(2)
        joint = dist.logpdf(np.stack([x[:, 0], np.ones(40), x[:, 1]], axis=-1))
        assert_allclose(conditional.logpdf(x), joint - dist.marginal(1).logpdf(1.0), rtol=1e-11, atol=1e-11)
        draws = conditional.sample(100_000, rng=3)
        nodes = naive.grid(2, 64)
        for k in ([1, 0], [0, 1], [1, -1]):
            exact = (conditional.pdf(nodes) * np.exp(1j * nodes @ k)).mean() * (2 * np.pi) ** 2
            assert abs(np.exp(1j * draws @ k).mean() - exact) < 5 / np.sqrt(len(draws))
        assert conditional.sample((2, 3), rng=0).shape == (2, 3, 2)
        assert "2 angles" in repr(conditional)
        with pytest.raises(AttributeError, match="frozen"):
            conditional.means = 0

    def test_indices_from_the_end(self):
        dist, x = MultivariateWrappedNormal([0.3, -2.0, 1.0], equicorrelated(3, 1.2, 0.7)), points(2)
        assert_array_equal(dist.conditional({-1: 1.0}).logpdf(x), dist.conditional({2: 1.0}).logpdf(x))
        one, other = dist.conditional({-1: [1.0, 2.0], 0: 0.5}), dist.conditional({0: 0.5, 2: [1.0, 2.0]})
        assert_allclose(one.logpdf(0.3), other.logpdf(0.3), rtol=1e-13)

    @pytest.mark.parametrize(
        ("bad", "error", "match"),
        [
            ({3: 0.0}, ValueError, r"given names angle 3, but the distribution has 3 angles, 0 to 2"),
            ({-4: 0.0}, ValueError, r"given names angle -4"),
            ({0: 0.0, -3: 0.0}, ValueError, "the same angle twice"),
            ({}, ValueError, "at least one"),
            ({0: 0.0, 1: 0.0, 2: 0.0}, ValueError, "nothing is left"),
            ({0: np.nan, 1: 0.0}, ValueError, r"given\[0\] must be finite"),
            ({0: [0.0, 1.0]}, ValueError, "exactly one angle left"),
            ({0: [0.0, 1.0], 1: [0.0, 1.0, 2.0]}, ValueError, "do not broadcast"),
            ({"a": 0.0}, TypeError, "index must be an integer"),
            ([0.0], TypeError, "given must map"),
        ],
    )
    def test_bad_input(self, bad, error, match):
        with pytest.raises(error, match=match):
            MultivariateWrappedNormal(np.zeros(3), equicorrelated(3, 1.0, 0.5)).conditional(bad)


@pytest.mark.jit_only
class TestExpectations:
    @pytest.mark.parametrize(
        ("size", "sigma", "rho", "nodes"),
        [(2, 0.45, 0.5, 300), (2, 1.0, 0.9, 400), (2, 3.0, 0.2, 64), (3, 1.1, 0.4, 72)],
    )
    def test_entropy_against_a_grid(self, size, sigma, rho, nodes):
        dist = MultivariateWrappedNormal(np.ones(size), equicorrelated(size, sigma, rho))
        log_density = dist.logpdf(naive.grid(size, nodes))
        exact = -(np.exp(log_density) * log_density).mean() * (2 * np.pi) ** size
        assert_allclose(dist.entropy(), exact, rtol=1e-9)

    def test_entropy_of_narrow_and_of_independent(self):
        cov = equicorrelated(4, 1e-3, 0.5)
        exact = scipy.stats.multivariate_normal(np.zeros(4), cov).entropy()
        assert_allclose(MultivariateWrappedNormal(np.zeros(4), cov).entropy(), exact, rtol=1e-12)
        apart = MultivariateWrappedNormal(np.zeros(5), np.diag([0.1, 1.0, 2.0, 5.0, 9.0]))
        assert_allclose(apart.entropy(), WrappedNormal(0.0, np.sqrt(np.diagonal(apart.cov))).entropy().sum())

    def test_entropy_by_samples(self):
        # The mean of 20,000 log densities has a standard error of 0.01: σ = 1.5 is wrapped by much more, 0.8 by less.
        dist = MultivariateWrappedNormal(np.zeros(4), equicorrelated(4, 1.5, 0.3))
        unwrapped = scipy.stats.multivariate_normal(np.zeros(4), dist.cov).entropy()
        assert dist.entropy(draws=20_000, rng=0) < unwrapped - 0.05
        dist = MultivariateWrappedNormal(np.zeros(4), equicorrelated(4, 0.8, 0.3))
        assert abs(dist.entropy(draws=50_000, rng=0) - dist.entropy(draws=50_000, rng=1)) < 0.05

    def test_kl_of_narrow_distributions_is_the_normal_one(self):
        one, two = equicorrelated(2, 1e-3, 0.5), equicorrelated(2, 1.2e-3, -0.2)
        dist, other = MultivariateWrappedNormal([0.0, 1.0], one), MultivariateWrappedNormal([1e-3, 1.0], two)
        shift, precision = np.array([1e-3, 0.0]), np.linalg.inv(two)
        exact = 0.5 * (np.trace(precision @ one) - 2 + shift @ precision @ shift)
        exact += 0.5 * (np.linalg.slogdet(two)[1] - np.linalg.slogdet(one)[1])
        assert_allclose(dist.kl_divergence(other), exact, rtol=1e-9)

    def test_kl_against_a_grid(self):
        dist = MultivariateWrappedNormal([0.0, 1.0], equicorrelated(2, 1.0, 0.7))
        other = MultivariateWrappedNormal([0.5, 1.0], equicorrelated(2, 1.4, -0.3))
        x = naive.grid(2, 256)
        exact = (dist.pdf(x) * (dist.logpdf(x) - other.logpdf(x))).mean() * (2 * np.pi) ** 2
        assert_allclose(dist.kl_divergence(other), exact, rtol=1e-10)
        assert abs(dist.kl_divergence(dist)) < 1e-12

    def test_kl_to_another_family(self):
        dist, uniform = MultivariateWrappedNormal([0.0, 1.0], equicorrelated(2, 1.0, 0.7)), MGvM([0.0, 0.0])
        assert_allclose(dist.kl_divergence(uniform), 2 * np.log(2 * np.pi) - dist.entropy(), rtol=1e-10)

    def test_unresolved_integral_warns(self):
        cov = equicorrelated(3, 1.0, 0.9999)
        log_density = MultivariateWrappedNormal(np.zeros(3), cov).logpdf
        with pytest.warns(ConvergenceWarning, match="3 angles still changes"):
            wrapped_normal.expect_on_grid(cov, log_density, log_density, most_nodes=1 << 15)

    def test_bad_other(self):
        dist = MultivariateWrappedNormal([0.0, 1.0], np.eye(2))
        with pytest.raises(TypeError, match="method logpdf"):
            dist.kl_divergence(3.0)
        for other in (MultivariateWrappedNormal(np.zeros(3), np.eye(3)), MGvM(np.zeros(3))):
            with pytest.raises(ValueError, match="distribution of 3 angles, this one of 2"):
                dist.kl_divergence(other)
        with pytest.raises(TypeError, match=r"one angle on the circle, this one of 2; use marginal"):
            dist.kl_divergence(WrappedNormal([0.0, 1.0], 1.0))


class TestFit:
    @pytest.mark.parametrize("sigma", [1e-4, 0.4, 1.0, 1.6])
    @pytest.mark.parametrize("rho", [-0.4, 0.99])
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_beats_the_truth(self, size, rho, sigma):
        dist = MultivariateWrappedNormal(np.linspace(-3, 3, size), equicorrelated(size, sigma, rho))
        x = dist.sample(1000, rng=1)
        fitted = MultivariateWrappedNormal.fit(x)
        gain = (fitted.logpdf(x) - dist.logpdf(x)).sum()
        # Twice the gain is chi-squared with the number of parameters as its degrees of freedom.
        assert 0 <= 2 * gain < scipy.stats.chi2.ppf(0.9999, size + size * (size + 1) // 2)

    def test_gradient(self):
        rng = np.random.default_rng(2)
        x, share, cov = rng.uniform(-3, 3, (30, 2)), rng.dirichlet(np.ones(30)), np.array([[1.5, 0.7], [0.7, 2.0]])
        found = wrapped_normal.image_moments(x, share, cov)
        dist = MultivariateWrappedNormal([0.0, 0.0], cov)
        assert_allclose(found.log_likelihood, share @ dist.logpdf(x), rtol=1e-12)
        precision, h = np.linalg.inv(cov), 1e-5
        slope = 0.5 * precision @ (found.second - cov) @ precision
        for i, j in ((0, 0), (0, 1), (1, 1)):
            step = np.zeros((2, 2))
            step[i, j] = step[j, i] = h
            up, down = (MultivariateWrappedNormal([0.0, 0.0], cov + sign * step).logpdf(x) for sign in (1, -1))
            assert_allclose(share @ (up - down) / (2 * h), (slope * step).sum() / h, rtol=1e-6, atol=1e-9)
        up, down = (MultivariateWrappedNormal([sign * h, 0.0], cov).logpdf(x) for sign in (1, -1))
        assert_allclose(share @ (up - down) / (2 * h), (precision @ found.first)[0], rtol=1e-6)

    def test_moments_for_many_angles(self):
        dist = MultivariateWrappedNormal(np.arange(5.0) - 2, equicorrelated(5, 0.7, 0.5))
        fitted = MultivariateWrappedNormal.fit(dist.sample(100_000, rng=0))
        assert_allclose(fitted.mean, dist.mean, atol=0.02)
        assert_allclose(fitted.cov, dist.cov, atol=0.02)

    def test_weights_are_counts(self):
        x = MultivariateWrappedNormal([0.0, 1.0], equicorrelated(2, 0.8, 0.5)).sample(60, rng=0)
        counts = np.random.default_rng(0).integers(0, 4, 60)
        weighted, repeated = (
            MultivariateWrappedNormal.fit(x, counts),
            MultivariateWrappedNormal.fit(x.repeat(counts, 0)),
        )
        assert_allclose(weighted.cov, repeated.cov, rtol=1e-5)

    def test_impossible_moments_are_projected_with_a_warning(self):
        x = np.random.default_rng(0).uniform(-np.pi, np.pi, (12, 5))
        with pytest.warns(UserWarning, match="no wrapped normal distribution has them"):
            fitted = MultivariateWrappedNormal.fit(x)
        assert np.linalg.eigvalsh(fitted.cov)[0] > 0

    @pytest.mark.parametrize("seed", range(3))
    def test_angles_on_a_line(self, seed):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-np.pi, np.pi, (20, 2)) * rng.choice([1.0, 0.1, 1e-3])
        for dependent in (x[:, [0, 0]], x[:12, [1, 1]] * [1, -1], np.column_stack([x, x.sum(axis=1)])):
            with pytest.raises(ValueError, match="without bound"):
                MultivariateWrappedNormal.fit(dependent)

    def test_uniform_angles(self):
        x = np.random.default_rng(0).uniform(-np.pi, np.pi, (400, 2))
        fitted = MultivariateWrappedNormal.fit(x)
        assert fitted.logpdf(x).mean() >= -2 * np.log(2 * np.pi) - 1e-9

    def test_bad_input(self):
        fit = MultivariateWrappedNormal.fit
        x = points(2)
        for bad, match in [
            (x[:, 0], r"shape \(n, D\)"),
            (x[:2], "at least 3"),
            (np.where(x > 3, np.nan, x) * np.nan, "finite radians"),
            (x[:0], "empty"),
            (np.stack([x[:, 0], 0 * x[:, 0]], axis=-1), "column 1 are equal"),
            (x[:12, [0, 0]], "without bound"),
        ]:
            with pytest.raises(ValueError, match=match):
                fit(bad)
        with pytest.raises(ValueError, match="shape of the data"):
            fit(x, np.ones(3))
        with pytest.warns(DegreesWarning):
            fit(np.degrees(x))


class TestBadInput:
    @pytest.mark.parametrize(
        ("mean", "cov", "match"),
        [
            ([], np.zeros((0, 0)), "D >= 1"),
            (0.0, [[1.0]], r"mean must have shape \(D,\)"),
            ([0.0, np.nan], np.eye(2), "mean must be finite"),
            ([0.0, 1.0], np.eye(3), r"cov must have shape"),
            ([0.0, 1.0], [[1.0, 0.5], [0.4, 1.0]], "symmetric"),
            ([0.0, 1.0], [[1.0, 2.0], [2.0, 1.0]], "positive definite"),
            ([0.0, 1.0], [np.eye(2), np.eye(2)], "make a distribution each"),
        ],
    )
    def test_parameters(self, mean, cov, match):
        with pytest.raises(ValueError, match=match):
            MultivariateWrappedNormal(mean, cov)

    def test_points_and_orders(self):
        dist = MultivariateWrappedNormal([0.0, 1.0], np.eye(2))
        for x in (0.0, [0.0], np.zeros((2, 3))):
            with pytest.raises(ValueError, match=r"x must have shape \(..., 2\)"):
                dist.logpdf(x)
        with pytest.raises(ValueError, match="finite radians"):
            dist.logpdf([0.0, np.nan])
        for k in (1, [1], [1.5, 0.0]):
            with pytest.raises(ValueError, match="k must be 2 integers"):
                dist.moment(k)

    def test_frozen_with_a_readable_name(self):
        dist = MultivariateWrappedNormal([0.0, 1.0], np.eye(2))
        assert repr(dist) == "MultivariateWrappedNormal(mean=[0., 1.], cov=[[1., 0.], [0., 1.]])"
        with pytest.raises(AttributeError, match="frozen"):
            dist.mean = 1.0
        with pytest.raises(ValueError, match="read-only"):
            dist.cov[0, 0] = 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dist.logpdf([200.0, 1.0]) < 0


@pytest.mark.parametrize("variance", [1e-320, 1e308, 1.5e308])
def test_variances_whose_products_leave_the_doubles_are_refused(variance):
    with pytest.raises(ValueError, match="cov must have variances from 1e-300 to 1e300"):
        MultivariateWrappedNormal([0.0, 0.0], variance * np.array([[1.0, 0.5], [0.5, 1.0]]))


@pytest.mark.parametrize("variance", [1e-300, 1e300])
def test_extreme_variances_are_compared_without_overflow(variance):
    dist = MultivariateWrappedNormal([0.0, 0.0], variance * np.eye(2))
    assert dist == MultivariateWrappedNormal([0.0, 0.0], variance * np.eye(2))
    assert np.isfinite(dist.logpdf([0.0, 0.0]))
