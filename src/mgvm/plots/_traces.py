"""How engines ran: free energies that rise, and chains that mix or do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.plots._axes import flat_axes, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# Okabe and Ito's colours, told apart with any kind of colour vision; the yellow is too pale for lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_FELL = "#D55E00"
_HISTORIES = ("free_energy_", "lower_bounds_", "trace")


def free_energy(result: Any, ax: Axes | None = None, **line_options: Any) -> list[Line2D]:
    """F after each iteration t, a lower bound of log Z or of the log-likelihood: it rises and settles.

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
            ax.plot(steps[fell], column[fell], "o", markersize=8.0, markerfacecolor="none", color=_FELL)
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
    unit : {"degrees", "radians", "hours", "compass"}
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
