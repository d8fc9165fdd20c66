"""Exact moments of mGvM distributions of up to three angles, in statistics around an anchor.

With ψ = φ - anchor, s = sin ψ and c = 1 - cos ψ the local statistics are, in place of Re and Im of the usual ones,

    z_d^t -> (c_d^t, s_d c_d^(t-1)),   z_i conj(z_j) -> (c_i c_j, s_i c_j),   z_i z_j -> (s_i s_j, c_i s_j).

Both span the same functions with the constant: T = R (T₁ + L T'), T₁ the value at ψ = 0, L a matrix of small integers,
R the turn of each complex slot by its anchors. At concentration κ the local ones have the sizes κ^-½, κ^-1, κ^-3/2 and
κ^-2, each of them known to its own digits; of cos ψ, cos 2ψ the digits that differ from 1 would be lost.

log Z, means and covariances are trapezoid sums. Every statistic is a product of functions of single angles, and so is a
product of two: all that means and Fisher matrix need are the sums of products of powers c^r and s c^r of the three
angles, one table a distribution. The angle that needs the finest rule, the last one, is summed for each node of the
other two that matters. Terms are positive, so the sums keep their digits at any concentration.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, polynomial

from mgvm._numerics.elementary import bounded_exp, entry, inner, sin_cos
from mgvm._validation import ComplexArray, FloatArray

MOST_ANGLES = 3


class TooConcentratedError(ValueError):
    """The distribution is too narrow for the grid."""


class Moments(NamedTuple):
    """Of distributions in local statistics: log ∫ exp(θ'·T') dψ (K,), E[T'] (K, p) and Cov(T') (K, p, p)."""

    log_integral: FloatArray
    mean: FloatArray
    covariance: FloatArray


# ---- compiled sums ---------------------------------------------------------------------------------------------------


@inner(fastmath={"contract"})
def _powers(count: int, order: int) -> np.ndarray:
    """Rows c^r, r = 0 … 2T, then s c^r, r = 0 … 2T - 1, at the nodes 2π(k - count/2)/count.

    A single node stands for no angle.
    """
    out = np.empty((4 * order + 1, count))
    for k in range(count):
        sine, cosine = sin_cos(math.pi * (k - count // 2) / count)
        s, c = 2.0 * sine * cosine, 2.0 * sine * sine
        power = 1.0
        for r in range(2 * order):
            out[r, k] = power
            out[2 * order + 1 + r, k] = s * power
            power *= c
        out[2 * order, k] = power
    return out


@inner(fastmath={"contract"})
def _lines(
    theta: np.ndarray,
    code: np.ndarray,
    first: np.ndarray,
    i: int,
    second: np.ndarray,
    extra: float,
    weights: np.ndarray,
    out: np.ndarray,
) -> None:
    """At node i of the first angle and each node of the second one: the terms without the last angle, the last one's s
    and c, and an upper bound.

    α s + β c is at most β + √(α² + β²); `extra` is the most that the last angle's own harmonics add. Weights (2T + 1,
    2T + 1) are the coefficients by functions of the second angle and of the last one.
    """
    size, sine = weights.shape[0], weights.shape[0] - 1
    for m in range(size):
        for n in range(size):
            weights[m, n] = 0.0
    for a in range(theta.size):
        m = code[a, 0]
        weights[code[a, 1], code[a, 2]] += theta[a] * first[sine + (m + 1) // 2 if m % 2 else m // 2, i]
    for j in range(second.shape[1]):
        out[0, j] = weights[0, 0]
    for m in range(1, size):
        row = sine + (m + 1) // 2 if m % 2 else m // 2
        for j in range(second.shape[1]):
            out[0, j] += weights[m, 0] * second[row, j]
    for j in range(second.shape[1]):
        s, c = second[sine + 1, j], second[1, j]
        alpha = weights[0, 1] + weights[1, 1] * s + weights[2, 1] * c
        beta = weights[0, 2] + weights[1, 2] * s + weights[2, 2] * c
        out[1, j], out[2, j] = alpha, beta
        out[3, j] = out[0, j] + extra + beta + math.sqrt(alpha * alpha + beta * beta)


@inner(fastmath={"contract", "nnan", "nsz"})
def _exponents(alpha: float, beta: float, powers: np.ndarray, own: np.ndarray, out: np.ndarray) -> float:
    """α s + β c + own harmonics at all nodes of the last angle; returns the highest."""
    sine = powers.shape[0] // 2 + 1
    for k in range(own.size):
        out[k] = own[k] + (alpha * powers[sine, k] + beta * powers[1, k])
    top = out[0]
    for k in range(own.size):
        top = out[k] if out[k] > top else top
    return top


@inner(fastmath={"contract", "reassoc"})
def _node_moments(exponent: np.ndarray, shift: float, reach: float, powers: np.ndarray, out: np.ndarray) -> None:
    """Σ_k exp(exponent_k - shift) times each row of powers, over the nodes that matter; `exponent` is overwritten."""
    begin, end = 0, exponent.size
    floor = shift - reach
    while begin < end and exponent[begin] < floor:
        begin += 1
    while end > begin and exponent[end - 1] < floor:
        end -= 1
    # Slices, for a loop from `begin` on would check each index for its sign, and not vectorise.
    weight = exponent[begin:end]
    for k in range(weight.size):
        value = weight[k] - shift
        weight[k] = bounded_exp(value if value > -700.0 else -700.0)
    for r in range(out.size):
        row = powers[r, begin:end]
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * row[k]
        out[r] = total


@entry(fastmath={"contract"})
def _sum_powers(
    theta: np.ndarray, code: np.ndarray, sizes: np.ndarray, reach: np.ndarray, sums: np.ndarray, shifts: np.ndarray
) -> None:
    """Sums of all products of powers of the three angles, times exp(θ·T - shift), and that shift.

    Each row of theta has a grid of its own, sizes (n, 3), and its own `reach`: by how much less than the peak a node
    may have and still count. `code` (p, 3) says by which function of each angle a statistic is made. `sums` are zero
    before.
    """
    width = sums.shape[1]
    order = width // 4
    room, weights = np.empty((width + 1, width)), np.empty((2 * order + 1, 2 * order + 1))
    table, moments = room[:width], room[width]
    for n in range(theta.shape[0]):
        first, second, last = _powers(sizes[n, 0], order), _powers(sizes[n, 1], order), _powers(sizes[n, 2], order)
        lines, nodes, total = np.empty((4, sizes[n, 1])), np.zeros((2, sizes[n, 2])), sums[n]
        own, exponent = nodes[0], nodes[1]
        # The line along which the upper bound is highest: its highest value is not far below the peak.
        best, level, alpha, beta = -np.inf, 0.0, 0.0, 0.0
        for i in range(first.shape[1]):
            _lines(theta[n], code, first, i, second, 0.0, weights, lines)
            for j in range(lines.shape[1]):
                if lines[3, j] > best:
                    best, level, alpha, beta = lines[3, j], lines[0, j], lines[1, j], lines[2, j]
        extra = 0.0
        for k in range(own.size):
            for t in range(2, order + 1):
                own[k] += weights[0, 2 * t] * last[t, k] + weights[0, 2 * t - 1] * last[2 * order + t, k]
            extra = max(extra, own[k])
        level += _exponents(alpha, beta, last, own, exponent)
        shift = level
        for i in range(first.shape[1]):
            _lines(theta[n], code, first, i, second, extra, weights, lines)
            for r in range(width):
                for q in range(width):
                    table[r, q] = 0.0
            seen = False
            for j in range(lines.shape[1]):
                if lines[3, j] < level - reach[n]:
                    continue
                top = lines[0, j] + _exponents(lines[1, j], lines[2, j], last, own, exponent)
                if top < level - reach[n]:
                    continue
                level, seen = max(level, top), True
                if level > shift + 300.0:  # sums are scaled anew before they overflow
                    factor, shift = math.exp(shift - level), level
                    for r in range(width):
                        for q in range(width):
                            table[r, q] *= factor
                            for k in range(width):
                                total[r, q, k] *= factor
                _node_moments(exponent, shift - lines[0, j], reach[n], last, moments)
                for r in range(width):
                    factor = second[r, j]
                    for q in range(width):
                        table[r, q] += factor * moments[q]
            if seen:
                for r in range(width):
                    factor = first[r, i]
                    for q in range(width):
                        for k in range(width):
                            total[r, q, k] += factor * table[q, k]
        shifts[n] = shift


# ---- statistics from sums of powers ----------------------------------------------------------------------------------


def _powers_of(m: int, n: int, order: int) -> list[tuple[int, float]]:
    """The product of functions m and n of an angle as rows of powers and their factors.

    Functions are 1, s, c, sc, c², ...; s c^t s c^u = 2 c^(t+u+1) - c^(t+u+2).
    """
    t, u = (m + 1) // 2, (n + 1) // 2
    if m % 2 and n % 2:
        return [(t + u - 1, 2.0), (t + u, -1.0)]
    return [(2 * order + t + u if m % 2 or n % 2 else t + u, 1.0)]


@cache
def _products(dimension: int, order: int, fisher: bool) -> tuple[np.ndarray, FloatArray, np.ndarray, np.ndarray]:
    """Which sums of powers, times what, make the mean of a statistic or, after all of these, of a product of two.

    Places among the sums and factors stand one after the other; then where each mean begins, and which of them are
    those of the products (p, p).
    """
    code, width = _orders(dimension, order)[2], 4 * order + 1
    size = len(code)
    row, column = np.tril_indices(size if fisher else 0)
    pairs = [(left, np.zeros_like(left)) for left in code] + list(zip(code[row], code[column], strict=True))
    place: list[int] = []
    factor: list[float] = []
    begin: list[int] = []
    for left, right in pairs:
        begin.append(len(place))
        angles = (_powers_of(int(m), int(n), order) for m, n in zip(left, right, strict=True))
        for (i, x), (j, y), (k, z) in itertools.product(*angles):
            place.append((i * width + j) * width + k)
            factor.append(x * y * z)
    products = np.empty((size, size) if fisher else (0, 0), dtype=np.int64)
    products[row, column] = products[column, row] = size + np.arange(row.size)
    return np.array(place), np.array(factor), np.array(begin), products


def _sum_distributions(
    theta: FloatArray, dimension: int, order: int, sizes: np.ndarray, reach: FloatArray, fisher: bool
) -> Moments:
    """log Σ exp(θ·T), means and covariances of every row of theta (n, p), on grids of the given sizes (n, 3).

    Without `fisher` the covariances are empty.
    """
    count, width = len(theta), 4 * order + 1
    sums, shift = np.zeros((count, width, width, width)), np.empty(count)
    _sum_powers(theta, _orders(dimension, order)[2], sizes, reach, sums, shift)
    place, factor, begin, products = _products(dimension, order, fisher)
    total = sums[:, 0, 0, 0]
    terms = sums.reshape(count, -1).take(place, axis=1)
    terms *= factor
    found = np.add.reduceat(terms, begin, axis=1) / total[:, None]
    mean = found[:, : theta.shape[1]]
    covariance = found.take(products, axis=1)
    if fisher:
        covariance -= mean[:, :, None] * mean[:, None, :]
    return Moments(shift + np.log(total), mean, covariance)


# ---- local statistics and exact moments ------------------------------------------------------------------------------


def n_statistics(dimension: int, order: int) -> int:
    """p = 2DT + 2D(D - 1)."""
    return 2 * dimension * order + 2 * dimension * (dimension - 1)


@cache
def codes(dimension: int, order: int) -> np.ndarray:
    """(p, D): by which function of each angle a local statistic is made; 0: 1, 2t - 1: s c^(t-1), 2t: c^t."""
    table = np.zeros((n_statistics(dimension, order), dimension), dtype=np.int64)
    pairs = list(itertools.combinations(range(dimension), 2))
    for t, d in itertools.product(range(1, order + 1), range(dimension)):
        row = 2 * ((t - 1) * dimension + d)
        table[row, d], table[row + 1, d] = 2 * t, 2 * t - 1
    for q, (i, j) in enumerate(pairs):
        row = 2 * (dimension * order + q)
        table[row, [i, j]], table[row + 1, [i, j]] = (2, 2), (1, 2)
        row += 2 * len(pairs)
        table[row, [i, j]], table[row + 1, [i, j]] = (1, 1), (2, 1)
    return table


@cache
def _mixing(dimension: int, order: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """L, its inverse and T₁ of the docstring above."""
    size = n_statistics(dimension, order)
    matrix, constant = np.zeros((size, size)), np.zeros(size)
    constant[0::2] = 1.0
    for t, d in itertools.product(range(1, order + 1), range(dimension)):
        row = 2 * ((t - 1) * dimension + d)
        # cos tψ = T_t(1 - c) and sin tψ = s U_(t-1)(1 - c), U_(t-1) = T_t'/t.
        cosine = np.asarray(chebyshev.cheb2poly([0.0] * t + [1.0]), dtype=np.float64)
        for values, offset in ((_shifted(cosine), 0), (_shifted(polynomial.polyder(cosine) / t), 1)):
            for k, value in enumerate(values):
                power = k if offset == 0 else k + 1
                if power > 0:
                    matrix[row + offset, 2 * ((power - 1) * dimension + d) + offset] = value
    pairs = list(itertools.combinations(range(dimension), 2))
    for q, (i, j) in enumerate(pairs):
        row = 2 * (dimension * order + q)
        both = row + 2 * len(pairs)
        # Re z_i conj(z_j), Re z_i z_j = (1 - c_i)(1 - c_j) ± s_i s_j; Im = s_i (1 - c_j) ∓ (1 - c_i) s_j.
        for place, sign in ((row, 1.0), (both, -1.0)):
            matrix[place, [2 * i, 2 * j, row, both]] = -1.0, -1.0, 1.0, sign
            matrix[place + 1, [2 * i + 1, 2 * j + 1, row + 1, both + 1]] = 1.0, -sign, -1.0, sign
    return matrix, np.asarray(np.linalg.inv(matrix), dtype=np.float64), constant


def _shifted(coefficients: FloatArray) -> FloatArray:
    """The polynomial at 1 - c, in powers of c."""
    out = np.zeros(1)
    for value in coefficients[::-1]:
        out = polynomial.polyadd(polynomial.polymul(out, [1.0, -1.0]), [value])
    return out


def phases(anchor: FloatArray, order: int) -> ComplexArray:
    """The turn of every complex slot by anchors (K, D): e^{itα_d}, e^{i(α_i - α_j)}, e^{i(α_i + α_j)}; (K, p/2)."""
    i, j = np.triu_indices(anchor.shape[1], 1)
    parts = [t * anchor for t in range(1, order + 1)] + [anchor[:, i] - anchor[:, j], anchor[:, i] + anchor[:, j]]
    return np.exp(1j * np.concatenate(parts, axis=1))


def _turn(values: FloatArray, turn: ComplexArray) -> FloatArray:
    """Every complex slot, a pair of real numbers, times a turn."""
    return (np.ascontiguousarray(values).view(complex) * turn).view(np.float64)


def to_local(theta: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """θ' (K, p) of natural vectors θ (K, p): θ'·T' = θ·T but for a constant."""
    return _turn(theta, phases(anchor, order).conj()) @ _mixing(anchor.shape[1], order)[0]


def from_local(local: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """θ of θ'."""
    return _turn(local @ _mixing(anchor.shape[1], order)[1], phases(anchor, order))


def base(theta: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """θ·T at the anchors, (K,): log Z less the log integral of the local distribution."""
    return _turn(theta, phases(anchor, order).conj())[:, 0::2].sum(axis=1)


def local_means(mean: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """E[T'] of E[T], (K, p)."""
    _, inverse, constant = _mixing(anchor.shape[1], order)
    return (_turn(mean, phases(anchor, order).conj()) - constant) @ inverse.T


def means(local: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """E[T] of E[T'], (K, p)."""
    matrix, _, constant = _mixing(anchor.shape[1], order)
    return _turn(local @ matrix.T + constant, phases(anchor, order))


def outward(anchor: FloatArray, order: int) -> FloatArray:
    """G = R L (K, p, p): T = G T' + constant, Cov(T) = G Cov(T') G^T and θ' = G^T θ."""
    matrix = _mixing(anchor.shape[1], order)[0]
    turned = matrix[0::2] + 1j * matrix[1::2]
    turned = phases(anchor, order)[:, :, None] * turned
    return np.stack([turned.real, turned.imag], axis=2).reshape(anchor.shape[0], *matrix.shape)


def local_statistics(psi: FloatArray, order: int) -> FloatArray:
    """T' (n, p) of angles ψ (n, D) seen from the anchor."""
    table = np.stack(_functions(np.sin(psi), 2.0 * np.sin(0.5 * psi) ** 2, order))
    code = codes(psi.shape[1], order)
    out = np.ones((psi.shape[0], code.shape[0]))
    for d in range(psi.shape[1]):
        out *= table[code[:, d], :, d].T
    return out


def _functions(s: FloatArray, c: FloatArray, order: int) -> list[FloatArray]:
    """1, s, c, sc, c², ..."""
    out, power = [np.ones_like(s)], np.ones_like(s)
    for _ in range(order):
        out.append(s * power)
        power = power * c
        out.append(power)
    return out


def _strengths(frame: FloatArray, dimension: int, order: int) -> FloatArray:
    """C_t of every angle, (K, D, T): how much of Re z^t there is at most, whatever the other angles do."""
    size = np.abs(np.ascontiguousarray(frame).view(complex))
    count = dimension * order
    out = np.moveaxis(size[:, :count].reshape(-1, order, dimension), 1, 2).copy()
    pairs = size[:, count:].reshape(size.shape[0], 2, -1).sum(axis=1)
    for q, (i, j) in enumerate(itertools.combinations(range(dimension), 2)):
        out[:, i, 0] += pairs[:, q]
        out[:, j, 0] += pairs[:, q]
    return out


@cache
def _contours(order: int) -> tuple[FloatArray, FloatArray]:
    """Shifts y of the path of integration into the complex plane, and by how much cos tφ may grow there, (T, n).

    A trapezoid rule of n nodes errs by e^{-ny} times the largest integrand at Im φ = y; any y gives a bound.
    """
    shifts = np.geomspace(1e-5, 20.0, 240)
    return shifts, np.cosh(np.minimum(np.arange(1, order + 1)[:, None] * shifts, 700.0)) - 1.0


@cache
def _orders(dimension: int, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each statistic stands when angle d is made the last one, (D, p), and the way back; codes for three
    angles.
    """
    table = codes(dimension, order)
    places = {tuple(row): a for a, row in enumerate(table)}
    out = np.empty((dimension, table.shape[0]), dtype=np.int64)
    for d in range(dimension):
        angles = [k for k in range(dimension) if k != d] + [d]
        for a, row in enumerate(table):
            moved = np.zeros(dimension, dtype=np.int64)
            moved[angles] = row
            out[d, a] = places[tuple(moved)]
    padded = np.zeros((table.shape[0], MOST_ANGLES), dtype=np.int64)
    padded[:, MOST_ANGLES - dimension :] = table
    return out, np.argsort(out, axis=1), padded


def rule_sizes(local: FloatArray, dimension: int, order: int, error: float) -> tuple[np.ndarray, FloatArray]:
    """Nodes (K, D) that make the trapezoid rule exact to exp(-error), and concentrations (K, D)."""
    strengths = _strengths(local @ _mixing(dimension, order)[1], dimension, order)
    shifts, growth = _contours(order)
    needed = ((error + strengths @ growth) / shifts).min(axis=2)
    count = np.ceil(np.minimum(needed, 1e9)).astype(np.int64) + 4 * order
    return count + count % 2, strengths @ np.arange(1.0, order + 1.0) ** 2


def local_moments(
    local: FloatArray, dimension: int, order: int, *, fisher: bool = True, quick: bool = False
) -> Moments:
    """Exact moments of distributions exp(θ'·T'(ψ)), θ' of shape (K, p), of one to three angles and any order.

    Best around anchors near the distributions' peaks: a distribution that stands k standard deviations off loses 2
    log10 k digits. `quick` is exact to some 1e-11 in log Z and 1e-9 in the rest, for a third of the time.
    """
    # Logarithms of what is left out, and of a trapezoid rule's relative error.
    negligible, error = (25.0, 28.0) if quick else (40.0, 44.0)
    sizes, strength = rule_sizes(local, dimension, order, error)
    last = np.argmax(sizes, axis=1)
    rows = np.arange(local.shape[0])
    grid = np.ones((local.shape[0], MOST_ANGLES), dtype=np.int64)
    others = np.array([[k for k in range(dimension) if k != d] + [d] for d in range(dimension)])[last]
    grid[:, MOST_ANGLES - dimension :] = np.take_along_axis(sizes, others, axis=1)
    lines = grid[:, 0].astype(float) * grid[:, 1]
    worst = int(np.argmax(lines * grid[:, 2]))
    # Each line is looked at, 4 million in a tenth of a second; 30,000 nodes do for concentrations up to some 1e7.
    if lines.max() > 4_000_000 or grid.max() > 30_000:
        raise TooConcentratedError(
            f"a distribution of concentration {strength[worst].max():.3g} needs a grid of {grid[worst, 0]:,} x "
            f"{grid[worst, 1]:,} nodes"
        )
    there, back, _ = _orders(dimension, order)
    moved, back = np.take_along_axis(local, there[last], axis=1), back[last]
    reach = negligible + 0.5 * np.log1p(strength).sum(axis=1)
    blocks = [slice(begin, begin + 512) for begin in range(0, len(moved), 512)]  # of 20 KB a distribution
    found = [_sum_distributions(moved[i], dimension, order, grid[i], reach[i], fisher) for i in blocks]
    log_sum, mean, covariance = found[0] if len(found) == 1 else (np.concatenate(a) for a in zip(*found, strict=True))
    log_sum += np.log(2.0 * math.pi / sizes).sum(axis=1)
    if fisher:
        covariance = covariance[rows[:, None, None], back[:, :, None], back[:, None, :]]
    return Moments(log_sum, np.take_along_axis(mean, back, axis=1), covariance)
