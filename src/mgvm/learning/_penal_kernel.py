"""Block coordinate descent of penalised score matching on a set of edges, from the Gram matrices of its nodes.

A node's objective is ½ θᵀGθ - vᵀθ, its own harmonics eliminated; the numbers of an edge stand in the vectors of both
its ends and are kept equal. The step of one edge minimises ½ θᵀHθ - cᵀθ + τ|θ| over its four numbers, H the sum of its
two blocks of G.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mgvm._numerics.compiler import entry, inner


class Blocks(NamedTuple):
    """Gram matrices row by row in one vector, and where nodes and edges stand.

    Node d has `size[d]` numbers from `base[d]` on and its Gram matrix from `start[d]` on; edge e stands at
    `at_first[e]` in the vector of node `first[e]` (counted inside it) and at `at_second[e]` in that of `second[e]`.
    """

    gram: np.ndarray
    start: np.ndarray
    base: np.ndarray
    size: np.ndarray
    first: np.ndarray
    second: np.ndarray
    at_first: np.ndarray
    at_second: np.ndarray


@inner()
def _add(blocks: Any, node: int, place: int, step: np.ndarray, theta: np.ndarray, slope: np.ndarray) -> None:
    """θ += step at a place of one node, and what follows for its slope Gθ - v."""
    size, base = blocks.size[node], blocks.base[node]
    for k in range(4):
        change = step[k]
        if change == 0.0:
            continue
        theta[base + place + k] += change
        row = blocks.start[node] + (place + k) * size
        for i in range(size):
            slope[base + i] += blocks.gram[row + i] * change


@inner()
def _edge_minimum(hessian: np.ndarray, pull: np.ndarray, tau: float, out: np.ndarray) -> None:
    """The minimiser of ½ θᵀHθ - cᵀθ + τ|θ|, from what `out` holds, by proximal steps."""
    norm = 0.0
    for k in range(4):
        norm += pull[k] * pull[k]
    if norm <= tau * tau:
        for k in range(4):
            out[k] = 0.0
        return
    bound = 1e-300
    for k in range(4):
        row = 0.0
        for i in range(4):
            row += abs(hessian[k, i])
        bound = max(bound, row)
    trial = np.empty(4)
    for _ in range(50):
        norm = 0.0
        for k in range(4):
            trial[k] = out[k] * bound + pull[k]
            for i in range(4):
                trial[k] -= hessian[k, i] * out[i]
            norm += trial[k] * trial[k]
        keep = max(0.0, 1.0 - tau / max(np.sqrt(norm), 1e-300)) / bound
        moved, length = 0.0, 0.0
        for k in range(4):
            value = trial[k] * keep
            moved += (value - out[k]) ** 2
            length += value * value
            out[k] = value
        if moved <= 1e-24 * length:
            return


@inner()
def _edge_step(
    blocks: Any, edge: int, tau: float, work: tuple[np.ndarray, ...], theta: np.ndarray, slope: np.ndarray
) -> float:
    """Move one edge to its minimum; how much that changed the slope, at most."""
    hessian, pull, value = work
    i, j = blocks.first[edge], blocks.second[edge]
    at_i, at_j = blocks.at_first[edge], blocks.at_second[edge]
    place, other = blocks.base[i] + at_i, blocks.base[j] + at_j
    norm, current = 0.0, 0.0
    for k in range(4):
        pull[k] = -(slope[place + k] + slope[other + k])
        value[k] = theta[place + k]
        norm += pull[k] * pull[k]
        current += abs(value[k])
    if current == 0.0 and norm <= tau * tau:
        return 0.0
    for k in range(4):
        row_i = blocks.start[i] + (at_i + k) * blocks.size[i] + at_i
        row_j = blocks.start[j] + (at_j + k) * blocks.size[j] + at_j
        for m in range(4):
            hessian[k, m] = blocks.gram[row_i + m] + blocks.gram[row_j + m]
            pull[k] += hessian[k, m] * value[m]
    _edge_minimum(hessian, pull, tau, value)
    change = 0.0
    for k in range(4):
        value[k] -= theta[place + k]
        change = max(change, abs(value[k]) * hessian[k, k])
    _add(blocks, i, at_i, value, theta, slope)
    _add(blocks, j, at_j, value, theta, slope)
    return change


@entry()
def descend(
    blocks: Any, tau: np.ndarray, theta: np.ndarray, slope: np.ndarray, sweeps: int, tolerance: float
) -> tuple[int, float]:
    """Sweep over edges until no step changes a slope by more than the tolerance; θ and slope in place.

    Edges with an infinite τ stay at zero. Returns the number of sweeps and the largest change of the last.
    """
    work = (np.empty((4, 4)), np.empty(4), np.empty(4))
    change = np.inf
    for sweep in range(sweeps):
        change = 0.0
        for edge in range(blocks.first.size):
            if tau[edge] < np.inf:
                change = max(change, _edge_step(blocks, edge, tau[edge], work, theta, slope))
        if change <= tolerance:
            return sweep + 1, change
    return sweeps, change
