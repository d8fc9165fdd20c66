"""Which angles depend on which: a test for every edge.

A node is regressed on a set A of neighbours, θ = G⁻¹ E[v], G = E[u uᵀ]. The numbers of an edge inside A are read off;
an edge outside gets the estimate it would have if it joined, H⁻¹(E[v_e] - Bᵀ E[v_A]) less what A explains of it, with
B = G_AA⁻¹ G_Ae and H = G_ee - G_eA B. Either way the estimate is a mean over rows, so a row's influence on it is
explicit, and the covariance of any two of them is a sum over rows: nothing of size D² x D² is formed. Every edge has
two estimates, from the regressions of its two ends, which generalised least squares combines.

Leaving row n out changes θ by (N G - u uᵀ)⁻¹(u g - v), which by Sherman and Morrison is G⁻¹(u g' - v)/N with
g' = (g - l)/(1 - h), h = uᵀ G⁻¹ u / N, l = uᵀ G⁻¹ v / N: the influences here are those of the jackknife, which stay
honest where the number of parameters is no small part of the number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, stats

from mgvm import _validation as check
from mgvm._frames import Names, check_names, column_names, make_frame
from mgvm._frozen import freeze
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.group_lasso import choose_penalty, support
from mgvm.learning.node_regression import (
    Indices,
    NodeDesign,
    couplings,
    edge_numbers,
    edge_numbers_sum,
    node_design,
    node_features,
)
from mgvm.learning.rows import as_rows
from mgvm.learning.submodel import BoolArray, SubmodelLike, submodel_for


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
        "all": each angle regressed on all others; "selected": on those that the group lasso selected.
    n_rows : int
        Rows used.
    names : tuple of str or None
        Of the angles, where the rows were a DataFrame.
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
    names: Names = None

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
        """A pandas DataFrame, one row an edge, the two angles by name where they have names."""
        size = int(max(self.first.max(initial=0), self.second.max(initial=0))) + 1
        labels = np.array(check_names(self.names, size if self.names is None else len(self.names)))
        columns = {"first": labels[self.first], "second": labels[self.second]}
        numbers = ("strength", "statistic", "degrees_of_freedom", "p_values", "adjusted")
        columns |= {name: getattr(self, name) for name in numbers}
        return make_frame({**columns, "P": self.couplings[:, 0], "Q": self.couplings[:, 1]})

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
    submodel: SubmodelLike = None,
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
    >>> dist = MGvM(a=[1.0, 1.0j, 0.5], P=[[0.0, 0.8, 0.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> edge_tests(dist.sample(1000, rng=0)).edges()
    array([[0, 1]])
    """
    harmonics = check.integer(order, "order", minimum=1)
    wanted = check.choice(conditioning, "conditioning", ("auto", "all", "selected"))
    given = as_rows(data, weights)
    model = submodel_for(submodel, given, harmonics)
    known = node_design(given, model)
    chosen, around = _neighborhoods(known, wanted, given.effective_count)
    pairs = estimate_pairs(known, around)
    theta, statistic, count, p_values = _wald_tests(known, pairs, given.effective_count)
    P, Q = couplings(known, theta)
    if model.directions is not None:
        turn = np.exp(1j * model.directions)
        P, Q = P * turn[pairs.first] * turn[pairs.second].conj(), Q * turn[pairs.first] * turn[pairs.second]
    both = np.stack([P, Q], axis=1)
    adjusted = stats.false_discovery_control(p_values)
    parts = (pairs.first, pairs.second, statistic, count, p_values, adjusted, both)
    freeze(*parts)
    return EdgeTests(*parts, conditioning=chosen, n_rows=given.n_rows, names=column_names(data))


def _neighborhoods(known: NodeDesign, wanted: str, effective: float) -> tuple[str, list[Indices]]:
    """Which of the two ways, and the angles that each is regressed on."""
    everyone = [np.flatnonzero(row.any(axis=1)) for row in known.free]
    largest = known.n_own + int(known.free.sum(axis=(1, 2)).max())
    if wanted == "all" and effective <= largest + 1:
        raise ValueError(
            f"{effective:.0f} rows are too few for regressions with {largest} parameters; use conditioning='selected'"
        )
    if wanted == "auto" and effective <= largest:
        warnings.warn(
            f"{effective:.0f} rows for regressions with {largest} parameters: the tests hold given the edges that the "
            "group lasso selects. Give more rows, a smaller submodel, or say conditioning='selected'",
            UserWarning,
            stacklevel=3,
        )
    # Ten rows a parameter keep the jackknife honest; beyond 200 angles regressions on all of them take minutes.
    enough = effective >= 10 * largest and known.dimension <= 200
    if wanted == "all" or (wanted == "auto" and enough):
        return "all", everyone
    chosen = choose_penalty(known, "ebic", gamma=0.0)
    graph = support(chosen.steps[chosen.picked].point)
    return "selected", [np.flatnonzero(row) for row in graph | graph.T]


# ---- regressions of the nodes ----------------------------------------------------------------------------------------


class NodeFit(NamedTuple):
    """The regression of one node, and how rows become influences on its edges."""

    neighbours: Indices
    slopes: FloatArray  # g' of every row
    estimates: FloatArray  # (D, 4)
    scale: FloatArray  # (D, 4, 4): H⁻¹ of edges outside, the identity inside
    mix: FloatArray  # (4 D, parameters)
    outside: BoolArray  # (D,)
    n_parameters: int


class PairEstimates(NamedTuple):
    """Edges i < j with both estimates, (edges, 8), and their covariance, (edges, 8, 8): from i first, then from j."""

    first: Indices
    second: Indices
    estimates: FloatArray
    covariance: FloatArray
    parameters: FloatArray  # the larger number of parameters of the two regressions


def fit_node(design: NodeDesign, node: int, neighbours: Indices) -> NodeFit:
    """Regress one node on some neighbours, and prepare the influences on all its edges."""
    count = design.n_rows
    u, v = node_features(design, node, neighbours)
    heavy = design.weights * u
    held = np.concatenate([np.zeros(design.n_own, dtype=bool), ~design.free[node, neighbours].ravel()])
    inverse = _inverse(heavy @ u.T / count + np.diag(held.astype(float)), node)
    theta = inverse @ (v @ design.weights / count)
    lever = inverse @ u / count
    leverage = design.weights * np.einsum("pn,pn->n", lever, u)
    self_pull = design.weights * np.einsum("pn,pn->n", lever, v)
    slopes = theta @ u
    estimates, scale = np.zeros((design.dimension, 4)), np.tile(np.eye(4), (design.dimension, 1, 1))
    mix = np.zeros((design.dimension, 4, theta.size))
    estimates[neighbours] = theta[design.n_own :].reshape(-1, 4)
    mix[neighbours] = inverse[design.n_own :].reshape(-1, 4, theta.size)
    outside = design.free[node].any(axis=1)
    outside[neighbours] = False
    if outside.any():
        others = np.flatnonzero(outside)
        estimates[others], scale[others], mix[others] = _joining(design, node, others, heavy, (inverse, slopes))
    left_out = (slopes - self_pull) / np.maximum(1.0 - leverage, 1e-3)
    flat, count = mix.reshape(-1, theta.size), int(theta.size - held.sum())
    return NodeFit(neighbours, left_out, estimates, scale, flat, outside, count)


def _joining(
    design: NodeDesign, node: int, outside: Indices, heavy: FloatArray, fitted: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate, H⁻¹ and -Bᵀ of edges that each would join the regression alone."""
    inverse, slopes = fitted
    back = design.z[node].conj()
    u = edge_numbers(design, node, outside, -1j * back)
    cross = (u.reshape(-1, design.n_rows) @ heavy.T) / design.n_rows
    explained = (cross @ inverse).reshape(outside.size, 4, -1)
    own = np.matmul(design.weights * u, u.transpose(0, 2, 1)) / design.n_rows
    own -= np.matmul(cross.reshape(explained.shape), explained.transpose(0, 2, 1))
    own += np.eye(4) * ~design.free[node, outside][:, None, :]  # numbers that are not free stay zero
    inner = np.linalg.inv(own)
    downhill = design.weights * (1.0 + 1j * slopes) * back / design.n_rows
    slope = edge_numbers_sum(design, np.array([node]), downhill[None])[0, outside]
    return np.einsum("eab,eb->ea", inner, slope), inner, -explained


def _inverse(gram: FloatArray, node: int) -> FloatArray:
    """The inverse of a Gram matrix that must be positive definite."""
    scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    try:
        factor = linalg.cholesky(gram / scale / scale[:, None], lower=True)
        if np.diagonal(factor).min() < 1e-7:
            raise linalg.LinAlgError
    except linalg.LinAlgError:
        raise ValueError(
            f"the regression of column {node} on the others is singular: {gram.shape[0]} parameters hang together "
            "linearly; use more rows, fewer columns, or conditioning='selected'"
        ) from None
    root = linalg.solve_triangular(factor, np.eye(gram.shape[0]), lower=True)
    return (root.T @ root) / scale / scale[:, None]


def influences(design: NodeDesign, fits: Sequence[NodeFit], take: slice) -> FloatArray:
    """N times the influence of some rows on every estimate before its scale: (D, D, 4, n), of node d on edge d, j."""
    size = design.dimension
    weights = design.weights[take]
    out = np.empty((size, size, 4, weights.size))
    for node, fit in enumerate(fits):
        u, v = node_features(design, node, fit.neighbours, take)
        heavy = fit.slopes[take] * weights
        np.matmul(fit.mix, heavy * u - weights * v, out=out[node].reshape(-1, weights.size))
        if fit.outside.any():
            factor = -(weights + 1j * heavy) * design.z[node, take].conj()
            scores = edge_numbers(design, node, None, factor, take)
            scores[~fit.outside] = 0.0
            out[node] += scores
    return out


def estimate_pairs(design: NodeDesign, neighborhoods: Sequence[Indices]) -> PairEstimates:
    """Both estimates of every edge that may be there, with their joint jackknife covariance."""
    size, count = design.dimension, design.n_rows
    fits = [fit_node(design, node, around) for node, around in enumerate(neighborhoods)]
    first, second = np.nonzero(np.triu(design.free.any(axis=2), 1))
    estimates = np.stack([fit.estimates for fit in fits])
    both = np.concatenate([estimates[first, second], estimates[second, first]], axis=1)
    moments, sums = np.zeros((first.size, 8, 8)), np.zeros((first.size, 8))
    chunk = max(1, int(1e7 / (4 * size * size)))  # rows whose influences take 80 MB
    for start in range(0, count, chunk):
        rows = influences(design, fits, slice(start, start + chunk))
        # Edges by their first end: whole slabs of the array, so that no row of numbers is copied one by one.
        for node in range(size - 1):
            mine = slice(*np.searchsorted(first, (node, node + 1)))
            others = second[mine]
            pairs = np.concatenate([rows[node, others], rows[others, node]], axis=1)
            moments[mine] += np.matmul(pairs, pairs.transpose(0, 2, 1))
            sums[mine] += pairs.sum(axis=2)
    moments -= sums[:, :, None] * sums[:, None, :] / count
    # H⁻¹ after the sums over rows: 8 x 8 matrices instead of all rows.
    scale = np.zeros((first.size, 8, 8))
    for k, (i, j) in enumerate(((first, second), (second, first))):
        scale[:, 4 * k : 4 * k + 4, 4 * k : 4 * k + 4] = np.stack([fit.scale for fit in fits])[i, j]
    moments = scale @ moments @ scale.transpose(0, 2, 1)
    numbers = np.array([fit.n_parameters for fit in fits], dtype=float)
    return PairEstimates(first, second, both, moments / count**2, np.maximum(numbers[first], numbers[second]))


# ---- tests -----------------------------------------------------------------------------------------------------------


def _wald_tests(
    known: NodeDesign, pairs: PairEstimates, effective: float
) -> tuple[FloatArray, FloatArray, NDArray[np.int64], FloatArray]:
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


def combine(values: FloatArray, spread: FloatArray, ridge: float = 0.1) -> tuple[FloatArray, FloatArray]:
    """Two estimates of the same numbers, (edges, 2q) with covariances (edges, 2q, 2q), as one (edges, q).

    Generalised least squares takes m - K d from their mean m and difference d, K = Cov(m, d) Cov(d)⁻¹; whatever K is,
    the covariance of that is exact. The ends' estimates of a weak edge nearly agree, so that Cov(d) is small and its
    estimate noisy: `ridge` times Cov(m) keeps the weights bounded.
    """
    q = values.shape[1] // 2
    identity = np.eye(q)
    to_mean, to_difference = np.hstack([0.5 * identity, 0.5 * identity]), np.hstack([identity, -identity])
    mean, difference = values @ to_mean.T, values @ to_difference.T
    of_mean, of_difference = to_mean @ spread @ to_mean.T, to_difference @ spread @ to_difference.T
    across = to_difference @ spread @ to_mean.T
    gain = np.linalg.solve(of_difference + ridge * of_mean, across).transpose(0, 2, 1)
    weights = to_mean - gain @ to_difference
    return mean - np.einsum("eab,eb->ea", gain, difference), weights @ spread @ weights.transpose(0, 2, 1)
