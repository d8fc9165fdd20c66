"""The two estimates of every edge, from the regressions of its two ends, and their joint covariance.

A node is regressed on a set A of neighbours, θ = G⁻¹ E[v], G = E[u uᵀ]. The numbers of an edge inside A are read off;
an edge outside gets the estimate it would have if it joined, H⁻¹(E[v_e] - Bᵀ E[v_A]) less what A explains of it, with
B = G_AA⁻¹ G_Ae and H = G_ee - G_eA B. Either way the estimate is a mean over rows, so a row's influence on it is
explicit, and the covariance of any two of them is a sum over rows: nothing of size D² x D² is formed.

Leaving row n out changes θ by (N G - u uᵀ)⁻¹(u g - v), which by Sherman and Morrison is G⁻¹(u g' - v)/N with
g' = (g - l)/(1 - h), h = uᵀ G⁻¹ u / N, l = uᵀ G⁻¹ v / N: the influences here are those of the jackknife, which stay
honest where the number of parameters is no small part of the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg

from mgvm._validation import FloatArray
from mgvm.learning._edge_design import Design, Indices, edge_numbers, edge_numbers_sum, node_features
from mgvm.learning.submodel import BoolArray

_NUMBERS_AT_ONCE = 1e7
_LEAST_LEFT = 1e-3


class NodeFit(NamedTuple):
    """The regression of one node, and how rows become influences on its edges."""

    neighbours: Indices
    slopes: FloatArray  # g' of every row
    estimates: FloatArray  # (D, 4)
    scale: FloatArray  # (D, 4, 4): H⁻¹ of edges outside, the identity inside
    mix: FloatArray  # (4 D, parameters)
    outside: BoolArray  # (D,)
    n_parameters: int


class Pairs(NamedTuple):
    """Edges i < j with both estimates, (edges, 8), and their covariance, (edges, 8, 8): from i first, then from j."""

    first: Indices
    second: Indices
    estimates: FloatArray
    covariance: FloatArray
    parameters: FloatArray  # the larger number of parameters of the two regressions


def fit_node(design: Design, node: int, neighbours: Indices) -> NodeFit:
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
    left_out = (slopes - self_pull) / np.maximum(1.0 - leverage, _LEAST_LEFT)
    flat, count = mix.reshape(-1, theta.size), int(theta.size - held.sum())
    return NodeFit(neighbours, left_out, estimates, scale, flat, outside, count)


def _joining(
    design: Design, node: int, outside: Indices, heavy: FloatArray, fitted: tuple[FloatArray, FloatArray]
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
    slope = edge_numbers_sum(design, node, outside, downhill)
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


def influences(design: Design, fits: Sequence[NodeFit], take: slice) -> FloatArray:
    """N times the influence of some rows on every estimate before its scale: (D, D, 4, n), of node d on edge d, j."""
    size = design.dimension
    weights = design.weights[take]
    out = np.empty((size, size, 4, weights.size))
    everyone = np.arange(size)
    for node, fit in enumerate(fits):
        u, v = node_features(design, node, fit.neighbours, take)
        heavy = fit.slopes[take] * weights
        np.matmul(fit.mix, heavy * u - weights * v, out=out[node].reshape(-1, weights.size))
        if fit.outside.any():
            factor = -(weights + 1j * heavy) * design.z[node, take].conj()
            scores = edge_numbers(design, node, everyone, factor, take)
            scores[~fit.outside] = 0.0
            out[node] += scores
    return out


def pair_estimates(design: Design, neighbourhoods: Sequence[Indices]) -> Pairs:
    """Both estimates of every edge that may be there, with their joint jackknife covariance."""
    size, count = design.dimension, design.n_rows
    fits = [fit_node(design, node, around) for node, around in enumerate(neighbourhoods)]
    first, second = np.nonzero(np.triu(design.free.any(axis=2), 1))
    estimates = np.stack([fit.estimates for fit in fits])
    both = np.concatenate([estimates[first, second], estimates[second, first]], axis=1)
    moments, sums = np.zeros((first.size, 8, 8)), np.zeros((first.size, 8))
    chunk = max(1, int(_NUMBERS_AT_ONCE / (4 * size * size)))
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
    return Pairs(first, second, both, moments / count**2, np.maximum(numbers[first], numbers[second]))
