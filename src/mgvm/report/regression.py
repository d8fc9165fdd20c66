"""The report of a regression."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mgvm import angles as circular
from mgvm._validation import FloatArray
from mgvm.report import sections
from mgvm.report.sections import draw_axes, draw_rose, dress_polar, label_input
from mgvm.workflows.regression import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mgvm.circle import CircularDistribution
    from mgvm.regression import CircularGPRegressor, CircularRegressor
    from mgvm.report.page import Page
    from mgvm.workflows.results import RegressionResult

_MOST_POINTS = 3000  # dots in a figure: more would hide each other


def regression_report(result: RegressionResult) -> Page:
    """A page on what a regression found: fit, data, model, scores, calibration, predictions.

    Parameters
    ----------
    result : RegressionResult
        Of `run_regression`.

    Returns
    -------
    Page
        To be written with ``page.write(path)``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import RegressionOptions, run_regression
    >>> from mgvm.report import regression_report
    >>> hour = np.linspace(0.0, 24.0, 30)
    >>> wind = pd.DataFrame({"hour": hour, "from": (300.0 + 5.0 * hour) % 360.0})
    >>> options = RegressionOptions("from", ["hour"], unit="compass", compare=False)
    >>> regression_report(run_regression(wind, options)).title
    'from, predicted from hour'
    """
    page = sections.open_page(f"{result.angle}, predicted from {_list_names(result.inputs.names)}", result)
    _add_fit(page, result)
    sections.add_data(page, result.data)
    page.figure(
        draw_rose(result.y, result.unit),
        f"Rose histogram of {result.angle}; {_describe_angles(result)}",
        f"{result.angle} in the data: the area of a sector is its share of the rows",
    )
    sections.add_model(page, result, _describe_model(result.model))
    own = [str(name) for name in result.predictions.columns if str(name).startswith(f"{result.angle}_")]
    explained = (
        f"Predicted at {result.predicted_at}. The mean direction is where the distribution points; its resultant "
        "length says how narrowly, from 0 (not at all) to 1. Highest-density regions (HDR) are the smallest that hold "
        "50 % and 90 % of the mass: several arcs where the distribution has several modes."
    )
    return sections.add_results(page, result, explained, first=[*result.inputs.names, *own])


def _describe_model(model: CircularRegressor | CircularGPRegressor) -> str:
    if hasattr(model, "kernel_"):
        return f"The kernel, with its fitted numbers: `{model.kernel_}`."
    kernels = {name: part.kernel_ for name, part in model.named_estimators_.items() if hasattr(part, "kernel_")}
    said = "".join(
        f" The kernel of the {NAMES[name]}, with its fitted numbers: `{kernel}`." for name, kernel in kernels.items()
    )
    return f"Weights are those of the highest log-likelihood on held-out {model.held_out_}.{said}"


def _describe_angles(result: RegressionResult) -> str:
    mean = float(result.unit.from_radians(circular.mean(result.y)))
    length = float(circular.resultant_length(result.y))
    return f"mean direction {mean:.4g}{result.unit.symbol}, resultant length {length:.2f}, {result.y.size:,} rows."


# ---- the fit --------------------------------------------------------------------------------------------------------


def _add_fit(page: Page, result: RegressionResult, most_slices: int = 4) -> None:
    page.section("The fit")
    columns = result.inputs.columns
    if len(columns) == 2 and not any(column.circular for column in columns):
        _add_map(page, result)
        return
    if len(columns) > 1:
        page.text("Each picture lets one input run and holds the others at their medians.")
    for number in range(min(len(columns), most_slices)):
        _add_slice(page, result, number)
    if len(columns) > most_slices:
        left = [column.name for column in columns[most_slices:]]
        page.text(f"Not drawn: {_list_names(left)}.")


def _add_slice(page: Page, result: RegressionResult, number: int) -> None:
    column = result.inputs.columns[number]
    alone = len(result.inputs.columns) == 1
    places, rows = _run_along(result, number)
    dist = result.predict_dist(rows)
    where = "" if alone else ", the other inputs at their medians"
    page.figure(
        draw_axes(lambda ax: _draw_slice(ax, result, number, places, dist), (5.4, 4.1) if alone else (4.6, 3.9)),
        f"Predicted density of {result.angle} against {column.name}{where}; {_describe_course(result, places, dist)}",
        f"The predicted density of {result.angle}: the darker the likelier. Dots are the data"
        + ("" if alone else ", whatever their other inputs")
        + ". Up and down, the picture repeats after a turn.",
    )


def _draw_slice(
    ax: Axes, result: RegressionResult, number: int, places: FloatArray, dist: CircularDistribution
) -> None:
    from mgvm.plots import predictive_density

    seen = _raw(result, number, result.X)
    shown = np.random.default_rng(0).permutation(seen.size)[:_MOST_POINTS]
    mesh = predictive_density(dist, places, ax, observed=(seen[shown], result.y[shown]), unit=result.unit.name, turns=2)
    ax.set_xlabel(label_input(result.inputs.columns[number]))
    ax.set_ylabel(result.angle)
    ax.figure.colorbar(mesh, ax=ax, label="density per radian", shrink=0.8, aspect=30, pad=0.02)


def _run_along(result: RegressionResult, number: int, count: int = 300) -> tuple[FloatArray, FloatArray]:
    """`count` places along one input, and the numbers (count, p) of all inputs there."""
    columns = result.inputs.columns
    edges = np.cumsum([0, *(len(column.labels) for column in columns)])
    middles = [_middle(result.X[:, begin:end]) for begin, end in itertools.pairwise(edges)]
    rows = np.tile(np.concatenate(middles), (count, 1))
    mine = slice(edges[number], edges[number + 1])
    if columns[number].circular:
        unit = columns[number].angle_unit
        places = np.linspace(0.0, unit.turn, count)
        radians = unit.to_radians(places)
        rows[:, mine] = np.column_stack([np.cos(radians), np.sin(radians)])
        return places, rows
    known = np.concatenate([result.X[:, mine].ravel(), result.asked[:, mine].ravel()])
    low, high = np.nanmin(known), np.nanmax(known)
    beyond = 0.03 * (high - low) or 1.0
    places = np.linspace(low - beyond, high + beyond, count)
    rows[:, mine] = places[:, None]
    return places, rows


def _middle(values: FloatArray) -> FloatArray:
    """The median of a number; of an angle the cosine and sine of its mean direction."""
    if values.shape[1] == 1:
        return np.median(values, axis=0)
    direction = circular.mean(np.arctan2(values[:, 1], values[:, 0]))
    return np.array([np.cos(direction), np.sin(direction)])


def _raw(result: RegressionResult, number: int, X: FloatArray) -> FloatArray:
    """An input as its column has it, up to whole turns."""
    columns = result.inputs.columns
    begin = sum(len(column.labels) for column in columns[:number])
    if not columns[number].circular:
        return X[:, begin]
    return columns[number].angle_unit.from_radians(np.arctan2(X[:, begin + 1], X[:, begin]))


def _describe_course(result: RegressionResult, places: FloatArray, dist: CircularDistribution) -> str:
    """The mean direction at five places, as text."""
    which = np.linspace(0, places.size - 1, 5).astype(int)
    means = result.unit.from_radians(dist[which].mean_direction())
    return "mean direction " + ", ".join(
        f"{mean:.3g}{result.unit.symbol} at {place:.3g}" for place, mean in zip(places[which], means, strict=True)
    )


def _list_names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else str(last)


# ---- maps: two inputs that are numbers ------------------------------------------------------------------------------

_MAP_SIZE = (4.6, 4.5)  # inches: two beside each other


def _add_map(page: Page, result: RegressionResult) -> None:
    """Roses or HDR at places, and arrows on a grid."""
    across, up = result.inputs.names
    drawn = {
        "compass": "Angles are drawn as they point on a map, north on top.",
        "hours": "Times are drawn like the hand of a 24-hour clock: midnight on top, clockwise.",
    }
    page.text(drawn.get(result.unit.name, "Angles are drawn with zero to the right, counter-clockwise."))
    places, place = np.unique(result.X, axis=0, return_inverse=True)
    # A histogram says something from five rows at a place on, and more than 16 would cover each other.
    if len(places) <= 16 and len(result.X) >= 5 * len(places):
        _add_roses(page, result, places, [result.y[place.ravel() == k] for k in range(len(places))])
    else:
        _add_regions(page, result)
    page.figure(
        draw_axes(lambda ax: _draw_directions(ax, result), _MAP_SIZE),
        f"Map of {across} and {up} with an arrow along the predicted mean direction of {result.angle} on a grid.",
        "The predicted mean direction; the shorter an arrow, the less is known. Dots are the places of the data.",
    )


def _add_roses(page: Page, result: RegressionResult, places: FloatArray, seen: list[FloatArray]) -> None:
    from mgvm.plots import roses_on_map

    dist = result.predict_dist(places)

    def draw(ax: Axes) -> None:
        _name_axes(ax, result)
        ax.scatter(places[:, 0], places[:, 1], s=12.0, color="#1C2733", linewidths=0.0)
        ax.margins(0.15)
        bare = functools.partial(dress_polar, unit=result.unit, bare=True)
        roses_on_map(seen, places[:, 0], places[:, 1], ax, dist=dist, size=_rose_size(places), dress=bare)

    page.figure(
        draw_axes(draw, _MAP_SIZE),
        f"Map with a rose histogram of {result.angle} at each of {len(places)} places, the predicted density on top.",
        "What was seen at each place (sectors, whose areas are shares) and the predicted density (curve).",
    )


def _rose_size(places: FloatArray) -> float:
    """Points that a rose may be wide, so that most do not cover their neighbors; the map is 215 points wide."""
    narrowest, widest, map_width = 30.0, 54.0, 215.0
    if len(places) < 2:
        return widest
    box = np.where(np.ptp(places, axis=0) > 0.0, np.ptp(places, axis=0), 1.0)
    apart = np.linalg.norm((places[:, None] - places) / box, axis=-1) + 2.0 * np.eye(len(places))
    return float(np.clip(0.9 * map_width * np.median(apart.min(axis=1)), narrowest, widest))


def _add_regions(page: Page, result: RegressionResult, most_places: int = 36) -> None:
    across, up = result.inputs.names
    chosen = _spread_out(result.X, most_places)
    dist = result.predict_dist(result.X[chosen])
    page.figure(
        draw_axes(lambda ax: _draw_regions(ax, result, chosen, dist), _MAP_SIZE),
        f"Map of {across} and {up}: predicted HDR of {result.angle} at {chosen.size} places, and what was seen.",
        "Thick arcs are the 50 % HDR of the prediction, thin ones the 90 % HDR. Needles are what was seen there, "
        "orange where it lies outside of the 90 % HDR. This is the training set; for test rows, see the calibration.",
    )


def _draw_regions(ax: Axes, result: RegressionResult, chosen: np.ndarray, dist: CircularDistribution) -> None:
    from mgvm.plots import arcs

    x, y = result.X[chosen].T
    ax.scatter(x, y, s=12.0, color="#1C2733", linewidths=0.0, zorder=4)
    arcs(dist, x, y, ax, observed=result.y[chosen], compass=_is_clock(result), radius=13.0)
    _name_axes(ax, result)


def _draw_directions(ax: Axes, result: RegressionResult, side: int = 14) -> None:
    """Arrows on a grid of side x side places."""
    axes = np.linspace(result.X.min(axis=0), result.X.max(axis=0), side).T
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    dist = result.predict_dist(grid)
    mean, length = np.asarray(dist.mean_direction()), np.asarray(dist.resultant_length())
    shown = np.random.default_rng(0).permutation(len(result.X))[:_MOST_POINTS]
    ax.scatter(result.X[shown, 0], result.X[shown, 1], s=5.0, color="#8A949E", linewidths=0.0)
    across, up = np.nan_to_num(length * np.cos(mean)), np.nan_to_num(length * np.sin(mean))
    arrows = (up, across) if _is_clock(result) else (across, up)
    ax.quiver(*grid.T, *arrows, pivot="mid", angles="uv", color="#0072B2", scale=1.15 * side, width=0.006)
    _name_axes(ax, result)


def _is_clock(result: RegressionResult) -> bool:
    """Whether angles are drawn clockwise from the top. (Bearings are, once they are angles from east.)"""
    return result.unit.name == "hours"


def _name_axes(ax: Axes, result: RegressionResult) -> None:
    across, up = result.inputs.columns
    ax.set_xlabel(label_input(across))
    ax.set_ylabel(label_input(up))
    ax.margins(0.06)


def _spread_out(X: FloatArray, count: int) -> np.ndarray:
    """Rows far from each other: each next one is the farthest from those before."""
    if len(X) <= count:
        return np.arange(len(X))
    scaled = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    chosen = [int(np.argmin((scaled**2).sum(axis=1)))]
    away = np.full(len(X), np.inf)
    while len(chosen) < count:
        away = np.minimum(away, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(away)))
    return np.array(chosen)
