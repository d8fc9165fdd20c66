"""Angles on polar axes: rose histogram, density curve, dial and compass; and colours that come round as angles do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._validation import FloatArray
from mgvm.plots._axes import BLUE, PALE, polar_axes, scale_of, warn_of_narrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D
    from matplotlib.projections.polar import PolarAxes

_WINDS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


class HasDensity(Protocol):
    """Any distribution on the circle."""

    def pdf(self, x: ArrayLike, /) -> NDArray[np.float64]:
        """Density at x."""
        ...


def radius(density: ArrayLike) -> NDArray[np.float64]:
    """The radius sqrt(2 f) at which a density f is drawn.

    A sector of radius r and angle d has the area d r^2 / 2, which at this radius is f d, its probability. The uniform
    distribution becomes a disc of radius 1 / sqrt(pi) and area 1.

    Parameters
    ----------
    density : array_like
        Densities per radian, >= 0.

    Returns
    -------
    ndarray
        Radii.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.plots import radius
    >>> bool(np.isclose(np.pi * radius(1 / (2 * np.pi)) ** 2, 1.0))
    True
    """
    return np.sqrt(2.0 * check.non_negative(density, "density"))


def rose(
    angles: ArrayLike,
    ax: Axes | None = None,
    *,
    weights: ArrayLike | None = None,
    bins: int = 24,
    **bar_options: Any,
) -> BarContainer:
    """Rose histogram whose areas are true: each sector's *area* is the share of the data in it.

    A rose whose radius is the share shows twice the data as four times the ink. Here the radius is sqrt(2 f) for the
    density f in the bin, so that area is proportional to frequency, all sectors together have area 1, and
    `circular_density` fits on top.

    Parameters
    ----------
    angles : array_like
        Radians, any real numbers; all axes are flattened.
    ax : polar axes, optional
        Where to draw; new axes by default.
    weights : array_like, optional
        How often each angle counts, shaped like `angles`; once by default.
    bins : int, default 24
        Number of equal bins. The first starts at -pi; 24 are the hours of a day.
    **bar_options
        Handed to ``Axes.bar``: color, edgecolor, label, zorder and so on.

    Returns
    -------
    matplotlib.container.BarContainer
        One sector for each bin.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.plots import rose
    >>> sectors = rose(np.random.default_rng(0).vonmises(0.0, 2.0, size=500), bins=36)
    >>> len(sectors)
    36
    """
    values = check.angle_data(angles, "angles")
    counts = check.weights(weights, values.shape)
    bins = check.integer(bins, "bins", minimum=1)
    density = _bin_shares(values.ravel(), counts.ravel(), bins) * (bins / (2 * np.pi))
    ax = polar_axes(ax)
    options = {"color": PALE, "edgecolor": "white", "linewidth": 0.6, **bar_options}
    edges = periodic_grid(bins)
    return ax.bar(edges, radius(density), width=2 * np.pi / bins, align="edge", **options)


def _bin_shares(angles: NDArray[np.float64], counts: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    turns = np.mod(angles / (2 * np.pi) + 0.5, 1.0)
    # Recorded angles often lie on the edges (whole hours, whole degrees). A shift far above rounding and far below any
    # recorded precision puts them all in the bin that starts there.
    index = np.floor(turns * bins + 1e-9).astype(np.int64) % bins
    return np.bincount(index, weights=counts, minlength=bins) / counts.sum()


def circular_density(dist: HasDensity, ax: Axes | None = None, **line_options: Any) -> list[Line2D]:
    """Density of a distribution as a closed curve at the radius sqrt(2 f), the scale of `rose`.

    Parameters
    ----------
    dist : distribution on the circle
        Anything with ``pdf``; one distribution, not a batch.
    ax : polar axes, optional
        Where to draw; new axes by default.
    **line_options
        Handed to ``Axes.plot``: color, linestyle, label and so on.

    Returns
    -------
    list of matplotlib.lines.Line2D
        The curve.

    Examples
    --------
    >>> from mgvm import VonMises
    >>> from mgvm.plots import circular_density
    >>> (curve,) = circular_density(VonMises(mu=0.0, kappa=2.0), label="von Mises")
    >>> curve.get_label()
    'von Mises'
    """
    batch = getattr(dist, "batch_shape", ())
    if batch != ():
        raise ValueError(f"dist must be a single distribution, got a batch of shape {batch}; draw one, dist[0] say")
    if not hasattr(dist, "pdf"):
        raise TypeError(f"dist must be a distribution on the circle with a method pdf, got {type(dist).__name__}")
    grid = _curve_grid(dist)
    density = np.asarray(dist.pdf(grid))
    if density.shape != grid.shape:
        raise ValueError(
            f"distribution must be a single distribution, its pdf of {grid.shape} angles has shape {density.shape}"
        )
    if grid.size == 721:
        warn_of_narrow(density[:-1], "hand in a distribution with quantiles (icdf), or draw its interval", (0,))
    ax = polar_axes(ax)
    lines = ax.plot(grid, radius(density), **{"color": BLUE, "linewidth": 1.8, **line_options})
    ax.set_rmin(0.0)
    return lines


def _curve_grid(dist: Any) -> FloatArray:
    """A grid of half degrees; with quantiles between them where steps of it hold much of the mass."""
    grid = np.linspace(-np.pi, np.pi, 721)
    if not hasattr(dist, "icdf"):
        return grid
    # Where a tenth of the mass lies within a step, the curve would cut the peak off.
    if np.diff(dist.icdf(np.linspace(0.05, 0.95, 10))).min() > grid[1] - grid[0]:
        return grid
    # Tails fall over many orders of magnitude: levels crowd towards both ends.
    levels = np.geomspace(1e-6, 0.5, 200)
    return np.unique(np.concatenate([grid, dist.icdf(levels), dist.icdf(1.0 - levels)]))


def dial(ax: Axes | None = None, *, hours: int = 3) -> PolarAxes:
    """Turn polar axes into the dial of a 24-hour clock: midnight on top, clockwise, 2 pi for a day.

    Parameters
    ----------
    ax : polar axes, optional
        Which axes; new ones by default.
    hours : int, default 3
        A label and a grid line every so many hours; it must divide 24.

    Returns
    -------
    matplotlib.projections.polar.PolarAxes
        The axes.

    Examples
    --------
    >>> from mgvm.plots import dial
    >>> [label.get_text() for label in dial(hours=6).get_xticklabels()]
    ['00:00', '06:00', '12:00', '18:00']
    """
    if 24 % check.integer(hours, "hours", minimum=1):
        raise ValueError(f"hours must divide 24, got {hours}")
    marks = np.arange(0, 24, hours)
    ax = polar_axes(ax)
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    return _marked(ax, marks * (2 * np.pi / 24), [f"{hour:02d}:00" for hour in marks])


def compass(ax: Axes | None = None, *, winds: int = 8) -> PolarAxes:
    """Turn polar axes into a compass: north on top, east on the right, bearings β = 90° - φ running clockwise.

    Angles are anti-clockwise from east, as ``mgvm.angles.from_compass`` returns them.

    Parameters
    ----------
    ax : polar axes, optional
        Which axes; new ones by default.
    winds : {4, 8}
        How many directions have a label and a grid line.

    Returns
    -------
    matplotlib.projections.polar.PolarAxes
        The axes.

    Examples
    --------
    >>> from mgvm.angles import from_compass
    >>> from mgvm.plots import compass, rose
    >>> ax = compass(winds=4)
    >>> sectors = rose(from_compass([350.0, 0.0, 10.0]), ax)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['N', 'E', 'S', 'W']
    """
    if check.integer(winds, "winds") not in (4, 8):
        raise ValueError(f"winds must be 4 or 8, got {winds!r}")
    ax = polar_axes(ax)
    ax.set_theta_zero_location("E")
    ax.set_theta_direction(1)
    bearings = 2 * np.pi / winds * np.arange(winds)
    return _marked(ax, np.mod(np.pi / 2 - bearings, 2 * np.pi), _WINDS[:: 8 // winds])


def _marked(ax: PolarAxes, places: NDArray[np.floating[Any]], names: Sequence[str]) -> PolarAxes:
    from matplotlib.ticker import NullFormatter

    ax.set_xticks(places, names)
    # Radii are square roots of densities: their numbers say little and lie on the picture.
    ax.yaxis.set_major_formatter(NullFormatter())
    ax.set_rmin(0.0)
    ax.set_axisbelow(True)
    return ax


# ---- colours -------------------------------------------------------------------------------------------------------


def angle_colours(angles: ArrayLike, *, lightest: float = np.pi) -> FloatArray:
    """Colours c(φ) with c(φ + 2π) = c(φ), as steadily as the eye sees them.

    Parameters
    ----------
    angles : array_like
        Radians, any real numbers.
    lightest : float, default π
        The angle of the lightest colour; that of the darkest is opposite. Angles as far from it on either side differ
        in hue alone: where print must tell them apart, move it.

    Returns
    -------
    ndarray, shape of `angles` + (4,)
        Red, green, blue and opacity, between 0 and 1; for ``color=`` of anything in matplotlib.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.plots import angle_colours
    >>> bool(np.allclose(angle_colours(3.0), angle_colours(3.0 - 2 * np.pi)))
    True
    """
    from matplotlib import colormaps

    centre = check.angles(lightest, "lightest")
    if centre.ndim:
        raise ValueError(f"lightest must be a single angle, got shape {centre.shape}; call once for each")
    beyond = check.angles(angles, "angles") - float(centre)
    turns = np.mod(beyond / (2.0 * np.pi), 1.0)
    # Even steps to the eye, and told apart with any kind of colour vision; darker, as what is pale is lost on paper.
    colours = np.array(colormaps["twilight"](turns), dtype=float)
    colours[..., :3] *= 0.87
    return colours


def colour_ring(
    ax: Axes | None = None, *, unit: str = "degrees", label: str = "", lightest: float = np.pi
) -> BarContainer:
    """The key to `angle_colours`: a ring that has at every angle φ its colour c(φ).

    Parameters
    ----------
    ax : polar axes, optional
        Where to draw; new axes by default.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}
        Of the labels. Hours and bearings run clockwise from the top.
    label : str, optional
        In the middle of the ring.
    lightest : float, default π
        As in `angle_colours`.

    Returns
    -------
    matplotlib.container.BarContainer
        The pieces of the ring.

    Examples
    --------
    >>> from mgvm.plots import colour_ring
    >>> ring = colour_ring(unit="hours", label="time of day")
    >>> [text.get_text() for text in ring[0].axes.get_xticklabels()]
    ['00:00', '06:00', '12:00', '18:00']
    """
    scale = scale_of(unit)
    ax = polar_axes(ax)
    if unit == "hours":
        ax.set_theta_zero_location("N")
        ax.set_theta_direction(-1)
    inner, pieces = 0.55, 180  # radius of the hole, of the rim
    width = 2.0 * np.pi / pieces
    middles = -np.pi + width * (np.arange(pieces) + 0.5)
    # A little overlap, or white lines would show between the pieces.
    options: dict[str, Any] = {"bottom": inner, "color": angle_colours(middles, lightest=lightest), "linewidth": 0.0}
    ring = ax.bar(middles, 1.0 - inner, width=1.3 * width, **options)
    ticks, names = scale.ticks(1, 1)
    if unit in ("degrees", "radians"):
        # Both ends of the turn are one direction here.
        names[0] = f"±{names[-1]}"
    # Ticks outside of [0, 2π) would move the limits, and cut the ring.
    ax.set_xticks(np.mod(scale.angle(ticks[:-1]), 2.0 * np.pi), names[:-1])
    ax.set_yticks([])
    ax.set_ylim(0.0, 1.0)
    ax.grid(False)
    ax.spines["polar"].set_visible(False)
    ax.text(0.0, 0.0, label, ha="center", va="center")
    return ring
