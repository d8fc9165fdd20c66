"""Do sets that claim a share of the mass hold that share of what was seen?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import flat_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

_LINE, _CHANCE, _IDEAL, _BARS = "#0072B2", "#D5D8DC", "#5F6A72", "#9CC3E0"


def calibration(
    dist: Any,
    y: ArrayLike,
    ax: Axes | None = None,
    *,
    masses: ArrayLike | None = None,
    band: float = 0.95,
    **line_options: Any,
) -> list[Line2D]:
    """Share of the y within their distributions' smallest sets of mass m, against m: on the diagonal when distributions
    are honest.

    Below the diagonal distributions claim too much (their sets are too small), above it too little. The grey band is
    where the line of n honest and independent predictions lies at each m with the probability `band`, by the binomial
    distribution.

    Parameters
    ----------
    dist : distribution on the circle
        The predictions, as from ``predict_dist``: a distribution for each y, or one for all.
    y : array_like
        The angles that came, radians.
    ax : axes, optional
        Where to draw; new axes by default.
    masses : array_like, optional
        The m, each between 0 and 1; 0.02, 0.04, … 0.98 by default.
    band : float, default 0.95
        Probability of the grey band.
    **line_options
        Of the line, handed to ``Axes.plot``: color, label and so on.

    Returns
    -------
    list of matplotlib.lines.Line2D
        The line.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import VonMises
    >>> from mgvm.plots import calibration
    >>> seen = np.random.default_rng(0).vonmises(0.0, 2.0, size=200)
    >>> (line,) = calibration(VonMises(0.0, 8.0), seen, masses=[0.5, 0.9])
    >>> line.get_ydata()  # a dist that is too narrow
    array([0.22, 0.53])
    """
    nominal = np.linspace(0.02, 0.98, 49) if masses is None else np.ravel(check.fraction(masses, "masses"))
    found = _levels(dist, _seen(dist, y))
    return reliability(nominal, (found[:, None] <= nominal).mean(axis=0), found.size, ax, band=band, **line_options)


def reliability(
    masses: ArrayLike,
    shares: ArrayLike,
    count: int,
    ax: Axes | None = None,
    *,
    band: float = 0.95,
    **line_options: Any,
) -> list[Line2D]:
    """The line of `calibration` from numbers: shares of `count` observations that lay in sets of given masses.

    Parameters
    ----------
    masses : array_like, shape (m,)
        What the sets claimed, each between 0 and 1.
    shares : array_like, shape (m,)
        What they held, as ``mgvm.scores.coverage`` says it.
    count : int
        Observations; the grey band shrinks with it.
    ax : axes, optional
        Where to draw; new axes by default.
    band : float, default 0.95
        Probability of the grey band.
    **line_options
        Of the line, handed to ``Axes.plot``.

    Returns
    -------
    list of matplotlib.lines.Line2D
        The line.

    Examples
    --------
    >>> from mgvm.plots import reliability
    >>> (line,) = reliability([0.5, 0.9], [0.44, 0.93], 120, marker="o")
    >>> line.axes.get_xlabel()
    'mass that the sets claim'
    """
    nominal, observed = np.ravel(check.fraction(masses, "masses")), np.ravel(check.finite(shares, "shares"))
    if not nominal.size or nominal.size != observed.size:
        raise ValueError(
            f"masses and shares must have as many values, at least one, got {nominal.size} and {observed.size}"
        )
    if observed.min() < 0.0 or observed.max() > 1.0:
        raise ValueError(f"shares must lie between 0 and 1, got {observed.min():g} to {observed.max():g}")
    number, chance = check.integer(count, "count", minimum=1), check.single_fraction(band, "band")
    ax = flat_axes(ax)
    fine = np.linspace(0.0, 1.0, 201)
    ax.fill_between(fine, *_binomial_band(number, fine, chance), color=_CHANCE, linewidth=0.0, zorder=1)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=_IDEAL, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1.5)
    order = np.argsort(nominal, kind="stable")
    options = {"color": _LINE, "linewidth": 1.8, "zorder": 2.5, **line_options}
    line = ax.plot(nominal[order], observed[order], **options)
    _dress_shares(ax)
    return line


def pit_histogram(
    values: ArrayLike,
    ax: Axes | None = None,
    *,
    bins: int = 10,
    band: float = 0.95,
    **bar_options: Any,
) -> BarContainer:
    """Histogram of F(y) = P(-π <= Θ <= y) as a density: flat, at 1, when the distributions are honest.

    High ends say that the distributions are too narrow, a hump that they are too wide, a slope that they lean to one
    side. That holds for distributions that are narrow and far from the cut at ±π; for others only flat or not flat can
    be told, and `calibration` says more. The grey band is where a bar of honest and independent predictions ends with
    the probability `band`, by the binomial distribution.

    Parameters
    ----------
    values : array_like
        Between 0 and 1, as from ``mgvm.scores.pit``.
    ax : axes, optional
        Where to draw; new axes by default.
    bins : int, default 10
        Number of bars.
    band : float, default 0.95
        Probability of the grey band.
    **bar_options
        Handed to ``Axes.bar``: color, label and so on.

    Returns
    -------
    matplotlib.container.BarContainer
        The bars.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import VonMises, scores
    >>> from mgvm.plots import pit_histogram
    >>> seen = np.random.default_rng(0).vonmises(0.0, 2.0, size=200)
    >>> bars = pit_histogram(scores.pit(VonMises(0.0, 8.0), seen), bins=5)
    >>> [round(float(bar.get_height()), 2) for bar in bars]  # a dist that is too narrow
    [1.7, 0.48, 0.45, 0.48, 1.9]
    """
    count = check.integer(bins, "bins", minimum=2)
    chance = check.single_fraction(band, "band")
    found = np.ravel(check.finite(values, "values"))
    if not found.size:
        raise ValueError("values is empty; at least one is needed")
    if found.min() < 0.0 or found.max() > 1.0:
        raise ValueError(f"values must lie between 0 and 1, got {found.min():g} to {found.max():g}; see scores.pit")
    which = np.minimum((found * count).astype(np.int64), count - 1)
    heights = np.bincount(which, minlength=count) * (count / found.size)
    ax = flat_axes(ax)
    lower, upper = count * _binomial_band(found.size, np.array([1.0 / count]), chance)[:, 0]
    ax.axhspan(lower, upper, color=_CHANCE, linewidth=0.0, zorder=1)
    options = {"color": _BARS, "edgecolor": "white", "linewidth": 0.8, "zorder": 2, **bar_options}
    bars = ax.bar(np.arange(count) / count, heights, width=1.0 / count, align="edge", **options)
    ax.axhline(1.0, color=_IDEAL, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2.5)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, max(1.08 * max(float(heights.max()), float(upper)), 1.2))
    ax.set_xlabel("probability below what was seen")
    ax.set_ylabel("density")
    return bars


def _seen(dist: Any, y: ArrayLike) -> FloatArray:
    """The angles in the shape of the batch of distributions, or a row of them for one distribution."""
    shape = getattr(dist, "batch_shape", None)
    if shape is None:
        raise TypeError(
            f"distribution must be a distribution on the circle, as from predict_dist, got {type(dist).__name__}"
        )
    seen = check.angle_data(y, "y")
    if not shape:
        return np.ravel(seen)
    if seen.shape != shape:
        raise ValueError(
            f"y must have an angle for each of the distributions, whose shape is {shape}, got shape {seen.shape}"
        )
    return seen


def _levels(dist: Any, y: FloatArray) -> FloatArray:
    """P(p(Θ) > p(y)): the mass of the smallest set with y on its edge, shape (n,).

    Sums over nodes that lie dense about the mean: u evenly spaced and tan(t / 2) = s tan(u / 2), which keeps the
    circle's trapezoidal rule as sharp as it is for wide distributions. Distributions of several narrow modes, too sharp
    for that, are summed over their quantiles, which take longer to find.
    """
    many = dist[..., None] if dist.batch_shape else dist
    width = np.clip(np.sqrt(np.clip(1.0 - np.asarray(many.resultant_length()), 0.0, 1.0)), 1e-8, 0.5)
    step = 2.0 * np.pi / 1024
    even = (np.arange(1024) + 0.5) * step - np.pi
    # A width of 1/2 or more is a distribution too wide for anything but even nodes.
    squeeze = width / (1.0 - width)
    # A distribution without a mean direction says NaN.
    nodes = np.nan_to_num(np.asarray(many.mean_direction())) + 2.0 * np.arctan(squeeze * np.tan(0.5 * even))
    stretch = squeeze / (np.cos(0.5 * even) ** 2 + (squeeze * np.sin(0.5 * even)) ** 2)
    density = np.asarray(many.pdf(nodes))
    shares = density * stretch * step
    height = np.asarray(dist.pdf(y))[..., None]
    level = np.sum(np.where(density > height, shares, 0.0), axis=-1) / shares.sum(axis=-1)
    # More than 1 % of the mass at one node, or as much lost between them: too sharp for these nodes.
    sharp = (shares.max(axis=-1) > 0.01) | (np.abs(shares.sum(axis=-1) - 1.0) > 0.01)
    if sharp.any():
        narrow = dist[sharp] if dist.batch_shape else dist
        level[sharp if dist.batch_shape else ...] = _levels_by_quantiles(narrow, y[sharp] if dist.batch_shape else y)
    return np.ravel(level)


def _levels_by_quantiles(dist: Any, y: FloatArray) -> FloatArray:
    """The same: share of 400 quantiles at which the density is above that at y."""
    many = dist[..., None] if dist.batch_shape else dist
    density = np.asarray(many.pdf(many.icdf((np.arange(400) + 0.5) / 400)))
    return np.asarray((density > np.asarray(dist.pdf(y))[..., None]).mean(axis=-1))


def _binomial_band(count: int, share: FloatArray, chance: float) -> FloatArray:
    """Shares (2, ...) between which that of `count` trials lies with the given probability."""
    from scipy.stats import binom

    tails = np.array([0.5 * (1.0 - chance), 0.5 * (1.0 + chance)])
    return np.asarray(binom.ppf(tails[:, None], count, share)) / count


def _dress_shares(ax: Axes) -> None:
    ticks = np.linspace(0.0, 1.0, 5)
    labels = [f"{100 * tick:.0f} %" for tick in ticks]
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("mass that the sets claim")
    ax.set_ylabel("share of what was seen in them")
