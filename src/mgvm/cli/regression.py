"""The command ``mgvm regress``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm._progress import ProgressLine
from mgvm.cli import options, output
from mgvm.tables.columns import RefusedError
from mgvm.workflows.options import RegressionOptions

if TYPE_CHECKING:
    from mgvm.workflows.results import RegressionResult

_EXAMPLES = """examples:
  mgvm regress wind.csv --angle dir --inputs lon lat --unit compass --out predictions.csv --report report.html
  mgvm regress rides.csv.gz --angle pickup --inputs when --time-as days  (time stamps; the angle is the time of day)
  mgvm regress wind.csv --angle dir --inputs lon lat --predict grid.csv --out map.parquet --save wind.mgvm
  mgvm regress grid.csv --load wind.mgvm --out map.csv
"""


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser = options.add_command(
        commands,
        "regress",
        help="predict an angle from other columns of a file, with highest-density regions of 50 and 90 percent",
        description="Predict an angle from other columns of a CSV or Parquet file by a Gaussian process for angles,\n"
        "compare it with other models on held-out rows, and give mean direction, concentration and the\n"
        "highest-density regions (HDR) of 50 and 90 percent (several arcs where there are several modes), in the\n"
        "unit of the column.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", nargs="?", type=Path, metavar="DATA", help="CSV (also .gz, .bz2, .xz, .zip) or Parquet")
    options.add_workflow_flags(parser, RegressionOptions)
    parser.add_argument(
        "--predict", type=Path, metavar="NEW", help="predict at the rows of this file (default: of DATA)"
    )
    options.add_file_flags(parser, "the predictions")
    return parser


def run(call: argparse.Namespace) -> int:
    """Run it."""
    given = options.parse_options(call, RegressionOptions)
    if call.load is None:
        options.require(call, {"--inputs": bool(given.get("inputs") or given.get("circular_inputs"))})
    elif (call.data is None) == (call.predict is None):
        raise RefusedError("give one file to predict at: DATA or --predict")
    options.check_outputs(call)
    with ProgressLine("a first run also compiles the numerics") as progress:
        result = _result(call, given, progress)
        progress(0, 0, "writing")
        written = output.write(result, call)
    ends = ("mean", "resultant_length", "hdr50_arcs", "hdr90_arcs")
    output.show(result, call, written, columns=[*result.inputs.names, *(f"{result.angle}_{end}" for end in ends)])
    return 0


def _result(call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine) -> RegressionResult:
    path = call.data or call.predict
    progress(0, 0, f"reading {path}")
    table = options.read(path, call)
    new = None if call.load is not None or call.predict is None else options.read(call.predict, call)
    progress(0, 0, "loading what the work needs")
    # Heavy: a file that cannot be read should not wait for it.
    from mgvm.workflows.regression import apply_regression, run_regression

    if call.load is not None:
        return apply_regression(call.load, table, source=str(path), seed=given.get("seed", 0), progress=progress)
    return run_regression(
        table,
        RegressionOptions(**given),
        predict=new,
        source=str(path),
        predict_source=str(call.predict),
        progress=progress,
    )
