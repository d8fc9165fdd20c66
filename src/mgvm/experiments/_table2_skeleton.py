"""Arms as rigid trees, frame by frame: what was seen under noise, where the markers were, and the skeleton fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm import plots
from mgvm.experiments._table2_models import ARM, ROBOT
from mgvm.experiments._table2_tasks import BLOCKED, Task
from mgvm.pca import CircularPCA, KinematicTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOISE = 5.0
_FRAMES = 6
_LABELS = {"skeleton": "skeleton fitted", "observed": "markers under noise", "truth": "where they were"}


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
    labels = [_LABELS.get(label, label) for label in labels]
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
