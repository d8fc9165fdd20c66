"""What the engines need of a law on the torus: its natural parameters, as arrays that loops can run over.

    log p(φ) = Re(conj(a)·z) + Re Σ_{t=2..T} conj(b_t)·z^t + ½ Re(z^H P z) + ½ Re(z^T conj(Q) z) - log Z,   z = e^{iφ}.

Given all others, angle d is a GvM with η₁ = a_d + (Pz)_d + (Q conj(z))_d and η_t = b_t,d. With x_d = (cos φ_d, sin φ_d)
the field of the others is Σ_j C_dj x_j, where the real 2 x 2 blocks

    C_dj = [[Re P + Re Q, Im Q - Im P], [Im P + Im Q, Re P - Re Q]]_dj

form a symmetric matrix: the coupling, minus the off-diagonal part of the paper's W.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from mgvm._validation import ComplexArray, FloatArray

Matrix: TypeAlias = Any  # a complex array or a scipy.sparse.csr_array, which ships no types


class TorusLaw(Protocol):
    """Anything with the natural parameters of an mGvM; `mgvm.MGvM` is one."""

    @property
    def a(self) -> ComplexArray: ...

    @property
    def b(self) -> ComplexArray: ...

    @property
    def P(self) -> Matrix: ...

    @property
    def Q(self) -> Matrix: ...


class Natural(NamedTuple):
    """Natural parameters: a (..., D), b (T - 1, D), P Hermitian and Q symmetric (D, D), both dense or both CSR.

    Leading axes of `a` are a batch of laws that share b, P and Q. The diagonals of P and Q are zero.
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


class SparseCoupling(NamedTuple):
    """The coupling C by rows of 2 x 2 blocks: those of angle d stand at indptr[d] : indptr[d + 1]."""

    indptr: np.ndarray
    indices: np.ndarray
    blocks: FloatArray  # (edges, 4): C_dj row by row


def natural(law: Any, *, batch: bool = False) -> Natural:
    """The natural parameters of a law, of a single one unless `batch` allows more."""
    missing = [name for name in ("a", "b", "P", "Q") if not hasattr(law, name)]
    if missing:
        raise TypeError(f"law must be an mgvm.MGvM (or hold natural parameters a, b, P, Q), got {type(law).__name__}")
    # Harmonics that are zero for all angles cost time and change nothing.
    used = np.flatnonzero(np.any(law.b, axis=1))
    parameters = Natural(law.a, law.b[: used[-1] + 1 if used.size else 0], law.P, law.Q)
    if parameters.a.ndim > 1 and not batch:
        raise ValueError(
            f"law holds a batch of shape {parameters.a.shape[:-1]}, and this engine takes one law at a time; "
            "index the batch, law[i]"
        )
    return parameters


def dense_coupling(law: Natural) -> FloatArray:
    """The coupling C as a (2D, 2D) array, cos and sin of an angle next to each other."""
    P = law.P.toarray() if sparse.issparse(law.P) else law.P
    Q = law.Q.toarray() if sparse.issparse(law.Q) else law.Q
    size = law.dimension
    out = np.empty((size, 2, size, 2))
    np.add(P.real, Q.real, out=out[:, 0, :, 0])
    np.subtract(Q.imag, P.imag, out=out[:, 0, :, 1])
    np.add(P.imag, Q.imag, out=out[:, 1, :, 0])
    np.subtract(P.real, Q.real, out=out[:, 1, :, 1])
    return out.reshape(2 * size, 2 * size)


def sparse_coupling(law: Natural) -> SparseCoupling:
    """The coupling C as rows of 2 x 2 blocks, from dense or sparse parameters."""
    P, Q = sparse.csr_array(law.P), sparse.csr_array(law.Q)
    # One pattern for both: entries of either, with 1 so that nothing cancels out of it.
    pattern = sparse.csr_array(abs(P).astype(bool) + abs(Q).astype(bool))
    pattern.sort_indices()
    rows = np.repeat(np.arange(law.dimension), np.diff(pattern.indptr))
    places = pattern.indices
    p, q = _entries(P, rows, places), _entries(Q, rows, places)
    blocks = np.stack([p.real + q.real, q.imag - p.imag, p.imag + q.imag, p.real - q.real], axis=1)
    return SparseCoupling(
        pattern.indptr.astype(np.int64), places.astype(np.int64), np.ascontiguousarray(blocks, dtype=float)
    )


def _entries(matrix: sparse.csr_array, rows: np.ndarray, columns: np.ndarray) -> ComplexArray:
    """Entries at given places, zero where nothing is stored."""
    if rows.size == 0:
        return np.zeros(0, dtype=complex)
    return np.asarray(matrix[rows, columns]).ravel().astype(complex)


def coupling_strengths(law: Natural) -> FloatArray:
    """Σ_j |P_dj| + |Q_dj| of every angle: how far the others can pull it."""
    return np.asarray(abs(law.P).sum(axis=1)).ravel() + np.asarray(abs(law.Q).sum(axis=1)).ravel()


def natural_first(law: Natural, moments: ComplexArray) -> ComplexArray:
    """η₁ = a + P m + Q conj(m) for moments (or points) m of shape (..., D)."""
    rows = moments.reshape(-1, law.dimension).T
    pull = law.P @ rows + law.Q @ np.conj(rows)
    return law.a + np.asarray(pull).T.reshape(moments.shape)


def concentrations(law: Natural) -> FloatArray:
    """K_d = |a_d| + Σ_t t²|b_t,d| + Σ_j (|P_dj| + |Q_dj|), a bound of the curvature in each angle; (..., D)."""
    harmonics = np.arange(2, law.order + 1) ** 2
    return np.abs(law.a) + harmonics @ np.abs(law.b) + coupling_strengths(law)
