"""Calibration: the line and the bars are those counted by hand, and the band is the binomial distribution's."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mgvm import GvM, VonMises, plots, scores

MASSES = [0.1, 0.3, 0.5, 0.7, 0.9]


def flat():
    return Figure().add_subplot()


def of_all_widths(rng):
    return VonMises(rng.uniform(-3, 3, 150), 10.0 ** rng.uniform(-3, 7, 150))


def of_several_modes(rng):
    return GvM(3 * (rng.normal(size=(150, 2)) + 1j * rng.normal(size=(150, 2))))


def of_two_sharp_modes(rng):
    return GvM(np.stack([np.full(30, 0.1), 10.0 ** np.linspace(0, 6, 30)], axis=1).astype(complex))


@pytest.mark.parametrize("dists", [of_all_widths, of_several_modes, of_two_sharp_modes])
def test_the_line_is_the_coverage(dists):
    rng = np.random.default_rng(0)
    dist = dists(rng)
    # Not quite what the distributions say, so that the line is off the diagonal.
    seen = dist.mean_direction() + 0.7 * (dist.sample(rng=rng) - dist.mean_direction())
    (line,) = plots.calibration(dist, seen, flat(), masses=MASSES)
    # One observation at the very edge of a set may fall on the other side of it.
    expected = scores.coverage(dist, seen, MASSES)
    np.testing.assert_allclose(line.get_ydata(), expected, atol=1.5 / seen.size)


def test_one_distribution_for_all_and_masses_in_any_order():
    seen = np.random.default_rng(1).vonmises(1.0, 2.0, (20, 10))
    (line,) = plots.calibration(VonMises(1.0, 2.0), seen, flat(), masses=MASSES[::-1])
    np.testing.assert_allclose(line.get_xdata(), MASSES)
    expected = scores.coverage(VonMises(1.0, 2.0), seen.ravel(), MASSES)
    np.testing.assert_allclose(line.get_ydata(), expected, atol=1.5 / seen.size)


def test_the_band_holds_honest_lines_as_often_as_it_says():
    ax, dist = flat(), VonMises(0.0, 1.5)
    plots.reliability([0.5], [0.5], 60, ax)
    path = ax.collections[0].get_paths()[0].vertices
    low, high = (edge(path[np.isclose(path[:, 0], 0.5), 1]) for edge in (np.min, np.max))
    draws = dist.sample((2000, 60), rng=2)
    shares = (np.abs(draws) <= dist.interval(0.5)[0, 1]).mean(axis=1)
    inside = np.mean((low <= shares) & (shares <= high))
    # The binomial distribution has steps: the band holds what it says, and no smaller one would.
    assert inside >= 0.95
    assert np.mean((low < shares) & (shares < high)) < 0.95


def test_the_line_from_numbers_is_sorted_and_drawn_as_it_is():
    ax = flat()
    (line,) = plots.reliability([0.9, 0.5], [0.93, 0.44], 120, ax, label="ours")
    np.testing.assert_array_equal(line.get_xydata(), [[0.5, 0.44], [0.9, 0.93]])
    assert line.get_label() == "ours"
    assert ax.get_xticklabels()[2].get_text() == "50 %"


def test_bars_are_the_density_of_the_transform():
    values = np.array([0.0, 0.05, 0.1, 0.55, 0.999, 1.0])
    bars = plots.pit_histogram(values, flat(), bins=2)
    np.testing.assert_allclose([bar.get_height() for bar in bars], [1.0, 1.0])
    assert sum(bar.get_height() * bar.get_width() for bar in plots.pit_histogram(values, flat())) == pytest.approx(1.0)


def test_bad_input_is_named():
    dist = VonMises([0.0, 1.0], [2.0, 2.0])
    with pytest.raises(
        ValueError, match=r"an angle for each of the distributions, whose shape is \(2,\), got shape \(3,\)"
    ):
        plots.calibration(dist, [0.0, 1.0, 2.0], flat())
    with pytest.raises(
        TypeError, match="distribution must be a distribution on the circle, as from predict_dist, got str"
    ):
        plots.calibration("dist", [0.0], flat())
    with pytest.raises(ValueError, match="y must be finite radians, got nan at index 1"):
        plots.calibration(dist, [0.0, np.nan], flat())
    with pytest.raises(ValueError, match="y is empty"):
        plots.calibration(VonMises(0.0, 1.0), [], flat())
    with pytest.raises(ValueError, match="masses must lie strictly between 0 and 1"):
        plots.calibration(dist, [0.0, 1.0], flat(), masses=[50])
    with pytest.raises(TypeError, match="plain axes, got polar"):
        plots.calibration(dist, [0.0, 1.0], Figure().add_subplot(projection="polar"))
    with pytest.raises(TypeError, match="plain axes, got Axes3D"):
        plots.pit_histogram([0.5], Figure().add_subplot(projection="3d"))
    with pytest.raises(ValueError, match="as many values, at least one, got 2 and 1"):
        plots.reliability([0.5, 0.9], [0.4], 10, flat())
    with pytest.raises(ValueError, match="shares must lie between 0 and 1, got 44 to 93"):
        plots.reliability([0.5, 0.9], [44, 93], 10, flat())
    with pytest.raises(ValueError, match="values must lie between 0 and 1, got -0.5 to 0.5; see scores.pit"):
        plots.pit_histogram([-0.5, 0.5], flat())
    with pytest.raises(ValueError, match="values is empty"):
        plots.pit_histogram([], flat())
