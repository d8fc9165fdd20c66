"""Newton steps on the mean-field free energy, by conjugate gradients, column by column.

With r = a + C m - η the gradient of F in the moments and V the covariance of (cos φ_d, sin φ_d) of each factor, its
Hessian is C - V⁻¹. The step δm = V s solves (I - C V) s = r, and I - C V is self-adjoint in the inner product x·V y:
conjugate gradients in that product need neither V⁻¹ nor a root of V, which are ill-conditioned where laws are narrow.
"""

from __future__ import annotations

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.mean_field_newton import sparse_newton
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._mean_field_sweeps import State, Sweeper

_REDUCTION = 1e-4  # of the squared residual
_CHUNK = 2048


def _covariances(first: FloatArray, b: ComplexArray) -> FloatArray:
    """Covariance entries (cos cos, cos sin, sin sin) of GvM factors, (3, D, n)."""
    size, _, count = first.shape
    out = np.empty((3, size, count))
    rows = max(1, _CHUNK // count)
    for begin in range(0, size, rows):
        part = first[begin : begin + rows]
        eta = np.empty((part.shape[0], count, 1 + b.shape[0]), dtype=complex)
        eta[..., 0] = part[:, 0] + 1j * part[:, 1]
        eta[..., 1:] = b.T[begin : begin + rows, None]
        moments = gvm_facts(eta.reshape(-1, eta.shape[2]), eta.shape[2]).moments.reshape(part.shape[0], count, -1)
        x, y, second = moments[..., 0].real, moments[..., 0].imag, moments[..., 1]
        out[0, begin : begin + rows] = 0.5 * (1.0 + second.real) - x * x
        out[1, begin : begin + rows] = 0.5 * second.imag - x * y
        out[2, begin : begin + rows] = 0.5 * (1.0 - second.real) - y * y
    return out


def _times(V: FloatArray, x: FloatArray) -> FloatArray:
    """V x for x (D, 2, n)."""
    out = np.empty_like(x)
    out[:, 0] = V[0] * x[:, 0] + V[1] * x[:, 1]
    out[:, 1] = V[1] * x[:, 0] + V[2] * x[:, 1]
    return out


def _dot(x: FloatArray, y: FloatArray) -> FloatArray:
    if x.shape[2] == 1:
        return np.array([np.dot(x.ravel(), y.ravel())])
    return np.asarray(np.einsum("dki,dki->i", x, y))


def newton_step(sweeper: Sweeper, state: State, effort: int) -> FloatArray:
    """Changes of the pack, m and, for dense laws, C m, by one Newton step from a state after a sweep."""
    V = _covariances(state.first, sweeper.b)
    right = state.a + sweeper.multiply(state.m) - state.first
    if sweeper.coupling is not None:
        step = np.empty_like(right)
        sparse_newton(sweeper.coupling, V, right, step, effort, _REDUCTION)
        return step.reshape(-1, right.shape[2])
    return np.concatenate(_dense_newton(sweeper, V, right, effort)).reshape(-1, right.shape[2])


def _dense_newton(sweeper: Sweeper, V: FloatArray, right: FloatArray, effort: int) -> tuple[FloatArray, FloatArray]:
    """δm = V s and C δm, all columns at once."""
    s, residual = np.zeros_like(right), right.copy()
    V_residual = _times(V, residual)
    p, V_p = residual.copy(), V_residual.copy()
    square = _dot(residual, V_residual)
    goal, running = _REDUCTION * square, square > 0.0
    for iteration in range(effort):
        image = p - sweeper.multiply(V_p)
        curvature = _dot(image, V_p)
        # Uphill in both directions: what has been found so far is an ascent direction, at first the gradient.
        running &= curvature > 0.0
        if iteration == 0:
            s[..., ~running] = right[..., ~running]
            residual[..., ~running] -= image[..., ~running]
        if not running.any():
            break
        length = np.where(running, square / np.where(running, curvature, 1.0), 0.0)
        s += length * p
        residual -= length * image
        V_residual = _times(V, residual)
        new = _dot(residual, V_residual)
        running &= new > goal
        ratio = np.where(running, new / np.where(square > 0.0, square, 1.0), 0.0)
        p = residual + ratio * p
        V_p = V_residual + ratio * V_p
        square = new
    # The residual is right - (s - C V s), which gives C δm without another product.
    return _times(V, s), s - right + residual
