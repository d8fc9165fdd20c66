"""The figures of Table 2: what each model gains, skeletons frame by frame, and the doughnut of the supplement."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mgvm import plots
from mgvm.pca import CircularPCA, KinematicTree
from paper.experiment import FloatArray
from paper.table2.scores import Score, Table2
from paper.table2.tasks import ARM, BLOCKED, RAW, ROBOT, Task

_INK, _PALE_BLUE, _CRIMSON = "#1A1A1A", "#5B8DB8", "#D1495B"


# ---- gains over the noisy rows, against the noise --------------------------------------------------------------------

_WARM = ("#F2A65A", "#D1495B", "#E4572E", "#8C1C13", "#B5179E", "#F0386B", "#5F0F40")
_COOL = ("#A7C7E7", "#5B8DB8", "#2A6F97", "#89B0AE", "#3A7D44", "#90BE6D", "#577590", "#6C757D")
_MARKS = "osD^vPX*"


def draw_gains(result: Table2, dpi: float = 110) -> Figure:
    """Panels by motion and split: mean over seeds of the paper's measure less that of the raw rows, and its spread."""
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
    panels[0].set_ylim(bottom=max(panels[0].get_ylim()[0], -8.0))
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
    shifts = np.linspace(-0.5, 0.5, len(looks)) * 0.45
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
    marks = [Line2D([], [], label=name, markersize=6, **look) for name, look in looks.items()]
    figure.legend(
        handles=marks, loc="lower center", ncols=min(5 if across > 2 else 3, len(marks)), fontsize=10.5, frameon=False
    )


# ---- skeletons -------------------------------------------------------------------------------------------------------

_LABELS = {"skeleton": "skeleton fitted", "observed": "markers under noise", "truth": "where they were"}


def draw_skeleton(result: object = None, dpi: float = 110) -> Figure:
    """A row of frames of the fishing, and one of the robot."""
    figure = Figure(figsize=(14.0, 6.2), dpi=dpi)
    panels = figure.subplots(2, 6, squeeze=False)
    figure.subplots_adjust(left=0.04, right=0.99, top=0.86, bottom=0.09, wspace=0.08, hspace=0.22)
    _draw_motion(panels[0], "fishing", ARM, range(1500, 1500 + 12 * 6, 12))
    _draw_motion(panels[1], "robot", ROBOT, range(6))
    panels[0, 0].set_ylabel("fishing", fontsize=13)
    panels[1, 0].set_ylabel("robot, simulated", fontsize=13)
    handles, labels = panels[1, 0].get_legend_handles_labels()
    labels = [_LABELS.get(label, label) for label in labels]
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=11, frameon=False)
    figure.suptitle(
        "Skeletons in frames of the second half, learnt on the first, under noise of 5 pixels",
        fontsize=13,
        y=0.97,
    )
    return figure


def _draw_motion(panels: np.ndarray, motion: str, tree: KinematicTree, frames: range) -> None:
    """Frames of the second half of a motion; the model has learnt from the first."""
    rows = Task(motion, BLOCKED, (5.0,), [], full=False).rows(5.0, 0)
    model = CircularPCA(tree.n_angles, structure=tree, prior="uniform", tol=1e-4, random_state=0).fit(rows.train)
    chosen = np.array(frames)
    angles = model.transform(rows.test[chosen])
    seen = np.concatenate([rows.clean[chosen], rows.test[chosen]]).reshape(-1, 2)
    lower, upper = np.minimum(seen.min(axis=0), 0.0), np.maximum(seen.max(axis=0), 0.0)
    margin = 0.08 * float((upper - lower).max())
    for k, ax in enumerate(panels):
        plots.skeleton(model, angles[k], ax, observed=rows.test[chosen[k]], truth=rows.clean[chosen[k]])
        ax.set_title(f"frame {len(rows.train) + chosen[k]}", fontsize=10.5)
        ax.set_aspect("equal", adjustable="box")
        ax.set_xlim(lower[0] - margin, upper[0] + margin)
        ax.set_ylim(lower[1] - margin, upper[1] + margin)
        ax.set_xticks([])
        ax.set_yticks([])


# ---- the fuzzy doughnut ----------------------------------------------------------------------------------------------

_NOISE = 0.1  # standard deviation; the paper has the variance 0.01
# Which coordinate has which angle: x the first alone, z the second alone, y both.
_MASK = np.array([[True, False], [True, True], [False, True]])


def sample_doughnut(count: int = 2000, seed: int = 0) -> FloatArray:
    """Rows (2 cos φ₁, 2 sin φ₁ + 2 cos φ₂, 2 sin φ₂) + ε with φ₁ ~ vM(π/2, 50), φ₂ ~ vM(0, 0.1)."""
    rng = np.random.default_rng(seed)
    angles = np.stack([rng.vonmises(0.5 * np.pi, 50.0, count), rng.vonmises(0.0, 0.1, count)], axis=1)
    return surface(angles) + _NOISE * rng.normal(size=(count, 3))


def surface(angles: FloatArray) -> FloatArray:
    """The torus at angles (n, 2)."""
    one, two = angles.T
    return 2.0 * np.stack([np.cos(one), np.sin(one) + np.cos(two), np.sin(two)], axis=1)


def fit_doughnut(rows: FloatArray) -> CircularPCA:
    """The torus learnt from rows, about the origin; which coordinate has which angle is told."""
    return CircularPCA(2, structure=_MASK, fit_offset=False, n_init=2, random_state=0).fit(rows)


def draw_doughnut(result: object = None, dpi: float = 110) -> Figure:
    """Rows with the learnt torus, and the slices z = 0 and x = 0."""
    rows = sample_doughnut()
    model = fit_doughnut(rows)
    figure = Figure(figsize=(13.0, 6.6), dpi=dpi)
    solid: Any = figure.add_axes((0.02, 0.06, 0.48, 0.86), projection="3d")
    _draw_solid(solid, rows, model)
    upper, lower = figure.add_axes((0.55, 0.545, 0.43, 0.345)), figure.add_axes((0.55, 0.125, 0.43, 0.345))
    _draw_slice(upper, rows, model, across=2)
    _draw_slice(lower, rows, model, across=0)
    upper.tick_params(labelbottom=False)
    lower.set_xlabel("y", fontsize=11)
    figure.legend(*lower.get_legend_handles_labels(), loc="lower right", fontsize=10.5, frameon=False, ncols=3)
    figure.suptitle(
        f"Fuzzy doughnut: {2000:,} rows, and the torus that circular PCA learns from them", fontsize=13, y=0.975
    )
    return figure


def _draw_solid(ax: Any, rows: FloatArray, model: CircularPCA) -> None:
    net = {"color": _CRIMSON, "linewidth": 0.45, "alpha": 0.55}
    looks: dict[str, Any] = {"s": 2.0, "color": _PALE_BLUE, "alpha": 0.5}
    plots.doughnut(ax=ax, surface=model.inverse_transform, rows=rows[::2], wire_options=net, **looks)
    ax.set_box_aspect((1.0, 2.0, 1.0), zoom=1.0)
    ax.view_init(elev=24, azim=-38)
    ax.set_xlabel("x", fontsize=11)
    ax.set_ylabel("y", fontsize=11, labelpad=12)
    ax.set_zlabel("z", fontsize=11)
    ax.set_xticks([-2, 0, 2])
    ax.set_yticks([-4, -2, 0, 2, 4])
    ax.set_zticks([-2, 0, 2])
    ax.tick_params(labelsize=9)


def _draw_slice(ax: Axes, rows: FloatArray, model: CircularPCA, across: int) -> None:
    """Rows near the plane on which coordinate `across` is zero, and where the true and the learnt torus cut it."""
    kept = [1, 2 - across]
    near = rows[np.abs(rows[:, across]) < 0.15]
    ax.scatter(
        near[:, 1], near[:, kept[1]], s=7.0, color=_PALE_BLUE, alpha=0.6, linewidths=0, label="rows near the slice"
    )
    # One angle stands where the coordinate of the slice vanishes, the other turns.
    true = (0.0, np.pi) if across == 2 else (0.5 * np.pi, -0.5 * np.pi)
    styles: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
        (surface, true, {"color": _INK, "linewidth": 1.0, "linestyle": (0, (5, 3)), "label": "true torus"}),
        (
            model.inverse_transform,
            _zeros(model, across),
            {"color": _CRIMSON, "linewidth": 1.5, "label": "fitted torus"},
        ),
    )
    turn = np.linspace(-np.pi, np.pi, 400)
    for torus, stands, style in reversed(styles):
        for still in stands:
            angles = np.full((turn.size, 2), still)
            angles[:, 0 if across == 2 else 1] = turn
            ax.plot(*torus(angles)[:, kept].T, **style)
            style.pop("label", None)
    ax.set_aspect("equal")
    ax.set_xlim(-4.6, 4.6)
    ax.set_ylim(-2.5, 2.5)
    ax.set_ylabel("xyz"[kept[1]], fontsize=11)
    ax.set_title(f"slice {'xyz'[across]} = 0 (rows within {0.15:g})", fontsize=11.5)


def _zeros(model: CircularPCA, across: int) -> tuple[float, float]:
    """The two angles at which a coordinate of one angle alone is zero."""
    angle = 0 if across == 0 else 1
    first = float(np.arctan2(-model.A_[across, angle], model.B_[across, angle]))
    return first, first + np.pi
