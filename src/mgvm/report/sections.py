"""Sections and figures that the reports of all workflows share.

Figures are made without a window, in the type of the page, of a width that a phone can show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.report.page import Page
from mgvm.tables.units import Unit
from mgvm.workflows.results import Calibration, Comparison, DataRead, Score, WorkflowResult

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

    from mgvm.mixture import TorusMixture
    from mgvm.pca import CircularPCA
    from mgvm.plots._circle import HasDensity
    from mgvm.workflows.inputs import InputColumn

# ---- sections -------------------------------------------------------------------------------------------------------


def open_page(title: str, result: WorkflowResult) -> Page:
    """A page that begins with what was found, in sentences, and ends with how."""
    data = result.data
    training = f", {data.used:,} of them in the training set" if data.used else ""  # a saved model was fitted before
    subtitle = f"{data.source}: {data.rows:,} rows{training}"
    made = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    page = Page(title, subtitle=subtitle, footer=f"Made in {result.seconds:.1f} s with seed {result.seed} by {made}.")
    page.section("In short").items(result.sentences)
    for warning in result.warnings:
        page.note(_sentence(warning), "warning")
    return page


def add_data(page: Page, data: DataRead) -> Page:
    """What was read, column by column, and what became of gaps."""
    page.section("Data")
    training = f", and {data.used:,} of them are the training set" if data.used else ""
    page.text(f"{data.rows:,} rows were read from `{data.source}`{training}.")
    rows = [
        [column.name, column.role, column.unit or "numbers", column.missing, column.smallest, column.largest]
        for column in data.columns
    ]
    page.table(["column", "used as", "unit", "missing", "smallest", "largest"], rows, "The columns as they were read")
    return page.items(data.notes)


def add_model(page: Page, result: WorkflowResult, *paragraphs: str) -> Page:
    """The fitted numbers and what each means."""
    page.section("The fitted model").text(*paragraphs)
    rows = [(parameter.name, parameter.value, parameter.meaning) for parameter in result.parameters]
    return page.table(["name", "value", "meaning"], rows, "What was fitted")


def add_history(page: Page, model: TorusMixture | CircularPCA, what: str) -> Page:
    """What the fit climbed, iteration by iteration."""
    from mgvm.plots import free_energy

    values: Any = getattr(model, "free_energy_", getattr(model, "lower_bounds_", ()))
    if len(values) < 3:
        return page
    return page.figure(
        draw_axes(lambda ax: free_energy(model, ax), (4.6, 2.8)),
        f"{what} over {len(values)} iterations, from {values[0]:.4g} to {values[-1]:.4g}.",
        f"{what}, iteration by iteration: it has converged where nothing more is gained",
    )


def add_results(page: Page, result: WorkflowResult, explained: str, *, first: Sequence[str] = ()) -> Page:
    """How far to trust the model, and what it says of the rows: scores, calibration, predictions."""
    _add_scores(page, result.comparison)
    _add_calibration(page, result.calibration)
    return _add_rows(page, result.predictions, explained, first)


def _add_scores(page: Page, comparison: Comparison | None) -> None:
    """The model and the baselines on the same test rows."""
    page.section("Scores against other models")
    if comparison is None:
        page.text("No rows were held out, so there are no honest scores.")
        return
    page.text(
        f"{_sentence(comparison.how)} A higher log-likelihood is better: it rewards a model for putting mass where "
        "rows turned out to be. The difference to the best model is taken row by row, with its standard error; below "
        "two standard errors it may be chance."
    )
    measures = list(dict.fromkeys(name for score in comparison.scores for name in score.measures))
    held_out = "held-out " if comparison.held_out else ""
    columns = ["model", f"{held_out}log-likelihood (nats per observation)", "difference to the best model", *measures]
    rows = [[*_describe(score), *(score.measures.get(m) for m in measures)] for score in comparison.scores]
    best = [number for number, score in enumerate(comparison.scores) if score.ours]
    caption = f"Means over {comparison.rows:,} test rows ± standard errors, best first; the fitted model is marked"
    page.table(columns, rows, caption, best=best)
    for sentence in comparison.unconverged:
        page.text(_sentence(sentence))


def _describe(score: Score) -> tuple[str, str, str]:
    name = f"{score.name} (the fitted model)" if score.ours else score.name
    value = f"{score.log_likelihood:.3f} ± {score.standard_error:.3f}".replace("-", "−")
    return name, value, "–" if score.best else f"{score.difference:.3f} ± {score.difference_error:.3f}"


def _add_calibration(page: Page, found: Calibration | None) -> None:
    """Whether highest-density regions that claim a share of the mass hold that share of the rows."""
    page.section("Calibration")
    if found is None:
        page.text("No rows were held out, so it is not known whether the uncertainty is right.")
        return
    from mgvm.plots import pit_histogram, reliability

    count = found.pit.size
    half, most = found.share(0.5), found.share(0.9)
    page.text(
        f"Of {count:,} test rows, {half:.0%} lie in their 50 % highest-density regions (HDR) and {most:.0%} in their "
        "90 % HDR. Below the diagonal the model is too sure of itself, above it too cautious; in the grey band the "
        "difference may be chance."
    )
    page.figure(
        draw_axes(lambda ax: reliability(found.masses, found.shares, count, ax), (4.4, 4.2)),
        f"Share of test rows in their HDR against the mass of the HDR: {half:.0%} at 50 %, {most:.0%} at 90 %.",
        "What highest-density regions claim and what they hold",
    )
    bars = max(4, min(10, count // 8))
    heights = np.histogram(found.pit, bins=bars, range=(0.0, 1.0))[0] * (bars / count)

    def draw_pit(ax: Axes) -> None:
        pit_histogram(found.pit, ax, bins=bars)
        ax.set_xlabel(found.what if len(found.what) < 50 else "value")

    page.figure(
        draw_axes(draw_pit, (4.4, 4.2)),
        f"Histogram of {bars} bars, between {heights.min():.2f} and {heights.max():.2f} high; near 1 if the "
        "uncertainty is right.",
        f"Flat where the uncertainty is right: {found.what}",
    )


def _add_rows(page: Page, frame: pd.DataFrame, text: str, first: Sequence[str], most: int = 12) -> Page:
    """The first rows of a table of results, at `most` so many, the columns named in `first` before the others."""
    page.section("Predictions").text(text)
    names = [*first, *(name for name in map(str, frame.columns) if name not in first)]
    shown = frame[names].iloc[:most].astype(object)
    rows = shown.where(shown.notna(), None).to_numpy().tolist()
    caption = f"The first {len(shown)} of {len(frame):,} rows" if len(frame) > len(shown) else "All rows"
    return page.table(names, rows, caption)


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


# ---- figures --------------------------------------------------------------------------------------------------------


def draw_axes(draw: Callable[[Any], object], size: tuple[float, float], projection: str | None = None) -> Figure:
    """A figure with one pair of axes, drawn upon."""
    return draw_figure(lambda made: draw(made.add_subplot(projection=projection)), size)


def draw_figure(draw: Callable[[Figure], object], size: tuple[float, float]) -> Figure:
    """A figure of so many inches, drawn upon."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 10.0, "axes.labelsize": 10.0}):
        made = Figure(figsize=size, layout="constrained")
        draw(made)
        return made


def dress_polar(ax: PolarAxes, unit: Unit, *, bare: bool = False) -> None:
    """Polar axes with the ticks of a unit, or bare of all labels."""
    from matplotlib.ticker import MaxNLocator

    from mgvm import plots

    if unit.name == "hours":
        plots.dial(ax)
    elif unit.name == "compass":
        plots.compass(ax)
    else:
        eighths = ["0", "π/4", "π/2", "3π/4", "±π", "−3π/4", "−π/2", "−π/4"]
        ticks = 0.25 * np.pi * np.arange(8)
        ax.set_xticks(ticks, eighths if unit.name == "radians" else [_degrees(unit, tick) for tick in ticks])
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_yticklabels([])
    if bare:
        ax.set_xticklabels([])
    ax.grid(color="#D5DBE1", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines["polar"].set_color("#8A949E")


def _degrees(unit: Unit, angle: float) -> str:
    return f"{float(unit.from_radians(angle)):.{0 if unit.turn > 24.0 else 1}f}{unit.symbol}".replace("-", "−")


def draw_rose(angles: FloatArray, unit: Unit, dist: HasDensity | None = None) -> Figure:
    """Rose histogram of angles, and the density of a distribution over it."""
    from mgvm import plots

    def draw(ax: Any) -> None:
        plots.rose(angles[~np.isnan(angles)], ax, bins=24 if unit.name == "hours" else 36)
        if dist is not None:
            plots.circular_density(dist, ax)
        dress_polar(ax, unit)

    return draw_axes(draw, (3.9, 3.9), "polar")


def draw_pairs(
    angles: FloatArray, names: Sequence[str], unit: str, dist: TorusMixture | None = None, panel: float = 1.75
) -> Figure:
    """All pairs of angles (n, D), and the densities of a distribution, in panels of so many inches."""
    from mgvm.plots import torus_pairs

    side = panel * len(names) + 0.4
    return draw_figure(lambda made: torus_pairs(angles, dist, fig=made, names=names, unit=unit), (side, side))


def common_unit(units: Sequence[Unit]) -> str:
    """The unit of the axes where several angles share them: theirs, or degrees."""
    names = {unit.name for unit in units}
    return names.pop() if len(names) == 1 else "degrees"


def label_input(column: InputColumn) -> str:
    """An input with its unit, for an axis."""
    return f"{column.name} ({column.meaning})" if column.meaning else column.name
