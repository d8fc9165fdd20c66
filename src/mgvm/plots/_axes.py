"""Finding matplotlib and axes, late and with clear errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.projections.polar import PolarAxes


def polar_axes(ax: Axes | None) -> PolarAxes:
    """The given axes if they are polar, new ones when None."""
    pyplot, polar = _matplotlib()
    if ax is None:
        ax = pyplot.figure().add_subplot(projection="polar")
    if not isinstance(ax, polar):
        raise TypeError(
            f"ax must be polar axes, got {type(ax).__name__}; make them with plt.subplot(projection='polar')"
        )
    return ax


def flat_axes(ax: Axes | None) -> Axes:
    """The given axes if they are not polar, new ones when None."""
    pyplot, polar = _matplotlib()
    if ax is None:
        ax = pyplot.figure().add_subplot()
    if isinstance(ax, polar):
        raise TypeError("ax must be plain axes, got polar ones; make them with plt.subplot()")
    return ax


def _matplotlib() -> tuple[Any, Any]:
    """``pyplot`` and the class of polar axes."""
    try:
        from matplotlib import pyplot
        from matplotlib.projections.polar import PolarAxes
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ImportError('mgvm.plots needs matplotlib, which is not installed: pip install "mgvm[plot]"') from None
    return pyplot, PolarAxes
