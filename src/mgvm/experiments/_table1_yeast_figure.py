"""The phase of the cell cycle at moments left out: where it was, and what the genes said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments._table1_models import HARD, SOFT
from mgvm.experiments._table1_panels import BASELINES, dist, not_measured, shown, title
from mgvm.experiments.table1 import Table1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK = "Yeast"
_DARKEST = 0.8  # density per radian of the darkest shade
_LEARNT, _SEEN = "#1A1A1A", "#B03A2E"


def draw(result: Table1, dpi: float = 110) -> Figure:
    """Predicted densities at the nine moments that were held out, by model."""
    from matplotlib.figure import Figure

    scores = shown(result, TASK, (SOFT, HARD, *BASELINES))
    if not scores:
        return not_measured(TASK, dpi)
    figure = Figure(figsize=(3.1 * len(scores) + 1.3, 4.9), dpi=dpi)
    panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.065, right=0.925, top=0.83, bottom=0.22, wspace=0.07)
    yeast = datasets.fetch_yeast()
    test = yeast.split == "valid"
    minutes = yeast.minutes[test]
    for ax, score in zip(panels, scores, strict=True):
        predicted = dist(result, TASK, score.model, yeast.expression[test])
        shades = plots.predictive_density(
            predicted, minutes, ax, observed=(minutes, yeast.phase[test]), turns=2, unit="degrees", vmax=_DARKEST
        )
        _draw_learnt(ax, yeast.minutes[~test], yeast.phase[~test])
        ax.set_title(title(score, scores[0]).replace(": ", ":\n"), fontsize=11)
        ax.set_xlim(minutes[0] - 8.0, minutes[-1] + 8.0)
        ax.set_xticks([0, 50, 100])
        ax.set_xlabel("minutes", fontsize=10.5)
    panels[0].set_ylabel("phase of the cell cycle (two turns)", fontsize=10.5)
    bar = figure.colorbar(shades, cax=figure.add_axes((0.938, 0.3, 0.012, 0.45)), extend="max")
    bar.set_label("density per radian", fontsize=10)
    _legend(figure)
    figure.suptitle("Yeast: the phase at 9 moments, given 4,489 genes and the phases of 9 others", fontsize=13, y=0.97)
    return figure


def _draw_learnt(ax: Axes, minutes: FloatArray, phase: FloatArray) -> None:
    for turn in (-360.0, 0.0, 360.0):
        ax.plot(minutes, np.rad2deg(phase) + turn, "+", color=_LEARNT, markersize=7, markeredgewidth=1.3)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=_SEEN, marker="o", linestyle="none", markersize=4, label="held out, where it was"),
        Line2D([], [], color=_LEARNT, marker="+", linestyle="none", markeredgewidth=1.3, label="learnt from"),
    ]
    figure.legend(handles=marks, loc="lower center", ncols=2, fontsize=10.5, frameon=False)
