"""Predicted distributions where they were asked for: arcs and roses at places of a map, densities along one input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.plots._axes import (
    BLUE,
    SEEN,
    SHADES,
    VERMILION,
    falling_shares,
    find_narrow,
    flat_axes,
    scale_of,
    warn_of_narrow,
)
from mgvm.plots._circle import circular_density, rose

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, QuadMesh
    from matplotlib.projections.polar import PolarAxes
    from matplotlib.transforms import Transform

    from mgvm.circle.base import CircularDistribution

_ARC = "#4D4D4D"


def arcs(
    dist: CircularDistribution,
    x: ArrayLike,
    y: ArrayLike,
    ax: Axes | None = None,
    *,
    masses: Sequence[float] = (0.5, 0.9),
    observed: ArrayLike | None = None,
    compass: bool = False,
    radius: float = 12.0,
    **line_options: Any,
) -> list[LineCollection]:
    """Distributions of angles at places of a map: their highest-density regions, as arcs of a circle.

    The arcs of every distribution lie on a circle about its place, the smaller the share the thicker. They are drawn in
    points, so that the circles stay round and equally large whatever the units of the axes.

    Parameters
    ----------
    dist : distribution on the circle
        A batch, as from ``predict_dist``, or a single distribution.
    x, y : array_like
        The places, in the units of the axes; as many as there are distributions.
    ax : axes, optional
        Where to draw; new axes by default.
    masses : sequence of float
        Shares of the mass, each between 0 and 1.
    observed : array_like, optional
        An angle for each distribution, drawn as a needle from its place across its circle: blue where it lies in the
        largest set, orange where it does not.
    compass : bool, default False
        Whether the angles turn clockwise from the top of the map, as on a compass, and not anti-clockwise from its
        right.
    radius : float, default 12
        Of the circles, in points.
    **line_options
        Of the arcs, handed to ``LineCollection``: color, alpha, zorder and so on.

    Returns
    -------
    list of matplotlib.collections.LineCollection
        The arcs of each mass, the largest first; then, if any, the needles.

    Examples
    --------
    >>> from mgvm import VonMises
    >>> from mgvm.plots import arcs
    >>> dist = VonMises([0.0, 1.5], [2.0, 8.0])
    >>> wide, narrow, needles = arcs(dist, [7.1, 9.9], [50.7, 53.5], observed=[0.3, 2.9])
    >>> len(wide.get_segments()), len(needles.get_segments())
    (2, 2)
    """
    shares = falling_shares(masses)
    size = check.single_positive(radius, "radius")
    places = _places(dist, x, y)
    sets = [np.asarray(dist.interval(float(share))).reshape(len(places), -1, 2) for share in shares]
    ax = flat_axes(ax)
    widths = size * np.linspace(0.07, 0.19, shares.size)  # the larger the region the thinner, in radii
    drawn = []
    for ends, width in zip(sets, widths, strict=True):
        owner, path = _arc_paths(ends)
        options = {"color": _ARC, "linewidth": float(width), "capstyle": "butt", **line_options}
        drawn.append(_glyphs(ax, [size * _turned(one, compass) for one in path], places[owner], options))
    if observed is not None:
        angles = check.angle_data(observed, "observed").ravel()
        if angles.size != len(places):
            raise ValueError(
                f"observed must have an angle for each of the {len(places)} distributions, got {angles.size}"
            )
        drawn.append(_needles(ax, angles, sets[0], places, size, compass))
    ax.update_datalim(places)
    ax.autoscale_view()
    return drawn


def _places(dist: CircularDistribution, x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Shape (distributions, 2)."""
    if not (hasattr(dist, "interval") and hasattr(dist, "batch_shape")):
        raise TypeError(
            f"distribution must be a distribution on the circle, as from predict_dist, got {type(dist).__name__}"
        )
    return _pairs(x, y, int(np.prod(dist.batch_shape)), "distributions")


def _arc_paths(ends: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
    """The distribution of each arc of `ends` (distributions, arcs, 2), NaN where there is none, and angles along it."""
    owner, which = np.nonzero(~np.isnan(ends[..., 0]))
    paths = []
    for lower, upper in ends[owner, which]:
        paths.append(np.linspace(lower, upper, 2 + int((upper - lower) / np.deg2rad(3.0))))
    return owner, paths


def _turned(angles: NDArray[np.float64], compass: bool) -> NDArray[np.float64]:
    """Unit vectors (n, 2), to the right and up."""
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.stack([sine, cosine] if compass else [cosine, sine], axis=-1)


def _needles(
    ax: Axes,
    angles: NDArray[np.float64],
    ends: NDArray[np.float64],
    places: NDArray[np.float64],
    size: float,
    compass: bool,
) -> LineCollection:
    beyond = np.mod(angles[:, None] - ends[..., 0], 2 * np.pi)
    inside = (beyond <= ends[..., 1] - ends[..., 0]).any(axis=1)
    lines = [1.3 * size * np.stack([np.zeros(2), tip]) for tip in _turned(angles, compass)]
    colors = np.where(inside, BLUE, VERMILION).tolist()
    options = {"colors": colors, "linewidth": 0.09 * size, "capstyle": "round", "zorder": 3}
    return _glyphs(ax, lines, places, options)


def _glyphs(
    ax: Axes, lines: Sequence[FloatArray], places: NDArray[np.float64], options: dict[str, Any]
) -> LineCollection:
    """Lines in points, each about its place."""
    from matplotlib.collections import LineCollection

    drawn = LineCollection(lines, offsets=places, offset_transform=ax.transData, **options)
    drawn.set_transform(_points(ax))
    ax.add_collection(drawn, autolim=False)
    return drawn


def predictive_density(
    dist: CircularDistribution,
    x: ArrayLike,
    ax: Axes | None = None,
    *,
    observed: tuple[ArrayLike, ArrayLike] | None = None,
    turns: int = 2,
    unit: str = "degrees",
    points: int = 360,
    **mesh_options: Any,
) -> QuadMesh:
    """p(φ | x) as shades, the input x to the right and the angle φ upwards; several turns, so that nothing is cut.

    Parameters
    ----------
    dist : distribution on the circle
        A batch of distributions with ``pdf``, as from ``predict_dist``.
    x : array_like, shape (distributions,)
        Their inputs, at least two, increasing.
    ax : axes, optional
        Where to draw; new axes by default.
    observed : pair of array_like, optional
        Inputs and angles that were seen, drawn as points in every turn.
    turns : int, default 2
        Turns of the angle, the first around 0, or from 0 on for hours and bearings.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}
        Of the angle on the axes. The density is per radian. The bearings of "compass" are those of
        ``mgvm.angles.to_compass``.
    points : int, default 360
        Angles in a turn; of densities narrower than their distance, shades are means between them.
    **mesh_options
        Handed to ``Axes.pcolormesh``: cmap, vmin, vmax and so on.

    Returns
    -------
    matplotlib.collections.QuadMesh
        The shades, for a colour bar.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import VonMises
    >>> from mgvm.plots import predictive_density
    >>> hours = np.linspace(0, 24, 100)
    >>> shades = predictive_density(VonMises(hours / 3, np.full(100, 4.0)), hours)
    >>> [label.get_text() for label in shades.axes.get_yticklabels()]
    ['−360°', '−180°', '0°', '180°', '360°']
    """
    inputs = check.finite(x, "x")
    shape = getattr(dist, "batch_shape", None)
    if inputs.ndim != 1 or inputs.size < 2 or (np.diff(inputs) <= 0).any():
        raise ValueError(
            f"x must be a row of at least two increasing inputs, got shape {inputs.shape}; sort it with its "
            "distributions: x, order = np.unique(x, return_index=True), then predictive_density(dist[order], x)"
        )
    if shape != inputs.shape:
        raise ValueError(
            f"distribution must be a batch of {inputs.size} distributions, one for each input, its shape is {shape}"
        )
    scale, count = scale_of(unit), check.integer(turns, "turns", minimum=1)
    steps = check.integer(points, "points", minimum=8)
    seen = None if observed is None else _observed(observed)
    places = scale.middle + scale.turn * (np.arange(count * steps + 1) / steps - 0.5 * count)
    density = _resolved_density(dist, scale.angle(places[:steps]))
    shades = density[:, np.arange(places.size) % steps]
    ax = flat_axes(ax)
    options = {"cmap": SHADES, "vmin": 0.0, "shading": "nearest", "rasterized": True, **mesh_options}
    drawn = ax.pcolormesh(inputs, places, shades.T, **options)
    if seen is not None:
        for turn in range(-count, count + 1):
            heights = scale.coordinate(seen[1]) + turn * scale.turn
            ax.scatter(seen[0], heights, s=9.0, color=SEEN, linewidths=0.0, zorder=2.5)
    ticks, names = scale.ticks(count, 1 if unit == "compass" else 2)
    ax.set_yticks(ticks, names)
    ax.set_ylim(places[0], places[-1])
    ax.set_xlim(inputs[0], inputs[-1])
    return drawn


def _resolved_density(dist: CircularDistribution, angles: FloatArray) -> FloatArray:
    """Densities (distributions, angles) at equal steps of a turn; means over the steps where peaks are narrower."""
    density = np.asarray(dist[:, None].pdf(angles))
    narrow = find_narrow(density, (1,)) & np.isfinite(density).all(axis=1)
    if narrow.any() and hasattr(dist, "cdf"):
        half = np.pi / angles.size
        lower, upper = wrap(angles - half), wrap(angles + half)
        some = dist[narrow][:, None]
        density[narrow] = (some.cdf(upper) - some.cdf(lower) + (upper < lower)) / (2.0 * half)
    else:
        warn_of_narrow(density, "raise points, or draw arcs of its intervals instead", (1,))
    return density


def _observed(observed: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not isinstance(observed, tuple | list) or len(observed) != 2:
        raise TypeError("observed must be a pair, the inputs and the angles that were seen: observed=(x, angles)")
    inputs = np.ravel(check.finite(observed[0], "observed[0]"))
    angles = np.ravel(check.angle_data(observed[1], "observed[1]"))
    if inputs.size != angles.size:
        raise ValueError(f"observed must have as many inputs as angles, got {inputs.size} and {angles.size}")
    return inputs, angles


_LINE, _RIM, _BARS = "#7F8C8D", "#9AA5AD", "#C3C9CE"


def roses_on_map(
    angles: Sequence[ArrayLike],
    x: ArrayLike,
    y: ArrayLike,
    ax: Axes | None = None,
    *,
    dist: CircularDistribution | None = None,
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
    if dress is not None and not callable(dress):
        raise TypeError(f"dress must be a function of polar axes, as dial or compass, got {type(dress).__name__}")
    sets = _sets(angles)
    places = _pairs(x, y, len(sets), "sets of angles")
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
    rim = furthest or 1.06 * max(_furthest(inset) for inset in roses)
    for inset in roses:
        inset.set_rmin(0.0)
        inset.set_rmax(rim)
        inset.set_yticks([])
    return roses


def _sets(angles: Any) -> list[FloatArray]:
    """The angles of each place, a row each."""
    if isinstance(angles, str) or not isinstance(angles, Iterable) or hasattr(angles, "columns"):
        raise TypeError(
            f"angles must be a sequence with a set of angles for each place, got {type(angles).__name__}; of a "
            "DataFrame with a column for each place: [frame[name] for name in frame]"
        )
    sets = [np.ravel(check.angle_data(part, f"angles[{k}]")) for k, part in enumerate(angles)]
    if not sets:
        raise ValueError("angles is empty; give a set of angles for each place, at least one")
    return sets


def _pairs(x: ArrayLike, y: ArrayLike, count: int, what: str) -> FloatArray:
    """Places (count, 2), one for each of `what`."""
    east, north = np.ravel(check.finite(x, "x")), np.ravel(check.finite(y, "y"))
    if not east.size == north.size == count:
        raise ValueError(f"x and y must have a value for each of the {count} {what}, got {east.size} and {north.size}")
    return np.stack([east, north], axis=1)


def _centres(at: ArrayLike, count: int) -> FloatArray:
    centres = check.finite(at, "at")
    if centres.shape != (count, 2):
        raise ValueError(f"at must have shape ({count}, 2), a point for each rose, got {centres.shape}")
    return centres


def _points(ax: Axes) -> Transform:
    """The transform of sizes in points: a figure's own scale is in inches."""
    from matplotlib.transforms import Affine2D

    return Affine2D().scale(1.0 / 72.0) + ax.figure.dpi_scale_trans


def _inset(ax: Axes, centre: FloatArray, diameter: float, dress: Callable[[PolarAxes], object] | None) -> PolarAxes:
    """Polar axes of a size in points about a point of the map."""
    from matplotlib.transforms import ScaledTranslation

    to_page: Any = ax.transData
    about = _points(ax) + ScaledTranslation(float(centre[0]), float(centre[1]), to_page)
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
