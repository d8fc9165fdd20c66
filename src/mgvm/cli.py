"""The command ``mgvm``: parse, call, print.

Exit codes: 0 done, 1 failed, 2 the call was wrong or would have destroyed a file, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import mgvm

if TYPE_CHECKING:
    from mgvm.experiments._experiment import Outcome

# As in mgvm.experiments.reproduce, which is too heavy to import for a help text.
_EXPERIMENTS = ("figure1", "gibbs-vs-vi", "table1", "table2")
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
        help="times of day, angles of proteins, wind and tides: fit laws and regressions, print tables, write figures",
        description="Fit von Mises, wrapped normal, projected normal and GvM of order 1 to 6 to the time of day of "
        "564,516 Uber pick-ups, weekdays and weekends apart; learn the density of the angles phi, psi and chi1 of "
        "aspartate in proteins; predict the direction of the wind at 52 German stations from 208 others, and the times "
        "of tides at 25 English ports from 26 others. Prints tables; writes them as CSV, and figures as PNG.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("mgvm-demo"), metavar="DIR", help="where to write (default: mgvm-demo)"
    )
    demo.add_argument("--force", action="store_true", help="replace files in the way that the demo did not make")
    reproduce = commands.add_parser(
        "reproduce",
        help="do experiments of the paper again; print tables, write figures",
        description="Do an experiment of the paper again: figure1, the best approximations of a bimodal law of two "
        "angles; gibbs-vs-vi, the error of Gibbs sampling and of variational inference against time; table1, "
        "regressions on angles, ours and others, scored on held-out data; table2, noise taken out of moving markers by "
        "circular PCA and others (each minutes, far longer with --full); or all. "
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
    reproduce.add_argument(
        "--full",
        action="store_true",
        help="table1: 20 random splits instead of 3, 1,000 residues instead of "
        "150; table2: 5 seeds instead of 2, all motions, splits and models",
    )
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
            return _reproduce(options.experiment, options.out, options.force, options.full)
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
    from mgvm.experiments import demo

    return _run(lambda progress: demo.run(folder, force=force, report=progress), "demo", "the demo")


def _reproduce(experiment: str, folder: Path, force: bool, full: bool) -> int:
    from mgvm.experiments import reproduce

    names = _EXPERIMENTS if experiment == "all" else (experiment,)
    return _run(
        lambda progress: reproduce.run(names, folder, force=force, full=full, report=progress),
        "reproduce",
        "this command",
    )


def _run(work: Callable[[_Progress], Outcome], command: str, maker: str) -> int:
    """Do the work, print what it found and where it was written."""
    import matplotlib  # noqa: F401  missing extras are better found before the work than after it

    from mgvm.tables.errors import RefusedError

    try:
        with _Progress("a first run also compiles the numerics") as progress:
            result = work(progress)
    except RefusedError as error:
        print(f"mgvm {command}: {error}", file=sys.stderr)
        return 2
    for text in result.texts:
        print(text, end="\n\n")
    for path in result.written:
        print(f"wrote {path}" + (f", in place of a file that {maker} had not made" if path in result.replaced else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
