"""Score matching one node at a time: the features of an angle's own harmonics and of its edges.

With H_d = a_d + Σ_j (P_dj z_j + Q_dj conj(z_j)) the slope of the log density along angle d is linear in the parameters,

    g_d = Im(conj(z_d) H_d) + Σ_t t Im(conj(z_d)^t b_t,d) = u_d·θ_d,    -∂²_d log p = v_d·θ_d,

so J_d = E[½ (u_d·θ_d)² - v_d·θ_d] is the objective of one linear regression a node. An edge i < j has the four real
numbers Re P_ij, Im P_ij, Re Q_ij, Im Q_ij, which the regressions of i and of j both estimate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.rows import (
    WeightedRows,
    circular_variance,
    constant_columns,
    count_distinct,
    dependent_pairs,
)
from mgvm.learning.submodel import BoolArray, Submodel

Indices = NDArray[np.intp]


class NodeDesign(NamedTuple):
    """Points e^{iφ} (D, N), weights of mean 1, and which real numbers are free.

    `free` (D, D, 4) says it of every edge. In the sine model the points are turned by the mean directions, the numbers
    of an edge are (Re P - Re Q)/√2, Im P, (Re P + Re Q)/√2, Im Q, and the first of them alone is free.
    """

    z: ComplexArray
    flat: FloatArray  # (2, D, N): cos and sin
    weights: FloatArray
    order: int
    free: BoolArray
    sine: bool

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.z.shape[0])

    @property
    def n_rows(self) -> int:
        """The number of rows N."""
        return int(self.z.shape[1])

    @property
    def n_own(self) -> int:
        """Real numbers of an angle's own harmonics."""
        return 1 if self.sine else 2 * self.order


def node_design(rows: WeightedRows, submodel: Submodel) -> NodeDesign:
    """The design of rows of angles; refuses those that no regression can use."""
    _refuse_unusable(rows, submodel)
    turn = 0.0 if submodel.directions is None else submodel.directions
    z = np.exp(1j * np.ascontiguousarray((rows.x - turn).T))
    sine = submodel.directions is not None
    free = np.stack([submodel.differences] * 2 + [submodel.sums] * 2, axis=-1)
    if sine:
        free = free & (np.arange(4) == 0)
    return NodeDesign(z, np.stack([z.real, z.imag]), rows.weights, submodel.order, free, sine)


def least_rows(submodel: Submodel) -> int:
    """Rows that one angle and one edge of it need at least."""
    return 2 * submodel.order + 5


def _refuse_unusable(rows: WeightedRows, submodel: Submodel, variance: float = 1e-9) -> None:
    """Raise ValueError for too few rows, for columns that are constant and for columns that determine each other."""
    needed = least_rows(submodel)
    distinct = count_distinct(*rows, needed)
    if distinct < needed:
        differ = f", of which {distinct} differ and weigh something" if distinct < rows.n_rows else ""
        raise ValueError(
            f"data hold {rows.n_rows} rows{differ}; an angle with one edge has {needed - 1} numbers, so at least "
            f"{needed} rows are needed"
        )
    constant = constant_columns(*rows, variance)
    if constant:
        column = constant[0]
        spread = circular_variance(rows.x[:, column, None], rows.weights)[0]
        raise ValueError(
            f"column {column} of data is constant (circular variance {spread:.1g} over {rows.n_rows:,} rows), so it "
            "depends on nothing; leave the column out"
        )
    dependent = dependent_pairs(*rows, variance)
    if dependent:
        i, j, kind = dependent[0]
        raise ValueError(
            f"columns {i} and {j} of data are perfectly dependent: their {kind} is constant, so their coupling is "
            "infinite; leave one of them out"
        )


def own_features(design: NodeDesign, node: int, take: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
    """u and v of the harmonics of one angle, both (n_own, n)."""
    z = design.z[node, take]
    if design.sine:
        return -z.imag[None], z.real[None].copy()
    u, v = np.empty((2, 2 * design.order, z.size))
    power = np.ones_like(z)
    for t in range(1, design.order + 1):
        power = power * z
        u[2 * t - 2], u[2 * t - 1] = -t * power.imag, t * power.real
        v[2 * t - 2], v[2 * t - 1] = t * t * power.real, t * t * power.imag
    return u, v


def edge_numbers(
    design: NodeDesign, node: int | Indices, others: Indices | None, factor: ComplexArray, take: slice = slice(None)
) -> FloatArray:
    """Re and -Im of f z_j and of f conj(z_j) for every edge of a node, (others, 4, n); zero where not free.

    With f = -i conj(z_d) these are the slopes u, with f = conj(z_d) the curvatures v of the four numbers, and with
    f = -(1 + i g_d) conj(z_d) they are u g - v. For the edge i < j they are those of P_ij, Q_ij seen from either end.
    Others are all angles where None is given; of several nodes (edges,) each has one other and a factor (edges, n).
    """
    # Fancy indices copy, and influences ask for all angles.
    cosine, sine = design.flat[:, slice(None) if others is None else others, take]
    out = np.empty((cosine.shape[0], 4, cosine.shape[1]))
    work = np.multiply(sine, factor.imag)
    np.multiply(cosine, factor.real, out=out[:, 2])
    np.subtract(out[:, 2], work, out=out[:, 0])
    out[:, 2] += work
    np.multiply(cosine, factor.imag, out=work)
    np.multiply(sine, factor.real, out=out[:, 3])
    np.add(out[:, 3], work, out=out[:, 1])
    out[:, 3] -= work
    return _seen_from(design, node, np.arange(design.dimension) if others is None else others, out)


def edge_numbers_sum(design: NodeDesign, nodes: Indices, factor: ComplexArray) -> FloatArray:
    """`edge_numbers` of some nodes and all others summed over all rows, (nodes, D, 4), of factors (nodes, n)."""
    points = design.flat.reshape(2 * design.dimension, -1).T
    (cr, sr), (ci, si) = (np.split(part @ points, 2, axis=1) for part in (factor.real, factor.imag))
    out = np.stack([cr - si, sr + ci, cr + si, sr - ci], axis=-1)
    first, second = np.repeat(nodes, design.dimension), np.tile(np.arange(design.dimension), nodes.size)
    return _seen_from(design, first, second, out.reshape(-1, 4, 1)).reshape(out.shape)


def _seen_from(design: NodeDesign, node: int | Indices, others: Indices, out: FloatArray) -> FloatArray:
    """Re f z, Im f z, Re f conj(z), -Im f conj(z) in place as the numbers of edges: P_ji is the conjugate of P_ij."""
    out[:, 1] *= np.where(others < node, 1.0, -1.0)[:, None]
    if design.sine:
        p = out[:, 0].copy()
        out[:, 0] -= out[:, 2]
        out[:, 2] += p
        out[:, 0::2] *= math.sqrt(0.5)
    free = design.free[node, others]
    if not free.all():
        out *= free[:, :, None]
    return out


def node_features(
    design: NodeDesign, node: int, neighbours: Indices, take: slice = slice(None)
) -> tuple[FloatArray, FloatArray]:
    """u and v of a regression, (parameters, n): own harmonics, then four numbers for every neighbour."""
    own_u, own_v = own_features(design, node, take)
    back = design.z[node, take].conj()
    u, v = (edge_numbers(design, node, neighbours, factor, take) for factor in (-1j * back, back))
    n = own_u.shape[1]
    return np.concatenate([own_u, u.reshape(-1, n)]), np.concatenate([own_v, v.reshape(-1, n)])


def couplings(design: NodeDesign, numbers: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """P_ij and Q_ij of edges i < j from their four numbers (..., 4); of the sine model before it is turned back."""
    p, q = numbers[..., 0], numbers[..., 2]
    if design.sine:
        p, q = math.sqrt(0.5) * (p + q), math.sqrt(0.5) * (q - p)
    return p + 1j * numbers[..., 1], q + 1j * numbers[..., 3]
