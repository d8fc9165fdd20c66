"""Integrals over up to three angles: one in closed form, the others by the trapezoid rule, where there is weight.

The angles stand in the order (numeric angles, analytic angle). Given the numeric angles the analytic one is a GvM, so
that

    v(φ) = log ∫ exp f(φ, φ_e) dφ_e = f_A(φ) + log Z_GvM(η(φ)),   η₁ = a_e + Σ_j P_ej z_j + Q_ej conj(z_j).

Written as it stands, f loses eps·K to rounding. Around an anchor θ, with ψ = φ - θ, the distribution has parameters
a e^{-iθ} and so on, and with w = e^{iψ} - 1 and the field h = a + P 1 + Q 1 at the anchor,

    f(θ + ψ) - f(θ) = Re Σ_d conj(h_d) w_d + Re Σ_d Σ_t conj(b_t,d) (e^{itψ_d} - 1)
                      + Re Σ_{d<j} [conj(w_d) P_dj w_j + w_d conj(Q_dj) w_j]

holds nothing large where ψ is small (`Frame`).

A uniform rule of n nodes in angle j errs by the Fourier coefficients ±n, ±2n, ... of exp f. Moving φ_j to φ_j + iy
changes Re f by at most Σ_t C_t (cosh(ty) - 1), C_1 = |a_j| + Σ_k |P_jk| + |Q_jk|, C_t = |b_t,j|: the relative error is
below

    2 exp(-n y + Σ_t C_t (cosh(ty) - 1))   for every y > 0,

whatever the other angles do (`rule_sizes`). Narrow distributions need fine rules of which few nodes matter: cells are
cut in four, angle by angle, and dropped once an upper bound of the density there is negligible (`find_nodes`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.gvm import gvm_facts, less_one, shared_moments
from mgvm._validation import ComplexArray, FloatArray
from mgvm.natural.parameters import Natural, concentrations, coupling_strengths


@dataclass(frozen=True)
class GridSettings:
    """What the search for the nodes that carry weight may cost, and when a node counts as without."""

    most_nodes: int = 10_000_000  # that may be kept: some 500 MB
    # By the number of numeric angles: rules so small are summed whole, others begin with so many cells. One
    # distribution alone pays for calls, a batch for cells.
    whole: tuple[int, int, int] = (1, 128, 4096)
    first_alone: tuple[int, int, int] = (1, 256, 4096)
    first_in_batch: tuple[int, int, int] = (1, 32, 512)
    few: int = 8  # distributions up to which a batch counts as one alone
    negligible: float = 40.0  # log of the peak over the value of a node that may be dropped
    fineness: int = 1  # times as many nodes of an angle as leave rounding alone


DEFAULT_SETTINGS = GridSettings()


# ---- a distribution seen from its anchor ----------------------------------------------------------------------------


class Points(NamedTuple):
    """Numeric angles `psi` (D - 1, n), relative to the anchors, of the distributions `rows` (n,)."""

    rows: np.ndarray
    psi: FloatArray


class AnalyticAngle(NamedTuple):
    """The analytic angle at some points (n,)."""

    value: FloatArray  # (n,): v - f(anchor)
    eta: ComplexArray  # (n, T): natural parameters of its GvM
    reference: FloatArray  # (n,): a typical angle
    moments: ComplexArray  # (n, T or more): E[z^t] for t = 1, 2, …


def dot(first: ComplexArray, second: ComplexArray) -> FloatArray:
    """Re(conj(first) second)."""
    product: FloatArray = first.real * second.real + first.imag * second.imag
    return product


class Frame:
    """Distributions a (m, D), sharing b, P and Q, around anchors (m, D), or around the origin.

    `analytic_size` is that of a trapezoid rule that is exact for the analytic angle.
    """

    def __init__(self, dist: Natural, analytic_size: int, anchor: FloatArray | None = None):
        self._is_near = anchor is not None
        self._analytic_size = analytic_size
        anchor = np.zeros((1, dist.dimension)) if anchor is None else anchor
        turn = np.exp(-1j * anchor)
        across = turn[:, :, None]
        self.anchor = anchor
        self.dimension, self.order = dist.dimension, dist.order
        self.P = across * dist.P * np.conj(turn)[:, None, :]
        self.Q = across * dist.Q * turn[:, None, :]
        self.b = dist.b * turn[:, None, :] ** np.arange(2, dist.order + 1)[:, None]
        own = dist.a * turn
        self.field = own + self.P.sum(axis=2) + self.Q.sum(axis=2)
        self.base = own.real.sum(axis=1) + self.b.real.sum(axis=(1, 2)) + 0.5 * (self.P + self.Q).real.sum(axis=(1, 2))
        self._curvature = concentrations(dist)
        self._cross = abs(dist.P) + abs(dist.Q)

    def _at(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The values of the distributions `rows`, where each has its own."""
        return values[0] if values.shape[0] == 1 else values[rows]

    def difference(self, psi: FloatArray) -> FloatArray:
        """f(anchor + ψ) - f(anchor) of the first distribution, with all angles given: ψ (n, D)."""
        everything = Points(np.zeros(psi.shape[0], dtype=np.intp), psi.T)
        return self._numeric_terms(everything, less_one(everything.psi))

    def _numeric_terms(self, points: Points, w: ComplexArray) -> FloatArray:
        """The terms of f that hold none but the given angles, less their value at the anchor."""
        rows, psi = points
        value = np.zeros(rows.shape)
        for j in range(psi.shape[0]):
            value += dot(self._at(self.field[:, j], rows), w[j])
            power = w[j]
            for t in range(self.b.shape[1]):
                power = power + w[j] * (1.0 + power)
                value += dot(self._at(self.b[:, t, j], rows), power)
        for i, j in itertools.combinations(range(psi.shape[0]), 2):
            value += dot(w[i], self._pull(i, j, rows, w[j]))
        return value

    def _pull(self, i: int, j: int, rows: np.ndarray, w: ComplexArray) -> ComplexArray:
        """P_ij w + Q_ij conj(w): what angle j adds to the field of angle i."""
        pull: ComplexArray = self._at(self.P[:, i, j], rows) * w + self._at(self.Q[:, i, j], rows) * np.conj(w)
        return pull

    def _eta(self, rows: np.ndarray, w: ComplexArray) -> ComplexArray:
        """Natural parameters of the analytic angle, (n, T)."""
        analytic = self.dimension - 1
        eta = np.empty((rows.size, self.b.shape[1] + 1), dtype=complex)
        eta[:, 0] = self._at(self.field[:, analytic], rows)
        for j in range(analytic):
            eta[:, 0] += self._pull(analytic, j, rows, w[j])
        eta[:, 1:] = self._at(self.b[:, :, analytic], rows)
        return eta

    def integrate(self, points: Points) -> AnalyticAngle:
        """v - f(anchor) at some points, and the distribution of the analytic angle there."""
        w = less_one(points.psi)
        eta = self._eta(points.rows, w)
        value, reference, moments = self._integral(eta)
        return AnalyticAngle(self._numeric_terms(points, w) + value, eta, reference, moments)

    def _integral(self, eta: ComplexArray) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """log ∫ exp Re Σ_t conj(η_t) (e^{itφ} - 1) dφ over the analytic angle, a typical angle, and moments."""
        # Up to 1,024 nodes one rule for shared harmonics beats a window for each distribution.
        if self.order > 2 and self._analytic_size <= 1024:
            log_normalizer, log_reference, reference, moments = shared_moments(eta, self._analytic_size, self.order)
        else:
            facts = gvm_facts(eta, max(self.order, 4))
            log_normalizer, log_reference, reference, moments = facts[0], facts[3], facts[4], facts[5]
        if not self._is_near:
            return log_normalizer - eta.real.sum(axis=1), reference, moments
        # log Z is the log density at the reference, not yet normalised, less the normalised one: two small numbers.
        value = -log_reference
        w = less_one(reference[None])[0]
        power = np.zeros_like(w)
        for t in range(eta.shape[1]):
            power = power + w * (1.0 + power)
            value += dot(eta[:, t], power)
        return value, reference, moments

    def slack(self, rows: np.ndarray, radius: FloatArray) -> FloatArray:
        """½ Σ K_j r_j² + Σ_{i<j} c_ij r_i r_j, the most that second derivatives add to f within a cell."""
        total = np.zeros(rows.shape)
        for j, r in enumerate(radius):
            total += 0.5 * r * r * self._at(self._curvature[:, j], rows)
        for i, j in itertools.combinations(range(radius.size), 2):
            total += float(self._cross[i, j]) * radius[i] * radius[j]
        return total

    def bound(self, points: Points, radius: FloatArray) -> FloatArray:
        """An upper bound of v - f(anchor) on cells of half-widths `radius` around the points.

        By Taylor f(φ + δ, φ_e) <= f + ∇f·δ + slack for every φ_e. ∇f is affine in e^{iφ_e}, so that the integral of
        exp(f + ∇f·δ) over φ_e is that of a GvM with η₁ + Σ_j δ_j ∂_jη₁. Its logarithm is convex in δ: largest at a
        corner.
        """
        rows, psi = points
        w = less_one(psi)
        value, eta = self._numeric_terms(points, w), self._eta(rows, w)
        slopes = [r * self._slope(j, points, w) for j, r in enumerate(radius)]
        turns = [r * self._turn(j, rows, w[j]) for j, r in enumerate(radius)]
        best = np.full(rows.shape, -np.inf)
        for signs in itertools.product((-1.0, 1.0), repeat=radius.size):
            corner = eta.copy()
            linear = value.copy()
            for sign, slope, turn in zip(signs, slopes, turns, strict=True):
                corner[:, 0] += sign * turn
                linear += sign * slope
            np.maximum(best, linear + self._integral(corner)[0], out=best)
        return best + self.slack(rows, radius)

    def _slope(self, j: int, points: Points, w: ComplexArray) -> FloatArray:
        """∂_j of the terms that hold numeric angles only (the analytic one stands at its anchor)."""
        rows, psi = points
        field = self._at(self.field[:, j], rows)
        for i in range(psi.shape[0]):
            if i != j:
                field = field + self._pull(j, i, rows, w[i])
        slope = dot(field, 1j * (1.0 + w[j]))
        for t in range(2, self.b.shape[1] + 2):
            slope = slope + dot(self._at(self.b[:, t - 2, j], rows), 1j * t * np.exp(1j * t * psi[j]))
        return slope

    def _turn(self, j: int, rows: np.ndarray, w: ComplexArray) -> ComplexArray:
        """∂_j η₁ = i P_ej z_j - i Q_ej conj(z_j)."""
        return self._pull(self.dimension - 1, j, rows, 1j * (1.0 + w))


# ---- cells ----------------------------------------------------------------------------------------------------------


class TooManyNodesError(ValueError):
    """More nodes matter than memory holds."""


class Cells(NamedTuple):
    """Cells of equal size in each numeric angle."""

    rows: np.ndarray  # (n,): the distribution that each belongs to, ascending
    places: np.ndarray  # (D - 1, n): its place in every numeric angle
    sizes: np.ndarray  # (D - 1,): into how many cells each angle is cut

    @property
    def radius(self) -> FloatArray:
        """Half-widths, (D - 1,)."""
        return np.pi / self.sizes

    def starts(self, batch: int) -> np.ndarray:
        """Where each distribution's cells begin."""
        return np.searchsorted(self.rows, np.arange(batch, dtype=self.rows.dtype))

    def keep(self, chosen: np.ndarray) -> Cells:
        """Those chosen by a mask or by places."""
        return Cells(self.rows[chosen], self.places[:, chosen], self.sizes)

    def points(self, frame: Frame, part: slice = slice(None)) -> Points:
        """The centres, as seen from the anchors."""
        rows = self.rows[part]
        angles = -np.pi + (self.places[:, part] + 0.5) * (2.0 * self.radius[:, None])
        count = angles.shape[0]
        anchor = frame.anchor[:, :count] if frame.anchor.shape[0] == 1 else frame.anchor[rows, :count]
        return Points(rows, angles - anchor.T)

    def cut(self, angles: np.ndarray) -> Cells:
        """Every cell in four in each of the angles chosen by a mask."""
        rows, index, sizes = self
        for j in np.flatnonzero(angles):
            rows = np.repeat(rows, 4)
            index = np.repeat(index, 4, axis=1)
            index[j] = 4 * index[j] + np.tile(np.arange(4, dtype=np.int32), index.shape[1] // 4)
        return Cells(rows, index, np.where(angles, 4 * sizes, sizes))


class Nodes(NamedTuple):
    """The nodes of the rule that carry weight, and v - f(anchor) there, seen from anchors near the peaks."""

    cells: Cells
    frame: Frame
    value: FloatArray

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """log ∫ exp(v - f(anchor)) of each distribution, and the nodes' probabilities."""
        starts = self.cells.starts(self.frame.base.size)
        top = np.maximum.reduceat(self.value, starts)
        weight = np.exp(self.value - top[self.cells.rows])
        total = np.add.reduceat(weight, starts)
        relative: FloatArray = top + np.log(total) + np.log(2.0 * self.cells.radius).sum()
        return relative, weight / total[self.cells.rows]


def blocks(cells: Cells) -> list[slice]:
    """So many cells at a time as caches take: 65,536, some 20 MB."""
    return [slice(begin, begin + (1 << 16)) for begin in range(0, cells.rows.size, 1 << 16)]


def bounds(cells: Cells, frame: Frame) -> FloatArray:
    """Upper bounds of v - f(anchor) on the cells."""
    return np.concatenate([frame.bound(cells.points(frame, part), cells.radius) for part in blocks(cells)])


def _integrate_cells(cells: Cells, frame: Frame) -> FloatArray:
    """v - f(anchor) at the centres of the cells."""
    return np.concatenate([frame.integrate(cells.points(frame, part)).value for part in blocks(cells)])


# ---- the nodes that carry weight ------------------------------------------------------------------------------------


def rule_sizes(dist: Natural) -> np.ndarray:
    """Nodes of each angle that make the trapezoid rule exact to rounding for a batch, and for E[z²]."""
    harmonics = np.vstack([np.abs(dist.a).max(axis=0) + coupling_strengths(dist), np.abs(dist.b)])
    shifts, growth = _growth(dist.order)
    # 2 exp(-38) is a quarter of what doubles resolve.
    needed = ((38.0 + harmonics.T @ growth) / shifts).min(axis=1)
    return np.ceil(needed).astype(np.int64) + 2


@cache
def _growth(order: int) -> tuple[FloatArray, FloatArray]:
    """Shifts y from 1e-5 to 20 into the complex plane, and cosh(ty) - 1 there for t = 1 … order."""
    shifts = np.geomspace(1e-5, 20.0, 240)
    return shifts, np.cosh(np.minimum(np.multiply.outer(np.arange(1, order + 1), shifts), 700.0)) - 1.0


def find_nodes(dist: Natural, settings: GridSettings = DEFAULT_SETTINGS) -> Nodes:
    """The nodes that carry weight, of distributions a (m, D) with dense P and Q, analytic angle last."""
    batch = dist.a.shape[0]
    sizes = settings.fineness * rule_sizes(dist)
    analytic_size = int(sizes[-1])
    cells, cuts = _first_cells(batch, sizes[:-1], settings)
    frame = Frame(dist, analytic_size)
    if cuts.size == 0:
        frame = _move_anchors(dist, cells, frame, analytic_size)
    if not cuts.any():
        return Nodes(cells, frame, _integrate_cells(cells, frame))
    reach = settings.negligible + _log_volume(dist)
    cells, high = _prune(cells, cuts, frame, reach, settings.most_nodes)
    frame = _move_anchors(dist, high, frame, analytic_size)
    value = _integrate_cells(cells, frame)
    best = np.maximum.reduceat(value, cells.starts(batch))
    chosen = value > best[cells.rows] - reach
    return Nodes(cells.keep(chosen), frame, value[chosen])


def _first_cells(batch: int, sizes: np.ndarray, settings: GridSettings) -> tuple[Cells, np.ndarray]:
    """All cells to begin with, and how often each angle's are cut in four to make at least `sizes`."""
    cuts = np.zeros(sizes.size, dtype=np.int64)
    first = sizes.copy()
    most = (settings.first_alone if batch <= settings.few else settings.first_in_batch)[sizes.size]
    while sizes.prod() > settings.whole[sizes.size] and first.prod() > most:
        cuts[np.argmax(first)] += 1
        first = -(-sizes // 4**cuts)
    count = int(first.prod())
    places = np.indices(tuple(first), dtype=np.int32).reshape(sizes.size, count)
    return Cells(np.repeat(np.arange(batch, dtype=np.int32), count), np.tile(places, batch), first), cuts


def _prune(cells: Cells, cuts: np.ndarray, frame: Frame, reach: float, most: int) -> tuple[Cells, Cells]:
    """The finest cells after all cuts, less those that a bound shows to be negligible; and a high cell of each."""
    batch = frame.base.size
    while cuts.any():
        bound = bounds(cells, frame)
        # Taylor's lower bound: somewhere in the cell v is at least the upper bound less twice the slack.
        least = bound - 2.0 * frame.slack(cells.rows, cells.radius)
        best = np.maximum.reduceat(least, cells.starts(batch))
        high = cells.keep(_largest_places(bound, cells, batch))
        cells = cells.keep(bound > best[cells.rows] - reach)
        angles = cuts == cuts.max()
        _check_count(cells.rows.size * 4 ** int(angles.sum()), cells.sizes * 4**angles, most)
        cells, cuts = cells.cut(angles), cuts - angles
    return cells, high


def _check_count(count: int, sizes: np.ndarray, most: int) -> None:
    """Refuse more cells than fit in memory."""
    if count > most:
        grid = " x ".join(f"{size:,}" for size in sizes)
        raise TooManyNodesError(
            f"the distribution spreads over some {count:,} nodes of a grid of {grid}, and at most {most:,} fit in "
            "memory; use annealed_log_normalizer for log Z and gibbs for draws"
        )


def _largest_places(value: FloatArray, cells: Cells, batch: int) -> np.ndarray:
    """Where each distribution's largest value stands."""
    largest = np.maximum.reduceat(value, cells.starts(batch))
    hits = np.flatnonzero(value == largest[cells.rows])
    return hits[np.searchsorted(cells.rows[hits], np.arange(batch))]


def _move_anchors(dist: Natural, cells: Cells, frame: Frame, analytic_size: int) -> Frame:
    """The frame anchored at the one given cell of each distribution, with the analytic angle at its mode there."""
    points = cells.points(frame)
    reference = frame.integrate(points).reference
    return Frame(dist, analytic_size, frame.anchor + np.column_stack([points.psi.T, reference]))


def _log_volume(dist: Natural) -> float:
    """½ Σ log(1 + K_j): the integral of exp(v) is no smaller than exp(max v - this), but for a factor near one."""
    return 0.5 * math.fsum(np.log1p(concentrations(dist)[:, :-1].max(axis=0)))


def find_occupied(dist: Natural, count: int, depth: float) -> NDArray[np.bool_]:
    """Which of the nodes -π + 2πk/count of a single distribution's first angle no bound excludes.

    Excluded are those whose density is below e^-depth of the peak; none, where that would cost more than it saves.
    """
    sizes = rule_sizes(dist)
    sizes[0] = count
    cells, cuts = _first_cells(1, sizes[:-1], DEFAULT_SETTINGS)
    try:
        cells, _ = _prune(cells, cuts, Frame(dist, int(sizes[-1])), depth + _log_volume(dist), 1 << 18)
    except TooManyNodesError:
        return np.ones(count, dtype=bool)
    places = np.unique(cells.places[0]).astype(np.int64)
    begin, end = places * count // cells.sizes[0], -(-(places + 1) * count // cells.sizes[0])
    found = np.zeros(count, dtype=bool)
    for shift in range(int((end - begin).max()) + 1):
        found[np.minimum(begin + shift, end) % count] = True
    return found
