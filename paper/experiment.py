"""What the experiments of the paper share: their parts, timed trials of models, and the files they need and write."""

from __future__ import annotations

import csv
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

import mgvm
from mgvm.datasets import SOURCES, fetch_file, get_data_home
from mgvm.inference import ConvergenceWarning

FloatArray = npt.NDArray[np.float64]
Report = Callable[[str], object]
_Result = TypeVar("_Result")


def silent(_: str) -> None:
    """Report nothing."""


# ---- an experiment -------------------------------------------------------------------------------------------------


class Drawing(NamedTuple):
    """How a figure is drawn from the result, and what it shows, for those who cannot see it."""

    draw: Callable[[Any], Figure]
    caption: str


class Table(NamedTuple):
    """What a CSV file holds, its columns and its rows."""

    about: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]

    def to_csv(self) -> bytes:
        """The table under one line of comment."""
        text = io.StringIO(newline="")
        text.write(f"# mgvm {mgvm.__version__}: {self.about}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue().encode()

    @classmethod
    def from_records(cls, about: str, records: Sequence[Any]) -> Table:
        """A row for each instance of a dataclass, a column for each field."""
        columns = tuple(vars(records[0]))
        rows = [[vars(record)[name] for name in columns] for record in records]
        return cls(
            about, columns, [[f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows]
        )


class Comparison(NamedTuple):
    """One number of ours beside the paper's, and why they differ."""

    what: str
    ours: str
    paper: str
    reason: str


@dataclass(frozen=True)
class Experiment:
    """One experiment: how it is computed, drawn, tabulated and told.

    Attributes
    ----------
    title, about : str
        Of its section on the page.
    compute : callable
        Takes a `Report` of what is being done, returns the result that all other parts take.
    text : callable
        The result as text of at most 80 columns.
    compare : callable
        Our numbers beside the paper's.
    figures : mapping
        Drawings by file name.
    tables : mapping
        How each `Table` is made from the result, by file name.
    downloads : tuple of str
        Names in `mgvm.datasets.SOURCES` of the files it needs.
    """

    title: str
    about: str
    compute: Callable[[Report], Any]
    text: Callable[[Any], str]
    compare: Callable[[Any], list[Comparison]]
    figures: Mapping[str, Drawing]
    tables: Mapping[str, Callable[[Any], Table]]
    downloads: tuple[str, ...] = ()


def download(names: Sequence[str]) -> None:
    """Say on standard error which files of `mgvm.datasets.SOURCES` are missing, how large they are, and fetch them."""
    folder = get_data_home()
    missing = [SOURCES[name] for name in dict.fromkeys(names) if not (folder / name).is_file()]
    if not missing:
        return
    total = sum(source.size or 0 for source in missing)
    lines = [f"downloading {len(missing)} files ({total / 1e6:.1f} MB) to {folder}:"]
    lines += [f"  {source.file} ({source.size_text}) from {source.url}" for source in missing]
    print("\n".join(lines), file=sys.stderr, flush=True)
    for source in missing:
        fetch_file(source)


# ---- trials of models ----------------------------------------------------------------------------------------------


class Trial(NamedTuple, Generic[_Result]):
    """What came of a trial, its CPU time, and whether no engine warned that it did not converge."""

    result: _Result
    cpu_seconds: float
    converged: bool


def run_trial(trial: Callable[[], _Result]) -> Trial[_Result]:
    """Time a trial and keep its warnings of convergence; all others are passed on.

    A fit that is interrupted keeps its best and says so; whoever pressed the key meant the whole table.
    """
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        result = trial()
    seconds = time.process_time() - begin
    unconverged = [one for one in caught if issubclass(one.category, ConvergenceWarning)]
    if any("interrupted" in str(one.message) for one in unconverged):
        raise KeyboardInterrupt
    for other in caught:
        if other not in unconverged:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return Trial(result, seconds, not unconverged)


class Paired:
    """A score with its `difference` to that of the best model, and the paired `standard_error` of this."""

    difference: float
    standard_error: float

    @property
    def best(self) -> bool:
        """No model has a higher mean."""
        return self.difference == 0.0

    @property
    def worse(self) -> bool:
        """Below the best by more than two standard errors."""
        return self.difference > 2.0 * self.standard_error
