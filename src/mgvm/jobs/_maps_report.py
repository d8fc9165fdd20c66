"""Maps of a regression: two inputs, the predicted laws at places and the predicted field."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.jobs._figures_report import drawn, dressed

if TYPE_CHECKING:
    from mgvm.jobs.results import RegressResult
    from mgvm.pages import Page

_MOST_PLACES = 36
_MOST_ROSES = 16
_MOST_POINTS = 3000
_ENOUGH = 5  # rows at a place, on average, from which on their histogram says something
_FIELD = 14  # arrows along each side of a map
_NARROWEST, _WIDEST = 30.0, 54.0  # points of a rose
_INNER = 215.0  # points that the places span in the figure
_SIZE = (4.6, 4.5)  # inches: two beside each other
_WAYS = {
    "compass": "Angles are drawn as they point on a map, north on top.",
    "hours": "Times are drawn like the hand of a 24-hour clock: midnight on top, clockwise.",
}
_QUIET, _PLACE, _ARROWS = "#8A949E", "#1C2733", "#0072B2"


def add_map(page: Page, result: RegressResult) -> None:
    """Roses or arcs at places, and arrows on a grid."""
    across, up = result.inputs.names
    page.text(_WAYS.get(result.unit.name, "Angles are drawn with zero to the right, counter-clockwise."))
    places, place = np.unique(result.X, axis=0, return_inverse=True)
    if len(places) <= _MOST_ROSES and len(result.X) >= _ENOUGH * len(places):
        _add_roses(page, result, places, [result.y[place.ravel() == k] for k in range(len(places))])
    else:
        _add_arcs(page, result)
    page.figure(
        drawn(lambda ax: _draw_field(ax, result), _SIZE),
        f"Map of {across} and {up} with an arrow along the predicted mean direction of {result.angle} on a grid.",
        "The predicted mean direction; the shorter an arrow, the less is known. Dots are the places of the data.",
    )


def _add_roses(page: Page, result: RegressResult, places: FloatArray, seen: list[FloatArray]) -> None:
    from mgvm.plots import roses_on_map

    law = result.predict_dist(places)

    def draw(ax: Any) -> None:
        _name_axes(ax, result)
        ax.scatter(*places.T, s=12.0, color=_PLACE, linewidths=0.0)
        ax.margins(0.15)
        bare = functools.partial(dressed, unit=result.unit, bare=True)
        roses_on_map(seen, places[:, 0], places[:, 1], ax, law=law, size=_room(places), dress=bare)

    page.figure(
        drawn(draw, _SIZE),
        f"Map with a rose histogram of {result.angle} at each of {len(places)} places, the predicted density on top.",
        "What was seen at each place (sectors, whose areas are shares) and the predicted density (curve).",
    )


def _room(places: FloatArray) -> float:
    """Points that a rose may be wide, so that most do not cover their neighbours."""
    if len(places) < 2:
        return _WIDEST
    box = np.where(np.ptp(places, axis=0) > 0.0, np.ptp(places, axis=0), 1.0)
    apart = np.linalg.norm((places[:, None] - places) / box, axis=-1) + 2.0 * np.eye(len(places))
    return float(np.clip(0.9 * _INNER * np.median(apart.min(axis=1)), _NARROWEST, _WIDEST))


def _add_arcs(page: Page, result: RegressResult) -> None:
    across, up = result.inputs.names
    chosen = _spread_out(result.X, _MOST_PLACES)
    law = result.predict_dist(result.X[chosen])
    page.figure(
        drawn(lambda ax: _draw_arcs(ax, result, chosen, law), _SIZE),
        f"Map of {across} and {up}: predicted arcs of {result.angle} at {chosen.size} places, and what was seen.",
        "Thick arcs hold 50 % of the predicted mass, thin ones 90 %. Needles are what was seen there, orange where it "
        "lies outside of the 90 %. These rows were learnt from; for rows that were not, see the calibration.",
    )


def _draw_arcs(ax: Any, result: RegressResult, chosen: np.ndarray, law: Any) -> None:
    from mgvm.plots import arcs

    ax.scatter(*result.X[chosen].T, s=12.0, color=_PLACE, linewidths=0.0, zorder=4)
    arcs(
        law,
        result.X[chosen, 0],
        result.X[chosen, 1],
        ax,
        observed=result.y[chosen],
        compass=_is_clock(result),
        radius=13.0,
    )
    _name_axes(ax, result)


def _draw_field(ax: Any, result: RegressResult) -> None:
    grid = _grid(result.X)
    law = result.predict_dist(grid)
    mean, length = np.asarray(law.mean_direction()), np.asarray(law.resultant_length())
    shown = np.random.default_rng(0).permutation(len(result.X))[:_MOST_POINTS]
    ax.scatter(*result.X[shown].T, s=5.0, color=_QUIET, linewidths=0.0)
    across, up = np.nan_to_num(length * np.cos(mean)), np.nan_to_num(length * np.sin(mean))
    arrows = (up, across) if _is_clock(result) else (across, up)
    ax.quiver(*grid.T, *arrows, pivot="mid", angles="uv", color=_ARROWS, scale=1.15 * _FIELD, width=0.006)
    _name_axes(ax, result)


def _is_clock(result: RegressResult) -> bool:
    """Whether angles are drawn clockwise from the top. (Bearings are, once they are angles from east.)"""
    return result.unit.name == "hours"


def _name_axes(ax: Any, result: RegressResult) -> None:
    for name, column in zip((ax.set_xlabel, ax.set_ylabel), result.inputs.columns, strict=True):
        name(f"{column.name} ({column.meaning})" if column.meaning else column.name)
    ax.margins(0.06)


def _grid(X: FloatArray) -> FloatArray:
    """A grid over the places, in their box."""
    low, high = X.min(axis=0), X.max(axis=0)
    axes = [np.linspace(a, b, _FIELD) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)


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
