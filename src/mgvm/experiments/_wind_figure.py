"""The wind over Germany: predicted arcs at held-out stations, and the predicted field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments.regressions import Regression

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LATITUDE = 51.2  # whose parallel gives the scale of the longitudes
_LEARNT, _INSIDE, _OUTSIDE, _ARC, _INK = "#A3ADB5", "#0072B2", "#D55E00", "#3D4852", "#1A1A1A"
_RADIUS = 17.0  # of the circles, points
_NEAR = 0.53  # the field is drawn up to here from a station, degrees of latitude
_SHADES, _ARROWS = 0.1, 0.5  # steps of the field, degrees of latitude
_CITIES = {
    "Berlin": (13.40, 52.52),
    "Hamburg": (9.99, 53.55),
    "Cologne": (6.96, 50.94),
    "Frankfurt": (8.68, 50.11),
    "Munich": (11.58, 48.14),
    "Leipzig": (12.37, 51.34),
}


def draw(result: Regression, dpi: float = 120) -> Figure:
    """The figure: stations on the left, the field on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 9.9), dpi=dpi)
    left = figure.add_axes((0.045, 0.145, 0.455, 0.78))
    right = figure.add_axes((0.54, 0.145, 0.455, 0.78))
    _draw_stations(left, result)
    _draw_field(figure, right, result)
    for ax in (left, right):
        _dress(ax)
    figure.suptitle(
        "Wind over Germany: predicted from 208 stations, checked at 52", fontsize=15, fontweight="bold", y=0.985
    )
    note = (
        "North is up. Arrows and needles point where the wind goes, if its angles are as weather services report them; "
        "they come in steps of 10°."
    )
    figure.text(0.5, 0.012, note, ha="center", fontsize=10.5, color="#4D4D4D")
    return figure


def _draw_stations(ax: Axes, result: Regression) -> None:
    split = result.split
    _arrows(ax, split.X, split.y, color=_LEARNT, width=0.0021, length=12.0)
    east, north = split.X_test.T
    law = result.model.predict_dist(split.X_test)
    plots.arcs(law, east, north, ax, observed=split.y_test, compass=True, radius=_RADIUS, color=_ARC, zorder=2.5)
    ax.plot(east, north, "o", color=_INK, markersize=2.6, zorder=4)
    ax.set_title("at stations: what was seen, and what was predicted", fontsize=12)
    _legend(ax)


def _arrows(ax: Axes, places: FloatArray, angles: FloatArray, *, length: float, **options: Any) -> Any:
    """Arrows of a length in points, centred at their places; angles turn clockwise from north."""
    return ax.quiver(
        *places.T, np.sin(angles), np.cos(angles), angles="uv", pivot="mid", units="width",
        scale=72.0 / length, scale_units="inches", headwidth=4.5, headlength=4.5, headaxislength=4.0, **options,
    )  # fmt: skip


def _legend(ax: Axes) -> None:
    from matplotlib.lines import Line2D

    def line(label: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, **style)

    marks = [
        line("station learnt from", color=_LEARNT, marker=r"$\rightarrow$", markersize=13, linestyle="none"),
        line("station held out", color=_INK, marker="o", markersize=3.5, linestyle="none"),
        line("holds 50 % of the predicted mass", color=_ARC, linewidth=0.19 * _RADIUS),
        line("holds 90 %", color=_ARC, linewidth=0.07 * _RADIUS),
        line("seen, within the 90 %", color=_INSIDE, linewidth=0.09 * _RADIUS),
        line("seen, outside", color=_OUTSIDE, linewidth=0.09 * _RADIUS),
    ]
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.045), ncols=2, fontsize=10.5, frameon=False)


def _draw_field(figure: Figure, ax: Axes, result: Regression) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    fine, coarse = _lattice(_SHADES), _lattice(_ARROWS)
    shape = (np.unique(fine[:, 1]).size, -1)
    east, north, apart = (part.reshape(shape) for part in (*fine.T, _from_stations(fine)))
    length = result.model.predict_dist(fine).resultant_length()
    spread = np.rad2deg(np.sqrt(-2.0 * np.log(length))).reshape(shape)
    # Pale, so that arrows and names stand out.
    shades = LinearSegmentedColormap.from_list("pale", ["#FFFFFF", "#F6C795", "#E08A2E"])
    limits = np.percentile(spread[apart < _NEAR], [0, 100])
    drawn = ax.pcolormesh(
        east, north, spread, cmap=shades, shading="gouraud", vmin=limits[0], vmax=limits[1], rasterized=True, zorder=0
    )
    ax.contourf(east, north, apart, levels=[_NEAR, 99.0], colors=["white"], zorder=0.2)
    ax.contour(east, north, apart, levels=[_NEAR], colors=["#9AA5AD"], linewidths=0.8, zorder=0.3)
    coarse = coarse[_from_stations(coarse) < _NEAR]
    _arrows(ax, coarse, result.model.predict(coarse), color=_INSIDE, width=0.0032, length=18.0)
    _draw_cities(ax)
    ax.set_title("everywhere: the mean direction that is predicted", fontsize=12)
    bar = figure.colorbar(drawn, cax=ax.inset_axes((0.15, -0.085, 0.7, 0.018)), orientation="horizontal")
    bar.set_label("circular standard deviation of the prediction, degrees", fontsize=10.5)


def _lattice(step: float) -> FloatArray:
    """Rows (longitude, latitude) of a grid that is square on the map, northwards row by row."""
    wind = datasets.load_wind_germany()
    wide = step / np.cos(np.deg2rad(_LATITUDE))
    east = np.arange(wind.longitude.min() - 2.0 * _NEAR, wind.longitude.max() + 2.0 * _NEAR + wide, wide)
    north = np.arange(wind.latitude.min() - 1.2 * _NEAR, wind.latitude.max() + 1.2 * _NEAR + step, step)
    return np.stack(np.meshgrid(east, north), axis=-1).reshape(-1, 2)


def _from_stations(places: FloatArray) -> FloatArray:
    """Distance to the nearest station, degrees of latitude."""
    from scipy.spatial import cKDTree

    scale = np.array([np.cos(np.deg2rad(_LATITUDE)), 1.0])
    distance, _ = cKDTree(datasets.load_wind_germany().positions * scale).query(places * scale)
    return np.asarray(distance)


def _draw_cities(ax: Axes) -> None:
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    for name, (east, north) in _CITIES.items():
        ax.plot(east, north, "o", color="white", markeredgecolor=_INK, markersize=5.5, zorder=4)
        ax.annotate(name, (east, north), (5, 4), textcoords="offset points", fontsize=10, zorder=5, path_effects=halo)


def _dress(ax: Axes) -> None:
    ax.set_aspect(1.0 / np.cos(np.deg2rad(_LATITUDE)))
    ax.set_xlim(5.0, 15.9)
    ax.set_ylim(46.75, 55.7)
    ax.set_xticks(range(6, 16, 2), [f"{degree}° E" for degree in range(6, 16, 2)])
    ax.set_yticks(range(48, 56, 2), [f"{degree}° N" for degree in range(48, 56, 2)])
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)
