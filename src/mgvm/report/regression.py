"""The report of a regression."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import angles as circular
from mgvm._validation import FloatArray
from mgvm.report import sections as parts
from mgvm.report.sections import add_map, drawn, rose_of
from mgvm.tables.columns import Unit
from mgvm.workflows.inputs import InputColumn

if TYPE_CHECKING:
    from mgvm.report import Page
    from mgvm.workflows.results import RegressResult

_ALONG = 300  # distributions along an input
_MOST_SLICES = 4
_MOST_POINTS = 3000
_BEYOND = 0.03


def regression_report(result: RegressResult) -> Page:
    """A page on what a regression found: fit, data, model, scores, calibration, predictions.

    Parameters
    ----------
    result : RegressResult
        Of the job `regress`.

    Returns
    -------
    Page
        To be written with ``page.write(path)``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import run_regression
    >>> from mgvm.report import regression_report
    >>> hour = np.linspace(0.0, 24.0, 30)
    >>> wind = pd.DataFrame({"hour": hour, "from": (300.0 + 5.0 * hour) % 360.0})
    >>> page = regression_report(run_regression(wind, "from", ["hour"], unit="compass", compare=False))
    >>> page.title
    'from, predicted from hour'
    """
    page = parts.opened(f"{result.angle}, predicted from {_listed(result.inputs.names)}", result)
    _add_fit(page, result)
    parts.add_data(page, result.data)
    page.figure(
        rose_of(result.y, result.unit),
        f"Rose histogram of {result.angle}; {_summary(result)}",
        f"{result.angle} in the data: the area of a sector is its share of the rows",
    )
    parts.add_model(page, result, *_words(result))
    parts.add_scores(page, result.comparison)
    parts.add_calibration(page, result.calibration)
    own = [str(name) for name in result.predictions.columns if str(name).startswith(f"{result.angle}_")]
    return parts.add_rows(
        page, result.predictions, f"Predicted at {result.predicted_at}. {_ARCS}", first=[*result.inputs.names, *own]
    )


_ARCS = (
    "The mean direction is where the distribution points; its resultant length says how narrowly, from 0 (not at all) to 1. "
    "The arcs are the smallest sets that hold 50 % and 90 % of the mass: several where the distribution has several peaks."
)


def _words(result: RegressResult) -> list[str]:
    kernel = getattr(result.model, "kernel_", None)
    return [] if kernel is None else [f"The kernel, with its learnt numbers: `{kernel}`."]


def _summary(result: RegressResult) -> str:
    mean = float(result.unit.from_radians(circular.mean(result.y)))
    length = float(circular.resultant_length(result.y))
    return f"mean direction {mean:.4g}{result.unit.symbol}, resultant length {length:.2f}, {result.y.size:,} rows."


# ---- the fit --------------------------------------------------------------------------------------------------------


def _add_fit(page: Page, result: RegressResult) -> None:
    page.section("The fit")
    columns = result.inputs.columns
    if len(columns) == 2 and not any(column.circular for column in columns):
        add_map(page, result)
        return
    if len(columns) > 1:
        page.text("Each picture lets one input run and holds the others at their medians.")
    for number in range(min(len(columns), _MOST_SLICES)):
        _add_slice(page, result, number)
    if len(columns) > _MOST_SLICES:
        left = [column.name for column in columns[_MOST_SLICES:]]
        page.text(f"Not drawn: {_listed(left)}.")


def _add_slice(page: Page, result: RegressResult, number: int) -> None:
    column = result.inputs.columns[number]
    alone = len(result.inputs.columns) == 1
    places, rows = _run(result, number)
    dist = result.predict_dist(rows)
    where = "" if alone else ", the other inputs at their medians"
    page.figure(
        drawn(lambda ax: _draw_slice(ax, result, number, (places, dist)), (5.4, 4.1) if alone else (4.6, 3.9)),
        f"Predicted density of {result.angle} against {column.name}{where}; {_course(result, places, dist, column)}",
        f"The predicted density of {result.angle}: the darker the likelier. Dots are the data"
        + ("" if alone else ", whatever their other inputs")
        + ". Up and down, the picture repeats after a turn.",
    )


def _draw_slice(ax: Any, result: RegressResult, number: int, found: tuple[FloatArray, Any]) -> None:
    from mgvm.plots import predictive_density

    column = result.inputs.columns[number]
    places, dist = found
    seen = _raw(result, number, result.X)
    shown = np.random.default_rng(0).permutation(seen.size)[:_MOST_POINTS]
    mesh = predictive_density(dist, places, ax, observed=(seen[shown], result.y[shown]), unit=result.unit.name, turns=2)
    ax.set_xlabel(f"{column.name} ({column.meaning})" if column.meaning else column.name)
    ax.set_ylabel(result.angle)
    ax.figure.colorbar(mesh, ax=ax, label="density per radian", shrink=0.8, aspect=30, pad=0.02)


def _run(result: RegressResult, number: int) -> tuple[FloatArray, FloatArray]:
    """Places along one input, and the numbers (n, p) of all inputs there."""
    columns = result.inputs.columns
    edges = np.cumsum([0, *(len(column.labels) for column in columns)])
    middles = [_middle(result.X[:, begin:end]) for begin, end in itertools.pairwise(edges)]
    rows = np.tile(np.concatenate(middles), (_ALONG, 1))
    mine = slice(edges[number], edges[number + 1])
    if columns[number].circular:
        places = np.linspace(0.0, _unit_of(columns[number]).turn, _ALONG)
        radians = _unit_of(columns[number]).to_radians(places)
        rows[:, mine] = np.column_stack([np.cos(radians), np.sin(radians)])
        return places, rows
    known = np.concatenate([result.X[:, mine].ravel(), result.asked[:, mine].ravel()])
    low, high = np.nanmin(known), np.nanmax(known)
    beyond = _BEYOND * (high - low) or 1.0
    places = np.linspace(low - beyond, high + beyond, _ALONG)
    rows[:, mine] = places[:, None]
    return places, rows


def _middle(values: FloatArray) -> FloatArray:
    """The median of a number; of an angle the cosine and sine of its mean direction."""
    if values.shape[1] == 1:
        return np.median(values, axis=0)
    direction = circular.mean(np.arctan2(values[:, 1], values[:, 0]))
    return np.array([np.cos(direction), np.sin(direction)])


def _raw(result: RegressResult, number: int, X: FloatArray) -> FloatArray:
    """An input as its column has it, up to whole turns."""
    columns = result.inputs.columns
    begin = sum(len(column.labels) for column in columns[:number])
    if not columns[number].circular:
        return X[:, begin]
    return _unit_of(columns[number]).from_radians(np.arctan2(X[:, begin + 1], X[:, begin]))


def _unit_of(column: InputColumn) -> Unit:
    return Unit("hours" if column.kind == "time-of-day" else column.unit)


def _course(result: RegressResult, places: FloatArray, dist: Any, column: InputColumn) -> str:
    """The mean direction at five places, in words."""
    which = np.linspace(0, places.size - 1, 5).astype(int)
    means = result.unit.from_radians(dist[which].mean_direction())
    return "mean direction " + ", ".join(
        f"{mean:.3g}{result.unit.symbol} at {place:.3g}" for place, mean in zip(places[which], means, strict=True)
    )


def _listed(names: Any) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else str(last)
