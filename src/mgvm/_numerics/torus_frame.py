"""Statistics of an mGvM of up to three angles around an anchor, and the exact moments of laws written in them.

With ψ = φ - anchor, s = sin ψ and c = 1 - cos ψ the local statistics are, in place of Re and Im of the usual ones,

    z_d^t -> (c_d^t, s_d c_d^(t-1)),   z_i conj(z_j) -> (c_i c_j, s_i c_j),   z_i z_j -> (s_i s_j, c_i s_j).

Both span the same functions with the constant: T = R (T₁ + L T'), T₁ the value at ψ = 0, L a matrix of small integers,
R the turn of each complex slot by its anchors. At concentration κ the local ones have the sizes κ^-½, κ^-1, κ^-3/2 and
κ^-2, each of them known to its own digits; of cos ψ, cos 2ψ the digits that differ from 1 would be lost.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, polynomial

from mgvm._numerics.torus_moments import sum_laws
from mgvm._validation import ComplexArray, FloatArray

MOST_ANGLES = 3
MOST_NODES = 4_000_000  # of the outer angles' grid, each of which is looked at
MOST_OF_ONE = 30_000  # nodes of one angle: concentrations up to some 1e7
# Logarithms of what is left out, and of a trapezoid rule's relative error: to rounding, and to some 1e-11.
_PRECISE, _QUICK = (40.0, 44.0), (25.0, 28.0)
_SHIFTS = np.geomspace(1e-5, 20.0, 240)


class TooConcentratedError(ValueError):
    """The law is too narrow for the grid."""


class Moments(NamedTuple):
    """Of laws in local statistics: log ∫ exp(θ'·T') dψ (K,), E[T'] (K, p) and Cov(T') (K, p, p)."""

    log_integral: FloatArray
    mean: FloatArray
    covariance: FloatArray


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


def _turned(values: FloatArray, turn: ComplexArray) -> FloatArray:
    return (np.ascontiguousarray(values).view(complex) * turn).view(np.float64)


def to_local(theta: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """θ' (K, p) of natural vectors θ (K, p): θ'·T' = θ·T but for a constant."""
    return _turned(theta, phases(anchor, order).conj()) @ _mixing(anchor.shape[1], order)[0]


def from_local(local: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """θ of θ'."""
    return _turned(local @ _mixing(anchor.shape[1], order)[1], phases(anchor, order))


def base(theta: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """θ·T at the anchors, (K,): log Z less the log integral of the local law."""
    return _turned(theta, phases(anchor, order).conj())[:, 0::2].sum(axis=1)


def local_means(mean: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """E[T'] of E[T], (K, p)."""
    _, inverse, constant = _mixing(anchor.shape[1], order)
    return (_turned(mean, phases(anchor, order).conj()) - constant) @ inverse.T


def means(local: FloatArray, anchor: FloatArray, order: int) -> FloatArray:
    """E[T] of E[T'], (K, p)."""
    matrix, _, constant = _mixing(anchor.shape[1], order)
    return _turned(local @ matrix.T + constant, phases(anchor, order))


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
def _growth(order: int) -> FloatArray:
    return np.cosh(np.minimum(np.multiply.outer(np.arange(1, order + 1), _SHIFTS), 700.0)) - 1.0


@cache
def _orders(dimension: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each statistic stands when angle d is made the last one, (D, p), and the codes for three angles."""
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
    return out, padded


def rule_sizes(local: FloatArray, dimension: int, order: int, error: float) -> tuple[np.ndarray, FloatArray]:
    """Nodes (K, D) that make the trapezoid rule exact to exp(-error), and concentrations (K, D)."""
    strengths = _strengths(local @ _mixing(dimension, order)[1], dimension, order)
    needed = ((error + strengths @ _growth(order)) / _SHIFTS).min(axis=2)
    count = np.ceil(np.minimum(needed, 1e9)).astype(np.int64) + 4 * order
    return count + count % 2, strengths @ np.arange(1.0, order + 1.0) ** 2


def local_moments(
    local: FloatArray, dimension: int, order: int, *, fisher: bool = True, quick: bool = False
) -> Moments:
    """Exact moments of laws exp(θ'·T'(ψ)), θ' of shape (K, p), of one to three angles and any order.

    Best around anchors near the laws' peaks: a law that stands k standard deviations off loses 2 log10 k digits.
    `quick` settles for some 1e-11 in log Z and 1e-9 in the rest, for a third of the time.
    """
    negligible, error = _QUICK if quick else _PRECISE
    sizes, strength = rule_sizes(local, dimension, order, error)
    inner = np.argmax(sizes, axis=1)
    rows = np.arange(local.shape[0])
    grid = np.ones((local.shape[0], MOST_ANGLES), dtype=np.int64)
    others = np.array([[k for k in range(dimension) if k != d] + [d] for d in range(dimension)])[inner]
    grid[:, MOST_ANGLES - dimension :] = np.take_along_axis(sizes, others, axis=1)
    outer = grid[:, 0].astype(float) * grid[:, 1]
    worst = int(np.argmax(outer * grid[:, 2]))
    if outer.max() > MOST_NODES or grid.max() > MOST_OF_ONE:
        raise TooConcentratedError(
            f"a law of concentration {strength[worst].max():.3g} needs a grid of {grid[worst, 0]:,} x "
            f"{grid[worst, 1]:,} nodes"
        )
    table, code = _orders(dimension, order)
    take = table[inner]
    moved = np.take_along_axis(local, take, axis=1)
    reach = negligible + 0.5 * np.log1p(strength).sum(axis=1)
    log_sum, mean, covariance = sum_laws(np.ascontiguousarray(moved), code, grid, reach, fisher)
    back = np.empty_like(take)
    np.put_along_axis(back, take, np.broadcast_to(np.arange(take.shape[1]), take.shape), axis=1)
    log_sum += np.log(2.0 * math.pi / sizes).sum(axis=1)
    if fisher:
        covariance = covariance[rows[:, None, None], back[:, :, None], back[:, None, :]]
    return Moments(log_sum, np.take_along_axis(mean, back, axis=1), covariance)
