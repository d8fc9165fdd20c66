"""What the engines need of a distribution on the torus: its natural parameters, as arrays that loops can run over.

    log p(φ) = Re(conj(a)·z) + Re Σ_{t=2..T} conj(b_t)·z^t + ½ Re(z^H P z) + ½ Re(z^T conj(Q) z) - log Z,   z = e^{iφ}.

Given all others, angle d is a GvM with η₁ = a_d + (Pz)_d + (Q conj(z))_d and η_t = b_t,d. With x_d = (cos φ_d, sin φ_d)
the field of the others is Σ_j C_dj x_j, where the real 2 x 2 blocks

    C_dj = [[Re P + Re Q, Im Q - Im P], [Im P + Im Q, Re P - Re Q]]_dj

form a symmetric matrix: the coupling, minus the off-diagonal part of the paper's W.

The mGvM as an exponential family, log p = θ·T(φ) - log Z: θ and T as flat real vectors.

Order: Re and Im of a and z (2D), of b_t and z^t for t = 2..T (2D each), of P_ij and z_i conj(z_j), and of Q_ij and
z_i z_j, both for i < j in row order (D(D - 1) each).

What a user may hand in as parameters of an mGvM, made clean: shapes, symmetry, zero diagonals, dense or sparse.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray

Matrix: TypeAlias = Any  # a complex array or a scipy.sparse.csr_array, which ships no types


class TorusDistribution(Protocol):
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


class SparseCoupling(NamedTuple):
    """The coupling C by rows of 2 x 2 blocks: those of angle d stand at indptr[d] : indptr[d + 1]."""

    indptr: np.ndarray
    indices: np.ndarray
    blocks: FloatArray  # (edges, 4): C_dj row by row


def natural(dist: Any, *, batch: bool = False) -> Natural:
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
            f"distribution holds a batch of shape {parameters.a.shape[:-1]}, and this engine takes one distribution at a time; "
            "index the batch, dist[i]"
        )
    return parameters


def dense_coupling(dist: Natural) -> FloatArray:
    """The coupling C as a (2D, 2D) array, cos and sin of an angle next to each other."""
    P = dist.P.toarray() if sparse.issparse(dist.P) else dist.P
    Q = dist.Q.toarray() if sparse.issparse(dist.Q) else dist.Q
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


def coupling_strengths(dist: Natural) -> FloatArray:
    """Σ_j |P_dj| + |Q_dj| of every angle: how far the others can pull it."""
    return np.asarray(abs(dist.P).sum(axis=1)).ravel() + np.asarray(abs(dist.Q).sum(axis=1)).ravel()


def natural_first(dist: Natural, moments: ComplexArray) -> ComplexArray:
    """η₁ = a + P m + Q conj(m) for moments (or points) m of shape (..., D)."""
    rows = moments.reshape(-1, dist.dimension).T
    pull = dist.P @ rows + dist.Q @ np.conj(rows)
    return dist.a + np.asarray(pull).T.reshape(moments.shape)


def concentrations(dist: Natural) -> FloatArray:
    """K_d = |a_d| + Σ_t t²|b_t,d| + Σ_j (|P_dj| + |Q_dj|), a bound of the curvature in each angle; (..., D)."""
    harmonics = np.arange(2, dist.order + 1) ** 2
    return np.abs(dist.a) + harmonics @ np.abs(dist.b) + coupling_strengths(dist)


def pack(dist: Natural) -> FloatArray:
    """θ of dense couplings."""
    upper = np.triu_indices(dist.dimension, 1)
    P, Q = (matrix.toarray() if dist.is_sparse else matrix for matrix in (dist.P, dist.Q))
    parts = [_pairs(row) for row in (dist.a, *dist.b, P[upper], Q[upper])]
    return np.concatenate(parts, axis=-1)


def unpack(theta: FloatArray, dimension: int, order: int) -> Natural:
    """The distribution with parameters θ."""
    pairs = dimension * (dimension - 1) // 2
    wanted = 2 * dimension * order + 4 * pairs
    if theta.shape != (wanted,):
        raise ValueError(
            f"theta must have shape ({wanted},) for {dimension} angles and order {order}, got {theta.shape}"
        )
    numbers = np.ascontiguousarray(theta).view(complex)
    first, rest = numbers[: dimension * order].reshape(order, dimension), numbers[dimension * order :]
    return Natural(first[0], first[1:], _hermitian(rest[:pairs], dimension), _symmetric(rest[pairs:], dimension))


def statistics(x: FloatArray, order: int) -> FloatArray:
    """T(φ) of every row of x (n, D)."""
    z = np.exp(1j * x)
    i, j = np.triu_indices(x.shape[1], 1)
    parts = [z**t for t in range(1, order + 1)] + [z[:, i] * z[:, j].conj(), z[:, i] * z[:, j]]
    return np.concatenate([_pairs(part) for part in parts], axis=1)


def _pairs(values: ComplexArray) -> FloatArray:
    """Real and imaginary parts next to each other."""
    return np.ascontiguousarray(values, dtype=complex).view(np.float64)


def _hermitian(values: ComplexArray, dimension: int) -> ComplexArray:
    out = np.zeros((dimension, dimension), dtype=complex)
    out[np.triu_indices(dimension, 1)] = values
    return out + out.conj().T


def _symmetric(values: ComplexArray, dimension: int) -> ComplexArray:
    out = np.zeros((dimension, dimension), dtype=complex)
    out[np.triu_indices(dimension, 1)] = values
    return out + out.T


LARGEST_CONCENTRATION = 1e15
_DENSE_BY_DEFAULT = 1000  # angles up to which absent couplings are stored as a dense matrix of zeros
_MOST_BYTES = 8e9
_ASYMMETRY = 1e-9  # relative to the largest entry: what may be called rounding, as of an inverse


def linear(a: ArrayLike) -> ComplexArray:
    """The first harmonics, complex (..., D) with D >= 1."""
    array = check.finite_complex(a, "a")
    if array.ndim == 0:
        raise ValueError("a must have a last axis of angles, shape (..., D), got a single number; write [a] for D = 1")
    if array.shape[-1] == 0:
        raise ValueError(f"a must hold at least one angle, got shape {array.shape} (D = 0)")
    return array


def harmonics(b: ArrayLike | None, dimension: int) -> ComplexArray:
    """The harmonics 2..T, complex (T - 1, D); one row may come without its first axis."""
    if b is None:
        return np.zeros((0, dimension), dtype=complex)
    array = check.finite_complex(b, "b")
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] != dimension:
        raise ValueError(
            f"b must have shape ({dimension},) for order 2 or (T - 1, {dimension}) for order T, as a has {dimension} "
            f"angles, got {np.shape(b)}"
        )
    return array


def couplings(P: Any, Q: Any, dimension: int) -> tuple[Matrix, Matrix]:
    """Both matrices checked, and in one storage: CSR where either came sparse (or both absent and D large)."""
    given = [matrix for matrix in (P, Q) if matrix is not None]
    as_sparse = any(sparse.issparse(matrix) for matrix in given) or (not given and dimension > _DENSE_BY_DEFAULT)
    return (
        _coupling(P, "P", dimension, as_sparse, hermitian=True),
        _coupling(Q, "Q", dimension, as_sparse, hermitian=False),
    )


def _coupling(value: Any, name: str, dimension: int, as_sparse: bool, *, hermitian: bool) -> Matrix:
    if value is None:
        shape = (dimension, dimension)
        return sparse.csr_array(shape, dtype=complex) if as_sparse else np.zeros(shape, dtype=complex)
    matrix = square(value, name, dimension, complex)
    mirror = matrix.T.conj() if hermitian else matrix.T
    largest = abs(matrix).max()
    check.at_most(largest, LARGEST_CONCENTRATION, f"the largest coupling in {name}")
    off = abs(matrix - mirror).max()
    if off > _ASYMMETRY * largest:
        kind, cure = ("Hermitian", "(P + P.conj().T) / 2") if hermitian else ("symmetric", "(Q + Q.T) / 2")
        raise ValueError(
            f"{name} must be {kind}, it differs from its {'conjugate ' if hermitian else ''}transpose by up to "
            f"{off:.3g} of {largest:.3g}; symmetrise it as {cure} if that is what is meant"
        )
    diagonal = matrix.diagonal()
    if diagonal.any():
        place = int(np.argmax(diagonal != 0))
        cure = "it is a constant on the torus" if hermitian else "half of it belongs into b (order 2)"
        raise ValueError(
            f"{name} must have a zero diagonal, got {diagonal[place]:.6g} at index {place}: {cure}; set it to zero"
        )
    matrix = 0.5 * (matrix + mirror)
    if not as_sparse:
        return matrix
    out = sparse.csr_array(matrix)
    out.eliminate_zeros()
    out.sort_indices()
    return out


def shape_of(value: Any, name: str) -> tuple[int, ...]:
    """The shape of a matrix, dense or sparse; lists whose rows differ in length are refused."""
    if sparse.issparse(value):
        return tuple(value.shape)
    try:
        return tuple(np.shape(value))
    except ValueError:
        raise ValueError(f"{name} must be a matrix, but its rows differ in length") from None


def check_size(numbers: int, name: str) -> None:
    """Refuse to make an array of more than a few GB."""
    if 8 * numbers > _MOST_BYTES:
        raise MemoryError(
            f"{name} would fill {8 * numbers / 1e9:,.0f} GB; use a, b, P and Q, which may be sparse, or fewer points"
        )


def square(value: Any, name: str, dimension: int, dtype: type) -> Any:
    """A finite square matrix of the given size, dense or sparse as it came."""
    if sparse.issparse(value):
        if dtype is float and value.dtype.kind == "c":
            raise TypeError(f"{name} must be real numbers, got a sparse matrix of complex ones; take its real part")
        matrix = sparse.csr_array(value, dtype=dtype)
        numbers: Any = matrix.data
    else:
        matrix = numbers = (check.finite_complex if dtype is complex else check.finite)(value, name)
    if matrix.shape != (dimension, dimension):
        raise ValueError(f"{name} must have shape ({dimension}, {dimension}), got {matrix.shape}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite, got {numbers[~np.isfinite(numbers)][0]} among its entries")
    return matrix


def symmetric(value: Any, name: str, dimension: int) -> Any:
    """A real symmetric matrix, dense or sparse as it came."""
    matrix = square(value, name, dimension, float)
    largest, off = abs(matrix).max(), abs(matrix - matrix.T).max()
    if off > _ASYMMETRY * largest:
        raise ValueError(
            f"{name} must be symmetric, it differs from its transpose by up to {off:.3g} of {largest:.3g}; "
            f"symmetrise it as ({name} + {name}.T) / 2 if that is what is meant"
        )
    return 0.5 * (matrix + matrix.T)


def check_concentration(dist: Natural) -> None:
    """Refuse distributions too narrow for doubles."""
    check.at_most(
        concentrations(dist), LARGEST_CONCENTRATION, "the total concentration |a| + Σ t²|b_t| + Σ_j |P| + |Q|"
    )


def points(x: ArrayLike, dimension: int) -> FloatArray:
    """Angles with the D angles of a point along the last axis."""
    array = check.angles(x, "x")
    if array.ndim == 0 or array.shape[-1] != dimension:
        raise ValueError(
            f"x must have shape (..., {dimension}), the angles of a point along its last axis, got {array.shape}"
        )
    return array


def given_angles(given: Any, dimension: int) -> tuple[np.ndarray, FloatArray]:
    """Indices of the given angles and their values (..., len(indices)), broadcast against each other."""
    try:
        items = [(check.integer(key, "index"), check.angles(value, f"given[{key}]")) for key, value in given.items()]
    except AttributeError:
        raise TypeError(f"given must map indices to angles, such as {{0: 1.5}}, got {type(given).__name__}") from None
    for key, _ in items:
        if not -dimension <= key < dimension:
            raise ValueError(
                f"given names angle {key}, but the distribution has {dimension} angles, 0 to {dimension - 1}"
            )
    indices = np.array([key % dimension for key, _ in items], dtype=np.int64)
    if len(set(indices.tolist())) < len(items):
        raise ValueError(
            f"given names the same angle twice: {[key for key, _ in items]} (negative indices count from the end)"
        )
    if len(items) == dimension:
        raise ValueError(
            f"given fixes all {dimension} angles, nothing is left; use log_density or logpdf at that point"
        )
    values = check.broadcast(**{f"given[{key}]": value for key, value in items}) if items else ()
    return indices, np.stack(values, axis=-1) if items else np.zeros(0)
