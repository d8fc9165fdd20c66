"""Every data set with defaults alone: our regressors against what people use instead, paired with the best of those.

``python -m paper.table1.defaults --keep FOLDER`` measures all, keeps the scores of every fit in the folder, and writes
figure and numbers into the guide; a second run takes from the folder what is there.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mgvm import CircularGPRegressor, CircularRegressor, HarmonicGPRegressor
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
)
from paper.experiment import Comparison, Drawing, Experiment, FloatArray, Report, Table, run_trial, silent
from paper.measured import keep, slug
from paper.table1.scores import fit_and_score, mean_over_splits, standard_error
from paper.table1.shipped import make_shipped_tasks
from paper.table1.tasks import Model, Split, Task, make_tasks

OURS = ("CircularRegressor", "HarmonicGPRegressor", "CircularGPRegressor")  # in the order in which they are drawn


class Column(NamedTuple):
    """A regressor with its defaults; `most` is from how many different inputs it is asked to learn."""

    model: Model
    ours: bool = False
    most: float = np.inf


def make_columns() -> list[Column]:
    """All regressors. Of baselines that learn by evidence or by leave-one-out there are both."""
    dense = 5000  # beyond it the kernel matrix and its inverse are gigabytes
    return [
        Column(Model(OURS[0], CircularRegressor()), ours=True),
        Column(Model(OURS[1], HarmonicGPRegressor()), ours=True),
        Column(Model(OURS[2], CircularGPRegressor(random_state=0)), ours=True, most=dense),
        Column(Model("kernel regression", KernelCircularRegressor())),
        Column(Model("nearest neighbours", NeighborsCircularRegressor())),
        Column(Model("random forest", ForestCircularRegressor())),
        Column(Model("2-D GP", ProjectedGPRegressor()), most=dense),
        Column(Model("2-D GP, leave-one-out", ProjectedGPRegressor(selection="loo")), most=dense),
        Column(Model("no input", GvMRegressor("auto"))),
    ]


# ---- tasks -----------------------------------------------------------------------------------------------------------

_NAMES = {  # of the paper's tasks, as they are called here
    "Toy": "Toy",
    "Yeast": "Yeast",
    "Tides": "Tides, Channel",
    "Uber, by day": "Rides, other days",
    "Uber, halves": "Rides, same days",
    "Wind, published": "German wind",
    "Wind, random": "German wind, random",
    "Protein": "Cysteines",
    "Protein, all": "Cysteines, all",
}


@dataclass(frozen=True)
class Extent:
    """How much is measured: at most so many training rows and test rows a split, and so many random splits."""

    training_rows: int | None
    test_rows: int | None
    random_splits: int


FULL, QUICK = Extent(None, None, 20), Extent(150, 300, 2)


def make_default_tasks(extent: Extent = FULL) -> list[Task]:
    """The paper's data sets and those that are shipped, with no models but those that one data set alone has."""
    papers = [task._replace(name=_NAMES[task.name], models=[]) for task in make_tasks(full=True)]
    return [
        task._replace(splits=partial(_cut_splits, task, extent), about=_describe(task, extent))
        for task in (*papers, *make_shipped_tasks())
    ]


def _describe(task: Task, extent: Extent) -> str:
    if task.name.startswith("Rides"):
        return task.about + "; inputs: day and day of the week"
    return task.about.replace("20 random splits", f"{extent.random_splits} random splits")


def _cut_splits(task: Task, extent: Extent) -> Iterator[Split]:
    for split in islice(task.splits(), extent.random_splits):
        if task.name.startswith("Rides"):
            split = add_weekday(split)
        yield _thin(split, extent)


def add_weekday(split: Split) -> Split:
    """The day of the month as weeks, and the day of the week as cosine and sine: a default kernel knows no week."""

    def inputs(day: FloatArray) -> FloatArray:
        turn = 2.0 * np.pi * day / 7.0
        return np.column_stack([day / 7.0, np.cos(turn), np.sin(turn)])

    return split._replace(X=inputs(split.X[:, 0]), X_test=inputs(split.X_test[:, 0]))


def _thin(split: Split, extent: Extent) -> Split:
    """At most so many rows of each part, drawn at random."""
    rng = np.random.default_rng(0)

    def some(size: int, most: int | None) -> np.ndarray:
        return np.arange(size) if most is None or size <= most else np.sort(rng.choice(size, most, replace=False))

    train, test = some(len(split.y), extent.training_rows), some(len(split.y_test), extent.test_rows)
    weight = None if split.weight is None else split.weight[train]
    return Split(
        split.X[train],
        split.y[train],
        weight,
        split.X_test[test],
        split.y_test[test],
        split.weight_test[test],
        split.block[test],
    )


# ---- scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How one regressor did on one data set, beside the best baseline there.

    Attributes
    ----------
    task, model : str
        Names.
    ours : bool
        False for baselines.
    log_density : float
        Held-out log-likelihood, nats per observation.
    gain, standard_error : float
        What it has more than the best baseline (of a baseline 0 or less), and the paired standard error of this.
    crps : float
        Mean circular CRPS, radians.
    cover50, cover90 : float
        Share of the rows within the 50 % and the 90 % highest-density region of their prediction.
    cpu_seconds : float
        Fits and predictions, a mean over splits.
    converged : bool
        False where an engine warned that it did not converge.
    """

    task: str
    model: str
    ours: bool
    log_density: float
    gain: float
    standard_error: float
    crps: float
    cover50: float
    cover90: float
    cpu_seconds: float
    converged: bool

    @property
    def behind(self) -> bool:
        """Below the best baseline by more than two standard errors."""
        return -self.gain > 2.0 * self.standard_error


@dataclass(frozen=True)
class Standings:
    """All of them, and the data sets they are on."""

    tasks: tuple[Task, ...]
    rows: tuple[Standing, ...]
    extent: Extent

    def of(self, task: str) -> list[Standing]:
        """Those of one data set, the best first."""
        return sorted((row for row in self.rows if row.task == task), key=lambda row: -row.log_density)


class Run(NamedTuple):
    """The scores (5, N) of the held-out rows of one split, its CPU time, and whether the fit converged."""

    scores: FloatArray
    cpu_seconds: float
    converged: bool


def run(model: Model, split: Split) -> Run:
    """Fit, predict and score."""
    trial = run_trial(lambda: fit_and_score(model, split)[1])
    return Run(*trial)


@dataclass(frozen=True)
class Store:
    """Runs on disk, by data set, estimator and split. Nothing in the key tells of the code: empty it after a change.

    With `closed`, what is not there is not run.
    """

    folder: Path
    closed: bool = False

    def path(self, task: str, model: Model, number: int, split: Split) -> Path:
        """Where a run is kept."""
        data = hashlib.sha256()
        for part in (split.X, split.y, split.X_test, split.y_test):
            data.update(np.ascontiguousarray(part).tobytes())
        data.update(repr(model.estimator).encode())  # the options that are not defaults
        words = re.sub(r"\W+", "-", f"{task} {model.name} {number}".lower())
        return self.folder / f"{words}-{data.hexdigest()[:12]}.npz"

    def recall_or_run(self, task: str, model: Model, number: int, split: Split) -> Run | None:
        """The run that is kept, else a new one; None where it is not there and none may be run."""
        path = self.path(task, model, number, split)
        if path.is_file():
            with np.load(path) as kept:
                return Run(kept["scores"], float(kept["cpu_seconds"]), bool(kept["converged"]))
        if self.closed:
            return None
        found = run(model, split)
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found._asdict())
        return found


def measure(
    task: Task, columns: Sequence[Column], store: Store | None = None, report: Report = silent
) -> list[Standing]:
    """Every regressor on one data set."""
    splits = list(task.splits())
    inputs = max(count_inputs(split) for split in splits)
    runs: dict[str, list[Run]] = {}
    for column in (*columns, *(Column(model) for model in task.models)):
        if inputs > column.most:
            continue
        report(f"{task.name}: {column.model.name}")
        found = [
            run(column.model, split) if store is None else store.recall_or_run(task.name, column.model, number, split)
            for number, split in enumerate(splits)
        ]
        complete = [one for one in found if one is not None]
        if len(complete) == len(splits):
            runs[column.model.name] = complete
    ours = {column.model.name for column in columns if column.ours}
    return _compare_runs(task.name, splits, runs, ours)


def count_inputs(split: Split) -> int:
    """Different inputs among the training rows."""
    return len(np.unique(split.X, axis=0))


def _compare_runs(task: str, splits: Sequence[Split], runs: dict[str, list[Run]], ours: set[str]) -> list[Standing]:
    """Scores of the runs, paired with those of the best baseline."""
    logs = {name: [one.scores[0] for one in found] for name, found in runs.items()}
    average = {name: float(mean_over_splits(rows, splits).mean()) for name, rows in logs.items()}
    best = max((name for name in runs if name not in ours), key=lambda name: average[name])
    out = []
    for name, found in runs.items():
        gaps = [row - top for row, top in zip(logs[name], logs[best], strict=True)]
        crps, _, half, most = (
            float(mean_over_splits([one.scores[row] for one in found], splits).mean()) for row in range(1, 5)
        )
        gain, error = average[name] - average[best], standard_error(gaps, splits) if name != best else 0.0
        seconds, converged = float(np.mean([one.cpu_seconds for one in found])), all(one.converged for one in found)
        out.append(Standing(task, name, name in ours, average[name], gain, error, crps, half, most, seconds, converged))
    return out


def compute(extent: Extent = FULL, store: Store | None = None, report: Report = silent) -> Standings:
    """All data sets."""
    tasks = make_default_tasks(extent)
    columns = make_columns()
    rows = [row for task in tasks for row in measure(task, columns, store, report)]
    return Standings(tuple(tasks), tuple(rows), extent)


# ---- told ------------------------------------------------------------------------------------------------------------

_KEY = (
    "Log-lik.: held-out log-likelihood, nats per observation, higher is better; the",
    "uniform distribution has -1.838. Gain: over the best baseline, with the paired",
    "standard error. CRPS: radians, smaller is better. 50 %, 90 %: rows inside the",
    "highest-density region of that mass. > ours; - below the best baseline by over",
    "two standard errors; ? an engine did not converge. CPU s: fit and prediction.",
)


def text(result: Standings) -> str:
    """A block for each data set, then what the columns mean."""
    rows = result.extent.training_rows
    how = "all rows" if rows is None else f"{rows} training rows at most; FULL=1 for all"
    blocks = [f"Regressors with their defaults ({how})"]
    for task in result.tasks:
        lines = wrap(f"{task.name}: {task.about}", 80)
        lines.append(f"  {'':<26}{'log-lik.':>9}{'gain':>17} {'CRPS':>7}{'50 %':>5}{'90 %':>5}{'CPU s':>7}")
        lines += [_line(row) for row in result.of(task.name)]
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, "\n".join(_KEY)])


def _line(row: Standing) -> str:
    name = f"{'>' if row.ours else ' '} {row.model}{'' if row.converged else ' ?'}"
    gain = f"{row.gain:+.3f} ± {row.standard_error:.3f}" if row.standard_error else "best baseline"
    mark = "-" if row.ours and row.behind else " "
    covered = f"{100 * row.cover50:>5.0f}{100 * row.cover90:>5.0f}"
    return f"  {name:<26}{row.log_density:>9.3f}{gain:>17}{mark}{row.crps:>7.3f}{covered}{row.cpu_seconds:>7.1f}"


def markdown(result: Standings) -> str:
    """What stands between the marks of the guide: the places of the tables, one over all, then a folded one each."""
    parts = ["<!-- measured: table1/summary --><!-- end -->"]
    for task in result.tasks:
        place = f"<!-- measured: table1/{slug(task.name)} --><!-- end -->"
        parts.append(f"<details>\n<summary>{task.name}: {task.about}.</summary>\n\n{place}\n\n</details>")
    return "\n\n".join(parts)


def tables(result: Standings) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Header and rows by entry: one line a data set, then a table each."""
    header = ["data set", "best baseline", "its log-likelihood", *(f"`{name}`" for name in OURS)]
    summary, found = [], {}
    columns = ["model", "log-likelihood", "gain over the best baseline", "CRPS", "50 %", "90 %", "CPU s"]
    for task in result.tasks:
        rows = {row.model: row for row in result.of(task.name)}
        best = _best_baseline(result, task.name)
        cells = [_cell(rows[name]) if name in rows else "" for name in OURS]
        summary.append([task.name, best.model, _number(best.log_density), *cells])
        found[slug(task.name)] = columns, [_cells(row) for row in result.of(task.name)]
    return {"summary": (header, summary), **found}


def _best_baseline(result: Standings, task: str) -> Standing:
    return next(row for row in result.of(task) if not row.ours)


def _cell(row: Standing) -> str:
    return f"{_number(row.gain, '+')} ± {row.standard_error:.3f}{' −' if row.behind else ''}"


def _number(value: float, sign: str = "") -> str:
    """Three digits, with a typographic minus."""
    return f"{value:{sign}.3f}".replace("-", "−")


def _cells(row: Standing) -> list[str]:
    name = f"**{row.model}**" if row.ours else row.model
    name += "" if row.converged else " (did not converge)"
    gain = _cell(row) if row.standard_error else ""
    covered = [f"{100 * share:.0f}" for share in (row.cover50, row.cover90)]
    return [name, _number(row.log_density), gain, f"{row.crps:.3f}", *covered, f"{row.cpu_seconds:.1f}"]


def _compare(result: Standings) -> list[Comparison]:
    reason = "The paper has no such comparison: baselines with learnt options, defaults alone for ours."
    out = []
    for task in result.tasks:
        best = _best_baseline(result, task.name)
        ours = next((row for row in result.of(task.name) if row.model == OURS[0]), None)
        if ours is not None:
            numbers = f"{ours.model} {ours.log_density:.3f}; best baseline: {best.model} {best.log_density:.3f}"
            out.append(Comparison(f"{task.name}: held-out log-likelihood", numbers, "not in it", reason))
    return out


# ---- drawn -----------------------------------------------------------------------------------------------------------

_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o"},
    {"color": "#D55E00", "marker": "s"},
    {"color": "#767F86", "marker": "D"},
)
_REACH = (-0.35, 0.55)  # nats that are drawn; beyond them an arrow with the number


def draw(result: Standings, dpi: float = 110) -> Figure:
    """What ours gain over the best baseline of every data set, with two standard errors either way."""
    tasks = result.tasks
    figure = Figure(figsize=(11.0, 0.46 * len(tasks) + 1.9), dpi=dpi)
    ax = figure.add_axes((0.2, 0.95 / figure.get_figheight(), 0.5, 1.0 - 1.85 / figure.get_figheight()))
    for place, task in enumerate(tasks):
        rows = {row.model: row for row in result.of(task.name)}
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color="#F3F5F6", linewidth=0.0, zorder=0)
        for number, name in enumerate(OURS):
            if name in rows:
                _draw_gain(ax, rows[name], place + 0.24 * (number - 0.5 * (len(OURS) - 1)), _LOOKS[number])
        best = _best_baseline(result, task.name)
        told = f"{best.model}, {_number(best.log_density)}"
        ax.text(1.03, place, told, transform=ax.get_yaxis_transform(), va="center", fontsize=10, color="#3D4852")
    ax.axvline(0.0, color="#1A1A1A", linewidth=1.0, zorder=1)
    ax.set_yticks(range(len(tasks)), [task.name for task in tasks], fontsize=11)
    ax.set_ylim(len(tasks) - 0.5, -0.5)
    ax.set_xlim(*_REACH)
    ax.tick_params(axis="y", length=0, pad=9)
    ax.set_xlabel("held-out nats per observation above the best baseline, ± 2 standard errors", fontsize=11)
    ax.text(1.03, -0.75, "best baseline, its log-likelihood", transform=ax.get_yaxis_transform(), fontsize=10)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    marks = [
        Line2D([], [], linestyle="", markersize=6.5, label=name, **look)
        for name, look in zip(OURS, _LOOKS, strict=True)
    ]
    ax.legend(handles=marks, loc="lower left", bbox_to_anchor=(-0.4, 1.0), ncols=3, frameon=False, fontsize=11)
    title = "Regressors with their defaults against the best baseline of every data set"
    figure.suptitle(title, fontsize=13, fontweight="bold", y=1.0 - 0.22 / figure.get_figheight())
    return figure


def _draw_gain(ax: Any, row: Standing, height: float, look: dict[str, Any]) -> None:
    low, high = _REACH
    if low < row.gain < high:
        error = 2.0 * row.standard_error
        ax.errorbar(row.gain, height, xerr=error, markersize=6.5, linewidth=1.6, linestyle="", **look)
        return
    end, side = (low, "left") if row.gain <= low else (high, "right")
    arrow = "<" if side == "left" else ">"
    ax.plot(end, height, marker=arrow, color=look["color"], markersize=7, clip_on=False, linestyle="")
    inwards = 0.015 if side == "left" else -0.015
    told = _number(row.gain, "+")
    ax.text(end + inwards, height, told, ha=side, va="center", fontsize=8.5, color=look["color"])


FIGURE = "table1_forest.png"


def experiment(full: bool = False) -> Experiment:
    """The experiment; quick, all data sets have few rows."""
    extent = FULL if full else QUICK
    files = dict.fromkeys(file for task in make_default_tasks(extent) for file in task.files)
    return Experiment(
        "Regressors with their defaults",
        "Ours with their defaults against what people use instead, on the data of Table 1 and on those that come with "
        "the package; every baseline learns its options by leave-one-out or by evidence.",
        lambda report: compute(extent, report=report),
        text,
        _compare,
        {FIGURE: Drawing(draw, "Gains of our regressors over the best baseline, data set by data set")},
        {
            "table1_defaults.csv": lambda result: Table.from_records(
                "regressors with their defaults, scores on held-out angles", result.rows
            )
        },
        tuple(files),
    )


_MARKS = re.compile(r"(<!-- numbers -->\n).*?(<!-- end of numbers -->)", re.S)


def write_guide(result: Standings, docs: Path) -> None:
    """The figure, the file of numbers, and the tables between their marks on the page of Table 1."""
    draw(result).savefig(docs / "images" / FIGURE)
    page = docs / "paper" / "table1.md"
    words = page.read_text(encoding="utf-8")
    if not _MARKS.search(words):
        raise ValueError(f"{page} has no marks {_MARKS.pattern!r} to write numbers between")
    numbers = markdown(result)
    page.write_text(_MARKS.sub(lambda found: f"{found[1]}\n{numbers}\n\n{found[2]}", words), encoding="utf-8")
    keep("table1", "python -m paper.table1.defaults", docs=docs, **tables(result))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all data sets and write the guide."""
    parser = argparse.ArgumentParser(prog="python -m paper.table1.defaults", description=__doc__)
    parser.add_argument("--keep", type=Path, required=True, metavar="FOLDER", help="where the scores of fits are kept")
    parser.add_argument("--docs", type=Path, default=Path("docs"), metavar="FOLDER", help="the guide; default: docs")
    parser.add_argument("--closed", action="store_true", help="run nothing: write what is kept")
    options = parser.parse_args(arguments)
    result = compute(FULL, Store(options.keep, options.closed), lambda step: print(f"... {step}", flush=True))
    write_guide(result, options.docs)
    print(text(result))


if __name__ == "__main__":
    main()
