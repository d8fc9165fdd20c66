"""The figures of Table 1: the toy function by many models, and the tides as roses on the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.experiments._table1_models import SOFT, Model
from mgvm.experiments._table1_tasks import TIDES, TOY
from mgvm.experiments.table1 import Table1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAP = "Blues"  # one hue: darker is more probable
_POINTS, _TRUTH = "#B03A2E", "#1A1A1A"
_BLUE, _GREEN, _GREY, _BARS = "#0072B2", "#009E73", "#B8BCC0", "#F0A46B"
_DARKEST = 1.5  # density per radian of the darkest shade
_ANGLES = 361
_COLUMNS = 250
_WEST, _EAST, _UPPER, _LOWER = -5.9, 1.7, 51.72, 49.28  # where the dials stand, degrees


def draw_toy(result: Table1, dpi: float = 110) -> Figure:
    """Predictive densities over the inputs; two turns of the angle, so that nothing is cut at ±π."""
    from matplotlib.figure import Figure

    chosen = next(task for task in result.tasks if task.name == TOY).models
    across = 4
    down = -(-len(chosen) // across)
    figure = Figure(figsize=(13.5, 2.75 * down + 1.4), dpi=dpi)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    inches = 2.75 * down + 1.4
    figure.subplots_adjust(
        left=0.055, right=0.93, top=1.0 - 0.95 / inches, bottom=0.85 / inches, wspace=0.06, hspace=0.18
    )
    toy = datasets.load_toy()
    drawn: Any = None
    for ax, model in zip(panels, chosen, strict=False):
        drawn = _draw_toy_panel(ax, model, result.fitted[TOY, model.name], toy)
    for ax in panels[len(chosen) :]:
        ax.set_visible(False)
    for ax in panels[max(0, len(chosen) - across) : len(chosen)]:
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.set_xlabel("input x", fontsize=11)
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.94, 0.3, 0.011, 0.4)), extend="max")
    bar.set_label("density per radian", fontsize=10)
    _legend(figure)
    title = "Fourteen points near a function that wraps: what each model predicts (two turns are drawn)"
    figure.suptitle(title, fontsize=14, y=1.0 - 0.22 / inches)
    return figure


def _draw_toy_panel(ax: Axes, model: Model, fitted: Any, toy: datasets.Toy) -> Any:
    # The answer of the joint law depends on what is asked: it is drawn where it was scored.
    queries = toy.grid if model.joint else np.linspace(0.0, 1.0, _COLUMNS)
    law = _law(fitted, model, queries)
    angles = np.linspace(-2.0 * np.pi, 2.0 * np.pi, 2 * _ANGLES - 1)
    density = np.asarray(law[:, None].pdf(wrap(angles)))
    drawn = ax.pcolormesh(
        queries, angles, density.T, cmap=_MAP, vmin=0.0, vmax=_DARKEST, shading="nearest", rasterized=True
    )
    for turn in (-2.0 * np.pi, 0.0, 2.0 * np.pi):
        _draw_truth(ax, toy, turn)
        ax.plot(toy.x, toy.angles + turn, "x", color=_POINTS, markersize=5.5, markeredgewidth=1.6)
    score = float(np.mean(_law(fitted, model, toy.grid).logpdf(toy.truth)))
    ax.set_title(f"{model.name}: {score:.2f} nats", fontsize=11)
    ax.axhline(-np.pi, color=_GREY, linewidth=0.7)
    ax.axhline(np.pi, color=_GREY, linewidth=0.7)
    ax.set_ylim(-2.0 * np.pi, 2.0 * np.pi)
    ax.set_xlim(0.0, 1.0)
    ax.set_yticks(np.pi * np.arange(-2, 3), ["−2π", "−π", "0", "π", "2π"], fontsize=10)
    ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"], fontsize=10)
    return drawn


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=_POINTS, marker="x", linestyle="none", markeredgewidth=1.6, label="14 points learnt from"),
        Line2D([], [], color=_TRUTH, linewidth=1.0, linestyle=(0, (4, 2)), label="the function"),
    ]
    figure.legend(handles=marks, loc="lower right", fontsize=11, frameon=False, bbox_to_anchor=(0.93, 0.005), ncols=2)


def _law(fitted: Any, model: Model, x: FloatArray) -> Any:
    return fitted.predict_dist(x[:, None], joint=True) if model.joint else fitted.predict_dist(x[:, None])


def _draw_truth(ax: Axes, toy: datasets.Toy, turn: float) -> None:
    """The function, broken where it wraps."""
    values = toy.truth + turn
    cuts = np.flatnonzero(np.abs(np.diff(toy.truth)) > np.pi) + 1
    for part in np.split(np.arange(values.size), cuts):
        ax.plot(toy.grid[part], values[part], color=_TRUTH, linewidth=1.0, linestyle=(0, (4, 2)))


def draw_tides(result: Table1, dpi: float = 120) -> Figure:
    """Roses of the observed tides at held-out ports, with the predicted densities, where the ports are."""
    from matplotlib.figure import Figure

    tides = datasets.load_tides()
    model = next(model for (task, name), model in result.fitted.items() if task == TIDES and name.startswith(SOFT))
    ports = _every_other_port(tides)
    law = model.predict_dist(np.array([tides.positions[tides.port == port][0] for port in ports]))
    figure = Figure(figsize=(13.0, 7.9), dpi=dpi)
    ax = figure.add_axes((0.055, 0.06, 0.935, 0.85))
    _draw_coast(ax, tides)
    for k, port in enumerate(ports):
        _draw_port(ax, tides, port, law[k], k / (len(ports) - 1), above=k % 2 == 0)
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="upper center",
        fontsize=11,
        frameon=False,
        ncols=4,
        bbox_to_anchor=(0.52, 0.955),
    )
    title = "Tides on the south coast of England: times of day at ports that were held out, and their prediction"
    figure.suptitle(title, fontsize=14, y=0.985)
    return figure


def _every_other_port(tides: datasets.Tides) -> list[int]:
    """Every other held-out port, from west to east."""
    ports = np.unique(tides.port[tides.split == "valid"])
    longitudes = [float(tides.longitude[tides.port == port][0]) for port in ports]
    chosen: list[int] = ports[np.argsort(longitudes, kind="stable")][::2].tolist()
    return chosen


def _draw_coast(ax: Axes, tides: datasets.Tides) -> None:
    for split, marker, label in (("train", "o", "port learnt from"), ("valid", "D", "port held out")):
        places = np.unique(tides.positions[tides.split == split], axis=0)
        colour = _GREEN if split == "train" else _TRUTH
        ax.plot(*places.T, marker, color=colour, markersize=6.5, label=label, zorder=3, markeredgecolor="white")
    # Stand-ins for what the dials show.
    ax.fill_between([], [], color=_BARS, label="its 13 tides")
    ax.plot([], [], color=_BLUE, linewidth=2.0, label="predicted density")
    ax.set_aspect(1.0 / np.cos(np.deg2rad(50.5)))
    ax.set_xlim(_WEST - 0.6, _EAST + 0.6)
    ax.set_ylim(48.82, 52.15)
    ax.set_xlabel("longitude, degrees east", fontsize=11)
    ax.set_ylabel("latitude, degrees north", fontsize=11)
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_port(ax: Axes, tides: datasets.Tides, port: int, law: Any, part: float, *, above: bool) -> None:
    """A dial of 24 hours in the upper or the lower row, with a line to its port."""
    rows = tides.port == port
    longitude, latitude = tides.positions[rows][0]
    centre, middle = _WEST + part * (_EAST - _WEST), _UPPER if above else _LOWER
    ax.plot([longitude, centre], [latitude, middle], color="#7F8C8D", linewidth=0.9, zorder=1)
    height = 0.62
    width = height / np.cos(np.deg2rad(50.5))
    corner = (centre - 0.5 * width, middle - 0.5 * height, width, height)
    dial: Any = ax.inset_axes(corner, transform=ax.transData, projection="polar")
    plots.rose(tides.angles[rows], dial, bins=48, color=_BARS, edgecolor=_BARS, linewidth=0.3)
    plots.circular_density(law, dial, color=_BLUE, linewidth=1.8)
    plots.dial(dial, hours=6)
    dial.set_xticklabels(["0 h", "6", "12", "18"], fontsize=8)
    dial.tick_params(axis="x", pad=-4)
    dial.set_yticks([])
    dial.set_rmax(1.45)
    dial.spines["polar"].set_color("#7F8C8D")
