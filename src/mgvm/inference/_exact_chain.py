"""Exact inference where the couplings form a chain, a tree or a forest: sum-product messages on grids.

Integrals of analytic periodic functions by the trapezoid rule converge geometrically in the number of nodes:
`_count_nodes` tells how many leave rounding alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._numerics import chain
from mgvm._numerics.chain import sample_rows
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.inference.result import LogNormalizer, PairMoments, TableOfMarginals
from mgvm.natural.graph import Forest, cycle_message, forest, without_rounding
from mgvm.natural.parameters import Natural, TorusDistribution, concentrations, entries, natural


@dataclass(frozen=True, eq=False, repr=False)
class ChainResult(TableOfMarginals):
    """What `exact_chain` returns: log Z at once, the rest computed when first asked for, then kept.

    Attributes
    ----------
    log_normalizer : LogNormalizer
        log ∫ exp(…) over [-π, π)^D, exact to rounding.
    marginals : GridDensity
        The distribution of every angle, a batch (D,).
    pair_moments : PairMoments
        E[z_i conj(z_j)] and E[z_i z_j] of all coupled pairs i < j.
    converged : bool
        True: the grid resolves the distribution, and nothing iterates.
    trace : ndarray
        Empty.
    """

    log_normalizer: LogNormalizer
    _messages: Messages
    converged: bool = True
    trace: FloatArray = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        return f"ChainResult({self._messages.curvature.size} angles, exact, log Z {float(self.log_normalizer):.6g})"

    @cached_property
    def marginals(self) -> GridDensity:
        """The distribution of every angle, as one batch (D,)."""
        return GridDensity(self._messages.fine_marginals())

    @cached_property
    def pair_moments(self) -> PairMoments:
        """E[z_i conj(z_j)] and E[z_i z_j] of all coupled pairs i < j."""
        difference, both = self._messages.pair_moments()
        parent = self._messages.forest.parent
        child = np.nonzero(parent >= 0)[0]
        above = parent[child]
        first, second = np.minimum(above, child), np.maximum(above, child)
        difference = np.where(above < child, difference[child], np.conj(difference[child]))
        order = np.lexsort((second, first))
        return PairMoments(first[order], second[order], difference[order], both[child][order])

    def sample(self, n: int, rng: Seed = None) -> FloatArray:
        """Independent exact draws of all angles, (n, D), radians in [-π, π)."""
        repeats = check.integer(n, "n", minimum=0)
        return np.ascontiguousarray(self._messages.sample(repeats, check.generator(rng)).T)


def exact_chain(dist: TorusDistribution) -> ChainResult:
    """log Z, marginals, pair moments and draws of a distribution whose couplings form a forest, all exact.

    The message of angle j to its neighbour i is

        m(φ_i) = ∫ exp(Re(conj(z_i) P_ij z_j) + Re(conj(Q_ij) z_i z_j)) b(φ_j) dφ_j,

    b the product of the factor of j and the messages of its other neighbours.

    Parameters
    ----------
    dist : MGvM
        One distribution. The pattern of P and Q together must have no cycle; the order in which it is walked is found,
        so a relabelled chain, a tree, several components and isolated angles all do.

    Returns
    -------
    ChainResult
        With fields `log_normalizer`, `marginals`, `pair_moments` and the method `sample`.

    Raises
    ------
    ValueError
        Where the couplings have a cycle, or the distribution is so concentrated that D n² products are too many.
    MemoryError
        Where the messages, some 32 D n bytes, would take more than 4 GB.

    Notes
    -----
    Every angle has a grid of n = 17 + 7.5 √K + 8 (T - 1) nodes, K_d = |a_d| + Σ t²|b_t,d| + Σ_j(|P_dj| + |Q_dj|) at its
    largest. Integrals are periodic trapezoid sums of positive terms: messages hold to rounding relative to their
    own value, however small, so that factors which contradict each other lose no digits. Time is of order D n², memory
    D n. The marginals are given on a grid four times as fine (messages are integrals, and known at any angle), unless
    that would take more than 1 GB; between the nodes their densities err by less than 2e-9 of the peak, also for two
    wells.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.inference import exact_chain
    >>> P = np.diag(np.full(4, 3.0), 1)
    >>> result = exact_chain(MGvM([1.0, 0, 0, 0, 1j], P=P + P.T))
    >>> round(float(result.log_normalizer), 6)
    16.001414
    >>> result.marginals.mean_direction().round(3)
    array([0.369, 0.562, 0.785, 1.008, 1.202])
    >>> result.sample(3, rng=0).shape
    (3, 5)
    """
    parameters, found = _find_forest(natural(dist))
    messages = Messages(parameters, found, _count_nodes(parameters))
    return ChainResult(LogNormalizer(messages.log_normalizer, method="exact chain"), messages)


def chain_log_normalizers(dist: TorusDistribution) -> FloatArray:
    """log Z of every distribution of a batch that shares its couplings, which form a forest; of the batch's shape."""
    parameters, found = _find_forest(natural(dist, batch=True))
    rows = parameters.a.reshape(-1, parameters.dimension)
    out = np.empty(len(rows))
    for i, row in enumerate(rows):
        single = parameters._replace(a=row)
        out[i] = Messages(single, found, _count_nodes(single)).log_normalizer
    return out.reshape(parameters.a.shape[:-1])


def _find_forest(dist: Natural) -> tuple[Natural, Forest]:
    """The distribution and its forest, couplings of the size of rounding left out where that makes it one."""
    for candidate in (dist, without_rounding(dist)):
        found = forest(candidate)
        if found is not None:
            return candidate, found
    raise ValueError(cycle_message(dist))


def _count_nodes(dist: Natural) -> int:
    """Nodes that resolve the distribution to rounding, 17 + 7.5 √K + 8 (T - 1), a multiple of 4.

    K bounds the curvature of the log density in any angle, also once others are summed out: that adds
    a variance, which only lifts it. Refused where they are too many for time (minutes) or memory (4 GB).
    """
    largest = float(concentrations(dist).max())
    count = 4 * math.ceil((17 + 7.5 * math.sqrt(largest) + 8 * (dist.order - 1)) / 4)
    size = dist.dimension
    most_products, most_bytes = 5e10, 4e9
    products, bytes_needed = float(size) * count**2, 32.0 * size * count
    if products > most_products:
        raise ValueError(
            f"messages of {size} angles on {count} nodes each take {products:.1e} products, more than "
            f"{most_products:.0e}; cut the forest into parts, or use gibbs or mean_field for so concentrated a "
            "distribution"
        )
    if bytes_needed > most_bytes:
        raise MemoryError(
            f"messages of {size} angles on {count} nodes each take {bytes_needed / 1e9:.1f} GB, more than "
            f"{most_bytes / 1e9:.0f} GB; cut the forest into parts, or use gibbs or mean_field"
        )
    return count


# ---- messages -------------------------------------------------------------------------------------------------------


class Messages:
    """Beliefs of a forest on grids of n nodes; everything beyond the upward pass is computed when first asked for."""

    def __init__(self, dist: Natural, forest: Forest, count: int):
        self.forest, self.count = forest, count
        self.natural = dist.with_harmonics(dist.a)  # (D, T), without the couplings
        self.couplings = edge_couplings(dist, forest)
        self.curvature = concentrations(dist)
        self.belief = self._sites(count)
        self.up = np.zeros_like(self.belief)
        gain = chain.upward(self.belief, self.up, forest.order, forest.parent, self.couplings)
        self.log_normalizer = float(gain.sum()) + gain.size * math.log(2.0 * math.pi / count)

    def _sites(self, count: int) -> FloatArray:
        """Re Σ_t conj(η_t) z^t at all nodes, (D, count)."""
        angles = periodic_grid(count)
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
        parts = 4  # in which the distance of two nodes is cut, unless the table would take more than 1 GB
        if 8 * parts * size * count > 1e9:
            return self.full if with_parents else self.belief
        out = self._sites(parts * count).reshape(size, count, parts)
        beliefs = chain.Beliefs(self.belief, self.up, self.full if with_parents else self.belief)
        chain.refine(out, beliefs, self.forest.parent, self.couplings, with_parents)
        return out.reshape(size, count * parts)

    @cached_property
    def fine_belief(self) -> FloatArray:
        """Log of what the subtrees say of their roots, up to constants, between the nodes too."""
        return self._fine(False)

    def fine_marginals(self) -> FloatArray:
        """Log marginals up to constants, between the nodes too."""
        return self._fine(True)

    def pair_moments(self) -> tuple[ComplexArray, ComplexArray]:
        """E[z_parent conj(z_d)] and E[z_parent z_d] for every angle d with a parent."""
        return chain.pair_moments(self.belief, self.full, self.forest.parent, self.couplings)

    def sample(self, repeats: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws (D, repeats)."""
        out = np.empty((self.forest.parent.size, repeats))
        roots = np.nonzero(self.forest.parent < 0)[0]
        table, cut = self.fine_belief[roots], np.full(roots.size, -np.inf)
        table.flags.writeable = cut.flags.writeable = False
        out[roots] = sample_rows(table, cut, repeats, rng)
        chain.sample_children(self.fine_belief, self.count, self.forest, self.couplings, self.curvature, out, rng)
        return out


def edge_couplings(dist: Natural, forest: Forest) -> FloatArray:
    """Real and imaginary part of P and Q between every angle and its parent, (D, 4); zero for roots."""
    child = np.nonzero(forest.parent >= 0)[0]
    parent = forest.parent[child]
    out = np.zeros((dist.dimension, 4))
    if child.size:
        p, q = entries(dist.P, parent, child), entries(dist.Q, parent, child)
        out[child] = np.stack([p.real, p.imag, q.real, q.imag], axis=1)
    return out
