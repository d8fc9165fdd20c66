"""The forms in which an mGvM of order 2 is written, each to and from natural parameters (a, b, P, Q).

Over-parametrised form: log p = κ·cos(φ - ν) - ½ xᵀWx + const with x = [cos φ; sin φ]. Then a = κ e^{iν} and

    b = -[¼(diag W^cc - diag W^ss) + ½ i diag W^cs],
    P = -½[(W^cc + W^ss) + i(W^csᵀ - W^cs)],   Q = -½[(W^cc - W^ss) + i(W^csᵀ + W^cs)]   off the diagonal.

Adding λ_d to both diagonal entries of angle d adds the constant -½λ_d: W stands for the distribution only up to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.natural import parameters
from mgvm.natural.parameters import Matrix, Natural

_TWO_PI = 2.0 * np.pi


def _without_diagonal(matrix: Any) -> Matrix:
    if sparse.issparse(matrix):
        out = sparse.csr_array(matrix - sparse.diags_array(matrix.diagonal()))
        out.eliminate_zeros()
        return out
    out = np.array(matrix)
    np.fill_diagonal(out, 0.0)
    return out


def precision_to_natural(W: Any, size: int) -> tuple[ComplexArray, Matrix, Matrix]:
    """b (1, D), P and Q of -½ xᵀWx, W (2D, 2D) with all cosines before all sines."""
    cc, cs, ss = W[:size, :size], W[:size, size:], W[size:, size:]
    b = -(0.25 * (cc.diagonal() - ss.diagonal()) + 0.5j * cs.diagonal())
    P = -0.5 * ((cc + ss) + 1j * (cs.T - cs))
    Q = -0.5 * ((cc - ss) + 1j * (cs.T + cs))
    return b[None], _without_diagonal(P), _without_diagonal(Q)


def natural_to_precision(dist: Natural) -> Any:
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


def length(*values: ArrayLike) -> int:
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
    mirror = matrix.T if sign > 0 else matrix.T.conj()
    if (np.abs(matrix - mirror) > 1e-12 * max(1.0, lengths.max(initial=0.0))).any():
        kind = "symmetric" if sign > 0 else "antisymmetric (mod 2π)"
        raise ValueError(f"{names[0]} must be symmetric and {names[1]} {kind}; see the docstring for what they couple")
    return matrix


def sine_rotation(G: Any, size: int) -> tuple[ComplexArray, Matrix, Matrix]:
    """b, P, Q of sin(φ)ᵀ G sin(φ): W^ss = -2G, all else zero."""
    matrix = parameters.symmetric(G, "G", size)
    b = -0.5 * matrix.diagonal().astype(complex)
    P = _without_diagonal(matrix.astype(complex))
    return b[None], P, -P


def rotated(dist: Natural, delta: FloatArray) -> Natural:
    """Natural parameters of the distribution of φ + δ."""
    turn = np.exp(1j * delta)
    orders = np.arange(2, dist.order + 1)[:, None]
    if dist.is_sparse:
        left = sparse.diags_array(turn)
        P, Q = left @ dist.P @ sparse.diags_array(turn.conj()), left @ dist.Q @ left
    else:
        P, Q = turn[:, None] * dist.P * turn.conj(), turn[:, None] * dist.Q * turn
    return Natural(dist.a * turn, dist.b * np.exp(1j * orders * delta), P, Q)
