"""The command ``mgvm demo``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mgvm.cli import _experiments


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="flights, residues, wind, tides, a moving body: fit, predict, print tables, write figures",
        description="Fit von Mises, wrapped normal, projected normal and GvM of order 1 to 8 to the time of day of "
        "flights from New York, weekdays and weekends apart; learn the density of the angles phi, psi and chi1 of "
        "residues in proteins; predict the direction of the wind over Europe at 300 points of a grid from 300 others, "
        "and the times of high water at 28 ports around the British Isles from 57 others; take the noise out of the "
        "joints of a moving leg. Prints tables; writes them as CSV, and figures as PNG.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("mgvm-demo"), metavar="DIR", help="where to write (default: mgvm-demo)"
    )
    parser.add_argument("--force", action="store_true", help="replace files in the way that the demo did not make")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run it."""
    from mgvm.experiments import demo

    return _experiments.run(lambda progress: demo.run(options.out, force=options.force, report=progress), "the demo")
