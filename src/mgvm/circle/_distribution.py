"""Distribution function and its inverse, from the masses of a law's panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.circle import _panels, _roots

if TYPE_CHECKING:
    from mgvm.circle.law import CircleLaw

_BLOCK = 4096  # pairs of a law and an angle treated at once: with a law each, tables of some 100 MB at most
_TURN = 2.0 * np.pi
_ROUNDING = 1e-16  # of a distribution function

# positions in a flat batch, angles -> masses
Cumulative = Callable[[np.ndarray, FloatArray], FloatArray]


class PanelMass:
    """Mass from the first edge of each law's panels, for a flat batch of laws."""

    def __init__(self, laws: CircleLaw):
        self.laws = laws
        self.edges = laws._panels()
        nodes, weights = _panels.nodes_and_weights(self.edges)
        mass = (weights * laws[:, None, None].pdf(nodes)).sum(axis=-1)
        self.total = mass.sum(axis=-1, keepdims=True)
        zero = np.zeros(mass.shape[:-1] + (1,))
        self.at_edges = np.concatenate([zero, np.cumsum(mass, axis=-1)], axis=-1) / self.total

    def mass_to(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        """Mass from the first edge to x, one more for each turn between."""
        turns = np.floor((x - self.edges[row, 0]) / _TURN)
        x = np.clip(x - turns * _TURN, self.edges[row, 0], self.edges[row, -1])
        panel = _panel_of(self.edges[row], x)
        nodes, weights = _panels.nodes_and_weights(np.stack([self.edges[row, panel], x], axis=-1))
        partial = (weights * self.laws[row][:, None, None].pdf(nodes)).sum(axis=(-2, -1))
        return turns + self.at_edges[row, panel] + partial / self.total[row, 0]


def _panel_of(edges: FloatArray, value: FloatArray) -> np.ndarray:
    """Index of the panel that holds each value; rows of edges may end in repeats."""
    inside = (edges[:, 1:-1] <= value[:, None]).sum(axis=-1)
    return np.minimum(inside, edges.shape[-1] - 2)


def _blockwise(law: CircleLaw, name: str, values: FloatArray, function: Callable[..., FloatArray]) -> FloatArray:
    """Broadcast values against the batch and run function(laws, row, value) over blocks of the pairs."""
    position: Any = np.arange(law._size).reshape(law.batch_shape)
    points, rows = check.broadcast(**{name: values, "the batch": position})
    points, rows, shape = points.ravel(), rows.ravel(), points.shape
    order = np.argsort(rows, kind="stable")
    laws, out = law._flat(), np.empty(points.size)
    for begin in range(0, points.size, _BLOCK):
        pairs = order[begin : begin + _BLOCK]
        used, local = np.unique(rows[pairs], return_inverse=True)
        out[pairs] = function(laws[used], local, points[pairs])
    return out.reshape(shape)[()]


def cdf(law: CircleLaw, x: FloatArray) -> FloatArray:
    """F(x) = ∫_{-π}^{x} p, continued past a turn."""
    return _blockwise(law, "x", x, _mass_from_seam)


def icdf(law: CircleLaw, p: FloatArray) -> FloatArray:
    """Inverse of `cdf`."""
    return _blockwise(law, "p", p, _angle_at)


def _mass_from_seam(laws: CircleLaw, row: np.ndarray, x: FloatArray) -> FloatArray:
    cumulative = PanelMass(laws).mass_to
    return cumulative(row, x) - cumulative(np.arange(laws._size), np.full(laws._size, -np.pi))[row]


def _angle_at(laws: CircleLaw, row: np.ndarray, p: FloatArray) -> FloatArray:
    """The x with mass p between -π and x: the panel that holds it by a table, x in the panel by Newton."""
    cumulative, edges = laws._cumulative(), laws._panels()
    table = cumulative(np.repeat(np.arange(laws._size), edges.shape[-1]), edges.ravel()).reshape(edges.shape)
    table = np.maximum.accumulate(table, axis=-1)
    target = p + cumulative(np.arange(laws._size), np.full(laws._size, -np.pi))[row]
    turns = np.floor(target - table[row, 0])
    target = target - turns
    panel = _panel_of(table[row], target)
    lower, upper = edges[row, panel], edges[row, panel + 1]
    left, right = table[row, panel], table[row, panel + 1]
    share = np.where(right > left, (target - left) / np.where(right > left, right - left, 1.0), 0.5)

    def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        here = row[index]
        return cumulative(here, x) - target[index], laws[here].pdf(x)

    start = np.clip(lower + share * (upper - lower), lower, upper)
    x = _roots.increasing_roots(evaluate, lower, upper, start, noise=_ROUNDING)
    # Where the density vanishes at ±π the inverse is not unique: -π is the angle of mass 0.
    whole = np.floor(p)
    x = np.clip(x + (turns - whole) * _TURN, -np.pi, np.pi)
    return np.where(p == whole, -np.pi, x) + whole * _TURN
