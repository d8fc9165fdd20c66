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


def pad_rows(rows: np.ndarray, size: int, *columns: FloatArray, filling: float = np.nan) -> list[FloatArray]:
    """Columns of values, sorted by distribution, as matrices with one row a distribution, filled up with NaN or so."""
    count = np.bincount(rows, minlength=size)
    place = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    out = [np.full((size, int(count.max(initial=0))), filling) for _ in columns]
    for matrix, column in zip(out, columns, strict=True):
        matrix[rows, place] = column
    return out


# ---- modes ----------------------------------------------------------------------------------------------------------


def scan(dists: CircularDistribution) -> CriticalPoints:
    """Critical points of a flat batch, from the changes of sign of the slope over the distributions' scan points."""
    row, grid = dists._scan_points()
    sign = fill_signs(row, dists._log_slope_at(row, grid), dists._size)
    following = follow(row, dists._size)
    here = np.flatnonzero(sign * sign[following] < 0)
    row, kind, lower, upper = row[here], sign[here].astype(int), grid[here], grid[following[here]]
    upper = np.where(following[here] > here, upper, upper + _TURN)

    def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        # The second derivative only steers Newton's steps: differences are good enough.
        step = 1e-3 * (upper - lower)[index]
        points = np.stack([x, x - step, x + step])
        here, left, right = -kind[index] * dists._log_slope_at(row[index], points)
        with np.errstate(divide="ignore", invalid="ignore"):
            return here, 0.5 * (right - left) / step

    tolerance = _EPS * (upper - lower)
    angle = increasing_roots(evaluate, lower, upper, 0.5 * (lower + upper), tolerance=tolerance)
    return CriticalPoints(row, angle, kind)


def follow(row: np.ndarray, size: int) -> np.ndarray:
    """Index of what follows each on the circle of its distribution; rows are sorted."""
    count = np.bincount(row, minlength=size)
    last = (np.cumsum(count) - 1)[count > 0]
    following = np.arange(1, row.size + 1)
    following[last] = last + 1 - count[count > 0]
    return following


def fill_signs(row: np.ndarray, slope: FloatArray, size: int, noise: float | FloatArray = 1e-14) -> FloatArray:
    """Signs around the circles of sorted rows; where the slope is no more than noise, the sign before it."""
    sign = np.sign(np.where(np.abs(slope) <= noise, 0.0, slope))
    source = np.maximum.accumulate(np.where(sign != 0, np.arange(sign.size), -1))
    end = np.cumsum(np.bincount(row, minlength=size)) - 1
    before = (source < 0) | (row[np.maximum(source, 0)] != row)
    source = np.where(before, source[end[row]], source)
    # Rows without any sign find that of another row.
    return np.where(row[np.maximum(source, 0)] == row, sign[np.maximum(source, 0)], 0.0)


def gather(
    dist: CircularDistribution, find: Callable[[CircularDistribution], tuple[np.ndarray, FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """Two values of each thing that is found, ``batch_shape + (things,)``, a block of distributions at a time.

    `find` returns the distribution (of a flat batch) and the values of each thing.
    """
    dists = dist._flat()
    blocks = dists._blocks() or [np.arange(0)]
    found = [find(dists[block]) for block in blocks]
    row = np.concatenate([block[part[0]] for block, part in zip(blocks, found, strict=True)])
    order = np.argsort(row, kind="stable")
    values = (np.concatenate([part[j] for part in found])[order] for j in (1, 2))
    first, second = pad_rows(row[order], dists._size, *values)
    shape = (*dist.batch_shape, first.shape[-1])
    return first.reshape(shape), second.reshape(shape)


def modes(dists: CircularDistribution) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Distribution, angle and density of each local maximum of a flat batch, highest first for each distribution."""
    row, angle, kind = dists._critical_points()
    row, angle = row[kind > 0], wrap(angle[kind > 0])
    density = np.exp(dists._log_density_at(row, angle))
    order = np.lexsort((-density, row))
    return row[order], angle[order], density[order]


# ---- highest-density regions ----------------------------------------------------------------------------------------


class _Slopes:
    """The density of a flat batch cut at its critical points into pieces, each climbing from a minimum to a maximum."""

    def __init__(self, dists: CircularDistribution):
        row, angle, kind = dists._critical_points()
        count = np.bincount(row, minlength=dists._size)
        # The piece that follows each on the circle.
        self.following = follow(row, dists._size)
        following, turn = angle[self.following], np.where(self.following > np.arange(row.size), 0.0, _TURN)
        self.dists, self.row, self.kind, self.count, self.cumulative = dists, row, kind, count, dists._cumulative()
        # The turn goes to the minimum: a narrow peak keeps the digits of its place.
        self.bottom, self.top = np.where(kind < 0, angle - turn, following + turn), np.where(kind < 0, following, angle)
        self.log_bottom, self.log_top = (dists._log_density_at(row, end) for end in (self.bottom, self.top))

    def crossings(self, piece: np.ndarray, level: FloatArray, guess: FloatArray | None = None) -> FloatArray:
        """Where each of the pieces crosses its level; its top where it stays below, its bottom where above."""
        top, bottom, log_top, log_bottom = (
            column[piece] for column in (self.top, self.bottom, self.log_top, self.log_bottom)
        )
        out = np.where(level >= log_top, top, bottom)
        inside = np.nonzero((level < log_top) & (level > log_bottom))[0]
        # On a climb to the left (kind > 0) the log density falls with the angle: count angles backwards.
        sign = -self.kind[piece[inside]].astype(float)
        low, high, wanted, row = sign * bottom[inside], sign * top[inside], level[inside], self.row[piece[inside]]

        def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
            here, angle = row[index], sign[index] * x
            rise = self.dists._log_density_at(here, angle) - wanted[index]
            return rise, sign[index] * self.dists._log_slope_at(here, angle)

        # Near the top a slope is a parabola: this start is exact for one.
        share = np.sqrt((log_top[inside] - wanted) / (log_top - log_bottom)[inside])
        start = high + share * (low - high)
        if guess is not None:
            start = np.where(np.isnan(guess[inside]), start, sign * guess[inside])
        noise = 8.0 * _EPS * (1.0 + np.abs(wanted))
        out[inside] = sign * increasing_roots(evaluate, low, high, np.clip(start, low, high), noise=noise)
        return out


def _level(slopes: _Slopes, mass: float) -> FloatArray:
    """Log density above which each distribution holds `mass`, NaN for distributions without modes."""
    dists, row = slopes.dists, slopes.row
    low, high = np.full(dists._size, np.inf), np.full(dists._size, -np.inf)
    np.minimum.at(low, row, slopes.log_bottom)
    np.maximum.at(high, row, slopes.log_top)
    kept = np.nonzero(slopes.count)[0]
    cumulative, edges = slopes.cumulative, dists._panels()
    at_top = cumulative(row, slopes.top)
    # Where each piece crossed the level before: near to where it crosses the next.
    before = np.full(row.size, np.nan)

    def evaluate(index: np.ndarray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        place = np.full(dists._size, -1)
        place[kept[index]] = np.arange(index.size)
        piece = np.nonzero(place[row] >= 0)[0]
        local = place[row[piece]]
        crossing = slopes.crossings(piece, level[local], before[piece])
        part = np.abs(at_top[piece] - cumulative(row[piece], crossing))
        held: FloatArray = np.bincount(local, part, minlength=index.size).astype(float)
        with np.errstate(divide="ignore"):
            width = 1.0 / np.abs(dists._log_slope_at(row[piece], crossing))
        at_end = (crossing == slopes.top[piece]) | (crossing == slopes.bottom[piece])
        width[at_end], before[piece] = 0.0, np.where(at_end, np.nan, crossing)
        # Mass falls as the level rises, by density times width.
        return mass - held, np.exp(level) * np.bincount(local, width, minlength=index.size)

    out = np.full(dists._size, np.nan)
    low, high = low[kept], high[kept]
    # The level read off a few nodes a panel is good to some per cent.
    lower, upper = edges[kept, :-1, None], edges[kept, 1:, None]
    share = (np.arange(6) + 0.5) / 6.0
    nodes = (lower + share * (upper - lower)).reshape(kept.size, 6 * (edges.shape[-1] - 1))
    log_density = dists._log_density_at(kept[:, None], nodes)
    weight = np.exp(log_density) * np.repeat((upper - lower)[..., 0], 6, axis=-1)
    guess = np.clip(grid_levels(log_density, [mass], probability=weight)[0], low, high)
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


def arcs(dists: CircularDistribution, mass: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Distribution, lower and upper end of each arc of a flat batch, in angular order."""
    slopes = _Slopes(dists)
    crossing = slopes.crossings(np.arange(slopes.row.size), _level(slopes, mass)[slopes.row])
    row, lower, upper = _fill_to_mass(slopes, mass, *_join(slopes, crossing))
    flat = np.nonzero(slopes.count == 0)[0]
    half = np.full(flat.size, np.pi * mass)
    row, lower, upper = np.append(row, flat), np.append(lower, -half), np.append(upper, half)
    upper = wrap(lower) + (upper - lower)
    lower = wrap(lower)
    order = np.lexsort((lower, row))
    return row[order], lower[order], upper[order]


def _join(slopes: _Slopes, crossing: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Glue the parts of the pieces above the level into arcs, across maxima and across minima that are covered.

    Around the circle beginnings and ends of arcs take turns: an arc begins on a climb and ends on a descent, at modes
    above the level beside a minimum that is below it.
    """
    climb = np.flatnonzero(slopes.kind < 0)
    descent = slopes.following[climb]
    row, top = slopes.row[climb], slopes.top[climb]
    is_above = (crossing[climb] != top) | (crossing[descent] != top)
    covered = crossing == slopes.bottom
    # Of the minimum behind and of that before each mode, whose two pieces need not round alike.
    behind = covered[descent] | covered[slopes.following[descent]]
    previous = np.empty(climb.size, dtype=int)
    previous[np.searchsorted(climb, slopes.following[descent])] = np.arange(climb.size)
    begins, ends = np.flatnonzero(is_above & ~behind[previous]), np.flatnonzero(is_above & ~behind)
    count = np.bincount(row[begins], minlength=slopes.count.size)
    first = np.cumsum(count) - count
    # An arc across ±π ends before it begins: the first end is then that of the last arc.
    late = np.zeros(count.size, dtype=bool)
    late[count > 0] = ends[first[count > 0]] < begins[first[count > 0]]
    owner = row[begins]
    place = np.arange(begins.size) - first[owner]
    ends = ends[first[owner] + (place + late[owner]) % count[owner]]
    lower = crossing[climb[begins]]
    upper = lower + np.mod(crossing[descent[ends]] - lower, _TURN)
    # The mass is so small that its level rounds to the top, or so near one that nothing is left out.
    none = (slopes.count > 0) & (count == 0)
    whole = none & (np.bincount(row, is_above, minlength=none.size) > 0)
    order = np.lexsort((-slopes.log_top[climb], row))
    highest = order[np.searchsorted(row, np.flatnonzero(none & ~whole))]
    some = np.flatnonzero(whole)
    half = np.full(some.size, np.pi)
    return (
        np.concatenate([owner, row[highest], some]),
        np.concatenate([lower, top[highest], -half]),
        np.concatenate([upper, top[highest], half]),
    )


def _fill_to_mass(
    slopes: _Slopes, mass: float, row: np.ndarray, lower: FloatArray, upper: FloatArray
) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """The arcs with their ends moved out until they hold the mass to rounding, all ends of a distribution by the same.

    A level known to rounding leaves the ends uncertain where the density is almost flat, as it is at a mode; there all
    of them serve equally well, and the mass decides.
    """
    dists, cumulative = slopes.dists, slopes.cumulative
    before = np.full(dists._size, np.inf)
    active = np.arange(row.size)
    for _ in range(60):
        here, low, high = row[active], lower[active], upper[active]
        held = np.bincount(here, cumulative(here, high) - cumulative(here, low), minlength=dists._size)
        wanting = (np.abs(mass - held) > _ROUNDING) & (np.abs(mass - held) < 0.9 * before) & (held < 1.0)
        missing, before = mass - held, np.abs(mass - held)
        some = wanting[here]
        active, here, low, high = active[some], here[some], low[some], high[some]
        if not active.size:
            break
        density = np.exp(dists._log_density_at(here, low)) + np.exp(dists._log_density_at(here, high))
        edge = np.bincount(here, density, minlength=dists._size)
        room = np.where(high > low, 0.25 * (high - low), np.pi)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            move = np.clip(missing[here] / edge[here], -room, room)
        lower[active], upper[active] = low - move, high + move
    return row, lower, upper
