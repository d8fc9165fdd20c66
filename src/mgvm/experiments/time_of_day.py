"""Which law describes the time of day at which people in New York City took an Uber?

Von Mises, wrapped normal, projected normal and GvM of order 1 to 6 are fitted by maximum likelihood to 564,516
pick-ups, weekdays and weekends apart.
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
    """One law fitted to one group of days."""

    group: str
    name: str
    law: Any
    n_parameters: int
    n_rides: int
    log_likelihood: float

    @property
    def per_ride(self) -> float:
        """Mean log density of a ride, in nats; the density is per radian."""
        return self.log_likelihood / self.n_rides

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 p - 2 log L; small is good."""
        return 2.0 * self.n_parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, p log n - 2 log L; small is good."""
        return self.n_parameters * float(np.log(self.n_rides)) - 2.0 * self.log_likelihood


def laws() -> Iterator[tuple[str, int, Fitter]]:
    """Name, number of free parameters and fit of every law in the demo."""
    yield "von Mises", 2, mgvm.VonMises.fit
    yield "wrapped normal", 2, mgvm.WrappedNormal.fit
    # Mean (2) and covariance (3), less the common scale, which the direction does not show.
    yield "projected normal", 4, mgvm.ProjectedNormal.fit
    for order in range(1, 7):
        yield f"GvM, order {order}", 2 * order, partial(mgvm.GvM.fit, order=order)


def fit_laws(report: Report = silent) -> list[Fit]:
    """Fit every law to both groups of days."""
    pickups = datasets.load_uber_pickups()
    fits = []
    for group, rows in zip(GROUPS, (~pickups.weekend, pickups.weekend), strict=True):
        angles, counts = pickups.by_minute(rows)
        for name, n_parameters, fit in laws():
            report(f"fitting {name} to {group}")
            law = fit(angles, weights=counts)
            log_likelihood = float(counts @ law.logpdf(angles))
            fits.append(Fit(group, name, law, n_parameters, int(counts.sum()), log_likelihood))
    return fits


def best(fits: list[Fit], group: str) -> Fit:
    """The law with the smallest BIC for one group of days."""
    return min((fit for fit in fits if fit.group == group), key=lambda fit: fit.bic)
