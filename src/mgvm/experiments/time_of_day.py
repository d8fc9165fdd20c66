"""Which distribution describes the time of day at which flights leave New York?

Von Mises, wrapped normal, projected normal and GvM of order 1 to 8 are fitted by maximum likelihood to 27,662
departures, weekdays and weekends apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import mgvm
from mgvm import datasets
from mgvm.experiments._experiment import Report, silent

GROUPS = ("weekdays", "weekends")

Fitter = Callable[..., Any]


@dataclass(frozen=True)
class Fit:
    """One distribution fitted to one group of days."""

    group: str
    name: str
    distribution: Any
    n_parameters: int
    n_flights: int
    log_likelihood: float

    @property
    def per_flight(self) -> float:
        """Mean log density of a flight, in nats; the density is per radian."""
        return self.log_likelihood / self.n_flights

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 p - 2 log L; small is good."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, p log n - 2 log L; small is good."""
        return self.n_parameters * float(np.log(self.n_flights)) - 2.0 * self.log_likelihood


def distributions() -> Iterator[tuple[str, int, Fitter]]:
    """Name, number of free parameters and fit of every distribution in the demo."""
    yield "von Mises", 2, mgvm.VonMises.fit
    yield "wrapped normal", 2, mgvm.WrappedNormal.fit
    # Mean (2) and covariance (3), less the common scale, which the direction does not show.
    yield "projected normal", 4, mgvm.ProjectedNormal.fit
    for order in range(1, 9):
        yield f"GvM, order {order}", 2 * order, partial(mgvm.GvM.fit, order=order)


def compute(report: Report = silent) -> list[Fit]:
    """Fit every distribution to both groups of days."""
    flights = datasets.load_flights()
    fits = []
    for group, rows in zip(GROUPS, (~flights.weekend, flights.weekend), strict=True):
        angles, counts = flights.by_minute(rows)
        for name, n_parameters, fit in distributions():
            report(f"fitting {name} to {group}")
            distribution = fit(angles, weights=counts)
            log_likelihood = float(counts @ distribution.logpdf(angles))
            fits.append(Fit(group, name, distribution, n_parameters, int(counts.sum()), log_likelihood))
    return fits


def best(fits: list[Fit], group: str) -> Fit:
    """The distribution with the smallest BIC for one group of days."""
    return min((fit for fit in fits if fit.group == group), key=lambda fit: fit.bic)
