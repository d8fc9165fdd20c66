"""The demo's figure of the time of day: rose histograms with the fitted densities, weekdays beside weekends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import datasets, plots
from mgvm.experiments.time_of_day import GROUPS, Fit, best

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

# Okabe and Ito's colours, and a line style each, so that no two curves differ by hue alone.
_STYLES: dict[str, dict[str, Any]] = {
    "von Mises": {"color": "#E69F00", "linestyle": (0, (6, 2)), "linewidth": 1.6},
    "wrapped normal": {"color": "#009E73", "linestyle": (0, (1, 1.2)), "linewidth": 2.0},
    "projected normal": {"color": "#CC79A7", "linestyle": (0, (5, 1.5, 1, 1.5)), "linewidth": 1.6},
    "GvM, order 2": {"color": "#56B4E9", "linestyle": "-", "linewidth": 1.6},
}
_BEST_STYLE: dict[str, Any] = {"color": "#0B3C5D", "linestyle": "-", "linewidth": 2.2}
_BARS = "#D5D8DC"
_DATA_LABEL = "flights by quarter hour, area true"
_QUARTER_HOURS = 96
_GRID_SHARES = (0.02, 0.04, 0.06, 0.08)
_EDGE_SHARE = 0.096
# Three in the morning: hardly a flight, so there is room for the labels of the circles.
_EMPTY_DIRECTION = 45.0


def draw(fits: list[Fit]) -> Figure:
    """The figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.4), dpi=150)
    panels = figure.subplots(1, 2, subplot_kw={"projection": "polar"})
    figure.subplots_adjust(left=0.05, right=0.95, top=0.79, bottom=0.15, wspace=0.22)
    flights = datasets.load_flights()
    legend: dict[str, Any] = {}
    for ax, group, rows in zip(panels, GROUPS, (~flights.weekend, flights.weekend), strict=True):
        angles, counts = flights.by_minute(rows)
        plots.rose(angles, ax, weights=counts, bins=_QUARTER_HOURS, edgecolor=_BARS, color=_BARS, label=_DATA_LABEL)
        winner = best(fits, group)
        _draw_distributions(ax, [fit for fit in fits if fit.group == group], winner)
        _dress(ax, f"{group.capitalize()}: {counts.sum():,} flights\nbest by BIC: {winner.name}")
        legend |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    legend = {_DATA_LABEL: legend.pop(_DATA_LABEL), **legend}
    figure.suptitle("When flights left New York, April 2013", fontsize=15, fontweight="bold", y=0.97)
    figure.legend(
        legend.values(), legend.keys(), loc="lower center", ncols=3, frameon=False, fontsize=10, handlelength=3.2
    )
    return figure


def _draw_distributions(ax: PolarAxes, fits: list[Fit], winner: Fit) -> None:
    """Four plain distributions and the winner; the GvM orders between them would only hide each other."""
    for fit in fits:
        if fit.name in _STYLES and fit is not winner:
            plots.circular_density(fit.distribution, ax, label=fit.name, **_STYLES[fit.name])
    plots.circular_density(winner.distribution, ax, label="best by BIC", **_BEST_STYLE)


def _dress(ax: PolarAxes, title: str) -> None:
    """Dial, title, and circles at round shares of the flights in an hour, the same in every panel."""
    plots.dial(ax)
    ax.set_title(title, fontsize=12, pad=14)
    # A share p of the flights in one hour is the density p / (2 pi / 24) per radian.
    circles = plots.radius(np.array([*_GRID_SHARES, _EDGE_SHARE]) * 24 / (2 * np.pi))
    labels = [f"{share:.0%}" + " an hour" * (share == _GRID_SHARES[-1]) for share in _GRID_SHARES]
    ax.set_rmax(circles[-1])
    ax.set_yticks(circles[:-1], labels, fontsize=8, color="#444444")
    ax.set_rlabel_position(_EMPTY_DIRECTION)
    for label in ax.get_yticklabels():
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8})
    ax.tick_params(axis="x", labelsize=10)
    ax.grid(color="#B8BCC0", linewidth=0.5)
    ax.spines["polar"].set_visible(False)
