"""The tides as roses where the ports are, with the predicted densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#1A1A1A"
_BLUE, _GREEN, _BARS = "#0072B2", "#009E73", "#F0A46B"
_WEST, _EAST, _UPPER, _LOWER = -5.9, 1.7, 51.72, 49.28  # where the dials stand, degrees
_LATITUDE = 50.5  # whose parallel gives the scale of the longitudes
_DIAMETER = 88.0  # of a dial, points
_REACH = 1.45  # the radius at its rim


def draw(model: Any, dpi: float = 120) -> Figure:
    """Roses of the observed tides at held-out ports, with the predicted densities, where the ports are."""
    from matplotlib.figure import Figure

    tides = datasets.load_tides()
    ports = _every_other_port(tides)
    law = model.predict_dist(np.array([tides.positions[tides.port == port][0] for port in ports]))
    figure = Figure(figsize=(13.0, 7.9), dpi=dpi)
    ax = figure.add_axes((0.055, 0.06, 0.935, 0.85))
    _draw_coast(ax, tides)
    _draw_ports(ax, tides, ports, law)
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


def _every_other_port(tides: datasets.Tides) -> list[int]:
    """Every other held-out port, from west to east."""
    ports = np.unique(tides.port[tides.split == "valid"])
    longitudes = [float(tides.longitude[tides.port == port][0]) for port in ports]
    chosen: list[int] = ports[np.argsort(longitudes, kind="stable")][::2].tolist()
    return chosen


def _draw_coast(ax: Axes, tides: datasets.Tides) -> None:
    for split, marker, label in (
        ("train", "o", "port learnt from"),
        ("valid", "D", "port held out (a dial for every other)"),
    ):
        places = np.unique(tides.positions[tides.split == split], axis=0)
        colour = _GREEN if split == "train" else _INK
        ax.plot(*places.T, marker, color=colour, markersize=6.5, label=label, zorder=3, markeredgecolor="white")
    # Stand-ins for what the dials show.
    ax.fill_between([], [], color=_BARS, label="its 13 tides, 24 hours, area true")
    ax.plot([], [], color=_BLUE, linewidth=2.0, label="predicted density")
    ax.set_aspect(1.0 / np.cos(np.deg2rad(_LATITUDE)))
    ax.set_xlim(_WEST - 0.68, _EAST + 0.68)
    ax.set_ylim(48.82, 52.15)
    ax.set_xlabel("longitude, degrees east", fontsize=11)
    ax.set_ylabel("latitude, degrees north", fontsize=11)
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)


def _draw_ports(ax: Axes, tides: datasets.Tides, ports: list[int], law: Any) -> None:
    """Dials of 24 hours in an upper and a lower row, with lines to their ports."""
    east = np.linspace(_WEST, _EAST, len(ports))
    north = np.where(np.arange(len(ports)) % 2 == 0, _UPPER, _LOWER)
    longitude, latitude = np.array([tides.positions[tides.port == port][0] for port in ports]).T
    plots.roses_on_map(
        [tides.angles[tides.port == port] for port in ports],
        longitude,
        latitude,
        ax,
        law=law,
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
