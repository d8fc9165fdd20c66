"""Messages along the edges of a forest of angles, on an n-point grid of each; everything kept as logarithms.

An edge between a row angle φ_i and a column angle φ_j has the kernel exp(Re(conj(z_i) p z_j) + Re(conj(q) z_i z_j)). On
a grid that is u[i - j]·v[i + j], two tables of n numbers: n² products a message and no n² exponentials. Fourier
transforms (for v = 1) would not pay below some hundred nodes, and their rounding drowns the tails, which are where two
messages that contradict each other meet. The products are taken as plain numbers where none can underflow, and as
sums of logarithms else.

Angles d of a forest come with `order` (parents first), `parent` (-1 for roots) and `couplings` (D, 4): real and
imaginary part of P and Q at (parent, d).
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp, positive_log

_LINEAR = 600.0  # log range up to which products of plain numbers stay above underflow
_LOST = -60.0  # of a log weight beside a weight of one
_CHUNK = 32
_SUMS = {"reassoc", "contract", "nsz", "nnan"}


@inner()
def circle_table(n: int) -> np.ndarray:
    """cos and sin of 2π k/n, shape (2, n)."""
    out = np.empty((2, n))
    for k in range(n):
        out[0, k] = math.cos(2.0 * math.pi * k / n)
        out[1, k] = math.sin(2.0 * math.pi * k / n)
    return out


@inner(fastmath=_SUMS)
def _load_wave(real: float, imag: float, offset: float, sign: int, circle: np.ndarray, out: np.ndarray) -> None:
    """Re((real + i imag) e^{-i(2πk/n + offset)}) - |.| at k = sign·m mod n, m = 0 … 2n-1."""
    n = circle.shape[1]
    c, s = math.cos(offset), math.sin(offset)
    even, odd = real * c + imag * s, imag * c - real * s
    size = math.hypot(real, imag)
    for m in range(n):
        out[m] = even * circle[0, m] + sign * odd * circle[1, m] - size
        out[m + n] = out[m]


@inner(fastmath=_SUMS)
def load_edge(
    coupling: np.ndarray, from_child: bool, offset: float, circle: np.ndarray, base: np.ndarray, waves: np.ndarray
) -> bool:
    """Make ready the tables of one edge, for rows at the nodes + offset; whether they hold plain numbers, not logs.

    `base` are log weights of the column angle with maximum 0.
    """
    n = base.size
    turn = 1.0 if from_child else -1.0  # rows are the parent's where the message comes from the child
    _load_wave(coupling[0], turn * coupling[1], offset, -1, circle, waves[0])
    _load_wave(coupling[2], coupling[3], offset, 1, circle, waves[1])
    low = 0.0
    for j in range(n):
        low = base[j] if base[j] < low else low
    reach = 2.0 * (math.hypot(coupling[0], coupling[1]) + math.hypot(coupling[2], coupling[3])) - low
    if reach > _LINEAR:
        return False
    for j in range(n):
        base[j] = bounded_exp(base[j])
        waves[0, j] = bounded_exp(waves[0, j])
        waves[1, j] = bounded_exp(waves[1, j])
        waves[0, j + n] = waves[0, j]
        waves[1, j + n] = waves[1, j]
    return True


@inner(fastmath=_SUMS)
def _largest(values: np.ndarray) -> float:
    top = -1e300
    for j in range(values.size):
        top = values[j] if values[j] > top else top
    return top


@inner(fastmath=_SUMS)
def _exponentiate(values: np.ndarray, top: float) -> float:
    """Turn values into exp(value - top), bounded below where that is lost in rounding; their sum."""
    total = 0.0
    for j in range(values.size):
        gap = values[j] - top
        weight = bounded_exp(gap if gap > _LOST else _LOST)
        values[j] = weight
        total += weight
    return total


@inner(fastmath=_SUMS)
def _exponentials(left: np.ndarray, right: np.ndarray, base: np.ndarray, out: np.ndarray) -> tuple[float, float]:
    """exp(left + right + base) over its largest value: the sum, and the log of that value."""
    n = base.size
    for j in range(n):
        out[j] = left[j] + right[j] + base[j]
    top, total = _largest(out), 0.0
    # A narrow peak leaves most of a row without weight: exponentials only where there is some.
    for begin in range(0, n, _CHUNK):
        chunk = out[begin : min(begin + _CHUNK, n)]
        if _largest(chunk) - top > _LOST:
            total += _exponentiate(chunk, top)
        else:
            chunk[:] = 0.0
    return total, top


@inner(fastmath=_SUMS)
def shifted(values: np.ndarray, out: np.ndarray) -> float:
    """Copy values less their largest, which is returned."""
    top = _largest(values)
    for j in range(values.size):
        out[j] = values[j] - top
    return top


@inner(fastmath=_SUMS)
def _sum_of_products(left: np.ndarray, right: np.ndarray, base: np.ndarray) -> float:
    total = 0.0
    for j in range(base.size):
        total += left[j] * right[j] * base[j]
    return total


@inner(fastmath={"contract"})
def add_message(linear: bool, base: np.ndarray, waves: np.ndarray, work: np.ndarray, out: np.ndarray) -> None:
    """Add the log message to the n row nodes."""
    n = base.size
    # Views of the tables, so that the inner loops count from zero: only then do they vectorise.
    if not linear:
        for i in range(n):
            total, shift = _exponentials(waves[0, n - i : 2 * n - i], waves[1, i : i + n], base, work)
            out[i] += shift + math.log(total)
        return
    for i in range(n):
        work[i] = _sum_of_products(waves[0, n - i : 2 * n - i], waves[1, i : i + n], base)
    for i in range(n):
        out[i] += positive_log(work[i])


@entry()
def upward(
    belief: np.ndarray, up: np.ndarray, order: np.ndarray, parent: np.ndarray, couplings: np.ndarray
) -> np.ndarray:
    """Turn the sites in `belief` (D, n) into what the subtrees say, and fill `up` with messages to parents.

    Returns the log of what was divided out at every angle; their sum is log Z less D log(2π/n).
    """
    size, n = belief.shape
    circle, waves, base, work = circle_table(n), np.empty((2, 2 * n)), np.empty(n), np.empty(n)
    gain = np.empty(size)
    for position in range(size - 1, -1, -1):
        d = order[position]
        gain[d] = shifted(belief[d], base)
        if parent[d] < 0:
            total = 0.0
            for j in range(n):
                total += math.exp(base[j])
            gain[d] += math.log(total)
            continue
        linear = load_edge(couplings[d], True, 0.0, circle, base, waves)
        gain[d] += math.hypot(couplings[d, 0], couplings[d, 1]) + math.hypot(couplings[d, 2], couplings[d, 3])
        up[d, :] = 0.0
        add_message(linear, base, waves, work, up[d])
        for i in range(n):
            belief[parent[d], i] += up[d, i]
    return gain


@entry()
def downward(full: np.ndarray, up: np.ndarray, order: np.ndarray, parent: np.ndarray, couplings: np.ndarray) -> None:
    """Turn the beliefs of the subtrees in `full` (D, n) into log marginals up to constants."""
    n = full.shape[1]
    circle, waves, base, work = circle_table(n), np.empty((2, 2 * n)), np.empty(n), np.empty(n)
    for d in order:
        if parent[d] < 0:
            continue
        _load_cavity(full[parent[d]], up[d], base, work)
        linear = load_edge(couplings[d], False, 0.0, circle, base, waves)
        add_message(linear, base, waves, work, full[d])


@inner()
def _load_cavity(whole: np.ndarray, part: np.ndarray, base: np.ndarray, work: np.ndarray) -> None:
    """Log weights of a parent without what one child told it, maximum 0."""
    for j in range(base.size):
        work[j] = whole[j] - part[j]
    shifted(work, base)


@entry()
def refine(
    fine: np.ndarray,
    sources: tuple[np.ndarray, np.ndarray, np.ndarray],
    parent: np.ndarray,
    couplings: np.ndarray,
    with_parents: bool,
) -> None:
    """Add to the log sites `fine` (D, n, r), at nodes r times as close, the messages of children (and parents).

    A message is an integral over the other angle, so it is known exactly between the nodes too. `sources` are belief,
    up and full; full is read only where parents are wanted.
    """
    belief, up, full = sources
    size, n = belief.shape
    parts = fine.shape[2]
    circle, waves, base, work = circle_table(n), np.empty((2, 2 * n)), np.empty(n), np.empty(n)
    message = np.empty(n)
    for d in range(size):
        above = parent[d]
        if above < 0:
            continue
        for part in range(parts):
            offset = 2.0 * math.pi * part / (n * parts)
            shifted(belief[d], base)
            linear = load_edge(couplings[d], True, offset, circle, base, waves)
            message[:] = 0.0
            add_message(linear, base, waves, work, message)
            for i in range(n):
                fine[above, i, part] += message[i]
            if with_parents:
                _load_cavity(full[above], up[d], base, work)
                linear = load_edge(couplings[d], False, offset, circle, base, waves)
                message[:] = 0.0
                add_message(linear, base, waves, work, message)
                for i in range(n):
                    fine[d, i, part] += message[i]


@inner(fastmath=_SUMS)
def _mean_of_row(left: np.ndarray, right: np.ndarray, base: np.ndarray, circle: np.ndarray) -> complex:
    """Mean of e^{2πij/n} under the weights left·right·base."""
    total, even, odd = 0.0, 0.0, 0.0
    for j in range(base.size):
        weight = left[j] * right[j] * base[j]
        total += weight
        even += weight * circle[0, j]
        odd += weight * circle[1, j]
    return complex(even / total, odd / total)


@entry()
def pair_moments(
    belief: np.ndarray, full: np.ndarray, parent: np.ndarray, couplings: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[z_parent conj(z_d)] and E[z_parent z_d] of every angle d with a parent, 0 for roots.

    The mean of z_d given the parent's node, averaged under the parent's marginal.
    """
    size, n = belief.shape
    circle, waves, base, work = circle_table(n), np.empty((2, 2 * n)), np.empty(n), np.empty(n)
    marginal, ones = np.empty(n), np.ones(n)
    difference, both = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    for d in range(size):
        if parent[d] < 0:
            continue
        shifted(belief[d], base)
        linear = load_edge(couplings[d], True, 0.0, circle, base, waves)
        shifted(full[parent[d]], marginal)
        mass = 0.0
        for i in range(n):
            left, right = waves[0, n - i : 2 * n - i], waves[1, i : i + n]
            if linear:
                mean = _mean_of_row(left, right, base, circle)
            else:
                _exponentials(left, right, base, work)
                mean = _mean_of_row(work, ones, ones, circle)
            weight = math.exp(marginal[i])
            mass += weight
            # Both angles start at -π: the two signs cancel.
            here = complex(weight * circle[0, i], weight * circle[1, i])
            difference[d] += here * mean.conjugate()
            both[d] += here * mean
        difference[d] /= mass
        both[d] /= mass
    return difference, both
