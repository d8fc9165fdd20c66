"""The command ``mgvm``: parse, call, print.

Exit codes: 0 done, 1 failed, 2 the call was wrong or would have destroyed a file, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import mgvm

if TYPE_CHECKING:
    from mgvm.experiments.demo import DemoResult
    from mgvm.experiments.time_of_day import Fit

# As in mgvm.experiments.reproduce, which is too heavy to import for a help text.
_EXPERIMENTS = ("figure1", "gibbs-vs-vi")
_PATIENCE = 2.0
_REMINDER = 10.0


class _Progress:
    """Says on standard error what is being done once it takes long: each step once, then a reminder now and then."""

    def __init__(self, note: str) -> None:
        self._text = "working"
        self._note = note
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def __call__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _speak(self) -> None:
        start = spoken = time.monotonic()
        said, note = "", f"; {self._note}"
        while not self._done.wait(_PATIENCE):
            text, now = self._text, time.monotonic()
            if text != said or now - spoken >= _REMINDER:
                print(f"... {text} ({now - start:.0f} s{note})", file=sys.stderr, flush=True)
                said, spoken, note = text, now, ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mgvm", description="Laws, inference and learning for data that are angles.")
    parser.add_argument("--version", action="version", version=f"mgvm {mgvm.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="command")
    demo = commands.add_parser(
        "demo",
        help="fit the circle laws to 564,516 Uber pick-ups; print a table, write a figure",
        description="Fit von Mises, wrapped normal, projected normal and GvM of order 1 to 6 to the time of day of "
        "564,516 Uber pick-ups, weekdays and weekends apart. Prints a table; writes it as CSV, and a figure as PNG.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("mgvm-demo"), metavar="DIR", help="where to write (default: mgvm-demo)"
    )
    demo.add_argument("--force", action="store_true", help="replace files in the way that the demo did not make")
    reproduce = commands.add_parser(
        "reproduce",
        help="do experiments of the paper again; print tables, write figures",
        description="Do an experiment of the paper again: figure1, the best approximations of a bimodal law of two "
        "angles; gibbs-vs-vi, the error of Gibbs sampling and of variational inference against time; or all of them. "
        "Prints tables; writes them as CSV, and figures as PNG.",
    )
    reproduce.add_argument("experiment", choices=(*_EXPERIMENTS, "all"), help="which one")
    reproduce.add_argument(
        "--out",
        type=Path,
        default=Path("mgvm-reproduce"),
        metavar="DIR",
        help="where to write (default: mgvm-reproduce)",
    )
    reproduce.add_argument("--force", action="store_true", help="replace files in the way that this did not make")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``mgvm``; taken from the command line by default.

    Examples
    --------
    >>> from mgvm.cli import main
    >>> main([])  # doctest: +ELLIPSIS
    usage: mgvm ...
    0
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        if options.command == "reproduce":
            return _reproduce(options.experiment, options.out, options.force)
        return _demo(options.out, options.force)
    except KeyboardInterrupt:
        print("\nmgvm: stopped; nothing was left half written", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("mgvm"):
            raise
        print(f'mgvm: {error.name} is not installed; the command line needs: pip install "mgvm[cli]"', file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has gone (`mgvm demo | head`); keep Python from failing on the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"mgvm: {error}", file=sys.stderr)
        return 1


def _demo(folder: Path, force: bool) -> int:
    import matplotlib  # noqa: F401  missing extras are better found before the work than after it

    from mgvm.experiments import demo
    from mgvm.experiments._output import RefusedError

    try:
        with _Progress("a first run also compiles the numerics") as progress:
            result = demo.run(folder, force=force, report=progress)
    except RefusedError as error:
        print(f"mgvm demo: {error}", file=sys.stderr)
        return 2
    _print_result(result)
    return 0


def _print_result(result: DemoResult) -> None:
    for group in dict.fromkeys(fit.group for fit in result.fits):
        print(_table([fit for fit in result.fits if fit.group == group]), end="\n\n")
    print("* best of its column. Log-likelihood in nats, density per radian; the uniform law has -1.837877.")
    _print_written(result.written, result.replaced, "the demo")


def _reproduce(experiment: str, folder: Path, force: bool) -> int:
    import matplotlib  # noqa: F401  missing extras are better found before the work than after it

    from mgvm.experiments import reproduce
    from mgvm.experiments._output import RefusedError

    names = _EXPERIMENTS if experiment == "all" else (experiment,)
    try:
        with _Progress("a first run also compiles the numerics") as progress:
            result = reproduce.run(names, folder, force=force, report=progress)
    except RefusedError as error:
        print(f"mgvm reproduce: {error}", file=sys.stderr)
        return 2
    for text in result.texts:
        print(text, end="\n\n")
    _print_written(result.written, result.replaced, "this command")
    return 0


def _print_written(written: list[Path], replaced: list[Path], maker: str) -> None:
    for path in written:
        print(f"wrote {path}" + (f", in place of a file that {maker} had not made" if path in replaced else ""))


def _table(fits: list[Fit]) -> str:
    """The fits to one group of days as aligned text, the best of each column marked with a star."""
    top, aic, bic = max(f.per_ride for f in fits), min(f.aic for f in fits), min(f.bic for f in fits)
    lines = [
        f"{fits[0].group.capitalize()}, {fits[0].n_rides:,} rides",
        f"  {'law':<18}{'parameters':>10}{'log-lik. per ride':>20}{'AIC':>15}{'BIC':>15}",
    ]
    lines += [
        f"  {fit.name:<18}{fit.n_parameters:>10}"
        f"{fit.per_ride:>18.6f}{_star(fit.per_ride == top)}"
        f"{fit.aic:>13,.1f}{_star(fit.aic == aic)}"
        f"{fit.bic:>13,.1f}{_star(fit.bic == bic)}".rstrip()
        for fit in fits
    ]
    return "\n".join(lines)


def _star(best: bool) -> str:
    return " *" if best else "  "


if __name__ == "__main__":
    sys.exit(main())
