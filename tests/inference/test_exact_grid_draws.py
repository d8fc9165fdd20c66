"""Draws of exact_grid: bounds that hold, and distributions that are right; and what its result promises."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus
from scipy import interpolate, stats
from torus_distributions import bimodal, couplings, distribution_of, random_distribution, ridge

from mgvm.angles import wrap
from mgvm.inference import exact_grid
from mgvm.inference._exact_grid import grid_log_normalizers
from mgvm.inference._grid_cells import Cells, Frame, GridSettings, Points, rule_sizes

BOUNDED = {
    "two angles": random_distribution(6, 2, 1, 1.0),
    "two angles, order two": random_distribution(6, 2, 2, 40.0),
    "two angles, order three": random_distribution(6, 2, 3, 5.0),
    "three angles": random_distribution(6, 3, 1, 3.0),
    "three angles, order two": random_distribution(6, 3, 2, 200.0),
    "three angles, order three": random_distribution(6, 3, 3, 1.0),
    # Along its valleys all second derivatives add up: the bound is attained.
    "outer angles tied": distribution_of(
        np.zeros(3), np.zeros((0, 3)), np.zeros((3, 3)), 9.0 * np.eye(3)[[1, 0, 2]] * [1, 1, 0]
    ),
}


def corners(cells):
    """Displacements to the corners of the cells."""
    count = cells.radius.size
    return np.array(np.meshgrid(*[(-1, 1)] * count)).reshape(count, -1).T * cells.radius


def values(frame, points, shift):
    return frame.integrate(Points(points.rows, points.psi + shift[:, None])).value


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_hold_all_over_their_cells(name):
    dist = BOUNDED[name]
    dimension = dist.dimension
    single = dist._replace(a=dist.a[None])
    frame = Frame(single, int(rule_sizes(single)[-1]))
    rng = np.random.default_rng(13)
    for size in (3, 8, 30, 120):
        sizes = rng.integers(size, 2 * size, dimension - 1)
        cells = Cells(np.zeros(60, dtype=int), rng.integers(0, sizes, (60, dimension - 1)).T, sizes)
        points = cells.points(frame)
        bound = frame.bound(points, cells.radius)
        at_corners = np.array([values(frame, points, shift) for shift in corners(cells)])
        assert (at_corners <= bound + 1e-10).all()
        assert (at_corners.max(axis=0) >= bound - 2 * frame.slack(points.rows, cells.radius) - 1e-10).all()
        for shift in rng.uniform(-1, 1, (200, dimension - 1)) * cells.radius:
            assert (values(frame, points, shift) <= bound + 1e-10).all()


DRAWN = {
    "uniform": distribution_of(np.zeros(2), np.zeros((0, 2)), *couplings(2)),
    "one angle": random_distribution(14, 1, 2, 3.0),
    "order three": random_distribution(14, 2, 3, 1.0),
    "three angles": random_distribution(15, 3, 2, 1.0),
    "bimodal": bimodal(3.0),
    "bimodal, narrow": bimodal(1e6),
    "ridge": ridge(3, 1e3),
    "narrow": random_distribution(16, 3, 2, 1e6),
}


def distribution(marginal, x):
    """The distribution function at x, from a spline through the density at the nodes."""
    nodes = np.append(marginal.nodes, np.pi)
    density = np.exp(np.append(marginal.log_values, marginal.log_values[0]))
    return interpolate.CubicSpline(nodes, density, bc_type="periodic").antiderivative()(x)


@pytest.mark.parametrize("name", DRAWN)
def test_draws_follow_the_marginals_and_the_pairs(name):
    dist, count = DRAWN[name], 4000
    found = exact_grid(dist)
    draws = found.sample(count, rng=17)
    assert draws.shape == (count, dist.dimension)
    assert ((draws >= -np.pi) & (draws < np.pi)).all()
    for d in range(dist.dimension):
        assert stats.kstest(distribution(found.marginals[d], draws[:, d]), "uniform").pvalue > 1e-5
    pairs = found.pair_moments
    z = np.exp(1j * draws)
    for first, second, *expected in zip(pairs.first, pairs.second, pairs.difference, pairs.sum, strict=True):
        drawn = z[:, first] * np.conj(z[:, second]), z[:, first] * z[:, second]
        for sample, mean in zip(drawn, expected, strict=True):
            assert abs(sample.mean() - mean) < 5.0 * sample.std() / np.sqrt(count)


@pytest.mark.parametrize("dist", [random_distribution(18, 2, 2, 0.7), ridge(2, 8.0), bimodal(2.0)])
def test_draws_of_a_pair_fall_into_squares_as_they_should(dist):
    count, cut = 200_000, 16
    mass = torus.probabilities(*dist, 400).reshape(cut, 25, cut, 25).sum(axis=(1, 3)).ravel()
    # Brute-force nodes stand for the half steps on either side of them.
    draws = wrap(exact_grid(dist).sample(count, rng=19) + np.pi / 400)
    index = np.floor((draws + np.pi) * cut / (2 * np.pi)).astype(int)
    observed = np.bincount(index @ [cut, 1], minlength=cut * cut)
    common = mass * count > 10
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(mass[common], mass[~common].sum()) * count
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-5


def test_draws_repeat_with_the_seed():
    found = exact_grid(random_distribution(20, 3))
    np.testing.assert_array_equal(found.sample(50, rng=3), found.sample(50, rng=3))
    assert found.sample(0).shape == (0, 3)


# ---- the contract ---------------------------------------------------------------------------------------------------


def test_result():
    found = exact_grid(random_distribution(21, 2))
    assert found.converged
    assert found.trace.size == 0
    assert found.log_normalizer.standard_error == 0.0
    with pytest.raises(AttributeError):
        found.converged = False


def test_too_many_angles():
    with pytest.raises(ValueError, match="D = 4; use exact_chain"):
        exact_grid(random_distribution(22, 4))


def test_too_many_nodes():
    with pytest.raises(ValueError, match=r"nodes of a grid of .* x .*use annealed_log_normalizer"):
        exact_grid(ridge(3, 1e5), settings=GridSettings(most_nodes=5000))


def test_batch_too_large_for_memory_is_halved():
    dist = random_distribution(23, 3, 1, 100.0)
    batch = dist._replace(a=np.tile(dist.a, (12, 1)))
    expected = grid_log_normalizers(batch)
    np.testing.assert_allclose(grid_log_normalizers(batch, GridSettings(most_nodes=9000)), expected, rtol=1e-14)


@pytest.mark.parametrize("count", [10**15, 10**18, 10**30])
@pytest.mark.parametrize("size", [1, 2])
def test_more_draws_than_memory_holds_are_refused_at_once(size, count):
    with pytest.raises(MemoryError, match=r"draws of \d angles take [\d,]+ GB.*draw fewer at a time"):
        exact_grid(random_distribution(24, size)).sample(count, rng=0)


def test_batches_are_refused():
    dist = random_distribution(24, 2)
    with pytest.raises(ValueError, match="one distribution at a time"):
        exact_grid(dist._replace(a=np.tile(dist.a, (3, 1))))
