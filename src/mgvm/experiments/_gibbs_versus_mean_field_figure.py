"""Error against time and against draws, for Gibbs sampling, mean field and expectation propagation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgvm.experiments import gibbs_versus_mean_field as race_of
from mgvm.experiments.gibbs_versus_mean_field import HISTOGRAM, MEAN_FIELD, PROPAGATION, RAO_BLACKWELL, Race

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, and a marker and line style each, so that no two curves differ by hue alone.
_STYLES: dict[str, dict[str, Any]] = {
    MEAN_FIELD: {"color": "#D55E00", "marker": "s", "linestyle": "-"},
    PROPAGATION: {"color": "#CC79A7", "marker": "^", "linestyle": (0, (5, 1.5))},
    HISTOGRAM: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    RAO_BLACKWELL: {"color": "#009E73", "marker": "D", "linestyle": (0, (1, 1.2))},
}
_PAPER: dict[str, Any] = {"color": "black", "linestyle": "none", "markersize": 13, "zorder": 5}


def draw(race: Race, coupling: float = race_of.DRAWN, dpi: float = 125) -> Figure:
    """The figure for one distribution."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 6.0), dpi=dpi)
    by_time, by_draws = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.07, right=0.98, top=0.91, bottom=0.23, wspace=0.05)
    _draw_times(by_time, race, coupling)
    _draw_draws(by_draws, race, coupling)
    for ax in (by_time, by_draws):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.grid(color="#D5D8DC", linewidth=0.6)
        ax.tick_params(labelsize=10)
    by_time.set_ylabel("KL(truth ‖ approximation) on 32 × 32 cells, nats", fontsize=11)
    figure.suptitle(f"Two angles, coupling {coupling:g}: error against time, and against draws", fontsize=14, y=0.975)
    handles = {label: line for line, label in zip(*by_time.get_legend_handles_labels(), strict=True)}
    handles |= {label: line for line, label in zip(*by_draws.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=10,
        bbox_to_anchor=(0.5, 0.04),
    )
    note = "Bands: quartiles. * The paper does not print its error: its points stand at that of mean field here."
    figure.text(0.5, 0.012, note, ha="center", fontsize=9, color="#444444")
    return figure


def _draw_times(ax: Axes, race: Race, coupling: float) -> None:
    for method, style in _STYLES.items():
        curve = race.curve(coupling, method)
        seconds = [point.seconds for point in curve]
        ax.plot(seconds, [point.kl for point in curve], markersize=4.5, linewidth=1.6, label=method, **style)
        ax.fill_between(
            seconds,
            [point.kl_low for point in curve],
            [point.kl_high for point in curve],
            color=style["color"],
            alpha=0.2,
            linewidth=0,
        )
    level = race.curve(coupling, MEAN_FIELD)[-1].kl
    ax.plot([race_of.PAPER_MEAN_FIELD_SECONDS], [level], marker="P", label="paper: mean field after 0.02 s*", **_PAPER)
    ax.plot(
        [race_of.PAPER_GIBBS_SECONDS], [level], marker="*", label="paper: Gibbs after 3.1 s, 3,466 draws*", **_PAPER
    )
    ax.set_xlabel("seconds, compilation excluded", fontsize=11)


def _draw_draws(ax: Axes, race: Race, coupling: float) -> None:
    for method in (HISTOGRAM, RAO_BLACKWELL):
        curve, style = race.curve(coupling, method), _STYLES[method]
        draws = [point.effort for point in curve]
        ax.plot(draws, [point.kl for point in curve], markersize=4.5, linewidth=1.6, **style)
        low, high = [point.kl_low for point in curve], [point.kl_high for point in curve]
        ax.fill_between(draws, low, high, color=style["color"], alpha=0.2, linewidth=0)
    for method in (MEAN_FIELD, PROPAGATION):
        style = _STYLES[method] | {"marker": ""}
        ax.axhline(race.curve(coupling, method)[-1].kl, linewidth=1.6, **style)
    level = race.curve(coupling, MEAN_FIELD)[-1].kl
    ax.plot([race_of.PAPER_DRAWS], [level], marker="*", **_PAPER)
    ax.set_xlabel("Gibbs draws, after 100 of burn-in", fontsize=11)
