"""Expectations and exact draws from the nodes that carry a law's weight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm import gvm_sample
from mgvm._numerics.gvm_shared import less_one
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._outer_cells import Cells, Nodes, blocks, bounds
from mgvm.inference._outer_frame import Frame, Points

_MOST_DRAWS = 1 << 17  # proposed at a time
_ROUNDING = 1e-9  # by which a bound may fall short of the density at the highest concentrations


def expectations(nodes: Nodes) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
    """E[z^t] for t = 1 … max(T, 2), E[z_i conj(z_j)] and E[z_i z_j] of a single law, in the order of its frame."""
    cells, frame, _ = nodes
    weight = nodes.weights()[1]
    size = frame.dimension
    harmonics = np.zeros((max(frame.order, 2), size), dtype=complex)
    difference, total = np.zeros((2, size, size), dtype=complex)
    for part in blocks(cells):
        points = cells.points(frame, part)
        moments = frame.inner(points).moments
        p = weight[part]
        outer = 1.0 + less_one(points.psi)
        power = np.ones_like(outer)
        for t in range(harmonics.shape[0]):
            power = power * outer
            harmonics[t] += np.append(power @ p, moments[:, t] @ p)
        z = np.vstack([outer, moments[:, :1].T])
        difference += (p * z) @ z.conj().T
        total += (p * z) @ z.T
    turn = np.exp(1j * frame.anchor[0])
    harmonics *= turn ** np.arange(1, harmonics.shape[0] + 1)[:, None]
    np.fill_diagonal(difference, 1.0)
    np.fill_diagonal(total, 0.0)
    difference *= np.outer(turn, turn.conj())
    total *= np.outer(turn, turn)
    np.fill_diagonal(total, harmonics[1])
    return harmonics, difference, total


class Proposal(NamedTuple):
    """Upper bounds of v - f(anchor) on the cells around the nodes, and sums of their exponentials."""

    bound: FloatArray
    mass: FloatArray


def proposal(nodes: Nodes) -> Proposal:
    """What draws of a single law are proposed by."""
    bound = bounds(nodes.cells, nodes.frame) + _ROUNDING
    return Proposal(bound, np.cumsum(np.exp(bound - bound.max())))


def sample_nodes(nodes: Nodes, proposed: Proposal, count: int, rng: np.random.Generator) -> FloatArray:
    """Draws (count, D) of a single law, in the order of its frame, by rejection from a density constant on cells.

    A cell is drawn by exp(bound), a point in it uniformly, and kept with probability exp(v - bound) <= 1; the inner
    angle follows from its own law.
    """
    cells, frame, _ = nodes
    if frame.dimension == 1:
        return gvm_sample(frame.inner(cells.points(frame)).eta, count, rng) + frame.anchor
    bound, mass = proposed
    accepted = [np.zeros((0, frame.dimension))]
    missing, rate = count, 0.5
    while missing > 0:
        proposals = min(int(missing / rate) + 16, _MOST_DRAWS)
        places = np.searchsorted(mass, rng.random(proposals) * mass[-1], side="right")
        drawn = _kept(cells, frame, bound, places, rng)[:missing]
        accepted.append(drawn)
        missing -= drawn.shape[0]
        rate = max(rate if missing <= 0 else drawn.shape[0] / proposals, 0.01)
    return np.concatenate(accepted) + frame.anchor


def _kept(cells: Cells, frame: Frame, bound: FloatArray, places: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Of points drawn in the cells at `places`, those accepted, each with a draw of the inner angle."""
    chosen = cells.keep(places)
    points = chosen.points(frame)
    shift = rng.uniform(-1.0, 1.0, size=points.psi.shape) * cells.radius[:, None]
    points = Points(points.rows, points.psi + shift)
    inner = frame.inner(points)
    kept = np.log1p(-rng.random(places.size)) <= inner.value - bound[places]
    last = gvm_sample(inner.eta[kept], 1, rng)
    return np.vstack([points.psi[:, kept], last]).T
