"""Exact inference for up to three angles: one integrated out in closed form, the others by the trapezoid rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm._wrapping import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._law import Natural, natural
from mgvm.inference._outer_cells import Nodes, nodes
from mgvm.inference._outer_rows import inner_last, integrals, log_marginals, ordered
from mgvm.inference._outer_sums import Proposal, expectations, proposal, sample_nodes
from mgvm.inference.result import LogNormalizer, PairMoments

_MOST_ANGLES = 3


@dataclass(frozen=True, eq=False, repr=False)
class GridResult:
    """What `exact_grid` found; moments, marginals and draws are computed when asked for.

    Attributes
    ----------
    log_normalizer : LogNormalizer
        log Z, exact.
    converged : bool
        True.
    trace : ndarray
        Empty: nothing iterates.
    """

    log_normalizer: LogNormalizer
    _law: Natural
    _order: np.ndarray
    _nodes: Nodes
    converged: bool = True
    trace: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __repr__(self) -> str:
        return f"GridResult({self._law.dimension} angles, exact, log Z {float(self.log_normalizer):.6g})"

    @cached_property
    def _expectations(self) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """E[z^t] (T or 2, D), E[z_i conj(z_j)] and E[z_i z_j] (D, D), with the angles in the law's own order."""
        harmonics, difference, total = expectations(self._nodes)
        places = np.argsort(self._order)
        both = np.ix_(places, places)
        return harmonics[:, places], difference[both], total[both]

    @property
    def moments(self) -> ComplexArray:
        """E[z], shape (D,)."""
        return self.harmonics[0]

    @property
    def harmonics(self) -> ComplexArray:
        """E[z^t] for t = 1 … max(T, 2), shape (max(T, 2), D)."""
        return self._expectations[0]

    @cached_property
    def pair_moments(self) -> PairMoments:
        """E[z_i conj(z_j)] and E[z_i z_j] of all pairs i < j."""
        _, difference, total = self._expectations
        first, second = np.triu_indices(self._law.dimension, k=1)
        return PairMoments(first, second, difference[first, second], total[first, second])

    @cached_property
    def marginals(self) -> GridDensity:
        """The law of every angle, as one batch (D,)."""
        return GridDensity(log_marginals(self._law, self._order, self._nodes))

    @cached_property
    def _proposal(self) -> Proposal:
        return proposal(self._nodes)

    def sample(self, n: int, rng: Any = None) -> FloatArray:
        """Exact independent draws.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : None, int or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (n, D)
            Radians in [-π, π).
        """
        count, size = check.integer(n, "n", minimum=0), self._law.dimension
        try:
            out = np.empty((count, size))  # first: what does not fit is better found before the work
        except (MemoryError, ValueError, OverflowError):
            raise MemoryError(
                f"{count:,} draws of {size} angles take {8 * count * size // 10**9:,} GB, more than there is; draw "
                "fewer at a time"
            ) from None
        out[:, self._order] = sample_nodes(self._nodes, self._proposal, count, check.generator(rng))
        return wrap(out)


def exact_grid(law: Any) -> GridResult:
    """``log Z = log Σ_k exp(v(φ_k)) + log(step)``, ``v = log ∫ exp f dφ_e``: exact inference for up to three angles.

    The most concentrated angle is integrated out as the GvM that it is given the others; what remains is summed by a
    trapezoid rule whose size follows from the parameters so that its error is below rounding. Of a fine rule only the
    nodes that carry weight are visited: the others are excluded by upper bounds of the density over whole cells.

    Parameters
    ----------
    law : MGvM
        A single law of one, two or three angles, of any concentration.

    Returns
    -------
    GridResult
        log Z, moments, pair moments, marginals and exact draws.

    Raises
    ------
    ValueError
        For more than three angles, or where more nodes carry weight than memory holds.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.inference import exact_grid
    >>> law = MGvM(a=[0.0, 0.0], P=[[0.0, 2.0], [2.0, 0.0]])  # Z = (2π)² I₀(2)
    >>> result = exact_grid(law)
    >>> round(float(result.log_normalizer), 12)
    4.499747674302
    >>> result.sample(3, rng=0).shape
    (3, 2)
    """
    parameters = _dense(natural(law))
    single = parameters._replace(a=parameters.a[None])
    order = inner_last(single)
    found = nodes(ordered(single, order))
    value = float(found.frame.base[0] + found.weights()[0][0])
    return GridResult(LogNormalizer(value, method="quadrature"), single, order, found)


def grid_log_normalizers(law: Natural) -> FloatArray:
    """log Z of laws a (m, D) that share b, P and Q, with D <= 3; shape (m,).

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.inference._law import Natural
    >>> from mgvm.inference.quadrature import grid_log_normalizers
    >>> zero = np.zeros((2, 2), dtype=complex)
    >>> law = Natural(np.array([[0.0, 0.0], [1.0, 2.0]]), np.zeros((0, 2)), zero, zero)
    >>> grid_log_normalizers(law)  # 2 log 2π; 2 log 2π + log I₀(1) + log I₀(2)
    array([3.67575413, 4.73566203])
    """
    parameters = _dense(law)
    base, relative, _ = integrals(ordered(parameters, inner_last(parameters)))
    return base + relative


def _dense(law: Natural) -> Natural:
    """Dense writable copies of the parameters of a law of few angles."""
    if law.dimension > _MOST_ANGLES:
        raise ValueError(
            f"exact_grid integrates up to {_MOST_ANGLES} angles, got D = {law.dimension}; use exact_chain for chains "
            "and forests, annealed_log_normalizer for log Z and gibbs for draws"
        )
    P, Q = (part.toarray() if law.is_sparse else part for part in (law.P, law.Q))
    return Natural(*(np.array(part, dtype=complex) for part in (law.a, law.b, P, Q)))
