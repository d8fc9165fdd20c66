"""log Z and moments of a GvM of any order: the midpoint rule over the circle, only where the density is.

The nodes that matter form windows. In each, f is measured from its value at the window's best node φ_c:

    f(φ_c + δ) - f(φ_c) = Re[ζ Σ_j C_j z^j],   ζ = z - 1 = 2i sin(δ/2) e^{iδ/2},   C_j = Σ_{t>j} c_t e^{itφ_c},

because z^t - 1 = ζ (1 + z + ... + z^{t-1}): a small difference is never taken between large values.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_cells import conjugate_row, grid_size, refine, total_concentration, turn_and_sum
from mgvm._numerics.gvm_frame import one_less_length

_DROP = 50.0  # deep, because a far window of weight e^-40 still weighs in 1 - |m₁| beside 1/(2K)


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
    """Fill the moments and the facts (log Z, 1 - |m₁|, entropy, log density at the reference) of one law; returns the
    reference.
    """
    first, levels = grid_size(c.size, 12.0 + 8.0 * (c.size + math.sqrt(total_concentration(c))) + moments.size)
    cells, _, count = refine(c, first, levels, _DROP)
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
    """Facts, references and moments 1..count, as `order_two_moments`, of laws with natural parameters eta (n, T), T >=
    1.
    """
    size = eta.shape[0]
    facts, reference = np.empty((size, 4)), np.empty(size, dtype=np.complex128)
    moments = np.empty((size, count), dtype=np.complex128)
    for i in range(size):
        angle = _one(conjugate_row(eta, i), moments[i], facts[i])
        reference[i] = complex(math.cos(angle), math.sin(angle))
    return facts, reference, moments
