"""The arm in a frame, the way of its hand, and the angles of its links in time; all in frames not learnt from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm import plots
from mgvm.experiments.motion import NOISE, Motion, unwrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FIRST, _COUNT, _SHOWN = 1500, 180, 90
_NOISY, _CLEAN, _FOUND = "#b8b8b8", "#222222", "#0072b2"
_LINKS = ("#0072b2", "#d55e00", "#009e73")


def draw(result: Motion, dpi: float = 110) -> Figure:
    """Three panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 4.8), dpi=dpi, layout="constrained")
    frame, path, angles = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 1.5))
    chosen = slice(_FIRST, _FIRST + _COUNT)
    seen, clean = result.rows.test[chosen], result.rows.clean[chosen]
    _draw_frame(frame, result, seen[_SHOWN], clean[_SHOWN])
    _draw_path(path, seen, clean, result.model.denoise(seen))
    _draw_angles(angles, result, seen, clean)
    figure.suptitle(
        f"The angles behind three markers on an arm: learnt from the first half of a film under noise of {NOISE:g} "
        "pixels, used on the second",
        fontsize=13,
    )
    return figure


def _draw_frame(ax: Axes, result: Motion, seen: np.ndarray, clean: np.ndarray) -> None:
    plots.skeleton(result.model, result.model.transform(seen[None])[0], ax, observed=seen, truth=clean)
    ax.set_title(f"Frame {len(result.rows.train) + _FIRST + _SHOWN}", fontsize=11.5)
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend(fontsize=9, frameon=False)
    ax.set_xlabel("x, pixels")
    ax.set_ylabel("y, pixels")


def _draw_path(ax: Axes, seen: np.ndarray, clean: np.ndarray, found: np.ndarray) -> None:
    ax.plot(seen[:, 4], seen[:, 5], ".", color=_NOISY, markersize=5, label="under noise")
    ax.plot(clean[:, 4], clean[:, 5], color=_CLEAN, linewidth=1.8, label="as it was")
    ax.plot(found[:, 4], found[:, 5], ".", color=_FOUND, markersize=5, label="denoised, frame by frame")
    ax.set_title(f"The hand in {_COUNT} frames", fontsize=11.5)
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend(fontsize=9, frameon=False)
    ax.set_xlabel("x, pixels")


def _draw_angles(ax: Axes, result: Motion, seen: np.ndarray, clean: np.ndarray) -> None:
    frames = len(result.rows.train) + _FIRST + np.arange(len(seen))
    found, true = (unwrapped(result.model.transform(rows)) for rows in (seen, clean))
    for link, colour in enumerate(_LINKS):
        turn = 360.0 * np.round(np.mean(true[:, link] - found[:, link]) / 360.0)
        ax.plot(frames, found[:, link] + turn, ".", color=colour, markersize=4, label=f"link {link + 1}")
        ax.plot(frames, true[:, link], color=colour, linewidth=1.2)
    ax.set_title("Angles of its links: noisy frames (dots), as they were (lines)", fontsize=11.5)
    ax.set_xlabel("frame")
    ax.set_ylabel("degrees")
    ax.legend(fontsize=9, frameon=False, ncols=3)
