"""The command ``mgvm reproduce``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mgvm.cli import _experiments

# As in mgvm.experiments.reproduce, which is too heavy to import for a help text.
EXPERIMENTS = ("genesis", "figure1", "gibbs-vs-vi", "table1", "table2")


def add(commands: Any) -> argparse.ArgumentParser:
    """The command's own parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "reproduce",
        help="do experiments of the paper again; print tables, write figures",
        description="Do an experiment of the paper again: genesis, circular distributions made from Gaussian "
        "draws; figure1, the best approximations of a bimodal distribution of two "
        "angles; gibbs-vs-vi, the error of Gibbs sampling and of variational inference against time; table1, "
        "regressions on angles, ours and others, scored on held-out data; table2, noise taken out of moving markers by "
        "circular PCA and others (each minutes; with --full, on one core, table1 about an hour and table2 about two); "
        "or all. table1 and table2 download their data once and say so before they do. Prints tables; writes them as "
        "CSV, figures as PNG, and a page (index.html for all) of our numbers beside the paper's.",
    )
    parser.add_argument("experiment", choices=(*EXPERIMENTS, "all"), help="which one")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("mgvm-reproduce"),
        metavar="DIR",
        help="where to write (default: mgvm-reproduce)",
    )
    parser.add_argument("--force", action="store_true", help="replace files in the way that this did not make")
    parser.add_argument(
        "--full",
        action="store_true",
        help="table1: 20 random splits instead of 3, 1,000 residues instead of "
        "150; table2: 5 seeds instead of 2, all motions, splits and models",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Run it."""
    from mgvm.experiments import reproduce

    names = EXPERIMENTS if options.experiment == "all" else (options.experiment,)
    how = {"force": options.force, "full": options.full}
    return _experiments.run(
        lambda progress: reproduce.run(names, options.out, report=progress, **how),
        "this command",
        lambda: reproduce.prepare(names, options.out, **how),
    )
