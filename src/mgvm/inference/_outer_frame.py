"""A law on the torus with one angle integrated out exactly, seen from a point near its peak.

The angles stand in the order (outer angles, inner angle). Given the outer angles the inner one is a GvM, so that

    v(φ) = log ∫ exp f(φ, φ_e) dφ_e = f_A(φ) + log Z_GvM(η(φ)),   η₁ = a_e + Σ_j P_ej z_j + Q_ej conj(z_j).

Written as it stands, f loses eps·K to rounding. Around an anchor θ, with ψ = φ - θ, the law has parameters a e^{-iθ}
and so on, and with w = e^{iψ} - 1 and the field h = a + P 1 + Q 1 at the anchor,

    f(θ + ψ) - f(θ) = Re Σ_d conj(h_d) w_d + Re Σ_d Σ_t conj(b_t,d) (e^{itψ_d} - 1)
                      + Re Σ_{d<j} [conj(w_d) P_dj w_j + w_d conj(Q_dj) w_j]

holds nothing large where ψ is small.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.gvm_shared import less_one, shared_moments
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural, concentrations

_SHARED = 1024  # nodes of the inner angle up to which the rule for shared harmonics beats windows


class Points(NamedTuple):
    """Outer angles `psi` (outer, n), relative to the anchors, of the laws `rows` (n,)."""

    rows: np.ndarray
    psi: FloatArray

    def __getitem__(self, part: slice) -> Points:  # type: ignore[override]
        return Points(self.rows[part], self.psi[:, part])


class Inner(NamedTuple):
    """The inner angle at some points: v - f(anchor), natural parameters of its GvM, a typical angle, and moments 1.."""

    value: FloatArray
    eta: ComplexArray
    reference: FloatArray
    moments: ComplexArray


def dot(first: ComplexArray, second: ComplexArray) -> FloatArray:
    """Re(conj(first) second)."""
    product: FloatArray = first.real * second.real + first.imag * second.imag
    return product


class Frame:
    """Laws a (m, D), sharing b, P and Q, around anchors (m, D), or around the origin.

    `nodes` is the size of a trapezoid rule that is exact for the inner angle.
    """

    def __init__(self, law: Natural, nodes: int, anchor: FloatArray | None = None):
        self._is_near = anchor is not None
        self._nodes = nodes
        anchor = np.zeros((1, law.dimension)) if anchor is None else anchor
        turn = np.exp(-1j * anchor)
        across = turn[:, :, None]
        self.anchor = anchor
        self.dimension, self.order = law.dimension, law.order
        self.P = across * law.P * np.conj(turn)[:, None, :]
        self.Q = across * law.Q * turn[:, None, :]
        self.b = law.b * turn[:, None, :] ** np.arange(2, law.order + 1)[:, None]
        own = law.a * turn
        self.field = own + self.P.sum(axis=2) + self.Q.sum(axis=2)
        self.base = own.real.sum(axis=1) + self.b.real.sum(axis=(1, 2)) + 0.5 * (self.P + self.Q).real.sum(axis=(1, 2))
        self._curvature = concentrations(law)
        self._cross = abs(law.P) + abs(law.Q)

    def _at(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return values[0] if values.shape[0] == 1 else values[rows]

    def difference(self, psi: FloatArray) -> FloatArray:
        """f(anchor + ψ) - f(anchor) of the first law, with all angles given: ψ (n, D)."""
        everything = Points(np.zeros(psi.shape[0], dtype=np.intp), psi.T)
        return self._own(everything, less_one(everything.psi))

    def _own(self, points: Points, w: ComplexArray) -> FloatArray:
        """The terms of f that hold none but the given angles, less their value at the anchor."""
        rows, psi = points
        value = np.zeros(rows.shape)
        for j in range(psi.shape[0]):
            value += dot(self._at(self.field[:, j], rows), w[j])
            power = w[j]
            for t in range(self.b.shape[1]):
                power = power + w[j] * (1.0 + power)
                value += dot(self._at(self.b[:, t, j], rows), power)
        for i, j in itertools.combinations(range(psi.shape[0]), 2):
            value += dot(w[i], self._pull(i, j, rows, w[j]))
        return value

    def _pull(self, i: int, j: int, rows: np.ndarray, w: ComplexArray) -> ComplexArray:
        """P_ij w + Q_ij conj(w): what angle j adds to the field of angle i."""
        pull: ComplexArray = self._at(self.P[:, i, j], rows) * w + self._at(self.Q[:, i, j], rows) * np.conj(w)
        return pull

    def _eta(self, rows: np.ndarray, w: ComplexArray) -> ComplexArray:
        """Natural parameters of the inner angle, (n, T)."""
        inner = self.dimension - 1
        eta = np.empty((rows.size, self.b.shape[1] + 1), dtype=complex)
        eta[:, 0] = self._at(self.field[:, inner], rows)
        for j in range(inner):
            eta[:, 0] += self._pull(inner, j, rows, w[j])
        eta[:, 1:] = self._at(self.b[:, :, inner], rows)
        return eta

    def inner(self, points: Points) -> Inner:
        """v - f(anchor) at some points, and the law of the inner angle there."""
        w = less_one(points.psi)
        eta = self._eta(points.rows, w)
        value, reference, moments = self._integral(eta)
        return Inner(self._own(points, w) + value, eta, reference, moments)

    def _integral(self, eta: ComplexArray) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """log ∫ exp Re Σ_t conj(η_t) (e^{itφ} - 1) dφ over the inner angle, a typical angle, and moments."""
        if self.order > 2 and self._nodes <= _SHARED:
            log_normalizer, log_reference, reference, moments = shared_moments(eta, self._nodes, self.order)
        else:
            facts = gvm_facts(eta, max(self.order, 4))
            log_normalizer, log_reference, reference, moments = facts[0], facts[3], facts[4], facts[5]
        if not self._is_near:
            return log_normalizer - eta.real.sum(axis=1), reference, moments
        # log Z is the log density at the reference, not yet normalised, less the normalised one: two small numbers.
        value = -log_reference
        w = less_one(reference[None])[0]
        power = np.zeros_like(w)
        for t in range(eta.shape[1]):
            power = power + w * (1.0 + power)
            value += dot(eta[:, t], power)
        return value, reference, moments

    def slack(self, rows: np.ndarray, radius: FloatArray) -> FloatArray:
        """½ Σ K_j r_j² + Σ_{i<j} c_ij r_i r_j, the most that second derivatives add to f within a cell."""
        total = np.zeros(rows.shape)
        for j, r in enumerate(radius):
            total += 0.5 * r * r * self._at(self._curvature[:, j], rows)
        for i, j in itertools.combinations(range(radius.size), 2):
            total += float(self._cross[i, j]) * radius[i] * radius[j]
        return total

    def bound(self, points: Points, radius: FloatArray) -> FloatArray:
        """An upper bound of v - f(anchor) on cells of half-widths `radius` around the points.

        By Taylor f(φ + δ, φ_e) <= f + ∇f·δ + slack for every φ_e. ∇f is affine in e^{iφ_e}, so that the integral of
        exp(f + ∇f·δ) over φ_e is that of a GvM with η₁ + Σ_j δ_j ∂_jη₁. Its logarithm is convex in δ: largest at a
        corner.
        """
        rows, psi = points
        w = less_one(psi)
        value, eta = self._own(points, w), self._eta(rows, w)
        slopes = [r * self._slope(j, points, w) for j, r in enumerate(radius)]
        turns = [r * self._turn(j, rows, w[j]) for j, r in enumerate(radius)]
        best = np.full(rows.shape, -np.inf)
        for signs in itertools.product((-1.0, 1.0), repeat=radius.size):
            corner = eta.copy()
            linear = value.copy()
            for sign, slope, turn in zip(signs, slopes, turns, strict=True):
                corner[:, 0] += sign * turn
                linear += sign * slope
            np.maximum(best, linear + self._integral(corner)[0], out=best)
        return best + self.slack(rows, radius)

    def _slope(self, j: int, points: Points, w: ComplexArray) -> FloatArray:
        """∂_j of the terms that hold outer angles only (the inner one stands at its anchor)."""
        rows, psi = points
        field = self._at(self.field[:, j], rows)
        for i in range(psi.shape[0]):
            if i != j:
                field = field + self._pull(j, i, rows, w[i])
        slope = dot(field, 1j * (1.0 + w[j]))
        for t in range(2, self.b.shape[1] + 2):
            slope = slope + dot(self._at(self.b[:, t - 2, j], rows), 1j * t * np.exp(1j * t * psi[j]))
        return slope

    def _turn(self, j: int, rows: np.ndarray, w: ComplexArray) -> ComplexArray:
        """∂_j η₁ = i P_ej z_j - i Q_ej conj(z_j)."""
        return self._pull(self.dimension - 1, j, rows, 1j * (1.0 + w))
