"""Compass, roses on a map, skeleton and doughnut: things are where they should be, and bad input is named."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mgvm import CircularPCA, MGvM, VonMises, angles, plots
from mgvm.pca import KinematicTree


def flat(**options):
    return Figure(**options).add_subplot()


def polar():
    return Figure().add_subplot(projection="polar")


def solid():
    return Figure().add_subplot(projection="3d")


def on_page(ax, angle):
    """The direction on the page of an angle on polar axes: right and up, of length one."""
    FigureCanvasAgg(ax.figure)
    middle, tip = ax.transData.transform([[0.0, 0.0], [angle, 1.0]])
    return (tip - middle) / np.hypot(*(tip - middle))


@pytest.mark.parametrize(("bearing", "way"), [(0, (0, 1)), (90, (1, 0)), (180, (0, -1)), (270, (-1, 0))])
def test_north_is_up_and_east_on_the_right(bearing, way):
    ax = plots.compass(polar())
    ax.set_rmax(1.0)
    np.testing.assert_allclose(on_page(ax, angles.from_compass(bearing)), way, atol=1e-9)
    # The label of that direction stands there, too.
    places = dict(zip([text.get_text() for text in ax.get_xticklabels()], ax.get_xticks(), strict=True))
    assert len(places) == 8
    np.testing.assert_allclose(on_page(ax, places["NESW"[bearing // 90]]), way, atol=1e-9)


def test_a_dial_can_become_a_compass_and_back():
    ax = plots.compass(plots.dial(polar()), winds=4)
    assert (ax.get_theta_direction(), ax.get_theta_offset()) == (1, 0.0)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["N", "E", "S", "W"]
    assert plots.dial(ax).get_theta_direction() == -1
    with pytest.raises(ValueError, match="winds must be 4 or 8, got 5"):
        plots.compass(winds=5)
    with pytest.raises(TypeError, match="polar axes"):
        plots.compass(flat())


def test_colours_come_round():
    turn = np.linspace(-np.pi, np.pi, 361)
    colours = plots.angle_colours(turn)
    assert colours.shape == (361, 4)
    np.testing.assert_allclose(plots.angle_colours(turn + 4 * np.pi), colours, atol=0.02)
    assert np.abs(np.diff(colours, axis=0)).max() < 0.05
    assert np.abs(colours[0] - colours[-1]).max() < 0.05
    lightness = plots.angle_colours(turn, lightest=1.0)[:, :3] @ [0.3, 0.6, 0.1]
    assert turn[lightness.argmax()] == pytest.approx(1.0, abs=0.1)
    assert turn[lightness.argmin()] == pytest.approx(1.0 - np.pi, abs=0.2)
    with pytest.raises(ValueError, match="angles must be finite radians, got nan"):
        plots.angle_colours([np.nan])


@pytest.mark.parametrize(
    ("unit", "up", "right"), [("degrees", "90°", "0°"), ("hours", "00:00", "06:00"), ("compass", "N", "E")]
)
def test_the_ring_says_which_colour_is_which_angle(unit, up, right):
    ring = plots.colour_ring(polar(), unit=unit, label="φ")
    ax = ring[0].axes
    assert np.ptp(ax.get_xlim()) == pytest.approx(2 * np.pi)  # nothing is cut off
    for bar in ring:
        middle = bar.get_x() + 0.5 * bar.get_width()
        np.testing.assert_allclose(bar.get_facecolor(), plots.angle_colours(middle), atol=1e-9)
    places = dict(zip([text.get_text() for text in ax.get_xticklabels()], ax.get_xticks(), strict=True))
    np.testing.assert_allclose(on_page(ax, places[up]), [0, 1], atol=1e-9)
    np.testing.assert_allclose(on_page(ax, places[right]), [1, 0], atol=1e-9)


SEEN = [np.linspace(0.0, 1.0, 30), np.linspace(2.0, 2.2, 30)]


@pytest.mark.parametrize("dpi", [50, 200])
def test_roses_stand_at_their_places_and_are_as_large_on_any_map(dpi):
    ax = flat(figsize=(4, 2), dpi=dpi)
    ax.set_xlim(0, 1000)
    ax.set_ylim(0, 1)
    roses = plots.roses_on_map(SEEN, [200, 700], [0.4, 0.6], ax, size=30)
    FigureCanvasAgg(ax.figure).draw()
    for inset, place in zip(roses, [(200, 0.4), (700, 0.6)], strict=True):
        box = inset.get_window_extent()
        assert box.width == pytest.approx(30 * dpi / 72, rel=1e-6)
        assert box.height == pytest.approx(box.width, rel=1e-6)
        centre = ax.transData.transform(place)
        np.testing.assert_allclose([0.5 * (box.x0 + box.x1), 0.5 * (box.y0 + box.y1)], centre, atol=1e-6)
    assert ax.get_xlim() == (0, 1000)


def test_roses_share_one_scale_and_hold_their_areas():
    wide, narrow = plots.roses_on_map(SEEN, [0, 1], [0, 1], flat(), bins=36)
    assert wide.get_rmax() == narrow.get_rmax()
    for inset in (wide, narrow):
        areas = [0.5 * bar.get_width() * bar.get_height() ** 2 for bar in inset.patches]
        assert sum(areas) == pytest.approx(1.0)
        assert max(bar.get_height() for bar in inset.patches) < inset.get_rmax()


def test_roses_away_from_their_places_have_a_line_to_them():
    ax = flat()
    dist = VonMises([0.5, 2.1], [3.0, 9.0])
    roses = plots.roses_on_map(SEEN, [0, 1], [0, 1], ax, dist=dist, at=[[3, 3], [4, 4]], dress=plots.dial)
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[1, 1], [4, 4]])
    curve = roses[1].lines[0]
    np.testing.assert_allclose(curve.get_ydata() ** 2 / 2, dist[1].pdf(curve.get_xdata()))
    assert roses[0].get_theta_direction() == -1


def test_bad_maps_are_named():
    with pytest.raises(ValueError, match="x and y must have a value for each of the 2 sets of angles, got 3 and 2"):
        plots.roses_on_map(SEEN, [0, 1, 2], [0, 1], flat())
    with pytest.raises(ValueError, match="angles is empty; give a set of angles for each place"):
        plots.roses_on_map([], [], [], flat())
    with pytest.raises(ValueError, match=r"angles\[1\] is empty"):
        plots.roses_on_map([SEEN[0], []], [0, 1], [0, 1], flat())
    with pytest.raises(ValueError, match=r"at must have shape \(2, 2\), a point for each rose, got \(2,\)"):
        plots.roses_on_map(SEEN, [0, 1], [0, 1], flat(), at=[1, 2])
    with pytest.raises(
        ValueError, match=r"distribution must be a batch of 2 distributions, one for each place, its shape is \(\)"
    ):
        plots.roses_on_map(SEEN, [0, 1], [0, 1], flat(), dist=VonMises(0.0, 1.0))
    with pytest.raises(TypeError, match="plain axes"):
        plots.roses_on_map(SEEN, [0, 1], [0, 1], polar())


@pytest.fixture(scope="module", params=[2, 3])
def arm(request):
    """Two links, the second with its axis across the first where there is space for that."""
    dimension, rng = request.param, np.random.default_rng(0)
    turns = rng.uniform(-np.pi, np.pi, (300, 2))
    elbow = np.zeros((300, dimension))
    elbow[:, 0], elbow[:, 1] = 2 * np.cos(turns[:, 0]), 2 * np.sin(turns[:, 0])
    hand = elbow.copy()
    hand[:, 0] += np.cos(turns[:, 1]) + (0.5 if dimension == 3 else 0.0)
    hand[:, -1] += np.sin(turns[:, 1])
    rows = np.concatenate([elbow, hand], axis=1) + 3.0 + 0.02 * rng.normal(size=(300, 2 * dimension))
    tree = KinematicTree([-1, 0], dimension=dimension)
    return CircularPCA(2, structure=tree, tol=1e-3, random_state=0).fit(rows), rows[:4]


def test_skeletons_end_at_the_markers_of_the_model(arm):
    model, rows = arm
    found = model.transform(rows)
    chains = plots.joint_places(model, found)
    ends = np.concatenate([chain[:, -1] for chain in chains], axis=1)
    np.testing.assert_allclose(ends, model.inverse_transform(found), atol=1e-9)
    np.testing.assert_allclose(chains[0][:, 0], 3.0 * np.ones_like(chains[0][:, 0]), atol=0.1)
    np.testing.assert_array_equal(chains[1][:, 0], chains[0][:, -1])


def test_frames_are_drawn_over_each_other_light_to_dark(arm):
    model, rows = arm
    ax = flat() if rows.shape[1] == 4 else solid()
    links = plots.skeleton(model, model.transform(rows), ax, observed=rows, truth=rows)
    assert len(links) == 4 * 2
    lightness = [np.dot(link.get_color()[:3], [0.3, 0.6, 0.1]) for link in links[::2]]
    assert np.all(np.diff(lightness) < 0)
    assert ax.get_legend_handles_labels()[1] == ["skeleton", "observed", "truth"]
    if rows.shape[1] == 4:
        first = links[1].get_xydata()
        np.testing.assert_allclose(first[-1], model.inverse_transform(model.transform(rows[:1]))[0, 2:], atol=1e-9)


def test_bad_skeletons_are_named(arm):
    model, rows = arm
    with pytest.raises(TypeError, match="model must be a fitted CircularPCA, got CircularPCA; call fit first"):
        plots.skeleton(CircularPCA(2), [0.0, 0.0])
    loose = CircularPCA(1, max_iter=500, n_init=1, random_state=0).fit(
        np.stack([np.cos(np.arange(50.0)), np.sin(np.arange(50.0))], axis=1)
        + 0.1 * np.random.default_rng(0).normal(size=(50, 2))
    )
    with pytest.raises(ValueError, match="model has no skeleton, its structure is no tree"):
        plots.skeleton(loose, [0.0])
    with pytest.raises(ValueError, match=r"angles must have shape \(2,\) or \(n, 2\) with n >= 1, got \(4, 3\)"):
        plots.skeleton(model, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="observed must have a row for each of the 4 frames, got 3"):
        plots.skeleton(model, model.transform(rows), observed=rows[:3])
    if rows.shape[1] == 6:
        with pytest.raises(TypeError, match="3-D axes, got Axes"):
            plots.skeleton(model, model.transform(rows), flat())


def test_points_lie_on_the_doughnut():
    net, points = plots.doughnut(ax=solid(), angles=[[0.0, 0.0], [np.pi / 2, np.pi], [0.3, -1.0]])
    x, y, z = points._offsets3d
    np.testing.assert_allclose((np.hypot(x, y) - 2.0) ** 2 + z**2, 0.85**2)
    np.testing.assert_allclose([x[0], y[1]], [2.85, 1.15])
    corners = np.concatenate(net._segments3d)
    np.testing.assert_allclose((np.hypot(corners[:, 0], corners[:, 1]) - 2) ** 2 + corners[:, 2] ** 2, 0.85**2)


def test_the_doughnut_is_darkest_where_the_density_is_highest():
    dist = MGvM(3.0 * np.exp(1j * np.array([1.0, 0.5])))
    shades, _, rows = plots.doughnut(dist, solid(), rows=[[1.0, 2.0, 3.0]], points=40)
    darkness = 3.0 - shades._facecolor3d[:, :3].sum(axis=1).reshape(40, 40)
    first, second = np.unravel_index(np.argmax(darkness), (40, 40))
    middles = -np.pi + 2 * np.pi / 40 * (np.arange(40) + 0.5)
    assert middles[first] == pytest.approx(1.0, abs=np.pi / 40)
    assert middles[second] == pytest.approx(0.5, abs=np.pi / 40)
    assert rows._offsets3d[2][0] == 3.0


def test_another_surface_may_be_given_and_is_checked():
    def plane(pairs):
        return np.column_stack([pairs, np.zeros(len(pairs))])

    net, _ = plots.doughnut(ax=solid(), surface=plane, angles=[[1.0, 2.0]])
    assert np.ptp(np.concatenate(net._segments3d)[:, 2]) == 0.0
    with pytest.raises(ValueError, match=r"surface must make points \(n, 3\) of angles \(n, 2\), it made"):
        plots.doughnut(ax=solid(), surface=lambda pairs: pairs)
    with pytest.raises(TypeError, match="3-D axes, got Axes; make them with plt.subplot"):
        plots.doughnut(ax=flat())
    with pytest.raises(ValueError, match=r"angles must have shape \(n, 2\) with n >= 1, got \(3, 3\)"):
        plots.doughnut(ax=solid(), angles=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="rows must be finite, got nan"):
        plots.doughnut(ax=solid(), rows=[[0.0, np.nan, 0.0]])
