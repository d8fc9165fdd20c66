"""Arms as rigid trees, frame by frame: what was seen under noise, where the markers were, and the skeleton fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm._validation import FloatArray
from mgvm.experiments._table2_models import ARM, ROBOT
from mgvm.experiments._table2_tasks import BLOCKED, Task
from mgvm.models import CircularPCA, KinematicTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NOISE = 5.0
_FRAMES = 6
_NOISY, _CLEAN, _LINK = "#8D99AE", "#1A1A1A", "#D1495B"


def joints(model: CircularPCA, tree: KinematicTree, angles: FloatArray) -> list[FloatArray]:
    """For every marker the points (n, links + 1, 2) from its parent, or the origin, over hidden joints to itself."""
    size = tree.n_angles
    steps = np.zeros((len(angles), size, 2))
    for marker in range(len(tree.parents)):
        for link in tree.links(marker):
            length = model.A_[2 * marker, link]
            steps[:, link] = length * np.stack([np.cos(angles[:, link]), np.sin(angles[:, link])], axis=1)
    places: dict[int, FloatArray] = {-1: np.zeros((len(angles), 2))}
    chains: dict[int, FloatArray] = {}
    while len(chains) < len(tree.parents):
        for marker, parent in enumerate(tree.parents):
            if marker not in chains and parent in places:
                moved = np.cumsum(steps[:, tree.links(marker)], axis=1)
                chains[marker] = np.concatenate([places[parent][:, None], places[parent][:, None] + moved], axis=1)
                places[marker] = chains[marker][:, -1]
    return [chains[marker] for marker in range(len(tree.parents))]


def draw(result: object = None, dpi: float = 110) -> Figure:
    """A row of frames of the fishing, and one of the robot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 6.2), dpi=dpi)
    panels = figure.subplots(2, _FRAMES, squeeze=False)
    figure.subplots_adjust(left=0.04, right=0.99, top=0.86, bottom=0.09, wspace=0.08, hspace=0.22)
    _draw_motion(panels[0], "fishing", ARM, range(1500, 1500 + 12 * _FRAMES, 12))
    _draw_motion(panels[1], "robot", ROBOT, range(_FRAMES))
    panels[0, 0].set_ylabel("fishing", fontsize=13)
    panels[1, 0].set_ylabel("robot, simulated", fontsize=13)
    handles, labels = panels[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, fontsize=11, frameon=False)
    figure.suptitle(
        f"Skeletons in frames of the second half, learnt from the first, under noise of {_NOISE:g} pixels",
        fontsize=13,
        y=0.97,
    )
    return figure


def _draw_motion(panels: np.ndarray, motion: str, tree: KinematicTree, frames: range) -> None:
    """Frames of the second half of a motion; the model has learnt from the first."""
    rows = Task(motion, BLOCKED, (_NOISE,), [], full=False).rows(_NOISE, 0)
    model = CircularPCA(tree.n_angles, structure=tree, prior="uniform", tol=1e-4, random_state=0).fit(rows.train)
    chosen = np.array(frames)
    angles = model.transform(rows.test[chosen])
    chains = joints(model, tree, angles)
    seen = np.concatenate([rows.clean[chosen], rows.test[chosen]]).reshape(-1, 2)
    lower, upper = np.minimum(seen.min(axis=0), 0.0), np.maximum(seen.max(axis=0), 0.0)
    margin = 0.08 * float((upper - lower).max())
    for k, ax in enumerate(panels):
        _draw_frame(ax, [chain[k] for chain in chains], rows.test[chosen[k]], rows.clean[chosen[k]])
        ax.set_title(f"frame {len(rows.train) + chosen[k]}", fontsize=10.5)
        ax.set_aspect("equal")
        ax.set_xlim(lower[0] - margin, upper[0] + margin)
        ax.set_ylim(lower[1] - margin, upper[1] + margin)
        ax.set_xticks([])
        ax.set_yticks([])


def _draw_frame(ax: Axes, chains: list[FloatArray], noisy: FloatArray, clean: FloatArray) -> None:
    for first, chain in enumerate(chains):
        label = "skeleton fitted" if not first else None
        ax.plot(*chain.T, color=_LINK, linewidth=2.6, solid_capstyle="round", label=label)
        if len(chain) > 2:
            ax.plot(*chain[1:-1].T, "o", markersize=6, markerfacecolor="white", color=_LINK, label="hidden joint")
    ax.plot(0.0, 0.0, "s", color=_LINK, markersize=5)
    ax.plot(*noisy.reshape(-1, 2).T, "x", color=_NOISY, markersize=8, markeredgewidth=2.0, label="markers under noise")
    ax.plot(*clean.reshape(-1, 2).T, "o", markersize=6, markerfacecolor="none", color=_CLEAN, label="where they were")
