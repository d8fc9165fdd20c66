"""The figures of Table 1: the toy function by many models, the tides as roses on the map, and all the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments import _table1_maps, _table1_protein_figure, _table1_uber_figure, _table1_yeast_figure
from mgvm.experiments._table1_models import SOFT, Model
from mgvm.experiments._table1_panels import last_split, not_measured
from mgvm.experiments._table1_tasks import TIDES, TOY, WIND
from mgvm.experiments.table1 import Table1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS, _TRUTH = "#B03A2E", "#1A1A1A"
_GREY = "#B8BCC0"
_DARKEST = 1.5  # density per radian of the darkest shade
_COLUMNS = 250


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
    toy = datasets.make_mexican_hat()
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


def _draw_toy_panel(ax: Axes, model: Model, fitted: Any, toy: datasets.MexicanHat) -> Any:
    # The answer of the joint distribution depends on what is asked: it is drawn where it was scored.
    queries = toy.grid if model.joint else np.linspace(0.0, 1.0, _COLUMNS)
    dist = _distribution(fitted, model, queries)
    drawn = plots.predictive_density(dist, queries, ax, unit="radians", vmax=_DARKEST)
    for turn in (-2.0 * np.pi, 0.0, 2.0 * np.pi):
        _draw_truth(ax, toy, turn)
        ax.plot(toy.x, toy.angles + turn, "x", color=_POINTS, markersize=5.5, markeredgewidth=1.6)
    score = float(np.mean(_distribution(fitted, model, toy.grid).logpdf(toy.truth)))
    ax.set_title(f"{model.name}: {score:.2f} nats", fontsize=11)
    ax.axhline(-np.pi, color=_GREY, linewidth=0.7)
    ax.axhline(np.pi, color=_GREY, linewidth=0.7)
    ax.set_xlim(0.0, 1.0)
    ax.tick_params(axis="y", labelsize=10)
    ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"], fontsize=10)
    return drawn


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=_POINTS, marker="x", linestyle="none", markeredgewidth=1.6, label="14 points learnt from"),
        Line2D([], [], color=_TRUTH, linewidth=1.0, linestyle=(0, (4, 2)), label="the function"),
    ]
    figure.legend(handles=marks, loc="lower right", fontsize=11, frameon=False, bbox_to_anchor=(0.93, 0.005), ncols=2)


def _distribution(fitted: Any, model: Model, x: FloatArray) -> Any:
    return fitted.predict_dist(x[:, None], joint=True) if model.joint else fitted.predict_dist(x[:, None])


def _draw_truth(ax: Axes, toy: datasets.MexicanHat, turn: float) -> None:
    """The function, broken where it wraps."""
    values = toy.truth + turn
    cuts = np.flatnonzero(np.abs(np.diff(toy.truth)) > np.pi) + 1
    for part in np.split(np.arange(values.size), cuts):
        ax.plot(toy.grid[part], values[part], color=_TRUTH, linewidth=1.0, linestyle=(0, (4, 2)))


def draw_tides(result: Table1, dpi: float = 120) -> Figure:
    """Roses of the observed tides at held-out ports, with the densities that the soft circle predicts."""
    model = next(model for (task, name), model in result.fitted.items() if task == TIDES and name.startswith(SOFT))
    return _table1_maps.draw_tides(model, dpi)


def draw_wind(result: Table1, dpi: float = 110) -> Figure:
    """Arcs that the soft circle predicts at 52 weather stations."""
    if not result.of(WIND):
        return not_measured(WIND, dpi)
    return _table1_maps.draw_wind(result.fitted[WIND, SOFT], last_split(result, WIND), dpi)


# By the names of their files; the figure of the toy function comes first, by itself.
MORE: dict[str, Callable[[Table1], Figure]] = {
    "table1_tides.png": draw_tides,
    "table1_uber.png": _table1_uber_figure.draw,
    "table1_protein.png": _table1_protein_figure.draw,
    "table1_yeast.png": _table1_yeast_figure.draw,
    "table1_wind.png": draw_wind,
}
