"""Rigid links between markers: which marker turns about which, as a structure of circular PCA.

A link turns: a marker stands at its parent, or at a fixed point, plus ℓ(cos φ, sin φ) in the plane, or plus
o + a cos φ + b sin φ in space, with vectors a and b across the axis it turns about; hidden joints put more links
between. W is then linear in the lengths, or in a, b and o, and in the fixed points.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.models import _pca_links as links_between
from mgvm.models._pca_maximisation import Linear

FIXED = ("common", "own", "origin")
_NOTHING = 0.2  # of 1 - ½p var d²/E[d²]²: below it, a link may as well be noise
_GIVES = 0.04  # of its length that a rigid link may vary by, beyond noise
_APART = 6.0  # standard errors by which noise of the same variance may seem to differ between links


@dataclass(frozen=True)
class KinematicTree:
    """Markers with coordinates (x₁, y₁, x₂, y₂, …), or (x₁, y₁, z₁, …), on rigid links.

    Markers of a body that moves as a whole, by a way that is known (a marker at its hip, say), are given relative to
    it: subtract the known positions from the columns, ``Y - np.tile(hip, K)``, and add them to what `denoise` returns.

    Parameters
    ----------
    parents : sequence of int
        The marker that each marker turns about; -1 for a fixed point.
    hidden : sequence of int, optional
        The number of hidden joints between each marker and its parent; none by default.
    dimension : {2, 3}
        Of the space. In three, every link turns about an axis of fixed direction; its a and b are free vectors, shared
        by all markers beyond it, and its offset along the axis is part of c.
    fixed : {"common", "own", "origin"}
        Whether the roots turn about one point, each about its own, or about the origin. Short arcs say little of where
        their centre is: a common one is known far better. Under ``prior="uniform"``, which wants angles all around, a
        fixed point that is learnt is drawn to short arcs: give markers relative to it, and "origin". In space, the
        offset c is free unless this is "origin".

    Examples
    --------
    >>> from mgvm.models import KinematicTree
    >>> KinematicTree(parents=[-1, -1, 1]).n_angles  # a shoulder with two markers on its arms, and a hand
    3
    """

    parents: Sequence[int]
    hidden: Sequence[int] = field(default=())
    dimension: int = 2
    fixed: str = "common"

    def __post_init__(self) -> None:
        parents = tuple(int(parent) for parent in self.parents)
        hidden = tuple(int(number) for number in self.hidden) or (0,) * len(parents)
        if not parents:
            raise ValueError("parents must name the parent of one marker at least")
        if len(hidden) != len(parents) or min(hidden) < 0:
            raise ValueError(f"hidden must have a number >= 0 for each of {len(parents)} markers, got {self.hidden}")
        if self.dimension not in (2, 3):
            raise ValueError(f"dimension must be 2 or 3, got {self.dimension!r}")
        check.choice(self.fixed, "fixed", FIXED)
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

    @property
    def n_columns(self) -> int:
        """M: the coordinates of all markers."""
        return self.dimension * len(self.parents)

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
        """W as a linear function of lengths, or of a and b, then of the fixed points, unless they are the origin."""
        parts: list[FloatArray] = []
        size = self.n_angles
        for marker in range(len(self.parents)):
            for link in self.links(marker):
                if self.dimension == 2:
                    parts.append(self._beyond(marker, [(0, link, 1.0), (1, size + link, 1.0)]))
                else:
                    parts += [self._beyond(marker, [(i, at, 1.0)]) for at in (link, size + link) for i in range(3)]
        if offset and self.fixed != "origin":
            parts += self._points()
        return Linear(np.array(parts), tree=self)

    def _points(self) -> list[FloatArray]:
        """What the fixed points move, a coordinate each."""
        roots = [marker for marker, parent in enumerate(self.parents) if parent < 0]
        if self.dimension == 3:
            return [self._beyond(marker, [(i, -1, 1.0)]) for marker in range(len(self.parents)) for i in range(3)]
        each = [[self._beyond(root, [(i, -1, 1.0)]) for root in roots] for i in range(2)]
        return [sum(parts[1:], parts[0]) for parts in each] if self.fixed == "common" else each[0] + each[1]

    def _beyond(self, marker: int, entries: list[tuple[int, int, float]]) -> FloatArray:
        """W with entries (coordinate, column, value) at a marker and at all that hang on it."""
        out = np.zeros((self.n_columns, 2 * self.n_angles + 1))
        for other in range(len(self.parents)):
            if marker in self.path(other):
                for coordinate, column, value in entries:
                    out[self.dimension * other + coordinate, column] = value
        return out

    def start(self, Y: FloatArray, *, offset: bool = True, warn: bool = True) -> FloatArray:
        """W from the vectors between markers: their mean squares, free of noise, and the centres of roots."""
        markers = Y.reshape(len(Y), -1, self.dimension)
        centres = self._centres(markers, offset=offset)
        out = np.zeros((self.n_columns, 2 * self.n_angles + 1))
        for marker, parent in enumerate(self.parents):
            apart = markers[:, marker] - (markers[:, parent] if parent >= 0 else centres[marker])
            if warn:
                self._warn_of_nothing(marker, apart)
            entries = self._turning(marker, apart, offset=offset)
            if parent < 0:
                entries += [(i, -1, float(value)) for i, value in enumerate(centres[marker])]
            for coordinate, column, value in entries:
                out += value * self._beyond(marker, [(coordinate, column, 1.0)])
        return out

    def is_rigid(self, Y: FloatArray, *, offset: bool = True) -> bool:
        """Whether one variance of noise explains how lengths vary, but for some hundredths; hidden joints are free.

        Columns vary by the noise at least, in any direction: more than their least principal variance it cannot be.
        """
        markers = np.asarray(Y, dtype=np.float64).reshape(len(Y), -1, self.dimension)
        centres = self._centres(markers, offset=offset)
        found = []
        for marker, parent in enumerate(self.parents):
            if not self.hidden[marker]:
                apart = markers[:, marker] - (markers[:, parent] if parent >= 0 else centres[marker])
                variance, square = links_between.steadiness(apart)
                if not square > np.sqrt(_NOTHING) * (square + self.dimension * variance):
                    return False
                found.append((variance if parent < 0 else 0.5 * variance, square))
        rows = links_between.complete(np.asarray(Y, dtype=np.float64))
        if not found or len(rows) <= rows.shape[1]:
            return False
        noise, slack = min(variance for variance, _ in found), 1.0 + _APART * np.sqrt(2.0 / len(Y))
        if noise > slack * float(np.linalg.eigvalsh(np.cov(rows.T))[0]):
            return False
        most = slack * noise
        return all(variance <= most + _GIVES**2 * square for variance, square in found)

    def _turning(self, marker: int, apart: FloatArray, *, offset: bool) -> list[tuple[int, int, float]]:
        """Entries of W that make a marker turn about its parent."""
        numbers, size = self.links(marker), self.n_angles
        if self.dimension == 2:
            lengths = links_between.divided(apart, len(numbers))
            both = zip(numbers, map(float, lengths), strict=True)
            return [entry for k, length in both for entry in ((0, k, length), (1, size + k, length))]
        centre, axes = links_between.plane_of(apart)
        if not offset or self.fixed == "origin":
            centre = np.zeros(3)
        lengths = links_between.divided((apart - centre) @ axes, len(numbers))
        out = [(i, -1, float(centre[i])) for i in range(3)]
        for k, length in zip(numbers, lengths, strict=True):
            out += [(i, column, float(length * axes[i, j])) for j, column in ((0, k), (1, size + k)) for i in range(3)]
        return out

    def _centres(self, markers: FloatArray, *, offset: bool) -> FloatArray:
        """The point that each root turns about; in space the link's own offset says that."""
        out = np.zeros((len(self.parents), self.dimension))
        roots = [marker for marker, parent in enumerate(self.parents) if parent < 0]
        if not offset or self.fixed == "origin" or self.dimension == 3:
            return out
        apart = [markers[:, k] - markers[:, parent] for k, parent in enumerate(self.parents) if parent >= 0]
        costs = [0.5 * links_between.steadiness(one)[0] for one in apart]
        own = [links_between.centre_of([markers[:, root]], 0.0) for root in roots]
        costs += [links_between.steadiness(markers[:, root] - c)[0] for root, c in zip(roots, own, strict=True)]
        noise = float(min(costs))
        groups = [[markers[:, root]] for root in roots]
        if self.fixed == "common":
            groups = [[markers[:, root] for root in roots]] * len(roots)
        for root, group in zip(roots, groups, strict=True):
            out[root] = links_between.centre_of(group, noise)
        return out

    def _warn_of_nothing(self, marker: int, apart: FloatArray) -> None:
        apart = links_between.complete(apart)
        if self.hidden[marker] or len(apart) < 2:
            return
        square = np.einsum("ni,ni->n", apart, apart)
        mean = float(square.mean())
        left = 1.0 - 0.5 * self.dimension * float(square.var()) / mean**2 if mean > 0.0 else 0.0
        # Of vectors that are noise alone the second term is 1, known to about √(8/n).
        if left < min(_NOTHING, 2.5 * np.sqrt(8.0 / len(apart))):
            parent = self.parents[marker]
            where = f"marker {parent}" if parent >= 0 else "its fixed point"
            warnings.warn(
                f"marker {marker} stands where {where} does, as far as the noise can tell: the link between has no "
                "length and its angle says nothing; leave the marker out, or give it another parent",
                UserWarning,
                stacklevel=5,
            )

    @classmethod
    def found(cls, Y: FloatArray, n_angles: int, *, dimension: int = 2, offset: bool = True) -> Self:
        """The tree of steadiest links: a minimum spanning tree, its cost the noise that would explain a link's length.

        It hangs on the origin unless another fixed point makes its links much steadier. Hidden joints go where the
        length varies most.

        Parameters
        ----------
        Y : (n, M)
            Coordinates of the markers, NaN where missing.
        n_angles : int
            The number of markers or more: every further angle is a hidden joint.
        dimension : {2, 3}
            Of the space.
        offset : bool
            Whether fixed points other than the origin are allowed.
        """
        rows = np.asarray(Y, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] % dimension or rows.shape[1] // dimension > n_angles:
            raise ValueError(
                f"a tree needs {dimension} columns a marker, and an angle a marker at least; got data of shape "
                f"{rows.shape} and {n_angles} angles"
            )
        markers = rows.reshape(len(rows), -1, dimension)
        found = links_between.skeleton(markers, offset=offset)
        hidden = np.zeros(markers.shape[1], dtype=int)
        for _ in range(n_angles - hidden.size):
            hidden[np.argmax(found.costs / (1.0 + 10.0 * hidden))] += 1
        # In space the offsets along the axes are to be learnt in any case.
        return cls(found.parents, hidden.tolist(), dimension, "common" if dimension == 3 and offset else found.fixed)
