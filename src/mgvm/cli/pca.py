"""The command ``mgvm pca``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm._progress import ProgressLine
from mgvm.cli import options, output
from mgvm.workflows.options import PCAOptions

if TYPE_CHECKING:
    from mgvm.workflows.results import PCAResult

_EXAMPLES = """examples:
  mgvm pca markers.csv --columns x1 y1 x2 y2 x3 y3 --components 3 --structure tree --out angles.csv
  mgvm pca genes.parquet --columns a b c d --components 1 --scale --report report.html --save cycle.mgvm
  mgvm pca more.csv --load cycle.mgvm --out phases.csv
"""


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser = options.add_command(
        commands,
        "pca",
        help="find the angles behind columns of numbers; take noise out, fill gaps",
        description="Find latent angles behind the numbers in a CSV or Parquet file by circular PCA, compare it with\n"
        "probabilistic PCA on held-out rows, and give every row its angles, its columns without noise (gaps filled\n"
        "in) and its log-likelihood.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="CSV (also .gz, .bz2, .xz, .zip) or Parquet")
    options.add_workflow_flags(parser, PCAOptions)
    options.add_file_flags(parser, "the rows with their angles and without their noise")
    return parser


def run(call: argparse.Namespace) -> int:
    """Run it."""
    given = options.parse_options(call, PCAOptions)
    options.check_outputs(call)
    with ProgressLine("a first run also compiles the numerics") as progress:
        result = _result(call, given, progress)
        progress(0, 0, "writing")
        written = output.write(result, call)
    output.show(result, call, written)
    return 0


def _result(call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine) -> PCAResult:
    progress(0, 0, f"reading {call.data}")
    table = options.read(call.data, call)
    progress(0, 0, "loading what the work needs")
    # Heavy: a file that cannot be read should not wait for it.
    from mgvm.workflows.pca import apply_pca, run_pca

    if call.load is None:
        return run_pca(table, PCAOptions(**given), source=str(call.data), progress=progress)
    unit, seed = given.get("unit"), given.get("seed", 0)
    return apply_pca(call.load, table, unit=unit, source=str(call.data), seed=seed, progress=progress)
