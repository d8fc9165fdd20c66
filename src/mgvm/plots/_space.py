"""In space and in the plane: two angles on the torus that they are, and rigid links between markers, frame by frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import SEEN, SHADES, flat_axes, solid_axes
from mgvm.plots._torus import on_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from mgvm.pca import CircularPCA, KinematicTree

_LINK, _SEEN, _TRUE = "#D1495B", "#6C7A89", "#1A1A1A"


def joint_places(model: CircularPCA, angles: ArrayLike) -> list[FloatArray]:
    """For every marker the points from its parent, or its fixed point, over hidden joints to itself.

    The last of marker m is c_m + Σ_d a_md cos φ_d + b_md sin φ_d, the model's own place of the marker.

    Parameters
    ----------
    model : CircularPCA
        Fitted with ``structure`` a KinematicTree or "tree".
    angles : array_like, shape (n, D)
        Latent angles, as from ``transform``; radians.

    Returns
    -------
    list of ndarray, shape (n, links + 1, dimension)
        One for each marker.
    """
    tree = _tree_of(model)
    turned = _frames(check.angles(angles, "angles"), tree.n_angles, "angles")
    cosine, sine = np.cos(turned), np.sin(turned)
    offset = np.asarray(model.offset_).reshape(-1, tree.dimension)
    chains: dict[int, FloatArray] = {}
    for marker in sorted(range(len(tree.parents)), key=lambda one: len(tree.path(one))):
        rows = slice(tree.dimension * marker, tree.dimension * (marker + 1))
        links, parent = tree.links(marker), tree.parents[marker]
        steps = cosine[:, links, None] * model.A_[rows, links].T + sine[:, links, None] * model.B_[rows, links].T
        if parent < 0:
            begin = np.broadcast_to(offset[marker], (len(turned), tree.dimension))
        else:
            begin = chains[parent][:, -1]
            # In space a marker may stand off along the axis that its link turns about.
            steps[:, -1] += offset[marker] - offset[parent]
        chains[marker] = np.concatenate([begin[:, None], begin[:, None] + np.cumsum(steps, axis=1)], axis=1)
    return [chains[marker] for marker in range(len(tree.parents))]


def skeleton(
    model: CircularPCA,
    angles: ArrayLike,
    ax: Axes | None = None,
    *,
    observed: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    **line_options: Any,
) -> list[Line2D]:
    """Links from c over joints c + Σ_d a_d cos φ_d + b_d sin φ_d to the markers, for one frame or for several.

    Several frames are drawn over each other, the first one light and the last one dark. Squares are fixed points, open
    circles on the links hidden joints. For a legend, what is drawn is labelled "skeleton", "hidden joint", "observed"
    and "truth", each once.

    Parameters
    ----------
    model : CircularPCA
        Fitted with ``structure`` a KinematicTree or "tree".
    angles : array_like, shape (D,) or (n, D)
        Latent angles of the frames, as from ``transform``; radians.
    ax : axes, optional
        Where to draw; new axes by default. They must be 3-D for a tree in space.
    observed, truth : array_like, shape (M,) or (n, M), optional
        Rows to compare with, drawn as crosses and as rings: what was seen, and where the markers were.
    **line_options
        Of the links, handed to ``Axes.plot``: color, linewidth, label and so on.

    Returns
    -------
    list of matplotlib.lines.Line2D
        The links, frame by frame and marker by marker.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.pca import CircularPCA, KinematicTree
    >>> from mgvm.plots import skeleton
    >>> swing = 0.8 * np.sin(np.linspace(0.0, 12.0, 200))
    >>> hand = np.column_stack([np.cos(swing), np.sin(swing)]) + 0.01 * np.random.default_rng(0).normal(size=(200, 2))
    >>> model = CircularPCA(1, structure=KinematicTree([-1], fixed="origin"), random_state=0).fit(hand)
    >>> len(skeleton(model, model.transform(hand[:5])))
    5
    """
    tree, chains = _tree_of(model), joint_places(model, angles)
    count = len(chains[0])
    marks: list[tuple[FloatArray, dict[str, Any]]] = [
        (_frames(check.finite_or_nan(rows, name), tree.n_columns, name, count), style)
        for rows, name, style in (
            (
                observed,
                "observed",
                {"label": "observed", "marker": "x", "color": _SEEN, "markersize": 7.0, "markeredgewidth": 1.8},
            ),
            (
                truth,
                "truth",
                {"label": "truth", "marker": "o", "color": _TRUE, "markersize": 6.0, "markerfacecolor": "none"},
            ),
        )
        if rows is not None
    ]
    axes: Any = flat_axes(ax) if tree.dimension == 2 else solid_axes(ax)
    options = {"linewidth": 2.4, "solid_capstyle": "round", "label": "skeleton", **line_options}
    drawn: list[Line2D] = []
    for frame, colour in enumerate(_colours(count)):
        for marker, chain in enumerate(chains):
            drawn += _draw_chain(axes, chain[frame], tree.parents[marker] < 0, {"color": colour, **options})
            options.pop("label", None)
    _label_once(axes, "hidden joint")
    for rows, style in marks:
        axes.plot(*rows.reshape(-1, tree.dimension).T, linestyle="none", zorder=3.5, **style)
    if tree.dimension == 2:
        axes.set_aspect("equal", adjustable="datalim")
    return drawn


def _tree_of(model: CircularPCA) -> KinematicTree:
    if not hasattr(model, "A_"):
        raise TypeError(f"model must be a fitted CircularPCA, got {type(model).__name__}; call fit first")
    tree = getattr(getattr(model, "structure_", None), "tree", None)
    if tree is None:
        raise ValueError(
            "model has no skeleton, its structure is no tree; fit it with structure=KinematicTree(...) or 'tree'"
        )
    return tree


def _frames(values: FloatArray, width: int, name: str, count: int | None = None) -> FloatArray:
    """Rows (n, width); a single row is one frame."""
    rows = values[None] if values.ndim == 1 else values
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows):
        raise ValueError(f"{name} must have shape ({width},) or (n, {width}) with n >= 1, got {values.shape}")
    if count is not None and len(rows) != count:
        raise ValueError(f"{name} must have a row for each of the {count} frames, got {len(rows)}")
    return rows


def _colours(count: int) -> list[Any]:
    if count == 1:
        return [_LINK]
    from matplotlib import colormaps

    # Frames from light to dark; the ends of the map are pale or black.
    return list(colormaps["viridis_r"](np.linspace(0.12, 0.95, count)))


def _draw_chain(ax: Any, chain: FloatArray, is_root: bool, options: dict[str, Any]) -> list[Line2D]:
    links: list[Line2D] = ax.plot(*chain.T, **options)
    colour = links[0].get_color()
    beads = {"linestyle": "none", "color": colour, "zorder": 3.0}
    if len(chain) > 2:
        ax.plot(*chain[1:-1].T, marker="o", markersize=6.0, markerfacecolor="white", label="hidden joint", **beads)
    if is_root:
        ax.plot(*chain[:1].T, marker="s", markersize=5.0, **beads)
    ax.plot(*chain[-1:].T, marker="o", markersize=4.0, **beads)
    return links


def _label_once(ax: Any, label: str) -> None:
    """Keep a label on the first line that has it."""
    for line in [line for line in ax.lines if line.get_label() == label][1:]:
        line.set_label("_")


_WIRE = "#B4BEC5"


def doughnut(
    dist: Any = None,
    ax: Any = None,
    *,
    angles: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    surface: Callable[[FloatArray], FloatArray] | None = None,
    points: int = 96,
    wire_options: dict[str, Any] | None = None,
    **scatter_options: Any,
) -> list[Any]:
    """The torus ((2 + 0.85 cos φ₂) cos φ₁, (2 + 0.85 cos φ₂) sin φ₁, 0.85 sin φ₂), shaded by a density, with points.

    The surface lets light through: points on its far side are seen as well.

    Parameters
    ----------
    dist : distribution on the torus of two angles, optional
        Its density shades the surface, darker where it is higher.
    ax : 3-D axes, optional
        Where to draw; new axes by default.
    angles : array_like, shape (n, 2), optional
        Points on the surface; radians.
    rows : array_like, shape (n, 3), optional
        Points in space, on or off the surface.
    surface : callable, optional
        Another torus: angles (n, 2) to points (n, 3), such as ``inverse_transform`` of a `CircularPCA` of two angles
        and three columns.
    points : int, default 96
        Grid points along each angle of a shaded surface.
    wire_options : dict, optional
        Of the net, handed to ``Axes3D.plot_wireframe``: color, linewidth and so on.
    **scatter_options
        Of the points, handed to ``Axes3D.scatter``: s, color, alpha and so on.

    Returns
    -------
    list
        The shades, if any, the net, and the points, if any, those on the surface first.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.plots import doughnut
    >>> dist = MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]])
    >>> shades, net, draws = doughnut(dist, angles=dist.sample(100, rng=0))
    >>> draws.axes.name
    '3d'
    """
    place = _ring if surface is None else surface
    if not callable(place):
        raise TypeError(f"surface must be a function of angles (n, 2) to points (n, 3), got {type(surface).__name__}")
    seen = None if angles is None else _matrix(check.angle_data(angles, "angles"), "angles", 2)
    space = None if rows is None else _matrix(check.finite(rows, "rows"), "rows", 3)
    steps = check.integer(points, "points", minimum=8)
    ax = solid_axes(ax)
    drawn = [] if dist is None else [_draw_shades(ax, dist, place, steps)]
    drawn.append(_draw_net(ax, place, wire_options or {}))
    # By default the order of a whole surface is its mean depth, which hides all points or none.
    ax.computed_zorder = False
    options = {"s": 5.0, "color": SEEN, "alpha": 0.6, "linewidths": 0, "depthshade": False, **scatter_options}
    for values in (None if seen is None else _placed(place, seen), space):
        if values is not None:
            drawn.append(ax.scatter(*values.T, **options))
    if surface is None:
        # The coordinates of this torus mean nothing.
        ax.set_axis_off()
    _equal(ax)
    return drawn


def _ring(angles: FloatArray) -> FloatArray:
    large, small = 2.0, 0.85  # radii of the ring and of its tube
    away = large + small * np.cos(angles[:, 1])
    return np.stack([away * np.cos(angles[:, 0]), away * np.sin(angles[:, 0]), small * np.sin(angles[:, 1])], axis=1)


def _placed(place: Callable[[FloatArray], FloatArray], angles: FloatArray) -> FloatArray:
    found = np.asarray(place(angles), dtype=float)
    if found.shape != (len(angles), 3):
        raise ValueError(f"surface must make points (n, 3) of angles (n, 2), it made {found.shape} of {angles.shape}")
    return found


def _lattice(place: Callable[[FloatArray], FloatArray], axis: FloatArray) -> FloatArray:
    """Shape (3, axis, axis)."""
    pairs = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return _placed(place, pairs).T.reshape(3, axis.size, axis.size)


def _draw_net(ax: Any, place: Callable[[FloatArray], FloatArray], options: dict[str, Any]) -> Any:
    wires, stride = 16, 4
    lattice = _lattice(place, np.linspace(-np.pi, np.pi, stride * wires + 1))
    looks = {"color": _WIRE, "linewidth": 0.5, **options}
    return ax.plot_wireframe(*lattice, rstride=stride, cstride=stride, **looks)


def _draw_shades(ax: Any, dist: Any, place: Callable[[FloatArray], FloatArray], steps: int) -> Any:
    from matplotlib import colormaps

    step = 2.0 * np.pi / steps
    corners = np.linspace(-np.pi, np.pi, steps + 1)
    density = on_grid(dist, corners[:-1] + 0.5 * step)
    # The square root shows the flanks as well as the modes.
    height = np.sqrt(density / density.max())
    # Not from white: a surface without mass is still seen.
    colours = colormaps[SHADES](0.06 + 0.94 * height, alpha=0.75)
    return ax.plot_surface(
        *_lattice(place, corners), facecolors=colours, rstride=1, cstride=1, linewidth=0, antialiased=False, shade=False
    )


def _matrix(values: FloatArray, name: str, width: int) -> FloatArray:
    if values.ndim != 2 or values.shape[1] != width or not len(values):
        raise ValueError(f"{name} must have shape (n, {width}) with n >= 1, got {values.shape}")
    return values


def _equal(ax: Any) -> None:
    """One scale along all axes, as far out as what is drawn."""
    limits = np.array([ax.get_xlim3d(), ax.get_ylim3d(), ax.get_zlim3d()])
    ax.set_box_aspect(np.ptp(limits, axis=1), zoom=1.45)
