"""Log density of GvM laws of any order at many angles, without cancellation and at the speed of vector instructions.

From a reference angle φ_r, the highest mode wherever the law is concentrated,

    log p(φ) = log p(φ_r) + Re[ζ Σ_j C_j z^j],   ζ = z - 1,  z = e^{i(φ-φ_r)},   C_j = Σ_{t>j} c_t e^{itφ_r}

(see `gvm_general`): near the mode the error is that of a few units in the last place of a small number.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mgvm._numerics.trigonometry import LARGEST, sin_cos

_BLOCK = 256


@njit(cache=True, error_model="numpy")
def suffix_sums(eta: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """C_j of each law, shape (n, T)."""
    out = np.empty_like(eta)
    for i in range(eta.shape[0]):
        running = 0.0 + 0.0j
        for t in range(eta.shape[1], 0, -1):
            angle = t * reference[i]
            running += eta[i, t - 1].conjugate() * complex(math.cos(angle), math.sin(angle))
            out[i, t - 1] = running
    return out


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _half_angles(x: np.ndarray, rows: np.ndarray, reference: np.ndarray, work: np.ndarray) -> None:
    """Rows 0, 1: sine and cosine of (x - φ_r)/2."""
    if rows.size == 0:
        for i in range(x.size):
            work[0, i] = 0.5 * (x[i] - reference[0])
    else:
        for i in range(x.size):
            work[0, i] = 0.5 * (x[i] - reference[rows[i]])
    largest = 0.0
    for i in range(x.size):
        largest = max(largest, abs(work[0, i]))
    if largest < LARGEST:
        for i in range(x.size):
            work[0, i], work[1, i] = sin_cos(work[0, i])
    else:
        for i in range(x.size):
            half = work[0, i]
            work[0, i], work[1, i] = math.sin(half), math.cos(half)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _horner(c: np.ndarray, rows: np.ndarray, n: int, work: np.ndarray) -> None:
    """Rows 4, 5: real and imaginary part of Σ C_j z^j, z in rows 2, 3."""
    work[4:6, :n] = 0.0
    for j in range(c.shape[1] - 1, -1, -1):
        if rows.size == 0:
            real, imag = c[0, j].real, c[0, j].imag
            for i in range(n):
                a, b, x, y = work[4, i], work[5, i], work[2, i], work[3, i]
                work[4, i] = a * x - b * y + real
                work[5, i] = a * y + b * x + imag
        else:
            for i in range(n):
                value = c[rows[i], j]
                a, b, x, y = work[4, i], work[5, i], work[2, i], work[3, i]
                work[4, i] = a * x - b * y + value.real
                work[5, i] = a * y + b * x + value.imag


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def log_densities(
    x: np.ndarray, rows: np.ndarray, reference: np.ndarray, log_reference: np.ndarray, c: np.ndarray, out: np.ndarray
) -> None:
    """Fill out[i] with the log density at x[i] of the law rows[i], or of the only law when rows is empty."""
    work = np.empty((6, _BLOCK))
    for begin in range(0, x.size, _BLOCK):
        end = min(begin + _BLOCK, x.size)
        n = end - begin
        part = rows[begin:end] if rows.size else rows
        _half_angles(x[begin:end], part, reference, work)
        for i in range(n):
            sine, cosine = work[0, i], work[1, i]
            work[0, i], work[1, i] = -2.0 * sine * sine, 2.0 * sine * cosine
            work[2, i], work[3, i] = 1.0 - 2.0 * sine * sine, 2.0 * sine * cosine
        _horner(c, part, n, work)
        for i in range(n):
            rise = work[0, i] * work[4, i] - work[1, i] * work[5, i]
            out[begin + i] = rise + (log_reference[rows[begin + i]] if rows.size else log_reference[0])
