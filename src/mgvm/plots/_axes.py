"""Finding matplotlib and polar axes, late and with clear errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.projections.polar import PolarAxes


def polar_axes(ax: Axes | None) -> PolarAxes:
    """The given axes if they are polar, new ones when None."""
    try:
        from matplotlib import pyplot
        from matplotlib.projections.polar import PolarAxes
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ImportError('mgvm.plots needs matplotlib, which is not installed: pip install "mgvm[plot]"') from None
    if ax is None:
        ax = pyplot.figure().add_subplot(projection="polar")
    if not isinstance(ax, PolarAxes):
        raise TypeError(
            f"ax must be polar axes, got {type(ax).__name__}; make them with plt.subplot(projection='polar')"
        )
    return ax
