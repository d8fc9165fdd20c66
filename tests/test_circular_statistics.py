"""Tests, correlations and intervals of mgvm.angles: definitions, textbooks, simulation, bad input."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
from naive import circular_tests as naive
from numpy.testing import assert_allclose

from mgvm import angles
from mgvm._circular_statistics import (
    _kuiper_beyond,
    _kuiper_within,
    _walk_tail,
    _walk_tail_at_its_end,
    _walk_tail_by_saddlepoint,
    _watson_tail,
)
from mgvm.angles import DegreesWarning

ONE_SAMPLE = [angles.rayleigh_test, angles.kuiper_test, angles.watson_test]
TWO_SAMPLES = [angles.watson_two_sample_test, angles.mardia_watson_wheeler_test]

# Zar (2010), Biostatistical Analysis, 5th ed., by the numbers of its examples; the data as pycircstat2 ships them.
TREES = angles.from_degrees([45, 55, 81, 96, 110, 117, 132, 154])  # 27.1: load_data("D1", source="zar")
FIRST = angles.from_degrees([35, 45, 50, 55, 60, 70, 85, 95, 105, 120])  # 27.9: "D12"
SECOND = angles.from_degrees([75, 80, 90, 100, 110, 130, 135, 140, 150, 155, 165])
TIED = angles.from_degrees(np.repeat([40, 45, 50, 55, 70, 80, 95, 105, 110, 120], [1, 1, 1, 1, 1, 2, 1, 1, 2, 1]))
OTHER = angles.from_degrees(
    np.repeat([30, 35, 50, 60, 65, 75, 80, 90, 100], [1, 1, 1, 1, 2, 1, 1, 1, 1])
)  # 27.10: "D13"
# Jammalamadaka & SenGupta's wind directions at 6 and 12 o'clock in Milwaukee.
MORNING = [356, 97, 211, 232, 343, 292, 157, 302, 335, 302, 324, 85, 324, 340, 157, 238, 254, 146, 232, 122, 329]
NOON = [119, 162, 221, 259, 270, 29, 97, 292, 40, 313, 94, 45, 47, 108, 221, 270, 119, 248, 270, 45, 23]


def uniform(rng, *shape):
    return rng.uniform(-np.pi, np.pi, shape)


class TestUniformity:
    def test_rayleigh_of_a_textbook(self):
        # Zar's Example 27.1 has z = 5.448 and 0.001 < p < 0.002.
        statistic, p_value = angles.rayleigh_test(TREES)
        assert statistic == pytest.approx(5.448, abs=5e-4)
        assert 0.001 < p_value < 0.002

    def test_kuiper_and_watson_of_a_peer(self):
        # pycircstat2 0.1.15: kuiper_test(TREES).V = 2.139272957112868 = √8 V·(modified), watson_test(TREES).U2.
        root = math.sqrt(8)
        modified = (root + 0.155 + 0.24 / root) * angles.kuiper_test(TREES).statistic
        assert modified == pytest.approx(2.139272957112868, rel=1e-12)
        assert angles.watson_test(TREES).statistic == pytest.approx(0.3008757716049382, rel=1e-12)

    @pytest.mark.parametrize("size", [1, 2, 3, 10, 40])
    def test_statistics_follow_their_definitions(self, size):
        x = uniform(np.random.default_rng(size), size)
        assert angles.kuiper_test(x).statistic == pytest.approx(naive.kuiper(x), abs=1e-12)
        # The midpoint rule is off by a cell, 5e-6, at each of the angles, times F_n - F < 1, times n.
        assert angles.watson_test(x).statistic == pytest.approx(naive.watson(x), abs=1e-5 * size)

    @pytest.mark.parametrize("test", ONE_SAMPLE)
    @pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 30, 250])
    def test_p_values_are_uniform_where_angles_are(self, test, size):
        rng = np.random.default_rng(100 + size)
        p_values = [test(x).p_value for x in uniform(rng, 400, size)]
        # Watson's beyond three angles is matched in two moments: off by 0.035 at most, at n = 4 (its docstring).
        slack = 0.035 * 4 / size if test is angles.watson_test and size > 3 else 0.0
        distance = scipy.stats.kstest(p_values, "uniform").statistic
        assert scipy.stats.kstwo.sf(max(distance - slack, 1e-9), 400) > 1e-5

    @pytest.mark.parametrize("size", [3, 5, 12])
    def test_exact_tails_against_simulation(self, size):
        rng = np.random.default_rng(size)
        lengths = np.abs(np.exp(1j * uniform(rng, 200_000, size)).sum(axis=1))
        for level in (0.1, 0.01):
            resultant = float(np.quantile(lengths, 1 - level))
            # Five standard errors of a share of 200,000 draws, and of the quantile that is asked for.
            assert _walk_tail(resultant, size) == pytest.approx(level, abs=5 * math.sqrt(2 * level / 200_000))

    @pytest.mark.parametrize("size", [2, 3, 4, 5, 10, 100, 9_999])
    def test_a_walk_ends_within_a_step_of_its_start_once_in_n_plus_one(self, size):
        # Kluyver (1905): P(R < 1) = 1/(n + 1), n >= 2. The series is cut at 1e-8 of its sum for n = 3.
        assert _walk_tail(1.0, size) == pytest.approx(1.0 - 1.0 / (size + 1.0), abs=1e-8)

    @pytest.mark.parametrize("size", [8, 20, 100])
    def test_the_far_tail_goes_on_where_the_series_ends(self, size):
        resultant = next(r for r in np.linspace(0.1 * size, size, 2000) if _walk_tail(r, size) < 3e-9)
        # The saddlepoint density is off by a factor 1 + O(1/n), 1.08 for n = 10.
        assert _walk_tail_by_saddlepoint(size - resultant, size) == pytest.approx(3e-9, rel=2.0 / size + 0.03)
        assert 0.0 < _walk_tail(0.999 * size, size) < 1e-9

    @pytest.mark.parametrize("size", [2, 3, 8, 40, 200])
    def test_kuipers_distribution_at_both_ends(self, size):
        # V never exceeds 1; and up to 2/n the bands of the n - 1 angles do not overlap: P(V < v) = n! (v - 1/n)^(n-1).
        # Sums of up to n terms, each rounded a few hundred times.
        assert _kuiper_within(1.0, size) == pytest.approx(1.0, rel=1e-11)
        for v in (1.2 / size, 1.9 / size):
            expected = math.lgamma(size + 1.0) + (size - 1.0) * math.log(v - 1.0 / size)
            assert _kuiper_within(v, size) == pytest.approx(math.exp(expected), rel=1e-9)

    @pytest.mark.parametrize("size", [4, 8, 20])
    def test_watsons_level_against_simulation(self, size):
        u = np.sort(np.random.default_rng(size).uniform(0, 1, (100_000, size)), axis=1)
        away = u - (np.arange(size) + 0.5) / size
        values = away.var(axis=1) * size + 1.0 / (12.0 * size)
        # Five standard errors of the quantile are 0.0035; the approximation itself is off by 0.003 at n = 4.
        assert _watson_tail(float(np.quantile(values, 0.95)), size) == pytest.approx(0.05, abs=0.0065)

    def test_many_angles(self):
        # P(n R̄² > z) = e^-z (1 + (2z - z²)/4n - …).
        for size, z in ((9_999, 4.0), (10_001, 4.0), (10**7, 12.0)):
            expected = math.exp(-z) * (1 + (2 * z - z * z) / (4 * size))
            assert _walk_tail(math.sqrt(z * size), size) == pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize("test", ONE_SAMPLE)
    def test_invariances_and_counts(self, test):
        x = uniform(np.random.default_rng(3), 25)
        whole = test(x)
        assert_allclose(test(-x + 0.7), whole, rtol=1e-9)
        assert_allclose(test(x[::-1] - 2 * np.pi), whole, rtol=1e-9)
        counts = np.array([0, 1] * 12 + [1])
        assert_allclose(test(x, counts=counts), test(x[counts > 0]), rtol=1e-12)

    @pytest.mark.parametrize("test", ONE_SAMPLE)
    def test_one_angle_tells_nothing(self, test):
        assert test([0.3]).p_value == 1.0

    @pytest.mark.parametrize("test", ONE_SAMPLE)
    def test_equal_angles_tell_all(self, test):
        assert test(np.full(30, 1.0)).p_value < 1e-12

    @pytest.mark.parametrize("size", [4, 5, 24, 201, 100_000])
    def test_rayleigh_of_angles_next_to_each_other(self, size):
        # The resultant of all equal angles is n, where Newton's and Brent's methods have nothing to find.
        assert angles.rayleigh_test(np.full(size, 0.7)).p_value == 0.0
        assert 0.0 <= angles.rayleigh_test(0.7 + 1e-9 * uniform(np.random.default_rng(0), size)).p_value < 1e-20

    @pytest.mark.parametrize("gap", [1e-300, 1e-9, 1e-3, 1.0, 3.0])
    def test_rayleigh_of_two_angles_is_their_gap(self, gap):
        # Two uniform angles are at most a gap g apart with probability g/π.
        assert angles.rayleigh_test([0.0, gap]).p_value == pytest.approx(gap / np.pi, rel=1e-12)

    def test_no_p_value_is_above_one(self):
        assert _walk_tail(0.0, 2, 2.0) == 1.0

    @pytest.mark.parametrize("lack", [1e-12, 1e-6, 1e-3, 0.04])
    def test_three_angles_next_to_each_other(self, lack):
        # Two of them add up to 2 cos u, u uniform; the third joins them by more than 3 - lack with probability
        # arccos(c)/π, 1 - c = 4 sin((U + u)/2) sin((U - u)/2) (6 - lack) … over 4 cos u, 4 sin²(U/2) = lack.
        most = 2.0 * math.asin(0.5 * math.sqrt(lack))
        nodes, weights = np.polynomial.legendre.leggauss(60)
        turn = 0.25 * np.pi * (nodes + 1.0)  # u = U sin(turn): the root at the end becomes smooth
        u = most * np.sin(turn)
        excess = 4.0 * np.sin(0.5 * (most + u)) * np.sin(0.5 * (most - u))
        third = 2.0 * np.arcsin(np.sqrt(excess * (2.0 * np.cos(u) + 4.0 - lack) / (8.0 * np.cos(u))))
        expected = 2.0 / np.pi**2 * 0.25 * np.pi * (weights @ (third * most * np.cos(turn)))
        assert _walk_tail(3.0 - lack, 3, lack) == pytest.approx(expected, rel=0.1 * lack**2 + 1e-12)

    @pytest.mark.parametrize("size", [3, 4, 5, 8])
    def test_the_end_of_a_walk_joins_its_series(self, size):
        # The series is cut at 1e-5 for three steps and 1e-9 for more.
        assert _walk_tail_at_its_end(0.05, size) == pytest.approx(_walk_tail(size - 0.05, size), rel=2e-3)

    @pytest.mark.parametrize("size", [2, 3, 4, 5, 10, 200])
    def test_kuiper_of_angles_next_to_each_other(self, size):
        # All within an arc of a turn times s, V > 1 - s: n s^(n - 1).
        assert angles.kuiper_test(np.full(size, 0.7)).p_value < 1e-15
        share = 1e-3
        packed = np.linspace(0.0, share * 2.0 * np.pi, size)
        test = angles.kuiper_test(packed)
        assert test.p_value == pytest.approx(size * (1.0 - test.statistic) ** (size - 1), rel=1e-9)

    @pytest.mark.parametrize("size", [2, 3, 4, 10, 50])
    @pytest.mark.parametrize("v", [0.5, 0.61, 0.8, 0.95])
    def test_kuipers_far_tail_against_its_bands(self, size, v):
        # Stephens' sum against the Poisson steps, whose sums are rounded a few hundred times.
        assert _kuiper_beyond(v, size) == pytest.approx(1.0 - _kuiper_within(v, size), abs=1e-12)

    @pytest.mark.parametrize("size", [200, 201, 1000, 10_000, 100_000])
    def test_even_steps_are_as_uniform_as_can_be(self, size):
        x = 2.0 * np.pi * (np.arange(size) + 0.3) / size
        assert [test(x).p_value for test in ONE_SAMPLE] == pytest.approx([1.0] * 3, abs=1e-9)

    @pytest.mark.parametrize("test", ONE_SAMPLE)
    def test_counts_are_not_unpacked(self, test):
        # 10^15 repetitions fit in no memory, 10^18 and 10^300 in no integer.
        x = np.linspace(0.0, 6.0, 7)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "watson_test takes|kuiper_test takes")
            assert np.isfinite(test(x, np.full(7, 1e15))).all()
        for huge in (1e18, 1e300, 1.7e308):
            with pytest.raises(ValueError, match="counts add up to .* doubles tell none apart; scale them down"):
                test(x, np.full(7, huge))

    def test_rounded_angles_are_warned_of(self):
        months = angles.from_hours(np.random.default_rng(0).integers(0, 12, 300), 12)
        for test in (angles.kuiper_test, angles.watson_test):
            with pytest.warns(UserWarning, match=r"300 have 12 distinct values, at least 30° apart"):
                test(months)
        assert angles.rayleigh_test(months).p_value > 1e-5

    @pytest.mark.parametrize("test", ONE_SAMPLE)
    def test_bad_input(self, test):
        with pytest.raises(ValueError, match="nan at index 1; drop or impute"):
            test([0.1, np.nan])
        with pytest.raises(ValueError, match="x is empty"):
            test([])
        with pytest.raises(ValueError, match=r"shape \(n,\), got \(2, 2\)"):
            test(np.zeros((2, 2)))
        with pytest.raises(ValueError, match="whole numbers.*got 0.5"):
            test([0.1, 0.2], counts=[1.0, 0.5])
        with pytest.raises(TypeError, match="real numbers"):
            test(["north", "south"])
        with pytest.warns(DegreesWarning, match="from_degrees"):
            test([10.0, 350.0, 200.0])


class TestTwoSamples:
    def test_textbook(self):
        # Zar's Examples 27.9 and 27.11; he prints U² = 0.1458 and W = 3.678.
        assert angles.watson_two_sample_test(FIRST, SECOND, 99, rng=0).statistic == pytest.approx(0.1458, abs=1e-4)
        assert angles.mardia_watson_wheeler_test(FIRST, SECOND, 99, rng=0).statistic == pytest.approx(3.678, abs=5e-4)

    def test_p_values_of_a_textbook(self):
        # Zar: 0.10 < p < 0.20 for U² (critical value 0.1503 at 0.10), 0.10 < p < 0.25 for W.
        assert 0.09 < angles.watson_two_sample_test(FIRST, SECOND, rng=0).p_value < 0.2
        assert 0.1 < angles.mardia_watson_wheeler_test(FIRST, SECOND, rng=0).p_value < 0.25

    def test_ties_of_a_textbook(self):
        # Zar's Example 27.10, data with ties: U² = 0.0612.
        assert angles.watson_two_sample_test(TIED, OTHER, 99, rng=0).statistic == pytest.approx(0.0612, abs=1e-4)

    @pytest.mark.parametrize(
        ("test", "twin"), list(zip(TWO_SAMPLES, (naive.watson_two_samples, naive.mardia_watson_wheeler), strict=True))
    )
    def test_all_splits_against_the_definition(self, test, twin):
        rng = np.random.default_rng(5)
        x, y = uniform(rng, 4), uniform(rng, 5)
        statistic, p_value = test(x, y)
        assert statistic == pytest.approx(twin(x, y), abs=1e-12)
        assert p_value == pytest.approx(naive.split_p_value(twin, x, y))

    @pytest.mark.parametrize("test", TWO_SAMPLES)
    def test_random_splits_agree_with_all_of_them(self, test):
        rng = np.random.default_rng(6)
        x, y = uniform(rng, 7), 0.4 * uniform(rng, 7)
        exact = test(x, y, 3432).p_value  # all 14 over 7 splits
        drawn = test(x, y, 3000, rng=1).p_value
        assert drawn == pytest.approx(exact, abs=5 * math.sqrt(exact / 3000) + 1e-3)

    @pytest.mark.parametrize("test", TWO_SAMPLES)
    def test_power_symmetry_and_reproducibility(self, test):
        rng = np.random.default_rng(7)
        x, y = rng.normal(0, 0.5, 20), rng.normal(1.0, 0.5, 20)
        assert test(x, y, rng=0).p_value < 0.001
        assert test(x, y, 99, rng=0) == test(x, y, 99, rng=0)
        assert_allclose(test(y, x, 99, rng=0).statistic, test(x - 2.0, y - 2.0, 99, rng=0).statistic)

    @pytest.mark.parametrize("test", TWO_SAMPLES)
    def test_level(self, test):
        rng = np.random.default_rng(8)
        p_values = [test(*uniform(rng, 2, 8), 99, rng=rng).p_value for _ in range(400)]
        assert scipy.stats.binomtest(sum(p <= 0.05 for p in p_values), 400, 0.05, "greater").pvalue > 1e-5

    @pytest.mark.parametrize("test", TWO_SAMPLES)
    def test_small_samples_and_bad_input(self, test):
        assert test([0.1], [2.0]).p_value == 1.0
        with pytest.raises(ValueError, match="y is empty"):
            test([0.1], [])
        with pytest.raises(ValueError, match="y must be finite radians, got nan"):
            test([0.1], [np.nan, 1.0])
        with pytest.raises(ValueError, match="n_resamples must be >= 1"):
            test([0.1], [2.0], n_resamples=0)


class TestCorrelation:
    def test_textbooks(self):
        # Zar's Examples 27.20 (r = 0.8945) and 27.21 (r = 0.9854, 0.025 < p < 0.05 by a normal approximation).
        insect, light = angles.from_degrees([145, 190, 310, 210, 80]), angles.from_degrees([120, 180, 330, 225, 55])
        assert angles.circular_correlation(insect, light, "fisher_lee").statistic == pytest.approx(0.8945, abs=5e-5)
        direction = angles.from_degrees([190, 160, 210, 225, 220, 140, 120])
        found = angles.circular_linear_correlation(direction, [48, 55, 26, 23, 22, 62, 64])
        assert found.statistic == pytest.approx(0.9854, abs=5e-5)

    def test_milwaukee(self):
        # R's circular: cor.circular(milwaukee, test = TRUE) has 0.2704648, p = 0.2247383 by a normal approximation.
        found = angles.circular_correlation(angles.from_degrees(MORNING), angles.from_degrees(NOON), rng=0)
        assert found.statistic == pytest.approx(0.2704648, abs=1e-7)
        assert found.p_value == pytest.approx(0.2247383, abs=0.06)

    @pytest.mark.parametrize(
        ("method", "twin"),
        [("jammalamadaka_sengupta", naive.jammalamadaka_sengupta), ("fisher_lee", naive.fisher_lee)],
    )
    def test_circular_against_the_definition(self, method, twin):
        x, y = uniform(np.random.default_rng(9), 2, 6)
        statistic, p_value = angles.circular_correlation(x, y, method)
        assert statistic == pytest.approx(twin(x, y), abs=1e-12)
        assert p_value == pytest.approx(naive.order_p_value(twin, x, y))

    def test_linear_against_the_definition(self):
        rng = np.random.default_rng(10)
        x, z = uniform(rng, 6), rng.normal(size=6)
        statistic, p_value = angles.circular_linear_correlation(x, z)
        assert statistic == pytest.approx(naive.circular_linear(x, z), abs=1e-12)
        assert p_value == pytest.approx(naive.order_p_value(naive.circular_linear, x, z))

    @pytest.mark.parametrize("method", ["jammalamadaka_sengupta", "fisher_lee"])
    def test_turning_along_and_against(self, method):
        x = np.random.default_rng(11).normal(1.0, 0.8, 50)
        assert angles.circular_correlation(x, x + 2.0, method, 99).statistic == pytest.approx(1.0)
        assert angles.circular_correlation(x, 2.0 - x, method, 99).statistic == pytest.approx(-1.0)

    def test_level(self):
        rng = np.random.default_rng(12)
        p_values = [
            angles.circular_correlation(*uniform(rng, 2, 10), "fisher_lee", 99, rng).p_value for _ in range(400)
        ]
        assert scipy.stats.binomtest(sum(p <= 0.05 for p in p_values), 400, 0.05, "greater").pvalue > 1e-5

    def test_bad_input(self):
        with pytest.raises(ValueError, match="same length, got 2 and 3"):
            angles.circular_correlation([0.1, 0.2], [0.1, 0.2, 0.3])
        with pytest.raises(ValueError, match="take method='fisher_lee'"):
            angles.circular_correlation([0.0, np.pi], [0.1, 0.2])
        with pytest.raises(ValueError, match="all y are equal"):
            angles.circular_correlation([0.0, 1.0, 2.0], [0.1, 0.1, 0.1], "fisher_lee")
        with pytest.raises(ValueError, match="method must be one of"):
            angles.circular_correlation([0.0, 1.0], [0.1, 0.3], "pearson")
        with pytest.raises(ValueError, match="all z are equal"):
            angles.circular_linear_correlation([0.0, 1.0, 2.0, 3.0], [5, 5, 5, 5])
        with pytest.raises(ValueError, match="fewer than three distinct angles"):
            angles.circular_linear_correlation([0.0, 1.0, 0.0, 1.0], [5, 6, 7, 8])

    @pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e306])
    def test_numbers_whose_squares_leave_the_doubles(self, scale):
        x, z = np.linspace(0.0, 3.0, 9), np.linspace(-3.0, 4.0, 9) ** 2
        expected = angles.circular_linear_correlation(x, z, 99, rng=0)
        assert angles.circular_linear_correlation(x, scale * z, 99, rng=0) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("method", ["jammalamadaka_sengupta", "fisher_lee"])
    def test_no_correlation_is_beyond_one(self, method):
        x = np.where(np.arange(24) % 3, 0.0, 1.0)
        assert angles.circular_correlation(x, x, method=method, n_resamples=9, rng=0).statistic <= 1.0


class TestMeanInterval:
    def test_profile_likelihood_at_the_ends(self):
        x = np.random.default_rng(13).normal(2.0, 0.9, 12)
        found = angles.mean_interval(x, 0.9)
        top = naive.profile_log_likelihood(x, found.mean)
        quantile = scipy.stats.f.ppf(0.9, 1, 11)
        for end in (found.low, found.high):
            fall = 2.0 * (top - naive.profile_log_likelihood(x, end))
            # A grid of κ in steps of 0.07 % loses (7e-4 κ)²/2 · curvature, below 1e-5 of the log-likelihood.
            assert fall == pytest.approx(12 * math.log1p(quantile / 11), abs=1e-4)

    def test_concentrated_angles_have_students_interval(self):
        x = 1e-7 * np.random.default_rng(14).normal(size=9) + 3.0
        found = angles.mean_interval(x)
        expected = scipy.stats.t.interval(0.95, 8, x.mean(), scipy.stats.sem(x))
        # Angles around 3 are rounded to 4e-16, 1e-8 of their spread.
        assert_allclose(
            [found.low - 3.0, found.high - 2 * np.pi * (found.high > 3.2) - 3.0], np.subtract(expected, 3.0), rtol=1e-6
        )

    @pytest.mark.parametrize("kappa", [0.5, 2.0, 20.0])
    @pytest.mark.parametrize("size", [3, 8])
    def test_coverage(self, kappa, size):
        rng = np.random.default_rng(15)
        hits = sum(bool(angles.mean_interval(rng.vonmises(3.0, kappa, size)).contains(3.0)) for _ in range(400))
        # Between 94 and 97 %, as the benchmark finds with 10,000 samples.
        assert scipy.stats.binomtest(hits, 400, 0.94, "less").pvalue > 1e-5
        assert scipy.stats.binomtest(hits, 400, 0.97, "greater").pvalue > 1e-5

    def test_bootstrap_covers_what_is_not_von_mises(self):
        rng = np.random.default_rng(16)
        hits = 0
        for _ in range(200):
            x = -2.0 + 0.3 * rng.exponential(size=40)
            # The direction of E e^{i 0.3 E} = 1/(1 - 0.3i).
            hits += bool(
                angles.mean_interval(x, method="bootstrap", n_resamples=299, rng=rng).contains(-2.0 + math.atan(0.3))
            )
        assert scipy.stats.binomtest(hits, 200, 0.93, "less").pvalue > 1e-5
        assert scipy.stats.binomtest(hits, 200, 0.97, "greater").pvalue > 1e-5

    @pytest.mark.parametrize("method", ["likelihood", "bootstrap"])
    def test_turns_with_the_angles(self, method):
        x = np.random.default_rng(17).normal(0.0, 0.7, 30)
        at = angles.mean_interval(x, method=method, rng=0)
        there = angles.mean_interval(x + 3.0, method=method, rng=0)
        assert_allclose(angles.difference(there.low, at.low), 3.0, rtol=0.05)
        assert -np.pi <= there.low < np.pi
        assert there.low <= there.high
        assert there.contains(there.mean)
        assert not there.contains(there.mean + np.pi)

    @pytest.mark.parametrize("method", ["likelihood", "bootstrap"])
    def test_no_direction_is_the_whole_circle(self, method):
        for x in ([0.0, np.pi], np.linspace(0, 2 * np.pi, 20, endpoint=False), [0.0, 2.0, 4.3]):
            found = angles.mean_interval(x, method=method, rng=0)
            assert found.is_whole_circle
            assert found.contains(1.0)

    def test_a_bootstrap_of_too_few_resamples_is_refused(self):
        with pytest.raises(ValueError, match=r"n_resamples = 999 tell no quantile at confidence 0.9999; take more"):
            angles.mean_interval(TREES, 0.9999, method="bootstrap", n_resamples=999, rng=0)

    def test_counts_and_bad_input(self):
        x = [0.1, 0.5, 1.2]
        repeated = angles.mean_interval(np.repeat(x, [3, 1, 4]))
        assert_allclose(angles.mean_interval(x, counts=[3, 1, 4]), repeated, rtol=1e-9)
        with pytest.raises(ValueError, match="at least two angles"):
            angles.mean_interval([0.3])
        with pytest.raises(ValueError, match="confidence must lie strictly between 0 and 1, got 95"):
            angles.mean_interval(x, 95)
        with pytest.raises(ValueError, match="got nan"):
            angles.mean_interval([0.3, np.nan])
