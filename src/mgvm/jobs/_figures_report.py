"""Figures of reports: made without a window, in the page's type, of a width that a phone can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.tables.units import Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EIGHTHS = ["0", "π/4", "π/2", "3π/4", "±π", "−3π/4", "−π/2", "−π/4"]
_TYPE: Any = {"font.size": 10.0, "axes.labelsize": 10.0}


def drawn(draw: Callable[[Any], object], size: tuple[float, float], projection: str | None = None) -> Figure:
    """A figure with one pair of axes, drawn upon."""
    return figure(lambda made: draw(made.add_subplot(projection=projection)), size)


def figure(draw: Callable[[Figure], object], size: tuple[float, float]) -> Figure:
    """A figure of so many inches, drawn upon."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_TYPE):
        made = Figure(figsize=size, layout="constrained")
        draw(made)
        return made


def dressed(ax: Any, unit: Unit, *, bare: bool = False) -> None:
    """Polar axes with the ticks of a unit, or bare of all labels."""
    from matplotlib.ticker import MaxNLocator

    from mgvm import plots

    if unit.name == "hours":
        plots.dial(ax)
    elif unit.name == "compass":
        plots.compass(ax)
    else:
        ticks = 0.25 * np.pi * np.arange(8)
        ax.set_xticks(ticks, _EIGHTHS if unit.name == "radians" else [_degrees(unit, tick) for tick in ticks])
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_yticklabels([])
    if bare:
        ax.set_xticklabels([])
    ax.grid(color="#D5DBE1", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines["polar"].set_color("#8A949E")


def _degrees(unit: Unit, angle: float) -> str:
    return f"{float(unit.from_radians(angle)):.0f}°".replace("-", "−")


def rose_of(angles: FloatArray, unit: Unit, law: Any = None) -> Figure:
    """Rose histogram of angles, and the density of a law over it."""
    from mgvm import plots

    def draw(ax: Any) -> None:
        plots.rose(angles[~np.isnan(angles)], ax, bins=24 if unit.name == "hours" else 36)
        if law is not None:
            plots.circular_density(law, ax)
        dressed(ax, unit)

    return drawn(draw, (3.9, 3.9), "polar")


def one_unit(units: tuple[Unit, ...]) -> str:
    """The unit of the axes where several angles share them: theirs, or degrees."""
    names = {unit.name for unit in units}
    return names.pop() if len(names) == 1 else "degrees"
