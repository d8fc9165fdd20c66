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
_BLUE, _GREY = "#0072B2", "#B8BCC0"
_DARKEST = 1.5  # density per radian of the darkest shade
_ANGLES = 361
_COLUMNS = 250
_PORTS_APART = 0.27  # degrees of longitude between the roses that are drawn


def draw_toy(result: Table1, dpi: float = 110) -> Figure:
    """Predictive densities over the inputs; two turns of the angle, so that nothing is cut at ±π."""
    from matplotlib.figure import Figure

    chosen = next(task for task in result.tasks if task.name == TOY).models
    across = 4
    down = -(-len(chosen) // across)
    figure = Figure(figsize=(13.5, 2.75 * down + 1.2), dpi=dpi)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    inches = 2.75 * down + 1.2
    figure.subplots_adjust(
        left=0.055, right=0.93, top=1.0 - 0.95 / inches, bottom=0.55 / inches, wspace=0.06, hspace=0.2
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
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.945, 0.3, 0.011, 0.4)), extend="max")
    bar.ax.set_title("density", fontsize=10, pad=14)
    title = "Fourteen points near a function that wraps: what each model predicts (one turn is drawn twice)"
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
    ax.tick_params(axis="x", labelsize=10)
    return drawn


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
    chosen = _apart(tides)
    law = model.predict_dist(np.array([tides.positions[tides.port == port][0] for port in chosen]))
    figure = Figure(figsize=(15.0, 7.4), dpi=dpi)
    ax = figure.add_axes((0.05, 0.08, 0.93, 0.8))
    _draw_coast(ax, tides)
    for k, port in enumerate(chosen):
        _draw_port(figure, ax, tides, port, law[k], k)
    title = "Tides on the south coast of England: times of day at ports the model has not seen, and its predictions"
    figure.suptitle(title, fontsize=14, y=0.96)
    return figure


def _apart(tides: datasets.Tides) -> list[int]:
    """Held-out ports from west to east, leaving out those whose rose would cover another."""
    ports = np.unique(tides.port[tides.split == "valid"])
    west = sorted(ports.tolist(), key=lambda port: float(tides.longitude[tides.port == port][0]))
    chosen: list[int] = []
    for port in west:
        longitude = float(tides.longitude[tides.port == port][0])
        if not chosen or longitude - float(tides.longitude[tides.port == chosen[-1]][0]) >= _PORTS_APART:
            chosen.append(port)
    return chosen


def _draw_coast(ax: Axes, tides: datasets.Tides) -> None:
    for split, marker, label in (("train", "o", "port learnt from"), ("valid", "D", "held-out port")):
        rows = tides.split == split
        places = np.unique(tides.positions[rows], axis=0)
        colour = _BLUE if split == "train" else _POINTS
        ax.plot(*places.T, marker, color=colour, markersize=6, label=label, zorder=3, markeredgecolor="white")
    ax.set_aspect(1.0 / np.cos(np.deg2rad(50.5)))
    ax.set_xlim(-6.2, 2.0)
    ax.set_ylim(49.2, 51.9)
    ax.set_xlabel("longitude, degrees east", fontsize=11)
    ax.set_ylabel("latitude, degrees north", fontsize=11)
    ax.legend(loc="lower right", fontsize=10, frameon=False)
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_port(figure: Figure, ax: Axes, tides: datasets.Tides, port: int, law: Any, number: int) -> None:
    """A dial beside the port, above or below it in turn, with a line to where it belongs."""
    rows = tides.port == port
    longitude, latitude = tides.positions[rows][0]
    above = number % 2 == 0
    height = 0.62 if above else -0.62
    ax.plot([longitude, longitude], [latitude, latitude + 0.9 * height], color=_GREY, linewidth=0.8, zorder=1)
    size = 0.55
    box = ax.inset_axes(
        (longitude - 0.8 * size, latitude + height - 0.5 * size, 1.6 * size, size),
        transform=ax.transData,
        projection="polar",
    )
    plots.rose(tides.angles[rows], box, bins=48, color="#D55E00", edgecolor="#D55E00", linewidth=0.3)
    plots.circular_density(law, box, color=_BLUE, linewidth=1.5)
    plots.dial(box, hours=6)
    box.set_yticks([])
    box.set_xticklabels([])
    box.set_rmax(2.2)
    box.patch.set_alpha(0.85)
    box.spines["polar"].set_color(_GREY)
