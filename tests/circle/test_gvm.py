"""The Generalised von Mises law above its numerics: forms, reductions, modes, fits."""

from __future__ import annotations

import time
import warnings

import mpmath as mp
import numpy as np
import pytest
from naive.gvm import mpmath_reference

from mgvm import GvM, VonMises
from mgvm.datasets import load_flights


def test_order_one_is_the_von_mises_law_to_the_last_bit():
    mu, kappa = np.array([0.3, -2.0, 1.0]), np.array([0.0, 3.0, 1e7])
    gvm, von_mises = GvM((kappa * np.exp(1j * mu))[:, None]), VonMises(mu, kappa)
    x = np.linspace(-4, 4, 9)[:, None]
    assert (gvm.logpdf(x) == von_mises.logpdf(x)).all()
    assert (gvm.log_normalizer() == von_mises.log_normalizer()).all()
    assert (gvm.entropy() == von_mises.entropy()).all()
    for k in (1, 2, 7):
        assert (gvm.moment(k) == von_mises.moment(k)).all()


def test_polar_form_and_back():
    kappa, mu = np.array([[2.0, 1.0, 0.5], [0.1, 3.0, 2.0]]), np.array([[0.5, 1.0, -0.2], [-3.0, 1.2, 0.9]])
    law = GvM.from_polar(kappa, mu)
    assert law.order == 3
    again = GvM.from_polar(*law.to_polar())
    assert again.eta == pytest.approx(law.eta, abs=1e-14)
    direction = GvM([-1.0, -2.0, 0.5j]).to_polar()[1]
    assert direction == pytest.approx([-np.pi, -np.pi / 2, np.pi / 6])
    x = np.array([[0.3], [1.9]])[:, 0]
    plain = sum(kappa[:, t - 1] * np.cos(t * (x - mu[:, t - 1])) for t in (1, 2, 3))
    assert law.logpdf(x) + law.log_normalizer() == pytest.approx(plain, abs=1e-13)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_absent_harmonics_make_a_lower_order(order):
    eta = np.array([1.5 * np.exp(0.4j), 0.7j, 1.1, -0.3, 0.2j])[: order - 1]
    law, longer = GvM(eta), GvM(np.append(eta, 0.0))
    x = np.linspace(-3, 3, 11)
    assert longer.logpdf(x) == pytest.approx(law.logpdf(x), abs=1e-13)
    assert longer.moment(3) == pytest.approx(law.moment(3), abs=1e-14)
    assert longer.modes().location == pytest.approx(law.modes().location, abs=1e-8)


def test_no_harmonics_are_the_uniform_law():
    law = GvM(np.zeros((2, 0)))
    assert law.logpdf(1.0) == pytest.approx(-np.log(2 * np.pi) * np.ones(2))
    assert law.modes().location.shape == (2, 0)


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


@pytest.mark.parametrize("eta", [[1e8 * np.exp(1j), 1e5j], [3e7j, 1e7], [2.0, 2e7]])
def test_log_density_of_narrow_laws_near_and_far(eta):
    """To the rounding of the angle times the slope, of a value of this size, and of the weights of two modes."""
    log_z = mpmath_reference(eta)[0]
    law = GvM(eta)
    centre = float(law.modes().location[0])
    weights = 4e-16 * (np.abs(eta) * [1, 4]).sum() * float(law.circular_variance())
    for x in centre + np.array([0.0, 1e-5, -1e-4, 3e-4, 1e-2, 1.0, 3.0]):
        with mp.workdps(40):
            exact = mp.re(sum(mp.conj(mp.mpc(c)) * mp.expj(t * mp.mpf(float(x))) for t, c in enumerate(eta, 1))) - log_z
        slack = 1e-11 + weights + 4e-16 * (abs(float(law._log_slope(np.array(x)))) + abs(float(exact)))
        assert abs(float(law.logpdf(x)) - float(exact)) < slack


def test_angles_of_any_size():
    law = GvM([2.0 + 1j, 0.5j])
    for x in (1e3, -3e7, 1e15):
        plain = 2 * np.cos(x) + np.sin(x) + 0.5 * np.sin(2 * x) - law.log_normalizer()
        assert law.logpdf(x) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_a_fit_matches_the_moments_of_the_data(order):
    data = GvM([1.0, -2j, 1.5]).sample(3000, rng=order)
    law = GvM.fit(data, order=order)
    for t in range(1, order + 1):
        assert law.moment(t) == pytest.approx(np.exp(1j * t * data).mean(), abs=1e-11)


def test_order_by_information_criteria():
    data = GvM([1.0, -2j, 1.5]).sample(20_000, rng=0)
    assert GvM.fit(data, order="bic").order == 3
    assert GvM.fit(data, order="aic").order >= 3
    flat = VonMises(0.0, 0.0).sample(2000, rng=1)
    law = GvM.fit(flat, order="bic")
    assert law.order == 1
    assert np.abs(law.eta) == pytest.approx(0)


def test_higher_orders_are_never_less_likely():
    data = np.random.default_rng(3).gamma(2.0, 0.3, 500)
    heights = [GvM.fit(data, order=order).logpdf(data).mean() for order in (1, 2, 3, 4)]
    assert (np.diff(heights) > -1e-12).all()


def test_half_a_million_weighted_angles_in_an_instant():
    flights = load_flights()
    angles, counts = flights.by_minute(~flights.weekend)
    counts = 25 * counts
    assert counts.sum() > 500_000
    GvM.fit(angles, weights=counts, order=6)  # compiles
    begin = time.process_time()
    law = GvM.fit(angles, weights=counts, order=6)
    assert time.process_time() - begin < 0.5
    assert law.moment(1) == pytest.approx((counts * np.exp(1j * angles)).sum() / counts.sum(), abs=1e-11)


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
    law = GvM.fit(2.0 + spread * data, order=order)
    height = law.logpdf(2.0 + spread * data).mean() + np.log(spread)
    # Parameters of size K round the log density of the data by K·spread roundings.
    slack = 0.3 * spread**2 + 4e-16 * spread * float(np.abs(law.eta).sum())
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
    law = GvM.fit(data, order=2)
    assert law.modes().location.size == 2
    for t in (1, 2):
        assert law.moment(t) == pytest.approx(np.exp(1j * t * data).mean(), abs=1e-12)
    assert law.logpdf(data).mean() > VonMises.fit(data).logpdf(data).mean() + 1e-3


@pytest.mark.parametrize(
    "data", [[0.0, 1.0], [0.0, 1.0, 2.0], [0.0, np.pi, 0.1], [0.0, 2.0, 4.0, 1.0], [0.0, 0.0, 0.5, 1.0, 4.0]]
)
def test_a_few_different_angles_are_enough_for_one_order_less(data):
    order = len(set(data)) - 1
    law = GvM.fit(data, order=order)
    for t in range(1, order + 1):
        assert law.moment(t) == pytest.approx(np.exp(1j * t * np.array(data)).mean(), abs=1e-12)
    with pytest.raises(ValueError, match=f"lower the order to {order}"):
        GvM.fit([*data, data[0] + 2 * np.pi], order=order + 1)


def test_a_law_too_narrow_for_doubles_is_refused():
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
