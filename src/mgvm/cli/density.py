"""The command ``mgvm density``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm._progress import ProgressLine
from mgvm.cli import options, output
from mgvm.tables.columns import RefusedError
from mgvm.workflows.options import DensityOptions

if TYPE_CHECKING:
    from mgvm.workflows.results import DensityResult

_EXAMPLES = """examples:
  mgvm density residues.csv --angles phi psi chi1 --out rows.csv --report report.html
  mgvm density arrivals.csv --angles at --components 3          (time stamps: the density of the time of day)
  mgvm density residues.csv --angles phi psi --samples 1000 --samples-out draws.csv --save rama.mgvm
  mgvm density others.csv --load rama.mgvm --out scored.csv
"""


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser = options.add_command(
        commands,
        "density",
        help="estimate the joint density of the angles in a file; score rows, find components, draw samples",
        description="Estimate the joint density of angles in a CSV or Parquet file by a mixture on the circle or\n"
        "torus, compare it with simpler distributions on held-out rows, and give every row its log density and\n"
        "its component.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="CSV (also .gz, .bz2, .xz, .zip) or Parquet")
    options.add_workflow_flags(parser, DensityOptions)
    parser.add_argument("--samples-out", type=Path, metavar="FILE", help="write the draws as CSV or Parquet")
    options.add_file_flags(parser, "the rows with their log densities and components")
    return parser


def run(call: argparse.Namespace) -> int:
    """Run it."""
    given = options.parse_options(call, DensityOptions)
    if call.samples_out is not None and not given.get("samples"):
        raise RefusedError("--samples-out needs a number of samples, say --samples 1000")
    options.check_outputs(call, call.samples_out)
    with ProgressLine("a first run also compiles the numerics") as progress:
        result = _result(call, given, progress)
        progress(0, 0, "writing")
        draws = {} if call.samples_out is None else {"samples_out": (call.samples_out, result.samples)}
        written = output.write(result, call, draws)
    tables = {"components": result.components}
    if result.samples is not None and call.samples_out is None:
        tables["samples"] = result.samples
    output.show(result, call, written, tables)
    return 0


def _result(call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine) -> DensityResult:
    progress(0, 0, f"reading {call.data}")
    table = options.read(call.data, call)
    progress(0, 0, "loading what the work needs")
    # Heavy: a file that cannot be read should not wait for it.
    from mgvm.workflows.density import apply_density, run_density

    if call.load is None:
        return run_density(table, DensityOptions(**given), source=str(call.data), progress=progress)
    samples, seed = given.get("samples", 0), given.get("seed", 0)
    return apply_density(call.load, table, samples=samples, source=str(call.data), seed=seed, progress=progress)
