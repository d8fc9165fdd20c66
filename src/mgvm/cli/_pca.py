"""The command ``mgvm pca``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.cli import _options, _output
from mgvm.cli._progress import Progress
from mgvm.tables.columns import RefusedError

if TYPE_CHECKING:
    from mgvm.workflows.results import PcaResult

# As in mgvm.pca.estimator, which is too heavy to import for a help text.
STRUCTURES = ("none", "tree", "auto")
PRIORS = ("von_mises", "uniform", "mixture", "kernel", "auto")
METHODS = ("point", "vb")

_EXAMPLES = """examples:
  mgvm pca markers.csv --columns x1 y1 x2 y2 x3 y3 --components 3 --structure tree --out angles.csv
  mgvm pca genes.parquet --columns a b c d --components 1 --scale --report report.html --save cycle.mgvm
  mgvm pca more.csv --load cycle.mgvm --out phases.csv
"""


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser = _options.parser_of(
        commands,
        "pca",
        help="find the angles behind columns of numbers; take noise out, fill gaps",
        description="Find latent angles behind the numbers in a CSV or Parquet file by circular PCA, compare it with\n"
        "probabilistic PCA on rows left out, and give every row its angles, its columns without noise (gaps filled\n"
        "in) and its log-likelihood.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="CSV (also .gz, .bz2, .xz, .zip) or Parquet")
    parser.add_argument("--columns", nargs="+", metavar="COLUMN", default=[], help="the columns of numbers")
    parser.add_argument("--components", type=int, metavar="D", help="how many angles (default: 1)")
    parser.add_argument("--unit", choices=_options.UNITS, help="of the angles that come out (default: degrees)")
    parser.add_argument("--scale", action="store_true", help="divide each column by its standard deviation first")
    parser.add_argument("--structure", choices=STRUCTURES, help="rigid links between markers x1 y1 x2 y2 ... (tree)")
    parser.add_argument(
        "--prior",
        choices=PRIORS,
        help="distribution of the angles (default: kernel; von_mises for few rows or very many)",
    )
    parser.add_argument("--method", choices=METHODS, help="maximum likelihood (point) or variational Bayes (vb)")
    _options.add_file_options(parser)
    _options.add_output_options(parser, "the rows with their angles and without their noise")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run it."""
    from mgvm.cli._saved import pca_notes

    seed = _options.whole_seed(options)
    _check(options)
    _options.check_outputs(options)
    with Progress("a first run also compiles the numerics") as progress:
        result = _fitted(options, seed, progress) if options.load is None else _applied(options, seed, progress)
        tables = {} if options.out is None else {"out": (options.out, result.predictions)}
        progress("writing")
        written = _output.write(result, options, pca_notes(result), tables)
    whole = options.out is not None
    _output.show(result, options, written, {} if whole else {"predictions": result.predictions})
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.load is None:
        _options.require(options, {"--columns": options.columns})
        if options.components is not None and options.components < 1:
            raise RefusedError(f"--components must be a whole number from 1, got {options.components}")
        return
    shape = {"--columns": options.columns, "--components": options.components, "--structure": options.structure}
    shape |= {"--prior": options.prior, "--method": options.method, "--scale": options.scale or None}
    _options.refuse_with_load(options, shape)


def _fitted(options: argparse.Namespace, seed: int, progress: Progress) -> PcaResult:
    progress(f"reading {options.data}")
    frame = _options.read(options.data, options)
    progress("loading what the work needs")
    from mgvm.workflows.pca import run_pca  # heavy: a file that cannot be read should not wait for it

    return run_pca(
        frame,
        options.columns,
        options.components or 1,
        unit=options.unit or "degrees",
        scale=options.scale,
        structure=options.structure,
        prior=options.prior,
        method=options.method,
        compare=not options.no_compare,
        seed=seed,
        source=str(options.data),
        report=progress,
    )


def _applied(options: argparse.Namespace, seed: int, progress: Progress) -> PcaResult:
    import numpy as np

    from mgvm.cli._saved import saved
    from mgvm.tables.columns import Unit
    from mgvm.workflows.saved import pca_with

    model, notes = saved(options.load, "pca")
    return pca_with(
        model,
        _options.read(options.data, options),
        columns=tuple(notes["columns"]),
        unit=Unit(options.unit) if options.unit else Unit(**notes["unit"]),
        scales=(np.array(notes["center"], dtype=float), np.array(notes["spread"], dtype=float)),
        seed=seed,
        source=str(options.data),
        report=progress,
    )
