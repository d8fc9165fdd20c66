"""Roses where their angles were seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import flat_axes
from mgvm.plots._polar import circular_density, rose

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.projections.polar import PolarAxes

_LINE, _RIM, _BARS = "#7F8C8D", "#9AA5AD", "#C3C9CE"


def roses_on_map(
    angles: Sequence[ArrayLike],
    x: ArrayLike,
    y: ArrayLike,
    ax: Axes | None = None,
    *,
    dist: Any = None,
    at: ArrayLike | None = None,
    size: float = 48.0,
    bins: int = 24,
    dress: Callable[[PolarAxes], object] | None = None,
    reach: float | None = None,
    line_options: dict[str, Any] | None = None,
    **bar_options: Any,
) -> list[PolarAxes]:
    """A rose of radius sqrt(2 f) at each place of a map, all of one scale, with predicted densities on top.

    The area of a sector is the share of the place's data in it, and equal shares are equal areas on all roses. Sizes
    are in points, so that the roses stay round and equally large whatever the units of the axes.

    Parameters
    ----------
    angles : sequence of array_like
        Radians, a set for each place.
    x, y : array_like
        The places, in the units of the axes.
    ax : axes, optional
        The map; new axes by default. Set its limits and aspect as for any other plot.
    dist : distribution on the circle, optional
        A batch, one for each place, as from ``predict_dist``.
    at : array_like, shape (places, 2), optional
        Where the roses stand, with a line to their places; at the places themselves by default.
    size : float, default 48
        Diameter of a rose, in points.
    bins : int, default 24
        Sectors of a rose.
    dress : callable, optional
        What to make of the polar axes of a rose: `dial`, `compass` or a function that calls one of them; by default
        0 is on the right and angles run anti-clockwise, without labels.
    reach : float, optional
        Radius at the rim; by default what is drawn furthest out ends just before it.
    line_options : dict, optional
        Of the densities, handed to ``Axes.plot``.
    **bar_options
        Of the sectors, handed to ``Axes.bar``.

    Returns
    -------
    list of matplotlib.projections.polar.PolarAxes
        The roses, insets of the map, one for each place.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.plots import dial, roses_on_map
    >>> rng = np.random.default_rng(0)
    >>> seen = [rng.vonmises(mean, 3.0, 50) for mean in (0.0, 1.0, 2.0)]
    >>> roses = roses_on_map(seen, [7.1, 9.9, 11.6], [50.7, 53.5, 48.1], dress=dial)
    >>> len(roses)
    3
    """
    sets = [np.ravel(check.angle_data(part, f"angles[{k}]")) for k, part in enumerate(angles)]
    places = _pairs(x, y, len(sets))
    centres = places if at is None else _centres(at, len(sets))
    diameter = check.single_positive(size, "size")
    if dist is not None and getattr(dist, "batch_shape", None) != (len(sets),):
        shape = getattr(dist, "batch_shape", type(dist).__name__)
        raise ValueError(
            f"distribution must be a batch of {len(sets)} distributions, one for each place, its shape is {shape}"
        )
    furthest = None if reach is None else check.single_positive(reach, "reach")
    is_new, ax = ax is None, flat_axes(ax)
    if at is not None:
        for place, centre in zip(places, centres, strict=True):
            ends = np.stack([place, centre]).T
            ax.plot(*ends, color=_LINE, linewidth=0.9, marker="o", markersize=3.0, markevery=[0], zorder=1)
    # Insets do not move the limits.
    ax.update_datalim(centres)
    if is_new:
        ax.margins(0.15)  # for roses at the edge
    ax.autoscale_view()
    roses = [_inset(ax, centre, diameter, dress) for centre in centres]
    for k, (inset, seen) in enumerate(zip(roses, sets, strict=True)):
        rose(seen, inset, bins=bins, **{"color": _BARS, "linewidth": 0.2, **bar_options})
        if dist is not None:
            circular_density(dist[k], inset, **{"linewidth": 1.4, **(line_options or {})})
    # A little more than what reaches furthest.
    rim = furthest or 1.06 * max(_furthest(inset) for inset in roses)
    for inset in roses:
        inset.set_rmin(0.0)
        inset.set_rmax(rim)
        inset.set_yticks([])
    return roses


def _pairs(x: ArrayLike, y: ArrayLike, count: int) -> FloatArray:
    east, north = np.ravel(check.finite(x, "x")), np.ravel(check.finite(y, "y"))
    if not count:
        raise ValueError("angles is empty; give a set of angles for each place, at least one")
    if not east.size == north.size == count:
        raise ValueError(
            f"x and y must have a value for each of the {count} sets of angles, got {east.size} and {north.size}"
        )
    return np.stack([east, north], axis=1)


def _centres(at: ArrayLike, count: int) -> FloatArray:
    centres = check.finite(at, "at")
    if centres.shape != (count, 2):
        raise ValueError(f"at must have shape ({count}, 2), a point for each rose, got {centres.shape}")
    return centres


def _inset(ax: Axes, centre: FloatArray, diameter: float, dress: Callable[[PolarAxes], object] | None) -> PolarAxes:
    """Polar axes of a size in points about a point of the map."""
    from matplotlib.transforms import Affine2D, ScaledTranslation

    # A figure's own scale is in inches.
    points: Any = Affine2D().scale(1.0 / 72.0) + ax.figure.dpi_scale_trans
    to_page: Any = ax.transData
    about = points + ScaledTranslation(float(centre[0]), float(centre[1]), to_page)
    corner = (-0.5 * diameter, -0.5 * diameter, diameter, diameter)
    inset: Any = ax.inset_axes(corner, transform=about, projection="polar", zorder=3)
    if dress is None:
        inset.set_xticks([])
    else:
        dress(inset)
    inset.spines["polar"].set_color(_RIM)
    inset.spines["polar"].set_linewidth(0.7)
    return inset


def _furthest(inset: PolarAxes) -> float:
    """The largest radius of bars and curves."""
    bars = [float(bar.get_height()) for bar in inset.patches if hasattr(bar, "get_height")]
    curves = [float(np.max(np.asarray(line.get_ydata(), dtype=float))) for line in inset.lines]
    return max(bars + curves)
