"""ProjectedNormal against mpmath, the radial integral, its special cases and its symmetries."""

import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from naive import projected_normal as naive
from numpy.testing import assert_allclose, assert_array_equal
from portable import cos, product, rotation, sin, spaced

from mgvm import ProjectedNormal, WrappedNormal
from mgvm.angles import DegreesWarning
from mgvm.circle import CircularDistribution, base
from mgvm.circle import projected_normal as plane

EYE = np.eye(2)


def make(length, direction, condition, axis):
    """Mean of this length and direction, covariance of this condition with its major axis at this angle."""
    turn = rotation(axis)
    cov = product(turn * [1.0, 1.0 / condition], turn.T)
    return length * np.array([cos(direction), sin(direction)]), 0.5 * (cov + cov.T)


def rounding(dist, x):
    """What one rounding of the angle does to the log density, and what the log density itself rounds to."""
    return 2.3e-16 * (np.abs(dist.logpdf(x)) + np.maximum(np.abs(x), 1.0) * np.abs(dist._log_slope(x)) + 1.0)


def worst_rounding(mean, cov, x):
    """What the formula D, P, J(D) of the density may lose to rounding, to first order: u = 2^-53 for each operation.

    With α = √Σ₁₁, κ = Σ₁₂/Σ₁₁, y = (c/α, (s - κc)/δ) and γ = (m₁/α, (m×Σ₁)/(α√|Σ|)): roots, quotients, products and
    sums round once; c, s, log twice (one unit in the last place); |Σ| and m×Σ₁ are differences to rounding, 2 u.
    """
    u, c, s = 2.0**-53, np.cos(x), np.sin(x)
    with mpmath.workdps(40):
        (a, b), (_, d), (m1, m2) = ([mpmath.mpf(float(v)) for v in row] for row in (*cov, mean))
        det, across = float(a * d - b * b), float(m2 * a - m1 * b)
    alpha, kappa, root = np.sqrt(cov[0, 0]), cov[0, 1] / cov[0, 0], np.sqrt(det)
    delta, (m1, m2) = root / alpha, mean
    y1, y2, gamma1, gamma2 = c / alpha, (s - kappa * c) / delta, m1 / alpha, across / (alpha * root)
    # y₁: c, α and the quotient, 4 u. y₂: the difference loses 2|s| + 4|κc| u of its terms, δ holds 4 u.
    error1 = 4 * u * abs(y1)
    error2 = u * ((2 * abs(s) + 4 * abs(kappa * c)) / delta + 6 * abs(y2))
    square = y1**2 + y2**2
    length = np.sqrt(square)
    stretched, turned = (abs(y1) * error1 + abs(y2) * error2) / square, (abs(y2) * error1 + abs(y1) * error2) / square
    # D = γ·y/|y| feels only how far y is turned, by P; γ₁ holds 2 u and γ₂ 7 u.
    along, cross = (gamma1 * y1 + gamma2 * y2) / length, m1 * s - m2 * c
    across = cross / (root * length)
    off_along = abs(across) * turned + u * ((4 * abs(gamma1 * y1) + 9 * abs(gamma2 * y2)) / length + 3 * abs(along))
    off_across = u * (3 * abs(m1 * s) + 3 * abs(m2 * c) + abs(cross)) / (root * length)
    off_across += abs(across) * (stretched + 6 * u)
    # log J itself: 1 - tM cancels for -4 <= D < 0 as in the test of the radial part; t²/2 is rounded.
    log_radial, slope, _ = plane.radial(along)
    own = 4 + np.where(along < 0, 2 * along**2, 0.0) + np.where((along < 0) & (along >= -4), 5 * (1 + along**2), 0.0)
    log_scale = np.log(root * square)
    size = abs(log_radial) + across**2 / 2 + 1 + abs(log_scale)
    off = slope * off_along + abs(across) * off_across + 2 * stretched
    return off + u * (own + across**2 + 5 + 2 * abs(log_scale) + 3 * size)


DISTS = st.builds(
    make,
    st.one_of(st.just(0.0), st.floats(-3, 5).map(lambda e: 10.0**e)),
    st.floats(-4, 4),
    st.floats(0, 8).map(lambda e: 10.0**e),
    st.floats(-2, 2),
).map(lambda parameters: ProjectedNormal(*parameters))


class TestDensity:
    @pytest.mark.parametrize("length", [0.0, 1e-3, 0.5, 3.0, 30.0, 1e4, 1e8])
    @pytest.mark.parametrize("condition", [1.0, 7.0, 1e4, 1e12])
    def test_mpmath(self, length, condition):
        rng = np.random.default_rng(5)
        for _ in range(4):
            direction, axis = rng.uniform(-np.pi, np.pi, 2)
            mean, cov = make(length, direction, condition, axis)
            dist = ProjectedNormal(mean, cov)
            peak = direction + rng.normal(size=3) / (1 + length)
            ridge = axis + rng.normal(size=3) / np.sqrt(condition)
            x = np.concatenate([rng.uniform(-4, 4, 4), peak, ridge, direction + np.pi + 0.1 * rng.normal(size=2)])
            exact = np.array([float(naive.mp_logpdf(v, mean, cov)) for v in x])
            assert (np.abs(dist.logpdf(x) - exact) <= worst_rounding(mean, cov, x)).all()

    @pytest.mark.parametrize("length", [0.0, 0.3, 1.0, 2.0, 4.0, 5.5, 8.0, 12.0])
    def test_dense_sweep(self, length):
        x = np.linspace(-np.pi, np.pi, 2001)
        for condition in (1.0, 3.0, 30.0, 1e3):
            mean, cov = make(length, 0.7, condition, -0.4)
            dist = ProjectedNormal(mean, cov)
            # Solving with Σ loses its condition, and the twin's exponent is a difference of terms mᵀΣ⁻¹m.
            slack = 8 * np.finfo(float).eps * (1 + length**2) * condition
            assert_allclose(dist.logpdf(x), naive.logpdf(x, mean, cov), rtol=2e-14, atol=slack)

    def test_the_radial_part_where_its_formulas_meet(self):
        along = np.concatenate([np.linspace(-12, 3, 400), -spaced(12, 1e8, 50), spaced(3, 1e8, 20)])
        log_value, ratio, slope = plane.radial(along)
        with mpmath.workdps(60):
            for d, have, have_ratio, have_slope in zip(along, log_value, ratio, slope, strict=True):
                t = mpmath.mpf(float(d))
                if d < -60:
                    terms = [(-1) ** n / t ** (2 * n) for n in range(20)]
                    mills = -mpmath.fsum(mpmath.fac2(2 * n - 1) * c for n, c in enumerate(terms)) / t
                    bracket = mpmath.fsum(mpmath.fac2(2 * n + 1) * c for n, c in enumerate(terms)) / t**2
                else:
                    mills = mpmath.ncdf(t) / mpmath.npdf(t)
                    bracket = 1 + t * mills
                exact = mpmath.log(bracket) - t * t / 2 - mpmath.log(2 * mpmath.pi) / 2
                # Far out t² is rounded and so is the sum: 2 u with u = 2^-53. Twice that.
                assert abs(have - exact) <= 1e-14 + 4.5e-16 * abs(exact)
                assert abs(have_ratio / (mills / bracket) - 1) <= 2e-14
                # For -4 <= t < 0 the slope is t + M/(1 + tM), and both sums cancel. M holds 12 u, u = 2^-53: SciPy's
                # erfcx up to 8, its argument 2, two more for the factor. The denominator loses |tM| (12 + 1) u.
                slope = t + mills / bracket
                lost = 2.0**-53 * (14 - 13 * t * mills / bracket) * mills / bracket / slope if -4 <= d < 0 else 0.0
                assert abs(have_slope / slope - 1) <= 1e-14 + lost

    @pytest.mark.parametrize(("length", "condition"), [(0.0, 5.0), (0.7, 1.0), (3.0, 10.0), (20.0, 2.0)])
    def test_slope_is_the_derivative(self, length, condition):
        dist, x, h = ProjectedNormal(*make(length, 1.0, condition, 0.2)), np.linspace(-3, 3, 41), 1e-6
        assert_allclose(dist._log_slope(x), (dist.logpdf(x + h) - dist.logpdf(x - h)) / (2 * h), rtol=1e-6, atol=1e-5)

    def test_angular_central_gaussian(self):
        _, cov = make(0.0, 0.0, 40.0, 0.6)
        x = np.linspace(-4, 4, 99)
        u = np.stack([np.cos(x), np.sin(x)])
        closed = 1 / (2 * np.pi * np.sqrt(np.linalg.det(cov)) * (u * np.linalg.solve(cov, u)).sum(axis=0))
        assert_allclose(ProjectedNormal([0.0, 0.0], cov).pdf(x), closed, rtol=1e-13)

    def test_far_means_give_the_normal_distribution_of_the_angle(self):
        dist = ProjectedNormal([1e6, 0.0], [[1.0, 0.0], [0.0, 4.0]])
        x = np.linspace(-8e-6, 8e-6, 33)
        assert_allclose(dist.logpdf(x), scipy.stats.norm.logpdf(x, 0.0, 2e-6), rtol=0, atol=1e-4)

    @pytest.mark.parametrize("scale", [1e-150, 1e-3, 0.1, 7.0, 1e140])
    def test_scale_is_not_identifiable(self, scale):
        mean, cov = make(2.0, 1.0, 5.0, 0.3)
        x = np.linspace(-3, 3, 21)
        scaled = ProjectedNormal(scale * mean, scale * scale * cov)
        assert_allclose(scaled.logpdf(x), ProjectedNormal(mean, cov).logpdf(x), rtol=1e-13)


class TestDistribution:
    @pytest.mark.parametrize("length", [0.0, 0.4, 3.0, 40.0, 1e4])
    @pytest.mark.parametrize("condition", [1.0, 9.0, 1e4, 1e10])
    def test_owen_against_quadrature(self, length, condition):
        rng = np.random.default_rng(11)
        for _ in range(3):
            mean, cov = make(length, rng.uniform(-3, 3), condition, rng.uniform(-3, 3))
            dist = ProjectedNormal(mean, cov)
            x = np.concatenate([np.linspace(-4, 4, 41), dist.icdf(np.linspace(0.01, 0.99, 15))])
            assert_allclose(
                dist.cdf(x), CircularDistribution.cdf(dist, x), rtol=0, atol=2e-15 * (1 + length + condition**0.5)
            )
            assert (np.diff(dist.cdf(np.sort(x))) >= -1e-15).all()

    def test_mpmath(self):
        mean, cov = make(1.5, 2.0, 6.0, 0.5)
        dist, ends = ProjectedNormal(mean, cov), [-2.5, -1.0, 0.3, 2.0, 3.0]
        with mpmath.workdps(20):
            total, low = mpmath.mpf(0), mpmath.mpf(-np.pi)
            for end in ends:
                total += mpmath.quad(
                    lambda v: mpmath.exp(naive.mp_logpdf(v, mean, cov, 20)), mpmath.linspace(low, end, 4)
                )
                low = mpmath.mpf(end)
                assert abs(dist.cdf(end) - total) < 3e-16

    def test_ends_of_the_turn(self):
        dist = ProjectedNormal([[0.0, 0.0], [-5.0, 1e-3], [0.0, -2.0]], [EYE, EYE, [[1.0, 0.9], [0.9, 1.0]]])
        assert_array_equal(dist.cdf(-np.pi), 0.0)
        # The second distribution has its mode here: an angle next to ±π is 4.4e-16 away, and rounded by as much.
        slack = 1e-15 * (1 + dist.pdf(np.pi))
        assert (np.abs(dist.cdf(np.nextafter(-np.pi, 0))) <= slack).all()
        assert (np.abs(dist.cdf(np.nextafter(np.pi, 0)) - 1.0) <= slack).all()
        assert_allclose(dist.cdf(0.5 + 4 * np.pi), dist.cdf(0.5) + 2, rtol=1e-15)

    @pytest.mark.parametrize("parameters", [(0.0, 0.0, 1e4, 1.0), (1.0, 3.0, 5.0, 0.0), (1e5, -2.0, 2.0, 0.5)])
    def test_sampler(self, parameters):
        dist = ProjectedNormal(*make(*parameters))
        draws = dist.sample(20_000, rng=9)
        assert ((draws >= -np.pi) & (draws < np.pi)).all()
        assert scipy.stats.kstest(draws, dist.cdf).pvalue > 1e-5


class TestExpectations:
    @pytest.mark.parametrize("length", [0.1, 1.0, 5.0, 40.0, 1e3, 1e6])
    def test_resultant_of_the_round_distribution(self, length):
        # E cos φ = √(π/8) m e^{-m²/4} (I0(m²/4) + I1(m²/4)) for N((m, 0), I)
        with mpmath.workdps(30):
            z = mpmath.mpf(length) ** 2 / 4
            bessel = mpmath.besseli(0, z) + mpmath.besseli(1, z)
            exact = mpmath.sqrt(mpmath.pi / 8) * length * mpmath.exp(-z) * bessel
        dist = ProjectedNormal([0.0, length], EYE)
        assert_allclose(dist.resultant_length(), float(exact), rtol=1e-14)
        # The moment is good to some roundings of 1, its direction to as many over its length.
        assert_allclose(dist.mean_direction(), np.pi / 2, rtol=0, atol=4 * np.finfo(float).eps / float(exact))
        with mpmath.workdps(30):
            # 1 - R loses what R keeps: twice the digits, and the asymptotic 1/2m² as a check of the reference.
            deficit = float(1 - exact)
        assert_allclose(dist.circular_variance(), deficit, rtol=1e-13)

    @pytest.mark.parametrize("condition", [1.0, 4.0, 1e4, 1e12])
    def test_moments_of_the_central_distribution(self, condition):
        # For axes 1 and r, E e^{2inφ} = ((1 - r) / (1 + r))^n about the major axis.
        _, cov = make(0.0, 0.0, condition, 0.4)
        dist, r = ProjectedNormal([0.0, 0.0], cov), np.sqrt(np.linalg.eigvalsh(cov)[0]) if condition < 1e5 else None
        r = 1 / np.sqrt(condition) if r is None else r
        for n in (1, 2, 10, 60):
            exact = ((1 - r) / (1 + r)) ** n * np.exp(0.8j * n)
            assert_allclose(dist.moment(2 * n), exact, rtol=0, atol=2e-14 + 1e-9 * (condition > 1e5))
        assert np.isnan(dist.mean_direction()) or abs(dist.moment(1)) < 1e-9

    @pytest.mark.parametrize("parameters", [(0.3, 1.0, 5.0, 0.0), (4.0, -2.0, 1e4, 0.7), (1e3, 0.4, 3.0, 1.0)])
    def test_moments_and_entropy_against_a_dense_grid(self, parameters):
        mean, cov = make(*parameters)
        dist, n = ProjectedNormal(mean, cov), 300_007
        x = np.linspace(-np.pi, np.pi, n, endpoint=False)
        log_density = dist.logpdf(x)
        density = np.exp(log_density) * 2 * np.pi / n  # the trapezoid rule converges geometrically on a circle
        for k in (1, 2, 9):
            assert_allclose(dist.moment(k), (density * np.exp(1j * k * x)).sum(), rtol=0, atol=1e-13)
        assert_allclose(dist.entropy(), -(density * log_density).sum(), rtol=0, atol=2e-12)

    def test_entropy_of_the_narrowest_distributions_is_that_of_the_line(self):
        dist = ProjectedNormal(1e8 * np.array([cos(3.0), sin(3.0)]), EYE)
        assert_allclose(dist.entropy(), 0.5 * np.log(2 * np.pi * np.e) - np.log(1e8), rtol=1e-13)

    def test_divergence_of_central_distributions(self):
        # KL(uniform ‖ central distribution of axes 1, r) = 2 log((1 + r) / 2) - log r
        for condition in (1.0, 1e2, 1e6, 1e12):
            dist, r = ProjectedNormal([0.0, 0.0], np.diag([1.0, 1.0 / condition])), condition**-0.5
            uniform = WrappedNormal(0.0, 50.0)
            assert_allclose(uniform.kl_divergence(dist), 2 * np.log((1 + r) / 2) - np.log(r), rtol=0, atol=1e-13)
            assert_allclose(uniform.entropy() - dist.entropy(), dist.kl_divergence(uniform), rtol=0, atol=1e-9)

    def test_modes_of_distributions_with_one_and_with_two(self):
        assert ProjectedNormal([3.0, 1.0], EYE).modes().location.shape == (1,)
        assert_allclose(ProjectedNormal([3.0, 1.0], EYE).modes().location, [np.arctan2(1.0, 3.0)], rtol=1e-14)
        location, density = ProjectedNormal([0.1, 0.0], np.diag([1.0, 0.01])).modes()
        assert_allclose(location, [0.0, -np.pi], rtol=0, atol=1e-14)
        assert density[0] > density[1]
        assert ProjectedNormal([0.0, 0.0], EYE).modes().location.shape == (0,)


class TestProperties:
    @given(dist=DISTS)
    @settings(max_examples=80, deadline=None)
    def test_integrates_to_one(self, dist):
        nodes, weights = base.nodes_and_weights(dist._panels())
        widest = np.abs(dist._log_slope(nodes)[dist.pdf(nodes) * weights > 1e-6]).max()
        assert_allclose((weights * dist.pdf(nodes)).sum(), 1.0, rtol=0, atol=1e-14 + 1e-15 * widest)

    @given(dist=DISTS, x=st.floats(-6, 6), turn=st.floats(-6, 6))
    @settings(deadline=None)
    def test_rotates_and_repeats(self, dist, x, turn):
        matrix = rotation(turn)
        turned = ProjectedNormal(matrix @ dist.mean, matrix @ dist.cov @ matrix.T)
        condition = np.linalg.cond(dist.cov)
        slack = 40 * rounding(dist, x)
        assert abs(dist.logpdf(x + 2 * np.pi) - dist.logpdf(x)) <= slack
        # Turning the covariance rounds it, which its condition amplifies.
        if condition < 1e4:
            assert abs(turned.logpdf(x + turn) - dist.logpdf(x)) <= slack * (1 + condition)

    @given(dist=DISTS)
    @settings(max_examples=40, deadline=None)
    def test_bounds(self, dist):
        assert dist.resultant_length() <= 1 + 1e-15
        assert dist.entropy() <= np.log(2 * np.pi) + 1e-14

    @given(dist=DISTS, p=st.floats(0, 1))
    @settings(max_examples=60, deadline=None)
    def test_icdf_inverts_cdf(self, dist, p):
        x = dist.icdf(p)
        assert abs(dist.cdf(x) - p) <= 1e-14 + 1e-14 * dist.pdf(x)


class TestFit:
    @pytest.mark.parametrize(
        "parameters",
        [
            (0.5, 0.0, 4.0, 0.0),
            (0.0, 0.0, 20.0, 0.8),
            (3.0, 0.8, 1.0, 0.0),
            (30.0, -0.3, 2.0, 1.0),
            (1.0, 1.57, 100.0, 0.0),
        ],
    )
    def test_is_the_maximum(self, parameters):
        truth = ProjectedNormal(*make(*parameters))
        data = truth.sample(4000, rng=2)
        dist = ProjectedNormal.fit(data)
        best = dist.logpdf(data).mean()
        assert_allclose(np.linalg.det(dist.cov), 1.0, rtol=1e-6)
        # Chi square of four degrees of freedom: once in 10⁵ above 28.5.
        assert 0 <= 2 * data.size * (best - truth.logpdf(data).mean()) < 29
        rng = np.random.default_rng(0)
        for _ in range(10):
            push = 1e-3 * rng.normal(size=(2, 2))
            moved = ProjectedNormal((EYE + push) @ dist.mean, (EYE + push.T) @ dist.cov @ (EYE + push))
            assert moved.logpdf(data).mean() <= best + 1e-12

    def test_many_angles_give_what_grouped_ones_give(self):
        data = np.round(ProjectedNormal([1.0, 0.5], [[2.0, 0.3], [0.3, 0.5]]).sample(50_000, rng=4), 2)
        values, counts = np.unique(data, return_counts=True)
        grouped, single = ProjectedNormal.fit(values, weights=counts), ProjectedNormal.fit(data)
        assert_allclose(single.mean, grouped.mean, rtol=0, atol=1e-5)
        assert_allclose(single.cov, grouped.cov, rtol=0, atol=1e-5)

    def test_finds_the_antipodal_distribution(self):
        data = np.concatenate(
            [WrappedNormal(1.0, 0.2).sample(500, rng=1), WrappedNormal(1.0 - np.pi, 0.2).sample(500, rng=2)]
        )
        assert ProjectedNormal.fit(data).modes().location.shape == (2,)

    def test_the_plateau_of_uniform_angles(self):
        dist = ProjectedNormal.fit(np.linspace(-np.pi, np.pi, 1440, endpoint=False))
        assert_allclose(dist.pdf(np.linspace(-3, 3, 50)), 1 / (2 * np.pi), rtol=1e-8)

    def test_narrow_data(self):
        data = 3.0 + 1e-6 * np.random.default_rng(0).normal(size=500)
        dist = ProjectedNormal.fit(data)
        assert dist.logpdf(data).mean() >= WrappedNormal.fit(data).logpdf(data).mean() - 1e-8


class TestBadInput:
    @pytest.mark.parametrize("cov", [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]])
    def test_singular_covariance(self, cov):
        with pytest.raises(ValueError, match="cov must be"):
            ProjectedNormal([0.0, 0.0], cov)

    def test_shapes(self):
        with pytest.raises(ValueError, match="symmetric"):
            ProjectedNormal([0.0, 0.0], [[1.0, 0.2], [0.1, 1.0]])
        with pytest.raises(ValueError, match=r"mean must have shape \(\.\.\., 2\)"):
            ProjectedNormal([0.0, 0.0, 0.0], EYE)
        with pytest.raises(ValueError, match=r"cov must have shape"):
            ProjectedNormal([0.0, 0.0], np.eye(3))
        with pytest.raises(ValueError, match="do not broadcast"):
            ProjectedNormal(np.zeros((3, 2)), np.tile(EYE, (2, 1, 1)))
        with pytest.raises(ValueError, match="mean must be finite"):
            ProjectedNormal([0.0, np.nan], EYE)
        with pytest.raises(TypeError, match="mean must be real numbers"):
            ProjectedNormal(["a", "b"], EYE)

    def test_data(self):
        with pytest.raises(ValueError, match="data is empty"):
            ProjectedNormal.fit([])
        with pytest.raises(ValueError, match="all angles are equal"):
            ProjectedNormal.fit(np.full(10, -3.0))
        with pytest.raises(ValueError, match="60% of the weight is on one angle"):
            ProjectedNormal.fit([1.0, 1.0, 1.0, 0.3, 2.0])
        with pytest.warns(DegreesWarning):
            ProjectedNormal.fit([10.0, 100.0, 200.0, 350.0, 355.0])
