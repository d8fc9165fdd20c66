"""Integrals over up to two outer angles by the trapezoid rule, on the nodes that carry weight.

A uniform rule of n nodes in angle j errs by the Fourier coefficients ±n, ±2n, ... of exp f. Moving φ_j to φ_j + iy
changes Re f by at most Σ_t C_t (cosh(ty) - 1), C_1 = |a_j| + Σ_k |P_jk| + |Q_jk|, C_t = |b_t,j|: the relative error is
below

    2 exp(-n y + Σ_t C_t (cosh(ty) - 1))   for every y > 0,

whatever the other angles do. Narrow laws need fine rules of which few nodes matter: cells are cut in four, angle by
angle, and dropped once an upper bound of the density there is negligible.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural, concentrations, coupling_strengths
from mgvm.inference._outer_frame import Frame, Points

MOST_NODES = 20_000_000
_BLOCK = 1 << 16  # points evaluated at a time: some 20 MB
_COARSEST = (1, 256, 4096)  # cells to begin with, by the number of outer angles; rules no larger are summed whole
_CUT = 4
_NEGLIGIBLE = 40.0
_ROUNDING = 38.0  # 2 exp(-38) is a quarter of what doubles resolve
_SHIFTS = np.geomspace(1e-5, 20.0, 240)


class TooManyNodesError(ValueError):
    """More nodes matter than memory holds."""


class Cells(NamedTuple):
    """Cells `places` (outer, n) of the laws `rows` (n,), ascending; angle j is cut into sizes[j] equal ones."""

    rows: np.ndarray
    places: np.ndarray
    sizes: np.ndarray

    @property
    def radius(self) -> FloatArray:
        """Half-widths, (outer,)."""
        return np.pi / self.sizes

    def starts(self, laws: int) -> np.ndarray:
        """Where each law's cells begin."""
        return np.searchsorted(self.rows, np.arange(laws))

    def keep(self, chosen: np.ndarray) -> Cells:
        """Those chosen by a mask or by places."""
        return Cells(self.rows[chosen], self.places[:, chosen], self.sizes)

    def points(self, frame: Frame, part: slice = slice(None)) -> Points:
        """The centres, as seen from the anchors."""
        rows = self.rows[part]
        angles = -np.pi + (self.places[:, part] + 0.5) * (2.0 * self.radius[:, None])
        outer = angles.shape[0]
        anchor = frame.anchor[:, :outer] if frame.anchor.shape[0] == 1 else frame.anchor[rows, :outer]
        return Points(rows, angles - anchor.T)

    def cut(self, angles: np.ndarray) -> Cells:
        """Every cell in four in each of the angles chosen by a mask."""
        rows, index, sizes = self
        for j in np.flatnonzero(angles):
            rows = np.repeat(rows, _CUT)
            index = np.repeat(index, _CUT, axis=1)
            index[j] = _CUT * index[j] + np.tile(np.arange(_CUT), index.shape[1] // _CUT)
        return Cells(rows, index, np.where(angles, _CUT * sizes, sizes))


class Nodes(NamedTuple):
    """The nodes of the rule that carry weight, and v - f(anchor) there, seen from anchors near the peaks."""

    cells: Cells
    frame: Frame
    value: FloatArray

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """log ∫ exp(v - f(anchor)) of each law, and the nodes' probabilities."""
        starts = self.cells.starts(self.frame.base.size)
        top = np.maximum.reduceat(self.value, starts)
        weight = np.exp(self.value - top[self.cells.rows])
        total = np.add.reduceat(weight, starts)
        relative: FloatArray = top + np.log(total) + np.log(2.0 * self.cells.radius).sum()
        return relative, weight / total[self.cells.rows]


def rule_sizes(law: Natural, doubled: int = 0) -> np.ndarray:
    """Nodes of each angle that make the trapezoid rule exact to rounding for all laws of a batch, and for E[z²]."""
    harmonics = np.vstack([np.abs(law.a).max(axis=0) + coupling_strengths(law), np.abs(law.b)])
    growth = np.cosh(np.minimum(np.multiply.outer(np.arange(1, law.order + 1), _SHIFTS), 700.0)) - 1.0
    needed = ((_ROUNDING + harmonics.T @ growth) / _SHIFTS).min(axis=1)
    return (np.ceil(needed).astype(np.int64) + 2) << doubled


def _coarse(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells to begin with, and how often each angle's are cut in four to make at least `sizes`."""
    cuts = np.zeros(sizes.size, dtype=np.int64)
    first = sizes.copy()
    while first.prod() > _COARSEST[sizes.size]:
        cuts[np.argmax(first)] += 1
        first = -(-sizes // _CUT**cuts)
    return first, cuts


def _tensor(laws: int, sizes: np.ndarray) -> Cells:
    """All cells of all laws."""
    count = int(sizes.prod())
    index = np.indices(tuple(sizes)).reshape(sizes.size, count)
    return Cells(np.repeat(np.arange(laws), count), np.tile(index, laws), sizes)


def blocks(cells: Cells) -> list[slice]:
    """So many cells at a time as caches and memory take."""
    return [slice(begin, begin + _BLOCK) for begin in range(0, cells.rows.size, _BLOCK)]


def bounds(cells: Cells, frame: Frame) -> FloatArray:
    """Upper bounds of v - f(anchor) on the cells."""
    return np.concatenate([frame.bound(cells.points(frame, part), cells.radius) for part in blocks(cells)])


def _values(cells: Cells, frame: Frame) -> FloatArray:
    return np.concatenate([frame.inner(cells.points(frame, part)).value for part in blocks(cells)])


def _check_count(cells: Cells) -> None:
    if cells.rows.size > MOST_NODES:
        raise TooManyNodesError(
            f"the law spreads over more than {cells.rows.size:,} nodes of its grid of "
            f"{' x '.join(f'{size:,}' for size in cells.sizes)}, and at most {MOST_NODES:,} fit in memory; "
            "use annealed_log_normalizer for log Z and gibbs for draws"
        )


def _anchored(law: Natural, cells: Cells, frame: Frame, inner: int) -> Frame:
    """The frame at the one given cell of each law, with the inner angle at its mode there."""
    points = cells.points(frame)
    reference = frame.inner(points).reference
    return Frame(law, inner, frame.anchor + np.column_stack([points.psi.T, reference]))


def _tops(value: FloatArray, cells: Cells, laws: int) -> np.ndarray:
    """Where each law's largest value stands."""
    largest = np.maximum.reduceat(value, cells.starts(laws))
    hits = np.flatnonzero(value == largest[cells.rows])
    return hits[np.searchsorted(cells.rows[hits], np.arange(laws))]


def _pruned(law: Natural, cells: Cells, cuts: np.ndarray, frame: Frame, reach: float) -> tuple[Cells, Cells]:
    """The finest cells after all cuts, less those that a bound shows to be negligible; and a high cell of each law."""
    laws = law.a.shape[0]
    while cuts.any():
        bound = bounds(cells, frame)
        # Taylor's lower bound: somewhere in the cell v is at least the upper bound less twice the slack.
        least = bound - 2.0 * frame.slack(cells.rows, cells.radius)
        best = np.maximum.reduceat(least, cells.starts(laws))
        high = cells.keep(_tops(bound, cells, laws))
        cells = cells.keep(bound > best[cells.rows] - reach).cut(cuts == cuts.max())
        _check_count(cells)
        cuts = np.where(cuts == cuts.max(), cuts - 1, cuts)
    return cells, high


def nodes(law: Natural, doubled: int = 0) -> Nodes:
    """The nodes that carry weight, of laws a (m, D) with dense P and Q, inner angle last."""
    laws = law.a.shape[0]
    sizes = rule_sizes(law, doubled)
    inner = int(sizes[-1])
    first, cuts = _coarse(sizes[:-1])
    cells = _tensor(laws, first)
    frame = Frame(law, inner)
    if first.size == 0:
        frame = _anchored(law, cells, frame, inner)
    if not cuts.any():
        return Nodes(cells, frame, _values(cells, frame))
    # The whole integral is at least exp(best) Π 1/√K_j or so: what lies this far below, all over the torus, is nothing.
    reach = _NEGLIGIBLE + 0.5 * math.fsum(np.log1p(concentrations(law)[:, :-1].max(axis=0)))
    cells, high = _pruned(law, cells, cuts, frame, reach)
    frame = _anchored(law, high, frame, inner)
    value = _values(cells, frame)
    best = np.maximum.reduceat(value, cells.starts(laws))
    chosen = value > best[cells.rows] - reach
    return Nodes(cells.keep(chosen), frame, value[chosen])
