"""A density of two angles as a square whose opposite edges are the same line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation
from mgvm._validation import FloatArray
from mgvm.circle.highest_density import grid_levels
from mgvm.plots._axes import Scale, flat_axes, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet

# One hue, so that lightness alone tells: darker is more probable, in colour, in grey and in print.
_MAP = "Blues"
_EDGES = "#0B3C5D"
POINTS = "#B03A2E"


def torus_density(
    dist: Any,
    ax: Axes | None = None,
    *,
    masses: Sequence[float] = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999),
    unit: str = "degrees",
    points: int = 240,
    **contour_options: Any,
) -> QuadContourSet:
    """Regions of highest density of a distribution of two angles: the smallest ones that hold given shares of its mass.

    Parameters
    ----------
    dist : distribution on the torus of two angles
        Anything with ``logpdf`` (`MGvM`, `MultivariateWrappedNormal`) or ``score_samples`` (`TorusMixture`).
    ax : axes, optional
        Where to draw; new axes by default. The first angle runs to the right, the second upwards.
    masses : sequence of float
        Shares of the mass, each between 0 and 1.
    unit : {"degrees", "radians", "hours", "compass"}
        Of the axes. The bearings of "compass" are those of ``mgvm.angles.to_compass``.
    points : int, default 240
        Grid points along each angle.
    **contour_options
        Handed to ``Axes.contourf``: cmap, alpha and so on.

    Returns
    -------
    matplotlib.contour.QuadContourSet
        The filled regions.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.plots import torus_density
    >>> regions = torus_density(MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]]), masses=[0.5, 0.9])
    >>> len(regions.levels)  # the two densities that bound the regions, and the highest of all
    3
    """
    shares = np.sort(_validation.fraction(list(masses), "masses"))[::-1]
    scale = scale_of(unit)
    axis = grid_axis(scale, _validation.integer(points, "points", minimum=8))
    density = on_grid(dist, scale.angle(axis[:-1]))
    return regions(flat_axes(ax), density, shares, scale, contour_options)


def grid_axis(scale: Scale, points: int) -> FloatArray:
    """Coordinates of a turn, the first and the last the same angle."""
    return scale.middle + scale.turn * np.linspace(-0.5, 0.5, points + 1)


def regions(
    ax: Axes, density: FloatArray, shares: FloatArray, scale: Scale, contour_options: dict[str, Any]
) -> QuadContourSet:
    """Regions that hold `shares` (falling) of a density on the square of `grid_axis` without its last point."""
    from matplotlib.colors import BoundaryNorm

    levels = _thresholds(density, shares)
    axis = grid_axis(scale, len(density))
    # Densities span orders of magnitude: every region gets a shade of its own instead of its density's.
    norm = BoundaryNorm(levels, 256, extend="both")
    closed = np.pad(density, ((0, 1), (0, 1)), mode="wrap")
    drawn = ax.contourf(axis, axis, closed.T, levels=levels, **{"cmap": _MAP, "norm": norm, **contour_options})
    ax.contour(axis, axis, closed.T, levels=levels[:-1], colors=_EDGES, linewidths=0.5)
    dress_square(ax, scale)
    return drawn


def on_grid(dist: Any, angles: FloatArray) -> FloatArray:
    """Density at all pairs, the first angle along the first axis."""
    pairs = np.stack(np.meshgrid(angles, angles, indexing="ij"), axis=-1).reshape(-1, 2)
    evaluate = getattr(dist, "score_samples", None) or getattr(dist, "logpdf", None)
    if evaluate is None:
        raise TypeError(f"distribution must have logpdf or score_samples, {type(dist).__name__} has neither")
    values = np.asarray(evaluate(pairs))
    if values.shape != (len(pairs),):
        raise ValueError(
            "distribution must be a single distribution of two angles, "
            f"its log density of {len(pairs)} points has shape {values.shape}"
        )
    return np.exp(values).reshape(angles.size, angles.size)


def _thresholds(density: FloatArray, shares: FloatArray) -> FloatArray:
    """Densities above which the given shares (falling) of the mass lie, then the highest of all."""
    found = grid_levels(density.ravel(), shares)
    # A flat density has one threshold for all shares; contours want rising levels.
    levels = np.unique(np.append(found, density.max()))
    return levels if levels.size > 1 else np.array([0.5, 1.0]) * levels[0]


def dress_square(ax: Axes, scale: Scale) -> None:
    """One turn along both axes, with a tick every quarter."""
    ticks, names = scale.ticks(1, 1)
    ax.set_xticks(ticks, names)
    ax.set_yticks(ticks, names)
    ax.set_xlim(ticks[0], ticks[-1])
    ax.set_ylim(ticks[0], ticks[-1])
    ax.set_aspect("equal")


def torus_scatter(angles: ArrayLike, ax: Axes | None = None, *, unit: str = "degrees", **scatter_options: Any) -> Any:
    """Points of two angles on the square of `torus_density`.

    Parameters
    ----------
    angles : array_like, shape (N, 2)
        Radians, any real numbers.
    ax : axes, optional
        Where to draw; new axes by default.
    unit : {"degrees", "radians", "hours", "compass"}
        Of the axes.
    **scatter_options
        Handed to ``Axes.scatter``: s, color, alpha and so on.

    Returns
    -------
    matplotlib.collections.PathCollection
        The points.

    Examples
    --------
    >>> from mgvm.datasets import load_residues
    >>> from mgvm.plots import torus_scatter
    >>> drawn = torus_scatter(load_residues("LEU").angles[:, :2], s=1)
    >>> len(drawn.get_offsets())
    667
    """
    values = _validation.angle_data(angles, "angles")
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(f"angles must have shape (N, 2), got {values.shape}; choose two columns, angles[:, [0, 1]]")
    scale = scale_of(unit)
    ax = flat_axes(ax)
    options = {"s": 2.0, "color": POINTS, "linewidths": 0.0, **scatter_options}
    drawn = ax.scatter(*scale.coordinate(values).T, **options)
    dress_square(ax, scale)
    return drawn
