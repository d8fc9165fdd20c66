"""The command ``mgvm density``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.cli import _options, _output
from mgvm.cli._progress import Progress
from mgvm.tables.columns import RefusedError

if TYPE_CHECKING:
    from mgvm.workflows.results import DensityResult

# As in mgvm.mixture.estimator, which is too heavy to import for a help text.
FAMILIES = ("auto", "mgvm", "directed", "directed_von_mises", "von_mises", "wrapped_normal")

_EXAMPLES = """examples:
  mgvm density residues.csv --angles phi psi chi1 --out rows.csv --report report.html
  mgvm density arrivals.csv --angles at --components 3          (time stamps: the density of the time of day)
  mgvm density residues.csv --angles phi psi --samples 1000 --samples-out draws.csv --save rama.mgvm
  mgvm density others.csv --load rama.mgvm --out scored.csv
"""


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser = _options.parser_of(
        commands,
        "density",
        help="learn the joint density of the angles in a file; score rows, find groups, draw samples",
        description="Learn the joint density of angles in a CSV or Parquet file by a mixture on the circle or torus,\n"
        "compare it with simpler distributions on rows left out, and give every row its log density and its component.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="CSV (also .gz, .bz2, .xz, .zip) or Parquet")
    parser.add_argument("--angles", nargs="+", metavar="COLUMN", default=[], help="the columns of angles")
    parser.add_argument(
        "--unit",
        choices=_options.UNITS,
        help="of the angles (default: degrees; hours for time stamps); compass is degrees clockwise from north",
    )
    parser.add_argument("--components", metavar="K", help="how many components, or auto (the default)")
    parser.add_argument("--component", choices=FAMILIES, help="the family of the components (default: auto)")
    parser.add_argument("--samples", type=int, default=0, metavar="N", help="draw so many rows from the density")
    parser.add_argument("--samples-out", type=Path, metavar="FILE", help="write the draws as CSV or Parquet")
    _options.add_file_options(parser)
    _options.add_output_options(parser, "the rows with their log densities and components")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run it."""
    from mgvm.cli._saved import density_notes

    seed = _options.whole_seed(options)
    _check(options)
    _options.check_outputs(options, options.samples_out)
    with Progress("a first run also compiles the numerics") as progress:
        result = _fitted(options, seed, progress) if options.load is None else _applied(options, seed, progress)
        tables = {} if options.out is None else {"out": (options.out, result.predictions)}
        if options.samples_out is not None and result.samples is not None:
            tables["samples_out"] = (options.samples_out, result.samples)
        progress("writing")
        written = _output.write(result, options, density_notes(result), tables)
    extra: dict[str, Any] = {"components": result.components}
    if options.out is None:
        extra["predictions"] = result.predictions
    if result.samples is not None and options.samples_out is None:
        extra["samples"] = result.samples
    _output.show(result, options, written, extra)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.load is None:
        _options.require(options, {"--angles": options.angles})
    else:
        shape = {"--angles": options.angles, "--unit": options.unit, "--components": options.components}
        _options.refuse_with_load(options, shape | {"--component": options.component})
    if options.samples < 0:
        raise RefusedError(f"--samples must be 0 or more, got {options.samples}")
    if options.samples_out is not None and not options.samples:
        raise RefusedError("--samples-out needs a number of samples, say --samples 1000")
    _options.whole_or_auto(options.components, "--components")


def _fitted(options: argparse.Namespace, seed: int, progress: Progress) -> DensityResult:
    progress(f"reading {options.data}")
    frame = _options.read(options.data, options)
    progress("loading what the work needs")
    from mgvm.workflows.density import run_density  # heavy: a file that cannot be read should not wait for it

    return run_density(
        frame,
        options.angles,
        unit=options.unit,
        components=_options.whole_or_auto(options.components, "--components"),
        component=options.component or "auto",
        samples=options.samples,
        compare=not options.no_compare,
        seed=seed,
        source=str(options.data),
        report=progress,
    )


def _applied(options: argparse.Namespace, seed: int, progress: Progress) -> DensityResult:
    from mgvm.cli._saved import saved
    from mgvm.tables.columns import Unit
    from mgvm.workflows.saved import density_with

    model, notes = saved(options.load, "density")
    return density_with(
        model,
        _options.read(options.data, options),
        angles=tuple(notes["angles"]),
        units=tuple(Unit(**unit) for unit in notes["units"]),
        samples=options.samples,
        seed=seed,
        source=str(options.data),
        report=progress,
    )
