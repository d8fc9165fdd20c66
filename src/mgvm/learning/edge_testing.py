"""Which angles depend on which: a test for every edge."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning import _penalised
from mgvm.learning._edge_design import Design, Indices, couplings, design
from mgvm.learning._edge_influence import Pairs, pair_estimates
from mgvm.learning._penal_path import support
from mgvm.learning._rows import rows
from mgvm.learning.submodel import Submodel

# How many rows a parameter of a node's regression needs before it is regressed on all other angles.
_ROWS_A_PARAMETER = 10
_LARGEST_ALL = 200
# The ends' estimates of a weak edge nearly agree, so the variance of their difference is small and its estimate noisy:
# this part of the variance of their mean keeps the weights of generalised least squares bounded.
_RIDGE = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTests:
    """Every edge with its test, in the order (0, 1), (0, 2), …

    Attributes
    ----------
    first, second : ndarray of int, shape (edges,)
        The two angles, first < second.
    statistic : ndarray
        Wald statistics θᵀ Cov(θ)⁻¹ θ of the free numbers of an edge.
    degrees_of_freedom : ndarray of int
        How many numbers: 4 in the full model (real and imaginary parts of P_ij and Q_ij).
    p_values, adjusted : ndarray
        Of each test alone, and adjusted for their number by Benjamini and Hochberg.
    couplings : ndarray of complex, shape (edges, 2)
        Estimates of P_ij and Q_ij.
    conditioning : str
        "all": each angle regressed on all others; "selected": on those that a penalised fit selected.
    n_rows : int
        Rows used.
    """

    first: Indices
    second: Indices
    statistic: FloatArray
    degrees_of_freedom: NDArray[np.int64]
    p_values: FloatArray
    adjusted: FloatArray
    couplings: ComplexArray
    conditioning: str
    n_rows: int

    @property
    def strength(self) -> FloatArray:
        """√(|P_ij|² + |Q_ij|²) of the estimates."""
        return np.linalg.norm(np.abs(self.couplings), axis=1)

    def edges(self, level: float = 0.05) -> NDArray[np.int64]:
        """Pairs (i, j) with an adjusted p-value of at most `level`, the expected share of false ones; (edges, 2)."""
        limit = check.single_fraction(level, "level")
        found = self.adjusted <= limit
        return np.stack([self.first[found], self.second[found]], axis=1).astype(np.int64)

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an edge."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise ImportError("to_frame needs pandas; install it, or use the arrays of the result") from None
        names = ("first", "second", "strength", "statistic", "degrees_of_freedom", "p_values", "adjusted")
        columns = {name: getattr(self, name) for name in names}
        return pandas.DataFrame({**columns, "P": self.couplings[:, 0], "Q": self.couplings[:, 1]})

    def __repr__(self) -> str:
        found = int(np.sum(self.adjusted <= 0.05))
        return (
            f"EdgeTests({self.first.size:,} edges, {found:,} at a false discovery rate of 5 %, given "
            f"{self.conditioning} others, {self.n_rows:,} rows)"
        )


def edge_tests(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    conditioning: str = "auto",
) -> EdgeTests:
    """Test every edge: θᵀ Cov(θ)⁻¹ θ of θ = (Re P_ij, Im P_ij, Re Q_ij, Im Q_ij), zero for independence given the rest.

    The slope of the log density along one angle is linear in its parameters, so score matching is a linear regression a
    node, and each edge is estimated twice, from its two ends. Their joint covariance comes from the influences of
    the rows (the jackknife's, times 1 - p/N for p parameters, which removes its excess), generalised least squares
    combines them, and the reference is Hotelling's: F with N - p degrees of freedom.

    Parameters
    ----------
    data : array_like, shape (N, D)
        Angles in radians, one row an independent observation.
    order : int
        Harmonics of every angle.
    submodel : str, Submodel, boolean matrix or list of edges, optional
        Which parameters are free, as in `score_matching`; edges outside are not tested.
    weights : array_like, shape (N,), optional
        Of the rows.
    conditioning : {"auto", "all", "selected"}
        What a test holds the other edges at. "all" regresses on all other angles: free of assumptions, but each
        regression has about 4D parameters. "selected" regresses on the neighbours that a group-lasso path with BIC
        selects (and, for a test of an edge outside, on that edge as well): far more powerful where N is not much
        larger than 4D, and right as far as the graph is sparse and edges left out are weak. "auto" takes
        "all" where there are ten rows a parameter (and D <= 200).

    Returns
    -------
    EdgeTests

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.learning import edge_tests
    >>> law = MGvM(a=[1.0, 1.0j, 0.5], P=[[0.0, 0.8, 0.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> edge_tests(law.sample(1000, rng=0)).edges()
    array([[0, 1]])
    """
    harmonics = check.integer(order, "order", minimum=1)
    wanted = check.choice(conditioning, "conditioning", ("auto", "all", "selected"))
    given = rows(data, weights)
    directions = np.angle(given.weights @ np.exp(1j * given.x)) if isinstance(submodel, str) else None
    model = Submodel.of(submodel, given.dimension, harmonics, directions)
    known = design(given, model)
    chosen, around = _neighbourhoods(known, wanted, given.effective_count)
    pairs = pair_estimates(known, around)
    theta, statistic, count, p_values = wald(known, pairs, given.effective_count)
    P, Q = couplings(known, theta)
    if model.directions is not None:
        turn = np.exp(1j * model.directions)
        P, Q = P * turn[pairs.first] * turn[pairs.second].conj(), Q * turn[pairs.first] * turn[pairs.second]
    both = np.stack([P, Q], axis=1)
    adjusted = benjamini_hochberg(p_values)
    parts = (pairs.first, pairs.second, statistic, count, p_values, adjusted, both)
    for part in parts:
        part.flags.writeable = False
    return EdgeTests(*parts, conditioning=chosen, n_rows=given.n_rows)


def _neighbourhoods(known: Design, wanted: str, effective: float) -> tuple[str, list[Indices]]:
    """Which of the two ways, and the angles that each is regressed on."""
    everyone = [np.flatnonzero(row.any(axis=1)) for row in known.free]
    largest = known.n_own + int(known.free.sum(axis=(1, 2)).max())
    if wanted == "all" and effective <= largest + 1:
        raise ValueError(
            f"{effective:.0f} rows are too few for regressions with {largest} parameters; use conditioning='selected'"
        )
    if wanted == "auto" and effective <= largest:
        warnings.warn(
            f"{effective:.0f} rows for regressions with {largest} parameters: the tests hold given the edges that a "
            "penalised fit selects. Give more rows, a smaller submodel, or say conditioning='selected'",
            UserWarning,
            stacklevel=3,
        )
    enough = effective >= _ROWS_A_PARAMETER * largest and known.dimension <= _LARGEST_ALL
    if wanted == "all" or (wanted == "auto" and enough):
        return "all", everyone
    chosen = _penalised.choose(known, "ebic", gamma=0.0)
    graph = np.zeros((known.dimension, known.dimension), dtype=bool)
    graph[support(chosen.steps[chosen.picked].point)] = True
    return "selected", [np.flatnonzero(row) for row in graph | graph.T]


def wald(known: Design, pairs: Pairs, effective: float) -> tuple[FloatArray, FloatArray, NDArray[np.int64], FloatArray]:
    """Combined estimates (edges, 4), Wald statistics, their degrees of freedom and p-values."""
    free = known.free[pairs.first, pairs.second]
    theta, statistic = np.zeros(free.shape), np.zeros(free.shape[0])
    shrink = np.maximum(1.0 - pairs.parameters / effective, 1e-3)
    # Rows of unequal weight tell less than their number says.
    for pattern in np.unique(free, axis=0):
        mine = np.flatnonzero((free == pattern).all(axis=1))
        places = np.flatnonzero(np.tile(pattern, 2))
        values = pairs.estimates[np.ix_(mine, places)]
        spread = pairs.covariance[np.ix_(mine, places, places)] * shrink[mine, None, None]
        combined, covariance = combine(values, spread)
        theta[np.ix_(mine, np.flatnonzero(pattern))] = combined
        solved = np.linalg.solve(covariance, combined[..., None])[..., 0]
        statistic[mine] = np.einsum("ea,ea->e", combined, solved)
    count = free.sum(axis=1)
    left = np.maximum(effective - pairs.parameters, count + 1.0)
    p_values = stats.f.sf(statistic * (left - count + 1.0) / (left * count), count, left - count + 1.0)
    return theta, statistic, count.astype(np.int64), np.asarray(p_values)


def combine(values: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two estimates of the same numbers, (edges, 2q) with covariances (edges, 2q, 2q), as one (edges, q).

    Generalised least squares takes m - K d from their mean m and difference d, K = Cov(m, d) Cov(d)⁻¹; whatever K is,
    the covariance of that is exact.
    """
    q = values.shape[1] // 2
    identity = np.eye(q)
    to_mean, to_difference = np.hstack([0.5 * identity, 0.5 * identity]), np.hstack([identity, -identity])
    mean, difference = values @ to_mean.T, values @ to_difference.T
    of_mean, of_difference = to_mean @ spread @ to_mean.T, to_difference @ spread @ to_difference.T
    across = to_difference @ spread @ to_mean.T
    gain = np.linalg.solve(of_difference + _RIDGE * of_mean, across).transpose(0, 2, 1)
    weights = to_mean - gain @ to_difference
    return mean - np.einsum("eab,eb->ea", gain, difference), weights @ spread @ weights.transpose(0, 2, 1)


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """The smallest false discovery rate at which each test would be rejected: min over larger p of p · n / rank."""
    order = np.argsort(p_values)
    ranked = p_values[order] * p_values.size / np.arange(1, p_values.size + 1)
    out = np.empty_like(p_values)
    out[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return out
