"""mgvm.scores against all pairs, mpmath, Fourier series, and the distributions that proper scores obey."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from naive import scores as naive
from numpy.testing import assert_allclose, assert_array_equal

import mgvm
from mgvm import angles, scores
from mgvm.angles import DegreesWarning

KAPPAS = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
KINDS = ["angular", "cosine"]
RADIANS = st.floats(-np.pi, np.pi)
VonMises = naive.VonMisesMixture
THREE_PEAKS = VonMises([0.0, 1.0, -2.5], [1e4, 3.0, 300.0], [0.5, 0.3, 0.2])


def test_the_fake_distribution_is_a_distribution():
    dist, x = VonMises(1.0, 3.0), np.linspace(-3, 3, 9)
    assert_allclose(dist.logpdf(x), scipy.stats.vonmises(3.0, 1.0).logpdf(x), rtol=1e-12)
    assert_allclose(dist.cdf(x), scipy.stats.vonmises(3.0, 1.0).cdf(x) - distribution_mass_below(dist), atol=1e-7)
    assert_allclose(dist.cdf(x + 2 * np.pi), dist.cdf(x) + 1, rtol=1e-12)
    assert abs(dist.cdf(-np.pi)) < 1e-15


def distribution_mass_below(dist):
    """SciPy measures from mu - π, we from -π."""
    return scipy.stats.vonmises(dist.kappa[0], dist.mu[0]).cdf(-np.pi)


class TestAngularFromDistribution:
    @pytest.mark.parametrize("kappa", KAPPAS)
    @pytest.mark.parametrize("mu", [0.0, 3.1, -np.pi / 2])
    def test_all_concentrations_against_the_fourier_series(self, kappa, mu):
        dist, scale = VonMises(mu, kappa), 1 / np.sqrt(kappa)
        y = angles.wrap(mu + np.array([0.0, 0.3 * scale, 2 * scale, -5 * scale, 0.5, np.pi / 2, 2.0, np.pi]))
        expected = [naive.crps_from_moments(dist.moments, v) for v in y]
        assert_allclose(scores.crps(dist, y), expected, rtol=0, atol=2e-13)

    @pytest.mark.parametrize(("kappa", "y"), [(0.5, 0.3), (2.0, -3.0), (20.0, 1.0)])
    def test_the_definition_by_mpmath(self, kappa, y):
        assert scores.crps(VonMises(0.3, kappa), y) == pytest.approx(naive.crps_von_mises(0.3, kappa, y), abs=1e-13)

    def test_peaks_of_very_different_width(self):
        y = np.linspace(-3.1, 3.1, 40)
        expected = [naive.crps_from_moments(THREE_PEAKS.moments, v) for v in y]
        assert_allclose(scores.crps(THREE_PEAKS, y), expected, rtol=0, atol=1e-12)

    def test_a_narrow_distribution_whose_nodes_are_a_uniform_grid(self):
        dist = VonMises(0.7, 1e4)
        nodes = -np.pi + 2 * np.pi * np.arange(4096) / 4096
        mass = np.exp(dist.logpdf(nodes))
        dist._quadrature = lambda: (nodes, mass / mass.sum())
        y = np.array([0.7, 0.71, 0.75, -2.0])
        expected = [naive.crps_from_moments(dist.moments, v) for v in y]
        assert_allclose(scores.crps(dist, y), expected, rtol=0, atol=1e-10)

    def test_agrees_with_its_own_draws(self):
        draws = VonMises([0.5, 2.0], [4.0, 9.0], [0.4, 0.6]).sample(200_000, np.random.default_rng(2))
        dist = VonMises([0.5, 2.0], [4.0, 9.0], [0.4, 0.6])
        y = np.array([-3.0, 0.4, 1.5])
        # d(θ, y) - E d(θ, Θ) has a standard deviation below 0.81: five standard errors of 200,000 draws.
        assert_allclose(scores.crps(draws, y), scores.crps(dist, y), rtol=0, atol=9e-3)
        assert_allclose(scores.crps(draws, y, kind="cosine"), scores.crps(dist, y, kind="cosine"), rtol=0, atol=9e-3)

    def test_a_point_forecast_becomes_the_absolute_error(self):
        # Less half the mean distance σ/√π of two draws, σ = 1e-3; the next term is of the order σ³.
        expected = 2.0 - 1e-3 / np.sqrt(np.pi)
        assert scores.crps(VonMises(0.0, 1e6), 2.0) == pytest.approx(expected, rel=0, abs=1e-9)

    def test_batches_broadcast_and_blocks_do_not_show(self):
        dists = [VonMises(mu, kappa) for mu, kappa in [(0.0, 1.0), (1.0, 50.0), (3.0, 5.0), (-2.0, 0.2)]]
        y = np.array([[0.1, 2.0, -3.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
        expected = [[scores.crps(dist, v) for dist, v in zip(dists, row, strict=True)] for row in y]
        assert_allclose(scores.crps(naive.Stack(dists), y), expected, rtol=1e-13)
        assert_allclose(scores.crps(naive.Stack(dists), 1.0), expected[1], rtol=1e-13)
        in_blocks = scores.angular_by_quadrature(naive.Stack(dists), y[0], most_distributions=3, most_values=100)
        assert_allclose(in_blocks, expected[0], rtol=1e-13)


class TestFromMoments:
    def test_the_series_is_the_quadrature(self, monkeypatch):
        """Concentrations on both sides of where the moments are too many; the quadrature with many panels."""
        edges = scores._edges
        monkeypatch.setattr(scores, "_edges", lambda dist, y: edges(dist, y, panels=200))
        rng = np.random.default_rng(0)
        kappa = np.concatenate([[0.0, 1e-9], 10.0 ** np.linspace(-3, 5, 60)])
        eta = kappa[:, None] * np.exp(1j * rng.uniform(-np.pi, np.pi, (kappa.size, 3))) / [1.0, 4.0, 9.0]
        dist, y = mgvm.GvM(eta), rng.uniform(-4, 4, (5, kappa.size))
        series = sum(len(rows) for rows, _ in dist._moments_to_rounding())
        assert 30 < series < kappa.size
        assert_allclose(scores.crps(dist, y), scores.angular_by_quadrature(dist, y), rtol=2e-13, atol=0)
        assert_allclose(scores.crps(dist[7], y[:, 0]), scores.angular_by_quadrature(dist[7], y[:, 0]), rtol=2e-13)
        assert scores.crps(dist[:0], y[:, :0]).shape == (5, 0)


class TestFromSamples:
    @pytest.mark.parametrize("kind", KINDS)
    @given(x=st.lists(RADIANS, min_size=1, max_size=10), y=RADIANS)
    def test_against_all_pairs(self, kind, x, y):
        expected = naive.crps_from_samples(x, y, kind)
        assert scores.crps(x, y, kind=kind) == pytest.approx(expected, abs=1e-14)

    @given(st.lists(st.integers(-4, 4), min_size=1, max_size=8), st.integers(-4, 4))
    def test_coincident_and_antipodal_draws(self, x, y):
        draws, observed = np.array(x) * np.pi / 4, y * np.pi / 4
        assert scores.crps(draws, observed) == pytest.approx(naive.crps_from_samples(draws, observed), abs=1e-14)

    @pytest.mark.parametrize("kind", KINDS)
    def test_shapes_broadcast(self, kind):
        rng = np.random.default_rng(8)
        draws, y = rng.uniform(-4, 4, (6, 3, 2)), rng.uniform(-4, 4, (5, 1, 2))
        result = scores.crps(draws, y, kind=kind)
        assert result.shape == (5, 3, 2)
        for i, j, k in np.ndindex(result.shape):
            expected = naive.crps_from_samples(draws[:, j, k], y[i, 0, k], kind)
            assert result[i, j, k] == pytest.approx(expected, abs=1e-14)
        assert scores.crps(draws[:, 0, 0], y, kind=kind).shape == y.shape

    @given(RADIANS)
    def test_never_negative_by_rounding(self, y):
        assert 0 <= scores.crps(np.full(3, y), y) < 1e-15

    def test_a_sure_and_right_forecast_scores_zero(self):
        assert scores.crps(np.full(5, 1.3), 1.3) == pytest.approx(0.0, abs=1e-15)
        assert scores.crps(np.full(5, 1.3), 2.0) == pytest.approx(0.7, abs=1e-15)

    def test_many_draws_and_observations(self):
        draws = np.random.default_rng(1).uniform(-np.pi, np.pi, 200_000)
        found = scores.crps(draws, draws[:50_000])  # all pairs would be 5e10 distances
        # Uniform on the circle: the mean distance is π/2 from any angle, and half of it between two draws.
        assert abs(found - np.pi / 4).max() < 5 * np.pi / np.sqrt(12 * 200_000)


@settings(max_examples=15, deadline=None)
@given(RADIANS, st.floats(0.1, 50.0), RADIANS, RADIANS)
def test_rotating_forecast_and_observation_changes_nothing(mu, kappa, y, turn):
    for kind in KINDS:
        before = scores.crps(VonMises(mu, kappa), y, kind)
        assert scores.crps(VonMises(mu + turn, kappa), y + turn, kind) == pytest.approx(before, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(mu=st.floats(0.2, 3.0), kappa=st.floats(0.5, 10.0), other=st.floats(0.5, 10.0))
def test_the_truth_scores_best_on_average(kind, mu, kappa, other):
    truth, rival = VonMises(0.0, kappa), VonMises(mu, other)
    y = -np.pi + 2 * np.pi * np.arange(64) / 64
    mass = np.exp(truth.logpdf(y)) * (2 * np.pi / 64)
    gain = np.sum(mass * (scores.crps(rival, y, kind) - scores.crps(truth, y, kind)))
    gap = 0.5 * abs(truth.moment(1) - rival.moment(1)) ** 2
    if kind == "cosine":
        assert gain == pytest.approx(gap, abs=1e-12)
    else:  # (2/π) Σ |m_k - m'_k|²/k² over odd k, the first term of which is
        assert gain >= 4 / np.pi * gap - 1e-12
    assert gap > 0


def test_neither_kind_sees_even_harmonics():
    axial = VonMises([0.0, np.pi], [50.0, 50.0], [0.5, 0.5])
    uniform = VonMises(0.0, 1e-14)  # off by 2κ/π
    assert scores.crps(axial, 0.0) == pytest.approx(scores.crps(uniform, 0.0), abs=1e-12)


class TestCalibration:
    def test_log_score_is_the_log_density(self):
        dist = VonMises(1.0, 3.0)
        expected = scipy.stats.vonmises(3.0, 1.0).logpdf([1.0, -2.0])
        assert_allclose(scores.log_score(dist, [1.0, -2.0]), expected, rtol=1e-12)

    def test_pit_of_draws_is_uniform_and_inside_the_unit_interval(self):
        dist = VonMises(2.5, 2.0)
        u = scores.pit(dist, dist.sample(2000, np.random.default_rng(4)) + 2 * np.pi * np.tile([0, -1], 1000))
        assert scipy.stats.kstest(u, "uniform").pvalue > 1e-5
        ends = scores.pit(dist, [-np.pi, np.pi, np.nextafter(np.pi, 0)])
        assert_allclose(ends, [0, 0, 1], atol=1e-12)
        assert np.all((ends >= 0) & (ends < 1))

    # What rounding makes of a probability near 0 or 1 differs from CPU to CPU, so the values are written out.
    @pytest.mark.parametrize("rounded", [-(2.0**-53), 0.0, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 1 + 1e-13])
    def test_pit_stays_in_the_unit_interval_where_the_distribution_function_rounds_out_of_it(self, rounded):
        class Rounded:
            batch_shape = ()

            def cdf(self, x):
                return np.full(np.shape(x), rounded)

        u = scores.pit(Rounded(), 3.0)
        assert 0 <= u < 1
        assert abs(u - rounded) <= 1e-13 + 2.0**-53
        assert scores.pit(VonMises(0.0, 1e4), 3.0) < 1

    def test_pit_is_the_mass_from_minus_pi(self):
        assert scores.pit(VonMises(0.0, 2.0), 0.0) == pytest.approx(0.5, abs=1e-14)

    @pytest.mark.parametrize("mu", [0.0, 3.0])
    def test_coverage_is_membership_of_the_density_level_set(self, mu):
        dist = VonMises(mu, 2.0)
        y = dist.sample(5000, np.random.default_rng(5))
        nodes, mass = dist._quadrature()
        above = (mass * (dist.logpdf(nodes) > dist.logpdf(y)[:, None])).sum(axis=-1)
        clear = np.abs(above - 0.8) > 0.02  # the sum over nodes is coarse
        inside = scores.coverage(dist, y + 2 * np.pi, 0.8, reduce=False)
        assert inside.dtype == bool
        assert_array_equal(inside[clear], above[clear] < 0.8)
        # Five standard errors √(0.8 · 0.2 / 5000).
        assert scores.coverage(dist, y, 0.8) == inside.mean() == pytest.approx(0.8, abs=0.03)

    def test_coverage_over_several_arcs_masses_and_distributions(self):
        class Arcs:
            batch_shape = (2,)

            def interval(self, mass):
                return np.array([[[-1.0, -1 + mass], [3.0, 3.5]], [[0.0, mass], [np.nan, np.nan]]])

        y = np.array([[-0.6, -0.6], [-2.9, 0.1], [2.0, -2.9]])
        inside = scores.coverage(Arcs(), y, [0.1, 0.5], reduce=False)
        assert_array_equal(inside[0], [[False, False], [True, True], [False, False]])
        assert_array_equal(inside[1], [[True, False], [True, True], [False, False]])
        assert_allclose(scores.coverage(Arcs(), y, [0.1, 0.5]), [2 / 6, 3 / 6])


class TestErrors:
    @given(st.floats(-12, 12), st.floats(-12, 12))
    def test_angular_error_is_the_short_way(self, a, b):
        error = scores.angular_error(a, b)
        assert 0 <= error <= np.pi
        assert np.cos(error) == pytest.approx(np.cos(a - b), abs=1e-12)

    def test_snr_by_hand(self):
        y, y_hat = [[3.0, 4.0], [0.0, 5.0]], [[3.0, 3.0], [2.0, 5.0]]
        assert scores.snr(y, y_hat) == pytest.approx(10 * np.log10(50 / 5))
        assert scores.snr(y, y) == np.inf

    @given(st.floats(0.1, 10.0))
    def test_snr_ignores_the_unit(self, scale):
        y, y_hat = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[1.1, 2.0], [2.0, -1.0]])
        assert scores.snr(scale * y, scale * y_hat) == pytest.approx(scores.snr(y, y_hat))

    @pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e-160, 1e160, 1e307])
    def test_snr_of_numbers_whose_squares_leave_the_doubles(self, scale):
        # Both powers became 0 or infinite: an estimate of nothing was called exact. 1e-310 has 13 digits.
        y, y_hat = np.array([[3.0, 4.0], [0.0, 5.0]]), np.array([[3.0, 3.0], [2.0, 5.0]])
        assert scores.snr(scale * y, scale * y_hat) == pytest.approx(10.0, abs=1e-11)
        assert scores.snr(scale * y, 0.0 * y) == pytest.approx(0.0, abs=1e-12)
        assert scores.snr(scale * y, -scale * y) == pytest.approx(-20.0 * np.log10(2.0), abs=1e-11)


class TestBadInput:
    dist = VonMises(0.0, 1.0)

    @pytest.mark.parametrize(
        "score", [scores.log_score, scores.crps, scores.pit, lambda f, y: scores.coverage(f, y, 0.5)]
    )
    def test_observations(self, score):
        with pytest.raises(ValueError, match="y must be finite radians, got nan at index 1"):
            score(self.dist, [0.0, np.nan])
        with pytest.raises(TypeError, match="y must be real numbers"):
            score(self.dist, "north")
        with pytest.raises(ValueError, match=r"y \(3,\), dist \(2,\)"):
            score(naive.Stack([self.dist, self.dist]), [0.0, 1.0, 2.0])

    def test_crps(self):
        with pytest.raises(ValueError, match="kind must be one of 'angular', 'cosine', got 'euclid'"):
            scores.crps(self.dist, 0.0, kind="euclid")
        with pytest.raises(ValueError, match="forecast is empty"):
            scores.crps([], 0.0)
        with pytest.raises(ValueError, match="draws along its first axis, got a single number"):
            scores.crps(1.0, 0.0)
        with pytest.raises(ValueError, match="forecast must be finite radians, got nan at index 0"):
            scores.crps([np.nan, 1.0], 0.0)
        with pytest.raises(ValueError, match=r"y \(3,\), draws \(2,\)"):
            scores.crps(np.zeros((5, 2)), np.zeros(3))
        with pytest.warns(DegreesWarning, match="forecast reaches 350"):
            scores.crps([350.0, 10.0], 0.0)

    @pytest.mark.parametrize("mass", [0.0, 1.0, 95, [0.5, -0.1]])
    def test_mass(self, mass):
        with pytest.raises(ValueError, match="mass must lie strictly between 0 and 1"):
            scores.coverage(self.dist, 0.0, mass)

    def test_coverage_of_nothing(self):
        with pytest.raises(ValueError, match="y is empty"):
            scores.coverage(self.dist, [], 0.5)

    def test_angular_error_and_snr(self):
        with pytest.raises(ValueError, match=r"a \(2,\), b \(3,\)"):
            scores.angular_error([1.0, 2.0], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="same shape, got"):
            scores.snr([[1.0, 2.0]], [1.0, 2.0])
        with pytest.raises(ValueError, match="needs a signal"):
            scores.snr([0.0, 0.0], [1.0, 1.0])
        with pytest.raises(ValueError, match="y_hat must be finite, got inf at index 1"):
            scores.snr([0.0, 1.0], [1.0, np.inf])


@pytest.mark.parametrize("score", [scores.log_score, scores.crps, scores.pit, lambda d, y: scores.coverage(d, y, 0.5)])
def test_observations_that_look_like_degrees_are_noticed(score):
    # A model with unit="degrees" predicts distributions in radians: scores of bearings were silent nonsense.
    with pytest.warns(DegreesWarning, match="y reaches 350, more than two turns in radians: it looks like degrees"):
        score(VonMises(0.0, 1.0), [10.0, 350.0])


def test_errors_of_angles_that_look_like_degrees_are_noticed():
    with pytest.warns(DegreesWarning, match="prediction reaches 359"):
        scores.angular_error([359.0], [0.1])
