"""Maps of Table 1: tides on the south coast of England as roses, and the wind over Germany as arcs, both held out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm._validation import FloatArray
from mgvm.experiments._table1_tasks import Split

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#1A1A1A"
_BLUE, _GREEN, _BARS = "#0072B2", "#009E73", "#F0A46B"
_LEARNT, _OUTSIDE, _ARC = "#A3ADB5", "#D55E00", "#3D4852"
_WEST, _EAST, _UPPER, _LOWER = -5.9, 1.7, 51.72, 49.28  # where the dials of the tides stand, degrees
_DIAMETER = 88.0  # of a dial, points
_REACH = 1.45  # the radius at its rim
_CHANNEL, _GERMANY = 50.5, 51.2  # latitudes whose parallels give the scale of the longitudes
_RADIUS = 17.0  # of the circles of the wind, points


def draw_tides(model: Any, dpi: float = 120) -> Figure:
    """Roses of the observed tides at held-out ports, with the predicted densities, where the ports are."""
    from matplotlib.figure import Figure

    tides = datasets.fetch_tides_channel()
    ports = _every_other_port(tides)
    predicted = model.predict_dist(np.array([tides.positions[tides.port == port][0] for port in ports]))
    figure = Figure(figsize=(13.0, 7.9), dpi=dpi)
    ax = figure.add_axes((0.055, 0.06, 0.935, 0.85))
    _draw_coast(ax, tides)
    _draw_ports(ax, tides, ports, predicted)
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="upper center",
        fontsize=11,
        frameon=False,
        ncols=4,
        bbox_to_anchor=(0.52, 0.955),
    )
    title = "Tides on the south coast of England: when they come at ports that were held out, and what was predicted"
    figure.suptitle(title, fontsize=14, fontweight="bold", y=0.985)
    return figure


def _every_other_port(tides: datasets.ChannelTides) -> list[int]:
    """Every other held-out port, from west to east."""
    ports = np.unique(tides.port[tides.split == "valid"])
    longitudes = [float(tides.longitude[tides.port == port][0]) for port in ports]
    chosen: list[int] = ports[np.argsort(longitudes, kind="stable")][::2].tolist()
    return chosen


def _draw_coast(ax: Axes, tides: datasets.ChannelTides) -> None:
    for split, marker, label in (
        ("train", "o", "training port"),
        ("valid", "D", "port held out (a dial for every other)"),
    ):
        places = np.unique(tides.positions[tides.split == split], axis=0)
        colour = _GREEN if split == "train" else _INK
        ax.plot(*places.T, marker, color=colour, markersize=6.5, label=label, zorder=3, markeredgecolor="white")
    # Stand-ins for what the dials show.
    ax.fill_between([], [], color=_BARS, label="its 13 tides, 24 hours, area true")
    ax.plot([], [], color=_BLUE, linewidth=2.0, label="predicted density")
    _dress(ax, _CHANNEL, (_WEST - 0.68, _EAST + 0.68), (48.82, 52.15))


def _draw_ports(ax: Axes, tides: datasets.ChannelTides, ports: list[int], predicted: Any) -> None:
    """Dials of 24 hours in an upper and a lower row, with lines to their ports."""
    east = np.linspace(_WEST, _EAST, len(ports))
    north = np.where(np.arange(len(ports)) % 2 == 0, _UPPER, _LOWER)
    longitude, latitude = np.array([tides.positions[tides.port == port][0] for port in ports]).T
    plots.roses_on_map(
        [tides.angles[tides.port == port] for port in ports],
        longitude,
        latitude,
        ax,
        dist=predicted,
        at=np.stack([east, north], axis=1),
        size=_DIAMETER,
        bins=48,
        reach=_REACH,
        dress=_dress_dial,
        line_options={"color": _BLUE, "linewidth": 1.8},
        color=_BARS,
        edgecolor=_BARS,
        linewidth=0.3,
    )


def _dress_dial(dial: Any) -> None:
    plots.dial(dial, hours=6)
    back = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    dial.set_xticklabels(["0 h", "6", "12", "18"], fontsize=8, bbox=back)
    dial.tick_params(axis="x", pad=-4)


def draw_wind(model: Any, split: Split, dpi: float = 110) -> Figure:
    """Highest-density arcs that are predicted at held-out stations, what was observed there, and the other stations."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 10.0), dpi=dpi)
    ax = figure.add_axes((0.09, 0.17, 0.88, 0.76))
    _draw_arrows(ax, split.X, split.y)
    east, north = split.X_test.T
    predicted = model.predict_dist(split.X_test)
    plots.arcs(predicted, east, north, ax, observed=split.y_test, compass=True, radius=_RADIUS, color=_ARC, zorder=2.5)
    ax.plot(east, north, "o", color=_INK, markersize=2.6, zorder=4)
    _dress(ax, _GERMANY, (5.0, 15.9), (46.9, 55.4))
    _legend_wind(ax)
    figure.suptitle(
        f"Wind over Germany: predicted from {len(split.y)} stations, checked at {len(split.y_test)}",
        fontsize=13,
        y=0.965,
    )
    note = (
        "Arrows and needles point where the wind goes, if its angles are as weather services report them (steps of 10°)"
    )
    figure.text(0.5, 0.02, note, ha="center", fontsize=9, color="#4D4D4D")
    return figure


def _draw_arrows(ax: Axes, places: FloatArray, angles: FloatArray) -> None:
    """Arrows of 12 points, centred at their places; angles turn clockwise from north."""
    ax.quiver(
        *places.T, np.sin(angles), np.cos(angles), angles="uv", pivot="mid", units="width", scale=6.0,
        scale_units="inches", width=0.0021, headwidth=4.5, headlength=4.5, headaxislength=4.0, color=_LEARNT,
    )  # fmt: skip


def _legend_wind(ax: Axes) -> None:
    from matplotlib.lines import Line2D

    def line(label: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, **style)

    marks = [
        line("training station", color=_LEARNT, marker=r"$\rightarrow$", markersize=13, linestyle="none"),
        line("station held out", color=_INK, marker="o", markersize=3.5, linestyle="none"),
        line("50 % highest-density region", color=_ARC, linewidth=0.19 * _RADIUS),
        line("90 % highest-density region", color=_ARC, linewidth=0.07 * _RADIUS),
        line("observed, within the 90 %", color=_BLUE, linewidth=0.09 * _RADIUS),
        line("observed, outside", color=_OUTSIDE, linewidth=0.09 * _RADIUS),
    ]
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=2, fontsize=10.5, frameon=False)


def _dress(ax: Axes, latitude: float, east: tuple[float, float], north: tuple[float, float]) -> None:
    ax.set_aspect(1.0 / np.cos(np.deg2rad(latitude)))
    ax.set_xlim(*east)
    ax.set_ylim(*north)
    ax.set_xlabel("longitude, degrees east", fontsize=11)
    ax.set_ylabel("latitude, degrees north", fontsize=11)
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)
