"""Pairs of angles and straight axes: every unit shows the same angle, margins are true, and edges meet."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mgvm import MGvM, MultivariateWrappedNormal, VonMises, angles, plots
from mgvm.mixture import TorusMixture
from mgvm.plots._torus import smooth_density
from mgvm.tables import Unit

UNITS = ("degrees", "radians", "hours", "minutes", "days", "months", "compass")
COV = 0.4 * np.array([[1.0, 0.7, -0.3], [0.7, 1.2, 0.0], [-0.3, 0.0, 0.6]])


@pytest.fixture(scope="module")
def rows():
    return MultivariateWrappedNormal([3.0, 0.5, -1.0], COV).sample(400, rng=0)


def drawn_at(x, unit):
    """Coordinates of angles on an axis of that unit."""
    points = plots.torus_scatter(np.column_stack([x, x]), Figure().add_subplot(), unit=unit).get_offsets()
    np.testing.assert_array_equal(points[:, 0], points[:, 1])
    return np.asarray(points[:, 0])


def test_units_of_axes_are_those_of_the_package():
    x = np.linspace(-3.1, 3.1, 50)
    np.testing.assert_allclose(drawn_at(x, "hours"), angles.to_hours(x), atol=1e-12)
    np.testing.assert_allclose(drawn_at(x, "compass"), angles.to_compass(x), atol=1e-10)
    np.testing.assert_allclose(drawn_at(x, "degrees"), np.rad2deg(x), atol=1e-12)
    for unit in map(Unit, UNITS):
        # Axes count days and months from zero as well; their ticks say the numbers from one on.
        back = unit.to_radians(drawn_at(x + 8, unit.name) + unit.first)
        np.testing.assert_allclose(np.exp(1j * back), np.exp(1j * (x + 8)))


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("degrees", ["−180°", "−90°", "0°", "90°", "180°"]),
        ("radians", ["−π", "−π/2", "0", "π/2", "π"]),
        ("hours", ["00:00", "06:00", "12:00", "18:00", "00:00"]),
        ("compass", ["N", "E", "S", "W", "N"]),
    ],
)
def test_ticks_say_the_unit(unit, names):
    ax = plots.torus_scatter([[0.0, 1.0]], Figure().add_subplot(), unit=unit).axes
    assert [label.get_text() for label in ax.get_xticklabels()] == names
    assert np.ptp(ax.get_xticks()) == pytest.approx(Unit(unit).turn)


@pytest.mark.parametrize("unit", UNITS)
def test_a_peak_is_drawn_where_it_is_in_every_unit(unit):
    turn, x = Unit(unit).turn, np.array([0.0, 1.0])
    shades = plots.predictive_density(VonMises([2.0, -1.0], [50.0, 50.0]), x, Figure().add_subplot(), unit=unit)
    values = np.asarray(shades.get_array()).reshape(-1, 2)
    heights = shades.get_coordinates()[:, 0, 1]
    middles = 0.5 * (heights[1:] + heights[:-1])
    for column, place in enumerate(drawn_at([2.0, -1.0], unit)):
        off = middles[np.argmax(values[:, column])] - place
        assert abs(off - turn * np.round(off / turn)) < turn / 300


def test_what_was_seen_is_drawn_in_every_turn():
    dist = VonMises([0.0, 1.0], [2.0, 2.0])
    ax = Figure().add_subplot()
    plots.predictive_density(dist, [0.0, 1.0], ax, observed=([0.2, 0.4], [1.0, -2.0]), unit="radians", turns=2)
    heights = np.concatenate([points.get_offsets()[:, 1] for points in ax.collections[1:]])
    inside = np.sort(heights[np.abs(heights) <= 2 * np.pi])
    np.testing.assert_allclose(inside, np.sort([1.0, 1.0 - 2 * np.pi, -2.0, -2.0 + 2 * np.pi]))
    with pytest.raises(TypeError, match="observed must be a pair"):
        plots.predictive_density(dist, [0.0, 1.0], ax, observed=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="as many inputs as angles, got 1 and 2"):
        plots.predictive_density(dist, [0.0, 1.0], ax, observed=([1.0], [1.0, 2.0]))


def test_smoothed_draws_come_near_their_density():
    dist = MultivariateWrappedNormal([3.0, 0.5], COV[:2, :2])
    grid = -np.pi + 2 * np.pi / 60 * np.arange(60)
    pairs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = np.exp(dist.logpdf(pairs)).reshape(60, 60)
    found = smooth_density(dist.sample(20_000, rng=0), 60)
    assert found.mean() * (2 * np.pi) ** 2 == pytest.approx(1.0)
    cell = (2 * np.pi / 60) ** 2
    variation = 0.5 * cell * np.abs(found - expected).sum()
    assert variation < 0.04
    # A kernel of any other width is further away.
    rough, blurred = (smooth_density(dist.sample(20_000, rng=0), 60, width) for width in (0.04, 0.5))
    for other in (rough, blurred):
        assert 0.5 * cell * np.abs(other - expected).sum() > 1.3 * variation
    # Few draws of a flat distribution are smoothed to something flat, not to a spike each.
    flat = smooth_density(np.random.default_rng(0).uniform(-np.pi, np.pi, (100, 1)), 60)
    assert flat.max() < 2 / (2 * np.pi)


def margin(ax):
    """Bars and curve of a panel on the diagonal."""
    heights = np.array([bar.get_height() for bar in ax.patches])
    return heights, np.asarray(ax.lines[0].get_ydata())


@pytest.mark.parametrize("unit", ["degrees", "compass"])
def test_margins_have_area_one_and_are_those_of_the_distribution(rows, unit):
    dist = MultivariateWrappedNormal([3.0, 0.5, -1.0], COV)
    panels = plots.torus_pairs(rows, dist, fig=Figure(), unit=unit, bins=20)
    axis = Unit(unit).to_radians(panels[0, 0].lines[0].get_xdata())
    for k in range(3):
        heights, curve = margin(panels[k, k])
        assert heights.sum() * 2 * np.pi / 20 == pytest.approx(1.0)
        np.testing.assert_allclose(curve, dist.marginal(k).pdf(axis), atol=1e-9)


def test_panels_show_the_pair_that_their_edges_name(rows):
    panels = plots.torus_pairs(rows, fig=Figure(), names=["a", "b", "c"])
    assert [panels[2, j].get_xlabel() for j in range(3)] == ["a", "b", "c"]
    assert [panels[i, 0].get_ylabel() for i in range(3)] == ["a", "b", "c"]
    shown = np.asarray(panels[0, 2].collections[0].get_offsets())
    np.testing.assert_allclose(shown, np.rad2deg(rows[:, [2, 0]]), atol=1e-9)
    # The density below the diagonal is that of the same pair: high where the points are.
    limits = panels[2, 0].get_xlim()
    assert limits == pytest.approx((-180, 180))


def test_the_density_is_the_same_on_opposite_edges(rows):
    ax = plots.torus_pairs(rows, fig=Figure())[1, 0]
    paths = [path for path in ax.collections[0].get_paths() if len(path.vertices)]
    ends = np.concatenate([path.vertices for path in paths])
    left, right = (np.sort(ends[np.isclose(ends[:, 0], edge), 1]) for edge in (-180, 180))
    assert left.size  # the mean of the first angle is at the edge
    np.testing.assert_allclose([left.min(), left.max()], [right.min(), right.max()], atol=1e-6)


def test_two_angles_of_a_distribution_are_drawn_without_smoothing():
    dist = MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]])
    panels = plots.torus_pairs(dist=dist, fig=Figure())
    _, curve = margin(panels[0, 0])
    size = len(curve) - 1
    grid = -np.pi + 2 * np.pi / size * np.arange(size)
    pairs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = np.exp(dist.logpdf(pairs)).reshape(size, size).sum(axis=1) * 2 * np.pi / size
    np.testing.assert_allclose(curve[:-1], expected, rtol=1e-9)


def test_mixtures_and_missing_angles(rows):
    holes = rows.copy()
    holes[::3, 1] = np.nan
    mixture = TorusMixture(1, random_state=0, tol=1e-2).fit(rows)
    panels = plots.torus_pairs(holes, mixture, fig=Figure())
    assert len(panels[0, 1].collections[0].get_offsets()) == np.isfinite(holes[:, 1]).sum()
    heights, _ = margin(panels[1, 1])
    assert heights.sum() * 2 * np.pi / 36 == pytest.approx(1.0)


def test_bad_input_is_named(rows):
    with pytest.raises(ValueError, match="nothing to draw: give angles, a distribution or both"):
        plots.torus_pairs()
    with pytest.raises(ValueError, match=r"shape \(n, D\) with D >= 2, got \(5,\)"):
        plots.torus_pairs(np.zeros(5))
    with pytest.raises(ValueError, match="angles have 3 columns and the distribution 2 angles"):
        plots.torus_pairs(rows, MGvM([0.0, 0.0]))
    with pytest.raises(ValueError, match="names must have one for each of the 3 angles, got 2"):
        plots.torus_pairs(rows, names=["a", "b"])
    with pytest.raises(TypeError, match="distribution on the torus with a method sample, got str"):
        plots.torus_pairs(rows, "dist")
    with pytest.raises(ValueError, match=r"no row of angles has all of the columns \[0, 1\]"):
        plots.torus_pairs(np.column_stack([rows[:, 0], np.full(400, np.nan)]), fig=Figure())
    with pytest.raises(ValueError, match="unit must be one of 'degrees', 'radians', 'hours', .*'compass', got 'turns'"):
        plots.torus_pairs(rows, unit="turns")
