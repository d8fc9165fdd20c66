"""Many GvM laws of one shape: natural parameters that differ in η₁, and share their higher harmonics in long runs.

Such are the conditional laws of one angle on a grid of others. The harmonics are summed once a run at the nodes of a
trapezoid rule, so that a law costs one exponential a node whatever its order.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.exponential import bounded_exp
from mgvm._numerics.trigonometry import sin_cos
from mgvm._validation import ComplexArray, FloatArray


@entry(fastmath={"contract"})
def less_one(psi: np.ndarray) -> np.ndarray:
    """e^{iψ} - 1 = -2 sin²(ψ/2) + 2i sin(ψ/2) cos(ψ/2) of angles (k, n), |ψ| <= 1e5."""
    rows, count = psi.shape
    out = np.empty((rows, count), dtype=np.complex128)
    for j in range(rows):
        for i in range(count):
            sine, cosine = sin_cos(0.5 * psi[j, i])
            out[j, i] = complex(-2.0 * sine * sine, 2.0 * sine * cosine)
    return out


@inner(fastmath={"contract"})
def _harmonics(eta: np.ndarray, i: int, tables: np.ndarray, out: np.ndarray) -> None:
    """Re Σ_{t>1} conj(η_t) z^t at the nodes, unless it is that of the law before."""
    same = i > 0
    for t in range(1, eta.shape[1]):
        same = same and eta[i, t] == eta[i - 1, t]
    if same:
        return
    out[:] = 0.0
    for t in range(1, eta.shape[1]):
        real, imag = eta[i, t].real, eta[i, t].imag
        for k in range(out.size):
            out[k] += real * tables[t, 0, k] + imag * tables[t, 1, k]


@inner(fastmath={"contract", "reassoc"})
def _sum(weight: np.ndarray) -> float:
    total = 0.0
    for k in range(weight.size):
        total += weight[k]
    return total


@inner(fastmath={"contract", "reassoc"})
def _product(weight: np.ndarray, table: np.ndarray) -> complex:
    real = imag = 0.0
    for k in range(weight.size):
        real += weight[k] * table[0, k]
        imag += weight[k] * table[1, k]
    return complex(real, imag)


@entry(fastmath={"contract"})
def _run(eta: np.ndarray, tables: np.ndarray, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log Z, log density at the highest node, that node; the moments are written."""
    laws, nodes = eta.shape[0], tables.shape[2]
    log_normalizer, log_highest, highest = np.empty(laws), np.empty(laws), np.empty(laws, dtype=np.int64)
    shared, weight = np.zeros(nodes), np.empty(nodes)
    for i in range(laws):
        _harmonics(eta, i, tables, shared)
        p, q = eta[i, 0].real, eta[i, 0].imag
        for k in range(nodes):
            weight[k] = shared[k] + (p * tables[0, 0, k] + q * tables[0, 1, k])
        place = 0
        for k in range(nodes):
            if weight[k] > weight[place]:
                place = k
        top = weight[place]
        for k in range(nodes):
            weight[k] = bounded_exp(max(weight[k] - top, -700.0))
        total = _sum(weight)
        log_highest[i], highest[i] = -math.log(total * (2.0 * math.pi / nodes)), place
        log_normalizer[i] = top - log_highest[i]
        for t in range(moments.shape[1]):
            moments[i, t] = _product(weight, tables[t]) / total
    return log_normalizer, log_highest, highest


def shared_moments(
    eta: ComplexArray, nodes: int, count: int
) -> tuple[FloatArray, FloatArray, FloatArray, ComplexArray]:
    """log Z, log density at a reference angle, that angle, and moments 1 … count <= T of laws (n, T)."""
    angles = -np.pi + 2.0 * np.pi * np.arange(nodes) / nodes
    multiples = np.multiply.outer(np.arange(1, eta.shape[1] + 1), angles)
    tables = np.stack([np.cos(multiples), np.sin(multiples)], axis=1)
    moments = np.empty((eta.shape[0], count), dtype=complex)
    log_normalizer, log_highest, highest = _run(eta, tables, moments)
    return log_normalizer, log_highest, angles[highest], moments
