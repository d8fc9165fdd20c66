"""GridDensity: the distribution between its nodes, and what it does with values that say little."""

from __future__ import annotations

import numpy as np
import pytest
from portable import cos, polar
from scipy import stats

from mgvm import GridDensity, GvM, VonMises, WrappedNormal
from mgvm._numerics.grid import envelope

EVERYWHERE = np.random.default_rng(5).uniform(-np.pi, np.pi, 5000)


def nodes(count):
    return -np.pi + 2 * np.pi * np.arange(count) / count


def on_grid(dist, count):
    return GridDensity(dist[..., None].logpdf(nodes(count)))


def random_gvm(rng, order, concentration):
    harmonics = np.arange(1, order + 1)
    share = rng.dirichlet(np.ones(order)) * concentration / harmonics**2
    return GvM(polar(share, 2 * np.pi * rng.random(order)))


@pytest.mark.parametrize("concentration", [0.1, 1, 5, 20, 100, 1e3, 1e4, 1e6])
@pytest.mark.parametrize(("order", "error"), [(1, 1e-11), (2, 1e-8)])
def test_a_gvm_on_as_many_nodes_as_its_moments_need(order, error, concentration):
    rng = np.random.default_rng(order)
    count = int(np.ceil(17 + 7.5 * np.sqrt(concentration)))
    # Where the density is within e^-30 of its peak its slope is up to √(60 K); the angle, the node and their difference
    # are rounded to 4.4e-16 each. Twice that.
    rounding = 1e-12 + 2e-14 * np.sqrt(concentration)
    error = rounding + (error if concentration < 100 else 1e-12)
    for _ in range(5):
        dist = random_gvm(rng, order, concentration)
        grid = on_grid(dist, count)
        exact = dist.logpdf(EVERYWHERE)
        likely = exact > exact.max() - 30
        assert np.abs(grid.logpdf(EVERYWHERE) - exact)[likely].max() < error
        for k in (1, 2, 5):
            assert grid.moment(k) == pytest.approx(dist.moment(k), abs=1e-12)
        assert grid.entropy() == pytest.approx(dist.entropy(), abs=rounding * 15)


def test_nodes_are_met_exactly():
    dist = random_gvm(np.random.default_rng(0), 3, 30.0)
    grid = on_grid(dist, 64)
    assert grid.logpdf(grid.nodes) == pytest.approx(dist.logpdf(grid.nodes), abs=1e-13)
    assert (grid.nodes == nodes(64)).all()


def test_slopes_are_those_of_the_interpolant():
    grid = on_grid(GvM([3j, 4.0]), 80)
    step = 1e-5
    slope = (grid.logpdf(EVERYWHERE + step) - grid.logpdf(EVERYWHERE - step)) / (2 * step)
    assert grid._log_slope(EVERYWHERE) == pytest.approx(slope, abs=1e-7)


def test_a_constant_in_the_logarithms_changes_nothing():
    values = GvM([1.0, 2j]).logpdf(nodes(48))
    for constant in (-1e5, 1e5):
        assert GridDensity(values + constant).logpdf(EVERYWHERE) == pytest.approx(
            GridDensity(values).logpdf(EVERYWHERE), abs=1e-9
        )


def test_high_moments_come_from_the_interpolant():
    dist = VonMises(0.4, 50.0)
    grid = on_grid(dist, 71)
    for k in (9, 30, 36, 40, -40):
        assert grid.moment(k) == pytest.approx(dist.moment(k), abs=1e-11)


def test_a_flat_distribution_has_no_modes_in_spite_of_rounding():
    values = np.full(64, -1.8) + 1e-16 * np.random.default_rng(1).integers(-2, 3, 64)
    dist = GridDensity(values)
    assert dist.modes().location.size == 0
    assert dist.interval(0.5).shape == (1, 2)


def test_zeros_of_the_density_stay_negligible():
    values = np.where(np.abs(nodes(90)) < 1.0, 40.0 * cos(nodes(90)), -np.inf)
    dist = GridDensity([values, cos(nodes(90))])
    logs = dist[..., None].logpdf(EVERYWHERE)
    assert np.isfinite(logs).all()
    whole = VonMises(0.0, 40.0)
    near = np.abs(EVERYWHERE) < 0.5  # more than six nodes from the zeros
    missing = np.log(2 * whole.cdf(1.0) - 1)
    assert logs[0][near] + missing == pytest.approx(whole.logpdf(EVERYWHERE[near]), abs=1.5e-9)
    assert logs[0][np.abs(EVERYWHERE) > 1.1].max() < -600
    assert logs[1] == pytest.approx(VonMises(0.0, 1.0).logpdf(EVERYWHERE), abs=1e-12)
    for name in ("entropy", "circular_variance", "mean_direction", "resultant_length"):
        assert np.isfinite(getattr(dist, name)()).all()
    draws = dist.sample(2000, rng=3)
    assert np.abs(draws[:, 0]).max() < 1.1
    assert np.isfinite(dist[0].icdf([0.001, 0.5, 0.999])).all()


def test_a_single_node_with_mass():
    values = np.full(40, -np.inf)
    values[20] = 3.0
    dist = GridDensity(values)
    assert dist.mean_direction() == pytest.approx(0.0, abs=1e-12)
    assert np.abs(dist.sample(1000, rng=0)).max() < 2 * np.pi / 40


def test_draws_end_where_the_grid_resolves_nothing():
    values = np.random.default_rng(4).choice([0.0, -2000.0], (50, 40))
    values[:, 7] = 0.0
    assert np.isfinite(GridDensity(values).sample(20, rng=1)).all()


@pytest.mark.parametrize("dist", [VonMises(3.0, 1e4), GvM([3j, 4.0]), GvM([1.0, -2j, 1.5]), WrappedNormal(1.0, 0.3)])
def test_the_envelope_of_the_draws_lies_above_the_density(dist):
    grid = on_grid(dist, 17 + int(7.5 * np.sqrt(float(dist.pdf(dist.modes().location[0])) ** 2 * 8)))
    count = grid.log_values.size
    table, cut = grid.log_values[None], grid._cut[None]
    excess, running = envelope(table, cut)
    share = np.linspace(0, 1, 33)[1:-1]
    ends = np.exp(grid.log_values - grid.log_values.max())
    line = (1 - share) * ends[:, None] + share * np.roll(ends, -1)[:, None]
    density = np.exp(grid.logpdf(nodes(count)[:, None] + share * 2 * np.pi / count) - grid.log_values.max())
    assert (density <= line * np.exp(excess[0])[:, None] + 1e-250).all()
    assert (np.diff(running[0]) >= 0).all()
    assert density.mean() / (running[0, -1] / count) > 0.8  # of the proposals are kept


def test_many_draws_follow_the_distribution_they_were_made_from():
    dist = GvM([3j, 4.0])
    draws = on_grid(dist, 64).sample(100_000, rng=2)
    assert stats.kstest(dist.cdf(draws[:20_000]), "uniform").pvalue > 1e-5
    counts, _ = np.histogram(dist.cdf(draws), bins=100, range=(0, 1))
    assert stats.chisquare(counts).pvalue > 1e-5


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        (np.zeros(15), ValueError, r"at least 16 nodes.*got shape \(15,\).*finer grid"),
        (3.0, ValueError, "at least 16 nodes"),
        (np.full((2, 20), np.nan), ValueError, r"finite or -inf, got nan at index \(0, 0\)"),
        (np.full(20, np.inf), ValueError, "finite or -inf, got inf"),
        (np.full((3, 20), -np.inf), ValueError, "all -inf for 3 of 3 distributions.*underflow"),
        (["a"] * 20, TypeError, "log_values must be real numbers"),
        (np.zeros(20) * 1j, TypeError, "log_values must be real numbers"),
    ],
)
def test_bad_values(values, kind, text):
    with pytest.raises(kind, match=text):
        GridDensity(values)
