"""Noise taken out of markers on a moving arm by the angles behind them: a part of Table 2, the models tried first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgvm.experiments import table2
from mgvm.experiments._experiment import Report, silent
from mgvm.experiments._table2_baselines import Raw
from mgvm.experiments._table2_models import RAW, Cell, Model
from mgvm.experiments._table2_tasks import BLOCKED, RANDOM, Rows, Task
from mgvm.models import CircularPCA
from mgvm.models.baselines import PPCA

NOISE = 5.0
_SEED = 1
_OURS = "circular PCA"
_MODELS = [
    Model(RAW, lambda cell: Raw()),
    Model("PPCA", lambda cell: PPCA(3)),
    Model("Wiener filter", lambda cell: PPCA(5)),
    Model(_OURS, lambda cell: CircularPCA(3, random_state=cell.seed, tol=1e-4), ours=True),
    Model(f"{_OURS}, joint", lambda cell: CircularPCA(3, prior="kernel", random_state=cell.seed, tol=1e-4), ours=True),
]


@dataclass(frozen=True)
class Motion:
    """Decibels by model, of random halves and of the second half; the rows of the latter, and circular PCA of it."""

    decibels: dict[str, tuple[float, float]]
    rows: Rows
    model: CircularPCA


def compute(report: Report = silent) -> Motion:
    """Learn from noisy frames of the fishing, denoise the others."""
    cell = Cell("fishing", NOISE, _SEED)
    tasks = [Task("fishing", split, (NOISE,), _MODELS, full=False) for split in (RANDOM, BLOCKED)]
    halves = [task.rows(NOISE, _SEED) for task in tasks]
    decibels: dict[str, tuple[float, float]] = {}
    for model in _MODELS:
        report(f"denoising markers by {model.name}")
        first, second = (table2.run(model, rows, cell).decibel for rows in halves)
        decibels[model.name] = first, second
    ours = next(model for model in _MODELS if model.name == _OURS)
    return Motion(decibels, halves[1], ours.make(cell).fit(halves[1].train))


def unwrapped(angles: np.ndarray) -> np.ndarray:
    """Angles along time without jumps of a turn, degrees."""
    return np.asarray(np.degrees(np.unwrap(angles, axis=0)))
