"""Sum-product messages of a law whose couplings form a forest."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from mgvm._numerics import chain
from mgvm._numerics.chain_sampling import sample_children
from mgvm._numerics.grid import sample_rows
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._forest import Forest
from mgvm.inference._law import Matrix, Natural, concentrations

_MOST_PRODUCTS = 5e10
_MOST_BYTES = 4e9
_FINE_BYTES = 1e9  # up to here tables between the nodes are kept four times as fine
_FINENESS = 4


def enough_nodes(law: Natural) -> int:
    """Nodes that resolve the law to rounding, 17 + 7.5 √K + 8 (T - 1), a multiple of 4.

    K bounds the curvature of the log density in any angle, also once others are summed out: that adds
    a variance, which only lifts it.
    """
    order = 1 + max((t for t, row in enumerate(law.b, start=1) if row.any()), default=0)
    largest = float(concentrations(law).max())
    return 4 * math.ceil((17 + 7.5 * math.sqrt(largest) + 8 * (order - 1)) / 4)


def node_count(law: Natural, n_points: int | None) -> int:
    """The nodes asked for, or enough of them, unless they are too many for time or memory."""
    n_points = enough_nodes(law) if n_points is None else n_points
    size = law.dimension
    products, bytes_needed = float(size) * n_points**2, 32.0 * size * n_points
    if products > _MOST_PRODUCTS:
        raise ValueError(
            f"messages of {size} angles on {n_points} nodes each take {products:.1e} products, more than "
            f"{_MOST_PRODUCTS:.0e}; cut the forest into parts, or use gibbs or mean_field for so concentrated a law"
        )
    if bytes_needed > _MOST_BYTES:
        raise MemoryError(
            f"messages of {size} angles on {n_points} nodes each take {bytes_needed / 1e9:.1f} GB, more than "
            f"{_MOST_BYTES / 1e9:.0f} GB; give a smaller n_points, cut the forest into parts, or use gibbs or "
            "mean_field"
        )
    return n_points


class Messages:
    """Beliefs of a forest on grids of n nodes; everything beyond the upward pass is computed when first asked for."""

    def __init__(self, law: Natural, forest: Forest, count: int):
        self.forest, self.count = forest, count
        self.natural = np.concatenate([law.a[None], law.b]).T  # (D, T)
        self.couplings = edge_couplings(law, forest)
        self.curvature = concentrations(law)
        self.belief = self._sites(count)
        self.up = np.zeros_like(self.belief)
        gain = chain.upward(self.belief, self.up, forest.order, forest.parent, self.couplings)
        self.log_normalizer = float(gain.sum()) + gain.size * math.log(2.0 * math.pi / count)

    def _sites(self, count: int) -> FloatArray:
        """Re Σ_t conj(η_t) z^t at all nodes, (D, count)."""
        angles = -np.pi + 2.0 * np.pi * np.arange(count) / count
        waves = np.exp(1j * np.outer(np.arange(1, self.natural.shape[1] + 1), angles))
        return np.concatenate([self.natural.real, self.natural.imag], axis=1) @ np.concatenate([waves.real, waves.imag])

    @cached_property
    def full(self) -> FloatArray:
        """Log marginals at the nodes, up to constants, (D, n)."""
        out = self.belief.copy()
        chain.downward(out, self.up, self.forest.order, self.forest.parent, self.couplings)
        return out

    def _fine(self, with_parents: bool) -> FloatArray:
        """Beliefs or marginals at nodes several times as close: (D, r n), up to constants."""
        size, count = self.belief.shape
        if 8 * _FINENESS * size * count > _FINE_BYTES:
            return self.full if with_parents else self.belief
        out = self._sites(_FINENESS * count).reshape(size, count, _FINENESS)
        sources = (self.belief, self.up, self.full if with_parents else self.belief)
        chain.refine(out, sources, self.forest.parent, self.couplings, with_parents)
        return out.reshape(size, count * _FINENESS)

    @cached_property
    def fine_belief(self) -> FloatArray:
        """What the subtrees say of their roots, between the nodes too."""
        return self._fine(False)

    def fine_marginals(self) -> FloatArray:
        """Log marginals up to constants, between the nodes too."""
        return self._fine(True)

    def pair_moments(self) -> tuple[ComplexArray, ComplexArray]:
        """E[z_parent conj(z_d)] and E[z_parent z_d] for every angle d with a parent."""
        return chain.pair_moments(self.belief, self.full, self.forest.parent, self.couplings)

    def sample(self, repeats: int, rng: Any) -> FloatArray:
        """Draws (D, repeats)."""
        out = np.empty((self.forest.parent.size, repeats))
        roots = np.nonzero(self.forest.parent < 0)[0]
        table, cut = self.fine_belief[roots], np.full(roots.size, -np.inf)
        table.flags.writeable = cut.flags.writeable = False
        out[roots] = sample_rows(table, cut, repeats, rng)
        sample_children(self.fine_belief, self.count, self.forest, self.couplings, self.curvature, out, rng)
        return out


def edge_couplings(law: Natural, forest: Forest) -> FloatArray:
    """Real and imaginary part of P and Q between every angle and its parent, (D, 4); zero for roots."""
    child = np.nonzero(forest.parent >= 0)[0]
    parent = forest.parent[child]
    out = np.zeros((law.dimension, 4))
    if child.size:
        p, q = _entries(law.P, parent, child), _entries(law.Q, parent, child)
        out[child] = np.stack([p.real, p.imag, q.real, q.imag], axis=1)
    return out


def _entries(matrix: Matrix, rows: np.ndarray, columns: np.ndarray) -> ComplexArray:
    return np.asarray(matrix[rows, columns]).ravel().astype(complex)
