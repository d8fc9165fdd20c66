"""The parts of Table 2: motions, ways to split them, noise, models by name, and what the paper printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mgvm import datasets
from mgvm.pca import PPCA, CircularPCA, KinematicTree
from paper.experiment import FloatArray
from paper.table2.baselines import Raw, auto_encoder, gplvm, kernel_pca, mixture_filter
from paper.table2.gplvm import GPLVM

RAW, POINT, TREE = "raw, noisy", "cPCA", "cPCA, known tree"
_TOLERANCE, _QUICK_TOLERANCE = 1e-4, 5e-4
# Two markers turn about the origin, the third about the second; the robot's about the first, by a hidden joint.
ARM, ROBOT = KinematicTree([-1, -1, 1], fixed="origin"), KinematicTree([-1, -1, 0], [0, 0, 1], fixed="origin")


class Cell(NamedTuple):
    """What a model is told before it sees rows: the motion, the noise that was added, and a seed of its own."""

    motion: str
    noise: float
    seed: int
    full: bool = True

    @property
    def tree(self) -> KinematicTree:
        """How the arm is built."""
        return ROBOT if self.motion == "robot" else ARM


class Model(NamedTuple):
    """How a denoiser is made; `ours` are circular PCA."""

    name: str
    make: Callable[[Cell], Any]
    ours: bool = False


def _default(cell: Cell, **options: Any) -> CircularPCA:
    """As many angles as the arm has, the rest as it comes."""
    starts, tolerance = (2, _TOLERANCE) if cell.full else (1, _QUICK_TOLERANCE)
    own = {"n_components": cell.tree.n_angles, "n_init": starts, "tol": tolerance, "random_state": cell.seed}
    return CircularPCA(**{**own, **options})


def _free(cell: Cell, size: int = 3, **options: Any) -> CircularPCA:
    return _default(cell, n_components=size, structure=None, prior="von_mises", **options)


def _on_tree(cell: Cell, prior: str = "von_mises") -> CircularPCA:
    return _default(cell, structure=cell.tree, prior=prior)


def baselines(full: bool) -> list[Model]:
    """All that is not circular."""
    quick = [
        Model(RAW, lambda cell: Raw()),
        Model("PPCA", lambda cell: PPCA(3)),
        Model("Wiener, learnt", lambda cell: PPCA(5)),
        Model("Wiener, told", lambda cell: PPCA(6, noise_variance=cell.noise**2)),
        Model("GPLVM-linear", lambda cell: GPLVM("linear")),
    ]
    if not full:
        return [*quick, Model("Gaussian mixture", lambda cell: mixture_filter(cell.noise, cell.seed, (10,)))]
    return [
        *quick,
        Model("GPLVM-SE", lambda cell: gplvm(cell.noise, cell.tree.n_angles)),
        Model("kernel PCA", lambda cell: kernel_pca(cell.noise)),
        Model("auto-encoder", lambda cell: auto_encoder(cell.noise, cell.seed)),
        Model("Gaussian mixture", lambda cell: mixture_filter(cell.noise, cell.seed)),
    ]


def circular(full: bool, motion: str) -> list[Model]:
    """Circular PCA with three angles; with a tree the robot has four, and variational Bayes may have as many."""
    mean_field = Model("cPCA, mean field", lambda cell: _free(cell, inference="mean_field"), ours=True)
    bayes = Model("cPCA-VB", lambda cell: _free(cell, 4, method="vb"), ours=True)
    joint = Model("cPCA, joint", lambda cell: _on_tree(cell, "kernel"), ours=True)
    auto = Model("cPCA, all found", lambda cell: _default(cell, prior="auto"), ours=True)
    return [
        *([mean_field] if full else []),
        Model(POINT, _free, ours=True),
        *([bayes] if full else []),
        Model(TREE, _on_tree, ours=True),
        Model("cPCA, tree, flat", lambda cell: _on_tree(cell, "uniform"), ours=True),
        *([joint] if full or motion != "robot" else []),
        Model("cPCA, default", _default, ours=True),
        *([auto] if full else []),
    ]


def models(full: bool, motion: str) -> list[Model]:
    """All of them; the quick ones leave out what is slow."""
    return [*baselines(full), *circular(full, motion)]


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


def make_tasks(full: bool = False) -> list[Task]:
    """All of them; the quick ones are those of the paper, and the fishing in blocks."""
    noises = (2.5, 5.0, 10.0, 15.0)
    pairs: list[tuple[str, str, tuple[float, ...]]]
    if full:
        pairs = [(motion, RANDOM, noises) for motion in _NAMES] + [(motion, BLOCKED, noises[:3]) for motion in _NAMES]
    else:
        pairs = [("fishing", RANDOM, noises[:3]), ("robot", RANDOM, noises[:3]), ("fishing", BLOCKED, noises[1:2])]
    return [Task(motion, split, some, models(full, motion), full) for motion, split, some in pairs]
