"""Colours of angles: they come round as angles do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import polar_axes, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_MAP = "twilight"  # even steps to the eye, and told apart with any kind of colour vision


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

    beyond = check.angles(angles, "angles") - float(check.angles(lightest, "lightest"))
    turns = np.mod(beyond / (2.0 * np.pi), 1.0)
    colours = np.array(colormaps[_MAP](turns), dtype=float)
    colours[..., :3] *= 0.87  # what is pale would be lost on paper
    return colours


def colour_ring(
    ax: Axes | None = None, *, unit: str = "degrees", label: str = "", lightest: float = np.pi
) -> BarContainer:
    """The key to `angle_colours`: a ring that has at every angle φ its colour c(φ).

    Parameters
    ----------
    ax : polar axes, optional
        Where to draw; new axes by default.
    unit : {"degrees", "radians", "hours", "compass"}
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
    width, hole = 2.0 * np.pi / 180, 0.55  # of a piece in radians; radius of the hole, of the rim's
    middles = -np.pi + width * (np.arange(180) + 0.5)
    # A little overlap, or white lines would show between the pieces.
    options: dict[str, Any] = {"bottom": hole, "color": angle_colours(middles, lightest=lightest), "linewidth": 0.0}
    ring = ax.bar(middles, 1.0 - hole, width=1.3 * width, **options)
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
