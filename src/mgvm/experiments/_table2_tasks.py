"""The parts of Table 2: motions, ways to split them, noise, and what the paper printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mgvm import datasets
from mgvm._validation import FloatArray
from mgvm.experiments._table2_models import Model, models

RANDOM, BLOCKED = "random halves", "first half, second half"
_NAMES = {"fishing": "Fishing", "running": "Running", "boxing": "Boxing", "robot": "Robot"}
# Table 2 of the paper, at 2.5, 5 and 10 pixels: the best of three starts.
_PAPER = {
    "fishing": {
        "cPCA-Point": (29.6, 23.5, 17.6),
        "cPCA-VB": (24.6, 21.9, 17.6),
        "PPCA": (23.6, 20.9, 17.2),
        "GPLVM-SE": (8.6, 8.5, 8.2),
        "GPLVM-L": (11.0, 7.5, 8.1),
    },
    "robot": {
        "cPCA-Point": (33.5, 30.0, 24.9),
        "cPCA-VB": (33.2, 29.8, 24.8),
        "PPCA": (22.3, 21.8, 20.5),
        "GPLVM-SE": (21.8, 15.7, 15.2),
        "GPLVM-L": (24.0, 16.6, 15.9),
    },
}


class Rows(NamedTuple):
    """Noisy rows to learn from and to denoise, and the latter as they were."""

    train: FloatArray
    test: FloatArray
    clean: FloatArray


class Task(NamedTuple):
    """One motion, split in one way."""

    motion: str
    split: str
    noises: tuple[float, ...]
    models: list[Model]
    full: bool

    @property
    def name(self) -> str:
        """For tables."""
        return f"{_NAMES[self.motion]}, {self.split}"

    @property
    def files(self) -> tuple[str, ...]:
        """Of `mgvm.datasets.SOURCES`, which the rows need."""
        return (f"{self.motion}.mat",)

    @property
    def paper(self) -> Mapping[str, tuple[float, ...]]:
        """What the paper printed, by model."""
        return _PAPER.get(self.motion, {}) if self.split == RANDOM else {}

    def rows(self, noise: float, seed: int) -> Rows:
        """The halves with their noise; both halves of a seed are the same at every noise."""
        rows = datasets.fetch_mocap(self.motion).rows
        rng = np.random.default_rng(seed)
        order, half = rng.permutation(len(rows)), len(rows) // 2
        if self.split == BLOCKED:
            order = np.arange(len(rows))
        noisy = rows + noise * rng.normal(size=rows.shape)
        train, test = order[:half], order[half:]
        return Rows(noisy[train], noisy[test], rows[test])


def tasks(full: bool = False) -> list[Task]:
    """All of them; the quick ones are those of the paper, and the fishing in blocks."""
    noises = (2.5, 5.0, 10.0, 15.0)
    pairs: list[tuple[str, str, tuple[float, ...]]]
    if full:
        pairs = [(motion, RANDOM, noises) for motion in _NAMES] + [(motion, BLOCKED, noises[:3]) for motion in _NAMES]
    else:
        pairs = [("fishing", RANDOM, noises[:3]), ("robot", RANDOM, noises[:3]), ("fishing", BLOCKED, noises[1:2])]
    return [Task(motion, split, some, models(full, motion), full) for motion, split, some in pairs]
