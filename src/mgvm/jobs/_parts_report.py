"""Sections that the reports of all jobs share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mgvm.jobs._figures_report import drawn
from mgvm.jobs.results import Calibration, Comparison, DataRead, JobResult, Score
from mgvm.pages import Page

if TYPE_CHECKING:
    import pandas as pd

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
