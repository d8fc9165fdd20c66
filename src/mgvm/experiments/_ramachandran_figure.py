"""The demo's torus figure: a Ramachandran density, and what it says of the side chain at two places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import plots
from mgvm._validation import FloatArray
from mgvm.experiments import ramachandran
from mgvm.experiments.ramachandran import Ramachandran

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

_MASSES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
_MARKERS = {"α helix": "o", "β sheet": "s"}
_HALO: dict[str, Any] = {
    "fontweight": "bold",
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
}
_CURVE = "#0B3C5D"
_POINTS = "#B03A2E"


class _Backbone:
    """The mixture's distribution of phi and psi alone, by leaving chi1 missing."""

    def __init__(self, mixture: Any) -> None:
        self._mixture = mixture

    def score_samples(self, x: FloatArray) -> FloatArray:
        """Log density of the first two angles."""
        return np.asarray(self._mixture.score_samples(np.column_stack([x, np.full(len(x), np.nan)])))


def draw(result: Ramachandran) -> Figure:
    """The figure: the square of phi and psi, then a dial of chi1 for each place."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 5.9), dpi=130)
    square = figure.add_axes((0.065, 0.115, 0.44, 0.74))
    _draw_square(square, result)
    for left, place in zip((0.53, 0.775), ramachandran.PLACES, strict=True):
        ax = figure.add_axes((left, 0.22, 0.2, 0.5), projection="polar")
        _draw_dial(ax, result, place)  # type: ignore[arg-type]
    title = "Residues of proteins: the backbone, and the side chain given the backbone"
    figure.suptitle(title, fontsize=15, fontweight="bold")
    note = "grey: χ₁ of the residues within 15° of the place, area true\ncurve: its density there, by the mixture"
    figure.text(0.763, 0.09, note, ha="center", va="center", fontsize=10)
    return figure


def _draw_square(ax: Axes, result: Ramachandran) -> None:
    test = result.split.test
    plots.torus_density(_Backbone(result.mixture), ax, masses=_MASSES)
    plots.torus_scatter(test[:, :2], ax, s=2.4, color=_POINTS, alpha=0.7)
    for place, centre in ramachandran.PLACES.items():
        ax.plot(*centre, marker=_MARKERS[place], ms=9, mfc="white", mec="black", mew=1.4)
        ax.annotate(place, centre, (9, 7), textcoords="offset points", fontsize=11, **_HALO)
    ax.set_xlabel("φ", fontsize=12, labelpad=1)
    ax.set_ylabel("ψ", fontsize=12, labelpad=-6)
    held = ", ".join(f"{mass:.1%}".replace(".0%", "%") for mass in _MASSES)
    count = len(result.split.test_structures)
    title = f"highest-density regions of {held}\ndots: {len(test):,} residues of {count} held-out proteins"
    ax.set_title(title, fontsize=10)


def _draw_dial(ax: PolarAxes, result: Ramachandran, place: str) -> None:
    chi = ramachandran.near(place, result.split.angles)[:, 2]
    plots.rose(chi, ax, bins=60)
    plots.circular_density(ramachandran.chi_distribution(result.mixture, place), ax, color=_CURVE)
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    ticks = (0, 60, 120, 180, 240, 300)
    ax.set_xticks(np.deg2rad(ticks), ("0°", "60°", "120°", "180°", "−120°", "−60°"), fontsize=9)
    ax.set_yticks([])
    ax.set_title(f"χ₁ in the {place}\n({chi.size:,} residues)", fontsize=11, pad=12)
    ax.spines["polar"].set_visible(False)
