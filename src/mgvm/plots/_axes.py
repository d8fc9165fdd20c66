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
    if not hasattr(ax, "add_collection") or ax.name == "3d":
        raise TypeError(f"ax must be plain axes, got {type(ax).__name__}; make them with plt.subplot()")
    return ax


def solid_axes(ax: Any) -> Any:
    """The given axes if they are 3-D, new ones when None."""
    pyplot, _ = _matplotlib()
    if ax is None:
        ax = pyplot.figure().add_subplot(projection="3d")
    if getattr(ax, "name", None) != "3d":
        raise TypeError(f"ax must be 3-D axes, got {type(ax).__name__}; make them with plt.subplot(projection='3d')")
    return ax


def new_figure(size: tuple[float, float]) -> Any:
    """A figure of so many inches whose parts keep out of each other's way."""
    pyplot, _ = _matplotlib()
    return pyplot.figure(figsize=size, layout="constrained")


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
