"""Score matching one node at a time: the features of an angle's own harmonics and of its edges.

With H_d = a_d + Σ_j (P_dj z_j + Q_dj conj(z_j)) the slope of the log density along angle d is linear in the parameters,

    g_d = Im(conj(z_d) H_d) + Σ_t t Im(conj(z_d)^t b_t,d) = u_d·θ_d,    -∂²_d log p = v_d·θ_d,

so J_d = E[½ (u_d·θ_d)² - v_d·θ_d] is the objective of one linear regression a node. An edge i < j has the four real
numbers Re P_ij, Im P_ij, Re Q_ij, Im Q_ij, which the regressions of i and of j both estimate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning._rows import Rows, circular_spread
from mgvm.learning.submodel import BoolArray, Submodel

_CONSTANT = 1e-9
_SAME = 1e-9
_HALF = 0.5**0.5

Indices = NDArray[np.intp]


class Design(NamedTuple):
    """Points e^{iφ} (D, N), weights of mean 1, and which real numbers are free.

    `free` (D, D, 4) says it of every edge. In the sine model the points are turned by the mean directions, the numbers
    of an edge are (Re P - Re Q)/√2, Im P, (Re P + Re Q)/√2, Im Q, and the first of them alone is free.
    """

    z: ComplexArray
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


def design(rows: Rows, submodel: Submodel) -> Design:
    """The design of rows of angles, after a look at columns that no regression can use."""
    refuse_constant(rows)
    turn = 0.0 if submodel.directions is None else submodel.directions
    z = np.exp(1j * np.ascontiguousarray((rows.x - turn).T))
    refuse_copies(z, rows.weights)
    sine = submodel.directions is not None
    free = np.stack([submodel.differences] * 2 + [submodel.sums] * 2, axis=-1)
    if sine:
        free = free & (np.arange(4) == 0)
    return Design(z, rows.weights, submodel.order, free, sine)


def refuse_constant(rows: Rows) -> None:
    """Constant columns have no slope to match."""
    spread = circular_spread(rows.x, rows.weights)
    narrow = np.flatnonzero(spread < _CONSTANT)
    if narrow.size:
        column = int(narrow[0])
        raise ValueError(
            f"column {column} of data is constant (circular variance {spread[column]:.1g} over {rows.n_rows:,} rows), "
            "so it depends on nothing; leave the column out"
        )


def refuse_copies(z: ComplexArray, weights: FloatArray) -> None:
    """Two columns whose difference or sum is constant have an infinite coupling."""
    size = z.shape[0]
    heavy = weights * z / weights.size
    for kind, other in (("difference", z.conj()), ("sum", z)):
        lost = 1.0 - np.abs(heavy @ other.T)
        np.fill_diagonal(lost, 1.0)
        if (lost < _SAME).any():
            i, j = divmod(int(np.argmin(lost)), size)
            raise ValueError(
                f"columns {min(i, j)} and {max(i, j)} of data are perfectly dependent: their {kind} is constant, so "
                "their coupling is infinite; leave one of them out"
            )


def own_features(design: Design, node: int, take: slice = slice(None)) -> tuple[FloatArray, FloatArray]:
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


def edge_features(
    design: Design, node: int, others: Indices, take: slice = slice(None)
) -> tuple[FloatArray, FloatArray]:
    """u and v of the four numbers of the edges of one angle with others, both (others, 4, n); zero where not free.

    They are those of the edge i < j seen from either end: with δ = φ_j - φ_i and σ = φ_i + φ_j, u is
    (sin δ, cos δ, -sin σ, cos σ) from i and (-sin δ, -cos δ, -sin σ, cos σ) from j; v is (cos δ, -sin δ, cos σ, sin σ).
    """
    back = design.z[node, take].conj()
    z = design.z[others, take]
    apart, together = z * back, z.conj() * back
    u, v = np.empty((2, z.shape[0], 4, z.shape[1]))
    u[:, 0], u[:, 1], u[:, 2], u[:, 3] = apart.imag, apart.real, together.imag, together.real
    v[:, 0], v[:, 1], v[:, 2], v[:, 3] = apart.real, -apart.imag, together.real, -together.imag
    before = others < node
    u[before, 1] *= -1.0
    v[before, 1] *= -1.0
    if design.sine:
        for f in (u, v):
            p, q = f[:, 0].copy(), f[:, 2].copy()
            f[:, 0], f[:, 2] = _HALF * (p - q), _HALF * (p + q)
    free = design.free[node, others]
    if not free.all():
        u *= free[:, :, None]
        v *= free[:, :, None]
    return u, v


def node_features(
    design: Design, node: int, neighbours: Indices, take: slice = slice(None)
) -> tuple[FloatArray, FloatArray]:
    """u and v of a regression, (parameters, n): own harmonics, then four numbers for every neighbour."""
    own_u, own_v = own_features(design, node, take)
    u, v = edge_features(design, node, neighbours, take)
    n = own_u.shape[1]
    return np.concatenate([own_u, u.reshape(-1, n)]), np.concatenate([own_v, v.reshape(-1, n)])


def couplings(design: Design, numbers: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """P_ij and Q_ij of edges i < j from their four numbers (..., 4); of the sine model before it is turned back."""
    p, q = numbers[..., 0], numbers[..., 2]
    if design.sine:
        p, q = _HALF * (p + q), _HALF * (q - p)
    return p + 1j * numbers[..., 1], q + 1j * numbers[..., 3]
