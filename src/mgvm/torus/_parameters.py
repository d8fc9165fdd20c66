"""What a user may hand in as parameters of an mGvM, made clean: shapes, symmetry, zero diagonals, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Matrix, Natural, concentrations

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


def check_concentration(law: Natural) -> None:
    """Refuse laws too narrow for doubles."""
    check.at_most(concentrations(law), LARGEST_CONCENTRATION, "the total concentration |a| + Σ t²|b_t| + Σ_j |P| + |Q|")


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
            raise ValueError(f"given names angle {key}, but the law has {dimension} angles, 0 to {dimension - 1}")
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
