"""The log density of an mGvM without its normaliser, at many points."""

from __future__ import annotations

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural, dense_coupling

_FEW = 8  # points up to which the real coupling matrix is not worth building
_BLOCK_BYTES = 64 * 2**20


def log_densities(law: Natural, x: FloatArray) -> FloatArray:
    """Log density at x (n, D) without the normaliser; of a batch, without the first harmonics, its own part; (n,)."""
    size, dimension = x.shape
    out = np.empty(size)
    coupled = law.P.nnz + law.Q.nnz > 0 if law.is_sparse else bool(law.P.any() or law.Q.any())
    coupling = dense_coupling(law) if coupled and not law.is_sparse and size > _FEW else None
    step = max(1, _BLOCK_BYTES // (64 * dimension))
    for begin in range(0, size, step):
        rows = slice(begin, begin + step)
        z = unit_points(x[rows])
        out[rows] = _harmonics(law, z)
        if law.a.ndim == 1:
            out[rows] += z.view(np.float64) @ np.ascontiguousarray(law.a).view(np.float64)
        if coupled:
            out[rows] += 0.5 * _quadratic(law, coupling, z)
    return out


def unit_points(x: FloatArray) -> ComplexArray:
    """e^{ix}, in half the time of the complex exponential."""
    z = np.empty(x.shape, dtype=complex)
    np.cos(x, out=z.real)
    np.sin(x, out=z.imag)
    return z


def _harmonics(law: Natural, z: ComplexArray) -> FloatArray:
    """Re Σ_t conj(b_t)·z^t by Horner's rule, t = 2..T."""
    if law.order == 1:
        return np.zeros(z.shape[0])
    if law.order == 2:
        return np.asarray((z * z) @ law.b[0].conj()).real
    total = np.zeros_like(z)
    for row in law.b[::-1].conj():
        total = (total + row) * z
    return np.asarray((total * z).sum(axis=1)).real


def _quadratic(law: Natural, coupling: FloatArray | None, z: ComplexArray) -> FloatArray:
    """Re(z^H P z + z^T conj(Q) z) of every row: xᵀCx as one product of real matrices, or by the sparse P and Q."""
    if coupling is None:
        pull = np.asarray(law.P @ z.T + law.Q @ z.T.conj()).T
        return np.asarray((pull.real * z.real + pull.imag * z.imag).sum(axis=1))
    x = z.view(np.float64)
    return np.einsum("ij,ij->i", x @ coupling, x)
