"""Exact log Z, means and covariances of the statistics of many mGvM laws of up to three angles.

The statistics are those of `torus_frame`: products of powers of s = sin ψ and c = 1 - cos ψ, small near the origin of the
frame, so that sums of positive terms keep their digits at any concentration. Every statistic is a product of functions
of single angles. The angle that needs the finest rule is summed for each node of the others: its moments c^r and s c^r
there are all that the means and the Fisher matrix need.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp
from mgvm._numerics.trigonometry import sin_cos

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
def _power_table(count: int, order: int, out: np.ndarray) -> None:
    """Rows c^r, r = 0 … 2 order, then s c^r, r = 0 … 2 order - 1."""
    for k in range(count):
        sine, cosine = sin_cos(math.pi * (k - count // 2) / count)
        s, c = 2.0 * sine * cosine, 2.0 * sine * sine
        power = 1.0
        for r in range(2 * order + 1):
            out[r, k] = power
            if r < 2 * order:
                out[2 * order + 1 + r, k] = s * power
            power *= c


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


@inner(fastmath={"contract"})
def _exponents(alpha: float, beta: float, powers: np.ndarray, sines: int, own: np.ndarray, out: np.ndarray) -> float:
    """α s + β c + own harmonics at all nodes of the inner angle; returns the highest."""
    top = -np.inf
    for k in range(own.size):
        out[k] = own[k] + (alpha * powers[sines, k] + beta * powers[1, k])
    for k in range(own.size):
        top = max(top, out[k])
    return top


@inner(fastmath={"contract", "reassoc"})
def _dot(weight: np.ndarray, table: np.ndarray, row: int, begin: int, end: int) -> float:
    total = 0.0
    for k in range(begin, end):
        total += weight[k] * table[row, k]
    return total


@inner(fastmath={"contract"})
def _node_moments(exponent: np.ndarray, shift: float, reach: float, powers: np.ndarray, out: np.ndarray) -> None:
    """Σ_k exp(exponent_k - shift) times each row of powers, over the nodes that matter; `exponent` is overwritten."""
    begin, end = 0, exponent.size
    floor = shift - reach
    while begin < end and exponent[begin] < floor:
        begin += 1
    while end > begin and exponent[end - 1] < floor:
        end -= 1
    for k in range(begin, end):
        exponent[k] = bounded_exp(max(exponent[k] - shift, _LOWEST))
    for r in range(out.size):
        out[r] = _dot(exponent, powers, r, begin, end)


@inner()
def _products(moments: np.ndarray, order: int, out: np.ndarray) -> None:
    """E[u u'] of the inner angle's functions u = 1, s, c, sc, c², ... by s² = 2c - c²."""
    sines = 2 * order + 1
    for m in range(2 * order + 1):
        for n in range(m + 1):
            t, u = (m + 1) // 2, (n + 1) // 2
            if m % 2 == 1 and n % 2 == 1:
                value = 2.0 * moments[t + u - 1] - moments[t + u]
            elif m % 2 == 1:
                value = moments[sines + t - 1 + u]
            elif n % 2 == 1:
                value = moments[sines + t + u - 1]
            else:
                value = moments[t + u]
            out[m, n] = value
            out[n, m] = value


@inner(fastmath={"contract"})
def _add_node(outer: np.ndarray, last: np.ndarray, product: np.ndarray, sums: np.ndarray, second: np.ndarray) -> None:
    """Add the statistics o_a u_a of one node of the outer angles, and the lower half of their products."""
    size = outer.size
    for a in range(size):
        sums[a] += outer[a] * product[last[a], 0]
    for a in range(second.shape[0]):
        row = product[last[a]]
        for b in range(a + 1):
            second[a, b] += outer[a] * outer[b] * row[last[b]]


@inner()
def _scale(factor: float, sums: np.ndarray, second: np.ndarray) -> None:
    for a in range(sums.size):
        sums[a] *= factor
    for a in range(second.shape[0]):
        for b in range(a + 1):
            second[a, b] *= factor


@inner()
def _one_law(
    theta: np.ndarray, code: np.ndarray, sizes: np.ndarray, reach: float, sums: np.ndarray, second: np.ndarray
) -> float:
    """Write E[T] and E[T T^T] (lower half); returns log Σ exp(θ·T) over the nodes."""
    order = (code.max() + 1) // 2
    first, middle = _angle_table(sizes[0], order), _angle_table(sizes[1], order)
    powers = np.empty((4 * order + 1, sizes[2]))
    _power_table(sizes[2], order, powers)
    weights, rows = np.empty((2 * order + 1, 2 * order + 1)), np.empty((4, sizes[1]))
    _slice(theta, code, first, 0 * sizes[0], weights)
    own, exponent = np.zeros(sizes[2]), np.empty(sizes[2])
    extra = 0.0
    for k in range(sizes[2]):
        for t in range(2, order + 1):
            own[k] += weights[0, 2 * t] * powers[t, k] + weights[0, 2 * t - 1] * powers[2 * order + t, k]
        extra = max(extra, own[k])
    best, alpha, beta, level = -np.inf, 0.0, 0.0, 0.0
    for i in range(sizes[0]):
        _slice(theta, code, first, i, weights)
        _rows(weights, middle, extra, rows)
        for j in range(sizes[1]):
            if rows[3, j] > best:
                best, level, alpha, beta = rows[3, j], rows[0, j], rows[1, j], rows[2, j]
    level += _exponents(alpha, beta, powers, 2 * order + 1, own, exponent)
    shift = level
    moments, product, outer = np.empty(4 * order + 1), np.empty((2 * order + 1, 2 * order + 1)), np.empty(theta.size + 1)
    last = np.zeros(theta.size + 1, dtype=np.int64)
    for a in range(theta.size):
        last[a] = code[a, 2]
    sums[:] = 0.0
    second[:] = 0.0
    for i in range(sizes[0]):
        _slice(theta, code, first, i, weights)
        _rows(weights, middle, extra, rows)
        for j in range(sizes[1]):
            if rows[3, j] < level - reach:
                continue
            top = rows[0, j] + _exponents(rows[1, j], rows[2, j], powers, 2 * order + 1, own, exponent)
            if top < level - reach:
                continue
            level = max(level, top)
            if level > shift + _JUMP:
                _scale(math.exp(shift - level), sums, second)
                shift = level
            _node_moments(exponent, shift - rows[0, j], reach, powers, moments)
            _products(moments, order, product)
            for a in range(theta.size):
                outer[a] = first[code[a, 0], i] * middle[code[a, 1], j]
            outer[theta.size] = 1.0  # the statistic 1
            _add_node(outer, last, product, sums, second)
    total = sums[theta.size]
    _scale(1.0 / total, sums, second)
    return shift + math.log(total)


@entry()
def sum_laws(
    theta: np.ndarray, code: np.ndarray, sizes: np.ndarray, reach: np.ndarray, fisher: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Σ exp(θ·T), E[T] and E[T T^T] - E[T] E[T]^T of every row of theta, on grids of the given sizes (laws, 3).

    `code` (p, 3) says by which function of each angle a statistic is made; `reach` is by how much less than the peak a
    node may have and still count. Without `fisher` the covariances are empty.
    """
    laws, p = theta.shape
    size = p if fisher else 0
    log_sum, mean, covariance = np.empty(laws), np.empty((laws, p)), np.empty((laws, size, size))
    sums, second = np.empty(p + 1), np.empty((size, size))
    for law in range(laws):
        log_sum[law] = _one_law(theta[law], code, sizes[law], reach[law], sums, second)
        for a in range(p):
            mean[law, a] = sums[a]
        for a in range(size):
            for b in range(a + 1):
                value = second[a, b] - sums[a] * sums[b]
                covariance[law, a, b] = value
                covariance[law, b, a] = value
    return log_sum, mean, covariance
