"""mgvm.angles against slow twins, SciPy, and the symmetries of the circle."""

import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from naive import angles as naive
from numpy.testing import assert_allclose, assert_array_equal
from portable import von_mises_draws

from mgvm import angles
from mgvm.angles import DegreesWarning

ANY = st.floats(-1e6, 1e6)
RADIANS = st.floats(-np.pi, np.pi)
SAMPLES = st.lists(RADIANS, min_size=1, max_size=12)
STATISTICS = [angles.mean, angles.resultant_length, angles.variance, angles.median]


def apart(a, b):
    """Angular distance, so that -π and π compare equal."""
    return np.abs(np.angle(np.exp(1j * (np.asarray(a) - np.asarray(b)))))


class TestWrap:
    @pytest.mark.parametrize("x", [0.0, -0.0, 1e-320, -1e-320, -5e-17, 3.0, -np.pi, np.nextafter(np.pi, 0)])
    def test_angles_already_inside_are_unchanged_to_the_bit(self, x):
        assert float(angles.wrap(x)).hex() == float(x).hex()

    @pytest.mark.parametrize("k", [*range(-40, 41), 12_345, 100_000])
    def test_float_multiples_of_pi_land_on_the_multiple(self, k):
        assert angles.wrap(k * np.pi) == (0.0 if k % 2 == 0 else -np.pi)

    @pytest.mark.parametrize("x", [4.0, -4.0, 10.0, 355.0, -710.0, 1e5 + 0.1, 1e15, 1e22, -6.7e200, 2.0**1000])
    def test_huge_numbers_follow_the_true_pi(self, x):
        assert_allclose(angles.wrap(x), naive.wrap(x), rtol=1e-15)

    @given(ANY)
    def test_range_and_same_point_of_the_circle(self, x):
        wrapped = angles.wrap(x)
        assert -np.pi <= wrapped < np.pi
        assert apart(wrapped, x) <= 1e-15 + 2.3e-16 * abs(x)

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_idempotent_and_never_pi(self, x):
        wrapped = angles.wrap(x)
        assert -np.pi <= wrapped < np.pi
        assert angles.wrap(wrapped) == wrapped

    def test_does_not_change_its_input_and_keeps_the_shape(self):
        x = np.array([[4.0, 5.0, 0.1]])
        assert angles.wrap(x).shape == (1, 3)
        assert_array_equal(x, [[4.0, 5.0, 0.1]])
        assert isinstance(angles.wrap(4.0), float)

    def test_missing_stays_missing(self):
        assert_array_equal(angles.wrap([np.nan, 0.5]), [np.nan, 0.5])

    @given(RADIANS, RADIANS)
    def test_difference_is_the_shortest_way(self, a, b):
        assert abs(angles.difference(a, b)) == pytest.approx(naive.distance(a, b), abs=1e-15)
        assert apart(b + angles.difference(a, b), a) < 2e-15

    def test_difference_of_close_large_numbers_is_exact(self):
        assert angles.difference(2.0**40 + 0.5, 2.0**40) == 0.5


class TestMoments:
    @given(SAMPLES)
    def test_against_scipy(self, x):
        length = angles.resultant_length(x)
        assert angles.variance(x) == pytest.approx(scipy.stats.circvar(x), abs=1e-14)
        assert length == pytest.approx(1 - scipy.stats.circvar(x), abs=1e-14)
        assume(length > 1e-3)
        assert apart(angles.mean(x), scipy.stats.circmean(x)) < 1e-12

    @given(SAMPLES, RADIANS)
    def test_rotation_equivariance(self, x, turn):
        assume(angles.resultant_length(x) > 1e-3)
        rotated = np.asarray(x) + turn
        assert apart(angles.mean(rotated), angles.mean(x) + turn) < 1e-12
        assert angles.variance(rotated) == pytest.approx(angles.variance(x), abs=1e-14)

    @pytest.mark.parametrize("spread", [1e-2, 1e-5, 1e-8])
    def test_variance_keeps_its_digits_for_concentrated_angles(self, spread):
        x = 1.0 + spread * np.random.default_rng(1).standard_normal(50)
        assert_allclose(angles.variance(x), naive.variance(x), rtol=1e-11)

    def test_variance_of_equal_angles_is_zero_and_length_one(self):
        x = np.full(7, 2.1)
        assert angles.variance(x) == 0.0
        assert angles.resultant_length(x) == pytest.approx(1.0, abs=1e-15)

    @pytest.mark.parametrize("n", [2, 3, 4, 7, 360, 10_001])
    def test_no_mean_where_angles_cancel(self, n):
        x = np.arange(n) * (2 * np.pi / n)
        assert np.isnan(angles.mean(x))
        assert angles.variance(x) == pytest.approx(1.0, abs=1e-15)
        x[0] += 1e-6 * n
        assert not np.isnan(angles.mean(x))

    def test_mean_is_never_plus_pi(self):
        assert angles.mean([np.pi, np.pi]) == -np.pi
        assert angles.mean([np.pi, -np.pi, 3 * np.pi]) == -np.pi


class TestMedian:
    # Grids, so that distinct observations are never closer than the twin can tell; π/6 also makes antipodes collide.
    @pytest.mark.parametrize("step", [0.001, 0.5, np.pi / 6])
    @given(data=st.data())
    def test_against_the_quadratic_twin(self, step, data):
        reach = int(np.pi / step)
        x = [step * k for k in data.draw(st.lists(st.integers(-reach, reach - 1), min_size=1, max_size=12))]
        expected = angles.mean(naive.median_candidates([float(v) for v in angles.wrap(x)]))
        if np.isnan(expected):
            assert np.isnan(angles.median(x))
        else:
            assert apart(angles.median(x), expected) < 1e-9

    @given(st.lists(st.tuples(RADIANS, st.floats(0.01, 5.0)), min_size=1, max_size=12))
    def test_weighted_median_reaches_the_least_distance(self, pairs):
        x, weights = np.array(pairs).T
        candidates = naive.median_candidates(x, weights)
        assume(len(candidates) == 1)
        assert apart(angles.median(x, weights), candidates[0]) < 1e-12

    @given(st.lists(st.tuples(st.integers(-6, 5), st.integers(1, 3)), min_size=1, max_size=8))
    def test_whole_weights_are_repetitions_even_on_antipodal_grids(self, pairs):
        x, weights = np.array(pairs).T
        repeated = angles.median(np.repeat(x * np.pi / 6, weights))
        weighted = angles.median(x * np.pi / 6, weights)
        scaled = angles.median(x * np.pi / 6, 0.1 * weights)  # tenths do not add up exactly
        assert_allclose([np.cos(weighted), np.sin(weighted)], [np.cos(repeated), np.sin(repeated)], atol=1e-9)
        assert_allclose([np.cos(scaled), np.sin(scaled)], [np.cos(repeated), np.sin(repeated)], atol=1e-9)

    @given(SAMPLES, RADIANS)
    def test_rotation_equivariance(self, x, turn):
        assume(len(naive.median_candidates(x)) == 1)
        assume(len(naive.median_candidates(list(np.asarray(x) + turn))) == 1)
        assert apart(angles.median(np.asarray(x) + turn), angles.median(x) + turn) < 1e-9

    def test_of_concentrated_angles_is_the_line_median(self):
        x = 1e-7 * np.random.default_rng(5).standard_normal(101)
        assert angles.median(x) == np.median(x)
        assert angles.median(x[:100]) == pytest.approx(np.median(x[:100]), rel=1e-9)
        assert apart(angles.median(x + np.pi), np.median(x) + np.pi) < 1e-15

    def test_ties_without_direction_are_nan(self):
        assert np.isnan(angles.median([0.0, np.pi / 2, np.pi, -np.pi / 2]))

    def test_a_million_angles(self):
        x = np.random.default_rng(6).normal(2.0, 0.6, 1_000_001)
        theta = angles.median(x)
        near = [np.abs(angles.difference(x, theta + step)).mean() for step in (-1e-3, 0.0, 1e-3)]
        assert near[1] < near[0]
        assert near[1] < near[2]


@pytest.mark.parametrize("statistic", STATISTICS)
class TestReduction:
    rng = np.random.default_rng(3)
    x = von_mises_draws(rng, 0.5, 1.0, (3, 4, 5))
    weights = rng.uniform(0.1, 1.0, (3, 4, 5))

    @pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (2, 0), (0, 1, 2), None])
    def test_axes_against_a_loop(self, statistic, axis):
        axes = range(3) if axis is None else sorted(a % 3 for a in np.atleast_1d(axis))
        kept = [a for a in range(3) if a not in axes]
        rows = np.transpose(self.x, [*kept, *axes]).reshape(*[self.x.shape[a] for a in kept], -1)
        masses = np.transpose(self.weights, [*kept, *axes]).reshape(rows.shape)
        expected = np.empty(rows.shape[:-1])
        for index in np.ndindex(expected.shape):
            expected[index] = statistic(rows[index], masses[index])
        result = statistic(self.x, self.weights, axis)
        assert np.shape(result) == expected.shape
        assert_allclose(result, expected, rtol=1e-12)

    def test_weights_broadcast_and_zero_weight_is_absence(self, statistic):
        weights = np.array([1.0, 0.0, 1.0])[:, None, None]
        assert_allclose(statistic(self.x, weights, axis=0), statistic(self.x[[0, 2]], axis=0), rtol=1e-12)

    @pytest.mark.parametrize("unit", [1e308, 1e300, 5e-324, 1e-320])
    def test_weights_at_the_ends_of_the_doubles(self, statistic, unit):
        # Sums of the largest overflowed; products of the least with a cosine were rounded to whole multiples of 5e-324.
        assert_allclose(statistic(self.x, np.full(60, unit).reshape(3, 4, 5)), statistic(self.x), rtol=1e-12)
        rows = np.broadcast_to(np.array([unit, 1.0, 2.0])[:, None, None], (3, 4, 5))
        assert_allclose(statistic(self.x, rows, axis=(1, 2)), statistic(self.x, axis=(1, 2)), rtol=1e-12)

    def test_nan_policies(self, statistic):
        x = self.x[0].copy()
        x[1, 2] = np.nan
        assert_array_equal(np.isnan(statistic(x, axis=1)), [False, True, False, False])
        assert_allclose(statistic(x, axis=1, nan_policy="omit")[1], statistic(np.delete(x[1], 2)), rtol=1e-12)
        with pytest.raises(ValueError, match=r"x must be finite radians, got nan at index \(1, 2\)"):
            statistic(x, nan_policy="raise")

    def test_nothing_left_is_nan(self, statistic):
        assert_array_equal(np.isnan(statistic([[np.nan], [1.0]], axis=1, nan_policy="omit")), [True, False])
        assert_array_equal(np.isnan(statistic([[0.5], [1.0]], weights=[[0], [1]], axis=1)), [True, False])

    def test_bad_input(self, statistic):
        with pytest.raises(ValueError, match="nan_policy must be one of 'propagate', 'raise', 'omit', got 'drop'"):
            statistic([1.0], nan_policy="drop")
        with pytest.raises(ValueError, match="x is empty"):
            statistic([])
        with pytest.raises(TypeError, match="x must be real numbers"):
            statistic(["north", "south"])
        with pytest.raises(ValueError, match="x must be finite or NaN, got inf at index 1"):
            statistic([0.0, np.inf])
        with pytest.raises(ValueError, match=r"weights must broadcast to the shape of the data, \(2,\), got \(3,\)"):
            statistic([1.0, 2.0], weights=[1, 1, 1])
        with pytest.raises(ValueError, match=r"weights must be >= 0, got -1\.0 at index 1"):
            statistic([1.0, 2.0], weights=[1, -1])
        with pytest.raises(ValueError, match="weights are all zero"):
            statistic([1.0, 2.0], weights=[0, 0])
        with pytest.raises(ValueError, match="axis 1 is out of range"):
            statistic([1.0, 2.0], axis=1)
        with pytest.raises(ValueError, match="same axis twice"):
            statistic([[1.0, 2.0]], axis=(0, -2))
        with pytest.raises(TypeError, match="axis must be an integer"):
            statistic([1.0], axis="rows")
        with pytest.warns(DegreesWarning, match="x reaches 350"):
            statistic([350.0, 10.0])


def test_importing_angles_stays_light():
    code = "import sys, mgvm.angles; print([m for m in ('scipy', 'sklearn', 'numba') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("statistic", [angles.mean, angles.resultant_length, angles.variance, angles.median])
def test_masked_angles_are_left_out(statistic):
    x = np.array([[0.1, 0.4, 3.0], [1.0, 2.0, 0.3]])
    masked = np.ma.array(x, mask=[[False, False, True], [False, True, False]])
    masked.data[0, 2] = np.nan
    expected = [statistic(x[0, :2]), statistic(x[1, [0, 2]])]
    np.testing.assert_allclose(statistic(masked, axis=1), expected, rtol=1e-15)
    # Python's own NaN is still told apart from what is masked.
    assert np.isnan(statistic(np.ma.array([0.1, np.nan, 1.0], mask=[True, False, False])))
