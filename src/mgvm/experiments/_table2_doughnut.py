"""The fuzzy doughnut of the paper's supplement: rows near a torus, and the torus learnt from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import plots
from mgvm._validation import FloatArray
from mgvm.pca import CircularPCA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS = 2000
_NOISE = 0.1  # standard deviation; the paper has the variance 0.01
_SLICE = 0.15
_POINTS, _LEARNT, _TRUE = "#5B8DB8", "#D1495B", "#1A1A1A"
# x has the first angle alone, z the second alone, y both.
_MASK = np.array([[True, False], [True, True], [False, True]])


def sample(count: int = _ROWS, seed: int = 0) -> FloatArray:
    """Rows (2 cos φ₁, 2 sin φ₁ + 2 cos φ₂, 2 sin φ₂) + ε with φ₁ ~ vM(π/2, 50), φ₂ ~ vM(0, 0.1)."""
    rng = np.random.default_rng(seed)
    angles = np.stack([rng.vonmises(0.5 * np.pi, 50.0, count), rng.vonmises(0.0, 0.1, count)], axis=1)
    return surface(angles) + _NOISE * rng.normal(size=(count, 3))


def surface(angles: FloatArray) -> FloatArray:
    """The torus at angles (n, 2)."""
    one, two = angles.T
    return 2.0 * np.stack([np.cos(one), np.sin(one) + np.cos(two), np.sin(two)], axis=1)


def fitted(rows: FloatArray) -> CircularPCA:
    """The torus learnt from rows, about the origin; which coordinate has which angle is told."""
    return CircularPCA(2, structure=_MASK, fit_offset=False, n_init=2, random_state=0).fit(rows)


def draw(result: object = None, dpi: float = 110) -> Figure:
    """Rows with the learnt torus, and the slices z = 0 and x = 0."""
    from matplotlib.figure import Figure

    rows = sample()
    model = fitted(rows)
    figure = Figure(figsize=(13.0, 6.6), dpi=dpi)
    solid: Any = figure.add_axes((0.02, 0.06, 0.48, 0.86), projection="3d")
    _draw_solid(solid, rows, model)
    upper, lower = figure.add_axes((0.55, 0.545, 0.43, 0.345)), figure.add_axes((0.55, 0.125, 0.43, 0.345))
    _draw_slice(upper, rows, model, across=2)
    _draw_slice(lower, rows, model, across=0)
    upper.tick_params(labelbottom=False)
    lower.set_xlabel("y", fontsize=11)
    figure.legend(*lower.get_legend_handles_labels(), loc="lower right", fontsize=10.5, frameon=False, ncols=3)
    figure.suptitle(
        f"Fuzzy doughnut: {_ROWS:,} rows, and the torus that circular PCA learns from them", fontsize=13, y=0.975
    )
    return figure


def _draw_solid(ax: Any, rows: FloatArray, model: CircularPCA) -> None:
    net = {"color": _LEARNT, "linewidth": 0.45, "alpha": 0.55}
    looks: dict[str, Any] = {"s": 2.0, "color": _POINTS, "alpha": 0.5}
    plots.doughnut(ax=ax, surface=model.inverse_transform, rows=rows[::2], wire_options=net, **looks)
    ax.set_box_aspect((1.0, 2.0, 1.0), zoom=1.0)
    ax.view_init(elev=24, azim=-38)
    ax.set_xlabel("x", fontsize=11)
    ax.set_ylabel("y", fontsize=11, labelpad=12)
    ax.set_zlabel("z", fontsize=11)
    ax.set_xticks([-2, 0, 2])
    ax.set_yticks([-4, -2, 0, 2, 4])
    ax.set_zticks([-2, 0, 2])
    ax.tick_params(labelsize=9)


def _draw_slice(ax: Axes, rows: FloatArray, model: CircularPCA, across: int) -> None:
    """Rows near the plane on which coordinate `across` is zero, and where the true and the learnt torus cut it."""
    kept = [1, 2 - across]
    near = rows[np.abs(rows[:, across]) < _SLICE]
    ax.scatter(near[:, 1], near[:, kept[1]], s=7.0, color=_POINTS, alpha=0.6, linewidths=0, label="rows near the slice")
    # One angle stands where the coordinate of the slice vanishes, the other turns.
    true = (0.0, np.pi) if across == 2 else (0.5 * np.pi, -0.5 * np.pi)
    styles: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
        (surface, true, {"color": _TRUE, "linewidth": 1.0, "linestyle": (0, (5, 3)), "label": "torus they come from"}),
        (model.inverse_transform, _zeros(model, across), {"color": _LEARNT, "linewidth": 1.5, "label": "torus learnt"}),
    )
    turn = np.linspace(-np.pi, np.pi, 400)
    for torus, stands, style in reversed(styles):
        for still in stands:
            angles = np.full((turn.size, 2), still)
            angles[:, 0 if across == 2 else 1] = turn
            ax.plot(*torus(angles)[:, kept].T, **style)
            style.pop("label", None)
    ax.set_aspect("equal")
    ax.set_xlim(-4.6, 4.6)
    ax.set_ylim(-2.5, 2.5)
    ax.set_ylabel("xyz"[kept[1]], fontsize=11)
    ax.set_title(f"slice {'xyz'[across]} = 0 (rows within {_SLICE:g})", fontsize=11.5)


def _zeros(model: CircularPCA, across: int) -> tuple[float, float]:
    """The two angles at which a coordinate of one angle alone is zero."""
    angle = 0 if across == 0 else 1
    first = float(np.arctan2(-model.A_[across, angle], model.B_[across, angle]))
    return first, first + np.pi
