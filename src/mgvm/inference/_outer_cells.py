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
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural, concentrations, coupling_strengths
from mgvm.inference._outer_frame import Frame, Points

MOST_NODES = 10_000_000  # some 500 MB
_WIDE = 1 << 18
_BLOCK = 1 << 16  # points evaluated at a time: some 20 MB
# By the number of outer angles: rules so small are summed whole, others begin with so many cells. One law alone pays
# for calls, a batch for cells.
_WHOLE = (1, 128, 4096)
_FIRST = {"alone": (1, 256, 4096), "batch": (1, 32, 512)}
_FEW = 8
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
        return np.searchsorted(self.rows, np.arange(laws, dtype=self.rows.dtype))

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
            index[j] = _CUT * index[j] + np.tile(np.arange(_CUT, dtype=np.int32), index.shape[1] // _CUT)
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


@cache
def _growth(order: int) -> FloatArray:
    """cosh(ty) - 1 for t = 1 … order and all shifts y."""
    return np.cosh(np.minimum(np.multiply.outer(np.arange(1, order + 1), _SHIFTS), 700.0)) - 1.0


def rule_sizes(law: Natural, doubled: int = 0) -> np.ndarray:
    """Nodes of each angle that make the trapezoid rule exact to rounding for all laws of a batch, and for E[z²]."""
    harmonics = np.vstack([np.abs(law.a).max(axis=0) + coupling_strengths(law), np.abs(law.b)])
    needed = ((_ROUNDING + harmonics.T @ _growth(law.order)) / _SHIFTS).min(axis=1)
    return (np.ceil(needed).astype(np.int64) + 2) << doubled


def _coarse(laws: int, sizes: np.ndarray) -> tuple[Cells, np.ndarray]:
    """All cells to begin with, and how often each angle's are cut in four to make at least `sizes`."""
    cuts = np.zeros(sizes.size, dtype=np.int64)
    first = sizes.copy()
    most = _FIRST["alone" if laws <= _FEW else "batch"][sizes.size]
    while sizes.prod() > _WHOLE[sizes.size] and first.prod() > most:
        cuts[np.argmax(first)] += 1
        first = -(-sizes // _CUT**cuts)
    count = int(first.prod())
    places = np.indices(tuple(first), dtype=np.int32).reshape(sizes.size, count)
    return Cells(np.repeat(np.arange(laws, dtype=np.int32), count), np.tile(places, laws), first), cuts


def blocks(cells: Cells) -> list[slice]:
    """So many cells at a time as caches and memory take."""
    return [slice(begin, begin + _BLOCK) for begin in range(0, cells.rows.size, _BLOCK)]


def bounds(cells: Cells, frame: Frame) -> FloatArray:
    """Upper bounds of v - f(anchor) on the cells."""
    return np.concatenate([frame.bound(cells.points(frame, part), cells.radius) for part in blocks(cells)])


def _values(cells: Cells, frame: Frame) -> FloatArray:
    return np.concatenate([frame.inner(cells.points(frame, part)).value for part in blocks(cells)])


def _check_count(count: int, sizes: np.ndarray, most: int) -> None:
    if count > most:
        grid = " x ".join(f"{size:,}" for size in sizes)
        raise TooManyNodesError(
            f"the law spreads over some {count:,} nodes of a grid of {grid}, and at most {most:,} fit in memory; "
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


def _pruned(cells: Cells, cuts: np.ndarray, frame: Frame, reach: float, most: int) -> tuple[Cells, Cells]:
    """The finest cells after all cuts, less those that a bound shows to be negligible; and a high cell of each law."""
    laws = frame.base.size
    while cuts.any():
        bound = bounds(cells, frame)
        # Taylor's lower bound: somewhere in the cell v is at least the upper bound less twice the slack.
        least = bound - 2.0 * frame.slack(cells.rows, cells.radius)
        best = np.maximum.reduceat(least, cells.starts(laws))
        high = cells.keep(_tops(bound, cells, laws))
        cells = cells.keep(bound > best[cells.rows] - reach)
        angles = cuts == cuts.max()
        _check_count(cells.rows.size * _CUT ** int(angles.sum()), cells.sizes * _CUT**angles, most)
        cells, cuts = cells.cut(angles), cuts - angles
    return cells, high


def _log_spread(law: Natural) -> float:
    """½ Σ log(1 + K_j): the integral of exp(v) is no smaller than exp(max v - this), but for a factor near one."""
    return 0.5 * math.fsum(np.log1p(concentrations(law)[:, :-1].max(axis=0)))


def nodes(law: Natural, doubled: int = 0) -> Nodes:
    """The nodes that carry weight, of laws a (m, D) with dense P and Q, inner angle last."""
    laws = law.a.shape[0]
    sizes = rule_sizes(law, doubled)
    inner = int(sizes[-1])
    cells, cuts = _coarse(laws, sizes[:-1])
    frame = Frame(law, inner)
    if cuts.size == 0:
        frame = _anchored(law, cells, frame, inner)
    if not cuts.any():
        return Nodes(cells, frame, _values(cells, frame))
    reach = _NEGLIGIBLE + _log_spread(law)
    cells, high = _pruned(cells, cuts, frame, reach, MOST_NODES)
    frame = _anchored(law, high, frame, inner)
    value = _values(cells, frame)
    best = np.maximum.reduceat(value, cells.starts(laws))
    chosen = value > best[cells.rows] - reach
    return Nodes(cells.keep(chosen), frame, value[chosen])


def occupied(law: Natural, count: int, depth: float) -> NDArray[np.bool_]:
    """Which of the nodes -π + 2πk/count of a single law's first angle no bound excludes.

    Excluded are those whose density is below e^-depth of the peak; none, where that would cost more than it saves.
    """
    sizes = rule_sizes(law)
    sizes[0] = count
    cells, cuts = _coarse(1, sizes[:-1])
    try:
        cells, _ = _pruned(cells, cuts, Frame(law, int(sizes[-1])), depth + _log_spread(law), _WIDE)
    except TooManyNodesError:
        return np.ones(count, dtype=bool)
    places = np.unique(cells.places[0]).astype(np.int64)
    begin, end = places * count // cells.sizes[0], -(-(places + 1) * count // cells.sizes[0])
    found = np.zeros(count, dtype=bool)
    for shift in range(int((end - begin).max()) + 1):
        found[np.minimum(begin + shift, end) % count] = True
    return found
