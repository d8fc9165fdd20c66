"""Exact log Z, means and covariances of the statistics of many mGvM laws of up to three angles.

The statistics are those of `torus_frame`: products of powers of s = sin ψ and c = 1 - cos ψ, small near the origin of
the frame, so that sums of positive terms keep their digits at any concentration. Every statistic is a product of
functions of single angles, and so is a product of two: all that means and Fisher matrix need are the sums of products
of powers c^r and s c^r of the three angles, one table a law. The angle that needs the finest rule is summed for each
node of the others that matters.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp
from mgvm._numerics.trigonometry import sin_cos

# Of one law: functions of the two outer angles, powers of the inner one, its harmonics from the second on, and scratch.
Tables = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

_LOWEST = -700.0  # what bounded_exp takes
_JUMP = 300.0  # rise of the highest value seen at which sums are scaled anew


@inner(fastmath={"contract"})
def _angle_table(count: int, order: int) -> np.ndarray:
    """Rows 1, s, c, sc, c², sc², c³, ... at the nodes 2π(k - count/2)/count; a single node stands for no angle."""
    table = np.zeros((2 * order + 1, count))
    for k in range(count):
        sine, cosine = sin_cos(math.pi * (k - count // 2) / count)
        s, c = 2.0 * sine * cosine, 2.0 * sine * sine
        table[0, k] = 1.0
        power = 1.0
        for t in range(order):
            table[2 * t + 1, k] = s * power
            power *= c
            table[2 * t + 2, k] = power
    return table


@inner(fastmath={"contract"})
def _power_table(count: int, order: int) -> np.ndarray:
    """Rows c^r, r = 0 … 2 order, then s c^r, r = 0 … 2 order - 1."""
    out = np.empty((4 * order + 1, count))
    for k in range(count):
        sine, cosine = sin_cos(math.pi * (k - count // 2) / count)
        s, c = 2.0 * sine * cosine, 2.0 * sine * sine
        power = 1.0
        for r in range(2 * order + 1):
            out[r, k] = power
            if r < 2 * order:
                out[2 * order + 1 + r, k] = s * power
            power *= c
    return out


@inner()
def _slice(theta: np.ndarray, code: np.ndarray, first: np.ndarray, i: int, out: np.ndarray) -> None:
    """Coefficients (functions of the second angle, of the inner one) at node i of the first angle."""
    out[:] = 0.0
    for a in range(theta.size):
        out[code[a, 1], code[a, 2]] += theta[a] * first[code[a, 0], i]


@inner(fastmath={"contract"})
def _rows(weights: np.ndarray, second: np.ndarray, extra: float, out: np.ndarray) -> None:
    """At each node of the second angle: the terms without the inner angle, the inner one's s and c, and an upper bound.

    α s + β c is at most β + √(α² + β²); `extra` is the most that the inner angle's own harmonics add.
    """
    for j in range(second.shape[1]):
        own = 0.0
        for m in range(second.shape[0]):
            own += weights[m, 0] * second[m, j]
        s, c = second[1, j], second[2, j]
        alpha = weights[0, 1] + weights[1, 1] * s + weights[2, 1] * c
        beta = weights[0, 2] + weights[1, 2] * s + weights[2, 2] * c
        out[0, j], out[1, j], out[2, j] = own, alpha, beta
        out[3, j] = own + extra + beta + math.sqrt(alpha * alpha + beta * beta)


@inner(fastmath={"contract", "nnan", "nsz"})
def _exponents(alpha: float, beta: float, powers: np.ndarray, sines: int, own: np.ndarray, out: np.ndarray) -> float:
    """α s + β c + own harmonics at all nodes of the inner angle; returns the highest."""
    for k in range(own.size):
        out[k] = own[k] + (alpha * powers[sines, k] + beta * powers[1, k])
    top = out[0]
    for k in range(own.size):
        top = out[k] if out[k] > top else top
    return top


@inner(fastmath={"contract"})
def _exponentials(exponent: np.ndarray, shift: float) -> None:
    for k in range(exponent.size):
        value = exponent[k] - shift
        exponent[k] = bounded_exp(value if value > _LOWEST else _LOWEST)


@inner(fastmath={"contract", "reassoc"})
def _dot(weight: np.ndarray, row: np.ndarray) -> float:
    total = 0.0
    for k in range(weight.size):
        total += weight[k] * row[k]
    return total


@inner()
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
    _exponentials(weight, shift)
    for r in range(out.size):
        out[r] = _dot(weight, powers[r, begin:end])


@inner(fastmath={"contract"})
def _add_node(powers: np.ndarray, j: int, moments: np.ndarray, out: np.ndarray) -> None:
    """Add the products of the second angle's powers at node j and the inner one's sums."""
    for m in range(moments.size):
        factor = powers[m, j]
        for n in range(moments.size):
            out[m, n] += factor * moments[n]


@inner(fastmath={"contract"})
def _add_row(powers: np.ndarray, i: int, table: np.ndarray, sums: np.ndarray) -> None:
    """Add the products of the first angle's powers at node i and a row's table."""
    for m in range(sums.shape[0]):
        factor = powers[m, i]
        for n in range(table.shape[0]):
            for k in range(table.shape[0]):
                sums[m, n, k] += factor * table[n, k]


@inner()
def _power_of(m: int, n: int, order: int) -> tuple[int, float, int]:
    """The product of functions m and n of an angle as value of power `first`, times a factor, less power `second`.

    Functions are 1, s, c, sc, c², ...; s c^t s c^u = 2 c^(t+u+1) - c^(t+u+2); where nothing is taken off, second is -1.
    """
    t, u = (m + 1) // 2, (n + 1) // 2
    if m % 2 == 1 and n % 2 == 1:
        return t + u - 1, 2.0, t + u
    if m % 2 == 1 or n % 2 == 1:
        return 2 * order + t + u, 1.0, -1
    return t + u, 1.0, -1


@inner()
def _expectation(sums: np.ndarray, left: np.ndarray, right: np.ndarray, order: int) -> float:
    """The sum of a product of two statistics, each made of one function of every angle."""
    first, scale, less = _power_of(left[0], right[0], order)
    middle, middle_scale, middle_less = _power_of(left[1], right[1], order)
    last, last_scale, last_less = _power_of(left[2], right[2], order)
    total = 0.0
    for i in range(2 if less >= 0 else 1):
        for j in range(2 if middle_less >= 0 else 1):
            for k in range(2 if last_less >= 0 else 1):
                value = sums[less if i else first, middle_less if j else middle, last_less if k else last]
                value *= -1.0 if i else scale
                value *= -1.0 if j else middle_scale
                total += value * (-1.0 if k else last_scale)
    return total


@inner()
def _own_harmonics(weights: np.ndarray, powers: np.ndarray, order: int, out: np.ndarray) -> float:
    """The inner angle's harmonics from the second on at all nodes; returns the highest, at least 0."""
    top = 0.0
    for k in range(out.size):
        out[k] = 0.0
        for t in range(2, order + 1):
            out[k] += weights[0, 2 * t] * powers[t, k] + weights[0, 2 * t - 1] * powers[2 * order + t, k]
        top = max(top, out[k])
    return top


@inner()
def _highest(theta: np.ndarray, code: np.ndarray, tables: Tables, weights: np.ndarray, rows: np.ndarray) -> float:
    """The highest value on the line along which the upper bound is highest: not far below the peak."""
    first, middle, powers, own, exponent = tables
    order = (powers.shape[0] - 1) // 4
    best, level, alpha, beta = -np.inf, 0.0, 0.0, 0.0
    for i in range(first.shape[1]):
        _slice(theta, code, first, i, weights)
        _rows(weights, middle, 0.0, rows)
        for j in range(rows.shape[1]):
            if rows[3, j] > best:
                best, level, alpha, beta = rows[3, j], rows[0, j], rows[1, j], rows[2, j]
    return level + _exponents(alpha, beta, powers, 2 * order + 1, own, exponent)


@inner()
def _scale(sums: np.ndarray, table: np.ndarray, factor: float) -> None:
    for m in range(table.shape[0]):
        for n in range(table.shape[0]):
            table[m, n] *= factor
            for k in range(table.shape[0]):
                sums[m, n, k] *= factor


@inner()
def _one_law(theta: np.ndarray, code: np.ndarray, sizes: np.ndarray, reach: float, sums: np.ndarray) -> float:
    """Write the sums of products of powers times exp(θ·T - shift); returns the shift."""
    order = (sums.shape[0] - 1) // 4
    first, middle, powers = _angle_table(sizes[0], order), _angle_table(sizes[1], order), _power_table(sizes[2], order)
    outer, second = _power_table(sizes[0], order), _power_table(sizes[1], order)
    weights, rows = np.empty((2 * order + 1, 2 * order + 1)), np.empty((4, sizes[1]))
    own, exponent = np.empty(sizes[2]), np.empty(sizes[2])
    _slice(theta, code, first, 0 * sizes[0], weights)
    extra = _own_harmonics(weights, powers, order, own)
    level = _highest(theta, code, (first, middle, powers, own, exponent), weights, rows)
    shift = level
    moments, table = np.empty(4 * order + 1), np.empty((4 * order + 1, 4 * order + 1))
    sums[:] = 0.0
    for i in range(sizes[0]):
        _slice(theta, code, first, i, weights)
        _rows(weights, middle, extra, rows)
        table[:] = 0.0
        seen = False
        for j in range(sizes[1]):
            if rows[3, j] < level - reach:
                continue
            top = rows[0, j] + _exponents(rows[1, j], rows[2, j], powers, 2 * order + 1, own, exponent)
            if top < level - reach:
                continue
            level, seen = max(level, top), True
            if level > shift + _JUMP:
                _scale(sums, table, math.exp(shift - level))
                shift = level
            _node_moments(exponent, shift - rows[0, j], reach, powers, moments)
            _add_node(second, j, moments, table)
        if seen:
            _add_row(outer, i, table, sums)
    return shift


@entry()
def sum_laws(
    theta: np.ndarray, code: np.ndarray, sizes: np.ndarray, reach: np.ndarray, fisher: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Σ exp(θ·T), E[T] and E[T T^T] - E[T] E[T]^T of every row of theta, on grids of the given sizes (laws, 3).

    `code` (p, 3) says by which function of each angle a statistic is made; `reach` is by how much less than the peak a
    node may have and still count. Without `fisher` the covariances are empty.
    """
    laws, p = theta.shape
    order = (code.max() + 1) // 2
    size = p if fisher else 0
    log_sum, mean, covariance = np.empty(laws), np.empty((laws, p)), np.empty((laws, size, size))
    sums = np.empty((4 * order + 1, 4 * order + 1, 4 * order + 1))
    nothing = np.zeros(3, dtype=np.int64)
    for law in range(laws):
        shift = _one_law(theta[law], code, sizes[law], reach[law], sums)
        total = sums[0, 0, 0]
        log_sum[law] = shift + math.log(total)
        for a in range(p):
            mean[law, a] = _expectation(sums, code[a], nothing, order) / total
        for a in range(size):
            for b in range(a + 1):
                value = _expectation(sums, code[a], code[b], order) / total - mean[law, a] * mean[law, b]
                covariance[law, a, b] = value
                covariance[law, b, a] = value
    return log_sum, mean, covariance
