"""The main figure of Table 2: what each model gains over the noisy rows, against the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm.experiments._table2_models import RAW
from mgvm.experiments._table2_tasks import Task
from mgvm.experiments.table2 import Score, Table2

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _GREY = "#1A1A1A", "#9AA0A6"
_LOWEST = -8.0  # of the axis; what is below leaves the panel
_WARM = ("#F2A65A", "#D1495B", "#E4572E", "#8C1C13", "#B5179E", "#F0386B", "#5F0F40")
_COOL = ("#A7C7E7", "#5B8DB8", "#2A6F97", "#89B0AE", "#3A7D44", "#90BE6D", "#577590", "#6C757D")
_MARKS = "osD^vPX*"
_DODGE = 0.45  # of the distance between two noises, over all models


def draw(result: Table2, dpi: float = 110) -> Figure:
    """Panels by motion and split: mean over seeds of the paper's measure less that of the raw rows, and its spread."""
    from matplotlib.figure import Figure

    chosen = [task for task in result.tasks if any(result.of(task, noise) for noise in task.noises)]
    across = min(len(chosen), 4)
    down = -(-len(chosen) // across)
    figure = Figure(figsize=(3.5 * across + 1.0, 3.9 * down + 2.4), dpi=dpi)
    inches = 3.9 * down + 2.4
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    figure.subplots_adjust(
        left=0.85 / (3.5 * across + 1.0),
        right=0.985,
        top=1.0 - 1.05 / inches,
        bottom=1.75 / inches,
        wspace=0.06,
        hspace=0.42,
    )
    names = list(dict.fromkeys(model.name for task in chosen for model in task.models if model.name != RAW))
    looks = _looks(names, {model.name for task in chosen for model in task.models if model.ours})
    for ax, task in zip(panels, chosen, strict=False):
        _draw_task(ax, task, result, looks)
    panels[0].set_ylim(bottom=max(panels[0].get_ylim()[0], _LOWEST))
    for ax in panels[len(chosen) :]:
        ax.set_visible(False)
    for ax in panels[::across]:
        ax.set_ylabel("gain over the noisy rows,\nin the paper's measure", fontsize=11)
    figure.suptitle(
        "Noise taken out of moving markers: the noisy rows themselves are 0", fontsize=13, y=1.0 - 0.2 / inches
    )
    _legend(figure, looks, across)
    return figure


def _looks(names: list[str], ours: set[str]) -> dict[str, dict[str, Any]]:
    """Colour and mark by name: circular PCA warm and bold, the others cool."""
    looks: dict[str, dict[str, Any]] = {}
    warm, cool = 0, 0
    for name in names:
        if name in ours:
            looks[name] = {"color": _WARM[warm % len(_WARM)], "marker": _MARKS[warm % len(_MARKS)], "linewidth": 1.9}
            warm += 1
        else:
            looks[name] = {"color": _COOL[cool % len(_COOL)], "marker": _MARKS[cool % len(_MARKS)], "linewidth": 1.2}
            looks[name]["linestyle"] = (0, (4, 1.5))
            cool += 1
    return looks


def _draw_task(ax: Axes, task: Task, result: Table2, looks: dict[str, dict[str, Any]]) -> None:
    found = {noise: {score.model: score for score in result.of(task, noise)} for noise in task.noises}
    found = {noise: scores for noise, scores in found.items() if scores}
    ax.axhline(0.0, color=_INK, linewidth=1.0)
    shifts = np.linspace(-0.5, 0.5, len(looks)) * _DODGE
    for shift, (name, look) in zip(shifts, looks.items(), strict=True):
        rows = [(k, scores[name], scores[RAW]) for k, scores in enumerate(found.values()) if name in scores]
        if rows:
            _draw_model(ax, shift, rows, look)
    ticks = [f"{noise:g}\n({scores[RAW].snr:.1f})" for noise, scores in found.items()]
    ax.set_xticks(range(len(found)), ticks, fontsize=10)
    ax.set_xlim(-0.5, len(found) - 0.5)
    ax.set_title(task.name.replace(", ", "\n", 1), fontsize=11.5)
    ax.set_xlabel("noise, pixels (measure of noisy rows)", fontsize=10)
    ax.grid(axis="y", color="#E6E8EA", linewidth=0.8)
    ax.tick_params(axis="y", labelsize=10)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _draw_model(ax: Axes, shift: float, rows: list[tuple[int, Score, Score]], look: dict[str, Any]) -> None:
    x = np.array([k for k, _, _ in rows]) + shift
    gain = np.array([score.snr - raw.snr for _, score, raw in rows])
    spread = np.array([np.nan_to_num(score.snr_error) * np.sqrt(score.seeds) for _, score, _ in rows])
    ax.errorbar(x, gain, yerr=spread, capsize=2.0, elinewidth=0.9, markersize=5.0, **look)


def _legend(figure: Figure, looks: dict[str, dict[str, Any]], across: int) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], label=name, markersize=6, **look) for name, look in looks.items()]
    figure.legend(
        handles=marks, loc="lower center", ncols=min(5 if across > 2 else 3, len(marks)), fontsize=10.5, frameon=False
    )
