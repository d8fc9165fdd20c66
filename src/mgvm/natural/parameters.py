"""The mGvM as an exponential family: its natural parameters and log density, as what engines and learners compute with.

    log p(φ) = Re(conj(a)·z) + Re Σ_{t=2..T} conj(b_t)·z^t + ½ Re(z^H P z) + ½ Re(z^T conj(Q) z) - log Z,   z = e^{iφ}.

Given all others, angle d is a GvM with η₁ = a_d + (Pz)_d + (Q conj(z))_d and η_t = b_t,d. With x_d = (cos φ_d, sin φ_d)
the field of the others is Σ_j C_dj x_j, where the real 2 x 2 blocks

    C_dj = [[Re P + Re Q, Im Q - Im P], [Im P + Im Q, Re P - Re Q]]_dj

form a symmetric matrix: the coupling, minus the off-diagonal part of the paper's W.

As log p = θ·T(φ) - log Z the parameters θ and the statistics T are flat real vectors (`pack`, `statistics`). They hold
Re and Im of a and z (2D numbers), of b_t and z^t for t = 2..T (2D each), of P_ij and z_i conj(z_j), and of Q_ij and
z_i z_j, both for i < j in row order (D(D - 1) each).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from mgvm._validation import ComplexArray, FloatArray

Matrix: TypeAlias = Any  # a complex array or a scipy.sparse.csr_array, which ships no types
MatrixLike: TypeAlias = Any  # what can be made one: nested lists, arrays, sparse matrices of any format


class TorusDistribution(Protocol):
    """Anything with the natural parameters of an mGvM; `mgvm.MGvM` is one."""

    @property
    def a(self) -> ComplexArray:
        """First harmonics, complex (..., D)."""

    @property
    def b(self) -> ComplexArray:
        """Harmonics 2..T, complex (T - 1, D)."""

    @property
    def P(self) -> Matrix:
        """Couplings of differences, Hermitian (D, D)."""

    @property
    def Q(self) -> Matrix:
        """Couplings of sums, symmetric (D, D)."""


class Natural(NamedTuple):
    """Natural parameters: a (..., D), b (T - 1, D), P Hermitian and Q symmetric (D, D), both dense or both CSR.

    Leading axes of `a` are a batch of distributions that share b, P and Q. The diagonals of P and Q are zero.
    """

    a: ComplexArray
    b: ComplexArray
    P: Matrix
    Q: Matrix

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.a.shape[-1])

    @property
    def order(self) -> int:
        """The number of harmonics T."""
        return int(self.b.shape[0]) + 1

    @property
    def is_sparse(self) -> bool:
        """Whether the couplings are stored as sparse matrices."""
        return bool(sparse.issparse(self.P))

    def with_harmonics(self, first: ComplexArray) -> ComplexArray:
        """η (..., D, T) of GvM distributions of all angles with given η₁ (..., D), their harmonics from b."""
        return with_harmonics(first, self.b.T)


class SparseCoupling(NamedTuple):
    """The coupling C by rows of 2 x 2 blocks: those of angle d stand at indptr[d] : indptr[d + 1]."""

    indptr: np.ndarray
    indices: np.ndarray
    blocks: FloatArray  # (edges, 4): C_dj row by row


# ---- from a distribution to its parameters ------------------------------------------------------------------------


def natural(dist: TorusDistribution, *, batch: bool = False) -> Natural:
    """The natural parameters of a distribution, of a single one unless `batch` allows more."""
    missing = [name for name in ("a", "b", "P", "Q") if not hasattr(dist, name)]
    if missing:
        raise TypeError(
            f"distribution must be an mgvm.MGvM (or hold natural parameters a, b, P, Q), got {type(dist).__name__}"
        )
    # Harmonics that are zero for all angles cost time and change nothing.
    used = np.flatnonzero(np.any(dist.b, axis=1))
    parameters = Natural(dist.a, dist.b[: used[-1] + 1 if used.size else 0], dist.P, dist.Q)
    if parameters.a.ndim > 1 and not batch:
        raise ValueError(
            f"distribution holds a batch of shape {parameters.a.shape[:-1]}, and this engine takes one distribution at "
            "a time; index the batch, dist[i]"
        )
    return parameters


# ---- the coupling ---------------------------------------------------------------------------------------------------


def dense_matrices(dist: Natural) -> tuple[ComplexArray, ComplexArray]:
    """P and Q as dense arrays."""
    return (dist.P.toarray(), dist.Q.toarray()) if dist.is_sparse else (dist.P, dist.Q)


def dense_coupling(dist: Natural) -> FloatArray:
    """The coupling C as a (2D, 2D) array, cos and sin of an angle next to each other."""
    P, Q = dense_matrices(dist)
    size = dist.dimension
    out = np.empty((size, 2, size, 2))
    np.add(P.real, Q.real, out=out[:, 0, :, 0])
    np.subtract(Q.imag, P.imag, out=out[:, 0, :, 1])
    np.add(P.imag, Q.imag, out=out[:, 1, :, 0])
    np.subtract(P.real, Q.real, out=out[:, 1, :, 1])
    return out.reshape(2 * size, 2 * size)


def sparse_coupling(dist: Natural) -> SparseCoupling:
    """The coupling C as rows of 2 x 2 blocks, from dense or sparse parameters."""
    P, Q = sparse.csr_array(dist.P), sparse.csr_array(dist.Q)
    # One pattern for both: entries of either, with 1 so that nothing cancels out of it.
    pattern = sparse.csr_array(abs(P).astype(bool) + abs(Q).astype(bool))
    pattern.sort_indices()
    rows = np.repeat(np.arange(dist.dimension), np.diff(pattern.indptr))
    places = pattern.indices
    p, q = entries(P, rows, places), entries(Q, rows, places)
    blocks = np.stack([p.real + q.real, q.imag - p.imag, p.imag + q.imag, p.real - q.real], axis=1)
    return SparseCoupling(
        pattern.indptr.astype(np.int64), places.astype(np.int64), np.ascontiguousarray(blocks, dtype=float)
    )


def entries(matrix: Matrix, rows: np.ndarray, columns: np.ndarray) -> ComplexArray:
    """Entries of a dense or sparse matrix at given places, zero where nothing is stored."""
    if rows.size == 0:
        return np.zeros(0, dtype=complex)
    return np.asarray(matrix[rows, columns]).ravel().astype(complex)


def coupling_strengths(dist: Natural) -> FloatArray:
    """Σ_j |P_dj| + |Q_dj| of every angle: how far the others can pull it."""
    return np.asarray(abs(dist.P).sum(axis=1)).ravel() + np.asarray(abs(dist.Q).sum(axis=1)).ravel()


def natural_first(dist: Natural, moments: ComplexArray) -> ComplexArray:
    """η₁ = a + P m + Q conj(m) for moments (or points) m of shape (..., D)."""
    rows = moments.reshape(-1, dist.dimension).T
    pull = dist.P @ rows + dist.Q @ np.conj(rows)
    return dist.a + np.asarray(pull).T.reshape(moments.shape)


def with_harmonics(first: ComplexArray, harmonics: ComplexArray) -> ComplexArray:
    """η (..., T) of conditionals from η₁ (...) and harmonics 2..T (..., T - 1), those of one angle or of each."""
    rest = np.broadcast_to(harmonics, (*first.shape, harmonics.shape[-1]))
    return np.concatenate([first[..., None], rest], axis=-1)


def restrict(dist: Natural, angles: np.ndarray) -> Natural:
    """The terms of some angles alone."""
    P, Q = (matrix[angles][:, angles] for matrix in (dist.P, dist.Q))
    return Natural(dist.a[..., angles], dist.b[:, angles], P, Q)


def condition(dist: Natural, known: np.ndarray, z: ComplexArray) -> Natural:
    """The distributions of the other angles given points z (..., B) of some: a_A ← a_A + P_AB z_B + Q_AB conj(z_B)."""
    left = np.setdiff1d(np.arange(dist.dimension), known)
    rows = z.reshape(math.prod(z.shape[:-1]), len(known)).T
    pull = np.asarray(dist.P[left][:, known] @ rows + dist.Q[left][:, known] @ rows.conj()).T
    rest = restrict(dist, left)
    return rest._replace(a=np.asarray(rest.a + pull.reshape(*z.shape[:-1], len(left))))


def concentrations(dist: Natural) -> FloatArray:
    """K_d = |a_d| + Σ_t t²|b_t,d| + Σ_j (|P_dj| + |Q_dj|), a bound of the curvature in each angle; (..., D)."""
    harmonics = np.arange(2, dist.order + 1) ** 2
    return np.abs(dist.a) + harmonics @ np.abs(dist.b) + coupling_strengths(dist)


# ---- flat vectors ---------------------------------------------------------------------------------------------------


def pack(dist: Natural) -> FloatArray:
    """The vector θ of a distribution, (2DT + 2D(D - 1),); leading axes of a batch stay."""
    upper = np.triu_indices(dist.dimension, 1)
    P, Q = dense_matrices(dist)
    parts = [_pairs(row) for row in (dist.a, *dist.b, P[upper], Q[upper])]
    return np.concatenate(parts, axis=-1)


def unpack(theta: FloatArray, dimension: int, order: int) -> Natural:
    """The distribution with parameters θ, dense."""
    pairs = dimension * (dimension - 1) // 2
    wanted = 2 * dimension * order + 4 * pairs
    if theta.shape != (wanted,):
        raise ValueError(
            f"theta must have shape ({wanted},) for {dimension} angles and order {order}, got {theta.shape}"
        )
    numbers = np.ascontiguousarray(theta).view(complex)
    first, rest = numbers[: dimension * order].reshape(order, dimension), numbers[dimension * order :]
    P, Q = np.zeros((2, dimension, dimension), dtype=complex)
    upper = np.triu_indices(dimension, 1)
    P[upper], Q[upper] = rest[:pairs], rest[pairs:]
    return Natural(first[0], first[1:], P + P.conj().T, Q + Q.T)


def statistics(x: FloatArray, order: int) -> FloatArray:
    """T(φ) of every row of x (n, D), one statistic after the other in memory."""
    cosine, sine = np.cos(x.T), np.sin(x.T)
    size = x.shape[1]
    begin, middle = 2 * order * size, size * (2 * order + size - 1)
    out = np.empty((2 * size * (order + size - 1), x.shape[0]))
    c, s = cosine, sine
    for t in range(order):
        if t:
            c, s = c * cosine - s * sine, s * cosine + c * sine
        out[2 * t * size : 2 * (t + 1) * size : 2], out[2 * t * size + 1 : 2 * (t + 1) * size : 2] = c, s
    i, j = np.triu_indices(size, 1)
    cc, ss, sc, cs = cosine[i] * cosine[j], sine[i] * sine[j], sine[i] * cosine[j], cosine[i] * sine[j]
    out[begin:middle:2], out[begin + 1 : middle : 2] = cc + ss, sc - cs
    out[middle::2], out[middle + 1 :: 2] = cc - ss, sc + cs
    return out.T


def _pairs(values: ComplexArray) -> FloatArray:
    """Real and imaginary parts next to each other."""
    return np.ascontiguousarray(values, dtype=complex).view(np.float64)


# ---- log density without its normaliser, at many points --------------------------------------------------------------


def log_densities(dist: Natural, x: FloatArray) -> FloatArray:
    """Log density at x (n, D) without the normaliser, (n,); of a batch, without the first harmonics, which it does not
    share.
    """
    size, dimension = x.shape
    out = np.empty(size)
    coupled = dist.P.nnz + dist.Q.nnz > 0 if dist.is_sparse else bool(dist.P.any() or dist.Q.any())
    # For a few points the real coupling matrix is not worth building.
    coupling = dense_coupling(dist) if coupled and not dist.is_sparse and size > 8 else None
    step = max(1, 2**20 // dimension)  # rows whose points and products, 64 bytes an angle, take 64 MB
    for begin in range(0, size, step):
        rows = slice(begin, begin + step)
        z = unit_points(x[rows])
        out[rows] = _harmonics(dist, z)
        if dist.a.ndim == 1:
            out[rows] += z.view(np.float64) @ np.ascontiguousarray(dist.a).view(np.float64)
        if coupled:
            out[rows] += 0.5 * _quadratic(dist, coupling, z)
    return out


def unit_points(x: FloatArray) -> ComplexArray:
    """e^{ix}, in half the time of the complex exponential."""
    z = np.empty(x.shape, dtype=complex)
    np.cos(x, out=z.real)
    np.sin(x, out=z.imag)
    return z


def _harmonics(dist: Natural, z: ComplexArray) -> FloatArray:
    """Re Σ_t conj(b_t)·z^t by Horner's rule, t = 2..T."""
    if dist.order == 1:
        return np.zeros(z.shape[0])
    if dist.order == 2:
        return np.asarray((z * z) @ dist.b[0].conj()).real
    total = np.zeros_like(z)
    for row in dist.b[::-1].conj():
        total = (total + row) * z
    return np.asarray((total * z).sum(axis=1)).real


def _quadratic(dist: Natural, coupling: FloatArray | None, z: ComplexArray) -> FloatArray:
    """Re(z^H P z + z^T conj(Q) z) of every row: xᵀCx as one product of real matrices, or by the sparse P and Q."""
    if coupling is None:
        pull = np.asarray(dist.P @ z.T + dist.Q @ z.T.conj()).T
        return np.asarray((pull.real * z.real + pull.imag * z.imag).sum(axis=1))
    x = z.view(np.float64)
    return np.einsum("ij,ij->i", x @ coupling, x)
