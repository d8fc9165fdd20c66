"""Highest-density regions of many distributions at once, against the distributions' own."""

import numpy as np
import pytest

import mgvm
from mgvm.tables import Unit
from mgvm.workflows.predictions import arc_ends, arc_text, hdr_arcs

DISTS = {
    "von Mises from flat to a point": mgvm.VonMises(
        np.linspace(-3.1, 3.1, 6), np.array([0.0, 0.5, 3.0, 2e2, 1e4, 1e9])
    ),
    "two modes, from broad to narrow": mgvm.GvM.from_polar(
        kappa=np.array([[0.1, 4.0], [0.3, 50.0], [1e-3, 5e3]]), mu=np.array([[0.4, 1.5]] * 3)
    ),
}


@pytest.mark.parametrize("mass", [0.5, 0.9])
@pytest.mark.parametrize("dist", DISTS.values(), ids=DISTS)
def test_arcs_are_those_of_the_distributions(dist, mass):
    exact = dist.interval(mass)
    for n, found in enumerate(hdr_arcs(dist, mass)):
        there = exact[n][~np.isnan(exact[n][:, 0])]
        assert found.shape == there.shape
        width = float((there[:, 1] - there[:, 0]).max())
        by_place = [part[np.argsort(part[:, 0])] for part in (found, there)]
        np.testing.assert_allclose(*by_place, atol=min(3e-3 * width, 6e-4))


def test_the_heaviest_arc_is_first():
    dist = mgvm.GvM.from_polar(kappa=np.array([[0.1, 6.0]]), mu=np.array([[2.5, -0.6]]))
    (found,) = hdr_arcs(dist, 0.5)
    assert len(found) == 2
    mass = [float(dist.cdf(upper)[0] - dist.cdf(lower)[0]) for lower, upper in found]
    assert mass[0] > mass[1]
    assert sum(mass) == pytest.approx(0.5, abs=2e-3)


def test_arcs_as_text_count_as_the_unit_does():
    parts = np.array([[np.deg2rad(80.0), np.deg2rad(100.0)], [-0.1, 0.1]])
    assert arc_text(arc_ends(parts, Unit("compass")), Unit("compass")) == "350.0..10.0; 84.3..95.7"
    assert arc_text(arc_ends(parts, Unit("degrees", signed=True)), Unit("degrees")) == "80.0..100.0; -5.7..5.7"
