"""Slow twins of edge tests and the group lasso: designs by unit vectors, leaving rows out, proximal steps."""

from __future__ import annotations

import numpy as np
from naive.family import unpack


def design(x, order):
    """u and v with g_d = u_d·θ and -∂²_d log p = v_d·θ, both (D, N, parameters), one distribution at a time."""
    n, size = x.shape
    z = np.exp(1j * x)
    count = 2 * size * order + 2 * size * (size - 1)
    u, v = np.zeros((2, size, n, count))
    for k in range(count):
        dist = unpack(np.eye(count)[k], size, order)
        field = dist.a + z @ dist.P.T + z.conj() @ dist.Q.T
        g, curvature = -np.imag(field.conj() * z), np.real(field.conj() * z)
        for t, b in enumerate(dist.b, start=2):
            g -= t * np.imag(b.conj() * z**t)
            curvature += t * t * np.real(b.conj() * z**t)
        u[:, :, k], v[:, :, k] = g.T, curvature.T
    return u, v


def quadratic(x, order, weights=None):
    """J(θ) = ½ θᵀHθ - cᵀθ."""
    u, v = design(x, order)
    w = np.ones(len(x)) if weights is None else weights / np.mean(weights)
    H = np.einsum("dnp,n,dnq->pq", u, w, u) / len(x)
    return H, np.einsum("dnp,n->p", v, w) / len(x)


def edge_places(i, j, size, order):
    """Places of Re P, Im P, Re Q, Im Q of an edge in θ."""
    rows, columns = np.triu_indices(size, 1)
    k = int(np.flatnonzero((rows == i) & (columns == j))[0])
    start, pairs = 2 * size * order, len(rows)
    return [start + 2 * k, start + 2 * k + 1, start + 2 * pairs + 2 * k, start + 2 * pairs + 2 * k + 1]


def group_lasso(x, order, penalty, steps=20000):
    """Proximal gradient with steps of one over the largest eigenvalue."""
    size = x.shape[1]
    H, c = quadratic(x, order)
    groups = [edge_places(i, j, size, order) for i, j in zip(*np.triu_indices(size, 1), strict=True)]
    length = 1.0 / np.linalg.eigvalsh(H)[-1]
    theta = np.zeros(c.size)
    for _ in range(steps):
        before = theta
        theta = theta - length * (H @ theta - c)
        for group in groups:
            norm = np.linalg.norm(theta[group])
            theta[group] *= max(0.0, 1.0 - length * penalty / max(norm, 1e-300))
        if np.abs(theta - before).max() < 1e-12:
            break
    return theta


def node_places(node, size, order):
    """Places in θ of all that the slope along one angle depends on, own numbers first."""
    own = [2 * size * t + 2 * node + k for t in range(order) for k in (0, 1)]
    edges = [edge_places(min(node, j), max(node, j), size, order) for j in range(size) if j != node]
    return own, edges


def node_regression(x, node, order, weights=None, leave_out=None):
    """Estimates of the edges of one node with all others, (D - 1, 4), with one row left out where asked."""
    u, v = design(x, order)
    w = np.ones(len(x)) if weights is None else weights / np.mean(weights)
    if leave_out is not None:
        w = w.copy()
        w[leave_out] = 0.0
    own, edges = node_places(node, x.shape[1], order)
    places = own + [k for edge in edges for k in edge]
    mine = u[node][:, places]
    theta = np.linalg.solve(mine.T @ (w[:, None] * mine), (w @ v[node])[places])
    return theta[len(own) :].reshape(-1, 4)
