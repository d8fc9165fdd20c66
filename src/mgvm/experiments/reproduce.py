"""The paper's experiments done again: compute, draw, and write a figure and tables each."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import mgvm
from mgvm.experiments import _output, _reproduce_text
from mgvm.experiments._output import REPRODUCE_MARK
from mgvm.experiments.time_of_day import Report, silent

Table = tuple[str, Sequence[str], Iterable[Sequence[Any]]]  # what it is, its columns, its rows


@dataclass(frozen=True)
class Experiment:
    """One experiment: how it is computed, drawn, told and tabulated, and the files it writes."""

    figure: str
    tables: tuple[str, ...]
    compute: Callable[[Report], Any]
    draw: Callable[[Any], Any]
    text: Callable[[Any], str]
    rows: Callable[[Any], Sequence[Table]]

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files."""
        return (self.figure, *self.tables)


@dataclass(frozen=True)
class Reproduction:
    """What was found, in words, and what was written."""

    texts: list[str]
    written: list[Path]
    replaced: list[Path]


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
                "the laws of Figure 1 and their divergences",
                ("panel", "law", "approximates", "kl", "log_mass"),
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


EXPERIMENTS: dict[str, Callable[[], Experiment]] = {
    "figure1": _figure1,
    "gibbs-vs-vi": _gibbs_versus_mean_field,
}


def _columns(records: Sequence[Any]) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """Names and values of the fields of dataclass instances."""
    names = tuple(vars(records[0]))
    rows = [[vars(record)[name] for name in names] for record in records]
    return names, [[f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows]


def as_csv(table: Table) -> bytes:
    """A table as CSV under one comment line, which also marks the file as ours."""
    subject, names, rows = table
    text = io.StringIO(newline="")
    text.write(f"# {REPRODUCE_MARK}, mgvm {mgvm.__version__}: {subject}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode()


def _save(figure: Any, file: BinaryIO) -> None:
    figure.savefig(file, format="png", metadata={"Software": REPRODUCE_MARK})


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def run(names: Sequence[str], folder: Path, *, force: bool = False, report: Report = silent) -> Reproduction:
    """Do the named experiments and write their figures and tables into `folder`.

    Raises
    ------
    RefusedError
        Before any work, when a file in the way was not made by this function and `force` is false.
    """
    experiments = [EXPERIMENTS[name]() for name in names]
    files = [file for experiment in experiments for file in experiment.files]
    _output.check(folder, files, force=force, mark=REPRODUCE_MARK)
    texts, writers = [], {}
    for name, experiment in zip(names, experiments, strict=True):
        result = experiment.compute(lambda step, name=name: report(f"{name}: {step}"))  # type: ignore[misc]
        report(f"{name}: drawing the figure")
        texts.append(experiment.text(result))
        writers[experiment.figure] = partial(_save, experiment.draw(result))
        for file, table in zip(experiment.tables, experiment.rows(result), strict=True):
            writers[file] = partial(_write, as_csv(table))
    replaced = _output.check(folder, files, force=force, mark=REPRODUCE_MARK)
    return Reproduction(texts, _output.write(folder, writers), replaced)
