"""Rides through the month: when they were asked for, day by day, and what was predicted for days left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments._table1_panels import dist, last_split, not_measured, shown, title
from mgvm.experiments.table1 import Table1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK = "Uber, by day"
_DAYS = np.arange(1.0, 31.0)
_BINS = 48
_DARKEST = 0.45  # density per radian of the darkest shade
_HELD_OUT = "#D55E00"


def draw(result: Table1, dpi: float = 110) -> Figure:
    """Shares of the rides by time of day, above, and the predicted densities, below."""
    from matplotlib.figure import Figure

    scores = shown(result, TASK)
    if not scores:
        return not_measured(TASK, dpi)
    rows = 1 + len(scores)
    inches = 1.7 * rows + 1.3
    figure = Figure(figsize=(12.0, inches), dpi=dpi)
    panels = figure.subplots(rows, 1, sharex=True)
    figure.subplots_adjust(left=0.065, right=0.91, top=1.0 - 0.85 / inches, bottom=0.75 / inches, hspace=0.38)
    held_out = np.unique(last_split(result, TASK).X_test)
    drawn = _draw_rides(panels[0])
    panels[0].set_title("what came: share of the rides of each day", fontsize=11, pad=9)
    for ax, score in zip(panels[1:], scores, strict=True):
        predicted = dist(result, TASK, score.model, _DAYS[:, None])
        plots.predictive_density(predicted, _DAYS, ax, turns=1, unit="hours", points=96, vmax=_DARKEST)
        ax.set_title(f"predicted, {title(score, scores[0])}", fontsize=11, pad=9)
    for ax in panels:
        _dress(ax, held_out)
    _label_days(panels[-1], held_out)
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.925, 0.35, 0.012, 0.35)), extend="max")
    bar.set_label("density per radian", fontsize=10)
    figure.suptitle(
        "Uber rides in New York, April 2014: time of day, learnt from 15 days and scored on 15 others",
        fontsize=13,
        y=1.0 - 0.2 / inches,
    )
    return figure


def _draw_rides(ax: Axes) -> Any:
    """The histogram of each day, per radian."""
    rides = datasets.fetch_uber_pickups()
    slot = rides.minute_of_day * _BINS // 1440
    counts = np.zeros((30, _BINS))
    np.add.at(counts, (rides.day - 1, slot), rides.count)
    density = counts / counts.sum(axis=1, keepdims=True) * (_BINS / (2.0 * np.pi))
    hours = 24.0 / _BINS * (np.arange(_BINS) + 0.5)
    return ax.pcolormesh(_DAYS, hours, density.T, cmap="Blues", vmin=0.0, vmax=_DARKEST, shading="nearest")


def _dress(ax: Axes, held_out: FloatArray) -> None:
    ax.set_xlim(0.5, 30.5)
    ax.set_ylim(0.0, 24.0)
    ax.set_yticks([0, 6, 12, 18, 24], ["0:00", "6:00", "12:00", "18:00", "24:00"], fontsize=9)
    for day in held_out:
        # A bar on top of the days that nothing was learnt from.
        ax.plot([day - 0.45, day + 0.45], [1.035, 1.035], color=_HELD_OUT, linewidth=3.0, clip_on=False,
                transform=ax.get_xaxis_transform(), solid_capstyle="butt")  # fmt: skip


def _label_days(ax: Axes, held_out: FloatArray) -> None:
    # 1 April 2014 was a Tuesday.
    names = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
    ax.set_xticks(_DAYS, [f"{names[int(day) % 7]}\n{day:.0f}" for day in _DAYS], fontsize=9)
    for text, day in zip(ax.get_xticklabels(), _DAYS, strict=True):
        text.set_color(_HELD_OUT if day in held_out else "#1A1A1A")
    ax.set_xlabel("day of April; orange: held out", fontsize=10)
