"""Whether predictions are honest, and how engines ran.

Calibration: do highest-density regions that claim a share of the mass hold that share of what was seen? Traces: free
energies that rise, and chains that mix or do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import BLUE, PALE, VERMILION, flat_axes, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

    from mgvm.circle.base import CircularDistribution
    from mgvm.regression import CircularRegressor

_IDEAL, _BARS = "#5F6A72", "#9CC3E0"
# Okabe and Ito's colours, one a line; the yellow is too pale for lines.
_COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def calibration(
    dist: CircularDistribution,
    y: ArrayLike,
    ax: Axes | None = None,
    *,
    masses: ArrayLike | None = None,
    **line_options: Any,
) -> list[Line2D]:
    """Share of the y within their distributions' highest-density regions of mass m, against m.

    On the diagonal distributions are honest, below it they claim too much (their regions are too small), above it too
    little. The grey band is where the line of n honest and independent predictions lies at each m with a probability of
    95 %, by the binomial distribution.

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
    from mgvm import scores  # here, since these triple the time of the import
    from mgvm.regression.prediction import on_own_nodes

    nominal = np.linspace(0.02, 0.98, 49) if masses is None else np.ravel(check.fraction(masses, "masses"))
    seen = _seen(dist, y)
    if seen.size and dist.batch_shape:
        # On nodes a region of any mass is looked up; as they are, distributions find each of them anew.
        dist = on_own_nodes(dist[np.unravel_index(np.arange(seen.size), dist.batch_shape)])
    return reliability(nominal, scores.coverage(dist, np.ravel(seen), nominal), seen.size, ax, **line_options)


def reliability(
    masses: ArrayLike,
    shares: ArrayLike,
    count: int,
    ax: Axes | None = None,
    **line_options: Any,
) -> list[Line2D]:
    """The line of `calibration` from numbers: shares of `count` observations in regions of given masses.

    Parameters
    ----------
    masses : array_like, shape (m,)
        Of the highest-density regions, each between 0 and 1.
    shares : array_like, shape (m,)
        What they held, as ``mgvm.scores.coverage`` says it.
    count : int
        Observations; the grey band shrinks with it.
    ax : axes, optional
        Where to draw; new axes by default.
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
    'mass of the highest-density region'
    """
    nominal, observed = np.ravel(check.fraction(masses, "masses")), np.ravel(check.finite(shares, "shares"))
    if not nominal.size or nominal.size != observed.size:
        raise ValueError(
            f"masses and shares must have as many values, at least one, got {nominal.size} and {observed.size}"
        )
    if observed.min() < 0.0 or observed.max() > 1.0:
        raise ValueError(f"shares must lie between 0 and 1, got {observed.min():g} to {observed.max():g}")
    number = check.integer(count, "count", minimum=1)
    ax = flat_axes(ax)
    fine = np.linspace(0.0, 1.0, 201)
    ax.fill_between(fine, *_binomial_band(number, fine), color=PALE, linewidth=0.0, zorder=1)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=_IDEAL, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1.5)
    order = np.argsort(nominal, kind="stable")
    options = {"color": BLUE, "linewidth": 1.8, "zorder": 2.5, **line_options}
    line = ax.plot(nominal[order], observed[order], **options)
    _dress_shares(ax)
    return line


def pit_histogram(
    values: ArrayLike,
    ax: Axes | None = None,
    *,
    bins: int = 10,
    **bar_options: Any,
) -> BarContainer:
    """Histogram of F(y) = P(-π <= Θ <= y) as a density: flat, at 1, when the distributions are honest.

    High ends say that the distributions are too narrow, a hump that they are too wide, a slope that they lean to one
    side. That holds for distributions that are narrow and far from the cut at ±π; for others only flat or not flat can
    be told, and `calibration` says more. The grey band is where a bar of honest and independent predictions ends with
    a probability of 95 %, by the binomial distribution.

    Parameters
    ----------
    values : array_like
        Between 0 and 1, as from ``mgvm.scores.pit``.
    ax : axes, optional
        Where to draw; new axes by default.
    bins : int, default 10
        Number of bars.
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
    found = np.ravel(check.finite(values, "values"))
    if not found.size:
        raise ValueError("values is empty; at least one is needed")
    if found.min() < 0.0 or found.max() > 1.0:
        raise ValueError(f"values must lie between 0 and 1, got {found.min():g} to {found.max():g}; see scores.pit")
    which = np.minimum((found * count).astype(np.int64), count - 1)
    heights = np.bincount(which, minlength=count) * (count / found.size)
    ax = flat_axes(ax)
    lower, upper = count * _binomial_band(found.size, np.array([1.0 / count]))[:, 0]
    ax.axhspan(lower, upper, color=PALE, linewidth=0.0, zorder=1)
    options = {"color": _BARS, "edgecolor": "white", "linewidth": 0.8, "zorder": 2, **bar_options}
    bars = ax.bar(np.arange(count) / count, heights, width=1.0 / count, align="edge", **options)
    ax.axhline(1.0, color=_IDEAL, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2.5)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, max(1.08 * max(float(heights.max()), float(upper)), 1.2))
    ax.set_xlabel("probability below what was seen")
    ax.set_ylabel("density")
    return bars


def _seen(dist: CircularDistribution, y: ArrayLike) -> FloatArray:
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


def _binomial_band(count: int, share: FloatArray) -> FloatArray:
    """Shares (2, ...) between which that of `count` trials lies with a probability of 95 %."""
    from scipy.stats import binom

    return np.asarray(binom.ppf([[0.025], [0.975]], count, share)) / count


def _dress_shares(ax: Axes) -> None:
    ticks = np.linspace(0.0, 1.0, 5)
    labels = [f"{100 * tick:.0f} %" for tick in ticks]
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("mass of the highest-density region")
    ax.set_ylabel("share of observations inside it")


def members(model: CircularRegressor, ax: Axes | None = None, **bar_options: Any) -> BarContainer:
    """Weights of the members of a fitted `mgvm.CircularRegressor`, with what each said of held-out angles.

    Parameters
    ----------
    model : CircularRegressor
        Fitted.
    ax : axes, optional
        Where to draw; new axes by default.
    **bar_options
        Handed to ``Axes.barh``: color, height and so on.

    Returns
    -------
    matplotlib.container.BarContainer
        A bar for every member, the first on top.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import CircularRegressor
    >>> from mgvm.plots import members
    >>> x = np.linspace(0.0, 1.0, 60)[:, None]
    >>> y = 5.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.2, 60)
    >>> bars = members(CircularRegressor(["kernel", "none"]).fit(x, y))
    >>> [round(bar.get_width()) for bar in bars]
    [1, 0]
    """
    told = getattr(model, "members_", None)
    if told is None:
        raise TypeError(f"members are those of a fitted CircularRegressor, got a {type(model).__name__}")
    ax = flat_axes(ax)
    places = -np.arange(len(told))
    bars = ax.barh(places, [member.weight for member in told], **{"color": _BARS, "height": 0.7, **bar_options})
    for place, member in zip(places, told, strict=True):
        text = f"{member.log_likelihood:.3f} nats" if member.inputs else "not asked"
        if member.inputs and member.status == "skipped":
            text += f" at {member.inputs} inputs, skipped"
        ax.annotate(text, (member.weight, place), xytext=(4.0, 0.0), textcoords="offset points", va="center")
    ax.set_yticks(places, [member.name for member in told])
    ax.set_xlim(0.0, 1.45)  # room for the texts
    ax.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    ax.set_xlabel("weight")
    return bars


_HISTORIES = ("free_energy_", "lower_bounds_", "trace")


def free_energy(result: Any, ax: Axes | None = None, **line_options: Any) -> list[Line2D]:
    """F after each iteration t, a lower bound of log Z or of the log-likelihood: it rises until it has converged.

    Iterations after which it is lower than before are ringed. There are none but where an angle is dropped by
    ``CircularPCA(method="vb")``, which begins anew then, or where the E-step is not exact.

    Parameters
    ----------
    result : object or array_like
        What has a history: a fitted `CircularPCA` (``free_energy_``) or `TorusMixture` (``lower_bounds_``), the result
        of `mean_field` (``trace``), or the numbers themselves, one column for each distribution of a batch.
    ax : axes, optional
        Where to draw; new axes by default.
    **line_options
        Handed to ``Axes.plot``: color, label and so on.

    Returns
    -------
    list of matplotlib.lines.Line2D
        The line, or one for each distribution of a batch.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.inference import mean_field
    >>> from mgvm.plots import free_energy
    >>> result = mean_field(MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]]))
    >>> (line,) = free_energy(result, label="mean field")
    >>> len(line.get_xdata()) == len(result.trace)
    True
    """
    history = _history(result)
    ax = flat_axes(ax)
    from matplotlib.ticker import MaxNLocator

    steps = np.arange(1, len(history) + 1)
    options = {"linewidth": 1.6, **line_options}
    if len(history) < 40:
        options = {"marker": ".", "markersize": 6.0, **options}
    lines: list[Line2D] = []
    for k, column in enumerate(history.T):
        lines += ax.plot(steps, column, **{"color": _COLOURS[k % len(_COLOURS)], **options})
        options.pop("label", None)
        fell = np.flatnonzero(np.diff(column) < -1e-9 * np.maximum(np.abs(column[:-1]), 1.0)) + 1
        if fell.size:
            ax.plot(steps[fell], column[fell], "o", markersize=8.0, markerfacecolor="none", color=VERMILION)
    ax.set_xlabel("iteration")
    ax.set_ylabel("free energy (nats)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.ticklabel_format(axis="y", useOffset=False)
    return lines


def _history(result: Any) -> FloatArray:
    """Shape (iterations, distributions)."""
    found = (getattr(result, name, None) for name in _HISTORIES)
    # An array has a method called trace.
    values = next((history for history in found if history is not None and not callable(history)), result)
    if hasattr(result, "samples"):
        raise TypeError("a Gibbs sampler has no free energy; draw its chains with mgvm.plots.trace")
    try:
        history = check.finite(values, "result")
    except TypeError:
        names, kind = ", ".join(_HISTORIES), type(result).__name__
        raise TypeError(
            f"result must have a history ({names}) or be numbers, got {kind}; fit an estimator first"
        ) from None
    if history.size == 0 or history.ndim == 0:
        raise ValueError("the history is empty: the engine does not iterate, or has not run")
    return history.reshape(len(history), -1)


def trace(
    result: Any, ax: Axes | None = None, *, angle: int | None = None, unit: str = "degrees", **options: Any
) -> list[Line2D]:
    """Draws of a Gibbs sampler in their order, a colour for each chain: log density, or one angle φ_d.

    Chains that agree lie over each other and wander over the same range all along; a chain that stays by itself has
    not mixed. Angles are drawn as points, for a line would cross the picture where they wrap.

    Parameters
    ----------
    result : GibbsResult or array_like
        What `mgvm.inference.gibbs` returns, or draws of shape (chains, draws) or (chains, draws, D) in radians.
    ax : axes, optional
        Where to draw; new axes by default.
    angle : int, optional
        Which angle; the log density by default (the first angle for an array).
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}
        Of the angle.
    **options
        Handed to ``Axes.plot``.

    Returns
    -------
    list of matplotlib.lines.Line2D
        One for each chain.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.inference import gibbs
    >>> from mgvm.plots import trace
    >>> result = gibbs(MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]]), 200, rng=0)
    >>> len(trace(result, angle=1))
    4
    """
    scale = scale_of(unit)
    values, is_angle = _chains(result, angle)
    ax = flat_axes(ax)
    steps = np.arange(1, values.shape[1] + 1)
    size = float(np.clip(60.0 / np.sqrt(values.shape[1]), 1.5, 6.0))
    looks = {"linestyle": "none", "marker": ".", "markersize": size} if is_angle else {"linewidth": 0.8}
    lines: list[Line2D] = []
    for k, chain in enumerate(values):
        shown = scale.coordinate(chain) if is_angle else chain
        look = {"color": _COLOURS[k % len(_COLOURS)], "alpha": 0.75, "label": f"chain {k + 1}", **looks, **options}
        lines += ax.plot(steps, shown, **look)
    if is_angle:
        ticks, names = scale.ticks(1, 1)
        ax.set_yticks(ticks, names)
        ax.set_ylim(ticks[0], ticks[-1])
    ax.set_xlabel("draw")
    ax.set_ylabel(f"angle {angle or 0}" if is_angle else "log density, not normalised")
    ax.set_xlim(0.0, steps[-1] + 1.0)
    return lines


def _chains(result: Any, angle: int | None) -> tuple[FloatArray, bool]:
    """Values (chains, draws), and whether they are angles."""
    if hasattr(result, "samples"):
        if angle is None:
            return np.asarray(result.trace), False
        draws = np.asarray(result.samples)
    else:
        draws = check.angle_data(result, "result")
    if draws.ndim == 2:
        draws = draws[..., None]
    if draws.ndim != 3 or draws.shape[1] < 1:
        raise ValueError(f"result must have shape (chains, draws) or (chains, draws, D), got {draws.shape}")
    number = check.integer(0 if angle is None else angle, "angle", minimum=0)
    if number >= draws.shape[2]:
        raise ValueError(f"angle must be below the number of angles, {draws.shape[2]}, got {number}; they count from 0")
    return draws[..., number], True
