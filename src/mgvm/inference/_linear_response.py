"""Linear response: the covariances that a mean-field optimum implies by how it answers to a small field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural, dense_coupling, sparse_coupling

_DENSE = 5_000  # angles up to which a (2D, 2D) matrix is made
_SPARSE = 50_000  # angles up to which the blocks of a sparse law are solved for
_COLUMNS = 512


@dataclass(frozen=True, eq=False, repr=False)
class LinearResponse:
    """Covariances of (cos φ, sin φ) by linear response.

    Attributes
    ----------
    blocks : FloatArray
        Covariance of (cos φ_d, sin φ_d) of each angle, (D, 2, 2).
    covariance : FloatArray or None
        Of all angles, (2D, 2D), cos and sin of an angle next to each other; None where only blocks were asked for.
    """

    blocks: FloatArray
    covariance: FloatArray | None

    def __repr__(self) -> str:
        return f"LinearResponse({len(self.blocks)} angles, {'blocks' if self.covariance is None else 'covariance'})"

    @property
    def resultant_length(self) -> FloatArray:
        """|m₁| of each angle, from tr Cov = 1 - |m₁|², which holds for points on a circle; (D,)."""
        return np.sqrt(np.clip(1.0 - np.trace(self.blocks, axis1=1, axis2=2), 0.0, 1.0))

    @property
    def circular_variance(self) -> FloatArray:
        """1 - |m₁| of each angle, (D,)."""
        spread = np.clip(np.trace(self.blocks, axis1=1, axis2=2), 0.0, 1.0)
        return spread / (1.0 + np.sqrt(1.0 - spread))


def factor_covariances(m1: ComplexArray, m2: ComplexArray) -> FloatArray:
    """Covariance of (cos φ, sin φ) from the first two moments, (D, 2, 2)."""
    out = np.empty(m1.shape + (2, 2))
    out[..., 0, 0] = 0.5 * (1.0 + m2.real) - m1.real**2
    out[..., 1, 1] = 0.5 * (1.0 - m2.real) - m1.imag**2
    out[..., 0, 1] = out[..., 1, 0] = 0.5 * m2.imag - m1.real * m1.imag
    return out


def linear_response(law: Natural, V: FloatArray, full: bool) -> LinearResponse:
    """Cov = (V⁻¹ - C)⁻¹ = (I - V C)⁻¹ V: the second form needs no inverse of a V that is nearly singular."""
    size = law.dimension
    if full and size > _DENSE:
        raise ValueError(
            f"the covariance of {size} angles would fill {32 * size**2 / 1e9:.1f} GB; ask for the blocks of single "
            "angles, full=False, or for at most 5000 angles"
        )
    if law.is_sparse and not full:
        return LinearResponse(_sparse_blocks(law, V), None)
    if size > _DENSE:
        raise ValueError(f"linear response of a dense law needs at most {_DENSE} angles, got {size}; store P, Q sparse")
    system = -np.einsum("dij,djk->dik", V, dense_coupling(law).reshape(size, 2, 2 * size)).reshape(2 * size, 2 * size)
    np.einsum("ii->i", system)[:] += 1.0
    try:
        covariance = linalg.solve(system, linalg.block_diag(*V))
    except linalg.LinAlgError:
        raise ValueError(_SINGULAR) from None
    covariance = 0.5 * (covariance + covariance.T)
    blocks = np.stack([covariance[2 * d : 2 * d + 2, 2 * d : 2 * d + 2] for d in range(size)])
    _check(blocks)
    return LinearResponse(blocks, covariance if full else None)


_SINGULAR = (
    "linear response is singular here: some direction of the optimum is free (a law that is unchanged by turning all "
    "angles, say), so its variance is not that of one optimum; use gibbs or an exact engine"
)


def _check(blocks: FloatArray) -> None:
    variances = np.einsum("dii->di", blocks)
    if not (np.isfinite(variances).all() and (variances > -1e-9).all()):
        raise ValueError(_SINGULAR)


def _sparse_blocks(law: Natural, V: FloatArray) -> FloatArray:
    """The diagonal blocks, by a sparse factorisation and unit right-hand sides a few hundred at a time."""
    size = law.dimension
    if size > _SPARSE:
        raise ValueError(f"linear response of a sparse law needs at most {_SPARSE} angles, got {size}; use exact_chain")
    coupling = sparse_coupling(law)
    C = sparse.bsr_array(
        (coupling.blocks.reshape(-1, 2, 2), coupling.indices, coupling.indptr), shape=(2 * size, 2 * size)
    )
    diagonal = sparse.bsr_array((V, np.arange(size), np.arange(size + 1)), shape=(2 * size, 2 * size))
    try:
        solver = splu((sparse.eye_array(2 * size) - diagonal @ C).tocsc())
    except RuntimeError:
        raise ValueError(_SINGULAR) from None
    out = np.empty((size, 2, 2))
    for begin in range(0, size, _COLUMNS // 2):
        end = min(begin + _COLUMNS // 2, size)
        right = np.zeros((2 * size, 2 * (end - begin)))
        for d in range(begin, end):
            right[2 * d : 2 * d + 2, 2 * (d - begin) : 2 * (d - begin) + 2] = V[d]
        solution = solver.solve(right)
        for d in range(begin, end):
            out[d] = solution[2 * d : 2 * d + 2, 2 * (d - begin) : 2 * (d - begin) + 2]
    out = 0.5 * (out + np.swapaxes(out, 1, 2))
    _check(out)
    return out
