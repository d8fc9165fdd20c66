"""Modes, and the highest-density regions (HDR) that hold a given mass.

The HDR of mass m is {φ: p(φ) > c} with the level c at which it holds m. `interval` finds it of any distribution: the
critical points cut the density into monotone pieces, on which a level is crossed once; the level at which the masses
between the crossings add up to m, and the crossings themselves, come from safeguarded Newton steps on all pieces of a
batch at once. `grid_levels` reads the level off a density on nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mgvm._validation import FloatArray
from mgvm.angles import wrap

if TYPE_CHECKING:
    from mgvm.circle.base import CircularDistribution

_TURN = 2.0 * np.pi
_EPS = float(np.finfo(float).eps)
_ROUNDING = 5e-16  # of a mass


class CriticalPoints(NamedTuple):
    """Distribution (by its place in a flat batch), angle and kind (+1 maximum, -1 minimum), one entry a point."""

    row: np.ndarray
    angle: FloatArray
    kind: np.ndarray


def increasing_roots(
    evaluate: Callable[[np.ndarray, FloatArray], tuple[FloatArray, FloatArray]],
    lower: FloatArray,
    upper: FloatArray,
    start: FloatArray,
    *,
    noise: float | FloatArray = 0.0,
    tolerance: float | FloatArray = 0.0,
    max_iter: int = 200,
) -> FloatArray:
    """Roots of increasing functions, one in each [lower, upper].

    `evaluate` takes the indices of the functions that are not done yet and a point for each, and returns values and
    slopes. Values within `noise` of zero count as zero; steps below `tolerance`, or below a few roundings of the root,
    end the search. Each is one number or one for each function. A Newton step that leaves the bracket, or that is more
    than half of the step before, is replaced by bisection, so the number of rounds is bounded whatever the slopes.
    """
    lower, upper, point = lower.copy(), upper.copy(), start.copy()
    active = np.arange(point.size)
    last_step = upper - lower
    noise, tolerance = np.broadcast_to(noise, point.shape), np.broadcast_to(tolerance, point.shape)
    for _ in range(max_iter):
        if not active.size:
            break
        here = point[active]
        value, slope = evaluate(active, here)
        lower[active] = np.where(value <= 0, here, lower[active])
        upper[active] = np.where(value >= 0, here, upper[active])
        low, high = lower[active], upper[active]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = here - value / slope
            good = (new >= low) & (new <= high) & (np.abs(new - here) <= 0.5 * last_step[active])
        new = np.where(good, new, 0.5 * (low + high))
        found = np.abs(value) <= noise[active]
        point[active] = np.where(found, here, new)
        last_step[active] = np.abs(new - here)
        close = np.maximum(8.0 * np.spacing(np.abs(here)), tolerance[active])
        active = active[~(found | (last_step[active] <= close) | (high - low <= close))]
    return point


def _pad_rows(rows: np.ndarray, size: int, *columns: FloatArray) -> list[FloatArray]:
    """Columns of values, sorted by distribution, as matrices with one row a distribution, padded with NaN."""
    count = np.bincount(rows, minlength=size)
    place = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    out = [np.full((size, int(count.max(initial=0))), np.nan) for _ in columns]
    for matrix, column in zip(out, columns, strict=True):
        matrix[rows, place] = column
    return out


# ---- modes ----------------------------------------------------------------------------------------------------------


def scan(dists: CircularDistribution) -> CriticalPoints:
    """Critical points of a flat batch, from the changes of sign of the slope over the distributions' scan points."""
    grid = dists._scan_points()
    following = np.concatenate([grid[:, 1:], grid[:, :1] + _TURN], axis=-1)
    sign = _fill_signs(dists[:, None]._log_slope(grid))
    row, column = np.nonzero(sign * np.roll(sign, -1, axis=-1) < 0)
    kind = sign[row, column].astype(int)
    lower, upper = grid[row, column], following[row, column]

    def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        # The second derivative only steers Newton's steps: differences are good enough.
        step = 1e-3 * (upper - lower)[index]
        points = np.stack([x, x - step, x + step])
        here, left, right = -kind[index] * dists[row[index]]._log_slope(points)
        with np.errstate(divide="ignore", invalid="ignore"):
            return here, 0.5 * (right - left) / step

    tolerance = _EPS * (upper - lower)
    angle = increasing_roots(evaluate, lower, upper, 0.5 * (lower + upper), tolerance=tolerance)
    return CriticalPoints(row, angle, kind)


def _fill_signs(slope: FloatArray) -> FloatArray:
    """Signs along the last axis, a circle; where the slope is zero to rounding (1e-14), the sign before it."""
    sign = np.sign(np.where(np.abs(slope) < 1e-14, 0.0, slope))
    source = np.maximum.accumulate(np.where(sign != 0, np.arange(sign.shape[-1]), -1), axis=-1)
    source = np.where(source < 0, source[:, -1:], source)
    return np.take_along_axis(sign, source, axis=-1)


def modes(dist: CircularDistribution, block: int = 1024) -> tuple[FloatArray, FloatArray]:
    """Local maxima and their densities, highest first; `block` distributions are looked at at a time."""
    dists = dist._flat()
    parts = [_modes(dists[i : i + block]) for i in range(0, max(dists._size, 1), block)]
    row = np.concatenate([part[0] + i * block for i, part in enumerate(parts)])
    angle, density = (np.concatenate([part[j] for part in parts]) for j in (1, 2))
    angle, density = _pad_rows(row, dists._size, angle, density)
    shape = (*dist.batch_shape, angle.shape[-1])
    return angle.reshape(shape), density.reshape(shape)


def _modes(dists: CircularDistribution) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Distribution, angle and density of each local maximum of a flat batch, highest first for each distribution."""
    row, angle, kind = dists._critical_points()
    row, angle = row[kind > 0], wrap(angle[kind > 0])
    density = np.asarray(dists[row].pdf(angle))
    order = np.lexsort((-density, row))
    return row[order], angle[order], density[order]


# ---- highest-density regions ----------------------------------------------------------------------------------------


class _Slopes:
    """The density of a flat batch cut at its critical points into pieces, each climbing from a minimum to a maximum."""

    def __init__(self, dists: CircularDistribution):
        row, angle, kind = dists._critical_points()
        count = np.bincount(row, minlength=dists._size)
        start = np.cumsum(count) - count
        is_last = np.arange(row.size) == (start + count - 1)[row]
        following = angle[np.where(is_last, start[row], np.arange(1, row.size + 1))]
        turn = np.where(is_last, _TURN, 0.0)
        self.dists, self.row, self.kind, self.count = dists, row, kind, count
        # The turn goes to the minimum: a narrow peak keeps the digits of its place.
        self.bottom, self.top = np.where(kind < 0, angle - turn, following + turn), np.where(kind < 0, following, angle)
        self.log_bottom, self.log_top = dists[row].logpdf(self.bottom), dists[row].logpdf(self.top)

    def crossings(self, piece: np.ndarray, level: FloatArray) -> FloatArray:
        """Where each of the pieces crosses its level; its top where it stays below, its bottom where above."""
        top, bottom, log_top, log_bottom = (
            column[piece] for column in (self.top, self.bottom, self.log_top, self.log_bottom)
        )
        out = np.where(level >= log_top, top, bottom)
        inside = np.nonzero((level < log_top) & (level > log_bottom))[0]
        # On a climb to the left (kind > 0) the log density falls with the angle: count angles backwards.
        sign = -self.kind[piece[inside]].astype(float)
        low, high, wanted = sign * bottom[inside], sign * top[inside], level[inside]
        dists = self.dists[self.row[piece[inside]]]

        def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
            dist, angle = dists[index], sign[index] * x
            return dist.logpdf(angle) - wanted[index], sign[index] * dist._log_slope(angle)

        # Near the top a slope is a parabola: this start is exact for one.
        share = np.sqrt((log_top[inside] - wanted) / (log_top - log_bottom)[inside])
        start = np.clip(high + share * (low - high), low, high)
        noise = _EPS * (1.0 + np.abs(wanted))
        out[inside] = sign * increasing_roots(evaluate, low, high, start, noise=noise)
        return out


def _level(slopes: _Slopes, mass: float) -> FloatArray:
    """Log density above which each distribution holds `mass`, NaN for distributions without modes."""
    dists, row = slopes.dists, slopes.row
    low, high = np.full(dists._size, np.inf), np.full(dists._size, -np.inf)
    np.minimum.at(low, row, slopes.log_bottom)
    np.maximum.at(high, row, slopes.log_top)
    kept = np.nonzero(slopes.count)[0]
    cumulative = dists._cumulative()
    at_top = cumulative(row, slopes.top)

    def evaluate(index: np.ndarray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        place = np.full(dists._size, -1)
        place[kept[index]] = np.arange(index.size)
        piece = np.nonzero(place[row] >= 0)[0]
        local = place[row[piece]]
        crossing = slopes.crossings(piece, level[local])
        part = np.abs(at_top[piece] - cumulative(row[piece], crossing))
        held: FloatArray = np.bincount(local, part, minlength=index.size).astype(float)
        with np.errstate(divide="ignore"):
            width = 1.0 / np.abs(dists[row[piece]]._log_slope(crossing))
        width[(crossing == slopes.top[piece]) | (crossing == slopes.bottom[piece])] = 0.0
        # Mass falls as the level rises, by density times width.
        return mass - held, np.exp(level) * np.bincount(local, width, minlength=index.size)

    out = np.full(dists._size, np.nan)
    low, high = low[kept], high[kept]
    # The level read off the quadrature nodes is good to a few per cent.
    nodes, weight = dists[kept]._quadrature()
    guess = np.clip(grid_levels(dists[kept][:, None].logpdf(nodes), [mass], probability=weight)[0], low, high)
    # A Newton step of 1e-8 in the log density leaves an error of its square.
    out[kept] = increasing_roots(evaluate, low, high, guess, noise=_ROUNDING, tolerance=1e-8)
    return out


def grid_levels(
    density: FloatArray, masses: ArrayLike, *, probability: FloatArray | None = None, interpolate: bool = False
) -> FloatArray:
    """Return the levels above which densities on nodes hold the masses, shape ``masses + batch``.

    Parameters
    ----------
    density : array, shape (batch, n)
        Densities at n nodes, up to a factor, or anything that rises with them.
    masses : array_like
        Shares of the whole, between 0 and 1.
    probability : array, shape (batch, n), optional
        What each node stands for, up to a factor; by default its density, as on an even grid.
    interpolate : bool
        The level of the least dense node that is needed, or, with True, one between two nodes: a node stands for a
        cell, half of which lies above its level.
    """
    if probability is None:
        falling = -np.sort(-density, axis=-1)
        weight = falling
    else:
        order = np.argsort(-density, axis=-1)
        falling, weight = (np.take_along_axis(part, order, axis=-1) for part in (density, probability))
    held = np.cumsum(weight, axis=-1)
    total = held[..., -1:]
    if interpolate:
        held = held - 0.5 * weight
    wanted, last = np.asarray(masses, dtype=float), density.shape[-1] - 1
    levels = np.empty(wanted.shape + density.shape[:-1])
    for index, mass in np.ndenumerate(wanted):
        place = (held < mass * total).sum(axis=-1, keepdims=True)
        place = np.clip(place, 1, last) if interpolate else np.minimum(place, last)
        here = np.take_along_axis(falling, place, axis=-1)
        if interpolate:
            before, after = (np.take_along_axis(held, at, axis=-1) for at in (place - 1, place))
            part = np.clip((mass * total - before) / np.maximum(after - before, 1e-300), 0.0, 1.0)
            above = np.take_along_axis(falling, place - 1, axis=-1)
            here = above + part * (here - above)
        levels[index] = here[..., 0]
    return levels


def _arcs(dists: CircularDistribution, mass: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Distribution, lower and upper end of each arc of a flat batch, in angular order."""
    slopes = _Slopes(dists)
    crossing = slopes.crossings(np.arange(slopes.row.size), _level(slopes, mass)[slopes.row])
    row, lower, upper = _fill_to_mass(dists, mass, *_join(slopes, crossing))
    flat = np.nonzero(slopes.count == 0)[0]
    half = np.full(flat.size, np.pi * mass)
    row, lower, upper = np.append(row, flat), np.append(lower, -half), np.append(upper, half)
    upper = wrap(lower) + (upper - lower)
    lower = wrap(lower)
    order = np.lexsort((lower, row))
    return row[order], lower[order], upper[order]


def _join(slopes: _Slopes, crossing: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Glue the parts of the pieces above the level into arcs, across maxima and across minima that are covered."""
    arcs: list[tuple[int, float, float]] = []
    begin = np.cumsum(slopes.count) - slopes.count
    for row in np.nonzero(slopes.count)[0].tolist():
        index = begin[row] + np.arange(slopes.count[row])
        # Climbs in angular order, each with the descent that follows it.
        first = int(slopes.kind[index[0]] > 0)
        rising, falling = index[first::2], np.roll(index, -1)[first::2]
        if (crossing[rising] == slopes.top[rising]).all():  # the mass is so small that its level rounds to the top
            mode = float(slopes.top[rising[np.argmax(slopes.log_top[rising])]])
            arcs.append((row, mode, mode))
            continue
        covered = crossing[rising] == slopes.bottom[rising]
        if covered.all():  # only where the mass is so near one that nothing is left out
            arcs.append((row, -np.pi, np.pi))
            continue
        shift = -int(np.nonzero(~covered)[0][0])
        for climb, descent in zip(np.roll(rising, shift), np.roll(falling, shift), strict=True):
            end = crossing[descent]
            if crossing[climb] == slopes.top[climb]:
                continue
            if crossing[climb] == slopes.bottom[climb]:
                _, lower, upper = arcs.pop()
                arcs.append((row, lower, upper + (end - crossing[climb])))
            else:
                arcs.append((row, float(crossing[climb]), float(end)))
    rows, lowers, uppers = zip(*arcs, strict=True) if arcs else ((), (), ())
    return np.array(rows, dtype=int), np.array(lowers, dtype=float), np.array(uppers, dtype=float)


def _fill_to_mass(
    dists: CircularDistribution, mass: float, row: np.ndarray, lower: FloatArray, upper: FloatArray
) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """The arcs with their ends moved out until they hold the mass to rounding, all ends of a distribution by the same.

    A level known to rounding leaves the ends uncertain where the density is almost flat, as it is at a mode; there all
    of them serve equally well, and the mass decides.
    """
    cumulative = dists._cumulative()
    before = np.full(dists._size, np.inf)
    for _ in range(60):
        held = np.bincount(row, cumulative(row, upper) - cumulative(row, lower), minlength=dists._size)
        edge = np.bincount(row, dists[row].pdf(lower) + dists[row].pdf(upper), minlength=dists._size)
        wanting = (np.abs(mass - held) > _ROUNDING) & (np.abs(mass - held) < 0.9 * before) & (held < 1.0)
        missing, before = np.where(wanting, mass - held, 0.0)[row], np.abs(mass - held)
        if not wanting.any():
            break
        room = np.where(upper > lower, 0.25 * (upper - lower), np.pi)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            move = np.clip(np.where(missing != 0.0, missing / edge[row], 0.0), -room, room)
        lower, upper = lower - move, upper + move
    return row, lower, upper


def interval(dist: CircularDistribution, mass: float, block: int = 1024) -> FloatArray:
    """Arcs of the HDR, ``batch_shape + (arcs, 2)``, padded with NaN; `block` distributions are looked at at a time."""
    dists = dist._flat()
    parts = [_arcs(dists[i : i + block], mass) for i in range(0, max(dists._size, 1), block)]
    rows = np.concatenate([part[0] + i * block for i, part in enumerate(parts)])
    lower, upper = _pad_rows(rows, dists._size, *(np.concatenate([part[j] for part in parts]) for j in (1, 2)))
    return np.stack([lower, upper], axis=-1).reshape(*dist.batch_shape, lower.shape[-1], 2)
