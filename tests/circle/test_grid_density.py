"""GridDensity: the distribution between its nodes, and what it does with values that say little."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from naive.grid_density import Points
from portable import cos, polar
from scipy import stats

from mgvm import GridDensity, GvM, VonMises, scores
from mgvm.circle.graded_nodes import Features, count_nodes, find_features, graded_nodes, resolve_density

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
@pytest.mark.parametrize(("order", "error"), [(1, 1e-11), (2, 1e-9)])
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
        # Moments are those of the density between the nodes: its error, which changes its sign from node to node.
        for k in (1, 2, 5):
            assert grid.moment(k) == pytest.approx(dist.moment(k), abs=1e-12 + (0.02 * error if order > 1 else 0.0))
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


def test_zeros_are_met_in_straight_lines():
    values = np.where(np.abs(nodes(90)) < 1.0, 40.0 * cos(nodes(90)), -np.inf)
    dist = GridDensity([values, cos(nodes(90))])
    logs = dist[..., None].logpdf(EVERYWHERE)
    whole = VonMises(0.0, 40.0)
    near = np.abs(EVERYWHERE) < 0.4  # more than eight nodes from the zeros
    shift = logs[0][near] - whole.logpdf(EVERYWHERE[near])
    assert np.ptp(shift) < 1e-11
    # The rest of the circle is lost, and straight lines from node to node further out miss at most κh²/8 of the mass.
    bound = 40.0 * (2 * np.pi / 90) ** 2 / 8 * (2 * whole.cdf(-0.4))
    assert shift.mean() == pytest.approx(-np.log(2 * whole.cdf(1.0) - 1), abs=2 * bound)
    assert np.isneginf(logs[0][np.abs(EVERYWHERE) > 1.05]).all()
    assert np.isfinite(logs[0][np.abs(EVERYWHERE) < 0.97]).all()
    assert logs[1] == pytest.approx(VonMises(0.0, 1.0).logpdf(EVERYWHERE), abs=1e-12)
    for name in ("entropy", "circular_variance", "mean_direction", "resultant_length"):
        assert np.isfinite(getattr(dist, name)()).all()
    assert np.abs(dist.sample(2000, rng=3)[:, 0]).max() < 1.05
    assert np.isfinite(dist[0].icdf([0.0, 0.001, 0.5, 0.999, 1.0])).all()


def _zero_at(count, *where):
    values = 2.0 * cos(nodes(count) - 0.4) + cos(2.0 * nodes(count))
    values[list(where)] = -np.inf
    return values


def _graded(places, widths, count=None):
    features = Features(np.array([places]), np.array([widths]))
    return graded_nodes(features, count or count_nodes(features))[0]


NARROW = _graded([2.9], [0.02])
ON_NODES = {
    "a GvM with two modes": (2.0 * cos(nodes(32) - 0.4) + 3.0 * cos(2.0 * nodes(32)), None),
    "two equal modes": (4.0 * cos(2.0 * nodes(40)), None),
    "a flat mode": (4.0 * cos(nodes(32)) - cos(2.0 * nodes(32)), None),
    "a narrow peak on its own nodes": (2500.0 * (cos(NARROW - 2.9) - 1.0), NARROW),
    "one zero of 32": (_zero_at(32, 20), None),
    "three zeros of 64": (_zero_at(64, 3, 4, 40), None),
    "eleven zeros of 64": (_zero_at(64, *range(5, 15), 63), None),
    "all but one of 16": (np.where(np.arange(16) == 5, 1.0, -np.inf), None),
}


@pytest.mark.parametrize("case", ON_NODES.values(), ids=ON_NODES)
def test_every_question_is_about_one_density(case):
    values, places = case
    dist, naive = GridDensity(values, places), Points(values, places)
    some = np.isfinite(naive.logs)
    # Midpoints of cells cut into 50 err by the second difference of the density over a piece, a twelfth of it at most.
    error = np.abs(np.diff(naive.mass, 2, append=naive.mass[:2])).sum() / 12 + 1e-9
    one = naive.mass.max()
    np.testing.assert_allclose(dist.logpdf(naive.x[some]), naive.logs[some], atol=error + 1e-8)
    assert np.isneginf(dist.logpdf(naive.x[~some])).all()
    assert (dist.pdf(naive.x) * naive.width).sum() == pytest.approx(1.0, abs=2 * error)
    for x in naive.x[:: naive.x.size // 17]:
        assert dist.cdf(x) == pytest.approx(naive.cdf(x), abs=one)
        assert dist.cdf(dist.icdf(naive.cdf(x))) == pytest.approx(naive.cdf(x), abs=1e-12)
    for k in (1, 2, 5):
        assert dist.moment(k) == pytest.approx(naive.moment(k), abs=(2 + k * k) * error)
    # -p log p is as smooth as p but for the logarithm.
    assert dist.entropy() == pytest.approx(naive.entropy(), abs=50 * error)
    for mass in (0.3, 0.5, 0.9):
        arcs = dist.interval(mass)
        assert (dist.cdf(arcs[:, 1]) - dist.cdf(arcs[:, 0])).sum() == pytest.approx(mass, abs=1e-9)
        inside = (np.mod(naive.x[:, None] - arcs[:, 0], 2 * np.pi) < arcs[:, 1] - arcs[:, 0]).any(axis=1)
        assert naive.mass[inside].sum() == pytest.approx(mass, abs=2 * len(arcs) * one + error)
        assert naive.logs[inside].min() > naive.logs[~inside].max() - 1e-6


@pytest.mark.parametrize("case", ON_NODES.values(), ids=ON_NODES)
def test_scores_are_of_the_same_density(case):
    values, places = case
    dist, naive = GridDensity(values, places), Points(values, places, pieces=8)
    y = np.array([-3.0, -1.2, 0.3, 2.91])
    # The kink of the distance, twice, and midpoints.
    error = 2.0 * naive.width.max() ** 2 * np.exp(naive.logs.max()) * naive.width.max() + naive.mass.max() ** 2
    assert scores.crps(dist, y) == pytest.approx([naive.crps(one) for one in y], abs=2 * error)
    rank = np.array([naive.rank(one) for one in y])
    for mass in (0.2, 0.6, 0.95):
        sure = np.abs(rank - mass) > 4 * naive.mass.max()
        assert (scores.coverage(dist, y, mass, reduce=False) == (rank < mass))[sure].all()


def test_a_peak_needs_as_few_nodes_as_it_is_narrow():
    kappa = np.array([0.1, 1.0, 30.0, 1e3, 4e4, 1e6, 1e8])
    mu = np.array([0.0, 3.1, -np.pi, 2.0, -1.0, 0.5, 3.14159])

    def evaluate(rows, x):
        # 1 - cos has no digits left where κ is large.
        return -2.0 * kappa[rows, None] * np.sin(0.5 * (x - mu[rows, None])) ** 2

    dist = GridDensity(*resolve_density(evaluate, find_features(evaluate, kappa.size)))
    exact = VonMises(mu, kappa)
    assert dist.log_values.shape[-1] <= 256
    z = np.linspace(-11.5, 11.5, 301)[:, None]
    x = mu + np.clip(z / np.sqrt(np.maximum(kappa, 1.0)), -np.pi, np.pi)
    # An angle near π is rounded to 4e-16, where κ = 1e8 has slopes of 1e5.
    np.testing.assert_allclose(dist.logpdf(x), exact.logpdf(x), atol=2e-8)
    arcs = dist.interval(0.5)[:, 0]
    assert exact.cdf(arcs[:, 1]) - exact.cdf(arcs[:, 0]) == pytest.approx(np.full(7, 0.5), abs=1e-8)
    assert dist.circular_variance() == pytest.approx(exact.circular_variance(), rel=1e-7)


def test_memory_is_that_of_the_nodes():
    dist = on_grid(VonMises(np.linspace(-3, 3, 1500), 50.0), 256)
    y = np.linspace(-3, 3, 1500)
    for ask in (lambda: dist.interval(0.9), dist.modes, lambda: dist.icdf(0.5), lambda: scores.crps(dist, y)):
        tracemalloc.start()
        ask()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # The nodes of all are 3 MB; blocks of 2²⁰ numbers have some twenty temporaries of 8 MB.
        assert peak < 200e6


def test_nodes_that_jump_are_refused():
    jumping = np.sort(np.concatenate([nodes(32), nodes(32)[16] + 1e-6 * np.arange(1, 32)]))
    with pytest.raises(ValueError, match="spaced smoothly"):
        GridDensity(cos(jumping), jumping)
    with pytest.raises(ValueError, match="increase from -π"):
        GridDensity(cos(nodes(32)), nodes(32) + 0.1)


def test_empty_batches_and_single_rows():
    empty = GridDensity(np.zeros((0, 32)))
    assert empty.interval(0.5).shape[0] == empty.modes().location.shape[0] == empty.icdf(0.5).size == 0
    assert scores.crps(empty, np.zeros(0)).shape == (0,)
    one = GridDensity(3.0 * cos(nodes(32))[None])
    assert one.interval(0.5).shape == (1, 1, 2)


def test_a_single_node_with_mass_is_a_triangle():
    values = np.full(40, -np.inf)
    values[20] = 3.0
    dist, step = GridDensity(values), 2 * np.pi / 40
    assert dist.mean_direction() == pytest.approx(0.0, abs=1e-12)
    assert dist.pdf([0.0, 0.5 * step, -0.25 * step, 2 * step]) * step == pytest.approx([1.0, 0.5, 0.75, 0.0], abs=1e-12)
    assert dist.cdf([-step, 0.0, 0.5 * step]) == pytest.approx([0.0, 0.5, 0.875], abs=1e-12)
    assert dist.interval(0.75) / step == pytest.approx(np.array([[-0.5, 0.5]]), abs=1e-9)
    assert np.abs(dist.sample(1000, rng=0)).max() < step


def test_draws_end_where_the_grid_resolves_nothing():
    values = np.random.default_rng(4).choice([0.0, -2000.0], (50, 40))
    values[:, 7] = 0.0
    with pytest.warns(UserWarning, match="grid of 40 nodes is too coarse for .* of 50 densities"):
        dist = GridDensity(values)
    assert np.isfinite(dist.sample(20, rng=1)).all()


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


@pytest.mark.parametrize("concentration", [2e7, 1e8, 1e10])
def test_a_narrow_peak_right_at_a_node_is_told(concentration):
    # Both its cells held half of the mass, as those of a straight density: nothing was said, and the central half was
    # 10⁴ times too narrow at 1e10.
    nodes = -np.pi + 2.0 * np.pi * np.arange(4096) / 4096
    with pytest.warns(UserWarning, match="the grid of 4096 nodes is too coarse for 1 of 1 densities"):
        GridDensity(concentration * (np.cos(nodes) - 1.0))


@pytest.mark.parametrize(("concentration", "offset"), [(1e10, 0.3), (1e10, 0.5), (1e13, 0.0)])
def test_a_density_that_leaves_the_doubles_between_nodes_is_refused(concentration, offset):
    # Its masses were infinite or all zero, and NumPy warned of both.
    nodes = -np.pi + 2.0 * np.pi * (np.arange(4096) + offset) / 4096
    with pytest.raises(ValueError, match="too coarse: the log density changes by thousands of nats"):
        GridDensity(concentration * (np.cos(nodes) - 1.0))
