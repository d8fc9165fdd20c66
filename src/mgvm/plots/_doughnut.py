"""Two angles on the torus that they are: a doughnut in space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import solid_axes
from mgvm.plots._torus import on_grid

_MAP = "Blues"
_WIRE, _POINTS = "#B4BEC5", "#B03A2E"


def doughnut(
    dist: Any = None,
    ax: Any = None,
    *,
    angles: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    surface: Callable[[FloatArray], FloatArray] | None = None,
    points: int = 96,
    wires: int = 16,
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
    wires : int, default 16
        Circles of a net along each angle.
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
    seen = None if angles is None else _matrix(check.angle_data(angles, "angles"), "angles", 2)
    space = None if rows is None else _matrix(check.finite(rows, "rows"), "rows", 3)
    steps, net = check.integer(points, "points", minimum=8), check.integer(wires, "wires", minimum=3)
    ax = solid_axes(ax)
    drawn = [] if dist is None else [_draw_shades(ax, dist, place, steps)]
    drawn.append(_draw_net(ax, place, net, wire_options or {}))
    # By default the order of a whole surface is its mean depth, which hides all points or none.
    ax.computed_zorder = False
    options = {"s": 5.0, "color": _POINTS, "alpha": 0.6, "linewidths": 0, "depthshade": False, **scatter_options}
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


def _draw_net(ax: Any, place: Callable[[FloatArray], FloatArray], wires: int, options: dict[str, Any]) -> Any:
    stride = 4
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
    # Never the lightest shades of the map: a surface without mass is still seen.
    colours = colormaps[_MAP](0.06 + 0.94 * height, alpha=0.75)
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
