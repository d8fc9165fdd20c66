"""log Z and moments of a GvM of any order: the midpoint rule over the circle, only where the density is.

With z = e^{iφ} and c_t the conjugate of the natural parameter, f(φ) = Re Σ c_t z^t. The circle is cut into cells. On a
cell of half-width r around x, |f(φ) - f(x)| <= |f'(x)| r + ½ K r², with K = Σ t²|c_t| a bound of |f''|: cells whose
bound lies far below the maximum are set aside, the others halved until they are as fine as asked.

The cells that are left form windows. In each, f is measured from its value at the window's best node φ_c:

    f(φ_c + δ) - f(φ_c) = Re[ζ Σ_j C_j z^j],   ζ = z - 1 = 2i sin(δ/2) e^{iδ/2},   C_j = Σ_{t>j} c_t e^{itφ_c},

because z^t - 1 = ζ (1 + z + ... + z^{t-1}): a small difference is never taken between large values.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import entry, inner
from mgvm._numerics.gvm.order_two import one_less_length


@inner()
def value_and_slope(c: np.ndarray, x: float) -> tuple[float, float]:
    """f(x) and f'(x)."""
    z = complex(math.cos(x), math.sin(x))
    value = 0.0 + 0.0j
    slope = 0.0 + 0.0j
    for t in range(c.size, 0, -1):
        value = (value + c[t - 1]) * z
        slope = (slope + t * c[t - 1]) * z
    return value.real, -slope.imag


@inner()
def total_concentration(c: np.ndarray) -> float:
    """K = Σ t²|c_t|, a bound of |f''|."""
    total = 0.0
    for t in range(c.size):
        total += (t + 1) * (t + 1) * abs(c[t])
    return total


@inner()
def conjugate_row(eta: np.ndarray, i: int) -> np.ndarray:
    """c_t of the distribution in row i of natural parameters."""
    c = np.empty(eta.shape[1], dtype=np.complex128)
    for t in range(c.size):
        c[t] = eta[i, t].conjugate()
    return c


@inner()
def turn_and_sum(row: np.ndarray, angle: float) -> None:
    """Turn c_t, in place, into C_j = Σ_{t>j} c_t e^{itφ}, the sums with which f is measured from its value at φ."""
    running = 0.0 + 0.0j
    for t in range(row.size, 0, -1):
        running += row[t - 1] * complex(math.cos(t * angle), math.sin(t * angle))
        row[t - 1] = running


@inner()
def _grow(rows: np.ndarray) -> np.ndarray:
    """The same rows with room for as many more."""
    larger = np.empty((2 * rows.shape[0], rows.shape[1]))
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            larger[i, j] = rows[i, j]
    return larger


@inner()
def refine(c: np.ndarray, first: int, levels: int, drop: float) -> tuple[np.ndarray, int, int]:
    """Halve `first` equal cells `levels` times, setting aside those that stay `drop` below the maximum.

    Returns cells as rows (position, half-width, value at the midpoint, bound of |f - value|), first the finest, in
    order, then those set aside; how many they are; and how many of them are the finest. A cell at position i of
    half-width r covers [2ir, 2(i+1)r] from -π.
    """
    total = total_concentration(c)
    cells, n = np.empty((2 * first, 4)), first
    aside, n_aside = np.empty((64, 4)), 0
    for i in range(first):
        cells[i, 0] = i
    best = -np.inf
    for level in range(levels + 1):
        half = math.pi / (first * 2.0**level)
        for i in range(n):
            value, slope = value_and_slope(c, (2.0 * cells[i, 0] + 1.0) * half - math.pi)
            cells[i, 1], cells[i, 2], cells[i, 3] = half, value, abs(slope) * half + 0.5 * total * half * half
            best = max(best, value)
        kept = 0
        for i in range(n):
            far = cells[i, 2] + cells[i, 3] < best - drop
            if far and n_aside == aside.shape[0]:
                aside = _grow(aside)
            for j in range(4):
                if far:
                    aside[n_aside, j] = cells[i, j]
                else:
                    cells[kept, j] = cells[i, j]
            n_aside, kept = n_aside + far, kept + (not far)
        n = kept
        if level < levels:
            while cells.shape[0] < 2 * n:
                cells = _grow(cells)
            for i in range(n - 1, -1, -1):
                cells[2 * i + 1, 0], cells[2 * i, 0] = 2.0 * cells[i, 0] + 1.0, 2.0 * cells[i, 0]
            n *= 2
    while cells.shape[0] < n + n_aside:
        cells = _grow(cells)
    for i in range(n_aside):
        for j in range(4):
            cells[n + i, j] = aside[i, j]
    return cells, n + n_aside, n


@inner()
def grid_size(order: int, needed: float) -> tuple[int, int]:
    """First cells and halvings that give at least `needed` cells, starting from some eight a harmonic."""
    needed = max(needed, 8.0 * order) if needed < 1e9 else 1e9  # up to K of 1e15; a NaN must not become a size
    levels = max(0, int(math.floor(math.log2(needed / (8.0 * order)))))
    return int(math.ceil(needed / 2.0**levels)), levels


@entry()
def panel_starts(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distribution and lower edge, in no order, of panels of the circle on which e^f is smooth: three standard
    deviations at most of the sharpest peak the concentration allows wherever e^f is above e^-45 of its maximum, coarser
    elsewhere.
    """
    found, total = np.empty((16 * max(eta.shape[0], 1), 2)), 0
    for i in range(eta.shape[0]):
        c = conjugate_row(eta, i)
        first, levels = grid_size(c.size, 2.0 * math.pi / 3.0 * math.sqrt(total_concentration(c)))
        cells, count, _ = refine(c, first, levels, 45.0)
        while found.shape[0] < total + count:
            found = _grow(found)
        for j in range(count):
            found[total + j, 0], found[total + j, 1] = i, 2.0 * cells[j, 0] * cells[j, 1] - math.pi
        total += count
    return found[:total, 0].astype(np.int64), found[:total, 1].copy()


# ---- moments --------------------------------------------------------------------------------------------------------


@inner()
def _best(cells: np.ndarray, begin: int, end: int) -> int:
    """The cell of the highest value."""
    best = begin
    for i in range(begin + 1, end):
        if cells[i, 2] > cells[best, 2]:
            best = i
    return best


@inner()
def _add_window(
    c: np.ndarray, window: tuple[int, int], cells: np.ndarray, peak: int, moments: np.ndarray, sums: np.ndarray
) -> None:
    """Add a window's nodes to the moments and to the sums of weight, weight·drop, and weight times 1 - cos and sin of
    the angle from the highest node, `peak`.
    """
    begin, end = window
    half_width = cells[begin, 1]
    best = _best(cells, begin, end)
    centre, main = (
        (2.0 * cells[best, 0] + 1.0) * half_width - math.pi,
        (2.0 * cells[peak, 0] + 1.0) * half_width - math.pi,
    )
    suffix = c.copy()
    turn_and_sum(suffix, centre)
    turn = complex(math.cos(centre), math.sin(centre))
    for i in range(begin, end):
        half = (cells[i, 0] - cells[best, 0]) * half_width
        sine, cosine = math.sin(half), math.cos(half)
        zeta = complex(-2.0 * sine * sine, 2.0 * sine * cosine)
        z = 1.0 + zeta
        inner = 0.0 + 0.0j
        for j in range(c.size - 1, -1, -1):
            inner = inner * z + suffix[j]
        rise = cells[best, 2] - cells[peak, 2] + (zeta * inner).real
        weight = math.exp(rise)
        half += 0.5 * (centre - main)
        sine, cosine = math.sin(half), math.cos(half)
        sums[0] += weight
        sums[1] -= weight * rise
        sums[2] += weight * 2.0 * sine * sine
        sums[3] += weight * 2.0 * sine * cosine
        unit = turn * z
        power = unit
        for k in range(moments.size):
            moments[k] += weight * power
            power *= unit


@inner()
def _one(c: np.ndarray, moments: np.ndarray, facts: np.ndarray) -> float:
    """Fill the moments and the facts (log Z, 1 - |m₁|, entropy, log density at the reference) of one distribution.

    Returns the reference angle.
    """
    first, levels = grid_size(c.size, 12.0 + 8.0 * (c.size + math.sqrt(total_concentration(c))) + moments.size)
    # Deep, because a far window of weight e^-40 still weighs in 1 - |m₁| beside 1/(2K).
    cells, _, count = refine(c, first, levels, 50.0)
    begin = 0 * count  # a bare 0 is a type of its own to the compiler: what it is handed to would compile twice
    peak = _best(cells, begin, count)
    sums = np.zeros(4)
    for k in range(moments.size):
        moments[k] = 0.0
    while begin < count:
        end = begin + 1
        while end < count and cells[end, 0] == cells[end - 1, 0] + 1.0:
            end += 1
        _add_window(c, (begin, end), cells, peak, moments, sums)
        begin = end
    scale = 1.0 / sums[0]
    for k in range(moments.size):
        moments[k] *= scale
    log_width = math.log(2.0 * cells[peak, 1] * sums[0])
    facts[0] = cells[peak, 2] + log_width
    facts[1] = one_less_length(sums[2] * scale, sums[3] * scale)
    facts[2] = log_width + sums[1] * scale
    facts[3] = -log_width
    return (2.0 * cells[peak, 0] + 1.0) * cells[peak, 1] - math.pi


@entry()
def general_moments(eta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Facts, references and moments 1..count, as `order_two_moments`, of distributions with eta (n, T), T >= 1."""
    size = eta.shape[0]
    facts, reference = np.empty((size, 4)), np.empty(size, dtype=np.complex128)
    moments = np.empty((size, count), dtype=np.complex128)
    for i in range(size):
        angle = _one(conjugate_row(eta, i), moments[i], facts[i])
        reference[i] = complex(math.cos(angle), math.sin(angle))
    return facts, reference, moments
