"""Plots: areas are true, and errors are clear."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from mgvm import GvM, VonMises, plots


class Cardioid:
    """A distribution that needs no special function: f = (1 + 2 rho cos(x - mu)) / 2 pi."""

    def __init__(self, mu: float, rho: float) -> None:
        self.mu, self.rho = mu, rho

    def pdf(self, x):
        return (1 + 2 * self.rho * np.cos(np.asarray(x) - self.mu)) / (2 * np.pi)


def polar(**options):
    return Figure(**options).add_subplot(projection="polar")


def areas(sectors):
    return np.array([0.5 * bar.get_width() * bar.get_height() ** 2 for bar in sectors])


def test_area_of_a_sector_is_its_share_of_the_data():
    sectors = plots.rose([0.1, 0.2, 0.3, 2.0], polar(), bins=4)
    np.testing.assert_allclose(areas(sectors), [0, 0, 0.75, 0.25], atol=1e-15)


def test_weights_count_like_repeats():
    angles = np.array([-3.0, 0.4, 1.9, 1.95])
    counts = np.array([3, 1, 5, 2])
    weighted = areas(plots.rose(angles, polar(), weights=counts, bins=36))
    repeated = areas(plots.rose(np.repeat(angles, counts), polar(), bins=36))
    np.testing.assert_allclose(weighted, repeated, atol=1e-15)
    assert weighted.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("turns", [-1, 0, 1, 1000])
def test_angles_on_bin_edges_all_fall_into_the_bin_that_starts_there(turns):
    minutes = np.arange(1440) * (2 * np.pi / 1440) + turns * 2 * np.pi
    for bins in (24, 96, 144):
        np.testing.assert_allclose(areas(plots.rose(minutes, polar(), bins=bins)), 1 / bins)


def test_density_curve_shares_the_scale_of_the_rose():
    dist = Cardioid(mu=0.7, rho=0.4)
    (curve,) = plots.circular_density(dist, polar())
    angles, radii = curve.get_data()
    enclosed = np.trapezoid(0.5 * np.asarray(radii) ** 2, angles)
    assert enclosed == pytest.approx(1.0, abs=1e-12)
    assert radii[0] == pytest.approx(radii[-1])


def test_dial_runs_clockwise_from_midnight_on_top():
    ax = plots.dial(polar())
    assert ax.get_theta_direction() == -1
    assert ax.get_theta_offset() == pytest.approx(np.pi / 2)
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"]


def test_options_reach_the_artists():
    (curve,) = plots.circular_density(Cardioid(0, 0.1), polar(), color="black", label="a distribution")
    assert (curve.get_color(), curve.get_label()) == ("black", "a distribution")
    assert plots.rose([1.0], polar(), label="data").get_label() == "data"


class Product:
    """Two independent cardioids."""

    def logpdf(self, x):
        first, second = Cardioid(3.0, 0.45), Cardioid(0.5, 0.3)
        return np.log(first.pdf(x[:, 0])) + np.log(second.pdf(x[:, 1]))


def test_regions_of_a_torus_density_hold_their_mass():
    masses = (0.3, 0.6, 0.9)
    regions = plots.torus_density(Product(), Figure().add_subplot(), masses=masses, points=200)
    draws = np.random.default_rng(0).uniform(-np.pi, np.pi, (40_000, 2))
    density = np.exp(Product().logpdf(draws))
    for mass, level in zip(masses, regions.levels[2::-1], strict=True):
        assert density[density >= level].sum() / density.sum() == pytest.approx(mass, abs=0.01)


def test_torus_density_is_the_same_on_opposite_edges_and_speaks_degrees():
    ax = Figure().add_subplot()
    plots.torus_density(Product(), ax, unit="degrees")
    assert ax.get_xlim() == pytest.approx((-180, 180))
    assert ax.get_xticklabels()[0].get_text() == "−180°"
    drawn = plots.torus_scatter([[3.5, -0.5], [3.5 - 2 * np.pi, -0.5 + 4 * np.pi]], Figure().add_subplot())
    np.testing.assert_allclose(drawn.get_offsets()[0], drawn.get_offsets()[1], atol=1e-9)
    assert drawn.get_offsets()[0, 0] == pytest.approx(np.rad2deg(3.5) - 360)


def test_a_flat_torus_density_can_be_drawn():
    from mgvm import MGvM

    assert np.all(np.diff(plots.torus_density(MGvM([0.0, 0.0]), Figure().add_subplot()).levels) > 0)


def test_bad_torus_input_is_named():
    with pytest.raises(TypeError, match="polar"):
        plots.torus_density(Product(), polar())
    with pytest.raises(TypeError, match="logpdf or score_samples"):
        plots.torus_density("dist")
    with pytest.raises(ValueError, match="single distribution of two angles"):
        plots.torus_density(Cardioid3())
    with pytest.raises(ValueError, match=r"shape \(N, 2\)"):
        plots.torus_scatter(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="masses must lie strictly between 0 and 1"):
        plots.torus_density(Product(), masses=[0.5, 90])


class Cardioid3:
    """A batch of three distributions."""

    def logpdf(self, x):
        return np.zeros((len(x), 3))


def test_bad_input_is_named():
    flat = Figure().add_subplot()
    with pytest.raises(TypeError, match="polar"):
        plots.dial(flat)
    with pytest.raises(ValueError, match="bins must be >= 1"):
        plots.rose([0.1], polar(), bins=0)
    with pytest.raises(ValueError, match="empty"):
        plots.rose([], polar())
    with pytest.raises(ValueError, match="must divide 24"):
        plots.dial(polar(), hours=5)
    with pytest.raises(ValueError, match="single distribution"):
        plots.circular_density(Cardioid(np.zeros((3, 1)), 0.1), polar())
    with pytest.raises(ValueError, match=r"got a batch of shape \(3,\); draw one, dist\[0\] say"):
        plots.circular_density(VonMises(np.zeros(3), 1.0), polar())


def test_without_matplotlib_the_error_names_the_extra():
    code = """if True:
        import sys
        sys.modules["matplotlib"] = None
        from mgvm import GvM, VonMises, plots
        try:
            plots.rose([1.0])
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "mgvm[plot]"' in done.stdout


def flat(**options):
    return Figure(**options).add_subplot()


def bearings(lines, compass):
    """First and last angle of each line about the origin."""
    ends = np.array([line[[0, -1]] for line in lines])
    east, north = ends[..., 0], ends[..., 1]
    return np.arctan2(east, north) if compass else np.arctan2(north, east)


@pytest.mark.parametrize("compass", [False, True])
def test_arcs_end_where_the_sets_end(compass):
    dist = VonMises([0.3, 3.0, -1.0], [0.5, 4.0, 200.0])
    ax = flat()
    wide, narrow = plots.arcs(dist, [1.0, 2.0, 3.0], [50.0, 51.0, 52.0], ax, radius=7.0, compass=compass)
    for drawn, mass in ((wide, 0.9), (narrow, 0.5)):
        lines = [path.vertices for path in drawn.get_paths()]
        assert all(np.allclose(np.hypot(*line.T), 7.0) for line in lines)
        turn = bearings(lines, compass) - dist.interval(mass)[:, 0]
        np.testing.assert_allclose(np.exp(1j * turn), 1.0, atol=1e-12)
        np.testing.assert_array_equal(drawn.get_offsets(), [[1, 50], [2, 51], [3, 52]])
    assert wide.get_linewidth()[0] < narrow.get_linewidth()[0]


def test_arcs_stay_round_and_as_large_whatever_the_axes():
    for limits, dpi in (((0.0, 1.0), 100), ((-500.0, 4000.0), 50)):
        ax = flat(figsize=(6, 2), dpi=dpi)
        ax.set_xlim(*limits)
        (drawn,) = plots.arcs(VonMises(0.0, 1e-9), limits[1], 0.5, ax, masses=[0.999], radius=10.0)
        pixels = drawn.get_transform().transform(drawn.get_paths()[0].vertices)
        np.testing.assert_allclose(np.hypot(*pixels.T), 10.0 * dpi / 72.0)


def test_arcs_of_two_modes_belong_to_their_distribution():
    dist = GvM([[0.5, 0.0], [0.0, 5.0]])
    (drawn,) = plots.arcs(dist, [0.0, 1.0], [0.0, 0.0], flat(), masses=[0.5])
    np.testing.assert_array_equal(drawn.get_offsets()[:, 0], [0, 1, 1])


def test_needles_tell_inside_from_outside_also_across_the_cut():
    dist = VonMises([3.1, 3.1, 0.0], [20.0, 20.0, 20.0])
    *_, needles = plots.arcs(dist, [0, 1, 2], [0, 0, 0], flat(), observed=[-3.1, 0.0, 0.1 - 4 * np.pi])
    blue, orange = needles.get_colors()[[0, 1]]
    np.testing.assert_array_equal(needles.get_colors(), [blue, orange, blue])
    assert not np.array_equal(blue, orange)
    tips = np.array([path.vertices for path in needles.get_paths()])
    np.testing.assert_array_equal(tips[:, 0], 0.0)
    np.testing.assert_allclose(np.arctan2(tips[:, 1, 1], tips[:, 1, 0]), [-3.1, 0.0, 0.1], atol=1e-12)


def test_arcs_move_the_limits_to_the_places():
    ax = flat()
    plots.arcs(VonMises([0.0, 1.0], [2.0, 2.0]), [5.0, 15.0], [47.0, 55.0], ax)
    assert ax.get_xlim()[0] <= 5.0 < 15.0 <= ax.get_xlim()[1]
    assert ax.get_ylim()[0] <= 47.0 < 55.0 <= ax.get_ylim()[1]


def test_arcs_refuse_what_does_not_fit():
    dist = VonMises([0.0, 1.0], [2.0, 2.0])
    with pytest.raises(ValueError, match="x and y must have a value for each of the 2 distributions, got 3 and 2"):
        plots.arcs(dist, [1, 2, 3], [1, 2], flat())
    with pytest.raises(ValueError, match="observed must have an angle for each of the 2 distributions, got 1"):
        plots.arcs(dist, [1, 2], [1, 2], flat(), observed=[1.0])
    with pytest.raises(
        TypeError, match="distribution must be a distribution on the circle, as from predict_dist, got Cardioid"
    ):
        plots.arcs(Cardioid(0.0, 0.4), [1], [2], flat())
    with pytest.raises(TypeError, match="plain axes"):
        plots.arcs(dist, [1, 2], [1, 2], polar())
    with pytest.raises(ValueError, match="masses must lie strictly between 0 and 1"):
        plots.arcs(dist, [1, 2], [1, 2], flat(), masses=[1.0])


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_predicted_densities_are_drawn_turn_by_turn(turns):
    x = np.array([0.0, 1.0, 3.0])
    dist = VonMises([0.0, 1.0, 3.0], [1.0, 2.0, 9.0])
    ax = flat()
    shades = plots.predictive_density(dist, x, ax, turns=turns, unit="radians", points=40)
    corners = shades.get_coordinates()
    angles = 0.5 * (corners[1:, 0, 1] + corners[:-1, 0, 1])
    assert angles[0] == pytest.approx(-np.pi * turns)
    assert angles[-1] == pytest.approx(np.pi * turns)
    expected = dist[:, None].pdf(angles).T
    np.testing.assert_allclose(np.asarray(shades.get_array()).reshape(expected.shape), expected, rtol=1e-9)
    assert [label.get_text() for label in ax.get_yticklabels()][turns] == "0"
    assert ax.get_yticklabels()[0].get_text() == {1: "−π", 2: "−2π", 3: "−3π"}[turns]
    assert plots.predictive_density(dist, x, turns=turns).axes.get_yticklabels()[-1].get_text() == f"{180 * turns}°"


def test_predicted_densities_refuse_what_does_not_fit():
    dist = VonMises([0.0, 1.0], [2.0, 2.0])
    with pytest.raises(ValueError, match=r"increasing.*predictive_density\(dist\[order\], x\)"):
        plots.predictive_density(dist, [1.0, 0.0], flat())
    with pytest.raises(ValueError, match="batch of 3 distributions"):
        plots.predictive_density(dist, [1.0, 2.0, 3.0], flat())
    with pytest.raises(ValueError, match="unit must be one of"):
        plots.predictive_density(dist, [1.0, 2.0], flat(), unit="grads")
