"""An experiment: how it is computed, drawn, told and tabulated; and running several into one folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import mgvm
from mgvm.experiments import _output

Report = Callable[[str], object]
Table = tuple[str, Sequence[str], Iterable[Sequence[Any]]]  # what it is, its columns, its rows


def silent(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Experiment:
    """One experiment and the files it writes."""

    figure: str
    tables: tuple[str, ...]
    compute: Callable[[Report], Any]
    draw: Callable[[Any], Any]
    text: Callable[[Any], str]
    rows: Callable[[Any], Sequence[Table]]
    more_figures: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    downloads: tuple[str, ...] = ()  # names in `mgvm.datasets.SOURCES` of the files it needs

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files."""
        return (self.figure, *self.more_figures, *self.tables)


@dataclass(frozen=True)
class Outcome:
    """What was found, in words, and what was written."""

    texts: list[str]
    written: list[Path]
    replaced: list[Path]


@dataclass(frozen=True)
class Finding:
    """What one experiment found: its result, that in words, pictures as PNG, and what its tables hold, by file."""

    result: Any
    text: str
    figures: Mapping[str, bytes]
    tables: Mapping[str, str]


@dataclass(frozen=True)
class Summary:
    """One more file, about all experiments."""

    file: str
    content: Callable[[Mapping[str, Finding]], bytes]


def run(
    experiments: Mapping[str, Experiment],
    folder: Path,
    *,
    mark: str,
    force: bool = False,
    report: Report = silent,
    summary: Summary | None = None,
) -> Outcome:
    """Do the experiments and write their figures and tables into `folder`, all of them or none.

    Raises
    ------
    RefusedError
        Before any work, when a file in the way does not carry `mark` and `force` is false.
    """
    files = [file for experiment in experiments.values() for file in experiment.files]
    files += [summary.file] if summary else []
    _output.check(folder, files, force=force, mark=mark)
    found: dict[str, Finding] = {}
    contents: dict[str, bytes] = {}
    for name, experiment in experiments.items():
        result = experiment.compute(lambda step, name=name: report(f"{name}: {step}"))  # type: ignore[misc]
        report(f"{name}: drawing the figure")
        draws = {experiment.figure: experiment.draw, **experiment.more_figures}
        figures = {file: _picture(draw(result), mark) for file, draw in draws.items()}
        tables = dict(zip(experiment.tables, experiment.rows(result), strict=True))
        contents |= figures | {file: as_csv(table, mark) for file, table in tables.items()}
        found[name] = Finding(result, experiment.text(result), figures, {file: t[0] for file, t in tables.items()})
    if summary:
        contents[summary.file] = summary.content(found)
    replaced = _output.check(folder, files, force=force, mark=mark)
    written = _output.write(folder, {file: partial(_write, content) for file, content in contents.items()})
    return Outcome([finding.text for finding in found.values()], written, replaced)


def as_csv(table: Table, mark: str) -> bytes:
    """A table as CSV under one comment line, which also marks the file as ours."""
    subject, names, rows = table
    text = io.StringIO(newline="")
    text.write(f"# {mark}, mgvm {mgvm.__version__}: {subject}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue().encode()


def _picture(figure: Any, mark: str) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": mark})
    return out.getvalue()


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)
