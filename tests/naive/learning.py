"""Score matching written out: derivatives of every sufficient statistic at every row, one dense linear system."""

from __future__ import annotations

import numpy as np

from mgvm.natural import parameters


def statistic_derivatives(x, order):
    """∂_d T_k (N, D, p) and Δ T_k (N, p) of the statistics in the order of the natural vector."""
    dimension = x.shape[1]
    gradients, laplacians = [], []

    def add(angle, multiples):
        """cos and sin of an angle Σ_d multiples[d] φ_d: derivatives -m_d sin and m_d cos, Laplacians times -Σ m_d²."""
        m = np.zeros(dimension)
        for d, multiple in multiples.items():
            m[d] = multiple
        gradients.append(-np.sin(angle)[:, None] * m)
        gradients.append(np.cos(angle)[:, None] * m)
        laplacians.append(-np.cos(angle) * (m**2).sum())
        laplacians.append(-np.sin(angle) * (m**2).sum())

    for t in range(1, order + 1):
        for d in range(dimension):
            add(t * x[:, d], {d: t})
    for sign in (-1, 1):
        for i in range(dimension):
            for j in range(i + 1, dimension):
                add(x[:, i] + sign * x[:, j], {i: 1, j: sign})
    return np.stack(gradients, axis=2), np.stack(laplacians, axis=1)


def score_system(x, weights=None, order=2):
    """H and c of J = ½ θᵀHθ + cᵀθ = mean of ½|∇ log p|² + Δ log p."""
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float)
    gradients, laplacians = statistic_derivatives(np.asarray(x, dtype=float), order)
    H = np.zeros((gradients.shape[2], gradients.shape[2]))
    for weight, gradient in zip(w / w.sum(), gradients, strict=True):
        H += weight * gradient.T @ gradient
    return H, (w / w.sum()) @ laplacians


def submodel_basis(submodel):
    """Orthonormal columns that span the submodel, from the projections of all unit vectors."""
    dimension, order = submodel.dimension, submodel.order
    size = 2 * dimension * order + 2 * dimension * (dimension - 1)
    projections = [
        parameters.pack(submodel.project(parameters.unpack(unit, dimension, order))) for unit in np.eye(size)
    ]
    values, vectors = np.linalg.eigh(np.array(projections))
    return vectors[:, values > 0.5]


def score_matching(x, weights, submodel):
    """θ that minimises J inside the submodel, and J there."""
    H, c = score_system(x, weights, submodel.order)
    basis = submodel_basis(submodel)
    theta = basis @ np.linalg.solve(basis.T @ H @ basis, -basis.T @ c)
    return theta, 0.5 * theta @ H @ theta + c @ theta
