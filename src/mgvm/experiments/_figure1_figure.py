"""The five panels of the paper's Figure 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm._validation import FloatArray
from mgvm.experiments._torus_grid import TorusGrid
from mgvm.experiments.figure1 import Figure1, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure

_NODES = 160
_LEVELS = 11
_MAP = "Blues"  # one hue, so lightness alone tells; darker is more probable, as in the paper


def draw(result: Figure1, dpi: float = 110) -> Figure:
    """The figure: densities on [-π, π)² in one scale of colour."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.1), dpi=dpi)
    panels = figure.subplots(1, len(result.panels), sharex=True, sharey=True)
    figure.subplots_adjust(left=0.04, right=0.935, top=0.77, bottom=0.11, wspace=0.12)
    grid = TorusGrid(_NODES)
    densities = [_closed(np.exp(panel.dist.logpdf(grid.points)).reshape(_NODES, _NODES)) for panel in result.panels]
    # Equal steps of the square root: the modes of (a) are high, and all else would be one shade.
    levels = np.linspace(0.0, 1.0, _LEVELS + 1) ** 2 * max(float(density.max()) for density in densities)
    axis = np.append(grid.axis, np.pi)
    for ax, panel, density in zip(panels, result.panels, densities, strict=True):
        drawn = _draw_density(ax, axis, density, levels)
        ax.set_title(_title(panel), fontsize=12, pad=8)
    panels[0].set_ylabel("φ₂", fontsize=13, labelpad=-4)
    panels[-1].apply_aspect()
    box = panels[-1].get_position()
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.947, box.y0, 0.009, box.height)), ticks=levels[::2])
    bar.ax.set_yticklabels([f"{level:.2f}" for level in levels[::2]], fontsize=10)
    bar.ax.set_title("density", fontsize=11, pad=8)
    figure.suptitle(
        "A bimodal mGvM, its best approximations, and the mGvM's approximations of those", fontsize=15, y=0.97
    )
    return figure


def _title(panel: Panel) -> str:
    if not panel.of:
        return f"({panel.letter}) {panel.name}\nbimodal, asymmetric"
    size = f"= {panel.kl:.4f}" if panel.kl >= 1e-4 else "< 10⁻¹⁵" if panel.kl < 1e-15 else f"= {panel.kl:.0e}"
    return f"({panel.letter}) {panel.name}\nKL({panel.of} ‖ {panel.letter}) {size}"


def _closed(density: FloatArray) -> FloatArray:
    """The density with its first row and column repeated at +π."""
    return np.pad(density, ((0, 1), (0, 1)), mode="wrap")


def _draw_density(ax: Axes, axis: FloatArray, density: FloatArray, levels: FloatArray) -> QuadContourSet:
    drawn = ax.contourf(axis, axis, density.T, levels=levels, cmap=_MAP)
    ax.contour(axis, axis, density.T, levels=levels[1:-1], colors="#1A1A1A", linewidths=0.5)
    ax.set_aspect("equal")
    ticks = (-np.pi, 0.0, np.pi)
    ax.set_xticks(ticks, ("−π", "0", "π"), fontsize=11)
    ax.set_yticks(ticks, ("−π", "0", "π"), fontsize=11)
    # The ends of neighbouring panels would run into each other.
    ax.get_xticklabels()[0].set_horizontalalignment("left")
    ax.get_xticklabels()[-1].set_horizontalalignment("right")
    ax.set_xlabel("φ₁", fontsize=13, labelpad=0)
    return drawn
