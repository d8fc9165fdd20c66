"""Results of jobs as text, as JSON, and as files."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from mgvm.workflows.results import Comparison, JobResult

_SHOWN = 5
_REPORTS = {"regress": "regression_report", "density": "density_report", "pca": "pca_report"}
_WIDE = 100


def write(
    result: JobResult,
    options: argparse.Namespace,
    notes: Mapping[str, Any],
    tables: Mapping[str, tuple[Path, pd.DataFrame]],
) -> dict[str, str]:
    """Write what was asked for; what was written, by option."""
    import mgvm
    from mgvm import report
    from mgvm.tables.writing import write_table

    written = {}
    for name, (path, frame) in tables.items():
        written[name] = str(write_table(frame, path, force=options.force))
    if options.report is not None:
        page = getattr(report, _REPORTS[options.command])(result)
        page.write(options.report, force=options.force)
        written["report"] = str(options.report)
    if options.save is not None:
        written["save"] = str(mgvm.save(result.model, options.save, force=options.force, notes=notes))
    return written


def show(
    result: JobResult,
    options: argparse.Namespace,
    written: Mapping[str, str],
    extra: Mapping[str, Any],
    short: Sequence[str] = (),
) -> None:
    """Print a result: one JSON object, or text with warnings on the error stream.

    Tables in `extra` are printed as well, in text their first rows, and of predictions the columns in `short`.
    """
    if options.json:
        print(json.dumps(_object(result, options, written, extra), allow_nan=False, ensure_ascii=False, indent=1))
        return
    for text in result.warnings:
        print(f"mgvm {options.command}: warning: {text}", file=sys.stderr)
    tables = {name: frame[list(short)] if short and name == "predictions" else frame for name, frame in extra.items()}
    print("\n".join(_text(result, options, tables)))
    for path in written.values():
        print(f"wrote {path}")


# ---- text -----------------------------------------------------------------------------------------------------------


def _text(result: JobResult, options: argparse.Namespace, extra: Mapping[str, Any]) -> list[str]:
    data = result.data
    learnt = "" if options.load is not None else f", {data.used:,} learnt from"
    lines = [f"{data.source}: {data.rows:,} rows{learnt}", *_columns(result), *(f"  {note}" for note in data.notes), ""]
    lines += [line for sentence in result.sentences for line in textwrap.wrap(sentence, _WIDE)] + [""]
    if result.parameters:
        width = max(len(parameter.name) for parameter in result.parameters)
        lines += [f"  {p.name:{width}}  {p.value}  ({p.meaning})" for p in result.parameters] + [""]
    if result.comparison is not None:
        lines += [*_scores(result.comparison), ""]
    for name, frame in extra.items():
        lines += [*_head(name, frame), ""]
    return [*lines, f"seed {result.seed}, {result.seconds:.1f} s"]


def _columns(result: JobResult) -> list[str]:
    width = max(len(column.name) for column in result.data.columns)
    lines = []
    for column in result.data.columns:
        missing = f", {column.missing:,} missing" if column.missing else ""
        unit = f" {column.unit}" if column.unit else ""
        lines.append(
            f"  {column.name:{width}}  {column.role}, {column.smallest:.6g} to {column.largest:.6g}{unit}{missing}"
        )
    return lines


def _scores(comparison: Comparison) -> list[str]:
    measures = list(comparison.scores[0].measures)
    header = ["", "log density, nats", "behind the best", *measures]
    rows = [header]
    for score in comparison.scores:
        behind = "" if score.best else f"{score.behind:.3f} ± {score.behind_error:.3f}"
        name = ("> " if score.ours else "  ") + score.name + ("" if score.settled else " (not settled)")
        values = [f"{score.measures[measure]:.4g}" for measure in measures]
        rows.append([name, f"{score.log_density:.3f} ± {score.standard_error:.3f}", behind, *values])
    widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
    how = comparison.how[:1].upper() + comparison.how[1:] + "."
    return [
        how,
        *(
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
            ).rstrip()
            for row in rows
        ),
    ]


def _head(name: str, frame: pd.DataFrame) -> list[str]:
    """The first rows of a table."""
    title = f"{name}, the first {_SHOWN} of {len(frame):,} rows:" if len(frame) > _SHOWN else f"{name}:"
    text = frame.head(_SHOWN).to_string(index=False, max_cols=12, na_rep="")
    return [title, *(f"  {line}" for line in text.splitlines())]


# ---- JSON -----------------------------------------------------------------------------------------------------------


def _object(
    result: JobResult, options: argparse.Namespace, written: Mapping[str, str], extra: Mapping[str, Any]
) -> Any:
    import dataclasses

    comparison, calibration = result.comparison, result.calibration
    return plain(
        {
            "command": options.command,
            "data": dataclasses.asdict(result.data),
            "summary": result.sentences,
            "parameters": {parameter.name: parameter.value for parameter in result.parameters},
            "comparison": comparison and dataclasses.asdict(comparison),
            "calibration": calibration
            and {"what": calibration.what, "masses": calibration.masses, "shares": calibration.shares},
            **extra,
            "warnings": result.warnings,
            "written": written,
            "seed": result.seed,
            "seconds": round(result.seconds, 3),
            "versions": result.versions,
        }
    )


def plain(value: Any) -> Any:
    """What JSON can hold: no NaN, no infinity, no arrays; tables as lists of rows."""
    if hasattr(value, "to_dict"):
        return [plain(row) for row in value.to_dict(orient="records")]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, (bool, int, str)) else _word(value)


def _word(value: Any) -> str | None:
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)
