"""The tides as roses beside a map of the ports, with the predicted densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments.regressions import Regression

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#1A1A1A"
_BLUE, _GREEN, _BARS = "#0072B2", "#009E73", "#F0A46B"
_BOX = (-18.2, 13.4, 47.55, 60.95)  # degrees: west, east, south, north; ports from 8.5 W to 3.5 E
_COLUMNS = (-15.3, 10.5)  # longitudes of the dials, west and east of the ports
_DIALS = (49.1, 59.7)  # latitudes of the lowest and the highest
_ROWS = 5
_LATITUDE = 54.0  # whose parallel gives the scale of the longitudes
_DIAMETER = 80.0  # of a dial, points
_REACH = 1.5  # the radius at its rim


def draw(result: Regression, dpi: float = 120) -> Figure:
    """Roses of the high waters at held-out ports with the predicted densities, and where the ports are."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 9.5), dpi=dpi)
    ax = figure.add_axes((0.055, 0.065, 0.935, 0.845))
    _draw_map(ax, result)
    _draw_dials(ax, result)
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="upper center",
        fontsize=11,
        frameon=False,
        ncols=4,
        bbox_to_anchor=(0.52, 0.957),
    )
    title = "Tides around the British Isles: high waters at held-out ports, and what was predicted"
    figure.suptitle(title, fontsize=14, fontweight="bold", y=0.985)
    return figure


def places_of_dials(ports: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Held-out ports to be shown, and where their dials stand: western and eastern ones, from south to north."""
    middle = np.median(ports[:, 0])
    chosen, dials = [], []
    for side, longitude in zip((ports[:, 0] < middle, ports[:, 0] >= middle), _COLUMNS, strict=True):
        northwards = ports[side][np.argsort(ports[side, 1], kind="stable")]
        chosen.append(northwards[np.linspace(0, len(northwards) - 1, _ROWS).round().astype(int)])
        dials.append(np.column_stack([np.full(_ROWS, longitude), np.linspace(*_DIALS, _ROWS)]))
    return np.concatenate(chosen), np.concatenate(dials)


def _draw_map(ax: Axes, result: Regression) -> None:
    for rows, marker, colour, label in (
        (result.split.X, "o", _GREEN, "training port"),
        (result.split.X_test, "D", _INK, "held-out port (a dial for some)"),
    ):
        places = np.unique(rows, axis=0)
        ax.plot(*places.T, marker, color=colour, markersize=6.5, label=label, zorder=3, markeredgecolor="white")
    # Stand-ins for what the dials show.
    ax.fill_between([], [], color=_BARS, label="its 13 high waters (24 hours UTC, area true)")
    ax.plot([], [], color=_BLUE, linewidth=2.0, label="predicted density")
    ax.set_aspect(1.0 / np.cos(np.deg2rad(_LATITUDE)))
    ax.set_xlim(*_BOX[:2])
    ax.set_ylim(*_BOX[2:])
    ax.set_xticks(range(-8, 5, 4), ["8° W", "4° W", "0°", "4° E"])
    ax.set_yticks(range(48, 61, 4), [f"{degree}° N" for degree in range(48, 61, 4)])
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_dials(ax: Axes, result: Regression) -> None:
    """Dials of 24 hours with lines to their ports."""
    X, y = result.split.X_test, result.split.y_test
    ports, dials = places_of_dials(np.unique(X, axis=0))
    plots.roses_on_map(
        [y[(port == X).all(axis=1)] for port in ports],
        ports[:, 0],
        ports[:, 1],
        ax,
        dist=result.model.predict_dist(ports),
        at=dials,
        size=_DIAMETER,
        bins=48,
        reach=_REACH,
        dress=_dress_dial,
        line_options={"color": _BLUE, "linewidth": 1.8},
        color=_BARS,
        edgecolor=_BARS,
        linewidth=0.3,
    )
    names = datasets.load_tides()
    for port, (east, north) in zip(ports, dials, strict=True):
        name = str(names.port[(names.positions == port).all(axis=1)][0]).title()
        ax.annotate(name, (east, north), (0, -0.5 * _DIAMETER - 11), textcoords="offset points", fontsize=9,
                    ha="center", va="top", zorder=6)  # fmt: skip


def _dress_dial(dial: Any) -> None:
    plots.dial(dial, hours=6)
    back = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    dial.set_xticklabels(["0 h", "6", "12", "18"], fontsize=8, bbox=back)
    dial.tick_params(axis="x", pad=-4)
