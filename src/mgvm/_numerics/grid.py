"""Densities known by their logarithms at n equispaced angles -π + 2π j/n: values between the nodes, and draws.

The log density in a cell is the polynomial through the twelve nearest nodes, in Newton's form. The nodes enter in the
order 0, 1, -1, 2, -2, ...: the value at a node is then exact and the differences do not amplify rounding.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import entry, inner

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


@entry()
def interpolate_rows(table: np.ndarray, cut: np.ndarray, rows: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density (0) and its slope per radian (1) of distribution rows[i] at x[i], shape (2, points)."""
    n = table.shape[1]
    work = np.empty(POINTS)
    out = np.empty((2, x.size))
    for i in range(x.size):
        cell, share = cell_of(x[i], n)
        value, slope = interpolate(table, rows[i], cell, share, cut[rows[i]], work)
        out[0, i] = value
        out[1, i] = slope * n / (2.0 * math.pi)
    return out


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
def _load_envelope(table: np.ndarray, row: int, cut: float, excess: np.ndarray, running: np.ndarray) -> None:
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


@entry()
def envelope(table: np.ndarray, cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log excess of every cell and the running sums of the masses of its envelope, each (distributions, n)."""
    excess, running = np.empty(table.shape), np.empty(table.shape)
    for row in range(table.shape[0]):
        _load_envelope(table, row, cut[row], excess[row], running[row])
    return excess, running


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
        _load_envelope(table, row, cut[row], excess, running)
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
