"""The commands: of every workflow its texts, its own flags, and the way from a call to what is written and printed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm._progress import ProgressLine
from mgvm.cli import options, output
from mgvm.tables.columns import RefusedError
from mgvm.workflows.options import DensityOptions, PCAOptions, RegressionOptions, WorkflowOptions

if TYPE_CHECKING:
    import pandas as pd

    from mgvm.workflows.results import RegressionResult, WorkflowResult

EXIT_CODES = (
    "exit codes: 0 done; 1 failed; 2 the call was wrong or would have replaced a file; 3 the data cannot be used as "
    "asked; 130 stopped with Ctrl-C"
)


class Command:
    """A workflow on the command line."""

    name: str
    asked: type[WorkflowOptions]
    help: str
    description: str
    examples: str
    written: str  # by --out
    nargs: str | None = None  # of DATA

    def add(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Add the command's own parser, whose description and examples keep their lines."""
        parser = commands.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            epilog=f"{self.examples}\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(run=self.run)
        told = "CSV (also .gz, .bz2, .xz, .zip) or Parquet"
        parser.add_argument("data", type=Path, nargs=self.nargs, metavar="DATA", help=told)
        options.add_workflow_flags(parser, self.asked)
        self._add_own_flags(parser)
        options.add_file_flags(parser, self.written)

    def run(self, call: argparse.Namespace) -> None:
        """Read, work, write and print."""
        given = options.parse_options(call, self.asked)
        self._check(call, given)
        options.check_outputs(call)
        with ProgressLine("a first run also compiles the numerics") as progress:
            result = self._result(call, given, progress)
            progress(0, 0, "writing")
            written = output.write(result, call)
        output.show(result, call, written, self._columns(result))

    def _result(self, call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine) -> WorkflowResult:
        tables = []
        for path in self._paths(call):
            progress(0, 0, f"reading {path}")
            tables.append(options.read(path, call))
        # Heavy: a file that cannot be read should not wait for it.
        progress(0, 0, "loading what the work needs")
        return self._work(call, given, progress, *tables)

    def _work(
        self, call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine, table: pd.DataFrame
    ) -> WorkflowResult:
        """Fit to a table, or use a saved model on it."""
        raise NotImplementedError

    # ---- what some commands have besides --------------------------------------------------------------------------

    def _add_own_flags(self, parser: argparse.ArgumentParser) -> None:
        """Flags that are no options of the workflow."""

    def _check(self, call: argparse.Namespace, given: dict[str, Any]) -> None:
        """Refuse what is wrong with the call as a whole."""

    def _paths(self, call: argparse.Namespace) -> list[Path]:
        """The tables to be read."""
        return [call.data]

    def _columns(self, result: Any) -> list[str] | None:
        """Which columns of the predictions are printed; None for all."""
        return None


class Regression(Command):
    """``mgvm regress``."""

    name, asked, nargs = "regress", RegressionOptions, "?"
    help = "predict an angle from other columns of a file, with highest-density regions of 50 and 90 percent"
    description = """Predict an angle from other columns of a CSV or Parquet file by a Gaussian process for angles,
compare it with other models on held-out rows, and give mean direction, concentration and the
highest-density regions (HDR) of 50 and 90 percent (several arcs where there are several modes), in the
unit of the column."""
    examples = """examples:
  mgvm regress wind.csv --angle dir --inputs lon lat --unit compass --out predictions.csv --report report.html
  mgvm regress rides.csv.gz --angle pickup --inputs when --time-as days  (time stamps; the angle is the time of day)
  mgvm regress wind.csv --angle dir --inputs lon lat --predict grid.csv --out map.parquet --save wind.mgvm
  mgvm regress grid.csv --load wind.mgvm --out map.csv
"""
    written = "the predictions"

    def _add_own_flags(self, parser: argparse.ArgumentParser) -> None:
        told = "predict at the rows of this file (default: of DATA)"
        parser.add_argument("--predict", type=Path, metavar="NEW", help=told)

    def _check(self, call: argparse.Namespace, given: dict[str, Any]) -> None:
        if call.load is None:
            options.require(call, {"--inputs": bool(given.get("inputs") or given.get("circular_inputs"))})
        elif (call.data is None) == (call.predict is None):
            raise RefusedError("give one file to predict at: DATA or --predict")

    def _paths(self, call: argparse.Namespace) -> list[Path]:
        return [path for path in (call.data, call.predict) if path is not None]

    def _work(
        self,
        call: argparse.Namespace,
        given: dict[str, Any],
        progress: ProgressLine,
        table: pd.DataFrame,
        other: pd.DataFrame | None = None,
    ) -> WorkflowResult:
        from mgvm.workflows.regression import apply_regression, run_regression

        if call.load is not None:
            source, seed = str(call.data or call.predict), given.get("seed", 0)
            return apply_regression(call.load, table, source=source, seed=seed, progress=progress)
        return run_regression(
            table,
            RegressionOptions(**given),
            predict=other,
            source=str(call.data),
            predict_source=str(call.predict),
            progress=progress,
        )

    def _columns(self, result: RegressionResult) -> list[str]:
        ends = ("mean", "resultant_length", "hdr50_arcs", "hdr90_arcs")
        return [*result.inputs.names, *(f"{result.angle}_{end}" for end in ends)]


class Density(Command):
    """``mgvm density``."""

    name, asked = "density", DensityOptions
    help = "estimate the joint density of the angles in a file; score rows, find components, draw samples"
    description = """Estimate the joint density of angles in a CSV or Parquet file by a mixture on the circle or
torus, compare it with simpler distributions on held-out rows, and give every row its log density and
its component."""
    examples = """examples:
  mgvm density residues.csv --angles phi psi chi1 --out rows.csv --report report.html
  mgvm density arrivals.csv --angles at --components 3          (time stamps: the density of the time of day)
  mgvm density residues.csv --angles phi psi --samples 1000 --samples-out draws.csv --save rama.mgvm
  mgvm density others.csv --load rama.mgvm --out scored.csv
"""
    written = "the rows with their log densities and components"

    def _add_own_flags(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--samples-out", type=Path, metavar="FILE", help="write the draws as CSV or Parquet")

    def _check(self, call: argparse.Namespace, given: dict[str, Any]) -> None:
        if call.samples_out is not None and not given.get("samples"):
            raise RefusedError("--samples-out needs a number of samples, say --samples 1000")

    def _work(
        self, call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine, table: pd.DataFrame
    ) -> WorkflowResult:
        from mgvm.workflows.density import apply_density, run_density

        source = str(call.data)
        if call.load is None:
            return run_density(table, DensityOptions(**given), source=source, progress=progress)
        samples, seed = given.get("samples", 0), given.get("seed", 0)
        return apply_density(call.load, table, samples=samples, source=source, seed=seed, progress=progress)


class PCA(Command):
    """``mgvm pca``."""

    name, asked = "pca", PCAOptions
    help = "find the angles behind columns of numbers; take noise out, fill gaps"
    description = """Find latent angles behind the numbers in a CSV or Parquet file by circular PCA, compare it with
probabilistic PCA on held-out rows, and give every row its angles, its columns without noise (gaps filled
in) and its log-likelihood."""
    examples = """examples:
  mgvm pca markers.csv --columns x1 y1 x2 y2 x3 y3 --components 3 --structure tree --out angles.csv
  mgvm pca genes.parquet --columns a b c d --components 1 --scale --report report.html --save cycle.mgvm
  mgvm pca more.csv --load cycle.mgvm --out phases.csv
"""
    written = "the rows with their angles and without their noise"

    def _work(
        self, call: argparse.Namespace, given: dict[str, Any], progress: ProgressLine, table: pd.DataFrame
    ) -> WorkflowResult:
        from mgvm.workflows.pca import apply_pca, run_pca

        source = str(call.data)
        if call.load is None:
            return run_pca(table, PCAOptions(**given), source=source, progress=progress)
        unit, seed = given.get("unit"), given.get("seed", 0)
        return apply_pca(call.load, table, unit=unit, source=source, seed=seed, progress=progress)
