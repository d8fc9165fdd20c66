"""An approximate inverse of the Hessian of the log pseudo-likelihood.

With V_nd the covariance of x_nd = (cos φ_nd, sin φ_nd) under its conditional, the Hessian on the couplings C is that of
½ Σ_n w_n tr(Cᵀ V_n C x_n x_nᵀ)/N. Were V independent of x, it would be C ↦ ½(TCS + SCT), T = mean of V, S = Cov(x),
with the mean of x put into a' = a + C·E[x]; then (a', b) have a block of their own for every angle. With Uᵀ T U = 1 and
Uᵀ S U = Λ the equation is solved by C = U Y Uᵀ, Y_ij = 2 (Uᵀ G U)_ij/(λ_i + λ_j).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.learning._pseudo_objective import coupling_gradient, real_coupling

_FLOOR = 1e-10  # of the smallest eigenvalues in the largest: constant and perfectly dependent angles have none


class Preconditioner:
    """For data x (N, 2D) with shares (N,), refreshed by the mean covariances of the conditionals."""

    def __init__(self, x: FloatArray, share: FloatArray):
        self._mean = share @ x
        centred = x - self._mean
        self._spread = (centred * share[:, None]).T @ centred
        self._spread += _FLOOR * np.trace(self._spread) / len(self._spread) * np.eye(len(self._spread))

    def refresh(self, blocks: FloatArray) -> None:
        """Take the mean covariances (D, 2T, 2T) of (z, ..., z^T) given the other angles."""
        size, width = blocks.shape[:2]
        floor = np.maximum(_FLOOR * np.trace(blocks, axis1=1, axis2=2), np.finfo(float).tiny)
        blocks = blocks + floor[:, None, None] * np.eye(width)
        self._inverse = np.linalg.inv(blocks)
        first, place = np.zeros((2 * size, 2 * size)), np.arange(size)
        for i in range(2):
            for j in range(2):
                first[place + i * size, place + j * size] = blocks[:, i, j]
        values, self._axes = eigh(self._spread, first)
        values = np.maximum(values, _FLOOR * values[-1])
        self._sums = values[:, None] + values

    def solve(self, gradient: Natural) -> Natural:
        """The approximate Newton step."""
        size = gradient.dimension
        real = np.concatenate([gradient.a.real, gradient.a.imag])
        shift = coupling_gradient(np.outer(real, self._mean))
        centred = gradient._replace(P=gradient.P - shift[0], Q=gradient.Q - shift[1])
        turned = self._axes.T @ real_coupling(centred) @ self._axes
        coupling = self._axes @ (turned / self._sums) @ self._axes.T
        # Both passages between (P, Q) and C carry a factor of 4: |C|² = 4 (½|P|² + ½|Q|²).
        P, Q = coupling_gradient(0.125 * coupling)
        rows = np.stack([gradient.a, *gradient.b], axis=1)
        nodes = np.einsum("dij,dj->di", self._inverse, np.ascontiguousarray(rows).view(float))
        harmonics = np.ascontiguousarray(nodes).view(complex).T
        pull = real_coupling(Natural(gradient.a, gradient.b, P, Q)) @ self._mean
        return Natural(harmonics[0] - (pull[:size] + 1j * pull[size:]), harmonics[1:], P, Q)
