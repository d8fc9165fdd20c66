"""Nearest neighbours of inputs under a kernel, and the small kernel matrices that kriging from them needs.

Any scikit-learn kernel works: it is called on blocks of inputs that lie together with the union of their neighbours,
some two hundred points at a time, so that the cost is linear in the number of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import Kernel

from mgvm._numerics.propagation import conditional_weights
from mgvm._validation import FloatArray
from mgvm.regression.prior import NUGGET


class Weights(NamedTuple):
    """Targets given their neighbours: K⁻¹ (N, m, m), w (N, m), v (N,), and prior variances (N,)."""

    inverses: FloatArray
    weights: FloatArray
    rest: FloatArray
    variances: FloatArray

    @classmethod
    def empty(cls, size: int, count: int) -> Weights:
        """Room for them."""
        return cls(np.empty((size, count, count)), np.empty((size, count)), np.empty(size), np.empty(size))


class Block(NamedTuple):
    """Targets, the points they and their neighbours make up, and the places of each target and its neighbors."""

    targets: np.ndarray  # (B,)
    points: np.ndarray  # (U,)
    members: np.ndarray  # (B, 1 + m), rows of `points`


def embedding(kernel: Kernel, X: FloatArray) -> FloatArray:
    """Coordinates whose Euclidean distance orders pairs of inputs by their correlation.

    Inputs over length scales; for a periodic kernel exp(-2 sin²(πd/p)/ℓ²) the points (cos, sin)(2πx/p)/ℓ of a circle,
    whose chords c give exp(-c²/2). The factors or terms of a composed kernel all contribute.
    """
    parts = _parts(kernel, X)
    return np.concatenate(parts, axis=1) if parts else X


def _parts(kernel: Kernel, X: FloatArray) -> list[FloatArray]:
    if hasattr(kernel, "k1"):
        return _parts(kernel.k1, X) + _parts(kernel.k2, X)
    if hasattr(kernel, "kernel"):  # Exponentiation
        return _parts(kernel.kernel, X)
    if hasattr(kernel, "periodicity"):
        turns = 2.0 * np.pi * X / kernel.periodicity
        return [np.cos(turns) / kernel.length_scale, np.sin(turns) / kernel.length_scale]
    if hasattr(kernel, "length_scale"):
        return [X / kernel.length_scale]
    return []


@dataclass(frozen=True)
class Neighborhood:
    """The m nearest other inputs of every input (N, m), and blocks of inputs that lie together."""

    inputs: FloatArray
    places: FloatArray  # the embedding that distances were taken in
    neighbors: np.ndarray
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, kernel: Kernel, inputs: FloatArray, n_neighbors: int) -> Neighborhood:
        """Neighbours of distinct inputs under a kernel."""
        places = embedding(kernel, inputs)
        tree = cKDTree(places)
        count = min(n_neighbors, len(inputs) - 1)
        found = np.asarray(tree.query(places, count + 1)[1], dtype=np.int64).reshape(len(inputs), count + 1)
        # A periodic kernel sends distinct inputs to one place: the input itself need not come first, or at all.
        own = found == np.arange(len(inputs))[:, None]
        own[~own.any(axis=1), -1] = True
        neighbors = np.ascontiguousarray(found[~own].reshape(len(inputs), count))
        return cls(inputs, places, neighbors, tuple(_blocks(np.asarray(tree.indices), neighbors)))

    def still_valid(self, kernel: Kernel, factor: float = 1.5) -> bool:
        """Whether no coordinate has been stretched relative to the others by more than a factor."""
        now = embedding(kernel, self.inputs)
        before, after = self.places.std(axis=0), now.std(axis=0)
        ratios = after[before > 0.0] / before[before > 0.0]
        return bool(ratios.size == 0 or ratios.max() <= factor * ratios.min())

    def weights(self, kernel: Kernel) -> Weights:
        """Conditional distributions of all inputs given their neighbours, nugget included."""
        return self.several_weights(kernel, (self.neighbors.shape[1],))[0]

    def several_weights(self, kernel: Kernel, counts: tuple[int, ...]) -> list[Weights]:
        """The same given only so many of the nearest neighbours, for several numbers at once."""
        outs = [Weights.empty(len(self.inputs), count) for count in counts]
        nugget = NUGGET * float(kernel.diag(self.inputs).mean())
        for block in self.blocks:
            gram = np.array(kernel(self.inputs[block.points]), dtype=float)
            np.fill_diagonal(gram, gram.diagonal() + nugget)
            own = block.members[:, 0]
            for count, out in zip(counts, outs, strict=True):
                near = np.ascontiguousarray(block.members[:, 1 : 1 + count])
                _fill(out, block.targets, gram, gram[own], gram.diagonal()[own], near)
        return [_require_positive(out) for out in outs]


def query_weights(
    kernel: Kernel, inputs: FloatArray, queries: FloatArray, n_neighbors: int
) -> tuple[np.ndarray, Weights]:
    """Neighbours (M, m) of new points among the inputs, and their conditional distributions."""
    count = min(n_neighbors, len(inputs))
    found = cKDTree(embedding(kernel, inputs)).query(embedding(kernel, queries), count)[1]
    neighbors = np.asarray(found, dtype=np.int64).reshape(len(queries), count)
    out = Weights.empty(len(queries), count)
    nugget = NUGGET * float(kernel.diag(inputs).mean())
    for block in _blocks(np.argsort(neighbors[:, 0], kind="stable"), neighbors, own=False):
        near = inputs[block.points]
        gram = np.array(kernel(near), dtype=float)
        np.fill_diagonal(gram, gram.diagonal() + nugget)
        asked = queries[block.targets]
        cross = np.ascontiguousarray(kernel(asked, near), dtype=float)
        _fill(out, block.targets, gram, cross, (1.0 + NUGGET) * kernel.diag(asked), block.members)
    return neighbors, _require_positive(out)


def _fill(
    out: Weights, targets: np.ndarray, gram: FloatArray, cross: FloatArray, variances: FloatArray, members: np.ndarray
) -> None:
    """The conditional distributions of one block, put where they belong."""
    rows = np.asarray(targets, dtype=np.int64)
    conditional_weights(gram, cross, variances, members, rows, (out.inverses, out.weights, out.rest))
    out.variances[rows] = variances


def _blocks(order: np.ndarray, neighbors: np.ndarray, *, own: bool = True) -> Iterator[Block]:
    """Targets in an order that keeps near ones together, cut into blocks.

    In many dimensions even near targets share few neighbors, and the kernel of all their points would be wasted: a
    block is halved as long as that saves covariances, a call of the kernel counted as some thousands of them.
    """
    most, call = 64, 10_000  # targets of a block; covariances that cost as much as one call of the kernel
    waiting = [order[begin : begin + most] for begin in range(0, order.size, most)][::-1]
    while waiting:
        block = _block(waiting.pop(), neighbors, own)
        count = block.targets.size
        if count > 1 and block.points.size**2 > 2 * call:
            halves = [_block(part, neighbors, own) for part in np.array_split(block.targets, 2)]
            if block.points.size**2 > call + sum(half.points.size**2 for half in halves):
                waiting.extend(half.targets for half in halves[::-1])
                continue
        yield block


def _block(targets: np.ndarray, neighbors: np.ndarray, own: bool) -> Block:
    near = np.concatenate([targets[:, None], neighbors[targets]], axis=1) if own else neighbors[targets]
    points, members = np.unique(near, return_inverse=True)
    return Block(targets, points, members.reshape(near.shape).astype(np.int64))


def default_count(kernel: Kernel, dimension: int) -> int:
    """Neighbours for leave-one-out densities within some thousandths of a nat of those that hear all inputs.

    In the plane smooth kernels look further than rough ones.
    """
    if dimension == 1:
        return 30
    return 24 if _rough(kernel) else 40


def _rough(kernel: Kernel) -> bool:
    """Whether a kernel, or a part of it, is no smoother than the exponential."""
    parts = [getattr(kernel, name) for name in ("k1", "k2", "kernel") if hasattr(kernel, name)]
    return bool(getattr(kernel, "nu", np.inf) <= 0.5) or any(_rough(part) for part in parts)


def _require_positive(found: Weights) -> Weights:
    """The same, unless a kernel matrix could not be factorised."""
    wrong = ~(np.isfinite(found.rest) & (found.rest > 0.0))
    if wrong.any():
        raise ValueError(
            f"the kernel matrix of {int(wrong.sum())} neighbourhoods (the first that of point {int(wrong.argmax())}) "
            "is not positive definite; use a valid kernel, or add a WhiteKernel"
        )
    return found
