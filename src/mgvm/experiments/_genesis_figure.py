"""The genesis of circular distributions: draws from Gaussians above, what becomes of them on the circle below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import plots
from mgvm.angles import wrap
from mgvm.experiments import genesis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _FAINT, _CIRCLE = "#1A1A1A", "#C9CED2", "#1A1A1A"
_SHOWN, _RAYS, _BINS = 700, 45, 72
_BAND = 0.06  # of the circle that is shown, wider than the one that is used
_TITLES = {
    genesis.WRAPPING: ("Wrapping", "a Gaussian on the line,\nwound around the circle", "x mod 2π"),
    genesis.PROJECTING: ("Projecting", "a Gaussian in the plane,\nevery draw to its direction", "x / |x|"),
    genesis.CONDITIONING: ("Conditioning", "a round Gaussian,\nonly draws on the circle", "x given |x| = 1"),
    genesis.CONDITIONING_ANY: ("Conditioning", "any Gaussian,\nonly draws on the circle", "x given |x| = 1"),
}


def draw(result: genesis.Genesis, dpi: float = 110) -> Figure:
    """A column for each construction; colour is the angle, above and below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.6, 8.6), dpi=dpi)
    width, left = 0.205, 0.035
    for k, one in enumerate(result.constructions):
        start = left + k * 0.245
        upper = figure.add_axes((start, 0.535, width, 0.315))
        lower: Any = figure.add_axes((start, 0.105, width, 0.315), projection="polar")
        if one.name == genesis.WRAPPING:
            _draw_line(upper, one)
        else:
            _draw_plane(upper, one)
        _draw_circle(lower, one)
        title, words, arrow = _TITLES[one.name]
        figure.text(start + 0.5 * width, 0.932, title, ha="center", fontsize=14, fontweight="bold")
        figure.text(start + 0.5 * width, 0.872, words, ha="center", fontsize=11, linespacing=1.25)
        _draw_arrow(figure, start + 0.5 * width, arrow)
        told = f"Kuiper's distance {one.kuiper:.4f}\n(beyond {one.critical:.4f} once in 20)"
        figure.text(start + 0.5 * width, 0.058, one.family, ha="center", fontsize=12, fontweight="bold")
        figure.text(start + 0.5 * width, 0.014, told, ha="center", fontsize=10, linespacing=1.25)
    figure.suptitle(
        "Three ways from a Gaussian to the circle; colour is the angle that a draw ends at", fontsize=15, y=0.985
    )
    return figure


def _draw_line(ax: Axes, one: genesis.Construction) -> None:
    """The density on the line, with draws as bars, cut into turns."""
    edges = np.pi * (np.arange(-60, 121) / 30.0)
    shares = np.histogram(one.seen, edges)[0] / one.seen.size / np.diff(edges)
    middles = 0.5 * (edges[1:] + edges[:-1])
    ax.bar(middles, shares, width=np.diff(edges), color=plots.angle_colours(np.asarray(wrap(middles))), linewidth=0.0)
    mean, deviation = genesis.LINE
    x = np.linspace(-2.0 * np.pi, 4.0 * np.pi, 600)
    density = np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))
    ax.plot(x, density, color=_INK, linewidth=1.5)
    for cut in (-np.pi, np.pi, 3.0 * np.pi):
        ax.axvline(cut, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_xlim(-1.3 * np.pi, 3.2 * np.pi)
    ax.set_ylim(0.0, 1.18 * float(density.max()))
    ticks = range(-1, 4)
    ax.set_xticks([np.pi * tick for tick in ticks], ["−π", "0", "π", "2π", "3π"], fontsize=11)
    ax.set_yticks([])
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


def _draw_plane(ax: Axes, one: genesis.Construction) -> None:
    """Draws in the plane about the unit circle: with rays to it, or with those on it picked out."""
    points, turn = one.seen, np.linspace(0.0, 2.0 * np.pi, 361)
    radii = np.hypot(*points.T)
    ax.plot(np.cos(turn), np.sin(turn), color=_CIRCLE, linewidth=1.1, zorder=3)
    if one.name == genesis.PROJECTING:
        shown = points[:_SHOWN]
        colours = plots.angle_colours(np.arctan2(shown[:, 1], shown[:, 0]))
        for place, radius, colour in zip(shown[:_RAYS], radii, colours, strict=False):
            ax.plot(*np.stack([place, place / radius]).T, color=colour, linewidth=0.9, alpha=0.9, zorder=2)
            ax.plot(*(place / radius), "o", color=colour, markersize=4.0, zorder=4)
        ax.scatter(shown[:, 0], shown[:, 1], s=7.0, color=colours, linewidths=0.0, zorder=2.5)
    else:
        near = np.abs(radii - 1.0) < _BAND
        others = points[~near][:_SHOWN]
        ax.scatter(others[:, 0], others[:, 1], s=6.0, color=_FAINT, linewidths=0.0, zorder=1)
        kept = points[near][: _SHOWN // 2]
        colours = plots.angle_colours(np.arctan2(kept[:, 1], kept[:, 0]))
        ax.scatter(kept[:, 0], kept[:, 1], s=11.0, color=colours, linewidths=0.0, zorder=4)
    ax.set_aspect("equal")
    ax.set_xlim(-2.6, 2.9)
    ax.set_ylim(-2.4, 2.9)
    ax.set_xticks([-2, 0, 2], ["−2", "0", "2"], fontsize=10)
    ax.set_yticks([-2, 0, 2], ["−2", "0", "2"], fontsize=10)
    ax.tick_params(color=_FAINT)
    for spine in ax.spines.values():
        spine.set_color(_FAINT)


def _draw_circle(ax: Any, one: genesis.Construction) -> None:
    bars = plots.rose(one.angles, ax, bins=_BINS, linewidth=0.0)
    middles = np.array([bar.get_x() + 0.5 * bar.get_width() for bar in bars])
    for bar, colour in zip(bars, plots.angle_colours(middles), strict=True):
        bar.set_color(colour)
    plots.circular_density(one.dist, ax, color=_INK, linewidth=1.5)
    ax.set_yticks([])
    ax.set_xticks([0.0, 0.5 * np.pi, np.pi, 1.5 * np.pi], ["0", "π/2", "±π", "−π/2"], fontsize=11)
    ax.tick_params(pad=-1)
    ax.set_axisbelow(True)
    ax.spines["polar"].set_color(_FAINT)


def _draw_arrow(figure: Figure, x: float, words: str) -> None:
    from matplotlib.patches import FancyArrowPatch

    looks: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 18, "color": _INK, "linewidth": 1.4}
    figure.add_artist(FancyArrowPatch((x, 0.497), (x, 0.453), transform=figure.transFigure, **looks))
    figure.text(x + 0.012, 0.475, words, fontsize=11, va="center")
