"""The command ``mgvm regress``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.cli import _options, _output
from mgvm.cli._progress import Progress
from mgvm.tables.columns import RefusedError

if TYPE_CHECKING:
    from mgvm.workflows.results import RegressResult

# As in mgvm.workflows.regression and mgvm.tables.times, which are too heavy to import for a help text.
KERNELS = ("auto", "rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic")
TIMES = ("hours", "days", "time-of-day")

_EXAMPLES = """examples:
  mgvm regress wind.csv --angle dir --inputs lon lat --unit compass --out predictions.csv --report report.html
  mgvm regress rides.csv.gz --angle pickup --inputs when --time-as days  (time stamps; the angle is the time of day)
  mgvm regress wind.csv --angle dir --inputs lon lat --predict grid.csv --out field.parquet --save wind.mgvm
  mgvm regress grid.csv --load wind.mgvm --out field.csv
"""


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser = _options.parser_of(
        commands,
        "regress",
        help="predict an angle from other columns of a file, with arcs that hold 50 and 90 percent",
        description="Learn an angle from other columns of a CSV or Parquet file by a Gaussian process for angles,\n"
        "compare it with other models on rows left out, and predict: mean direction, concentration, arcs that hold\n"
        "50 and 90 percent (several where the distribution has several peaks), in the unit of the column.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("data", nargs="?", type=Path, metavar="DATA", help="CSV (also .gz, .bz2, .xz, .zip) or Parquet")
    parser.add_argument("--angle", metavar="COLUMN", help="the column to predict; time stamps give their time of day")
    parser.add_argument("--inputs", nargs="+", metavar="COLUMN", default=[], help="the columns to predict it from")
    parser.add_argument(
        "--circular-inputs",
        nargs="+",
        metavar="COLUMN[:UNIT]",
        default=[],
        help="inputs that are angles themselves, in --unit or in a unit of their own: hour:hours",
    )
    parser.add_argument(
        "--unit",
        choices=_options.UNITS,
        help="of the angle (default: degrees; hours for time stamps); compass is degrees clockwise from north",
    )
    parser.add_argument("--time-as", choices=TIMES, help="what inputs that are time stamps stand for")
    parser.add_argument("--kernel", choices=KERNELS, help="how smoothly the angle changes (default: auto)")
    parser.add_argument("--period", type=float, metavar="P", help="of --kernel periodic, in the unit of the input")
    parser.add_argument("--peaks", metavar="K", help="around what the inputs tell: 2 for tides, or auto (the default)")
    parser.add_argument("--groups", metavar="COLUMN", help="leave out whole groups (days, stations) when comparing")
    parser.add_argument(
        "--predict", type=Path, metavar="NEW", help="predict at the rows of this file (default: of DATA)"
    )
    _options.add_file_options(parser)
    _options.add_output_options(parser, "the predictions")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run it."""
    from mgvm.cli._saved import regress_notes

    seed = _options.whole_seed(options)
    fixed = {"--angle": options.angle, "--inputs": options.inputs, "--circular-inputs": options.circular_inputs}
    if options.load is None:
        _options.require(options, {"DATA": options.data, "--angle": options.angle})
        _options.require(options, {"--inputs": options.inputs or options.circular_inputs})
    else:
        rest = {
            "--unit": options.unit,
            "--kernel": options.kernel,
            "--period": options.period,
            "--groups": options.groups,
            "--peaks": options.peaks,
        }
        _options.refuse_with_load(options, fixed | rest | {"--time-as": options.time_as})
        if (options.data is None) == (options.predict is None):
            raise RefusedError("give one file to predict at: DATA or --predict")
    _options.whole_or_auto(options.peaks, "--peaks")
    _options.check_outputs(options)
    with Progress("a first run also compiles the numerics") as progress:
        result = _fitted(options, seed, progress) if options.load is None else _applied(options, seed, progress)
        tables = {} if options.out is None else {"out": (options.out, result.predictions)}
        progress("writing")
        written = _output.write(result, options, regress_notes(result), tables)
    whole = options.out is not None
    _output.show(result, options, written, {} if whole else {"predictions": result.predictions}, _short(result))
    return 0


def _short(result: RegressResult) -> list[str]:
    """The columns of predictions that are shown on the screen."""
    ends = ("mean", "resultant_length", "50_arcs", "90_arcs")
    return [*result.inputs.names, *(f"{result.angle}_{end}" for end in ends)]


def _fitted(options: argparse.Namespace, seed: int, progress: Progress) -> RegressResult:
    progress(f"reading {options.data}")
    frame = _options.read(options.data, options)
    new = None if options.predict is None else _options.read(options.predict, options)
    progress("loading what the work needs")
    from mgvm.workflows.regression import run_regression  # heavy: a file that cannot be read should not wait for it

    return run_regression(
        frame,
        options.angle,
        options.inputs,
        unit=options.unit,
        kernel=options.kernel or "auto",
        period=options.period,
        circular_inputs=options.circular_inputs,
        time_as=options.time_as,
        groups=options.groups,
        peaks=_options.whole_or_auto(options.peaks, "--peaks"),
        predict=new,
        compare=not options.no_compare,
        seed=seed,
        source=str(options.data),
        predict_source=str(options.predict),
        report=progress,
    )


def _applied(options: argparse.Namespace, seed: int, progress: Progress) -> RegressResult:
    from mgvm.cli._saved import saved
    from mgvm.tables.columns import Unit
    from mgvm.workflows.inputs import Inputs
    from mgvm.workflows.saved import regress_with

    model, notes = saved(options.load, "regress")
    path = options.data or options.predict
    return regress_with(
        model,
        _options.read(path, options),
        angle=notes["angle"],
        unit=Unit(**notes["unit"]),
        inputs=Inputs.from_dict(notes["inputs"]),
        seed=seed,
        source=str(path),
        report=progress,
    )
