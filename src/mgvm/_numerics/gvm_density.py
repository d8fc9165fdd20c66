"""Log density of GvM laws of any order at many angles, without cancellation and at the speed of vector instructions.

From a reference angle φ_r, the highest mode wherever the law is concentrated,

    log p(φ) = log p(φ_r) + Re[ζ Σ_j C_j z^j],   ζ = z - 1,  z = e^{i(φ-φ_r)},   C_j = Σ_{t>j} c_t e^{itφ_r}

(see `gvm_general`): near the mode the error is that of a few units in the last place of a small number.
"""

from __future__ import annotations

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_cells import turn_and_sum
from mgvm._numerics.trigonometry import sin_cos

_BLOCK = 256


@entry()
def suffix_sums(eta: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """C_j of each law, shape (n, T)."""
    out = np.empty_like(eta)
    for i in range(eta.shape[0]):
        for t in range(eta.shape[1]):
            out[i, t] = eta[i, t].conjugate()
        turn_and_sum(out[i], reference[i])
    return out


@inner(fastmath={"contract"})
def _half_angles(n: int, work: np.ndarray) -> None:
    """Turn row 0, (x - φ_r)/2, into ζ in rows 0, 1 and z in rows 2, 3."""
    for i in range(n):
        work[2, i], work[3, i] = sin_cos(work[0, i])
    for i in range(n):
        sine, cosine = work[2, i], work[3, i]
        work[0, i], work[1, i] = -2.0 * sine * sine, 2.0 * sine * cosine
        work[2, i], work[3, i] = 1.0 - 2.0 * sine * sine, 2.0 * sine * cosine


@inner(fastmath={"contract"})
def _horner_step(real: np.ndarray, imag: np.ndarray, n: int, work: np.ndarray) -> None:
    """One step of Horner's rule on rows 4, 5, with the coefficients of each angle's law."""
    for i in range(n):
        a, b, x, y = work[4, i], work[5, i], work[2, i], work[3, i]
        work[4, i] = a * x - b * y + real[i]
        work[5, i] = a * y + b * x + imag[i]


@entry(fastmath={"contract"})
def log_densities(
    x: np.ndarray, rows: np.ndarray, reference: np.ndarray, log_reference: np.ndarray, c: np.ndarray, out: np.ndarray
) -> None:
    """Fill out[i] with the log density at x[i] of the law rows[i], or of the only law when rows is empty.

    Angles are at most some turns away from the circle.
    """
    work, real, imag = np.empty((6, _BLOCK)), np.empty(_BLOCK), np.empty(_BLOCK)
    only = rows.size == 0
    for begin in range(0, x.size, _BLOCK):
        n = min(_BLOCK, x.size - begin)
        for i in range(n):
            work[0, i] = 0.5 * (x[begin + i] - reference[0 if only else rows[begin + i]])
            work[4, i] = work[5, i] = 0.0
        _half_angles(n, work)
        for j in range(c.shape[1] - 1, -1, -1):
            for i in range(n):
                value = c[0 if only else rows[begin + i], j]
                real[i], imag[i] = value.real, value.imag
            _horner_step(real, imag, n, work)
        for i in range(n):
            rise = work[0, i] * work[4, i] - work[1, i] * work[5, i]
            out[begin + i] = rise + log_reference[0 if only else rows[begin + i]]
