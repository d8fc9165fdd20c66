"""Table 1 of the paper measured again: held-out log density, circular CRPS and coverage of regressions on angles.

Differences between models are paired: they are taken row by row, and their standard errors over rows, over blocks of
rows that are no independent evidence (a port, a day), or over random splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from mgvm.angles import wrap
from mgvm.circle.highest_density import grid_levels
from paper.experiment import FloatArray, Paired, Report, run_trial, silent
from paper.table1.tasks import TIDES, TOY, Model, Split, Task, make_tasks


@dataclass(frozen=True)
class Score(Paired):
    """How one model did on one task.

    Attributes
    ----------
    task, model : str
        Names.
    log_density : float
        Held-out log-likelihood, nats per observation; the uniform distribution has -1.838.
    difference, standard_error : float
        By how much it is below that of the best model of the task, and the paired standard error of this.
    crps, crps_cosine : float
        Mean continuous ranked probability scores, with the angle between two directions for distance, in radians, and
        with one minus its cosine.
    cover50, cover90 : float
        Share of the rows within the 50 % and the 90 % highest-density region of their prediction.
    cpu_seconds : float
        Fits and predictions, all splits, compilation included.
    converged : bool
        False where an engine warned that it did not converge.
    """

    task: str
    model: str
    log_density: float
    difference: float
    standard_error: float
    crps: float
    crps_cosine: float
    cover50: float
    cover90: float
    cpu_seconds: float
    converged: bool


@dataclass(frozen=True)
class Table1:
    """Scores of all tasks, which tasks these were, and the models fitted to the last split of each, by names."""

    tasks: tuple[Task, ...]
    scores: tuple[Score, ...]
    fitted: Mapping[tuple[str, str], Any]
    full: bool
    left_out: tuple[str, ...] = ()  # tasks that an interruption has cost

    def of(self, task: str) -> list[Score]:
        """The scores of one task, the best first."""
        return sorted((score for score in self.scores if score.task == task), key=lambda score: score.difference)


@dataclass(frozen=True)
class _ModelRun:
    """The log densities of the rows of all splits under one model, and means of its other scores."""

    log_density: list[FloatArray]
    others: FloatArray  # weighted means of (crps, crps_cosine, cover50, cover90), averaged over splits
    cpu_seconds: float
    converged: bool
    fitted: Any


def score_predictions(model: Any, split: Split, joint: bool = False) -> FloatArray:
    """`row_scores` of a fitted model at the held-out rows; equal inputs share a prediction."""
    inputs, which = np.unique(split.X_test, axis=0, return_inverse=True)
    dists = model.predict_dist(inputs, joint=True) if joint else model.predict_dist(inputs)
    return row_scores(dists, which.ravel(), split.y_test)


def paired_error(difference: FloatArray, weight: FloatArray, block: np.ndarray) -> float:
    """Standard error of a weighted mean whose rows are independent between blocks only."""
    total = weight.sum()
    _, label = np.unique(block, return_inverse=True)
    count = int(label.max()) + 1
    if count < 2:
        return float("nan")
    sums = np.bincount(label.ravel(), weights=weight * (difference - weight @ difference / total))
    return float(np.sqrt(count / (count - 1) * (sums @ sums)) / total)


def split_error(difference: FloatArray, tested: float, trained: float) -> float:
    """Standard error of a mean over random splits of one data set, which overlap (Nadeau & Bengio 2003)."""
    count = difference.size
    return float(np.sqrt(difference.var(ddof=1) * (1.0 / count + tested / trained)))


def fit_and_score(model: Model, split: Split) -> tuple[Any, FloatArray]:
    """The model fitted to the training rows, and `row_scores` of it at the held-out ones."""
    fitted = clone(model.estimator).fit(split.X, split.y, sample_weight=split.weight)
    return fitted, score_predictions(fitted, split, model.joint)


def _run_model(model: Model, splits: Sequence[Split]) -> _ModelRun:
    runs = [run_trial(partial(fit_and_score, model, split)) for split in splits]
    scores = [run.result[1] for run in runs]
    means = [
        score[1:] @ split.weight_test / split.weight_test.sum() for score, split in zip(scores, splits, strict=True)
    ]
    seconds, converged = sum(run.cpu_seconds for run in runs), all(run.converged for run in runs)
    return _ModelRun([score[0] for score in scores], np.mean(means, axis=0), seconds, converged, runs[-1].result[0])


def mean_over_splits(rows: Sequence[FloatArray], splits: Sequence[Split]) -> FloatArray:
    """Weighted means of values of the rows, one a split."""
    return np.array([np.average(row, weights=split.weight_test) for row, split in zip(rows, splits, strict=True)])


def standard_error(gaps: Sequence[FloatArray], splits: Sequence[Split]) -> float:
    """Of the mean of differences row by row: over the blocks of one split, or over splits."""
    if len(splits) == 1:
        return paired_error(gaps[0], splits[0].weight_test, splits[0].block)
    tested, trained = (float(np.mean([len(part) for part in parts])) for parts in _sizes(splits))
    return split_error(mean_over_splits(gaps, splits), tested, trained)


def _summarize(task: Task, splits: Sequence[Split], runs: dict[str, _ModelRun]) -> list[Score]:
    average = {name: float(mean_over_splits(run.log_density, splits).mean()) for name, run in runs.items()}
    best = max(average, key=lambda name: average[name])
    out = []
    for name, run in runs.items():
        gaps = [top - row for top, row in zip(runs[best].log_density, run.log_density, strict=True)]
        error = standard_error(gaps, splits)
        difference = average[best] - average[name]
        crps, cosine, half, most = (float(number) for number in run.others)
        numbers = (crps, cosine, half, most)
        out.append(Score(task.name, name, average[name], difference, error, *numbers, run.cpu_seconds, run.converged))
    return out


def _sizes(splits: Sequence[Split]) -> tuple[list[FloatArray], list[FloatArray]]:
    return [split.y_test for split in splits], [split.y for split in splits]


def measure(task: Task, report: Report = silent) -> tuple[list[Score], dict[tuple[str, str], Any]]:
    """Fit and score every model of one task; the scores, and the models fitted to its last split."""
    splits = list(task.splits())
    runs = {}
    for model in task.models:
        report(f"{task.name}: {model.name}")
        runs[model.name] = _run_model(model, splits)
    return _summarize(task, splits, runs), {(task.name, name): run.fitted for name, run in runs.items()}


def compute(full: bool = False, report: Report = silent) -> Table1:
    """All tasks; `full` takes 20 random splits of the wind instead of 3 and 1,000 residues instead of 150.

    An interruption costs the tasks that are not done yet; before the figures have what they show, it costs all.
    """
    chosen = make_tasks(full)
    found: list[Score] = []
    fitted: dict[tuple[str, str], Any] = {}
    done = 0
    try:
        for task in chosen:
            here, models = measure(task, report)
            found += here
            fitted |= models
            done += 1
            best = max(here, key=lambda score: score.log_density)
            report(f"{task.name}: done, the best is {best.model} with {best.log_density:.3f} nats")
    except KeyboardInterrupt:
        if not {TOY, TIDES} <= {task.name for task in chosen[:done]}:
            raise
        report(f"interrupted: {done} of {len(chosen)} data sets are kept")
    left_out = tuple(task.name for task in chosen[done:])
    return Table1(tuple(chosen[:done]), tuple(found), fitted, full, left_out)


# ---- scores of very many rows ----------------------------------------------------------------------------------------


def row_scores(dists: Any, which: np.ndarray, y: FloatArray, nodes: int = 2048) -> FloatArray:
    """Log density, CRPS, its cosine kind, and whether y lies in its HDR of 50 % and of 90 %: shape (5, N).

    Observation y[n] is scored by dists[which[n]], from the densities on a grid of `nodes`: for very many observations
    of few distributions. The grid leaves errors of 1e-4 in the CRPS, and misjudges coverage within a step of the grid,
    0.2 degrees.
    """
    angles = -np.pi + 2.0 * np.pi / nodes * np.arange(nodes)
    share = np.asarray(dists[:, None].pdf(angles))
    share /= share.sum(axis=1, keepdims=True)
    log_density = _log_density(dists, which, y)
    moment = (share @ np.exp(1j * angles))[which]
    cosine = 0.5 * np.abs(np.exp(1j * y) - moment) ** 2
    with np.errstate(divide="ignore"):
        levels = np.log(grid_levels(share, (0.5, 0.9)) * (nodes / (2.0 * np.pi)))
    inside = log_density >= levels[:, which]
    return np.stack([log_density, _grid_crps(share, which, y), cosine, *inside.astype(float)])


def _log_density(dists: Any, which: np.ndarray, y: FloatArray, few: int = 60) -> FloatArray:
    """Log densities of observations, by one call a distribution where these are `few`."""
    count = int(which.max()) + 1
    if count > few:
        return np.asarray(dists[which].logpdf(y))
    found = np.empty(y.size)
    for k in range(count):
        rows = which == k
        found[rows] = dists[k].logpdf(y[rows])
    return found


def _grid_crps(share: FloatArray, which: np.ndarray, y: FloatArray) -> FloatArray:
    """E d(Θ, y) - ½ E d(Θ, Θ*): the first term is a convolution, smooth in y even where the density is not."""
    nodes = share.shape[1]
    distance = np.abs(wrap(2.0 * np.pi / nodes * np.arange(nodes)))
    expected = np.fft.irfft(np.fft.rfft(share, axis=1) * np.fft.rfft(distance), n=nodes, axis=1)
    curve = expected - 0.5 * (share * expected).sum(axis=1, keepdims=True)
    place = np.mod((y + np.pi) / (2.0 * np.pi), 1.0) * nodes
    below = np.floor(place).astype(np.int64)
    part = place - below
    lower, upper = curve[which, below % nodes], curve[which, (below + 1) % nodes]
    return np.asarray((1.0 - part) * lower + part * upper)
