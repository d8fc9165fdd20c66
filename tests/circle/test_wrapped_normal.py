"""WrappedNormal against mpmath, a slow double twin, other packages, and its symmetries."""

import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from naive import wrapped_normal as naive
from numpy.testing import assert_allclose, assert_array_equal
from portable import spaced

from mgvm import WrappedNormal
from mgvm.angles import DegreesWarning
from mgvm.circle import CircularDistribution, base

SIGMAS = [1e-8, 1e-5, 1e-3, 0.05, 0.3, 0.36, 0.7, 1.0, 1.3, 1.49999, 1.5, 1.50001, 1.8, 2.5, 3.5, 4.9]
MUS = [0.0, 0.7, -3.1, np.pi, 40.0]
ANGLE = st.floats(-10.0, 10.0)
SIGMA = st.floats(-6.0, 2.0).map(lambda e: 10.0**e)


class TestDensity:
    @pytest.mark.parametrize("sigma", [*SIGMAS, 6.0, 30.0, 1e3, 1e6])
    @pytest.mark.parametrize("mu", MUS)
    def test_mpmath(self, mu, sigma):
        near = mu + min(sigma, 1.0) * np.array([-7.0, -1.3, 0.0, 0.4, 3.0])
        x = np.concatenate([near, mu + np.pi + min(sigma * sigma, 1.0) * np.array([-0.3, 0.0, 0.9]), [-3.0, 0.5, 25.0]])
        dist = WrappedNormal(mu, sigma)
        exact = np.array([float(naive.mp_logpdf(v, mu, sigma)) for v in x])
        # The offset x - μ is known to a rounding of x and of μ: that much, times the slope, is not ours to give.
        unknown = 2.5e-16 * np.maximum(np.abs(x), abs(mu)) * np.minimum(np.abs(dist._log_slope(x)), 4.0 / sigma**2)
        # Of the value: d², σ², their quotient and the sum with log σ are rounded once each, 4 u, u = 2^-53. Twice that.
        assert (np.abs(dist.logpdf(x) - exact) <= 1e-15 + 9e-16 * np.abs(exact) + 2 * unknown).all()

    def test_dense_sweep_over_sigma_and_angle(self):
        x = np.linspace(-np.pi, np.pi, 301)
        for sigma in spaced(0.02, 8.0, 200):
            dist, exact = WrappedNormal(0.3, sigma), naive.logpdf(x, 0.3, sigma)
            # The twin's offset comes from a sum and a difference with π, ours from a difference: three roundings of up
            # to 4.4e-16, which cost as much as the slope. Twice that.
            slack = 4e-15 + 1e-13 * np.abs(exact) + 2.7e-15 * np.minimum(np.abs(dist._log_slope(x)), 4.0 / sigma**2)
            assert (np.abs(dist.logpdf(x) - exact) <= slack).all()

    def test_both_series_agree_at_the_crossover(self):
        x = np.linspace(-np.pi, np.pi, 2001)
        below, above = WrappedNormal(0.0, np.nextafter(1.5, 0)), WrappedNormal(0.0, 1.5)
        assert_allclose(below.pdf(x), above.pdf(x), rtol=4e-15)
        assert_allclose(below._log_slope(x), above._log_slope(x), rtol=0, atol=1e-14)
        assert_allclose(below.cdf(x), above.cdf(x), rtol=0, atol=5e-16)

    def test_golden(self):
        # R circular: dwrappednormal(circular(0.3), mu=circular(0), sd=0.5); PyRecEst WrappedNormalDistribution(0, 0.5)
        assert_allclose(WrappedNormal(0.0, 0.5).pdf(0.3), 0.6664492, rtol=0, atol=5e-8)

    @pytest.mark.parametrize("sigma", [0.01, 0.5, 1.4, 1.6, 4.0])
    def test_slope_is_the_derivative(self, sigma):
        dist, x, h = WrappedNormal(1.0, sigma), np.linspace(-3, 3, 37), 1e-6
        difference = (dist.logpdf(x + h) - dist.logpdf(x - h)) / (2 * h)
        assert_allclose(dist._log_slope(x), difference, rtol=1e-5, atol=1e-8 / sigma**2)

    def test_tiny_sigma_underflows_without_a_word(self):
        assert WrappedNormal(0.0, 1e-200).logpdf(1.0) == -np.inf
        assert np.isfinite(WrappedNormal(0.0, 1e-300).logpdf(0.0))


class TestDistribution:
    @pytest.mark.parametrize("sigma", SIGMAS)
    @pytest.mark.parametrize("mu", [0.0, 0.7, -3.1])
    def test_mpmath(self, mu, sigma):
        dist = WrappedNormal(mu, sigma)
        x = np.array([-3.14, -1.0, 0.3, mu - sigma if sigma < 1 else 2.0, mu if sigma < 1 else 3.0, 3.1])
        exact = [float(naive.mp_cdf(v, mu, sigma)) for v in x]
        assert_allclose(dist.cdf(x), exact, rtol=0, atol=6e-16 + 1e-15 * min(dist.pdf(mu), 1 / sigma))

    def test_dense_sweep(self):
        x = np.linspace(-np.pi, np.pi, 101)
        for sigma in spaced(0.02, 8.0, 100):
            for mu in (0.0, 2.9):
                dist = WrappedNormal(mu, sigma)
                assert_allclose(dist.cdf(x), naive.cdf(x, mu, sigma), rtol=0, atol=3e-15 / min(sigma, 1.0))
                assert_allclose(dist.cdf(x), CircularDistribution.cdf(dist, x), rtol=0, atol=2e-15 / min(sigma, 1.0))

    def test_ends_of_the_turn(self):
        dist = WrappedNormal([0.0, 3.0, -3.0], [[1e-3], [1.0], [50.0]])
        assert_array_equal(dist.cdf(-np.pi), 0.0)
        assert_allclose(dist.cdf(np.pi), 1.0, rtol=0, atol=1e-12)
        assert_array_equal(dist.icdf(0.0), -np.pi)
        assert_array_equal(dist.icdf(1.0), np.pi)

    @pytest.mark.parametrize(("mu", "sigma"), [(0.0, 1e-6), (3.0, 0.4), (-2.0, 1.5), (1.0, 40.0)])
    def test_sampler(self, mu, sigma):
        dist = WrappedNormal(mu, sigma)
        draws = dist.sample(20_000, rng=7)
        assert ((draws >= -np.pi) & (draws < np.pi)).all()
        assert scipy.stats.kstest(draws, dist.cdf).pvalue > 1e-5


class TestClosedForms:
    def test_moments_against_quadrature(self):
        dist = WrappedNormal([0.5, -3.0, 2.0, 0.0], [1e-3, 0.4, 1.7, 9.0])
        for k in (-2, 0, 1, 3, 7, 40):
            assert_allclose(dist.moment(k), CircularDistribution.moment(dist, k), rtol=0, atol=4e-15)
        assert_allclose(dist.resultant_length(), np.abs(dist.moment(1)), rtol=1e-15)
        narrow = WrappedNormal([0.1, 3.0, -1.0, 2.0], [1e-7, 1e-3, 0.3, 2.0])
        assert_allclose(narrow.circular_variance(), CircularDistribution.circular_variance(narrow), rtol=1e-14)

    def test_mean_direction(self):
        assert_allclose(WrappedNormal([7.0, 0.0, 1.0], 0.5).mean_direction(), [7.0 - 2 * np.pi, 0.0, 1.0], rtol=1e-15)
        assert np.isnan(WrappedNormal(0.0, 9.0).mean_direction())

    @pytest.mark.parametrize("sigma", [1e-8, 0.2, 0.359, 0.361, 0.6, 1.0, 1.49, 1.51, 3.0, 20.0])
    def test_entropy_mpmath(self, sigma):
        with mpmath.workdps(25):
            if sigma < 0.1:
                exact = mpmath.log(2 * mpmath.pi * mpmath.e * mpmath.mpf(sigma) ** 2) / 2
            else:

                def integrand(d):
                    value = naive.mp_logpdf(d, 0, sigma, 25)
                    return -2 * value * mpmath.exp(value)

                exact = mpmath.quad(integrand, mpmath.linspace(0, mpmath.pi, 6))
        assert_allclose(WrappedNormal(2.0, sigma).entropy(), float(exact), rtol=1e-14, atol=1e-14)

    def test_modes(self):
        location, density = WrappedNormal([4.0, 0.0], [0.5, 30.0]).modes()
        assert_allclose(location, [[4.0 - 2 * np.pi], [np.nan]])
        assert_allclose(density[0], WrappedNormal(0.0, 0.5).pdf(0.0))

    def test_divergence_of_narrow_distributions_is_that_of_the_line(self):
        first, second = WrappedNormal(0.1, 0.01), WrappedNormal(0.13, 0.02)
        line = np.log(2.0) + (0.01**2 + 0.03**2) / (2 * 0.02**2) - 0.5
        assert_allclose(first.kl_divergence(second), line, rtol=1e-12)

    def test_divergence_of_nearly_equal_distributions_keeps_its_digits(self):
        # Fisher information of μ on the line: KL is δ²/2σ².
        assert_allclose(WrappedNormal(0.0, 0.1).kl_divergence(WrappedNormal(1e-9, 0.1)), 0.5e-16, rtol=1e-6)


class TestProperties:
    @given(mu=ANGLE, sigma=SIGMA)
    @settings(max_examples=60, deadline=None)
    def test_integrates_to_one(self, mu, sigma):
        dist = WrappedNormal(mu, sigma)
        nodes, weights = base.nodes_and_weights(dist._panels())
        assert_allclose((weights * dist.pdf(nodes)).sum(), 1.0, rtol=0, atol=1e-15 * (4 + 1 / sigma))

    @given(mu=ANGLE, sigma=SIGMA, x=ANGLE, turn=ANGLE)
    @settings(deadline=None)
    def test_rotates_and_repeats(self, mu, sigma, x, turn):
        dist = WrappedNormal(mu, sigma)
        slack = 1e-14 * (1 + abs(dist._log_slope(x)) + 4 / sigma**2) + 1e-14 * abs(dist.logpdf(x))
        assert abs(dist.logpdf(x + 2 * np.pi) - dist.logpdf(x)) <= slack
        assert abs(WrappedNormal(mu + turn, sigma).logpdf(x + turn) - dist.logpdf(x)) <= slack
        assert abs(dist.cdf(x + 2 * np.pi) - dist.cdf(x) - 1) <= 1e-14 * (1 + 1 / sigma)

    @given(mu=ANGLE, sigma=SIGMA)
    @settings(deadline=None)
    def test_bounds(self, mu, sigma):
        dist = WrappedNormal(mu, sigma)
        assert 0 <= dist.resultant_length() <= 1
        assert dist.entropy() <= np.log(2 * np.pi) + 1e-15

    @given(mu=ANGLE, sigma=SIGMA, p=st.floats(0, 1))
    @settings(deadline=None)
    def test_icdf_inverts_cdf(self, mu, sigma, p):
        dist = WrappedNormal(mu, sigma)
        assert abs(dist.cdf(dist.icdf(p)) - p) <= 1e-15 + 4e-15 / sigma


class TestFit:
    @pytest.mark.parametrize(("mu", "sigma"), [(3.0, 0.4), (1.0, 1.4), (-1.0, 1.6), (0.5, 1e-6), (0.0, 3.0)])
    def test_is_the_maximum(self, mu, sigma):
        data = WrappedNormal(mu, sigma).sample(20_000, rng=3)
        dist = WrappedNormal.fit(data)
        best = dist.logpdf(data).mean()
        for a, b in [(1e-4, 0), (-1e-4, 0), (0, 1e-4), (0, -1e-4)]:
            assert WrappedNormal(dist.mu + a * dist.sigma, dist.sigma * np.exp(b)).logpdf(data).mean() <= best + 1e-15
        ratio = 2 * data.size * (best - WrappedNormal(mu, sigma).logpdf(data).mean())
        assert 0 <= ratio < 24  # chi square of two degrees of freedom: once in 10⁵ above 23

    def test_weights_are_counts(self):
        data = np.round(WrappedNormal(2.0, 1.0).sample(3000, rng=1), 1)
        values, counts = np.unique(data, return_counts=True)
        grouped, single = WrappedNormal.fit(values, weights=counts), WrappedNormal.fit(data)
        assert_allclose([grouped.mu, grouped.sigma], [single.mu, single.sigma], rtol=1e-12)

    def test_beats_moment_matching(self):
        data = np.concatenate([WrappedNormal(0.0, 0.3).sample(900, rng=1), np.linspace(-np.pi, np.pi, 100)])
        dist, first = WrappedNormal.fit(data), np.exp(1j * data).mean()
        moments = WrappedNormal(np.angle(first), np.sqrt(-2 * np.log(np.abs(first))))
        assert dist.logpdf(data).sum() > moments.logpdf(data).sum()

    def test_no_concentration_gives_the_uniform_distribution(self):
        dist = WrappedNormal.fit(np.linspace(-np.pi, np.pi, 1440, endpoint=False))
        assert_allclose(dist.pdf(np.linspace(-3, 3, 50)), 1 / (2 * np.pi), rtol=1e-14)


class TestBadInput:
    @pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf])
    def test_sigma(self, sigma):
        with pytest.raises(ValueError, match="sigma must be"):
            WrappedNormal(0.0, sigma)

    def test_text_shapes_and_missing_angles(self):
        with pytest.raises(TypeError, match="mu must be real numbers"):
            WrappedNormal("0", 1.0)
        with pytest.raises(ValueError, match=r"mu \(2,\), sigma \(3,\)"):
            WrappedNormal([0.0, 1.0], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="x must be finite radians"):
            WrappedNormal(0.0, 1.0).logpdf(np.nan)
        with pytest.raises(ValueError, match="shapes do not broadcast"):
            WrappedNormal([0.0, 1.0], 1.0).logpdf([0.0, 1.0, 2.0])

    def test_data(self):
        with pytest.raises(ValueError, match="data is empty"):
            WrappedNormal.fit([])
        with pytest.raises(ValueError, match=r"all angles are equal to 0\.3"):
            WrappedNormal.fit([0.3, 0.3, 0.3 + 2 * np.pi, 1.0], weights=[1, 1, 1, 0])
        with pytest.warns(DegreesWarning):
            WrappedNormal.fit([10.0, 200.0, 350.0])


def test_a_fit_that_doubles_cannot_resolve_is_refused():
    # Quantiles of a normal with standard deviation s round to the next double, u apart: u/2 of 0.4/s of the mass.
    steps = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    with pytest.raises(
        ValueError, match="within .* radians of their mean 3, and doubles there are 4e-16 apart.*as equal"
    ):
        WrappedNormal.fit(3.0 + 10.0 * np.spacing(3.0) * steps)
    dist = WrappedNormal.fit(3.0 + 1000.0 * np.spacing(3.0) * steps)
    lower, upper = dist.interval(0.5)[0]
    assert dist.cdf(upper) - dist.cdf(lower) == pytest.approx(0.5, abs=2 * 0.4 / 1400)
