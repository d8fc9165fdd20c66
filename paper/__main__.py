"""Do experiments of the paper again: ``python -m paper [NAME ...] [--full] [--out DIR]`` from the root of a checkout.

Each prints what it found and writes figures and tables; one page has all of them, with our numbers beside the paper's.
"""

from __future__ import annotations

import argparse
import io
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numba
import numpy
import scipy
import sklearn

import mgvm
from mgvm.report import Page
from paper import figure1, genesis, gibbs_versus_mean_field, table1, table2
from paper.experiment import Experiment, Report, download
from paper.table1 import defaults

EXPERIMENTS: dict[str, Callable[[bool], Experiment]] = {
    "genesis": genesis.experiment,
    "figure1": figure1.experiment,
    "gibbs_versus_mean_field": gibbs_versus_mean_field.experiment,
    "table1": table1.experiment,
    "table1_defaults": defaults.experiment,
    "table2": table2.experiment,
}


def run(names: Sequence[str], folder: Path, *, full: bool, report: Report) -> Path:
    """Do the named experiments; write figures and tables into `folder` as they come, and a page of all of them."""
    experiments = {name: EXPERIMENTS[name](full) for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    download([file for experiment in experiments.values() for file in experiment.downloads])
    page = _page(full)
    for name, experiment in experiments.items():
        result = experiment.compute(lambda step, name=name: report(f"{name}: {step}"))  # type: ignore[misc]
        report(f"{name}: drawing")
        _add_section(page, experiment, result, folder)
        print(experiment.text(result), end="\n\n", flush=True)
    # A page about all does not give way to one about a single experiment.
    path = folder / (f"{names[0]}.html" if len(names) == 1 else "index.html")
    path.write_text(page.html())
    return path


def _page(full: bool) -> Page:
    extent = "Full mode: all splits, seeds and models."
    if not full:
        extent = "Quick mode: fewer splits, seeds and models; `make paper FULL=1` for all, in hours."
    return Page(
        "The paper, measured again",
        subtitle="Navarro, Frellsen and Turner, The Multivariate Generalised von Mises Distribution: Inference and "
        f"Applications (AAAI 2017). {extent}",
        footer=f"Seeds are fixed: 1 and up for the halves and noise of Table 2, 0 for all else. {versions()}",
    )


def _add_section(page: Page, experiment: Experiment, result: Any, folder: Path) -> None:
    """Write the figures and tables of one experiment, and tell of it on the page."""
    page.section(experiment.title).text(experiment.about)
    page.table(["what", "ours", "the paper's", "why they differ"], experiment.compare(result))
    for file, drawing in experiment.figures.items():
        picture = io.BytesIO()
        drawing.draw(result).savefig(picture, format="png")
        (folder / file).write_bytes(picture.getvalue())
        page.figure(picture.getvalue(), drawing.caption)
    page.code(experiment.text(result))
    tables = {file: make(result) for file, make in experiment.tables.items()}
    for file, table in tables.items():
        (folder / file).write_bytes(table.to_csv())
    page.files({file: table.about for file, table in tables.items()})


def versions() -> str:
    """Of what the numbers depend on."""
    parts = [f"mgvm {mgvm.__version__}", f"Python {platform.python_version()}"]
    parts += [f"{one.__name__} {one.__version__}" for one in (numpy, scipy, numba, sklearn, matplotlib)]
    return "Versions: " + ", ".join(parts) + "."


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run, and say where the page is."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EXPERIMENTS)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("mgvm-paper"), metavar="DIR", help="default: mgvm-paper")
    parser.add_argument("--full", action="store_true", help="all splits, seeds, motions and models: hours")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(EXPERIMENTS):
        parser.error(f"there is no experiment {', '.join(sorted(unknown))}; there are {', '.join(EXPERIMENTS)}")

    def report(step: str) -> None:
        print(f"... {step}", file=sys.stderr, flush=True)

    page = run(options.names or tuple(EXPERIMENTS), options.out, full=options.full, report=report)
    print(f"wrote {page}, and the figures and tables beside it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
