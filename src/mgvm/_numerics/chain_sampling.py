"""Draws from a forest of angles: the roots by their marginals, then every angle given its parent.

Given the parent, log p(φ) = belief(φ) + Re(conj(z) g) with g = conj(p) z_parent + q conj(z_parent). The proposal is the
piecewise linear function through the n nodes (a sum of hats: a node, then a triangle about it). With (log p)'' >= -K it
lies above p e^{-K h²/8}, h the distance of nodes: below a convex exponential a chord never falls. Its integral is the
trapezoid sum, so that nine of ten proposals are kept.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.chain import circle_table
from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp
from mgvm._numerics.grid import POINTS, cell_of, first_above, interpolate

_TURN = 2.0 * math.pi
_SLACK = 1e-6  # of the log envelope: more than the interpolation between nodes errs


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
    scratch: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
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
        x = min(-math.pi + _TURN * place / n, math.nextafter(math.pi, 0.0))
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
    scratch = (circle_table(n), np.empty(n), np.empty(n), np.empty(POINTS))
    step = _TURN / n
    for d in order:
        above = parent[d]
        if above < 0:
            continue
        bound = curvature[d] * step * step / 8.0 + _SLACK
        p_real, p_imag, q_real, q_imag = couplings[d, 0], couplings[d, 1], couplings[d, 2], couplings[d, 3]
        for i in range(draws.shape[1]):
            c, s = math.cos(draws[above, i]), math.sin(draws[above, i])
            even = p_real * c + p_imag * s + q_real * c + q_imag * s
            odd = p_real * s - p_imag * c + q_imag * c - q_real * s
            draws[d, i] = _draw(fine, d, (even, odd), bound, scratch, rng)
