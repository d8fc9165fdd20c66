"""Table 2 of the paper measured again: noise is added to markers on moving arms, and taken out by what was learnt.

Every model learns from the noisy half of the frames and denoises the other half, which is then compared with the frames
as they were. Numbers are over seeds: of the split, the noise and the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paper.experiment import FloatArray, Paired, Report, run_trial, silent
from paper.table2.tasks import Cell, Model, Rows, Task, make_tasks


@dataclass(frozen=True)
class Score(Paired):
    """How one model did on one motion at one noise.

    Attributes
    ----------
    motion, split, model : str
        Names.
    noise : float
        Standard deviation of what was added, pixels.
    seeds : int
        Runs.
    snr, snr_error, snr_best : float
        The paper's 10 ln(Σ|y| / Σ|y - ŷ|) over rows y: mean, standard error and highest over the seeds.
    decibel, decibel_error, decibel_best : float
        The same of the signal-to-noise ratio 10 log10(Σ|y|² / Σ|y - ŷ|²).
    difference, standard_error : float
        By how much `snr` is below that of the best model, and the paired standard error of this.
    cpu_seconds : float
        Fit and denoising, mean over seeds; the first has the compilation.
    converged : bool
        False where a fit warned that it did not converge.
    """

    motion: str
    split: str
    model: str
    noise: float
    seeds: int
    snr: float
    snr_error: float
    snr_best: float
    decibel: float
    decibel_error: float
    decibel_best: float
    difference: float
    standard_error: float
    cpu_seconds: float
    converged: bool


@dataclass(frozen=True)
class Run:
    """One fit."""

    snr: float
    decibel: float
    cpu_seconds: float
    converged: bool


@dataclass(frozen=True)
class Table2:
    """Scores of all tasks, and how many seeds were asked for."""

    tasks: tuple[Task, ...]
    scores: tuple[Score, ...]
    full: bool
    seeds: int

    def of(self, task: Task, noise: float) -> list[Score]:
        """The scores of one task at one noise, in the order of the models."""
        return [
            score
            for score in self.scores
            if (score.motion, score.split, score.noise) == (task.motion, task.split, noise)
        ]

    @property
    def interrupted(self) -> bool:
        """Whether there are fewer runs than were asked for."""
        asked = sum(len(task.noises) * len(task.models) for task in self.tasks) * self.seeds
        return sum(score.seeds for score in self.scores) < asked


def paper_snr(clean: FloatArray, found: FloatArray) -> float:
    """10 ln(Σ|y| / Σ|y - ŷ|), which the paper calls decibels."""
    return float(10.0 * np.log(_lengths(clean).sum() / _lengths(clean - found).sum()))


def decibel(clean: FloatArray, found: FloatArray) -> float:
    """10 log10(Σ|y|² / Σ|y - ŷ|²)."""
    return float(10.0 * np.log10((clean**2).sum() / ((clean - found) ** 2).sum()))


def _lengths(rows: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(rows, axis=1))


def denoise(model: Model, rows: Rows, cell: Cell) -> Run:
    """Fit one model and let it denoise."""
    found, seconds, converged = run_trial(lambda: model.make(cell).fit(rows.train).denoise(rows.test))
    return Run(paper_snr(rows.clean, found), decibel(rows.clean, found), seconds, converged)


def standard_error(values: FloatArray) -> float:
    """Of a mean over seeds."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def summarize(task: Task, noise: float, runs: dict[str, list[Run]]) -> list[Score]:
    """Scores from the runs of all models, by name; of seeds that not every model has, nothing is kept."""
    count = min(len(found) for found in runs.values())
    values = {name: np.array([(one.snr, one.decibel) for one in found[:count]]).T for name, found in runs.items()}
    top = max(values, key=lambda name: values[name][0].mean())
    out = []
    for name, (snr, real) in values.items():
        gap = values[top][0] - snr
        out.append(
            Score(
                task.motion,
                task.split,
                name,
                noise,
                count,
                *(float(snr.mean()), standard_error(snr), float(snr.max())),
                *(float(real.mean()), standard_error(real), float(real.max())),
                float(gap.mean()),
                standard_error(gap),
                float(np.mean([one.cpu_seconds for one in runs[name][:count]])),
                all(one.converged for one in runs[name][:count]),
            )
        )
    return out


def compute(full: bool = False, report: Report = silent) -> Table2:
    """All tasks; `full` takes 5 seeds instead of 2, all motions, splits and models.

    Seed after seed, so that an interruption leaves fewer seeds, not fewer tasks; in the first seed, fewer tasks.
    """
    chosen = make_tasks(full)
    seeds = range(1, 6) if full else range(1, 3)  # settings of the models were chosen with seed 0
    cells = [(seed, task, noise) for seed in seeds for task in chosen for noise in task.noises]
    runs: dict[tuple[int, float], dict[str, list[Run]]] = {}
    try:
        for done, (seed, task, noise) in enumerate(cells):
            _measure(runs.setdefault((chosen.index(task), noise), {}), task, noise, seed, report)
            report(f"{done + 1} of {len(cells)} parts done")
    except KeyboardInterrupt:
        if not any(_complete(found, chosen[key[0]].models) for key, found in runs.items()):
            raise
        report("interrupted: what is done is kept")
    scores: list[Score] = []
    for (index, noise), found in runs.items():
        if _complete(found, chosen[index].models):
            scores += summarize(chosen[index], noise, found)
    return Table2(tuple(chosen), tuple(scores), full, len(seeds))


def _measure(found: dict[str, list[Run]], task: Task, noise: float, seed: int, report: Report) -> None:
    """Add a run of every model."""
    rows, cell = task.rows(noise, seed), Cell(task.motion, noise, seed, task.full)
    for model in task.models:
        report(f"{task.name}, noise {noise:g}, seed {seed}: {model.name}")
        found.setdefault(model.name, []).append(denoise(model, rows, cell))


def _complete(found: dict[str, list[Run]], models: Sequence[Model]) -> bool:
    return len(found) == len(models)
