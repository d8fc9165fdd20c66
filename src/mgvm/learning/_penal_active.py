"""Penalised score matching on the edges in play, and the exact slopes of all others.

J(θ) + λ Σ_e w_e |θ_e| is solved on a small set of edges from Gram matrices of its nodes, whose cost does not depend on
the number of rows; one product of (2D, N) by (N, 2D) then gives the gradient of J for every edge, and those whose
slope exceeds λ w_e join. What remains at the end satisfies the optimality conditions of the whole problem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning._edge_design import Design, Indices, couplings, node_features, own_features
from mgvm.learning._penal_kernel import Blocks, descend

_HALF = 0.5**0.5
_MAX_SWEEPS = 2000


class Point(NamedTuple):
    """Own numbers (D, n_own) and edges with their numbers (edges, 4)."""

    own: FloatArray
    first: Indices
    second: Indices
    numbers: FloatArray


class ActiveSet:
    """Edges in play with their Gram matrices, and where they stand."""

    def __init__(self, design: Design):
        self.design = design
        size = design.dimension
        self.first = self.second = np.zeros(0, dtype=np.intp)
        self.neighbours: list[list[int]] = [[] for _ in range(size)]
        self.members = np.zeros((size, size), dtype=bool)
        self._grams: list[FloatArray] = [np.zeros((0, 0))] * size
        self._linear: list[FloatArray] = [np.zeros(0)] * size
        self._own_alone: list[FloatArray] = [np.zeros(0)] * size
        self._own_less: list[FloatArray] = [np.zeros((0, 0))] * size
        self._constant = np.zeros(size)
        self._measure(range(size))
        self._blocks = self._pack()

    def add(self, first: Indices, second: Indices) -> None:
        """Put edges i < j into play, at zero."""
        for i, j in zip(first, second, strict=True):
            self.neighbours[i].append(int(j))
            self.neighbours[j].append(int(i))
        self.members[first, second] = True
        self.first, self.second = np.concatenate([self.first, first]), np.concatenate([self.second, second])
        self._measure(np.unique(np.concatenate([first, second])))
        self._blocks = self._pack()

    def _measure(self, nodes: Indices | range) -> None:
        """Gram matrices and linear terms of some nodes, their own harmonics eliminated.

        Own numbers o carry no penalty and belong to one node, o = G_oo⁻¹(v_o - G_oe θ_e): what is left is a quadratic
        in the edges alone with the Schur complement, which stays well conditioned for concentrated angles.
        """
        design, own = self.design, self.design.n_own
        for node in nodes:
            u, v = node_features(design, int(node), np.array(self.neighbours[node], dtype=np.intp))
            gram = (design.weights * u) @ u.T / design.n_rows
            linear = v @ design.weights / design.n_rows
            right = np.column_stack([linear[:own], gram[:own, own:]])
            answer: FloatArray = np.linalg.solve(gram[:own, :own], right).astype(np.float64)
            self._own_alone[node], self._own_less[node] = answer[:, 0], answer[:, 1:]
            self._grams[node] = gram[own:, own:] - gram[own:, :own] @ answer[:, 1:]
            self._linear[node] = linear[own:] - gram[own:, :own] @ answer[:, 0]
            self._constant[node] = -0.5 * linear[:own] @ answer[:, 0]

    def _pack(self) -> Blocks:
        sizes = np.array([gram.shape[0] for gram in self._grams], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes**2)])[:-1]
        bases = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        # An edge joins the lists of both its ends in the same order in which it joins the list of edges.
        met = np.zeros(self.design.dimension, dtype=np.int64)
        places = np.empty((2, self.first.size), dtype=np.int64)
        for edge, (i, j) in enumerate(zip(self.first, self.second, strict=True)):
            places[:, edge] = 4 * met[i], 4 * met[j]
            met[i] += 1
            met[j] += 1
        gram = np.concatenate([gram.ravel() for gram in self._grams])
        edges = self.first.astype(np.int64), self.second.astype(np.int64)
        return Blocks(gram, starts, bases, sizes, *edges, places[0], places[1])

    def solve(self, tau: FloatArray, start: FloatArray, tolerance: float) -> tuple[Point, float, int, float]:
        """Minimise J + Σ τ_e|θ_e| over the edges in play (those of infinite τ held at zero); J, sweeps, last change."""
        blocks = self._blocks
        theta = np.zeros(int(blocks.size.sum()))
        at_first = (blocks.base[self.first] + blocks.at_first)[:, None] + np.arange(4)
        at_second = (blocks.base[self.second] + blocks.at_second)[:, None] + np.arange(4)
        theta[at_first] = theta[at_second] = np.where(np.isinf(tau)[:, None], 0.0, start)
        linear = np.concatenate(self._linear)
        parts = [slice(b, b + size) for b, size in zip(blocks.base, blocks.size, strict=True)]
        slope = np.concatenate([gram @ theta[part] for gram, part in zip(self._grams, parts, strict=True)]) - linear
        sweeps, change = descend(blocks, tau, theta, slope, _MAX_SWEEPS, tolerance)
        value = 0.5 * float(theta @ (slope - linear)) + float(self._constant.sum())
        less = zip(self._own_alone, self._own_less, parts, strict=True)
        own = np.stack([alone - by @ theta[part] for alone, by, part in less])
        return Point(own, self.first, self.second, theta[at_first]), value, sweeps, change

    def profile(self, edges: Indices) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of some edges the 4 x 4 blocks of the Hessian, and G_oo⁻¹ G_oe of both their ends, (edges, n_own, 4)."""
        blocks, own = self._blocks, self.design.n_own
        hessian, less = np.empty((edges.size, 4, 4)), np.empty((2, edges.size, own, 4))
        for k, e in enumerate(edges):
            i, j = self.first[e], self.second[e]
            at_i, at_j = (slice(place[e], place[e] + 4) for place in (blocks.at_first, blocks.at_second))
            hessian[k] = self._grams[i][at_i, at_i] + self._grams[j][at_j, at_j]
            less[0, k], less[1, k] = self._own_less[i][:, at_i], self._own_less[j][:, at_j]
        return hessian, less[0], less[1]

    def gradient(self, point: Point) -> FloatArray:
        """∂J of the four numbers of every edge i < j, (4, D, D); the lower triangles repeat the upper."""
        c = pulls(self.design.z, slopes(self.design, point)[0])
        c *= self.design.weights / self.design.n_rows
        size = self.design.dimension
        product = np.concatenate([c.real, c.imag]) @ self.design.flat.reshape(2 * size, -1).T
        cc, cs, sc, ss = product[:size, :size], product[:size, size:], product[size:, :size], product[size:, size:]
        out = np.empty((4, size, size))
        for k, part in ((0, cc - ss), (2, cc + ss), (3, cs - sc)):
            np.add(part, part.T, out=out[k])
        part = cs + sc
        upper = np.triu(part.T - part, 1)
        out[1] = upper + upper.T
        if self.design.sine:
            p, q = out[0].copy(), out[2].copy()
            out[0], out[2] = _HALF * (p - q), _HALF * (p + q)
        if not self.design.free.all(where=~np.eye(size, dtype=bool)[:, :, None]):
            out *= self.design.free.transpose(2, 0, 1)
        return out


def slopes(design: Design, point: Point) -> tuple[FloatArray, FloatArray]:
    """g_d and -∂²_d log p of every row, both (D, N)."""
    P, Q = coupling_matrices(design, point)
    pull = np.asarray(P @ design.z)
    pull += np.asarray(Q @ design.z.conj())
    pull *= design.z.conj()
    g, curvature = pull.imag.copy(), pull.real.copy()
    for node in range(design.dimension):
        u, v = own_features(design, node)
        g[node] += point.own[node] @ u
        curvature[node] += point.own[node] @ v
    return g, curvature


def coupling_matrices(design: Design, point: Point) -> tuple[sparse.csr_array, sparse.csr_array]:
    """P and Q as sparse matrices, of edges that are not zero."""
    used = point.numbers.any(axis=1)
    i, j = point.first[used], point.second[used]
    p, q = couplings(design, point.numbers[used])
    shape = (design.dimension, design.dimension)
    places = np.concatenate([i, j]), np.concatenate([j, i])
    P = sparse.coo_array((np.concatenate([p, p.conj()]), places), shape=shape)
    Q = sparse.coo_array((np.concatenate([q, q]), places), shape=shape)
    return P.tocsr(), Q.tocsr()


def pulls(z: ComplexArray, g: FloatArray) -> ComplexArray:
    """-(1 + i g_d) conj(z_d): times z_j or conj(z_j) its real and minus its imaginary part are u g - v of an edge."""
    return (-1.0 - 1j * g) * z.conj()


def score_objective(design: Design, point: Point) -> float:
    """J on the rows of a design."""
    g, curvature = slopes(design, point)
    return float(((0.5 * g**2 - curvature) @ design.weights).sum() / design.n_rows)


def own_scores(design: Design, node: int, g: FloatArray) -> FloatArray:
    """The gradient of J of every row along the harmonics of one angle, (n_own, N)."""
    u, v = own_features(design, node)
    return u * g - v


def edge_scores(design: Design, g: FloatArray, first: Indices, second: Indices) -> FloatArray:
    """The gradient of J of every row along some edges, (edges, 4, N)."""
    out = np.zeros((first.size, 4, design.n_rows))
    for a, b, sign in ((first, second, 1.0), (second, first, -1.0)):
        c = pulls(design.z[a], g[a])
        apart, together = c * design.z[b], c * design.z[b].conj()
        out[:, 0] += apart.real
        out[:, 1] -= sign * apart.imag
        out[:, 2] += together.real
        out[:, 3] -= together.imag
    if design.sine:
        p, q = out[:, 0].copy(), out[:, 2].copy()
        out[:, 0], out[:, 2] = _HALF * (p - q), _HALF * (p + q)
    return out * design.free[first, second][:, :, None]
