"""Densities of angles on the torus: a square whose opposite edges are the same line, and all pairs of several angles.

Draws become a density on a periodic grid by counts that a wrapped normal kernel smooths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._frames import column_names
from mgvm._validation import FloatArray, Seed
from mgvm.circle.highest_density import grid_levels
from mgvm.plots._axes import (
    BLUE,
    PALE,
    SEEN,
    SHADES,
    Scale,
    falling_shares,
    flat_axes,
    new_figure,
    scale_of,
    warn_of_narrow,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure, SubFigure

_EDGES = "#0B3C5D"
MASSES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def torus_density(
    dist: Any,
    ax: Axes | None = None,
    *,
    masses: Sequence[float] = MASSES,
    unit: str = "degrees",
    points: int = 240,
    **contour_options: Any,
) -> QuadContourSet:
    """Regions of highest density of a distribution of two angles: the smallest ones that hold given shares of its mass.

    Parameters
    ----------
    dist : distribution on the torus of two angles
        Anything with ``logpdf`` (`MGvM`, `MultivariateWrappedNormal`) or ``score_samples`` (`TorusMixture`).
    ax : axes, optional
        Where to draw; new axes by default. The first angle runs to the right, the second upwards.
    masses : sequence of float
        Shares of the mass, each between 0 and 1.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}
        Of the axes. The bearings of "compass" are those of ``mgvm.angles.to_compass``.
    points : int, default 240
        Grid points along each angle.
    **contour_options
        Handed to ``Axes.contourf``: cmap, alpha and so on.

    Returns
    -------
    matplotlib.contour.QuadContourSet
        The filled regions.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.plots import torus_density
    >>> regions = torus_density(MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]]), masses=[0.5, 0.9])
    >>> len(regions.levels)  # the two densities that bound the regions, and the highest of all
    3
    """
    shares = falling_shares(masses)
    scale = scale_of(unit)
    axis = grid_axis(scale, check.integer(points, "points", minimum=8))
    density = on_grid(dist, scale.angle(axis[:-1]))
    return regions(flat_axes(ax), density, shares, scale, contour_options)


def grid_axis(scale: Scale, points: int) -> FloatArray:
    """Coordinates of a turn, the first and the last the same angle."""
    return scale.middle + scale.turn * np.linspace(-0.5, 0.5, points + 1)


def regions(
    ax: Axes, density: FloatArray, shares: FloatArray, scale: Scale, contour_options: dict[str, Any]
) -> QuadContourSet:
    """Regions that hold `shares` (falling) of a density on the square of `grid_axis` without its last point."""
    from matplotlib.colors import BoundaryNorm

    levels = _thresholds(density, shares)
    axis = grid_axis(scale, len(density))
    # Densities span orders of magnitude: every region gets a shade of its own instead of its density's.
    norm = BoundaryNorm(levels, 256, extend="both")
    closed = np.pad(density, ((0, 1), (0, 1)), mode="wrap")
    drawn = ax.contourf(axis, axis, closed.T, levels=levels, **{"cmap": SHADES, "norm": norm, **contour_options})
    ax.contour(axis, axis, closed.T, levels=levels[:-1], colors=_EDGES, linewidths=0.5)
    dress_square(ax, scale)
    return drawn


def on_grid(dist: Any, angles: FloatArray) -> FloatArray:
    """Density at all pairs, the first angle along the first axis."""
    pairs = np.stack(np.meshgrid(angles, angles, indexing="ij"), axis=-1).reshape(-1, 2)
    evaluate = getattr(dist, "score_samples", None) or getattr(dist, "logpdf", None)
    if evaluate is None:
        raise TypeError(f"distribution must have logpdf or score_samples, {type(dist).__name__} has neither")
    values = np.asarray(evaluate(pairs))
    if values.shape != (len(pairs),):
        raise ValueError(
            "distribution must be a single distribution of two angles, "
            f"its log density of {len(pairs)} points has shape {values.shape}"
        )
    density = np.exp(values).reshape(angles.size, angles.size)
    cure = "give more points where the plot has them, or draw a sample with torus_scatter"
    if not density.any():
        raise ValueError(f"the density is zero on the whole grid: it is too narrow for it; {cure}")
    warn_of_narrow(density, cure, (0, 1))
    return density


def _thresholds(density: FloatArray, shares: FloatArray) -> FloatArray:
    """Densities above which the given shares (falling) of the mass lie, then the highest of all."""
    found = grid_levels(density.ravel(), shares)
    # A flat density has one threshold for all shares; contours want rising levels.
    levels = np.unique(np.append(found, density.max()))
    return levels if levels.size > 1 else np.array([0.5, 1.0]) * levels[0]


def dress_square(ax: Axes, scale: Scale) -> None:
    """One turn along both axes, with a tick every quarter."""
    ticks, names = scale.ticks(1, 1)
    ax.set_xticks(ticks, names)
    ax.set_yticks(ticks, names)
    ax.set_xlim(ticks[0], ticks[-1])
    ax.set_ylim(ticks[0], ticks[-1])
    ax.set_aspect("equal")


def torus_scatter(
    angles: ArrayLike, ax: Axes | None = None, *, unit: str = "degrees", **scatter_options: Any
) -> PathCollection:
    """Points of two angles on the square of `torus_density`.

    Parameters
    ----------
    angles : array_like, shape (N, 2)
        Radians, any real numbers.
    ax : axes, optional
        Where to draw; new axes by default.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}
        Of the axes.
    **scatter_options
        Handed to ``Axes.scatter``: s, color, alpha and so on.

    Returns
    -------
    matplotlib.collections.PathCollection
        The points.

    Examples
    --------
    >>> from mgvm.datasets import load_residues
    >>> from mgvm.plots import torus_scatter
    >>> drawn = torus_scatter(load_residues("LEU").angles[:, :2], s=1)
    >>> len(drawn.get_offsets())
    667
    """
    values = check.angle_data(angles, "angles")
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(f"angles must have shape (N, 2), got {values.shape}; choose two columns, angles[:, [0, 1]]")
    scale = scale_of(unit)
    return _draw_points(flat_axes(ax), values, scale, scatter_options)


def _draw_points(ax: Axes, pairs: FloatArray, scale: Scale, options: dict[str, Any]) -> PathCollection:
    right, up = scale.coordinate(pairs).T
    drawn = ax.scatter(right, up, **{"s": 2.0, "color": SEEN, "linewidths": 0.0, **options})
    dress_square(ax, scale)
    return drawn


def smooth_density(angles: FloatArray, points: int, width: float | None = None) -> FloatArray:
    """Density of rows (n, D) at the grid -π + 2π k / points along each of the D angles; D is 1 or 2.

    The width h of the kernel, whose Fourier coefficients are w_k = exp(-h²|k|²/2), is given or the one of least squared
    error by leave-one-out, ∫ f̂² - (2/n) Σ_i f̂_{-i}(x_i); with the data's coefficients φ_k it is, up to a factor,
    Σ_k |φ_k|² w_k² - 2 (n |φ_k|² - 1) w_k / (n - 1).
    """
    count, dimension = angles.shape
    turns = np.mod(angles / (2.0 * np.pi) + 0.5, 1.0)  # first: cells of huge angles are beyond the integers
    cells = np.floor(turns * points + 0.5).astype(np.int64) % points
    histogram = np.zeros((points,) * dimension)
    np.add.at(histogram, tuple(cells.T), 1.0 / count)
    coefficients = np.fft.fftn(histogram)
    waves = np.fft.fftfreq(points, 1.0 / points)
    square = sum(part**2 for part in np.meshgrid(*[waves] * dimension, indexing="ij"))
    power = np.abs(coefficients) ** 2

    def loss(width: float) -> float:
        kernel = np.exp(-0.5 * width**2 * square)
        return float(np.sum(power * kernel**2 - 2.0 * (count * power - 1.0) * kernel / max(count - 1, 1)))

    # From what the grid resolves, 1.2 of its steps, to a radian.
    widths = np.geomspace(1.2 * 2.0 * np.pi / points, 1.0, 40)
    best = min(widths, key=loss) if width is None else width
    smooth = np.fft.ifftn(coefficients * np.exp(-0.5 * best**2 * square)).real
    return np.clip(smooth, 0.0, None) * (points / (2.0 * np.pi)) ** dimension


_GRID = 120  # nodes along each angle of a panel


def torus_pairs(
    angles: ArrayLike | None = None,
    dist: Any = None,
    *,
    fig: Figure | SubFigure | None = None,
    names: Sequence[str] | None = None,
    unit: str = "degrees",
    masses: Sequence[float] = (0.5, 0.8, 0.95),
    bins: int = 36,
    rng: Seed = 0,
) -> np.ndarray:
    """Margins p(φ_i), densities p(φ_i, φ_j) below the diagonal and points (φ_j, φ_i) above it, for all pairs of angles.

    Every panel is one turn wide, and its opposite edges are the same line. Below the diagonal are the smallest regions
    that hold the given shares of the mass: of the distribution, where there is one, or else of the data, smoothed by a
    wrapped normal kernel whose width is chosen by leave-one-out. Above it are the data, or draws from the distribution.
    On the diagonal are a histogram of the data, or of the draws, and the distribution's margin, or the smoothed one.

    Parameters
    ----------
    angles : array_like, shape (n, D), optional
        Radians, NaN where missing; at least these or a distribution. D >= 2.
    dist : distribution on the torus, optional
        One that knows its margins (`MultivariateWrappedNormal`, all distributions of two angles) is drawn as it is; of
        others (`MGvM`, `TorusMixture`) 20,000 draws are smoothed as data are.
    fig : matplotlib figure or subfigure, optional
        An empty one to draw in; a new one by default.
    names : sequence of str, optional
        Of the angles; by default those of a DataFrame or of the distribution, else φ1, φ2, …
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}
        Of the axes.
    masses : sequence of float
        Shares of the mass, each between 0 and 1.
    bins : int, default 36
        Of the histograms.
    rng : None, int or numpy.random.Generator, default 0
        Of the draws, and of the 2,000 points that are shown of more.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (D, D)
        The panels, row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.plots import torus_pairs
    >>> rng = np.random.default_rng(0)
    >>> first = rng.vonmises(0.0, 2.0, 300)
    >>> panels = torus_pairs(np.column_stack([first, first + 1, -first]), names=["hip", "knee", "ankle"])
    >>> panels.shape, panels[2, 0].get_xlabel(), panels[2, 0].get_ylabel()
    ((3, 3), 'hip', 'ankle')
    """
    shares = falling_shares(masses)
    scale, count = scale_of(unit), check.integer(bins, "bins", minimum=1)
    source = check.generator(rng)
    data = None if angles is None else check.angle_data_or_nan(angles, "angles")
    draws = None if dist is None else _draws(dist, source)
    rows = data if data is not None else draws
    if rows is None:
        raise ValueError("nothing to draw: give angles, a distribution or both")
    size = _checked_size(rows, dist)
    own = column_names(angles) or getattr(dist, "names", None) or getattr(dist, "feature_names_in_", None)
    labels = _names(own if names is None else names, size)
    figure = new_figure((2.1 * size, 2.1 * size)) if fig is None else fig
    if not hasattr(figure, "subplots"):
        raise TypeError(
            f"fig must be a matplotlib figure or subfigure, got {type(fig).__name__}; make it with plt.figure()"
        )
    panels = figure.subplots(size, size, squeeze=False)
    margins = _Margins(dist, draws if draws is not None else rows, scale, size)
    most = 2000  # points of a panel; more are a blot
    shown = rows if len(rows) <= most else rows[source.choice(len(rows), most, replace=False)]
    for i in range(size):
        for j in range(size):
            if i == j:
                _draw_margin(panels[i, i], rows[:, i], margins.one(i), scale, count)
            elif i > j:
                regions(panels[i, j], margins.two(j, i), shares, scale, {})
            else:
                pairs = shown[:, [j, i]]
                pairs = pairs[~np.isnan(pairs).any(axis=1)]
                size_of_dots = float(np.clip(600.0 / max(len(pairs), 1), 1.2, 8.0))
                _draw_points(panels[i, j], pairs, scale, {"s": size_of_dots, "alpha": 0.6})
    _dress(panels, labels)
    return panels


class _Margins:
    """Densities of one and of two angles on the grid of the panels."""

    def __init__(self, dist: Any, rows: FloatArray, scale: Scale, size: int) -> None:
        self.dist, self.rows = dist, rows
        self.angles = scale.angle(grid_axis(scale, _GRID)[:-1])
        # Where the points of the panels lie on the grid of the smoothed densities, which begins at -π.
        self.order = np.round((self.angles + np.pi) * (_GRID / (2.0 * np.pi))).astype(np.int64) % _GRID
        self.whole = on_grid(dist, self.angles) if dist is not None and size == 2 else None

    def one(self, i: int) -> FloatArray:
        if self.whole is not None:
            return np.asarray(self.whole.sum(axis=1 - i) * (2.0 * np.pi / _GRID))
        if hasattr(self.dist, "marginal"):
            return np.asarray(self.dist.marginal(i).pdf(self.angles))
        return smooth_density(self._seen([i]), _GRID)[self.order]

    def two(self, i: int, j: int) -> FloatArray:
        if self.whole is not None:
            return self.whole
        if hasattr(self.dist, "marginal"):
            return on_grid(self.dist.marginal([i, j]), self.angles)
        return smooth_density(self._seen([i, j]), _GRID)[np.ix_(self.order, self.order)]

    def _seen(self, columns: list[int]) -> FloatArray:
        chosen = self.rows[:, columns]
        chosen = chosen[~np.isnan(chosen).any(axis=1)]
        if not len(chosen):
            raise ValueError(f"no row of angles has all of the columns {columns}; leave out what is always missing")
        return chosen


def _draws(dist: Any, source: np.random.Generator) -> FloatArray:
    """Rows from the distribution; a mixture says as well which component each comes from."""
    if not hasattr(dist, "sample"):
        raise TypeError(
            f"distribution must be a distribution on the torus with a method sample, got {type(dist).__name__}"
        )
    found = dist.sample(20_000, source)  # `rng` of a distribution, `random_state` of an estimator
    rows = np.asarray(found[0] if isinstance(found, tuple) else found)
    if rows.ndim != 2:
        raise ValueError(f"distribution must be a single distribution on the torus, its draws have shape {rows.shape}")
    return rows


def _checked_size(rows: FloatArray, dist: Any) -> int:
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise ValueError(f"angles must have shape (n, D) with D >= 2, got {rows.shape}; one angle is drawn by rose")
    size = getattr(dist, "dimension", getattr(dist, "n_features_in_", rows.shape[1]))
    if size != rows.shape[1]:
        raise ValueError(f"angles have {rows.shape[1]} columns and the distribution {size} angles; they must agree")
    return rows.shape[1]


def _names(names: Sequence[str] | None, size: int) -> list[str]:
    labels = [f"φ{k + 1}" for k in range(size)] if names is None else [str(name) for name in names]
    if len(labels) != size:
        raise ValueError(f"names must have one for each of the {size} angles, got {len(labels)}")
    return labels


def _draw_margin(ax: Axes, values: FloatArray, density: FloatArray, scale: Scale, bins: int) -> None:
    low = scale.middle - 0.5 * scale.turn
    places = scale.coordinate(values[~np.isnan(values)])
    edges = np.linspace(low, low + scale.turn, bins + 1)
    per_radian = scale.turn / (2.0 * np.pi)
    heights = np.histogram(places, edges)[0] / max(places.size, 1) * (bins / scale.turn) * per_radian
    ax.bar(edges[:-1], heights, width=scale.turn / bins, align="edge", color=PALE, edgecolor="white", linewidth=0.4)
    axis = grid_axis(scale, _GRID)
    ax.plot(axis, np.append(density, density[0]), color=BLUE, linewidth=1.5)
    dress_square(ax, scale)
    ax.set_aspect("auto")
    ax.set_box_aspect(1.0)
    ax.set_ylim(0.0, 1.06 * max(float(heights.max()), float(density.max())))
    ax.set_yticks([])


def _dress(panels: np.ndarray, labels: list[str]) -> None:
    """Names and ticks along the left and the lower edge only, every half turn."""
    size = len(labels)
    for i in range(size):
        for j in range(size):
            ax = panels[i, j]
            ax.set_xticks(ax.get_xticks()[::2], [text.get_text() for text in ax.get_xticklabels()[::2]])
            if i != j:
                ax.set_yticks(ax.get_yticks()[::2], [text.get_text() for text in ax.get_yticklabels()[::2]])
            ax.tick_params(labelbottom=i == size - 1, labelleft=j == 0 and i > 0, labelsize=9)
            if i == size - 1:
                ax.set_xlabel(labels[j])
                # The ends of neighbouring panels would run into each other.
                for text, side in zip(ax.get_xticklabels(), ("left", "center", "right"), strict=True):
                    text.set_horizontalalignment(side)
            if j == 0:
                ax.set_ylabel(labels[i])
