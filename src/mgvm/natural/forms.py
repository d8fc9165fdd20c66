"""What a user may hand in as an mGvM, checked and turned into natural parameters (a, b, P, Q).

Over-parametrised form of order 2: log p = κ·cos(φ - ν) - ½ xᵀWx + const with x = [cos φ; sin φ]. Then a = κ e^{iν} and

    b = -[¼(diag W^cc - diag W^ss) + ½ i diag W^cs],
    P = -½[(W^cc + W^ss) + i(W^csᵀ - W^cs)],   Q = -½[(W^cc - W^ss) + i(W^csᵀ + W^cs)]   off the diagonal.

Adding λ_d to both diagonal entries of angle d adds the constant -½λ_d: W stands for the distribution only up to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mgvm import _validation as check
from mgvm._frames import Names, check_order
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.exponential_family import LARGEST_CONCENTRATION
from mgvm.natural.parameters import Matrix, MatrixLike, Natural, concentrations

# ---- natural parameters as they are given ---------------------------------------------------------------------------


def check_linear(a: ArrayLike) -> ComplexArray:
    """The first harmonics, complex (..., D) with D >= 1."""
    array = check.finite_complex(a, "a")
    if array.ndim == 0:
        raise ValueError("a must have a last axis of angles, shape (..., D), got a single number; write [a] for D = 1")
    if array.shape[-1] == 0:
        raise ValueError(f"a must hold at least one angle, got shape {array.shape} (D = 0)")
    return array


def check_harmonics(b: ArrayLike | None, dimension: int) -> ComplexArray:
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


def check_couplings(P: MatrixLike | None, Q: MatrixLike | None, dimension: int) -> tuple[Matrix, Matrix]:
    """Both matrices checked, and in one storage: CSR where either came sparse (or both absent and D large)."""
    given = [matrix for matrix in (P, Q) if matrix is not None]
    # Up to 1,000 angles absent couplings are stored as a dense matrix of zeros, 16 MB.
    as_sparse = any(sparse.issparse(matrix) for matrix in given) or (not given and dimension > 1000)
    return (
        _check_coupling(P, "P", dimension, as_sparse, hermitian=True),
        _check_coupling(Q, "Q", dimension, as_sparse, hermitian=False),
    )


def _check_coupling(value: MatrixLike | None, name: str, dimension: int, as_sparse: bool, *, hermitian: bool) -> Matrix:
    """One coupling matrix with a zero diagonal, zeros where none is given."""
    if value is None:
        shape = (dimension, dimension)
        return sparse.csr_array(shape, dtype=complex) if as_sparse else np.zeros(shape, dtype=complex)
    matrix = _check_square(value, name, dimension, complex)
    check.at_most(abs(matrix).max(), LARGEST_CONCENTRATION, f"the largest coupling in {name}")
    symmetrized = _symmetrize(matrix, name, hermitian=hermitian)
    diagonal = matrix.diagonal()
    if diagonal.any():
        place = int(np.argmax(diagonal != 0))
        cure = "it is a constant on the torus" if hermitian else "half of it belongs into b (order 2)"
        raise ValueError(
            f"{name} must have a zero diagonal, got {diagonal[place]:.6g} at index {place}: {cure}; set it to zero"
        )
    if not as_sparse:
        return symmetrized
    out = sparse.csr_array(symmetrized)
    out.eliminate_zeros()
    out.sort_indices()
    return out


def shape_of(value: MatrixLike, name: str) -> tuple[int, ...]:
    """The shape of a matrix, dense or sparse; lists whose rows differ in length are refused."""
    if sparse.issparse(value):
        return tuple(value.shape)
    try:
        return tuple(np.shape(value))
    except ValueError:
        raise ValueError(f"{name} must be a matrix, but its rows differ in length") from None


def check_size(numbers: int, name: str) -> None:
    """Refuse to make an array of more than 8 GB, a billion numbers."""
    if numbers > 1e9:
        raise MemoryError(
            f"{name} would fill {8 * numbers / 1e9:,.0f} GB; use a, b, P and Q, which may be sparse, or fewer points"
        )


def _check_square(value: MatrixLike, name: str, dimension: int, dtype: type) -> Matrix:
    """A finite square matrix of the given size, dense or sparse as it came."""
    if sparse.issparse(value):
        if dtype is float and value.dtype.kind == "c":
            raise TypeError(f"{name} must be real numbers, got a sparse matrix of complex ones; take its real part")
        matrix = sparse.csr_array(value, dtype=dtype)
        numbers = matrix.data
    else:
        matrix = numbers = (check.finite_complex if dtype is complex else check.finite)(value, name)
    if matrix.shape != (dimension, dimension):
        raise ValueError(f"{name} must have shape ({dimension}, {dimension}), got {matrix.shape}")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite, got {numbers[~np.isfinite(numbers)][0]} among its entries")
    return matrix


def check_symmetric(value: MatrixLike, name: str, dimension: int) -> Matrix:
    """A real symmetric matrix, dense or sparse as it came."""
    return _symmetrize(_check_square(value, name, dimension, float), name, hermitian=False)


def _symmetrize(matrix: Matrix, name: str, *, hermitian: bool) -> Matrix:
    """The mean of a matrix and its (conjugate) transpose, refused where they differ by more than rounding."""
    transpose = matrix.T.conj() if hermitian else matrix.T
    largest, off = abs(matrix).max(), abs(matrix - transpose).max()
    if off > 1e-9 * largest:  # rounding, as of an inverse, is far below
        kind, which, cure = ("Hermitian", "conjugate ", ".conj().T") if hermitian else ("symmetric", "", ".T")
        raise ValueError(
            f"{name} must be {kind}, it differs from its {which}transpose by up to {off:.3g} of {largest:.3g}; "
            f"symmetrise it as ({name} + {name}{cure}) / 2 if that is what is meant"
        )
    return 0.5 * (matrix + transpose)


def check_concentration(dist: Natural) -> None:
    """Refuse distributions too narrow for doubles."""
    check.at_most(
        concentrations(dist), LARGEST_CONCENTRATION, "the total concentration |a| + Σ t²|b_t| + Σ_j |P| + |Q|"
    )


# ---- other forms ----------------------------------------------------------------------------------------------------


def _without_diagonal(matrix: Matrix) -> Matrix:
    """The matrix with zeros on its diagonal, dense or sparse as it came."""
    if sparse.issparse(matrix):
        out = sparse.csr_array(matrix - sparse.diags_array(matrix.diagonal()))
        out.eliminate_zeros()
        return out
    out = np.array(matrix)
    np.fill_diagonal(out, 0.0)
    return out


def precision_to_natural(W: Matrix, size: int) -> tuple[ComplexArray, Matrix, Matrix]:
    """b (1, D), P and Q of -½ xᵀWx, W (2D, 2D) with all cosines before all sines."""
    cc, cs, ss = W[:size, :size], W[:size, size:], W[size:, size:]
    b = -(0.25 * (cc.diagonal() - ss.diagonal()) + 0.5j * cs.diagonal())
    P = -0.5 * ((cc + ss) + 1j * (cs.T - cs))
    Q = -0.5 * ((cc - ss) + 1j * (cs.T + cs))
    return b[None], _without_diagonal(P), _without_diagonal(Q)


def natural_to_precision(dist: Natural) -> Matrix:
    """The W of zero trace in every angle's block, dense or sparse as the couplings are."""
    if dist.order > 2:
        raise ValueError(
            f"a distribution of order {dist.order} has no precision matrix: x'Wx holds harmonics up to the second only"
        )
    second = dist.b[0] if dist.order == 2 else np.zeros(dist.dimension, dtype=complex)
    stack = sparse.block_array if dist.is_sparse else np.block
    diagonal = sparse.diags_array if dist.is_sparse else np.diag
    cc = -(dist.P.real + dist.Q.real) + diagonal(-2.0 * second.real)
    ss = -(dist.P.real - dist.Q.real) + diagonal(2.0 * second.real)
    cs = dist.P.imag - dist.Q.imag + diagonal(-2.0 * second.imag)
    W = stack([[cc, cs], [cs.T, ss]])
    return sparse.csr_array(W) if dist.is_sparse else W


def per_angle(value: ArrayLike, name: str, size: int, *, sign: bool = True) -> FloatArray:
    """One number for every angle; a single one is repeated."""
    array = check.finite(value, name) if sign else check.non_negative(value, name)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} must be one number or one for each of the {size} angles, got shape {array.shape}")
    return np.broadcast_to(array, (size,))


def count_angles(*values: ArrayLike) -> int:
    """The number of angles that vectors speak of: the longest of them."""
    return max((int(np.shape(value)[0]) for value in values if np.ndim(value)), default=1)


def phasors(size: ArrayLike, angle: ArrayLike, names: tuple[str, str], dimension: int, sign: int) -> ComplexArray:
    """size·e^{i angle} as a (D, D) matrix whose transpose has `sign` times the angle (mod 2π) and the same size."""
    lengths, angles = check.non_negative(size, names[0]), check.angles(angle, names[1])
    for name, array in zip(names, (lengths, angles), strict=True):
        if array.shape not in ((), (dimension, dimension)):
            raise ValueError(f"{name} must be one number or have shape ({dimension}, {dimension}), got {array.shape}")
    lengths, angles = (np.broadcast_to(array, (dimension, dimension)).copy() for array in (lengths, angles))
    np.fill_diagonal(lengths, 0.0)
    matrix = lengths * np.exp(1j * angles)
    transpose = matrix.T if sign > 0 else matrix.T.conj()
    if (np.abs(matrix - transpose) > 1e-12 * max(1.0, lengths.max(initial=0.0))).any():
        kind = "symmetric" if sign > 0 else "antisymmetric (mod 2π)"
        raise ValueError(f"{names[0]} must be symmetric and {names[1]} {kind}; see the docstring for what they couple")
    return matrix


def sine_rotation(G: MatrixLike, size: int) -> tuple[ComplexArray, Matrix, Matrix]:
    """b, P, Q of sin(φ)ᵀ G sin(φ): W^ss = -2G, all else zero."""
    matrix = check_symmetric(G, "G", size)
    b = -0.5 * matrix.diagonal().astype(complex)
    P = _without_diagonal(matrix.astype(complex))
    return b[None], P, -P


def rotate(dist: Natural, delta: FloatArray) -> Natural:
    """Natural parameters of the distribution of φ + δ."""
    turn = np.exp(1j * delta)
    orders = np.arange(2, dist.order + 1)[:, None]
    if dist.is_sparse:
        left = sparse.diags_array(turn)
        P, Q = left @ dist.P @ sparse.diags_array(turn.conj()), left @ dist.Q @ left
    else:
        P, Q = turn[:, None] * dist.P * turn.conj(), turn[:, None] * dist.Q * turn
    return Natural(dist.a * turn, dist.b * np.exp(1j * orders * delta), P, Q)


# ---- points and conditions ------------------------------------------------------------------------------------------


def check_points(x: ArrayLike, dimension: int, names: Names = None) -> FloatArray:
    """Angles with the D angles of a point along the last axis; the columns of a DataFrame have their names."""
    check_order(x, names)
    array = check.angles(x, "x")
    if array.ndim == 0 or array.shape[-1] != dimension:
        raise ValueError(
            f"x must have shape (..., {dimension}), the angles of a point along its last axis, got {array.shape}"
        )
    return array


def check_given(
    given: Mapping[Any, ArrayLike], dimension: int, names: tuple[str, ...] | None = None
) -> tuple[np.ndarray, FloatArray]:
    """Indices of the given angles and their values (..., len(indices)), broadcast against each other."""
    if names is not None and hasattr(given, "items"):
        unknown = [key for key in given if isinstance(key, str) and key not in names]
        if unknown:
            raise ValueError(f"given names {unknown[0]!r}, but the angles are {', '.join(names)}")
        keys = [names.index(key) if isinstance(key, str) else key for key in given]
        if len(set(keys)) < len(keys):
            raise ValueError(f"given names the same angle twice: {list(given)}")
        given = dict(zip(keys, given.values(), strict=True))
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
