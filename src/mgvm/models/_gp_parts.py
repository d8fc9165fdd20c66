"""Small parts of circular regression: inputs that are not merged, folds of inputs, residuals, mixtures on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.models._circular_regressor import Merged, Training
from mgvm.models._gp_noise import Groups


def unmerged(data: Training) -> Merged:
    """Every row its own input: rows of a Gram matrix are not inputs."""
    rows = np.arange(data.y.size)
    if not (data.weights > 0.0).all():
        raise ValueError(
            "with kernel='precomputed' every sample_weight must be positive; leave the other rows out of X"
        )
    return Merged(data.X, Groups(data.y, data.weights, rows), rows, rows)


def folds_of(groups: ArrayLike | None, together: Merged, count: int) -> np.ndarray | None:
    """The fold of every distinct input."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise ValueError(f"groups must have one label a row, shape ({count},), got {labels.shape}")
    _, numbers = np.unique(labels, return_inverse=True)
    kept = together.group >= 0
    folds = np.zeros(len(together.inputs), dtype=np.int64)
    folds[together.group[kept]] = numbers[kept]
    if (folds[together.group[kept]] != numbers[kept]).any():
        raise ValueError("groups split rows that have the same input; rows of one input must be in one group")
    if np.unique(folds).size < 2:
        raise ValueError("groups has a single label; at least two blocks are needed to hold one out")
    return folds


def residuals(found: Any, groups: Groups) -> FloatArray:
    """Angles less the mean directions that all other inputs predict."""
    centre = np.asarray(found.fits[0][1].leave_one_out.mean_direction())
    sizes = np.diff(np.append(groups.starts, groups.angles.size))
    return np.asarray(groups.angles - np.repeat(centre, sizes))


def mixed(laws: list[GridDensity], weights: list[float]) -> GridDensity:
    """A mixture on the finest grid of its parts."""
    count = max(law.log_values.shape[-1] for law in laws)
    nodes = -np.pi + 2.0 * np.pi / count * np.arange(count)
    density = sum(
        weight * (np.exp(law.log_values) if law.log_values.shape[-1] == count else law[:, None].pdf(nodes))
        for weight, law in zip(weights, laws, strict=True)
    )
    return GridDensity(np.log(density))
