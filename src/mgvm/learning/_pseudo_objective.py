"""The log pseudo-likelihood of rows of angles, its gradient and the products of its Hessian with a vector.

    ℓ(θ) = Σ_n w_n Σ_d log GvM(φ_nd | η_nd) / N,   η_nd = (a_d + (P z_n)_d + (Q conj(z_n))_d, b_2d, ..., b_Td):

the η are linear in θ = (a, b, P, Q), so ℓ is concave. With ε_t = z^t - E[z^t] under the conditionals its gradient is
made of Σ_n w_n ε_t and Σ_n w_n ε_1 xᵀ, x = (cos φ, sin φ); its Hessian puts in place of ε minus the covariance of
(z, ..., z^T) times the change of η. Fields of all rows are one product of real matrices, X C, with the coupling

    C = [[Re(P + Q), Im(Q - P)], [Im(P + Q), Re(P - Q)]],   all cosines before all sines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural
from mgvm.learning._rows import Rows

_LAWS = 1 << 17  # conditionals at a time: temporary arrays of some 30 MB
_EXACT = 1 << 22  # conditionals up to which covariances are kept in double precision, 60 bytes each


class Covariances(NamedTuple):
    """Of the conditionals of some rows, d E[z] = A₁ dη₁ + B₁ conj(dη₁) + Σ_t (A_t db_t + B_t conj(db_t)).

    keep (n, D) and turn (n, D) are A₁ (real) and B₁; `mixed` (T - 1, 2, n, D) the A_t and B_t.
    """

    rows: slice
    keep: FloatArray
    turn: ComplexArray
    mixed: ComplexArray


class Curvature(NamedTuple):
    """What products with the Hessian need: the covariances by chunks of rows, and those of the harmonics, averaged.

    `harmonics` (T - 1, T - 1, 2, D) holds Σ_n w_n/N of the A and B with d E[z^t] = A db_s + B conj(db_s); `first` the
    mean covariance of (z, ..., z^T) as real matrices (D, 2T, 2T), for the preconditioner.
    """

    chunks: list[Covariances]
    harmonics: ComplexArray
    first: FloatArray


class PseudoLikelihood:
    """ℓ of given rows and order."""

    def __init__(self, data: Rows, order: int):
        self.order, self.dimension = order, data.dimension
        self.x = np.concatenate([np.cos(data.x), np.sin(data.x)], axis=1)
        self.share = data.weights / data.n_rows
        step = max(1, _LAWS // data.dimension)
        self._chunks = [slice(k, min(k + step, data.n_rows)) for k in range(0, data.n_rows, step)]
        self._kept_as = np.dtype(complex if data.x.size <= _EXACT else np.complex64)

    def value(self, law: Natural) -> float:
        """ℓ."""
        total, coupling = 0.0, real_coupling(law)
        for rows in self._chunks:
            eta, z = self._conditionals(law, coupling, rows)
            facts = gvm_facts(eta.reshape(-1, self.order), 1)
            total += self._height(rows, eta, z, facts.log_normalizer)
        return total

    def gradient(self, law: Natural) -> tuple[float, Natural, Curvature]:
        """ℓ, its gradient in the inner product of the natural vector, and its curvature."""
        size, order, coupling = self.dimension, self.order, real_coupling(law)
        total, error = 0.0, np.zeros((order, size), dtype=complex)
        cross = np.zeros((2 * size, 2 * size))
        chunks, spread = [], np.zeros((order, order, 2, size), dtype=complex)
        for rows in self._chunks:
            eta, z = self._conditionals(law, coupling, rows)
            facts = gvm_facts(eta.reshape(-1, order), 2 * order)
            total += self._height(rows, eta, z, facts.log_normalizer)
            moments = facts.moments[:, : 2 * order].reshape(-1, size, 2 * order)
            error += np.array([self.share[rows] @ (z ** (t + 1) - moments[..., t]) for t in range(order)])
            cross += self._cross(rows, z - moments[..., 0])
            chunks.append(self._covariances(rows, moments, spread))
        gradient = Natural(error[0], error[1:], *coupling_gradient(cross))
        return total, gradient, Curvature(chunks, spread[1:, 1:], _real_blocks(spread))

    def product(self, curvature: Curvature, change: Natural) -> Natural:
        """Minus the Hessian times a change of θ."""
        size, coupling = self.dimension, real_coupling(change)
        error = np.zeros((self.order, size), dtype=complex)
        cross = np.zeros((2 * size, 2 * size))
        for part in curvature.chunks:
            field = self._field(change, coupling, part.rows)
            moved = part.keep * field + part.turn * field.conj()
            for (keep, turn), b in zip(part.mixed, change.b, strict=True):
                moved += keep * b + turn * b.conj()
            share = self.share[part.rows]
            error[0] += share @ moved
            for t, (keep, turn) in enumerate(part.mixed, start=1):
                # Cov(z^t, z) is the transpose of Cov(z, z^t): A → conj(A), B stays.
                error[t] += share @ (keep.conj() * field + turn * field.conj())
            cross += self._cross(part.rows, moved)
        blocks = curvature.harmonics
        error[1:] += np.einsum("tsd,sd->td", blocks[:, :, 0], change.b)
        error[1:] += np.einsum("tsd,sd->td", blocks[:, :, 1], change.b.conj())
        return Natural(error[0], error[1:], *coupling_gradient(cross))

    def _field(self, law: Natural, coupling: FloatArray, rows: slice) -> ComplexArray:
        pull = self.x[rows] @ coupling
        return law.a + (pull[:, : self.dimension] + 1j * pull[:, self.dimension :])

    def _conditionals(self, law: Natural, coupling: FloatArray, rows: slice) -> tuple[ComplexArray, ComplexArray]:
        """η (n, D, T) and z (n, D)."""
        x = self.x[rows]
        eta = np.empty((len(x), self.dimension, self.order), dtype=complex)
        eta[..., 0] = self._field(law, coupling, rows)
        eta[..., 1:] = law.b.T
        return eta, x[:, : self.dimension] + 1j * x[:, self.dimension :]

    def _height(self, rows: slice, eta: ComplexArray, z: ComplexArray, log_normalizer: FloatArray) -> float:
        height = sum((eta[..., t].conj() * z ** (t + 1)).real for t in range(self.order))
        return float(self.share[rows] @ (height - log_normalizer.reshape(z.shape)).sum(axis=1))

    def _cross(self, rows: slice, error: ComplexArray) -> FloatArray:
        weighted = error * self.share[rows, None]
        return np.concatenate([weighted.real, weighted.imag], axis=1).T @ self.x[rows]

    def _covariances(self, rows: slice, moments: ComplexArray, spread: ComplexArray) -> Covariances:
        """The covariances of some rows; adds their weighted sum to `spread` (T, T, 2, D)."""
        order, share = self.order, self.share[rows]
        mixed = np.empty((order - 1, 2, *moments.shape[:2]), dtype=self._kept_as)
        first: tuple[ComplexArray, ComplexArray] | None = None
        for t in range(1, order + 1):
            for s in range(t, order + 1):
                keep, turn = _half_covariance(moments, t, s)
                spread[t - 1, s - 1, 0] += share @ keep
                spread[t - 1, s - 1, 1] += share @ turn
                if s > t:
                    spread[s - 1, t - 1, 0] += share @ keep.conj()
                    spread[s - 1, t - 1, 1] += share @ turn
                if t == 1 and s == 1:
                    first = keep, turn
                elif t == 1:
                    mixed[s - 2, 0], mixed[s - 2, 1] = keep, turn
        assert first is not None
        return Covariances(rows, first[0].real.astype(mixed.real.dtype), first[1].astype(mixed.dtype), mixed)


def _half_covariance(moments: ComplexArray, t: int, s: int) -> tuple[ComplexArray, ComplexArray]:
    """A and B with d E[z^t] = A dη_s + B conj(dη_s): ½(m_{t-s} - m_t conj(m_s)) and ½(m_{t+s} - m_t m_s), t <= s."""
    first, second = moments[..., t - 1], moments[..., s - 1]
    gap = moments[..., s - t - 1].conj() if s > t else 1.0
    return 0.5 * (gap - first * second.conj()), 0.5 * (moments[..., t + s - 1] - first * second)


def _real_blocks(spread: ComplexArray) -> FloatArray:
    """The map dη ↦ d E of every node as a symmetric real matrix of (Re, Im) pairs, (D, 2T, 2T)."""
    keep, turn = np.moveaxis(spread, 3, 0)[:, :, :, 0], np.moveaxis(spread, 3, 0)[:, :, :, 1]
    size, order = keep.shape[:2]
    out = np.empty((size, order, 2, order, 2))
    out[:, :, 0, :, 0] = keep.real + turn.real
    out[:, :, 0, :, 1] = turn.imag - keep.imag
    out[:, :, 1, :, 0] = turn.imag + keep.imag
    out[:, :, 1, :, 1] = keep.real - turn.real
    return out.reshape(size, 2 * order, 2 * order)


def real_coupling(law: Natural) -> FloatArray:
    """C (2D, 2D) of dense P and Q, all cosines before all sines."""
    P, Q = law.P, law.Q
    return np.block([[P.real + Q.real, Q.imag - P.imag], [P.imag + Q.imag, P.real - Q.real]])


def coupling_gradient(cross: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """Gradients in P and Q of tr(Kᵀ C(P, Q)), K = `cross` (2D, 2D): the adjoint of `real_coupling`."""
    size = len(cross) // 2
    cc, cs, sc, ss = cross[:size, :size], cross[:size, size:], cross[size:, :size], cross[size:, size:]
    difference = (cc + ss) + 1j * (sc - cs)
    total = (cc - ss) + 1j * (sc + cs)
    P, Q = difference + difference.conj().T, total + total.T
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(Q, 0.0)
    return P, Q
