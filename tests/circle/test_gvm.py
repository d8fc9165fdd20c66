"""The Generalised von Mises distribution above its numerics: forms, reductions, modes, fits."""

from __future__ import annotations

import tracemalloc
import warnings

import mpmath as mp
import numpy as np
import pytest
from naive.gvm import log_density_condition, mpmath_reference
from portable import polar

from mgvm import GvM, VonMises
from mgvm.circle.fitting import fit_moments
from mgvm.datasets import load_flights


def test_order_one_is_the_von_mises_distribution_to_the_last_bit():
    mu, kappa = np.array([0.3, -2.0, 1.0]), np.array([0.0, 3.0, 1e7])
    gvm, von_mises = GvM(polar(kappa, mu)[:, None]), VonMises(mu, kappa)
    x = np.linspace(-4, 4, 9)[:, None]
    assert (gvm.logpdf(x) == von_mises.logpdf(x)).all()
    assert (gvm.log_normalizer() == von_mises.log_normalizer()).all()
    assert (gvm.entropy() == von_mises.entropy()).all()
    for k in (1, 2, 7):
        assert (gvm.moment(k) == von_mises.moment(k)).all()


def test_polar_form_and_back():
    kappa, mu = np.array([[2.0, 1.0, 0.5], [0.1, 3.0, 2.0]]), np.array([[0.5, 1.0, -0.2], [-3.0, 1.2, 0.9]])
    dist = GvM.from_polar(kappa, mu)
    assert dist.order == 3
    again = GvM.from_polar(*dist.to_polar())
    assert again.eta == pytest.approx(dist.eta, abs=1e-14)
    direction = GvM([-1.0, -2.0, 0.5j]).to_polar()[1]
    assert direction == pytest.approx([-np.pi, -np.pi / 2, np.pi / 6])
    x = np.array([[0.3], [1.9]])[:, 0]
    plain = sum(kappa[:, t - 1] * np.cos(t * (x - mu[:, t - 1])) for t in (1, 2, 3))
    assert dist.logpdf(x) + dist.log_normalizer() == pytest.approx(plain, abs=1e-13)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_absent_harmonics_make_a_lower_order(order):
    eta = np.array([polar(1.5, 0.4), 0.7j, 1.1, -0.3, 0.2j])[: order - 1]
    dist, longer = GvM(eta), GvM(np.append(eta, 0.0))
    x = np.linspace(-3, 3, 11)
    assert longer.logpdf(x) == pytest.approx(dist.logpdf(x), abs=1e-13)
    assert longer.moment(3) == pytest.approx(dist.moment(3), abs=1e-14)
    assert longer.modes().location == pytest.approx(dist.modes().location, abs=1e-8)


def test_no_harmonics_are_the_uniform_distribution():
    dist = GvM(np.zeros((2, 0)))
    assert dist.logpdf(1.0) == pytest.approx(-np.log(2 * np.pi) * np.ones(2))
    assert dist.modes().location.shape == (2, 0)


@pytest.mark.parametrize(
    ("phase", "boundary"),
    [(0.0, 4.0), (np.pi / 2, 4.0), (np.pi / 4, 2.0)],
    ids=["aligned", "across", "between"],
)
def test_when_there_are_two_modes(phase, boundary):
    """The printed rule 4κ₂ >= κ₁ holds for aligned directions only; half-way between it is 2κ₂ >= κ₁."""
    for second in (1.0, 30.0, 1e5):
        just_two = GvM.from_polar([boundary * second * (1 - 1e-4), second], [0.0, phase])
        just_one = GvM.from_polar([boundary * second * (1 + 1e-4), second], [0.0, phase])
        assert just_two.modes().location.size == 2
        assert just_one.modes().location.size == 1


def test_the_flat_mode_is_one_mode():
    location, _ = GvM([40j, 10.0]).modes()
    assert location == pytest.approx([np.pi / 2], abs=1e-4)


def test_two_equal_modes_share_the_arcs():
    arcs = GvM([3j, 4.0]).interval(0.6)
    assert arcs.shape == (2, 2)
    assert np.ptp(np.diff(arcs, axis=1)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("eta", [[polar(1e8, 1), 1e5j], [3e7j, 1e7], [2.0, 2e7]])
def test_log_density_of_narrow_distributions_near_and_far(eta):
    """To four roundings of the angle times the slope, of a value of this size, and of each parameter."""
    log_z, moments, *_ = mpmath_reference(eta)
    dist = GvM(eta)
    centre = float(dist.modes().location[0])
    for x in centre + np.array([0.0, 1e-5, -1e-4, 3e-4, 1e-2, 1.0, 3.0]):
        with mp.workdps(40):
            exact = mp.re(sum(mp.conj(mp.mpc(c)) * mp.expj(t * mp.mpf(float(x))) for t, c in enumerate(eta, 1))) - log_z
        moved = log_density_condition(eta, moments, x) + abs(float(dist._log_slope(np.array(x)))) + abs(float(exact))
        assert abs(float(dist.logpdf(x)) - float(exact)) < 1e-13 + 4 * np.finfo(float).eps * moved


def test_angles_of_any_size():
    dist = GvM([2.0 + 1j, 0.5j])
    for x in (1e3, -3e7, 1e15):
        plain = 2 * np.cos(x) + np.sin(x) + 0.5 * np.sin(2 * x) - dist.log_normalizer()
        assert dist.logpdf(x) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_a_fit_matches_the_moments_of_the_data(order):
    data = GvM([1.0, -2j, 1.5]).sample(3000, rng=order)
    dist = GvM.fit(data, order=order)
    for t in range(1, order + 1):
        assert dist.moment(t) == pytest.approx(np.exp(1j * t * data).mean(), abs=1e-11)


def test_order_by_information_criteria():
    # One order too many gains half a chi square of two degrees of freedom: once in 10⁵ more than log n.
    data = GvM([1.0, -2j, 1.5]).sample(100_000, rng=0)
    assert GvM.fit(data, order="bic").order == 3
    assert GvM.fit(data, order="aic").order >= 3
    flat = VonMises(0.0, 0.0).sample(100_000, rng=1)
    dist = GvM.fit(flat, order="bic")
    assert dist.order == 1
    assert np.abs(dist.eta) == pytest.approx(0)


def test_higher_orders_are_never_less_likely():
    data = np.random.default_rng(3).gamma(2.0, 0.3, 500)
    heights = [GvM.fit(data, order=order).logpdf(data).mean() for order in (1, 2, 3, 4)]
    assert (np.diff(heights) > -1e-12).all()


def test_half_a_million_weighted_angles():
    flights = load_flights()
    angles, counts = flights.by_minute(~flights.weekend)
    counts = 25 * counts
    assert counts.sum() > 500_000
    dist = GvM.fit(angles, weights=counts, order=6)
    assert dist.moment(1) == pytest.approx((counts * np.exp(1j * angles)).sum() / counts.sum(), abs=1e-11)


def likelihood_on_the_line(data, degree):
    """Highest mean log likelihood among the densities exp(polynomial of this degree), by plain Newton on a grid."""
    reach = 4 * np.abs(data).max()
    grid = np.linspace(-reach, reach, 20_001)
    basis, statistics = (np.polynomial.hermite_e.hermevander(x, degree).T[1:] for x in (grid, data))
    target, step = statistics.mean(axis=1), grid[1] - grid[0]
    theta = np.zeros(degree)
    theta[1], theta[-1] = -0.5, -1e-3

    def height(theta):
        value = theta @ basis
        weight = np.exp(value - value.max())
        return theta @ target - value.max() - np.log(weight.sum() * step), weight / weight.sum()

    best, mass = height(theta)
    for _ in range(200):
        mean = basis @ mass
        move = np.linalg.solve((basis * mass) @ basis.T - np.outer(mean, mean), target - mean)
        share = 1.0
        while share > 1e-9 and height(theta + share * move)[0] < best:
            share /= 2
        theta = theta + share * move
        before, (best, mass) = best, height(theta)
        if best - before < 1e-12:
            return best
    raise AssertionError("no maximum")


SHAPES = {
    "skew": np.random.default_rng(0).gamma(2.0, size=1000),
    "flat": np.random.default_rng(1).uniform(-1, 1, 1000),
    "two heaps": np.random.default_rng(2).normal(np.repeat([-2.0, 2.0], 500), 0.7),
}


@pytest.mark.parametrize(
    ("spread", "order", "shape"),
    [(0.03, 2, "skew"), (0.01, 2, "skew"), (1e-3, 2, "skew"), (0.01, 3, "skew"), (1e-3, 2, "two heaps")]
    + [(0.1, 3, "flat"), (0.01, 3, "flat"), (0.1, 4, "flat")],
)
def test_narrow_data_are_fitted_as_on_the_line(spread, order, shape):
    """A GvM of order T on a short arc is the exponential of a polynomial of degree 2T; curvature adds spread²."""
    data = (SHAPES[shape] - SHAPES[shape].mean()) / SHAPES[shape].std()
    dist = GvM.fit(2.0 + spread * data, order=order)
    height = dist.logpdf(2.0 + spread * data).mean() + np.log(spread)
    # Parameters of size K round the log density of the data by K·spread roundings.
    slack = 0.3 * spread**2 + 4e-16 * spread * float(np.abs(dist.eta).sum())
    assert height == pytest.approx(likelihood_on_the_line(data, 2 * order), abs=1e-6 + slack)


@pytest.mark.parametrize("spread", [1e-2, 1e-3, 1e-4, 1e-6])
def test_narrow_data_are_fitted_or_the_fit_says_why_not(spread):
    data = spread * np.random.default_rng(0).gamma(2.0, size=1000)
    heights = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for order in (1, 2, 4, 8):
            heights.append(GvM.fit(data, order=order).logpdf(data).mean())
    # Parameters of size K round the log density of the data by K·spread roundings.
    assert (np.diff(heights) > -1e-3 * spread**0.5).all()
    assert caught
    for item in caught:
        assert "too narrow for so many harmonics in double precision; lower the order" in str(item.message)
        assert item.filename == __file__


def test_heavy_tails_on_a_short_arc():
    """Their maximum has a heap of 1e-13 of the mass on the far side, a wall that plain Newton steps run into."""
    data = 0.01 * np.random.default_rng(4).standard_t(3, size=2000)
    dist = GvM.fit(data, order=2)
    assert dist.modes().location.size == 2
    for t in (1, 2):
        assert dist.moment(t) == pytest.approx(np.exp(1j * t * data).mean(), abs=1e-12)
    assert dist.logpdf(data).mean() > VonMises.fit(data).logpdf(data).mean() + 1e-3


@pytest.mark.parametrize(
    "data", [[0.0, 1.0], [0.0, 1.0, 2.0], [0.0, np.pi, 0.1], [0.0, 2.0, 4.0, 1.0], [0.0, 0.0, 0.5, 1.0, 4.0]]
)
@pytest.mark.filterwarnings("ignore:.*leaves holes")
def test_a_few_different_angles_are_enough_for_one_order_less(data):
    order = len(set(data)) - 1
    dist = GvM.fit(data, order=order)
    for t in range(1, order + 1):
        assert dist.moment(t) == pytest.approx(np.exp(1j * t * np.array(data)).mean(), abs=1e-12)
    with pytest.raises(ValueError, match=f"lower the order to {order}"):
        GvM.fit([*data, data[0] + 2 * np.pi], order=order + 1)


def test_a_distribution_too_narrow_for_doubles_is_refused():
    with pytest.raises(ValueError, match=r"total concentration.*at most 1e\+15, got 1e\+20"):
        GvM([1e20, 0.0])
    with pytest.raises(ValueError, match="total concentration"):
        VonMises(0.0, 1e300)
    for fit in (VonMises.fit, GvM.fit):
        with pytest.raises(ValueError, match="within 8e-10 radians of their mean.*fit WrappedNormal"):
            fit([1.0, 1.0 + 1e-9, 1.0 + 2e-9])


@pytest.mark.parametrize("shape", ["normal", "gamma"])
def test_a_climb_ended_by_what_doubles_hold_is_not_called_a_maximum(shape):
    rng = np.random.default_rng(0)
    data = 3e-4 * (rng.normal(size=500) if shape == "normal" else rng.gamma(2.0, size=500))
    with pytest.warns(RuntimeWarning, match="lower the order"):
        GvM.fit(data, order=3)


def test_many_distributions_from_moments():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(20, 3)) + 1j * rng.normal(size=(20, 3))
    truth[0], truth[1] = 0.0, (300.0, 5.0, 0.0)
    moments = np.stack([GvM(truth).moment(t) for t in (1, 2, 3)], axis=1)
    found = fit_moments(moments / (1.0 - 1e-6), np.full(20, 1e12), np.zeros((20, 3), dtype=complex))
    again = np.stack([GvM(found).moment(t) for t in (1, 2, 3)], axis=1)
    np.testing.assert_allclose(again, moments, atol=1e-6)
    few = fit_moments(np.ones((1, 1), dtype=complex), np.array([1.0]), np.zeros((1, 1), dtype=complex))
    assert 0.3 < abs(few[0, 0]) < 30.0  # a single angle


class TestHoles:
    """Orders that the angles do not tell: the likelihood is highest for peaks on the data and nothing between."""

    def draw(self, size, step=0.0):
        rng = np.random.default_rng(2)
        angles = np.where(rng.random(size) < 0.6, VonMises(0, 8).sample(size, rng), VonMises(2.4, 6).sample(size, rng))
        return np.round(angles / step) * step if step else angles

    @pytest.mark.parametrize("step", [0.0, np.pi / 18])
    def test_a_high_order_of_few_angles_is_warned_of(self, step):
        with pytest.warns(RuntimeWarning, match=r"order 8 leaves holes.*38 angles.*too few for 16 parameters.*lower"):
            dist = GvM.fit(self.draw(38, step), order=8)
        assert dist.order == 8
        assert dist.logpdf(self.draw(2000)).mean() < -10  # the warning is right

    def test_the_rounding_is_named(self):
        with pytest.warns(RuntimeWarning, match=r"rounded to 10° \(\d+ different ones\)"):
            GvM.fit(self.draw(38, np.pi / 18), order=8)

    def test_a_criterion_passes_them_over(self):
        """Thirty draws of a von Mises distribution rounded to 10°: order 8 has peaks on eight of nine values."""
        tens, counts = [-5, -3, -2, -1, 0, 1, 2, 3, 5], [1, 1, 5, 6, 2, 4, 5, 5, 1]
        angles = np.radians(10.0 * np.repeat(tens, counts))
        with pytest.warns(
            RuntimeWarning, match=r"holes.*rounded to 10°.*order 1 is taken, although BIC is least for 8"
        ):
            dist = GvM.fit(angles, order="bic")
        assert dist.order == 1

    def test_holes_that_the_data_speak_for_are_silent(self):
        rng = np.random.default_rng(0)
        angles = np.concatenate([VonMises(0, 200).sample(60, rng), VonMises(3, 200).sample(40, rng)])
        for order in (2, "bic"):
            dist = GvM.fit(angles, order=order)
            assert dist.order >= 2
            assert dist.logpdf(1.5) < -50

    def test_many_angles_are_fitted_silently(self):
        for step in (0.0, np.pi / 18):
            assert GvM.fit(self.draw(2000, step), order=6).order == 6


def test_memory_grows_with_the_panels_not_with_their_square():
    """A flat top of cancelling harmonics has 20,000 panels: their square would take 3 GB."""
    dist = GvM(2e8 * np.array([56.0, -28.0, 8.0, -1.0], dtype=complex))
    panels = dist._panels().shape[-1]
    assert panels > 15_000
    tracemalloc.start()
    x = dist.icdf(np.linspace(0.1, 0.9, 9))
    assert dist.cdf(x) == pytest.approx(np.linspace(0.1, 0.9, 9), abs=1e-9)
    arcs = dist.interval(0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (dist.cdf(arcs[:, 1]) - dist.cdf(arcs[:, 0])).sum() == pytest.approx(0.5, abs=1e-9)
    assert peak < 8000 * panels
