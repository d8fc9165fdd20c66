"""The person at five moments, the way of the ankle, and the angles of the leg in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm import datasets
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.experiments.motion import LEG, LINKS, NOISE, SIDE, Motion, directions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATE = 30.0  # frames a second
_MOMENTS = (0, 110, 227, 340, 454)  # frames
_APART = 62.0  # between two figures of the person, centimetres
_NOISY, _CLEAN, _FOUND, _BODY = "#B8B8B8", "#222222", "#0072B2", "#9AA5AD"
_COLOURS = ("#0072B2", "#D55E00", "#009E73")  # of the links
_BONES = (
    ("Hips", "Chest2", "Neck", "Head", "HeadEnd"),
    ("Neck", "LeftShoulder", "LeftElbow", "LeftWrist", "LeftWristEnd"),
    ("Neck", "RightShoulder", "RightElbow", "RightWrist", "RightWristEnd"),
    ("Hips", "LeftHip", "LeftKnee", "LeftAnkle", "LeftAnkleEnd"),
    ("Hips", "RightHip"),
)


def draw(result: Motion, dpi: float = 110) -> Figure:
    """Three panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 5.2), dpi=dpi, layout="constrained")
    film, path, angles = figure.subplots(1, 3, width_ratios=(1.55, 0.85, 1.35))
    _draw_film(film)
    _draw_path(path, result)
    _draw_angles(angles, result)
    figure.suptitle(
        f"The angles behind a moving leg: learnt from the first half of a film under noise of {NOISE:g} cm, "
        "used on the second",
        fontsize=13.5,
        fontweight="bold",
    )
    return figure


def _draw_film(ax: Axes) -> None:
    motion = datasets.load_motion()
    for shift, frame in enumerate(_MOMENTS):
        origin = np.array([motion.of("Hips")[0, 0, SIDE[0]] - _APART * shift, 0.0])
        for bone in _BONES:
            ax.plot(*(motion.of(*bone)[frame][:, SIDE] - origin).T, color=_BODY, linewidth=2.2, zorder=2)
        joints = motion.of(*LEG)[frame][:, SIDE] - origin
        for link, colour in enumerate(_COLOURS):
            label = LINKS[link] if shift == 0 else None
            ax.plot(*joints[link : link + 2].T, "o-", color=colour, linewidth=3.5, markersize=5, label=label, zorder=3)
        ax.text(_APART * shift, -8.0, f"{frame / _RATE:.0f} s", ha="center", va="top", fontsize=10)
    ax.axhline(0.0, color="#C8CDD1", linewidth=1.0, zorder=1)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xticks([])
    ax.set_yticks([0, 50, 100, 150])
    ax.set_ylabel("height, cm")
    ax.legend(fontsize=10, frameon=False, ncols=3, loc="upper center")
    ax.set_title("A person kneels down, works and stands up, from the side", fontsize=11.5)


def _draw_path(ax: Axes, result: Motion) -> None:
    rows = result.rows
    for places, style, label in (
        (rows.test, {"marker": ".", "linestyle": "none", "color": _NOISY}, "under noise"),
        (result.model.denoise(rows.test), {"marker": ".", "linestyle": "none", "color": _FOUND}, "denoised"),
        (rows.clean, {"color": _CLEAN, "linewidth": 1.8}, "as it was"),
    ):
        ax.plot(places[:, 2], places[:, 3], markersize=5, label=label, **style)
    ax.plot(0.0, 0.0, "s", color=_BODY, markersize=7)
    ax.annotate("hip", (0.0, 0.0), (7, -4), textcoords="offset points", fontsize=10)
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend(fontsize=9.5, frameon=False, loc="center right")
    ax.set_xlabel("forwards of the hip, cm")
    ax.set_ylabel("above the hip, cm")
    ax.set_title("The ankle in the second half", fontsize=11.5)


def _draw_angles(ax: Axes, result: Motion) -> None:
    rows = result.rows
    seconds = (len(rows.train) + np.arange(len(rows.test))) / _RATE
    true = continuous(directions(rows.clean))
    # Each angle within half a turn of what it is to be compared with.
    found = true + np.rad2deg(wrap(result.model.transform(rows.test) - np.deg2rad(true)))
    for link, colour in enumerate(_COLOURS):
        ax.plot(seconds, found[:, link], ".", color=colour, markersize=5, label=f"{LINKS[link]}, from noisy joints")
        ax.plot(seconds, true[:, link], color=colour, linewidth=1.4)
    ax.margins(x=0.01)
    ax.set_xlabel("time, seconds")
    ax.set_ylabel("direction, degrees above level")
    ax.legend(fontsize=9.5, frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.45))
    ax.set_title("Directions of its links: found (dots), true (lines)", fontsize=11.5)


def continuous(angles: FloatArray) -> FloatArray:
    """Angles along time without jumps of a turn, degrees."""
    return np.asarray(np.degrees(np.unwrap(angles, axis=0)))
