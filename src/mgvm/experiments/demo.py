"""The demo: fit, draw, and write a figure and a table."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import mgvm
from mgvm.experiments import _output
from mgvm.experiments.time_of_day import Fit, Report, fit_laws, silent

FIGURE = "uber_time_of_day.png"
TABLE = "uber_time_of_day.csv"


@dataclass(frozen=True)
class DemoResult:
    """What the demo found and what it wrote."""

    fits: list[Fit]
    written: list[Path]
    replaced: list[Path]


def as_csv(fits: list[Fit]) -> bytes:
    """The table as CSV under one comment line, which also marks the file as ours."""
    text = io.StringIO(newline="")
    text.write(
        f"# {_output.MARK}, mgvm {mgvm.__version__}: maximum-likelihood fits to the time of day of Uber pick-ups\n"
    )
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["days", "law", "parameters", "rides", "log_likelihood_per_ride", "aic", "bic"])
    for fit in fits:
        scores = (f"{fit.per_ride:.9f}", f"{fit.aic:.3f}", f"{fit.bic:.3f}")
        rows.writerow([fit.group, fit.name, fit.n_parameters, fit.n_rides, *scores])
    return text.getvalue().encode()


def run(folder: Path, *, force: bool = False, report: Report = silent) -> DemoResult:
    """Fit, draw, and write figure and table into `folder`.

    Raises
    ------
    RefusedError
        Before any work, when a file in the way was not made by the demo and `force` is false.
    """
    from mgvm.experiments import _demo_figure

    _output.check(folder, (FIGURE, TABLE), force=force)
    fits = fit_laws(report)
    report("drawing the figure")
    figure = _demo_figure.draw(fits)
    replaced = _output.check(folder, (FIGURE, TABLE), force=force)
    written = _output.write(
        folder,
        {
            FIGURE: lambda file: _demo_figure.save(figure, file),
            TABLE: lambda file: file.write(as_csv(fits)),
        },
    )
    return DemoResult(fits, written, replaced)
