"""Densities on the circle whose logarithm is a polynomial between nodes.

Nodes x_0 = -π < x_1 < … < x_{n-1} < π cut the circle into n cells. Within a cell, angle and log density are both
polynomials of one number u between 0 and 1, through the sixteen nearest nodes: nodes may crowd where the mass is, as
long as they do so smoothly. The mass of a cell is a Gauss-Legendre sum of exp(log density) dx/du, and that of a part of
a cell the same sum over the part: this defines the density, its distribution function, its level sets and its
expectations alike.

Where sixteen nodes do not agree on one polynomial (a bend of the logarithm sharper than the nodes are close, or a zero
of the density among them) the logarithm is a straight line in u; from a node to a zero the density itself is one;
between two zeros it is zero. It is continuous everywhere.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mgvm._grids import count_up_to
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.highest_density import fill_signs, follow, grid_levels, increasing_roots

POINTS = 16
_BEFORE = POINTS // 2 - 1  # nodes before the left end of the cell
_PLACES = range(-_BEFORE, POINTS - _BEFORE)  # of the nodes of a cell's polynomial, in steps from the cell's left end
_POLYNOMIAL, _LINE, _FALL, _RISE, _EMPTY = range(5)
_TURN = 2.0 * np.pi
_EPS = float(np.finfo(float).eps)

# ---- polynomials through equally spaced values ----------------------------------------------------------------------


def _powers_from_values(places: range) -> FloatArray:
    """The matrix (n, n) that turns values at places into coefficients of powers of u - ½, rounded once."""
    size = len(places)
    out = np.zeros((size, size))
    for i, own in enumerate(places):
        product = [Fraction(1)]
        for other in places:
            if other != own:
                # times (u - other)/(own - other), with u = v + ½
                shift = Fraction(1, 2) - other
                shifted = [shift * c for c in product] + [Fraction(0)]
                product = [a + b for a, b in zip(shifted, [Fraction(0), *product], strict=True)]
                product = [c / (own - other) for c in product]
        out[i] = [float(c) for c in product]
    return out


_TO_POWERS = _powers_from_values(_PLACES)
_GAUSS_NODES, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(6)


def _stencil(u: FloatArray, derivative: bool = False) -> FloatArray:
    """Weights (16, m) of the sixteen nodes for values, or slopes, at m places u of the cell."""
    powers = np.arange(POINTS)
    v = np.asarray(u, dtype=float) - 0.5
    if derivative:
        return np.asarray(_TO_POWERS @ (powers[:, None] * v ** np.maximum(powers - 1, 0)[:, None]))
    return np.asarray(_TO_POWERS @ v ** powers[:, None])


def rule(pieces: int = 1) -> tuple[FloatArray, FloatArray]:
    """Places and weights of the composite Gauss-Legendre rule on a cell."""
    starts = np.arange(pieces)[:, None]
    u = (starts + 0.5 * (1.0 + _GAUSS_NODES)) / pieces
    return u.ravel(), np.tile(0.5 * _GAUSS_WEIGHTS / pieces, pieces)


def _doubt_stencils() -> FloatArray:
    """For the middle of a cell: polynomials of 16 less 6 nodes, of 6 less 2 (a straight line), and of 16 less 14."""
    fourteen, six, two = np.zeros((3, POINTS))
    for stencil, half in ((fourteen, 7), (six, 3), (two, 1)):
        stencil[_BEFORE + 1 - half : _BEFORE + 1 + half] = _powers_from_values(range(1 - half, 1 + half))[:, 0]
    sixteen = _stencil(np.array([0.5]))[:, 0]
    return np.stack([sixteen - six, six - two, sixteen - fourteen], axis=1)


_DOUBT = _doubt_stencils()


def _windows(table: FloatArray, turn: float = 0.0) -> FloatArray:
    """The sixteen values about every cell, a view (rows, n, 16); `turn` is what a whole turn adds to them."""
    padded = np.concatenate([table[:, -_BEFORE:] - turn, table, table[:, : POINTS - 1 - _BEFORE] + turn], axis=1)
    return sliding_window_view(padded, POINTS, axis=1)


# ---- whole distributions --------------------------------------------------------------------------------------------


class LogPolynomials(NamedTuple):
    """A flat batch: log density at the nodes (R, n), nodes (R, n) or (R, 0) where equally spaced, kinds of cells."""

    values: FloatArray
    nodes: FloatArray
    kinds: np.ndarray

    @property
    def size(self) -> int:
        """The number of nodes n."""
        return int(self.values.shape[1])

    @property
    def is_even(self) -> bool:
        """Whether the nodes are equally spaced."""
        return self.nodes.shape[1] == 0

    def take(self, rows: np.ndarray | slice) -> LogPolynomials:
        """The distributions at some rows."""
        return LogPolynomials(self.values[rows], self.nodes[rows], self.kinds[rows])

    def edges(self) -> FloatArray:
        """Ends of the cells, (R, n + 1)."""
        size = len(self.values)
        if self.is_even:
            return np.broadcast_to(-np.pi + _TURN / self.size * np.arange(self.size + 1), (size, self.size + 1))
        return np.concatenate([self.nodes, np.full((size, 1), np.pi)], axis=1)

    def log_at(self, u: FloatArray) -> FloatArray:
        """Log densities (R, n, m) at places u (m,) of every cell."""
        out = _windows(_without_zeros(self.values)) @ _stencil(u)
        row, cell = np.nonzero(self.kinds)
        if row.size:
            left, right = self.values[row, cell, None], np.roll(self.values, -1, axis=1)[row, cell, None]
            out[row, cell] = _special_logs(left, right, self.kinds[row, cell, None], u)
        return out

    def slopes_at(self, u: FloatArray) -> FloatArray:
        """Slopes of the log density per cell, (R, n, m); where it falls to zero, or rises from it, their signs."""
        out = _windows(_without_zeros(self.values)) @ _stencil(u, derivative=True)
        row, cell = np.nonzero(self.kinds)
        if row.size:
            kind = self.kinds[row, cell]
            change = (
                np.roll(_without_zeros(self.values), -1, axis=1)[row, cell] - _without_zeros(self.values)[row, cell]
            )
            special = np.select([kind == _LINE, kind == _FALL, kind == _RISE], [change, -1.0, 1.0], 0.0)
            out[row, cell] = special[:, None]
        return out

    def angles_at(self, u: FloatArray) -> FloatArray:
        """Angles (R, n, m) at places u of every cell."""
        if self.is_even:
            step = _TURN / self.size
            return np.broadcast_to(self.edges()[:, :-1, None] + step * u, (len(self.values), self.size, len(u)))
        return np.asarray(_windows(self.nodes, _TURN) @ _stencil(u))

    def stretch_at(self, u: FloatArray) -> FloatArray:
        """dx/du at places u of every cell, (R, n, m) or a number."""
        if self.is_even:
            return np.array(_TURN / self.size)
        return np.asarray(_windows(self.nodes, _TURN) @ _stencil(u, derivative=True))

    def masses(self, pieces: int = 1) -> FloatArray:
        """Masses at the points of the rule, (R, n, 6 pieces)."""
        u, weights = rule(pieces)
        return np.exp(self.log_at(u)) * (self.stretch_at(u) * weights)

    def angles_of_rule(self, pieces: int = 1) -> FloatArray:
        """The points of the rule, (R, n, 6 pieces)."""
        return self.angles_at(rule(pieces)[0])


def _without_zeros(values: FloatArray) -> FloatArray:
    return np.where(np.isneginf(values), 0.0, values)


def _special_logs(left: FloatArray, right: FloatArray, kind: np.ndarray, u: FloatArray) -> FloatArray:
    """Log densities in cells that are no polynomials, from the values at their ends."""
    with np.errstate(divide="ignore", invalid="ignore"):
        line = left + u * (right - left)
        return np.select(
            [kind == _LINE, kind == _FALL, kind == _RISE], [line, left + np.log1p(-u), right + np.log(u)], -np.inf
        )


def _find_roughness(finite: FloatArray) -> FloatArray:
    """How far, in nats, sixteen nodes are from agreeing on one polynomial in every cell; not positive where they do."""
    high, low = np.moveaxis(np.abs(_windows(finite) @ _DOUBT[:, :2]), -1, 0)
    # Higher terms that do not shrink say that they do not see one smooth function. Rounding does not count, and at an
    # inflection the lower terms vanish by chance.
    low = np.maximum(low, np.maximum(np.roll(low, 1, axis=1), np.roll(low, -1, axis=1)))
    return np.asarray(high - (0.1 * low + 1e-9 + 64.0 * _EPS * np.abs(finite)))


def find_doubtful(values: FloatArray, lowest: float, tol: float = 5e-7) -> FloatArray:
    """What the last two of sixteen nodes add, above `tol` nats, in cells less than `lowest` nats below the peak at 0.

    What lies beyond them may be half as much again.
    """
    high = np.maximum(values, np.roll(values, -1, axis=1)) > -lowest
    last = np.abs(_windows(_without_zeros(values)) @ _DOUBT[:, 2])
    return np.where(high & (last > tol), last, 0.0)


def find_kinds(values: FloatArray) -> np.ndarray:
    """What the log density is in every cell, (R, n), from its values at the nodes, of which the largest are near 0."""
    rough = _find_roughness(_without_zeros(values)) > 0.0
    kinds = np.where(rough, _LINE, _POLYNOMIAL).astype(np.int8)
    zero = np.isneginf(values)
    if zero.any():
        near = _windows(zero.astype(np.int8)).max(axis=-1) > 0
        after = np.roll(zero, -1, axis=1)
        kinds = np.select([zero & after, after, zero, near], [_EMPTY, _FALL, _RISE, _LINE], kinds).astype(np.int8)
    return kinds


# ---- single cells ---------------------------------------------------------------------------------------------------


class Pieces(NamedTuple):
    """Some cells of a batch: coefficients (16, P) of log density and (k, P) of angle in powers of u - ½, and kinds."""

    log_powers: FloatArray
    angle_powers: FloatArray
    kinds: np.ndarray

    def take(self, index: np.ndarray) -> Pieces:
        """Some of the cells."""
        return Pieces(self.log_powers[:, index], self.angle_powers[:, index], self.kinds[index])

    def log_at(self, u: FloatArray) -> FloatArray:
        """Log densities at a place u (P,), or several (m, P), of each cell."""
        out = _horner(self.log_powers, u)
        if self.kinds.any():
            with np.errstate(divide="ignore"):
                out = np.where(self.kinds == _FALL, out + np.log1p(-np.minimum(u, 1.0)), out)
                out = np.where(self.kinds == _RISE, out + np.log(np.maximum(u, 0.0)), out)
            out = np.where(self.kinds == _EMPTY, -np.inf, out)
        return out

    def slope_at(self, u: FloatArray) -> FloatArray:
        """Slopes of the log density per cell."""
        out = _horner_slope(self.log_powers, u)
        if self.kinds.any():
            with np.errstate(divide="ignore"):
                out = np.where(self.kinds == _FALL, -1.0 / (1.0 - u), np.where(self.kinds == _RISE, 1.0 / u, out))
        return out

    def angle_at(self, u: FloatArray) -> FloatArray:
        """Angles."""
        return _horner(self.angle_powers, u)

    def stretch_at(self, u: FloatArray) -> FloatArray:
        """dx/du."""
        return _horner_slope(self.angle_powers, u)

    def place_of(self, x: FloatArray) -> FloatArray:
        """The u in [0, 1] of angles x (P,) within the cells."""
        if len(self.angle_powers) == 2:
            return np.clip((x - self.angle_powers[0]) / self.angle_powers[1] + 0.5, 0.0, 1.0)
        u = np.full(x.shape, 0.5)
        # Angles are all but linear in u: the error is squared from some tenths down to rounding.
        for _ in range(5):
            u = np.clip(u - (self.angle_at(u) - x) / self.stretch_at(u), 0.0, 1.0)
        return u

    def mass_to(self, u: FloatArray) -> FloatArray:
        """Mass of each cell up to u (P,)."""
        places, weights = rule()
        inner = places[:, None] * u
        return np.asarray(u * (weights @ (np.exp(self.log_at(inner)) * self.stretch_at(inner))))

    def integral_to(self, u: FloatArray) -> FloatArray:
        """The integral of that mass over the angles up to u (P,)."""
        places, weights = rule()
        inner = places[:, None] * u
        behind = self.angle_at(u) - self.angle_at(inner)
        return np.asarray(u * (weights @ (np.exp(self.log_at(inner)) * self.stretch_at(inner) * behind)))


def _horner(powers: FloatArray, u: FloatArray) -> FloatArray:
    v = u - 0.5
    out = np.broadcast_to(powers[-1], v.shape).copy()
    for row in powers[-2::-1]:
        out *= v
        out += row
    return out


def _horner_slope(powers: FloatArray, u: FloatArray) -> FloatArray:
    v = u - 0.5
    last = len(powers) - 1
    out = np.broadcast_to(last * powers[-1], v.shape).copy()
    for k in range(last - 1, 0, -1):
        out *= v
        out += k * powers[k]
    return out


def take_pieces(dists: LogPolynomials, row: np.ndarray, cell: np.ndarray) -> Pieces:
    """The cells at some places of a batch."""
    n = dists.size
    # Two signs of wrap-around are done by one remainder; the turn is added to the angles afterwards.
    place = cell + np.array(_PLACES)[:, None]
    at = row * n + place % n
    near = dists.values.reshape(-1)[at]
    kinds = dists.kinds.reshape(-1)[at[_BEFORE]]
    special = np.flatnonzero(kinds)
    log_powers = _TO_POWERS.T @ (near if not special.size else _without_zeros(near))
    if special.size:
        kind, left, right = kinds[special], near[_BEFORE, special], near[_BEFORE + 1, special]
        with np.errstate(invalid="ignore"):
            middle = np.select([kind == _LINE, kind == _FALL, kind == _RISE], [0.5 * (left + right), left, right], 0.0)
            rise = np.where(kind == _LINE, right - left, 0.0)
        log_powers[:, special] = 0.0
        log_powers[0, special], log_powers[1, special] = middle, rise
    if dists.is_even:
        step = _TURN / n
        angle_powers = np.stack([-np.pi + step * (cell + 0.5), np.full(cell.shape, step)])
    else:
        angle_powers = _TO_POWERS.T @ (dists.nodes.reshape(-1)[at] + _TURN * (place // n))
    return Pieces(log_powers, angle_powers, kinds)


def find_pieces(dists: LogPolynomials, row: np.ndarray, x: FloatArray) -> tuple[np.ndarray, Pieces, FloatArray]:
    """The cells that hold angles of [-π, π): their numbers, the cells, and the places of the angles in them."""
    if dists.is_even:
        cell = np.clip(np.floor((x + np.pi) * (dists.size / _TURN)).astype(np.int64), 0, dists.size - 1)
    else:
        cell = count_up_to(dists.nodes, row, x) - 1
    pieces = take_pieces(dists, row, cell)
    return cell, pieces, pieces.place_of(x)


def find_mass(pieces: Pieces, wanted: FloatArray, whole: FloatArray) -> FloatArray:
    """The angles up to which the cells hold the mass `wanted`, of the `whole` mass of each."""

    def evaluate(index: np.ndarray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        some = pieces.take(index)
        return some.mass_to(u) - wanted[index], np.exp(some.log_at(u)) * some.stretch_at(u)

    share = np.clip(np.where(whole > 0.0, wanted / np.where(whole > 0.0, whole, 1.0), 0.5), 0.0, 1.0)
    return pieces.angle_at(increasing_roots(evaluate, np.zeros_like(share), np.ones_like(share), share, noise=1e-16))


# ---- critical points and levels -------------------------------------------------------------------------------------


class Turns(NamedTuple):
    """Maxima (kind 1) and minima (-1) of a batch in angular order: row, cell, place u in the cell, log density."""

    row: np.ndarray
    cell: np.ndarray
    u: FloatArray
    log_density: FloatArray
    kind: np.ndarray

    def take(self, which: np.ndarray) -> Turns:
        """Some of them."""
        return Turns(*(column[which] for column in self))


def find_turns(dists: LogPolynomials) -> Turns:
    """Where the log density turns from rising to falling or back, in cells (0 < u < 1) and at nodes (u = 0)."""
    size, n = dists.values.shape
    places = np.array([0.0, 0.5, 1.0])
    slopes = dists.slopes_at(places)
    noise = 64.0 * _EPS * (1.0 + np.abs(_without_zeros(dists.values)))
    rows = np.repeat(np.arange(size), 3 * n)
    sign = fill_signs(rows, slopes.ravel(), size, np.repeat(noise.ravel(), 3)).reshape(size, 3 * n)
    row, column = np.nonzero(sign * np.roll(sign, -1, axis=1) < 0)
    kind = sign[row, column].astype(int)
    cell, part = column // 3, column % 3
    at_node = part == 2
    cell, u = np.where(at_node, (cell + 1) % n, cell), np.where(at_node, 0.0, places[part] + 0.25)
    inside = np.flatnonzero(~at_node)
    pieces = take_pieces(dists, row[inside], cell[inside])
    falling = -kind[inside].astype(float)

    def evaluate(index: np.ndarray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        some = pieces.take(index)
        step = 1e-4
        here = some.slope_at(point)
        bend = (some.slope_at(point + step) - some.slope_at(point - step)) / (2.0 * step)
        return falling[index] * here, falling[index] * bend

    low = places[part[inside]]
    rounding = noise[row[inside], cell[inside]]
    u[inside] = increasing_roots(evaluate, low, low + 0.5, low + 0.25, noise=rounding)
    logs = dists.values[row, cell]
    logs[inside] = pieces.log_at(u[inside])
    order = np.lexsort((u, cell, row))
    return Turns(row[order], cell[order], u[order], logs[order], kind[order])


class Climbs(NamedTuple):
    """A batch cut into parts on which the log density is monotone: each from `u` of a cell to `end` of the same cell.

    `log_start` and `log_end` are the log densities there, `mass` the masses from -π to the start and `part` of the part
    itself. Parts are in order of rows and angles.
    """

    row: np.ndarray
    cell: np.ndarray
    u: FloatArray
    end: FloatArray
    log_start: FloatArray
    log_end: FloatArray
    mass: FloatArray
    part: FloatArray


def cut_into_climbs(dists: LogPolynomials, cumulative: FloatArray) -> Climbs:
    """Cells, cut where the log density turns within; `cumulative` (R, n + 1) are the masses up to their ends."""
    size, n = dists.values.shape
    turns = find_turns(dists)
    inside = np.flatnonzero(turns.u > 0.0)
    row = np.concatenate([np.repeat(np.arange(size), n), turns.row[inside]])
    cell = np.concatenate([np.tile(np.arange(n), size), turns.cell[inside]])
    u = np.concatenate([np.zeros(size * n), turns.u[inside]])
    logs = np.concatenate([dists.values.ravel(), turns.log_density[inside]])
    pieces = take_pieces(dists, turns.row[inside], turns.cell[inside])
    before = cumulative[turns.row[inside], turns.cell[inside]] + pieces.mass_to(turns.u[inside])
    mass = np.concatenate([cumulative[:, :-1].ravel(), before])
    order = np.argsort(row * n + cell + u, kind="stable")
    row, cell, u, logs, mass = (part[order] for part in (row, cell, u, logs, mass))
    following, last = follow(row, size), np.flatnonzero(np.diff(row, append=-1))
    end = np.where(cell[following] == cell, u[following], 1.0)
    end[(cell[following] == cell) & (u[following] <= u)] = 1.0  # a single cell, which follows itself
    part = mass[following] - mass
    part[last] = cumulative[row[last], -1] - mass[last]
    return Climbs(row, cell, u, end, logs, logs[following], mass, part)


class Crossings(NamedTuple):
    """Where parts of `Climbs` cross a level: the angles, the masses of the parts above, and how wide a nat is there."""

    angle: FloatArray
    above: FloatArray
    width: FloatArray


def cross(dists: LogPolynomials, climbs: Climbs, index: np.ndarray, level: FloatArray) -> Crossings:
    """The crossings of some parts with a level (nats) for each."""
    pieces = take_pieces(dists, climbs.row[index], climbs.cell[index])
    start, end, low, high = (column[index] for column in (climbs.log_start, climbs.log_end, climbs.u, climbs.end))
    sign = np.where(end > start, 1.0, -1.0)
    bottom, top = np.minimum(start, end), np.maximum(start, end)

    def evaluate(which: np.ndarray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        some, u = pieces.take(which), sign[which] * point
        return some.log_at(u) - level[which], sign[which] * some.slope_at(u)

    with np.errstate(invalid="ignore"):
        share = np.where(np.isfinite(bottom), (level - bottom) / np.maximum(top - bottom, 1e-300), 0.5)
    first, last = np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)
    noise = 2.0 * _EPS * (1.0 + np.abs(level))
    u = sign * increasing_roots(evaluate, first, last, first + share * (last - first), noise=noise, tolerance=1e-15)
    before = pieces.mass_to(u) - np.where(low > 0.0, pieces.mass_to(low), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = pieces.stretch_at(u) / np.abs(pieces.slope_at(u))
    above = np.where(sign > 0, climbs.part[index] - before, before)
    return Crossings(pieces.angle_at(u), above, np.where(np.isfinite(width), width, 0.0))


def _hold_above(dists: LogPolynomials, climbs: Climbs, level: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Masses where the log density is above a level (R,) for each distribution, and how wide a nat is there in all."""
    size, at = len(dists.values), level[climbs.row]
    lesser, greater = np.minimum(climbs.log_start, climbs.log_end), np.maximum(climbs.log_start, climbs.log_end)
    held: FloatArray = np.bincount(climbs.row, climbs.part * (lesser >= at), minlength=size).astype(float)
    crossed = np.flatnonzero((lesser < at) & (greater >= at))
    found = cross(dists, climbs, crossed, at[crossed])
    held += np.bincount(climbs.row[crossed], found.above, minlength=size)
    return held, np.bincount(climbs.row[crossed], found.width, minlength=size).astype(float)


def mass_above(dists: LogPolynomials, cumulative: FloatArray, level: FloatArray) -> FloatArray:
    """Masses where the log density is above a level (R,) for each distribution."""
    if len(dists.values) == 0:
        return np.empty(0)
    return np.clip(_hold_above(dists, cut_into_climbs(dists, cumulative), level)[0], 0.0, 1.0)


def _find_levels(dists: LogPolynomials, climbs: Climbs, cumulative: FloatArray, mass: float) -> FloatArray:
    """Log density above which each distribution holds the mass."""
    size = len(dists.values)
    first = np.flatnonzero(np.diff(climbs.row, prepend=-1))
    high = np.maximum.reduceat(climbs.log_start, first)
    low = np.minimum.reduceat(np.where(np.isneginf(climbs.log_start), np.inf, climbs.log_start), first)
    low = np.where(dists.kinds.max(axis=1) >= _FALL, low - 60.0, low)  # a straight fall to zero has all levels
    middle = 0.5 * (np.maximum(dists.values, -1e300) + np.maximum(np.roll(dists.values, -1, axis=1), -1e300))
    guess = grid_levels(middle, [mass], probability=np.diff(cumulative, axis=1), interpolate=True)[0]

    def evaluate(index: np.ndarray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        wanted = np.full(size, np.nan)
        wanted[index] = level
        held, width = _hold_above(dists, climbs, wanted)
        # Mass falls as the level rises, by density times width.
        return mass - held[index], np.exp(level) * width[index]

    # A Newton step of 1e-8 in the log density leaves an error of its square.
    return increasing_roots(evaluate, low, high, np.clip(guess, low, high), noise=5e-16, tolerance=1e-8)


def are_flat(dists: LogPolynomials) -> np.ndarray:
    """Which distributions are uniform, but for rounding of their logarithms."""
    return np.asarray(dists.values.max(axis=1) - dists.values.min(axis=1) <= 1e-13)


def find_arcs(dists: LogPolynomials, cumulative: FloatArray, mass: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Row, lower and upper end of each arc of the highest-density regions, in angular order."""
    size = len(dists.values)
    if size == 0:
        return np.empty(0, dtype=int), np.empty(0), np.empty(0)
    climbs = cut_into_climbs(dists, cumulative)
    level = _find_levels(dists, climbs, cumulative, mass)[climbs.row]
    flat = are_flat(dists)
    crossed = np.flatnonzero(((climbs.log_start < level) != (climbs.log_end < level)) & ~flat[climbs.row])
    found = cross(dists, climbs, crossed, level[crossed])
    row, rising = climbs.row[crossed], climbs.log_end[crossed] >= level[crossed]
    # Around the circle rises and falls take turns: each arc goes from a rise to the fall that follows it.
    begin = np.flatnonzero(rising)
    lower, upper = found.angle[begin], found.angle[follow(row, size)[begin]]
    row = row[begin]
    none = np.setdiff1d(np.arange(size), row)
    row, lower, upper = (
        np.concatenate(pair)
        for pair in zip((row, lower, upper), _arcs_without_level(dists, climbs, none, mass), strict=True)
    )
    lower = wrap(lower)
    upper = np.where(upper < lower, upper + _TURN, upper)
    order = np.lexsort((lower, row))
    return row[order], lower[order], upper[order]


def _arcs_without_level(
    dists: LogPolynomials, climbs: Climbs, rows: np.ndarray, mass: float
) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Arcs where no level is crossed: a flat density, or a mass all but zero or one."""
    lower, upper = np.full(rows.size, -np.pi * mass), np.full(rows.size, np.pi * mass)
    for i, row in enumerate(rows.tolist()):
        own = np.flatnonzero(climbs.row == row)
        spread = np.ptp(climbs.log_start[own])
        if spread > 1e-12 and mass < 0.5:
            top = own[np.argmax(climbs.log_start[own])]
            piece = take_pieces(dists, climbs.row[[top]], climbs.cell[[top]])
            lower[i] = upper[i] = piece.angle_at(climbs.u[[top]])[0]
        elif spread > 1e-12:
            lower[i], upper[i] = -np.pi, np.pi
    return rows, lower, upper


# ---- the distribution function and its integral ---------------------------------------------------------------------


def _hermite_matrix() -> FloatArray:
    """From value and first three derivatives at 0 and at 1 to the eight coefficients of a polynomial."""
    rows = []
    for at in (0.0, 1.0):
        for order in range(4):
            factor = [float(np.prod([k - i for i in range(order)])) if k >= order else 0.0 for k in range(8)]
            rows.append([f * at ** max(k - order, 0) for k, f in enumerate(factor)])
    return np.linalg.inv(np.array(rows)).T


_HERMITE = _hermite_matrix()
_ENDS = np.array([0.0, 1.0])


def _second_stencil() -> FloatArray:
    """Weights (16, 2) of the nodes for second derivatives at both ends of a cell."""
    powers = np.arange(POINTS)
    factor = (powers * (powers - 1))[:, None]
    return np.asarray(_TO_POWERS @ (factor * (_ENDS - 0.5) ** np.maximum(powers - 2, 0)[:, None]))


def distribution_polynomials(dists: LogPolynomials, cumulative: FloatArray) -> FloatArray:
    """Coefficients (8, R, n) of F in powers of s, the share of the cell's width: of degree 7, with p'' at both ends.

    The error is that of the eighth derivative, (h/σ)⁸/10⁷ for cells of width h of a peak of width σ.
    """
    logs, slope = dists.log_at(_ENDS), dists.slopes_at(_ENDS)
    bend = _windows(_without_zeros(dists.values)) @ _second_stencil()
    bend[dists.kinds != _POLYNOMIAL] = 0.0
    width = np.diff(dists.edges(), axis=1)[..., None]
    if dists.is_even:
        stretch, second = np.ones(1), np.zeros(1)
    else:
        # In units of the width of the cell, as everything below.
        stretch = dists.stretch_at(_ENDS) / width
        second = (_windows(dists.nodes, _TURN) @ _second_stencil()) / width
    first = slope / stretch
    curvature = (bend - first * second) / stretch**2
    with np.errstate(invalid="ignore", over="ignore"):
        density = np.exp(logs) * width
        rise, turn = density * first, density * (first**2 + curvature)
    straight = (dists.kinds == _FALL) | (dists.kinds == _RISE)
    if straight.any():
        change = (density[straight, 1] - density[straight, 0])[:, None]
        rise[straight], turn[straight] = change, 0.0
    rise[dists.kinds == _EMPTY] = turn[dists.kinds == _EMPTY] = 0.0
    mass = np.stack([cumulative[:, :-1], cumulative[:, 1:]], axis=-1)
    data = np.stack([mass, density, rise, turn])  # (4, R, n, 2)
    ends = np.concatenate([data[..., 0], data[..., 1]])
    return np.asarray(np.tensordot(_HERMITE.T, ends, axes=1))


_CRPS_NODES, _CRPS_WEIGHTS = np.polynomial.legendre.leggauss(4)


def half_mean_distance(dists: LogPolynomials, cumulative: FloatArray) -> FloatArray:
    """½ E d(Θ, Θ*) = ∫_{-π}^{0} G(1 - G) dt with G(t) = F(t + π) - F(t), for each distribution.

    The integral is cut at the nodes on both halves of the circle.
    """
    size, n = dists.values.shape
    edges = dists.edges()
    powers = distribution_polynomials(dists, cumulative).reshape(8, -1)
    left = edges[:, :-1]
    upper_half = left >= 0.0
    breaks = np.where(upper_half, left - np.pi, left)
    order = np.argsort(breaks, axis=1, kind="stable")
    breaks, from_upper = (np.take_along_axis(part, order, axis=1) for part in (breaks, upper_half))
    # Cells that hold t and t + π from each break on: the last of either half that has begun.
    lower = np.cumsum(~from_upper, axis=1) - 1
    upper = (~upper_half).sum(axis=1, keepdims=True) - 1 + np.cumsum(from_upper, axis=1)
    ends = np.concatenate([breaks[:, 1:], np.zeros((size, 1))], axis=1)
    half = 0.5 * (ends - breaks)
    points = (breaks + half)[..., None] + half[..., None] * _CRPS_NODES
    start = np.arange(size)[:, None] * n
    widths = np.diff(edges, axis=1)

    def distribution(cell: np.ndarray, x: FloatArray) -> FloatArray:
        at = (start + cell).ravel()
        share = (x.reshape(-1, x.shape[-1]) - left.reshape(-1)[at][:, None]) / widths.reshape(-1)[at][:, None]
        out = np.broadcast_to(powers[-1, at][:, None], share.shape).copy()
        for row in powers[-2::-1]:
            out *= share
            out += row[at][:, None]
        return out.reshape(x.shape)

    inside = distribution(upper, points + np.pi) - distribution(lower, points)
    return np.asarray((half * ((inside * (1.0 - inside)) @ _CRPS_WEIGHTS)).sum(axis=1))


def integrals_of_distribution(dists: LogPolynomials, cumulative: FloatArray) -> FloatArray:
    """∫_{-π}^{x} F at the ends x of the cells, (R, n + 1)."""
    edges = dists.edges()
    behind = edges[:, 1:, None] - dists.angles_of_rule()
    within = np.diff(edges, axis=1) * cumulative[:, :-1] + (dists.masses() * behind).sum(axis=-1)
    return np.concatenate([np.zeros((len(edges), 1)), np.cumsum(within, axis=1)], axis=1)
