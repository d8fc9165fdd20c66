"""Score matching written out: derivatives of every sufficient statistic at every row, one dense linear system."""

from __future__ import annotations

import itertools

import numpy as np
from naive.family import pack


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
    """Orthonormal columns that span the submodel: one for each number that is free in it.

    With `directions` (the sine model) a_d is a real multiple of e^{iμ_d}, and each edge has one real number s with
    P_ij = s e^{i(μ_i - μ_j)} and Q_ij = -s e^{i(μ_i + μ_j)}.
    """
    size, order = submodel.dimension, submodel.order
    columns = []

    def add(name, place, value, other=None):
        """A column with one entry of one parameter, or for a pair of P with the same entry of Q."""
        a, b = np.zeros(size, dtype=complex), np.zeros((order - 1, size), dtype=complex)
        P, Q = np.zeros((2, size, size), dtype=complex)
        {"a": a, "b": b, "P": P, "Q": Q}[name][place] = value
        if other is not None:
            Q[place] = other
        theta = pack(a, b, P, Q)
        columns.append(theta / np.linalg.norm(theta))

    turn = None if submodel.directions is None else np.exp(1j * np.asarray(submodel.directions))
    for d in range(size):
        for unit in (1.0, 1j) if turn is None else (turn[d],):
            add("a", d, unit)
        for t in range(order - 1):
            add("b", (t, d), 1.0)
            add("b", (t, d), 1j)
    for i, j in itertools.combinations(range(size), 2):
        if turn is not None and submodel.differences[i, j]:
            add("P", (i, j), turn[i] * np.conj(turn[j]), -turn[i] * turn[j])
        for name, mask in (("P", submodel.differences), ("Q", submodel.sums)):
            if turn is None and mask[i, j]:
                add(name, (i, j), 1.0)
                add(name, (i, j), 1j)
    return np.stack(columns, axis=1)


def score_matching(x, weights, submodel):
    """θ that minimises J inside the submodel, and J there."""
    H, c = score_system(x, weights, submodel.order)
    basis = submodel_basis(submodel)
    theta = basis @ np.linalg.solve(basis.T @ H @ basis, -basis.T @ c)
    return theta, 0.5 * theta @ H @ theta + c @ theta
