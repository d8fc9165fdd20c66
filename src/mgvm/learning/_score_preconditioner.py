"""About the inverse of the Hessian of score matching: t_d and x of the others taken as independent.

Then K ↦ 2(TKS + SKT) on the couplings, S = Cov(x), T = block-diagonal E[t tᵀ], and with SV = TVΛ, VᵀTV = 1, K = VYVᵀ

    2(TKS + SKT) = R   is   Y_ij = (VᵀRV)_ij / 2(λ_i + λ_j).

Own parameters (α', b) have a block E[u uᵀ] for every angle.

Where sums are not coupled (Q = 0) this inverse, projected, is poor: it is ruled by soft directions outside the
submodel. There, in the frame of the mean directions, with (c, s) the components along and across, Re P and Im P have
forms of their own, Σ_d E[s_d²] p_dᵀ S_cc p_d + E[c_d²] p_dᵀ S_ss p_d and the same with S_cc and S_ss exchanged; E[c²]
is taken out of both, so that each is DXS' + S'XD again with D = E[c²].
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy import linalg

from mgvm._validation import FloatArray
from mgvm.learning._score_moments import Moments, blocks, couplings_of, half_coupling, own_blocks
from mgvm.learning.submodel import Submodel

_FLOOR = 1e-12


class Preconditioner(Protocol):
    """What conjugate gradients ask for."""

    own: FloatArray  # (D, 2T, 2T)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K, symmetric; not yet inside the submodel."""


def preconditioner(known: Moments, model: Submodel, ridge: float, dtype: Any) -> Preconditioner:
    """The one that suits the submodel."""
    kind = Full if model.sums.any() or not model.differences.any() else Differences
    return kind(known, model.order, ridge, dtype)


class _Own:
    """Blocks of the angles' own parameters."""

    def __init__(self, known: Moments, order: int, ridge: float, dtype: Any):
        own = own_blocks(known.harmonics, order)
        shift = _FLOOR * np.trace(own, axis1=1, axis2=2) / (2 * order) + ridge * known.spread
        self.own = np.linalg.inv(own + shift[:, None, None] * np.eye(2 * order)).astype(dtype)
        self._turns = own[:, :2, :2]  # E[t tᵀ] of every angle


class Full(_Own):
    """K ↦ 2(TKS + SKT)."""

    def __init__(self, known: Moments, order: int, ridge: float, dtype: Any):
        super().__init__(known, order, ridge, dtype)
        size = len(self._turns)
        T, here = np.zeros((2 * size, 2 * size)), np.arange(size)
        for row in range(2):
            for column in range(2):
                T[here + row * size, here + column * size] = self._turns[:, row, column]
        S = known.covariance + ridge * np.diag(np.tile(known.spread, 2))
        self._solve = _Lyapunov(T, S, 4.0, dtype)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K."""
        answer = self._solve(residual)
        return answer + answer.T


class Differences(_Own):
    """P alone: Re P and Im P apart, in the frame of the mean directions."""

    def __init__(self, known: Moments, order: int, ridge: float, dtype: Any):
        super().__init__(known, order, ridge, dtype)
        size = len(self._turns)
        # Of directions that the data hardly have any will do.
        turn = np.exp(1j * np.angle(known.harmonics[1]))
        self._frame = (turn[:, None] * turn.conj()).astype(np.complex64 if dtype == np.float32 else complex)
        cos, sin = turn.real, turn.imag
        cc, cs, sc, ss = blocks(known.covariance, size)
        along = cos[:, None] * cc * cos + cos[:, None] * cs * sin + sin[:, None] * sc * cos + sin[:, None] * ss * sin
        across = sin[:, None] * cc * sin - sin[:, None] * cs * cos - cos[:, None] * sc * sin + cos[:, None] * ss * cos
        # t = (-s, c) in this frame, so E[c²] is what t has across; E[s²] = 1 - E[c²].
        t = self._turns
        strong = sin**2 * t[:, 0, 0] - 2.0 * sin * cos * t[:, 0, 1] + cos**2 * t[:, 1, 1]
        weak = cos**2 * t[:, 0, 0] + 2.0 * sin * cos * t[:, 0, 1] + sin**2 * t[:, 1, 1]
        ratio = np.sqrt(np.maximum(weak, 0.0) / np.maximum(strong, _FLOOR))
        ratio = np.outer(ratio, ratio)
        held = ridge * np.diag(known.spread)
        self._real = _Lyapunov(np.diag(strong), across + ratio * along + held, 1.0, dtype)
        self._imaginary = _Lyapunov(np.diag(strong), along + ratio * across + held, 1.0, dtype)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K."""
        P, _ = couplings_of(residual, len(self._frame))
        P = P * self._frame.conj()
        answer = (self._real(P.real) + 1j * self._imaginary(P.imag)) * self._frame
        answer = 0.5 * (answer + answer.conj().T)
        return half_coupling(answer, np.zeros_like(answer))


class _Lyapunov:
    """X with scale (TXS + SXT) = R."""

    def __init__(self, T: FloatArray, S: FloatArray, scale: float, dtype: Any):
        jitter = _FLOOR * np.trace(T) / len(T)
        values, vectors = linalg.eigh(S, T + jitter * np.eye(len(T)), check_finite=False)
        values = np.maximum(values, _FLOOR * float(values[-1]))
        self._weights = (1.0 / (scale * (values[:, None] + values))).astype(dtype)
        self._vectors = vectors.astype(dtype)

    def __call__(self, residual: FloatArray) -> FloatArray:
        middle = self._vectors.T @ residual @ self._vectors
        middle *= self._weights
        return self._vectors @ middle @ self._vectors.T
