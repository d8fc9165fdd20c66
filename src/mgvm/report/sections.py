"""Sections that the reports of all jobs share.

Figures of reports: made without a window, in the page's type, of a width that a phone can show.

Maps of a regression: two inputs, the predicted distributions at places and the predicted field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.tables.columns import Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure
import functools

if TYPE_CHECKING:
    from mgvm.report import Page
    from mgvm.workflows.results import RegressResult
from collections.abc import Iterable, Sequence

from mgvm.report import Page
from mgvm.workflows.results import Calibration, Comparison, DataRead, JobResult, Score

if TYPE_CHECKING:
    import pandas as pd

_EIGHTHS = ["0", "π/4", "π/2", "3π/4", "±π", "−3π/4", "−π/2", "−π/4"]
_TYPE: Any = {"font.size": 10.0, "axes.labelsize": 10.0}


def drawn(draw: Callable[[Any], object], size: tuple[float, float], projection: str | None = None) -> Figure:
    """A figure with one pair of axes, drawn upon."""
    return figure(lambda made: draw(made.add_subplot(projection=projection)), size)


def figure(draw: Callable[[Figure], object], size: tuple[float, float]) -> Figure:
    """A figure of so many inches, drawn upon."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_TYPE):
        made = Figure(figsize=size, layout="constrained")
        draw(made)
        return made


def dressed(ax: Any, unit: Unit, *, bare: bool = False) -> None:
    """Polar axes with the ticks of a unit, or bare of all labels."""
    from matplotlib.ticker import MaxNLocator

    from mgvm import plots

    if unit.name == "hours":
        plots.dial(ax)
    elif unit.name == "compass":
        plots.compass(ax)
    else:
        ticks = 0.25 * np.pi * np.arange(8)
        ax.set_xticks(ticks, _EIGHTHS if unit.name == "radians" else [_degrees(unit, tick) for tick in ticks])
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_yticklabels([])
    if bare:
        ax.set_xticklabels([])
    ax.grid(color="#D5DBE1", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines["polar"].set_color("#8A949E")


def _degrees(unit: Unit, angle: float) -> str:
    return f"{float(unit.from_radians(angle)):.0f}°".replace("-", "−")


def rose_of(angles: FloatArray, unit: Unit, dist: Any = None) -> Figure:
    """Rose histogram of angles, and the density of a distribution over it."""
    from mgvm import plots

    def draw(ax: Any) -> None:
        plots.rose(angles[~np.isnan(angles)], ax, bins=24 if unit.name == "hours" else 36)
        if dist is not None:
            plots.circular_density(dist, ax)
        dressed(ax, unit)

    return drawn(draw, (3.9, 3.9), "polar")


def one_unit(units: tuple[Unit, ...]) -> str:
    """The unit of the axes where several angles share them: theirs, or degrees."""
    names = {unit.name for unit in units}
    return names.pop() if len(names) == 1 else "degrees"


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

    dist = result.predict_dist(places)

    def draw(ax: Any) -> None:
        _name_axes(ax, result)
        ax.scatter(*places.T, s=12.0, color=_PLACE, linewidths=0.0)
        ax.margins(0.15)
        bare = functools.partial(dressed, unit=result.unit, bare=True)
        roses_on_map(seen, places[:, 0], places[:, 1], ax, dist=dist, size=_room(places), dress=bare)

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
    dist = result.predict_dist(result.X[chosen])
    page.figure(
        drawn(lambda ax: _draw_arcs(ax, result, chosen, dist), _SIZE),
        f"Map of {across} and {up}: predicted arcs of {result.angle} at {chosen.size} places, and what was seen.",
        "Thick arcs hold 50 % of the predicted mass, thin ones 90 %. Needles are what was seen there, orange where it "
        "lies outside of the 90 %. These rows were learnt from; for rows that were not, see the calibration.",
    )


def _draw_arcs(ax: Any, result: RegressResult, chosen: np.ndarray, dist: Any) -> None:
    from mgvm.plots import arcs

    ax.scatter(*result.X[chosen].T, s=12.0, color=_PLACE, linewidths=0.0, zorder=4)
    arcs(
        dist,
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
    dist = result.predict_dist(grid)
    mean, length = np.asarray(dist.mean_direction()), np.asarray(dist.resultant_length())
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


_SHOWN = 12  # rows of a table in a page
_BARS = 10


def opened(title: str, result: JobResult) -> Page:
    """A page that begins with what was found, in sentences, and ends with how."""
    data = result.data
    subtitle = f"{data.source}: {data.rows:,} rows, {data.used:,} of them learnt from"
    made = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    page = Page(title, subtitle=subtitle, footer=f"Made in {result.seconds:.1f} s with seed {result.seed} by {made}.")
    page.section("In short").items(result.sentences)
    for warning in result.warnings:
        page.note(_sentence(warning), "warning")
    return page


def add_data(page: Page, data: DataRead) -> Page:
    """What was read, column by column, and what became of gaps."""
    page.section("Data")
    page.text(f"{data.rows:,} rows were read from `{data.source}`, and {data.used:,} of them were learnt from.")
    rows = [
        [column.name, column.role, column.unit or "numbers", column.missing, column.smallest, column.largest]
        for column in data.columns
    ]
    page.table(["column", "used as", "unit", "missing", "smallest", "largest"], rows, "The columns as they were read")
    return page.items(data.notes)


def add_model(page: Page, result: JobResult, *words: str) -> Page:
    """The learnt numbers and what each means."""
    page.section("The fitted model").text(*words)
    rows = [(parameter.name, parameter.value, parameter.meaning) for parameter in result.parameters]
    return page.table(["name", "value", "meaning"], rows, "What was learnt")


def add_history(page: Page, model: Any, what: str) -> Page:
    """What the fit climbed, iteration by iteration."""
    from mgvm.plots import free_energy

    values: Any = getattr(model, "free_energy_", getattr(model, "lower_bounds_", ()))
    if len(values) < 3:
        return page
    return page.figure(
        drawn(lambda ax: free_energy(model, ax), (4.6, 2.8)),
        f"{what} over {len(values)} iterations, from {values[0]:.4g} to {values[-1]:.4g}.",
        f"{what}, iteration by iteration: it settles where nothing more is gained",
    )


def add_scores(page: Page, comparison: Comparison | None) -> Page:
    """The model and the baselines on the same rows, which they had not seen."""
    page.section("Scores against other models")
    if comparison is None:
        return page.text("No rows were left out, so there are no honest scores.")
    page.text(
        f"{_sentence(comparison.how)} A higher log density is better: it rewards a model for putting mass where rows "
        "turned out to be. “Behind” is the difference to the best model row by row, with its standard error; a "
        "difference below two standard errors may be chance."
    )
    measures = list(dict.fromkeys(name for score in comparison.scores for name in score.measures))
    columns = ["model", "log density (nats)", "behind", *measures]
    rows = [[_name(score), *_numbers(score), *(score.measures.get(m) for m in measures)] for score in comparison.scores]
    best = [number for number, score in enumerate(comparison.scores) if score.ours]
    caption = f"Means over {comparison.rows:,} rows that were left out, best first; the fitted model is marked"
    page.table(columns, rows, caption, best=best)
    slow = [score.name for score in comparison.scores if not score.settled]
    return page.text(f"Did not settle within its iterations: {', '.join(slow)}.") if slow else page


def _name(score: Score) -> str:
    return f"{score.name} (the fitted model)" if score.ours else score.name


def _numbers(score: Score) -> tuple[str, str]:
    value = f"{score.log_density:.3f} ± {score.standard_error:.3f}".replace("-", "−")
    return value, "–" if score.best else f"{score.behind:.3f} ± {score.behind_error:.3f}"


def add_calibration(page: Page, found: Calibration | None) -> Page:
    """Whether sets that claim a share of the mass hold that share of the rows."""
    page.section("Calibration")
    if found is None:
        return page.text("No rows were left out, so it is not known whether the uncertainty is right.")
    from mgvm.plots import pit_histogram, reliability

    count = found.pit.size
    half, most = found.share(0.5), found.share(0.9)
    page.text(
        f"Of {count:,} rows that were left out, {half:.0%} lie in the sets that claim 50 % of the mass and {most:.0%} "
        "in those that claim 90 %. Below the diagonal the model is too sure of itself, above it too cautious; in the "
        "grey band the difference may be chance."
    )
    page.figure(
        drawn(lambda ax: reliability(found.masses, found.shares, count, ax), (4.4, 4.2)),
        f"Share of left-out rows in sets against the mass that the sets claim: {half:.0%} at 50 %, {most:.0%} at 90 %.",
        "What sets claim and what they hold",
    )
    bars = max(4, min(_BARS, count // 8))
    lowest, highest = _extent(found.pit, bars)
    return page.figure(
        drawn(lambda ax: _labelled(pit_histogram(found.pit, ax, bins=bars), found.what), (4.4, 4.2)),
        f"Histogram of {bars} bars, between {lowest:.2f} and {highest:.2f} high; near 1 if the uncertainty is right.",
        f"Flat where the uncertainty is right: {found.what}",
    )


def _labelled(bars: Any, what: str) -> None:
    bars[0].axes.set_xlabel(what if len(what) < 50 else "value")


def _extent(values: Any, bars: int) -> tuple[float, float]:
    import numpy as np

    heights = np.histogram(values, bins=bars, range=(0.0, 1.0))[0] * (bars / max(len(values), 1))
    return float(heights.min()), float(heights.max())


def add_rows(page: Page, frame: pd.DataFrame, words: str, *, first: Sequence[str] = ()) -> Page:
    """The first rows of a table of results, the named columns first."""
    page.section("Predictions").text(words)
    names = [*first, *(name for name in map(str, frame.columns) if name not in first)]
    shown = frame.iloc[:_SHOWN]
    rows: Iterable[Sequence[Any]] = (
        [None if _is_missing(shown[name].iloc[i]) else shown[name].iloc[i] for name in names] for i in range(len(shown))
    )
    caption = f"The first {len(shown)} of {len(frame):,} rows" if len(frame) > len(shown) else "All rows"
    return page.table(names, rows, caption)


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return bool(pd.isna(value))


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
