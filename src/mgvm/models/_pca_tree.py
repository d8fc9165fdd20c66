"""Rigid links between markers: which marker turns about which, as a structure of circular PCA.

A link turns in the plane: a marker stands at its parent, or at a fixed point, plus ℓ(cos φ, sin φ); hidden joints put
more links between. W is then linear in the lengths and the fixed points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._pca_maximisation import Linear

_OUTER = 0.01  # quantiles that stand for the least and the largest distance


@dataclass(frozen=True)
class KinematicTree:
    """Markers with coordinates (x₁, y₁, x₂, y₂, …) on rigid links.

    Parameters
    ----------
    parents : sequence of int
        The marker that each marker turns about; -1 for a fixed point.
    hidden : sequence of int, optional
        The number of hidden joints between each marker and its parent; none by default.

    Examples
    --------
    >>> from mgvm.models import KinematicTree
    >>> KinematicTree(parents=[-1, -1, 1]).n_angles  # a shoulder with two markers on its arms, and a hand
    3
    """

    parents: Sequence[int]
    hidden: Sequence[int] = field(default=())

    def __post_init__(self) -> None:
        parents = tuple(int(parent) for parent in self.parents)
        hidden = tuple(int(number) for number in self.hidden) or (0,) * len(parents)
        if not parents:
            raise ValueError("parents must name the parent of one marker at least")
        if len(hidden) != len(parents) or min(hidden) < 0:
            raise ValueError(f"hidden must have a number >= 0 for each of {len(parents)} markers, got {self.hidden}")
        for marker, parent in enumerate(parents):
            if not -1 <= parent < len(parents):
                raise ValueError(f"the parent of marker {marker} must be a marker or -1, got {parent}")
            seen = {marker}
            while parent >= 0:
                if parent in seen:
                    raise ValueError(f"marker {marker} is its own ancestor; parents must form a tree, got {parents}")
                seen.add(parent)
                parent = parents[parent]
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "hidden", hidden)

    @property
    def n_angles(self) -> int:
        """D: one for every marker and every hidden joint."""
        return len(self.parents) + sum(self.hidden)

    def links(self, marker: int) -> list[int]:
        """The angles of the links between a marker and its parent."""
        first = marker + sum(self.hidden[:marker])
        return list(range(first, first + 1 + self.hidden[marker]))

    def path(self, marker: int) -> list[int]:
        """The markers from a fixed point to a marker."""
        above = [marker]
        while self.parents[above[-1]] >= 0:
            above.append(self.parents[above[-1]])
        return above[::-1]

    def structure(self, *, offset: bool = True) -> Linear:
        """W as a linear function of the lengths, then of the fixed points, unless all are the origin."""
        markers, size = len(self.parents), self.n_angles
        lengths = np.zeros((size, 2 * markers, 2 * size + 1))
        roots = [marker for marker in range(markers) if self.parents[marker] < 0]
        points = np.zeros((2 * len(roots), 2 * markers, 2 * size + 1))
        for marker in range(markers):
            path = self.path(marker)
            for ancestor in path:
                for link in self.links(ancestor):
                    lengths[link, 2 * marker, link] = lengths[link, 2 * marker + 1, size + link] = 1.0
            root = roots.index(path[0])
            points[2 * root, 2 * marker, -1] = points[2 * root + 1, 2 * marker + 1, -1] = 1.0
        return Linear(np.concatenate([lengths, points]) if offset else lengths)

    def start(self, Y: FloatArray, *, offset: bool = True) -> FloatArray:
        """W from the distances between markers, and from circles through those that turn about a fixed point."""
        markers = Y.reshape(len(Y), -1, 2)
        basis = self.structure(offset=offset).basis
        lengths, points = np.zeros(self.n_angles), []
        for marker, parent in enumerate(self.parents):
            centre = markers[:, parent] if parent >= 0 else _circle(markers[:, marker])[0] if offset else np.zeros(2)
            if parent < 0 and offset:
                points += list(centre)
            distance = np.hypot(*(markers[:, marker] - centre).T)
            lengths[self.links(marker)] = _divided(distance, 1 + self.hidden[marker])
        return np.asarray(np.einsum("j,jmq->mq", np.concatenate([lengths, points]), basis))

    @classmethod
    def found(cls, Y: FloatArray, n_angles: int) -> Self:
        """The tree of steadiest links: a minimum spanning tree, its cost the variance of a link's length.

        Noise adds the same to the cost of all pairs of markers, and half as much where a marker turns about a fixed
        point. Hidden joints go where the length varies most.
        """
        markers = Y.reshape(len(Y), -1, 2)
        count = markers.shape[1]
        fixed = np.array([_circle(markers[:, k])[1] for k in range(count)])
        cost = np.array([[_unsteady(markers[:, i] - markers[:, j]) for j in range(count)] for i in range(count)])
        # Prim's algorithm from the fixed points.
        parents, best = np.full(count, -1), 2.0 * fixed
        left = set(range(count))
        while left:
            near = min(left, key=lambda k: best[k])
            left.remove(near)
            for k in left:
                if cost[k, near] < best[k]:
                    best[k], parents[k] = cost[k, near], near
        hidden = np.zeros(count, dtype=int)
        for _ in range(n_angles - count):
            hidden[np.argmax(best / (1.0 + 10.0 * hidden))] += 1
        return cls(parents.tolist(), hidden.tolist())


def _unsteady(apart: FloatArray) -> float:
    """Variance of a length, from that of its square: var(d²)/4E[d²]."""
    square = np.einsum("ni,ni->n", apart, apart)
    square = square[~np.isnan(square)]
    return float(square.var() / (4.0 * square.mean())) if square.size and square.mean() > 0.0 else np.inf


def _circle(points: FloatArray) -> tuple[FloatArray, float]:
    """The centre of the circle nearest to points in the plane (least squares in the squared distance), and its cost."""
    points = points[~np.isnan(points).any(axis=1)]
    design = np.column_stack([2.0 * points, np.ones(len(points))])
    found = np.linalg.lstsq(design, np.einsum("ni,ni->n", points, points), rcond=None)[0]
    return found[:2], _unsteady(points - found[:2])


def _divided(distance: FloatArray, links: int) -> FloatArray:
    """Lengths of links that together reach from the least to the largest distance."""
    distance = distance[~np.isnan(distance)]
    if links == 1:
        return np.array([np.sqrt(np.mean(distance**2))])
    least, most = np.quantile(distance, [_OUTER, 1.0 - _OUTER])
    return np.concatenate([[0.5 * (most + least)], np.full(links - 1, 0.5 * (most - least) / (links - 1))])
