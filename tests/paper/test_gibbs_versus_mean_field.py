"""The race of the engines: cells, estimates and crossings, against plain counts and known limits."""

import warnings

import numpy as np
import pytest
from naive import figure1 as naive

from mgvm.inference import GibbsResult, exact_grid, mean_field
from mgvm.natural import natural
from paper import gibbs_versus_mean_field as race_of
from paper.gibbs_versus_mean_field import HISTOGRAM, MEAN_FIELD, PROPAGATION, RAO_BLACKWELL, Point, Race
from paper.torus_grid import kl_divergence

COUPLINGS = (0.5, 1.0, 2.0)


@pytest.fixture(scope="module")
def race():
    return race_of.compute(seed=1, couplings=COUPLINGS, repeats=3, most_draws=1 << 13)


@pytest.fixture(scope="module")
def cells():
    return race_of.Cells(race_of.bivariate_distribution(1.0))


def blocks(density, n):
    """Sums over 32 x 32 cells of a density at n x n midpoints."""
    return density.reshape(32, n // 32, 32, n // 32).sum(axis=(1, 3)) * (2 * np.pi / n) ** 2


def test_the_truth_is_the_integral_over_each_cell(cells):
    plain = blocks(cells.dist.pdf(naive.square(1024)), 1024)
    np.testing.assert_allclose(cells.truth, plain, rtol=1e-4)
    assert cells.truth.sum() == pytest.approx(1.0, abs=1e-14)


def test_a_histogram_counts(cells):
    samples = np.array([[[-np.pi, -np.pi], [np.nextafter(np.pi, 0), 0.0], [-np.pi, -np.pi], [0.1, -0.1]]])
    found = cells.of_histogram(GibbsResult(samples, True, natural(cells.dist)))
    wanted = np.zeros((32, 32))
    wanted[0, 0], wanted[31, 16], wanted[16, 15] = 0.5, 0.25, 0.25
    np.testing.assert_array_equal(found, wanted)


def test_smoothing_keeps_the_draws_and_leaves_no_cell_empty(cells):
    shares = np.zeros((32, 32))
    shares[3, 4] = 1.0
    found = race_of.smoothed(shares, 1000)
    assert found.sum() == pytest.approx(1.0)
    assert found.min() > 0.0
    assert found[3, 4] == pytest.approx((1000 + 1 / 16) / (1000 + 64))


def test_exact_marginals_leave_the_mutual_information(cells):
    product = np.outer(cells.truth.sum(axis=1), cells.truth.sum(axis=0))
    found = cells.of_marginals(exact_grid(cells.dist))
    np.testing.assert_allclose(found, product, rtol=1e-9)


def test_mean_field_minimises_the_reverse_divergence(cells):
    result = mean_field(cells.dist)
    # F = log Z - KL(q ‖ p) on the torus itself; cells can only make a divergence smaller, and 32 of them hardly do.
    on_the_torus = float(cells.dist.log_normalizer()) - result.free_energy
    on_cells = kl_divergence(cells.of_marginals(result), cells.truth)
    assert 0.98 * on_the_torus < on_cells <= on_the_torus


def test_rao_blackwell_of_exact_draws_is_the_truth(cells):
    samples = exact_grid(cells.dist).sample(4000, rng=0)[None]
    found = cells.of_conditionals(GibbsResult(samples, True, natural(cells.dist)))
    assert kl_divergence(cells.truth, found) < 1e-3
    np.testing.assert_allclose(
        found / found.sum(axis=1, keepdims=True), cells.truth / cells.truth.sum(axis=1, keepdims=True), atol=1e-3
    )


def test_gibbs_falls_and_mean_field_stays(race):
    for coupling in COUPLINGS:
        histogram = [point.kl for point in race.curve(coupling, HISTOGRAM)]
        assert histogram[-1] < 0.2 * histogram[0]
        assert race.curve(coupling, RAO_BLACKWELL)[-1].kl < 0.01
        floors = [race.curve(coupling, method)[-1].kl for method in (MEAN_FIELD, PROPAGATION)]
        # No product distribution comes nearer than that of the true marginals.
        cells = race_of.Cells(race_of.bivariate_distribution(coupling))
        information = kl_divergence(cells.truth, np.outer(cells.truth.sum(axis=1), cells.truth.sum(axis=0)))
        assert min(floors) > information
        assert floors[1] < floors[0]


def test_the_histogram_needs_more_draws_where_mean_field_is_good(race):
    draws = [one.draws for one in race.crossings if one.method == HISTOGRAM]
    assert draws[0] is None  # 8192 draws are too few at the weakest coupling
    assert draws[1:] == sorted(draws[1:], reverse=True)
    assert 2500 < draws[1] < 5000


def test_errors_are_the_same_for_the_same_seed():
    found = [race_of.compute(seed, (1.0,), 1, 16).points for seed in (3, 3, 4)]
    errors = [[(p.method, p.effort, p.kl, p.kl_low, p.kl_high, p.reverse) for p in points] for points in found]
    assert errors[0] == errors[1]
    assert errors[0] != errors[2]


def test_more_work_never_takes_less_time(race):
    for method in (MEAN_FIELD, PROPAGATION, HISTOGRAM, RAO_BLACKWELL):
        seconds = [point.seconds for point in race.curve(1.0, method)]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0.0


def points_of(method, rows):
    return [Point(1.0, method, effort, seconds, kl, kl, kl, kl) for effort, seconds, kl in rows]


def test_crossings_lie_on_straight_lines_of_logarithms():
    fixed = points_of(MEAN_FIELD, [(5, 0.01, 0.1)])
    falling = points_of(HISTOGRAM, [(10, 1.0, 1.0), (1000, 100.0, 0.01), (10_000, 1000.0, 0.001)])
    found = race_of.crossing(Race((*fixed, *falling), ()), 1.0, HISTOGRAM)
    assert (found.draws, found.seconds, found.at_most) == (pytest.approx(100.0), pytest.approx(10.0), False)
    early = race_of.crossing(Race((*fixed, *falling[1:]), ()), 1.0, HISTOGRAM)
    assert (early.draws, early.at_most) == (1000.0, True)
    never = race_of.crossing(Race((*fixed, *falling[:1]), ()), 1.0, HISTOGRAM)
    assert (never.draws, never.seconds) == (None, None)


def test_curves_are_drawn(race):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = race_of.draw(race, dpi=40)
        figure.canvas.draw()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:4] == [MEAN_FIELD, PROPAGATION, HISTOGRAM, RAO_BLACKWELL]
    assert sum("paper" in label for label in labels) == 2
