"""The models of Table 2 by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mgvm.experiments._table2_baselines import Raw, auto_encoder, gplvm, kernel_pca, mixture_filter
from mgvm.experiments._table2_gplvm import GPLVM
from mgvm.pca import PPCA, CircularPCA, KinematicTree

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
