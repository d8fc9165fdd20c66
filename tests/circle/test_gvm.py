"""The Generalised von Mises law above its numerics: forms, reductions, modes, fits."""

from __future__ import annotations

import time
import warnings

import mpmath as mp
import numpy as np
import pytest
from naive.gvm import mpmath_reference

from mgvm import GvM, VonMises
from mgvm.datasets import load_uber_pickups


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
    pickups = load_uber_pickups()
    angles, counts = pickups.by_minute(~pickups.weekend)
    GvM.fit(angles, weights=counts, order=6)  # compiles
    begin = time.process_time()
    law = GvM.fit(angles, weights=counts, order=6)
    assert time.process_time() - begin < 0.5
    assert law.moment(1) == pytest.approx((counts * np.exp(1j * angles)).sum() / counts.sum(), abs=1e-11)


@pytest.mark.parametrize("spread", [1e-2, 1e-3, 1e-4, 1e-6])
def test_narrow_data_are_fitted_or_the_fit_says_why_not(spread):
    data = spread * np.random.default_rng(0).gamma(2.0, size=1000)
    alone = GvM.fit(data, order=1).logpdf(data).mean()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        law = GvM.fit(data, order=4)
    assert law.logpdf(data).mean() >= alone - 1e-9
    assert [
        str(item.message) for item in caught if "too narrow for so many harmonics; lower the order" in str(item.message)
    ]
    assert caught[0].filename == __file__


def test_a_law_too_narrow_for_doubles_is_refused():
    with pytest.raises(ValueError, match=r"total concentration.*at most 1e\+15, got 1e\+20"):
        GvM([1e20, 0.0])
    with pytest.raises(ValueError, match="total concentration"):
        VonMises(0.0, 1e300)
