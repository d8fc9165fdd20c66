"""The paper's experiments done again: compute, draw, and write a figure and tables each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mgvm.experiments import _downloads, _experiment, _output, _reproduce_text
from mgvm.experiments._experiment import Experiment, Outcome, Report, Summary, silent
from mgvm.experiments._output import REPRODUCE_MARK


def _figure1() -> Experiment:
    from mgvm.experiments import _figure1_figure, figure1

    return Experiment(
        "figure1.png",
        ("figure1.csv", "figure1_spreads.csv"),
        lambda report: figure1.compute(report=report),
        _figure1_figure.draw,
        _reproduce_text.figure1,
        lambda result: [
            (
                "the distributions of Figure 1 and their divergences",
                ("panel", "dist", "approximates", "kl", "log_mass"),
                [(p.letter, p.name, p.of, f"{p.kl:.12g}", f"{p.log_mass:.3g}") for p in result.panels],
            ),
            (
                "KL(wrapped normal || best mGvM)",
                ("standard_deviation", "correlation", "kl"),
                [(n.spread, n.correlation, f"{n.kl:.12g}") for n in result.normals],
            ),
        ],
    )


def _gibbs_versus_mean_field() -> Experiment:
    from mgvm.experiments import _gibbs_versus_mean_field_figure, gibbs_versus_mean_field

    return Experiment(
        "gibbs_versus_mean_field.png",
        ("gibbs_versus_mean_field.csv", "gibbs_versus_mean_field_crossings.csv"),
        lambda report: gibbs_versus_mean_field.compute(report=report),
        _gibbs_versus_mean_field_figure.draw,
        _reproduce_text.gibbs_versus_mean_field,
        lambda race: [
            ("error of each method after some of its work", *_columns(race.points)),
            ("draws and seconds until Gibbs sampling has the error of mean field", *_columns(race.crossings)),
        ],
    )


def _table1(full: bool = False) -> Experiment:
    from mgvm.experiments import _table1_figures, _table1_tasks, _table1_text, table1

    return Experiment(
        "table1_toy.png",
        ("table1.csv",),
        lambda report: table1.compute(full, report=report),
        _table1_figures.draw_toy,
        _table1_text.table1,
        lambda result: [("scores of regressions on held-out angles", *_columns(result.scores))],
        _table1_figures.MORE,
        _files_of(_table1_tasks.tasks(full)),
    )


def _table2(full: bool = False) -> Experiment:
    from mgvm.experiments import (
        _table2_doughnut,
        _table2_figures,
        _table2_skeleton,
        _table2_tasks,
        _table2_text,
        table2,
    )

    return Experiment(
        "table2.png",
        ("table2.csv",),
        lambda report: table2.compute(full, report=report),
        _table2_figures.draw,
        _table2_text.table2,
        lambda result: [("signal-to-noise ratios of denoised markers", *_columns(result.scores))],
        {"table2_doughnut.png": _table2_doughnut.draw, "table2_skeleton.png": _table2_skeleton.draw},
        _files_of(_table2_tasks.tasks(full)),
    )


def _files_of(tasks: Sequence[Any]) -> tuple[str, ...]:
    """What the tasks need to be downloaded."""
    return tuple(dict.fromkeys(file for task in tasks for file in task.files))


def _genesis() -> Experiment:
    from mgvm.experiments.genesis import genesis

    return genesis()


EXPERIMENTS: dict[str, Callable[[], Experiment]] = {
    "genesis": _genesis,
    "figure1": _figure1,
    "gibbs-vs-vi": _gibbs_versus_mean_field,
    "table1": _table1,
    "table2": _table2,
}
# Those that have more to do than their quick default.
FULL: dict[str, Callable[[], Experiment]] = {
    "table1": partial(_table1, full=True),
    "table2": partial(_table2, full=True),
}


def _columns(records: Sequence[Any]) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """Names and values of the fields of dataclass instances."""
    names = tuple(vars(records[0]))
    rows = [[vars(record)[name] for name in names] for record in records]
    return names, [[f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows]


def _made(names: Sequence[str], full: bool) -> dict[str, Experiment]:
    makers = EXPERIMENTS | FULL if full else EXPERIMENTS
    return {name: makers[name]() for name in names}


def prepare(names: Sequence[str], folder: Path, *, force: bool = False, full: bool = False) -> None:
    """Refuse what `run` would refuse, then say on standard error what is to be downloaded, and download it."""
    experiments = _made(names, full)
    files = [file for experiment in experiments.values() for file in experiment.files]
    _output.check(folder, files, force=force, mark=REPRODUCE_MARK)
    needy = [name for name, experiment in experiments.items() if experiment.downloads]
    downloads = [file for name in needy for file in experiments[name].downloads]
    _downloads.download(" and ".join(needy), downloads)


def run(
    names: Sequence[str], folder: Path, *, force: bool = False, full: bool = False, report: Report = silent
) -> Outcome:
    """Do the named experiments, write a page of all, their figures and tables into `folder`; see `_experiment.run`."""
    from mgvm.experiments import _reproduce_page

    experiments = _made(names, full)
    page = Summary(_reproduce_page.file_name(names), partial(_reproduce_page.page, full=full))
    return _experiment.run(experiments, folder, mark=REPRODUCE_MARK, force=force, report=report, summary=page)
