"""The demo's times of day: what is told of them is so, and the figure shows them."""

import numpy as np
import pytest

from mgvm.angles import to_hours
from mgvm.datasets import load_flights
from mgvm.experiments import _time_of_day_figure, time_of_day


@pytest.fixture(scope="module")
def fits():
    return time_of_day.compute()


def test_flights_leave_in_five_waves_on_weekdays(fits):
    best = time_of_day.best(fits, "weekdays")
    assert best.name == "GvM, order 8"
    hours = np.sort(to_hours(best.distribution.modes().location))
    np.testing.assert_allclose(hours, [6.5, 8.8, 12.0, 15.5, 18.4], atol=0.06)


def test_order_six_gains_a_sixth_of_a_nat_on_weekdays(fits):
    gain = {fit.name: fit.per_flight for fit in fits if fit.group == "weekdays"}
    assert gain["GvM, order 6"] - gain["von Mises"] == pytest.approx(0.16, abs=0.005)


def test_criteria_count_parameters_and_flights(fits):
    fit = fits[0]
    flights = load_flights()
    assert fit.n_flights == flights.count[~flights.weekend].sum()
    assert fit.aic == pytest.approx(2 * 2 - 2 * fit.per_flight * fit.n_flights)
    assert fit.bic - fit.aic == pytest.approx(2 * np.log(fit.n_flights) - 2 * 2)


def test_figure_draws_the_fitted_densities(fits):
    panels = _time_of_day_figure.draw(fits).axes
    assert len(panels) == 2
    for ax, group in zip(panels, time_of_day.GROUPS, strict=True):
        best = time_of_day.best(fits, group)
        assert f"{best.n_flights:,} flights" in ax.get_title()
        (curve,) = (line for line in ax.lines if line.get_label() == "best by BIC")
        np.testing.assert_allclose(curve.get_ydata() ** 2 / 2, best.distribution.pdf(curve.get_xdata()), rtol=1e-9)
