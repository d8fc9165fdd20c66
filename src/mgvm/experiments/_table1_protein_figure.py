"""The side chain of cysteine over the two angles of the backbone: what was seen, and what was predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments._table1_mixture import features_of
from mgvm.experiments._table1_panels import dist, not_measured, shown, title
from mgvm.experiments.table1 import Score, Table1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK = "Protein"
_GRID = 48
_NEAR = np.deg2rad(14.0)  # residues within this of a place are its neighbours
_FEW = 5  # residues around a place, below which nothing is drawn there
_PLACES = {"helix": (-65.0, -40.0), "extended": (-75.0, 135.0), "left-handed": (55.0, 40.0), "bridge": (-90.0, 0.0)}
# Side chains stand near 180, 60 and -60 degrees: light, less so and dark, also in print.
_LIGHTEST = np.deg2rad(150.0)
_INK, _BARS, _BLUE = "#1A1A1A", "#F0A46B", "#0072B2"


def draw(result: Table1, dpi: float = 110) -> Figure:
    """Most frequent and most probable χ₁ over (φ, ψ), and its whole distribution at four places of the backbone."""
    from matplotlib.figure import Figure

    scores = shown(result, TASK, ())
    if not scores:
        return not_measured(TASK, dpi)
    figure = Figure(figsize=(12.6, 8.4), dpi=dpi)
    left, right = figure.add_axes((0.06, 0.44, 0.37, 0.46)), figure.add_axes((0.5, 0.44, 0.37, 0.46))
    residues = datasets.fetch_rotamers("CYS").valid
    _draw_seen(left, residues)
    _draw_predicted(right, result, scores[0], residues)
    for ax in (left, right):
        _dress(ax)
    plots.colour_ring(figure.add_axes((0.885, 0.59, 0.085, 0.1275), projection="polar"), label="χ₁", lightest=_LIGHTEST)
    for k, (name, place) in enumerate(_PLACES.items()):
        dial: Any = figure.add_axes((0.05 + 0.235 * k, 0.075, 0.2, 0.24), projection="polar")
        _draw_place(dial, f"{k + 1}: {name}", np.deg2rad(place), residues, result, scores[0])
    marks = dial.get_legend_handles_labels()
    figure.legend(*marks, loc="lower center", ncols=2, fontsize=10.5, frameon=False)
    figure.suptitle(
        f"Cysteine: the side chain's angle χ₁ given the backbone's φ and ψ; {title(scores[0], scores[0])}",
        fontsize=13,
        y=0.975,
    )
    return figure


def _apart(angles: FloatArray, place: FloatArray) -> FloatArray:
    """Distance on the torus of (φ, ψ)."""
    turn = np.mod(angles[:, :2] - place + np.pi, 2.0 * np.pi) - np.pi
    return np.asarray(np.hypot(*turn.T))


def _draw_seen(ax: Axes, residues: FloatArray) -> None:
    plots.torus_scatter(residues[:, :2], ax, s=9.0, color=plots.angle_colours(residues[:, 2], lightest=_LIGHTEST))
    ax.set_title(f"what was seen: {len(residues):,} held-out residues", fontsize=11)


def _draw_predicted(ax: Axes, result: Table1, score: Score, residues: FloatArray) -> None:
    axis = -np.pi + 2.0 * np.pi / _GRID * (np.arange(_GRID) + 0.5)
    pairs = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    pairs = pairs[[bool((_apart(residues, pair) < _NEAR).sum() >= _FEW) for pair in pairs]]
    dists = dist(result, TASK, score.model, features_of(pairs))
    chi = -np.pi + 2.0 * np.pi / 180 * np.arange(180)
    mode = chi[np.argmax(dists[:, None].pdf(chi), axis=1)]
    side = 360.0 / _GRID
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    cells = [Rectangle((x - 0.5 * side, y - 0.5 * side), side, side) for x, y in np.rad2deg(pairs)]
    ax.add_collection(
        PatchCollection(
            cells, facecolors=plots.angle_colours(mode, lightest=_LIGHTEST), edgecolors="none", antialiased=False
        )
    )
    ax.set_title("what is predicted: the most probable χ₁, where there are residues", fontsize=11)


def _dress(ax: Axes) -> None:
    ticks = [-180, -90, 0, 90, 180]
    ax.set_xticks(ticks, [f"{tick}°".replace("-", "−") for tick in ticks], fontsize=10)
    ax.set_yticks(ticks, [f"{tick}°".replace("-", "−") for tick in ticks], fontsize=10)
    ax.set_xlim(-180, 180)
    ax.set_ylim(-180, 180)
    ax.set_aspect("equal")
    ax.set_xlabel("φ", fontsize=12, labelpad=0)
    ax.set_ylabel("ψ", fontsize=12, labelpad=-6)
    for k, (x, y) in enumerate(_PLACES.values()):
        looks = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": _INK, "linewidth": 0.9}
        ax.text(x, y, str(k + 1), ha="center", va="center", fontsize=9, bbox=looks)


def _draw_place(ax: Any, name: str, place: FloatArray, residues: FloatArray, result: Table1, score: Score) -> None:
    near = residues[_apart(residues, place) < _NEAR]
    plots.rose(near[:, 2], ax, bins=36, color=_BARS, edgecolor=_BARS, linewidth=0.2, label="χ₁ of residues near it")
    predicted = dist(result, TASK, score.model, features_of(place[None]))[0]
    plots.circular_density(predicted, ax, color=_BLUE, linewidth=1.8, label="predicted there")
    ax.set_yticks([])
    ax.set_xticks([0.0, 0.5 * np.pi, np.pi, 1.5 * np.pi], ["0°", "90°", "±180°", "−90°"], fontsize=9)
    ax.tick_params(pad=-2)
    ax.set_title(f"{name}, {len(near)} residues near it", fontsize=10.5, pad=10)
