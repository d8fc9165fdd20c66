"""Messages along the edges of a forest of angles, on an n-point grid of each; everything kept as logarithms.

An edge between a row angle φ_i and a column angle φ_j has the kernel exp(Re(conj(z_i) p z_j) + Re(conj(q) z_i z_j)). On a
grid that is u[i - j]·v[i + j], two tables of n numbers: n² products a message, no n² exponentials and no Fourier
transform, whose rounding would drown the tails. The products are taken as plain numbers where none can underflow,
and as sums of logarithms else.

Angles d of a forest come with `order` (parents first), `parent` (-1 for roots) and `couplings` (D, 4): real and
imaginary part of P and Q at (parent, d).
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp, positive_log

_LINEAR = 600.0  # log range up to which products of plain numbers stay above underflow
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
def _products(left: np.ndarray, right: np.ndarray, base: np.ndarray, out: np.ndarray) -> float:
    """left·right·base and its sum."""
    total = 0.0
    for j in range(base.size):
        product = left[j] * right[j] * base[j]
        out[j] = product
        total += product
    return total


@inner(fastmath=_SUMS)
def _exponentials(left: np.ndarray, right: np.ndarray, base: np.ndarray, out: np.ndarray) -> tuple[float, float]:
    """exp(left + right + base) over its largest value: the sum, and the log of that value."""
    total, top = 0.0, -1e300
    for j in range(base.size):
        exponent = left[j] + right[j] + base[j]
        out[j] = exponent
        top = exponent if exponent > top else top
    for j in range(base.size):
        gap = out[j] - top
        weight = bounded_exp(gap if gap > -700.0 else -700.0)
        out[j] = weight
        total += weight
    return total, top


@inner()
def row_weights(
    row: int, linear: bool, base: np.ndarray, waves: np.ndarray, out: np.ndarray
) -> tuple[float, float]:
    """Kernel times column weights along one row, their sum, and the log of what they were divided by."""
    n = base.size
    # Views, so that the loops count from zero: only then do they vectorise.
    left, right = waves[0, n - row : 2 * n - row], waves[1, row : row + n]
    if linear:
        return _products(left, right, base, out), 0.0
    return _exponentials(left, right, base, out)


@inner(fastmath=_SUMS)
def shifted(values: np.ndarray, out: np.ndarray) -> float:
    """Copy values less their largest, which is returned."""
    top = -1e300
    for j in range(values.size):
        top = values[j] if values[j] > top else top
    for j in range(values.size):
        out[j] = values[j] - top
    return top


@inner()
def add_message(linear: bool, base: np.ndarray, waves: np.ndarray, work: np.ndarray, out: np.ndarray) -> None:
    """Add the log message to the n row nodes."""
    for i in range(base.size):
        total, shift = row_weights(i, linear, base, waves, work)
        out[i] += shift + positive_log(total)


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


@entry()
def pair_moments(
    belief: np.ndarray, full: np.ndarray, parent: np.ndarray, couplings: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[z_parent conj(z_d)] and E[z_parent z_d] of every angle d with a parent, 0 for roots."""
    size, n = belief.shape
    circle, waves, base, work = circle_table(n), np.empty((2, 2 * n)), np.empty(n), np.empty(n)
    marginal = np.empty(n)
    difference, both = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    for d in range(size):
        if parent[d] < 0:
            continue
        shifted(belief[d], base)
        linear = load_edge(couplings[d], True, 0.0, circle, base, waves)
        shifted(full[parent[d]], marginal)
        mass = 0.0
        for i in range(n):
            weight = math.exp(marginal[i])
            mass += weight
            total, _ = row_weights(i, linear, base, waves, work)
            even, odd = 0.0, 0.0
            for j in range(n):
                even += work[j] * circle[0, j]
                odd += work[j] * circle[1, j]
            # Both angles start at -π: the two signs cancel.
            here = complex(circle[0, i], circle[1, i]) * (weight / total)
            difference[d] += here * complex(even, -odd)
            both[d] += here * complex(even, odd)
        difference[d] /= mass
        both[d] /= mass
    return difference, both
