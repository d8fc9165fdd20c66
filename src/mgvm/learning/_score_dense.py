"""Score matching of few parameters: the matrix H itself, in one pass over the rows, and its Cholesky factor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from mgvm._validation import FloatArray
from mgvm.learning._score_operator import ScoreOperator
from mgvm.learning._score_sums import pair_places
from mgvm.learning.submodel import Submodel

LARGEST = 600
_SINGULAR = 1e-14
_RIDGES = (1e-8, 1e-6, 1e-4, 1e-2)

# Columns: C_ij of a unit Re P_ij, Im P_ij, Re Q_ij, Im Q_ij, its entries row by row.
_BLOCK = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [1.0, 0.0, -1.0, 0.0]])


class DenseSolution(NamedTuple):
    """θ as a vector of the operator, |Hθ + c|/|c|, and the ridge that was added."""

    theta: FloatArray
    residual: float
    ridge: float


def size(dimension: int, order: int) -> int:
    """Real parameters of the full model."""
    return 2 * dimension * (order + dimension - 1)


def solve(operator: ScoreOperator) -> DenseSolution:
    """The minimiser of J inside the operator's submodel, with a growing ridge where H is singular to rounding."""
    model = operator.submodel
    basis = _basis(model)
    H = operator.source.hessian(operator.moments.mean, model.order)
    reduced = basis.T @ (basis.T @ H).T
    weights = (basis.T.multiply(_ridge_weights(operator)) @ basis).toarray()
    linear = basis.T @ _gathered(operator, operator.linear)
    for ridge in (operator.ridge, *(extra for extra in _RIDGES if extra > operator.ridge)):
        matrix = reduced + ridge * weights
        scale = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(float).tiny))
        factor = _factor(matrix, scale)
        if factor is not None:
            break
    else:
        raise FloatingPointError(f"the matrix of score matching is singular in spite of a ridge of {_RIDGES[-1]:.2g}")
    free = np.zeros(linear.size)
    for _ in range(2):  # the second pass takes back the rounding of the first
        free -= linalg.cho_solve((factor, True), (linear + matrix @ free) / scale, check_finite=False) / scale
    left = float(np.linalg.norm(linear + matrix @ free)) / (float(np.linalg.norm(linear)) or 1.0)
    return DenseSolution(_scattered(operator, basis @ free), left, ridge)


def _factor(matrix: FloatArray, scale: FloatArray) -> FloatArray | None:
    """Cholesky factor of the matrix with unit diagonal, None where it is singular to working precision."""
    scaled = matrix / np.outer(scale, scale)
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if failed:
        return None
    condition, _ = linalg.lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
    return factor if condition > _SINGULAR else None


def _ridge_weights(operator: ScoreOperator) -> FloatArray:
    """Of the operator's ½ ridge Σ s_d |θ_d|²: ½ (s_i + s_j) for an entry of C_ij = 2K_ij, which stands twice."""
    spread = operator.moments.spread
    i, j = np.triu_indices(spread.size, 1)
    return np.concatenate([np.tile(spread, 2 * operator.order), np.repeat(0.5 * (spread[i] + spread[j]), 4)])


def _basis(model: Submodel) -> sparse.csc_array:
    """Free parameters -> (α', b, C_ij row by row): orthonormal up to the length of the columns."""
    dimension = model.dimension
    i, j = np.triu_indices(dimension, 1)
    own = sparse.eye_array(2 * dimension * model.order)
    blocks = np.broadcast_to(_BLOCK, (i.size, 4, 4))
    free = np.stack([model.differences[i, j]] * 2 + [model.sums[i, j]] * 2, axis=1)
    if model.directions is not None:
        turn = np.exp(1j * model.directions)
        columns = np.arange(dimension)
        own = sparse.csc_array(
            (np.concatenate([turn.real, turn.imag]), (np.arange(2 * dimension), np.tile(columns, 2))),
            shape=(2 * dimension, dimension),
        )
        apart, together = turn[i] * turn[j].conj(), -turn[i] * turn[j]
        unit = np.stack([apart.real, apart.imag, together.real, together.imag], axis=1)
        blocks = np.einsum("kl,el->ek", _BLOCK, unit)[:, :, None]
        free = model.edges[i, j][:, None]
    width = blocks.shape[2]
    rows = np.broadcast_to(np.arange(4 * i.size).reshape(-1, 4, 1), blocks.shape)
    columns = np.broadcast_to(np.arange(width * i.size).reshape(-1, 1, width), blocks.shape)
    pairs = sparse.csc_array((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(4 * i.size, width * i.size))[
        :, np.flatnonzero(free.ravel())
    ]
    return sparse.csc_array(sparse.block_diag([own, pairs]))


def _gathered(operator: ScoreOperator, vector: FloatArray) -> FloatArray:
    """A gradient in the order of `pair_places`; ∂/∂C_ij (i < j) is ∂/∂K_ij, for C = 2K and K_ij stands twice."""
    first, harmonics, K = operator.parts(vector)
    _, places = pair_places(operator.dimension, operator.order)
    out = np.zeros(size(operator.dimension, operator.order))
    out[: first.size + harmonics.size] = vector[: first.size + harmonics.size]
    used = _off_diagonal(operator.dimension)
    out[places[used]] = K[used]
    return out


def _scattered(operator: ScoreOperator, values: FloatArray) -> FloatArray:
    """θ as a vector of the operator, from the order of `pair_places`."""
    out = np.zeros(operator.empty().size)
    first, harmonics, K = operator.parts(out)
    own = first.size + harmonics.size
    out[:own] = values[:own]
    _, places = pair_places(operator.dimension, operator.order)
    used = _off_diagonal(operator.dimension)
    K[used] = 0.5 * values[places[used]]
    return out


def _off_diagonal(dimension: int) -> np.ndarray:
    return np.tile(~np.eye(dimension, dtype=bool), (2, 2))
