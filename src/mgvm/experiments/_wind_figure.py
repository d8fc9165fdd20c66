"""The wind over Europe: highest-density arcs at held-out grid points, and the predicted field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import GridDensity, plots
from mgvm._validation import FloatArray
from mgvm.experiments.regressions import Regression

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOX = (-10.0, 10.0, 45.0, 60.0)  # degrees: west, east, south, north
_LATITUDE = 52.5  # whose parallel gives the scale of the longitudes
_TRAINING, _INSIDE, _OUTSIDE, _ARC, _INK = "#A3ADB5", "#0072B2", "#D55E00", "#3D4852", "#1A1A1A"
_RADIUS = 22.0  # of the circles, points
_SHOWN = 45  # held-out points with arcs
_ROOM = 1.15  # between two of them at least, degrees of latitude
_NODES = 1024  # of the densities whose arcs are drawn: a third of a degree
_STEP = 0.5  # of the shades, degrees; arrows are twice as far apart
_MOST = 60.0  # the darkest shade, degrees
_CITIES = {
    "London": (-0.13, 51.51),
    "Paris": (2.35, 48.86),
    "Dublin": (-6.26, 53.35),
    "Edinburgh": (-3.19, 55.95),
    "Brussels": (4.35, 50.85),
    "Lyon": (4.84, 45.76),
    "Stavanger": (5.73, 58.97),
}


def draw(result: Regression, dpi: float = 120) -> Figure:
    """The figure: grid points on the left, the field on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 9.1), dpi=dpi)
    left = figure.add_axes((0.045, 0.15, 0.455, 0.765))
    right = figure.add_axes((0.54, 0.15, 0.455, 0.765))
    _draw_points(left, result)
    _draw_field(figure, right, result)
    for ax in (left, right):
        _dress(ax)
    split = result.split
    title = f"Wind over Europe: learnt from {len(split.y)} points of a grid, checked at {len(split.y_test)} others"
    figure.suptitle(title, fontsize=15, fontweight="bold", y=0.98)
    note = "North is up. Arrows and needles point where the wind goes, if the file tells where it comes from."
    figure.text(0.5, 0.012, note, ha="center", fontsize=10.5, color="#4D4D4D")
    return figure


def downwind(angles: FloatArray) -> FloatArray:
    """Where wind goes that comes from `angles`."""
    return angles + np.pi


def _draw_points(ax: Axes, result: Regression) -> None:
    split = result.split
    _draw_arrows(ax, split.X, downwind(split.y), color=_TRAINING, width=0.0021, length=12.0)
    shown = spread_out(split.X_test)
    east, north = split.X_test[shown].T
    predicted = _regrid_downwind(result.model.predict_dist(split.X_test[shown]))
    plots.arcs(
        predicted, east, north, ax, observed=downwind(split.y_test[shown]), radius=_RADIUS, color=_ARC, zorder=2.5
    )
    ax.plot(east, north, "o", color=_INK, markersize=2.6, zorder=4)
    ax.set_title(f"at {len(shown)} held-out points: what was seen, and what was predicted", fontsize=12)
    _legend(ax)


def spread_out(places: FloatArray) -> list[int]:
    """The first places whose circles are on the map and far enough from those chosen before them."""
    scale = np.array([np.cos(np.deg2rad(_LATITUDE)), 1.0])
    box = np.reshape(_BOX, (2, 2))
    flat, middle, reach = places * scale, box.mean(axis=1) * scale, 0.5 * np.ptp(box, axis=1) * scale - 0.75 * _ROOM
    chosen: list[int] = []
    for place in range(len(flat)):
        inside = (np.abs(flat[place] - middle) < reach).all()
        if inside and all(np.hypot(*(flat[place] - flat[other])) > _ROOM for other in chosen):
            chosen.append(place)
        if len(chosen) == _SHOWN:
            break
    return chosen


def _regrid_downwind(predicted: Any) -> GridDensity:
    """The densities of where the wind goes, on few nodes: highest-density arcs of fine grids take long."""
    nodes = -np.pi + 2.0 * np.pi * np.arange(_NODES) / _NODES
    return GridDensity(predicted[:, None].logpdf(nodes - np.pi))


def _draw_arrows(ax: Axes, places: FloatArray, angles: FloatArray, *, length: float, **options: Any) -> Any:
    """Arrows of a length in points, centred at their places; angles turn anti-clockwise from east."""
    return ax.quiver(
        *places.T, np.cos(angles), np.sin(angles), angles="uv", pivot="mid", units="width",
        scale=72.0 / length, scale_units="inches", headwidth=4.5, headlength=4.5, headaxislength=4.0, **options,
    )  # fmt: skip


def _legend(ax: Axes) -> None:
    from matplotlib.lines import Line2D

    def line(label: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, **style)

    marks = [
        line("training point", color=_TRAINING, marker=r"$\rightarrow$", markersize=13, linestyle="none"),
        line("held-out point", color=_INK, marker="o", markersize=3.5, linestyle="none"),
        line("50 % highest-density region", color=_ARC, linewidth=4),
        line("90 % highest-density region", color=_ARC, linewidth=1.5),
        line("seen, within the 90 %", color=_INSIDE, linewidth=1.8),
        line("seen, outside", color=_OUTSIDE, linewidth=1.8),
    ]
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.045), ncols=2, fontsize=10.5, frameon=False)


def _draw_field(figure: Figure, ax: Axes, result: Regression) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    east, north = np.meshgrid(np.arange(_BOX[0], _BOX[1] + _STEP, _STEP), np.arange(_BOX[2], _BOX[3] + _STEP, _STEP))
    predicted = result.model.predict_dist(np.stack([east, north], axis=-1).reshape(-1, 2))
    spread = np.rad2deg(np.sqrt(-2.0 * np.log(predicted.resultant_length()))).reshape(east.shape)
    # Pale, so that arrows and names stand out.
    shades = LinearSegmentedColormap.from_list("pale", ["#FFFFFF", "#F6C795", "#E08A2E"])
    drawn = ax.pcolormesh(
        east, north, spread, cmap=shades, shading="gouraud", vmin=0.0, vmax=_MOST, rasterized=True, zorder=0
    )
    direction = np.asarray(predicted.mean_direction()).reshape(east.shape)
    inner = (slice(1, -1, 2), slice(1, -1, 2))
    places = np.stack([east[inner], north[inner]], axis=-1).reshape(-1, 2)
    _draw_arrows(ax, places, downwind(direction[inner].ravel()), color=_INSIDE, width=0.003, length=14.0)
    _draw_cities(ax)
    ax.set_title("everywhere: the mean direction that is predicted", fontsize=12)
    axes = ax.inset_axes((0.15, -0.085, 0.7, 0.018))
    bar = figure.colorbar(drawn, cax=axes, orientation="horizontal", extend="max")
    bar.set_label("circular standard deviation of the prediction, degrees", fontsize=10.5)


def _draw_cities(ax: Axes) -> None:
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    for name, (east, north) in _CITIES.items():
        ax.plot(east, north, "o", color="white", markeredgecolor=_INK, markersize=5.5, zorder=4)
        ax.annotate(name, (east, north), (5, 4), textcoords="offset points", fontsize=10, zorder=5, path_effects=halo)


def _dress(ax: Axes) -> None:
    west, east, south, north = _BOX
    ax.set_aspect(1.0 / np.cos(np.deg2rad(_LATITUDE)))
    ax.set_xlim(west, east)
    ax.set_ylim(south, north)
    ax.set_xticks(range(-8, 9, 4), ["8° W", "4° W", "0°", "4° E", "8° E"])
    ax.set_yticks(range(46, 60, 4), [f"{degree}° N" for degree in range(46, 60, 4)])
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)
