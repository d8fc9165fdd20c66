"""Modes, and the highest-density arcs that hold a given mass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle import _panels, _roots

if TYPE_CHECKING:
    from mgvm.circle.law import CircleLaw

_TURN = 2.0 * np.pi
_BLOCK = 1024


def _ragged(rows: np.ndarray, size: int, *columns: FloatArray) -> list[FloatArray]:
    """Columns of (law, value) pairs, sorted by law, as matrices with one row a law, padded with NaN."""
    count = np.bincount(rows, minlength=size)
    place = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    out = [np.full((size, int(count.max(initial=0))), np.nan) for _ in columns]
    for matrix, column in zip(out, columns, strict=True):
        matrix[rows, place] = column
    return out


def _critical_points(laws: CircleLaw) -> tuple[np.ndarray, FloatArray, np.ndarray]:
    """Law, angle and kind (+1 maximum, -1 minimum) of every critical point, in angular order for each law."""
    grid = laws._scan_points()
    slope = laws[:, None]._log_slope(grid)
    following = np.concatenate([grid[:, 1:], grid[:, :1] + _TURN], axis=-1)
    slope_following = np.roll(slope, -1, axis=-1)
    row, column = np.nonzero((slope > 0) & (slope_following <= 0) | (slope < 0) & (slope_following >= 0))
    kind = np.where(slope[row, column] > 0, 1, -1)

    def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = -kind[index] * laws[row[index]]._log_slope(x)
        return value, np.full(value.shape, np.nan)

    lower, upper = grid[row, column], following[row, column]
    angle = _roots.increasing_roots(evaluate, lower, upper, 0.5 * (lower + upper))
    return row, angle, kind


def modes(law: CircleLaw) -> tuple[FloatArray, FloatArray]:
    """Local maxima and their densities, highest first."""
    laws = law._flat()
    row, angle, kind = _critical_points(laws)
    row, angle = row[kind > 0], wrap(angle[kind > 0])
    density = laws[row].pdf(angle) if row.size else np.empty(0)
    order = np.lexsort((-density, row))
    out = _ragged(row[order], laws._size, angle[order], density[order])
    return out[0].reshape(*law.batch_shape, -1), out[1].reshape(*law.batch_shape, -1)


class _Slopes:
    """The density of a flat batch cut at its critical points into pieces, each climbing from a minimum to a maximum."""

    def __init__(self, laws: CircleLaw, row: np.ndarray, kind: np.ndarray, bottom: FloatArray, top: FloatArray):
        self.laws, self.row, self.kind, self.bottom, self.top = laws, row, kind, bottom, top
        self.log_bottom = laws[row].logpdf(bottom)
        self.log_top = laws[row].logpdf(top)

    @classmethod
    def of(cls, laws: CircleLaw) -> _Slopes:
        """The pieces of every law, each from one critical point to the next."""
        row, angle, kind = _critical_points(laws)
        count = np.bincount(row, minlength=laws._size)
        start = np.cumsum(count) - count
        is_last = np.arange(row.size) == (start + count - 1)[row]
        following = angle[np.where(is_last, start[row], np.arange(1, row.size + 1))] + np.where(is_last, _TURN, 0.0)
        return cls(laws, row, kind, np.where(kind < 0, angle, following), np.where(kind < 0, following, angle))

    def take(self, index: np.ndarray) -> _Slopes:
        """The pieces of the laws at increasing positions `index`."""
        kept = np.isin(self.row, index)
        row = np.searchsorted(index, self.row[kept])
        return _Slopes(self.laws[index], row, self.kind[kept], self.bottom[kept], self.top[kept])

    def crossings(self, level: FloatArray) -> FloatArray:
        """Where each piece crosses its law's level; its top where it stays below, its bottom where above."""
        wanted = level[self.row]
        out = np.where(wanted >= self.log_top, self.top, self.bottom)
        inside = np.nonzero((wanted < self.log_top) & (wanted > self.log_bottom))[0]
        # On a climb to the left (kind > 0) the log density falls with the angle: count angles backwards.
        sign = -self.kind[inside].astype(float)
        low, high = sign * self.bottom[inside], sign * self.top[inside]

        def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
            piece = inside[index]
            law, angle = self.laws[self.row[piece]], sign[index] * x
            return law.logpdf(angle) - wanted[piece], sign[index] * law._log_slope(angle)

        # Near the top a slope is a parabola: this start is exact for one.
        share = np.sqrt((self.log_top - wanted)[inside] / (self.log_top - self.log_bottom)[inside])
        start = np.clip(high + share * (low - high), low, high)
        out[inside] = sign * _roots.increasing_roots(evaluate, low, high, start)
        return out

    def mass_above(self, crossing: FloatArray) -> FloatArray:
        """Mass of each law above the level with these crossings."""
        laws = self.laws[self.row]
        piece = np.abs(laws.cdf(self.top) - laws.cdf(crossing))
        return np.bincount(self.row, piece, minlength=self.laws._size)


def _level(slopes: _Slopes, mass: float) -> FloatArray:
    """Log density above which each law holds `mass`; mass falls as the level rises."""
    laws = slopes.laws
    low, high = np.full(laws._size, np.inf), np.full(laws._size, -np.inf)
    np.minimum.at(low, slopes.row, slopes.log_bottom)
    np.maximum.at(high, slopes.row, slopes.log_top)
    guess = np.clip(_level_on_nodes(laws, mass), low, high)

    def evaluate(index: np.ndarray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        part = slopes if index.size == laws._size else slopes.take(index)
        crossing = part.crossings(level)
        with np.errstate(divide="ignore"):
            steepness = np.abs(part.laws[part.row]._log_slope(crossing))
            width = np.where((crossing != part.top) & (crossing != part.bottom), 1.0 / steepness, 0.0)
        slope = np.exp(level) * np.bincount(part.row, width, minlength=index.size)
        return mass - part.mass_above(crossing), slope

    return _roots.increasing_roots(evaluate, low, high, guess)


def _level_on_nodes(laws: CircleLaw, mass: float) -> FloatArray:
    """The level read off the quadrature nodes: a start good to a few per cent."""
    nodes, weight = laws._quadrature()
    log_density = laws[:, None].logpdf(nodes)
    order = np.argsort(-log_density, axis=-1)
    held = np.cumsum(np.take_along_axis(weight, order, axis=-1), axis=-1)
    place = np.minimum((held < mass).sum(axis=-1), nodes.shape[-1] - 1)
    return np.take_along_axis(log_density, np.take_along_axis(order, place[:, None], axis=-1), axis=-1)[:, 0]


def _arcs(laws: CircleLaw, mass: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Law, lower and upper end of each arc of a flat batch, in angular order."""
    slopes = _Slopes.of(laws)
    has_modes = np.bincount(slopes.row, minlength=laws._size) > 0
    flat_rows = np.nonzero(~has_modes)[0]
    half = np.full(flat_rows.size, np.pi * mass)
    if not has_modes.any():
        return flat_rows, -half, half
    kept = np.nonzero(has_modes)[0]
    slopes = slopes.take(kept)
    crossing = slopes.crossings(_level(slopes, mass))
    row, lower, upper = _join(slopes, crossing)
    row = np.concatenate([kept[row], flat_rows])
    lower, upper = np.concatenate([lower, -half]), np.concatenate([upper, half])
    turn = lower - wrap(lower)
    lower, upper = lower - turn, upper - turn
    order = np.lexsort((lower, row))
    return row[order], lower[order], upper[order]


def _join(slopes: _Slopes, crossing: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Glue the parts of the pieces above the level into arcs, across maxima and across minima that are covered."""
    rows: list[int] = []
    lowers: list[float] = []
    uppers: list[float] = []
    for row in range(slopes.laws._size):
        index = np.nonzero(slopes.row == row)[0]
        rising = index[slopes.kind[index] < 0]
        covered = crossing[rising] == slopes.bottom[rising]
        if covered.all():  # only where the mass is so near one that nothing is left out
            rows.append(row), lowers.append(-np.pi), uppers.append(np.pi)
            continue
        shift = int(np.nonzero(~covered)[0][0])
        for piece in np.roll(rising, -shift):
            falling = index[(np.nonzero(index == piece)[0][0] + 1) % index.size]
            top, end = slopes.top[piece], crossing[falling]
            end = end + (top - slopes.top[falling])
            if crossing[piece] == top:
                continue
            if crossing[piece] == slopes.bottom[piece]:
                uppers[-1] = uppers[-1] + (end - crossing[piece])
            else:
                rows.append(row), lowers.append(float(crossing[piece])), uppers.append(float(end))
    return np.array(rows, dtype=int), np.array(lowers), np.array(uppers)


def interval(law: CircleLaw, mass: float) -> FloatArray:
    """Highest-density arcs, ``batch_shape + (arcs, 2)``, padded with NaN."""
    laws = law._flat()
    parts = [_arcs(laws[i : i + _BLOCK], mass) for i in range(0, laws._size, _BLOCK)]
    if not parts:
        return np.empty((*law.batch_shape, 0, 2))
    rows = np.concatenate([part[0] + i * _BLOCK for i, part in enumerate(parts)])
    lower, upper = _ragged(rows, laws._size, *(np.concatenate([part[j] for part in parts]) for j in (1, 2)))
    return np.stack([lower, upper], axis=-1).reshape(*law.batch_shape, -1, 2)
