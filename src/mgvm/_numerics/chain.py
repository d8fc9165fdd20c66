"""Messages along the edges of a forest of angles, on an n-point grid of each, and exact draws from them.

An edge between a row angle φ_i and a column angle φ_j has the kernel exp(Re(conj(z_i) p z_j) + Re(conj(q) z_i z_j)). On
a grid that is u[i - j]·v[i + j], two tables of n numbers: n² products a message and no n² exponentials. (Fourier
transforms, for v = 1, would not pay below a hundred nodes or so, and their rounding drowns the tails, which are where
messages that contradict each other meet.) Everything is kept as logarithms. A row whose products vanish is summed anew
from these, so that messages hold to rounding however small they are.

Angles d of a forest come with `order` (parents first), `parent` (-1 for roots) and `couplings` (D, 4): real and
imaginary part of P and Q at (parent, d).

Draws take the roots by their marginals, then every angle given its parent: log p(φ) = belief(φ) + Re(conj(z) g) with
g = conj(p) z_parent + q conj(z_parent). The proposal is the piecewise linear function through the n nodes (a sum of
hats: a node, then a triangle about it). With (log p)'' >= -K it lies above p e^{-K h²/8}, h the distance of nodes:
below a convex exponential a chord never falls. Its integral is the trapezoid sum: nine of ten proposals are kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mgvm._numerics.elementary import bounded_exp, entry, inner, positive_log

# ---- densities on a grid ---------------------------------------------------------------------------------------------
#
# Known by their logarithms at n equispaced angles -π + 2π j/n: values between the nodes, and draws.
#
# The log density in a cell is the polynomial through the twelve nearest nodes, in Newton's form. The nodes enter in the
# order 0, 1, -1, 2, -2, ...: the value at a node is then exact and the differences do not amplify rounding.

POINTS = 12
_PLACES = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6])
_INVERSE = np.array(
    [[1.0 / (_PLACES[k] - _PLACES[k - m]) if 0 < m <= k else 0.0 for k in range(POINTS)] for m in range(POINTS)]
)
# Weights of the twelve nodes at the quarters of the cell (Lagrange).
_QUARTERS = np.array(
    [[np.prod([(u - m) / (k - m) for m in _PLACES if m != k]) for k in _PLACES] for u in (0.25, 0.5, 0.75)]
)


@inner()
def _load_nodes(table: np.ndarray, row: int, cell: int, cut: float, work: np.ndarray) -> bool:
    """The values at the twelve nodes about a cell, and whether one of them is cut."""
    n = table.shape[1]
    is_cut = False
    for k in range(POINTS):
        place = cell + _PLACES[k]
        place += n if place < 0 else 0
        place -= n if place >= n else 0
        work[k] = table[row, place]
        is_cut |= work[k] <= cut
    return is_cut


@inner()
def interpolate(
    table: np.ndarray, row: int, cell: int, share: float, cut: float, work: np.ndarray
) -> tuple[float, float]:
    """Log density and its slope per cell at `cell + share`, 0 <= share <= 1; a straight line where values are cut."""
    if _load_nodes(table, row, cell, cut, work):
        return work[0] + share * (work[1] - work[0]), work[1] - work[0]
    for m in range(1, POINTS):
        for k in range(POINTS - 1, m - 1, -1):
            work[k] = (work[k] - work[k - 1]) * _INVERSE[m, k]
    value, slope = work[POINTS - 1], 0.0
    for k in range(POINTS - 2, -1, -1):
        offset = share - _PLACES[k]
        slope = slope * offset + value
        value = value * offset + work[k]
    return value, slope


@inner()
def cell_of(x: float, n: int) -> tuple[int, float]:
    """The cell that holds an angle, and the share of the cell before it."""
    turns = (x + math.pi) / (2.0 * math.pi)
    place = (turns - math.floor(turns)) * n
    cell = min(int(place), n - 1)
    return cell, place - cell


@inner()
def _line(left: float, right: float, share: float) -> float:
    """log of the straight line between e^left and e^right."""
    top = max(left, right)
    return top + math.log((1.0 - share) * math.exp(left - top) + share * math.exp(right - top))


@inner()
def _excess(table: np.ndarray, row: int, cell: int, cut: float, work: np.ndarray) -> float:
    """How far, at most, the log density of a cell rises above that of the straight line between its ends.

    It is looked at at the quarters of the cell; a quarter more, and a little, cover what lies between. The cap binds
    only where the grid does not resolve the distribution at all: draws must end there too.
    """
    slack = 2e-3
    if _load_nodes(table, row, cell, cut, work):
        return slack
    ratio = math.exp(-abs(work[1] - work[0]))
    top = max(work[0], work[1])
    most = 0.0
    for quarter in range(3):
        value = 0.0
        for k in range(POINTS):
            value += _QUARTERS[quarter, k] * work[k]
        share = 0.25 * (quarter + 1)
        share = 1.0 - share if work[1] > work[0] else share
        most = max(most, value - top - math.log(1.0 - share + share * ratio))
    return min(1.25 * most + slack, 50.0)


@inner()
def load_envelope(table: np.ndarray, row: int, cut: float, excess: np.ndarray, running: np.ndarray) -> None:
    """Log excess of every cell of one distribution, and the running sums of the masses of its envelope."""
    n = table.shape[1]
    work = np.empty(POINTS)
    top = -math.inf
    for j in range(n):
        top = max(top, table[row, j])
    total = 0.0
    for j in range(n):
        left, right = table[row, j] - top, table[row, (j + 1) % n] - top
        excess[j] = 0.0
        if max(left, right) > -700.0:  # else its exponential is as good as zero
            excess[j] = _excess(table, row, j, cut, work)
            total += math.exp(excess[j]) * 0.5 * (math.exp(left) + math.exp(right))
        running[j] = total


@inner()
def first_above(running: np.ndarray, wanted: float) -> int:
    """The first place whose running sum exceeds `wanted`."""
    low, high = 0, running.size - 1
    while low < high:
        middle = (low + high) // 2
        if running[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@inner()
def on_line(left: float, right: float, u: float) -> float:
    """Inverse distribution function on [0, 1] of a density that is the line from `left` to `right`, both >= 0."""
    # Solves left s + (right - left) s²/2 = u (left + right)/2 without cancellation.
    root = math.sqrt(left * left + u * (right * right - left * left))
    return u * (left + right) / (left + root) if left + root > 0.0 else u


@entry()
def sample_rows(table: np.ndarray, cut: np.ndarray, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (distributions, repeats): a cell and a line in it, then rejection against the interpolated density."""
    dists, n = table.shape
    excess, running, work = np.empty(n), np.empty(n), np.empty(POINTS)
    out = np.empty((dists, repeats))
    for row in range(dists):
        load_envelope(table, row, cut[row], excess, running)
        for i in range(repeats):
            accepted, cell, share = False, 0, 0.0
            while not accepted:
                cell = first_above(running, rng.random() * running[n - 1])
                left, right = table[row, cell], table[row, (cell + 1) % n]
                top = max(left, right)
                share = on_line(math.exp(left - top), math.exp(right - top), rng.random())
                value, _ = interpolate(table, row, cell, share, cut[row], work)
                accepted = rng.random() < math.exp(value - _line(left, right, share) - excess[cell])
            out[row, i] = min(-math.pi + 2.0 * math.pi * (cell + share) / n, math.nextafter(math.pi, 0.0))
    return out


# ---- messages -------------------------------------------------------------------------------------------------------

_VANISHING = 1e-250  # sums above it have lost nothing to the bound e^-700 of their factors
_SUMS = {"reassoc", "contract", "nsz", "nnan"}


class Beliefs(NamedTuple):
    """Tables (D, n) of logarithms, up to constants."""

    belief: np.ndarray  # what the subtrees say of their roots
    up: np.ndarray  # messages to parents
    full: np.ndarray  # marginals; read only where messages of parents are wanted


class EdgeScratch(NamedTuple):
    """Memory for the messages of an edge."""

    circle: np.ndarray  # (2, n): cos, sin
    waves: np.ndarray  # (4, 2n): log u, log v, u, v
    base: np.ndarray  # (2, n): log weights of columns, weights
    work: np.ndarray  # (2, n)


class DrawScratch(NamedTuple):
    """Memory for draws given the parent."""

    circle: np.ndarray  # (2, n): cos, sin
    weights: np.ndarray  # (n,)
    running: np.ndarray  # (n,): sums of weights
    work: np.ndarray  # of `interpolate`


@inner()
def circle_table(n: int) -> np.ndarray:
    """cos and sin of 2π k/n, shape (2, n)."""
    out = np.empty((2, n))
    for k in range(n):
        out[0, k] = math.cos(2.0 * math.pi * k / n)
        out[1, k] = math.sin(2.0 * math.pi * k / n)
    return out


@inner()
def _scratch(n: int) -> EdgeScratch:
    """Memory for messages on n nodes."""
    return EdgeScratch(circle_table(n), np.empty((4, 2 * n)), np.empty((2, n)), np.empty((2, n)))


@inner(fastmath=_SUMS)
def _load_wave(real: float, imag: float, offset: float, sign: float, circle: np.ndarray, out: np.ndarray) -> None:
    """Re((real + i imag) e^{-i(2πk/n + offset)}) - |.| at k = sign·m mod n, m = 0 … 2n-1."""
    n = circle.shape[1]
    c, s = math.cos(offset), math.sin(offset)
    even, odd = real * c + imag * s, imag * c - real * s
    size = math.hypot(real, imag)
    for m in range(n):
        out[m] = even * circle[0, m] + sign * odd * circle[1, m] - size
        out[m + n] = out[m]


@inner(fastmath={"contract", "nnan"})
def _load_exponentials(logs: np.ndarray, out: np.ndarray) -> None:
    """exp of logs <= 0, bounded below by e^-700."""
    for j in range(logs.size):
        out[j] = bounded_exp(logs[j] if logs[j] > -700.0 else -700.0)


@inner()
def _load_edge(coupling: np.ndarray, from_child: bool, offset: float, scratch: EdgeScratch) -> None:
    """Make ready the tables of one edge, with rows at the nodes + offset and the log weights of columns in base[0]."""
    circle, waves, base = scratch.circle, scratch.waves, scratch.base
    turn = 1.0 if from_child else -1.0  # rows are the parent's where the message comes from the child
    _load_wave(coupling[0], turn * coupling[1], offset, -1.0, circle, waves[0])
    _load_wave(coupling[2], coupling[3], offset, 1.0, circle, waves[1])
    _load_exponentials(waves[0], waves[2])
    _load_exponentials(waves[1], waves[3])
    _load_exponentials(base[0], base[1])


@inner(fastmath=_SUMS)
def _largest(values: np.ndarray) -> float:
    """The largest value, -1e300 of none."""
    top = -1e300
    for j in range(values.size):
        top = values[j] if values[j] > top else top
    return top


@inner(fastmath=_SUMS)
def _load_shifted(values: np.ndarray, out: np.ndarray) -> float:
    """Copy values less their largest, which is returned."""
    top = _largest(values)
    for j in range(values.size):
        out[j] = values[j] - top
    return top


@inner(fastmath=_SUMS)
def _exponentiate(values: np.ndarray, top: float) -> float:
    """Turn values into exp(value - top), at least e^-60, which is lost beside a weight of one; their sum."""
    total = 0.0
    for j in range(values.size):
        gap = values[j] - top
        weight = bounded_exp(gap if gap > -60.0 else -60.0)
        values[j] = weight
        total += weight
    return total


@inner(fastmath=_SUMS)
def _load_products_of_logs(left: np.ndarray, right: np.ndarray, base: np.ndarray, out: np.ndarray) -> float:
    """exp(left + right + base) over its largest value; returns the log of the sum with that value."""
    n = base.size
    for j in range(n):
        out[j] = left[j] + right[j] + base[j]
    top, total = _largest(out), 0.0
    # A narrow peak leaves most of a row without weight: exponentials only where there is some, 32 nodes at a time.
    for begin in range(0, n, 32):
        chunk = out[begin : min(begin + 32, n)]
        if _largest(chunk) - top > -60.0:
            total += _exponentiate(chunk, top)
        else:
            chunk[:] = 0.0
    return top + math.log(total)


@inner(fastmath=_SUMS)
def _sum_of_products(left: np.ndarray, right: np.ndarray, base: np.ndarray) -> float:
    """Σ_j left_j right_j base_j."""
    total = 0.0
    for j in range(base.size):
        total += left[j] * right[j] * base[j]
    return total


@inner(fastmath={"contract"})
def _add_message(scratch: EdgeScratch, out: np.ndarray) -> None:
    """Add the log message to the n row nodes."""
    waves, base, work = scratch.waves, scratch.base, scratch.work
    n = out.size
    total, row = work[0], work[1]
    # Views of the tables, so that the inner loops count from zero: only then do they vectorise.
    for i in range(n):
        total[i] = _sum_of_products(waves[2, n - i : 2 * n - i], waves[3, i : i + n], base[1])
    for i in range(n):
        out[i] += positive_log(total[i] if total[i] > _VANISHING else 1.0)
    for i in range(n):
        if total[i] <= _VANISHING:
            out[i] += _load_products_of_logs(waves[0, n - i : 2 * n - i], waves[1, i : i + n], base[0], row)


@inner()
def _load_cavity(whole: np.ndarray, part: np.ndarray, scratch: EdgeScratch) -> None:
    """Log weights of a parent without what one child told it."""
    base, work = scratch.base, scratch.work
    for j in range(whole.size):
        work[0, j] = whole[j] - part[j]
    _load_shifted(work[0], base[0])


@entry()
def upward(
    belief: np.ndarray, up: np.ndarray, order: np.ndarray, parent: np.ndarray, couplings: np.ndarray
) -> np.ndarray:
    """Turn the sites in `belief` (D, n) into what the subtrees say; add the messages to parents to `up`, all zero.

    Returns the log of what was divided out at every angle; their sum is log Z less D log(2π/n).
    """
    size, n = belief.shape
    scratch = _scratch(n)
    base = scratch.base
    gain = np.empty(size)
    for position in range(size - 1, -1, -1):
        d = order[position]
        gain[d] = _load_shifted(belief[d], base[0])
        if parent[d] < 0:
            total = 0.0
            for j in range(n):
                total += math.exp(base[0, j])
            gain[d] += math.log(total)
            continue
        _load_edge(couplings[d], True, 0.0, scratch)
        gain[d] += math.hypot(couplings[d, 0], couplings[d, 1]) + math.hypot(couplings[d, 2], couplings[d, 3])
        _add_message(scratch, up[d])
        for i in range(n):
            belief[parent[d], i] += up[d, i]
    return gain


@entry()
def downward(full: np.ndarray, up: np.ndarray, order: np.ndarray, parent: np.ndarray, couplings: np.ndarray) -> None:
    """Turn the beliefs of the subtrees in `full` (D, n) into log marginals up to constants."""
    scratch = _scratch(full.shape[1])
    for d in order:
        if parent[d] >= 0:
            _load_cavity(full[parent[d]], up[d], scratch)
            _load_edge(couplings[d], False, 0.0, scratch)
            _add_message(scratch, full[d])


@entry()
def refine(fine: np.ndarray, beliefs: Beliefs, parent: np.ndarray, couplings: np.ndarray, with_parents: bool) -> None:
    """Add to the log sites `fine` (D, n, r), at nodes r times as close, the messages of children (and parents).

    A message is an integral over the other angle, so it is known exactly between the nodes too.
    """
    belief, up, full = beliefs
    size, n = belief.shape
    parts = fine.shape[2]
    scratch, message = _scratch(n), np.empty(n)
    for edge in range(2 * size):
        d, from_child = edge // 2, edge % 2 == 0
        if parent[d] < 0 or not (from_child or with_parents):
            continue
        if from_child:
            _load_shifted(belief[d], scratch.base[0])
        else:
            _load_cavity(full[parent[d]], up[d], scratch)
        row = parent[d] if from_child else d
        for part in range(parts):
            _load_edge(couplings[d], from_child, 2.0 * math.pi * part / (n * parts), scratch)
            message[:] = 0.0
            _add_message(scratch, message)
            for i in range(n):
                fine[row, i, part] += message[i]


@inner(fastmath=_SUMS)
def _means(left: np.ndarray, right: np.ndarray, base: np.ndarray, circle: np.ndarray) -> tuple[float, float, float]:
    """Sum of the weights left·right·base, and of those times cosine and sine."""
    total, even, odd = 0.0, 0.0, 0.0
    for j in range(base.size):
        weight = left[j] * right[j] * base[j]
        total += weight
        even += weight * circle[0, j]
        odd += weight * circle[1, j]
    return total, even, odd


@entry()
def pair_moments(
    belief: np.ndarray, full: np.ndarray, parent: np.ndarray, couplings: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[z_parent conj(z_d)] and E[z_parent z_d] of every angle d with a parent, 0 for roots.

    The mean of z_d given the parent's node, averaged under the parent's marginal.
    """
    size, n = belief.shape
    scratch, marginal, ones = _scratch(n), np.empty(n), np.ones(n)
    circle, waves, base, work = scratch
    difference, both = np.zeros(size, dtype=np.complex128), np.zeros(size, dtype=np.complex128)
    for d in range(size):
        if parent[d] < 0:
            continue
        _load_shifted(belief[d], base[0])
        _load_edge(couplings[d], True, 0.0, scratch)
        _load_shifted(full[parent[d]], marginal)
        mass = 0.0
        for i in range(n):
            total, even, odd = _means(waves[2, n - i : 2 * n - i], waves[3, i : i + n], base[1], circle)
            if total <= _VANISHING:
                _load_products_of_logs(waves[0, n - i : 2 * n - i], waves[1, i : i + n], base[0], work[0])
                total, even, odd = _means(work[0], ones, ones, circle)
            weight = math.exp(marginal[i])
            mass += weight
            # Both angles start at -π: the two signs cancel.
            here = complex(weight * circle[0, i], weight * circle[1, i])
            difference[d] += here * complex(even / total, -odd / total)
            both[d] += here * complex(even / total, odd / total)
        difference[d] /= mass
        both[d] /= mass
    return difference, both


# ---- draws ----------------------------------------------------------------------------------------------------------


@inner(fastmath={"contract", "nsz", "nnan"})
def _load_weights(
    fine: np.ndarray, row: int, even: float, odd: float, circle: np.ndarray, weights: np.ndarray
) -> float:
    """Weights of the n nodes given the field, largest 1; returns the log of what they were divided by."""
    n = weights.size
    parts = fine.shape[1] // n
    top = -1e300
    for j in range(n):
        # Nodes start at -π: the field enters with the opposite sign.
        weights[j] = fine[row, j * parts] - even * circle[0, j] - odd * circle[1, j]
        top = weights[j] if weights[j] > top else top
    for j in range(n):
        gap = weights[j] - top
        weights[j] = bounded_exp(gap) if gap > -700.0 else 0.0
    return top


@inner()
def _draw(
    fine: np.ndarray,
    row: int,
    field: tuple[float, float],
    bound: float,
    scratch: DrawScratch,
    rng: np.random.Generator,
) -> float:
    """One angle given its field, by rejection; `bound` is the log of the envelope over the hats."""
    circle, weights, running, work = scratch
    even, odd = field
    n = weights.size
    top = _load_weights(fine, row, even, odd, circle, weights)
    total = 0.0
    for j in range(n):
        total += weights[j]
        running[j] = total
    while True:
        place = first_above(running, rng.random() * total) + rng.random() + rng.random() - 1.0
        place += n if place < 0.0 else 0.0
        left = min(int(place), n - 1)
        share = place - left
        right = left + 1 if left + 1 < n else 0
        hats = (1.0 - share) * weights[left] + share * weights[right]
        x = min(-math.pi + 2.0 * math.pi * place / n, math.nextafter(math.pi, 0.0))
        cell, within = cell_of(x, fine.shape[1])
        value, _ = interpolate(fine, row, cell, within, -math.inf, work)
        gap = value + even * math.cos(x) + odd * math.sin(x) - top - bound
        if rng.random() * hats < math.exp(gap):
            return x


@entry()
def sample_children(
    fine: np.ndarray,
    n: int,
    forest: tuple[np.ndarray, np.ndarray],
    couplings: np.ndarray,
    curvature: np.ndarray,
    draws: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Fill `draws` (D, repeats), the rows of roots given, from log beliefs `fine` (D, r n)."""
    order, parent = forest
    scratch = DrawScratch(circle_table(n), np.empty(n), np.empty(n), np.empty(POINTS))
    step = 2.0 * math.pi / n
    for d in order:
        above = parent[d]
        if above < 0:
            continue
        # The interpolation between nodes errs by less than 1e-6.
        bound = curvature[d] * step * step / 8.0 + 1e-6
        p_real, p_imag, q_real, q_imag = couplings[d, 0], couplings[d, 1], couplings[d, 2], couplings[d, 3]
        for i in range(draws.shape[1]):
            c, s = math.cos(draws[above, i]), math.sin(draws[above, i])
            even = p_real * c + p_imag * s + q_real * c + q_imag * s
            odd = p_real * s - p_imag * c + q_imag * c - q_real * s
            draws[d, i] = _draw(fine, d, (even, odd), bound, scratch, rng)
