"""Results of workflows as files, as text, and as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from mgvm.workflows.results import Comparison, WorkflowResult


_FLAGS = {"predictions": "out", "samples": "samples_out"}  # that write tables of a result


def write(result: WorkflowResult, call: argparse.Namespace) -> dict[str, str]:
    """Write what was asked for; what was written, by flag."""
    from mgvm import report
    from mgvm.tables.writing import write_table

    paths = {name: getattr(call, flag, None) for name, flag in _FLAGS.items()}
    written = {
        _FLAGS[name]: str(write_table(getattr(result, name), path, force=call.force))
        for name, path in paths.items()
        if path is not None
    }
    if call.report is not None:
        page = getattr(report, f"{result.workflow}_report")(result)
        written["report"] = str(page.write(call.report, force=call.force))
    if call.save is not None:
        written["save"] = str(result.save(call.save, force=call.force))
    return written


def show(
    result: WorkflowResult, call: argparse.Namespace, written: Mapping[str, str], columns: Sequence[str] | None
) -> None:
    """Print a result: one JSON object, or text with warnings on the error stream.

    Tables that were not written are printed as well; in text their first rows, and of the predictions the given
    columns.
    """
    tables = {name: getattr(result, name, None) for name in ("components", "samples", "predictions")}
    shown = {name: frame for name, frame in tables.items() if frame is not None and _FLAGS.get(name) not in written}
    if call.json:
        print(
            json.dumps(
                _as_json(_describe(result, call, written) | shown), allow_nan=False, ensure_ascii=False, indent=1
            )
        )
        return
    for text in result.warnings:
        print(f"mgvm {call.command}: warning: {text}", file=sys.stderr)
    if columns is not None and "predictions" in shown:
        shown["predictions"] = shown["predictions"][list(columns)]
    print("\n".join(_lines(result, call, shown)))
    for path in written.values():
        print(f"wrote {path}")


# ---- text -----------------------------------------------------------------------------------------------------------


def text_table(rows: Sequence[Sequence[str]], align: str = "") -> list[str]:
    """Rows of texts in columns; `align` has an l or an r for each, and ends with that of the rest (by default l)."""
    alignments = (align or "l").ljust(len(rows[0]), (align or "l")[-1])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = zip(row, widths, alignments, strict=True)
        lines.append("  ".join(cell.rjust(n) if side == "r" else cell.ljust(n) for cell, n, side in cells).rstrip())
    return lines


def _lines(result: WorkflowResult, call: argparse.Namespace, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    data = result.data
    training = "" if call.load is not None else f", {data.used:,} in the training set"
    lines = [f"{data.source}: {data.rows:,} rows{training}"]
    lines += _indent(text_table([[column.name, _describe_column(column)] for column in data.columns]))
    lines += [*_indent(data.notes), ""]
    lines += [line for sentence in result.sentences for line in textwrap.wrap(sentence, 100)] + [""]
    if result.parameters:
        rows = [[parameter.name, parameter.value, f"({parameter.meaning})"] for parameter in result.parameters]
        lines += [*_indent(text_table(rows)), ""]
    if result.comparison is not None:
        lines += [*_compare(result.comparison), ""]
    for name, frame in tables.items():
        lines += [*_head(name, frame), ""]
    return [*lines, f"seed {result.seed}, {result.seconds:.1f} s"]


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _describe_column(column: Any) -> str:
    unit = f" {column.unit}" if column.unit else ""
    missing = f", {column.missing:,} missing" if column.missing else ""
    return f"{column.role}, {column.smallest:.6g} to {column.largest:.6g}{unit}{missing}"


def _compare(comparison: Comparison) -> list[str]:
    """What the test set was, and a row for every model, ours with a mark."""
    measures = list(comparison.scores[0].measures)
    held_out = "held-out " if comparison.held_out else ""
    rows = [["", f"{held_out}log-likelihood", "difference to the best", *measures]]
    for score in comparison.scores:
        name = ("> " if score.ours else "  ") + score.name + ("" if score.converged else " (did not converge)")
        mean = f"{score.log_likelihood:.3f} ± {score.standard_error:.3f}"
        difference = "" if score.best else f"{score.difference:.3f} ± {score.difference_error:.3f}"
        rows.append([name, mean, difference, *(f"{score.measures[measure]:.4g}" for measure in measures)])
    how = comparison.how[:1].upper() + comparison.how[1:]
    slow = [sentence[:1].upper() + sentence[1:] for sentence in comparison.unconverged]
    return [f"{how} (nats per observation ± standard error).", *text_table(rows, align="lr"), *slow]


def _head(name: str, frame: pd.DataFrame, most: int = 5) -> list[str]:
    """The first rows of a table."""
    title = f"{name}, the first {most} of {len(frame):,} rows:" if len(frame) > most else f"{name}:"
    return [title, *_indent(frame.head(most).to_string(index=False, max_cols=12, na_rep="").splitlines())]


# ---- JSON -----------------------------------------------------------------------------------------------------------


def _describe(result: WorkflowResult, call: argparse.Namespace, written: Mapping[str, str]) -> dict[str, Any]:
    comparison, calibration = result.comparison, result.calibration
    return {
        "command": call.command,
        "data": dataclasses.asdict(result.data),
        "summary": result.sentences,
        "parameters": {parameter.name: parameter.value for parameter in result.parameters},
        "comparison": comparison and dataclasses.asdict(comparison),
        "calibration": calibration
        and {"what": calibration.what, "masses": calibration.masses, "shares": calibration.shares},
        "warnings": result.warnings,
        "written": written,
        "seed": result.seed,
        "seconds": round(result.seconds, 3),
        "versions": result.versions,
    }


def _as_json(value: Any) -> Any:
    """What JSON can hold: no NaN, no infinity, no arrays; tables as lists of rows."""
    if hasattr(value, "to_dict"):
        return [_as_json(row) for row in value.to_dict(orient="records")]
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _as_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return None if type(value).__name__ in ("NAType", "NaTType") else str(value)
