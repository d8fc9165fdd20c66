"""Exact inference where the couplings form a chain, a tree or a forest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._chain_messages import Messages, enough_nodes, node_count
from mgvm.inference._forest import Forest, cycle_message, forest, without_rounding
from mgvm.inference._law import Natural, natural
from mgvm.inference.result import ConvergenceWarning, LogNormalizer, PairMoments


@dataclass(frozen=True, eq=False, repr=False)
class ChainResult:
    """What `exact_chain` returns: log Z at once, the rest computed when first asked for, then kept.

    Attributes
    ----------
    log_normalizer : LogNormalizer
        log ∫ exp(…) over [-π, π)^D, exact to rounding; of unknown error on a grid too coarse for the law.
    marginals : GridDensity
        The law of every angle, a batch (D,).
    pair_moments : PairMoments
        E[z_i conj(z_j)] and E[z_i z_j] of all coupled pairs i < j.
    converged : bool
        Whether the grid resolves the law; nothing iterates.
    trace : ndarray
        Empty.
    """

    log_normalizer: LogNormalizer
    _messages: Messages
    converged: bool = True
    trace: FloatArray = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        size, state = self._messages.curvature.size, "exact" if self.converged else "too coarse a grid"
        return f"ChainResult({size} angles, {state}, log Z {float(self.log_normalizer):.6g})"

    @cached_property
    def marginals(self) -> GridDensity:
        """The law of every angle, as one batch (D,)."""
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

    def sample(self, n: int, rng: Any = None) -> FloatArray:
        """Independent exact draws of all angles, (n, D), radians in [-π, π)."""
        repeats = check.integer(n, "n", minimum=0)
        return np.ascontiguousarray(self._messages.sample(repeats, check.generator(rng)).T)


def exact_chain(law: Any, n_points: int | None = None) -> ChainResult:
    """log Z, marginals, pair moments and draws of a law whose couplings form a forest, all exact.

    The message of angle j to its neighbour i is

        m(φ_i) = ∫ exp(Re(conj(z_i) P_ij z_j) + Re(conj(Q_ij) z_i z_j)) b(φ_j) dφ_j,

    b the product of the factor of j and the messages of its other neighbours.

    Parameters
    ----------
    law : MGvM
        One law. The pattern of P and Q together must have no cycle; the order in which it is walked is found, so a
        relabelled chain, a tree, several components and isolated angles all do.
    n_points : int, optional
        Nodes of the grid of every angle, at least 16. By default enough for rounding errors only:
        17 + 7.5 √K + 8 (T - 1), with K_d = |a_d| + Σ t²|b_t,d| + Σ_j(|P_dj| + |Q_dj|) at its largest. Fewer are an
        approximation of unknown error, and said to be one.

    Returns
    -------
    ChainResult
        With fields `log_normalizer`, `marginals`, `pair_moments` and the method `sample`.

    Raises
    ------
    ValueError
        Where the couplings have a cycle, or the law is so concentrated that D n² products are too many.
    MemoryError
        Where the messages, some 32 D n bytes, would take more than 4 GB.

    Warns
    -----
    ConvergenceWarning
        Where `n_points` is less than resolves the law.

    Notes
    -----
    Integrals are periodic trapezoid sums of positive terms: messages hold to rounding relative to their own value,
    however small, so that factors which contradict each other lose no digits. Time is of order D n², memory D n. The
    marginals are given on a grid four times as fine (messages are integrals, and known at any angle), unless that
    would take more than 1 GB; between the nodes their densities err by less than 2e-9 of the peak, also for two wells.

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
    parameters, found = _forest_of(natural(law))
    count = node_count(parameters, _checked(n_points))
    messages = Messages(parameters, found, count)
    enough = enough_nodes(parameters)
    if count >= enough:
        return ChainResult(LogNormalizer(messages.log_normalizer, method="exact chain"), messages)
    warnings.warn(
        f"n_points = {count} nodes are fewer than the {enough} that resolve this law: log Z, marginals and draws are "
        "approximations of unknown error; leave n_points out",
        ConvergenceWarning,
        stacklevel=2,
    )
    value = LogNormalizer(messages.log_normalizer, standard_error=np.nan, method="chain on a coarse grid")
    return ChainResult(value, messages, converged=False)


def chain_log_normalizers(law: Any, n_points: int | None = None) -> FloatArray:
    """log Z of every law of a batch that shares its couplings, which form a forest; of the shape of the batch."""
    (parameters, found), points = _forest_of(natural(law, batch=True)), _checked(n_points)
    rows = parameters.a.reshape(-1, parameters.dimension)
    out = np.empty(len(rows))
    for i, row in enumerate(rows):
        single = Natural(row, parameters.b, parameters.P, parameters.Q)
        out[i] = Messages(single, found, node_count(single, points)).log_normalizer
    return out.reshape(parameters.a.shape[:-1])


def _checked(n_points: int | None) -> int | None:
    return None if n_points is None else check.integer(n_points, "n_points", minimum=16)


def _forest_of(law: Natural) -> tuple[Natural, Forest]:
    """The law and its forest, couplings of the size of rounding left out where that makes it one."""
    for candidate in (law, without_rounding(law)):
        found = forest(candidate)
        if found is not None:
            return candidate, found
    raise ValueError(cycle_message(law))
