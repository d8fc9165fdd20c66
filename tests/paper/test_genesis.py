"""Genesis: angles made from Gaussian draws follow the distributions that they should, and no others."""

import numpy as np
import pytest

from mgvm import MGvM, VonMises, WrappedNormal
from paper import genesis

CIRCLE = np.linspace(-np.pi, np.pi, 2000, endpoint=False)


@pytest.fixture(scope="module")
def found():
    return genesis.compute(count=4000)


def test_a_gaussian_on_the_circle_is_the_gvm_of_the_formula():
    mean, cov = np.array([0.3, -0.8]), np.array([[0.5, 0.2], [0.2, 1.1]])
    apart = np.stack([np.cos(CIRCLE), np.sin(CIRCLE)], axis=1) - mean
    density = np.exp(-0.5 * np.einsum("ni,ij,nj->n", apart, np.linalg.inv(cov), apart))
    density /= density.mean() * 2 * np.pi
    np.testing.assert_allclose(genesis.conditioned(mean, cov).pdf(CIRCLE), density, rtol=1e-9)
    np.testing.assert_allclose(
        genesis.conditioned(mean, cov).logpdf(CIRCLE), MGvM.from_gaussian(mean, cov).logpdf(CIRCLE[:, None]), atol=1e-9
    )


def test_kuiper_by_hand():
    # A uniform distribution has F = (x + π) / 2π; the steps of four draws are 1/4 high.
    draws = 2 * np.pi * np.array([0.05, 0.1, 0.15, 0.9]) - np.pi
    assert genesis.kuiper_distance(VonMises(0.0, 0.0), draws) == pytest.approx(0.6 + 0.15)
    # It does not depend on where the circle is cut.
    turned = np.mod(draws + 1.0 + np.pi, 2 * np.pi) - np.pi
    assert genesis.kuiper_distance(VonMises(0.0, 0.0), turned) == pytest.approx(0.75)


def test_chance_exceeds_the_critical_distance_one_time_in_twenty():
    rng = np.random.default_rng(0)
    dist = VonMises(0.0, 0.0)
    beyond = [
        genesis.kuiper_distance(dist, rng.uniform(-np.pi, np.pi, 80)) > genesis.critical_distance(80)
        for _ in range(300)
    ]
    assert 0.02 < np.mean(beyond) < 0.09


def test_every_construction_follows_its_distribution(found):
    assert [one.family for one in found.constructions] == list(genesis.FAMILIES)
    for one in found.constructions:
        assert one.angles.size == 4000
        assert one.kuiper < one.critical
        assert one.log_density == pytest.approx(float(-one.dist.entropy()), abs=0.06)


def test_a_wrong_distribution_is_noticed(found):
    line = found.constructions[0]
    mean, deviation = genesis.LINE
    wrong = WrappedNormal(mean, 1.1 * deviation)
    assert genesis.kuiper_distance(wrong, line.angles) > line.critical
    # A radius of 1 is not the same as any radius.
    mean, cov = genesis.ANY
    directions = np.arctan2(*found.constructions[3].seen.T[::-1])
    dist = genesis.conditioned(mean, cov)
    assert genesis.kuiper_distance(dist, directions) > 2 * genesis.critical_distance(directions.size)


def test_the_own_family_fits_best_and_what_holds_it_as_well(found):
    losses = {(row.construction, row.family): row for row in found.losses}
    for one in found.constructions:
        own = losses[one.name, one.family]
        # Twice n times the gain is chi square of as many degrees as there are parameters, four at most.
        assert 0.0 <= -2 * 4000 * own.loss < 20.0
    held = losses[genesis.CONDITIONING, "generalised von Mises"]
    assert held.loss <= losses[genesis.CONDITIONING, "von Mises"].loss + 1e-9
    for family in ("wrapped normal", "von Mises"):
        row = losses[genesis.CONDITIONING_ANY, family]
        assert row.loss > 5 * row.standard_error


def test_what_is_drawn_and_told(found):
    experiment = genesis.experiment()
    figure = genesis.draw(found, dpi=30)
    roses = [ax for ax in figure.axes if ax.name == "polar"]
    assert len(roses) == len(figure.axes) / 2 == 4
    for ax, one in zip(roses, found.constructions, strict=True):
        (curve,) = ax.lines
        np.testing.assert_allclose(curve.get_ydata() ** 2 / 2, one.dist.pdf(curve.get_xdata()), rtol=1e-9)
        # Neighbouring sectors have neighbouring colours, also across ±π.
        colours = np.array([bar.get_facecolor()[:3] for bar in ax.patches])
        assert np.abs(colours - np.roll(colours, 1, axis=0)).max() < 0.12
    text = experiment.text(found)
    assert max(map(len, text.splitlines())) <= 80
    assert "generalised von Mises" in text
    tables = [make(found) for make in experiment.tables.values()]
    assert all(table.to_csv().startswith(b"# mgvm ") for table in tables)
    assert [len(table.rows) for table in tables] == [4, 16]
