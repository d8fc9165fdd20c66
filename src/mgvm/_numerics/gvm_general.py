"""log Z and moments of a GvM of any order: the midpoint rule over the circle, only where the density is.

The nodes that matter form windows. In each, f is measured from its value at the window's best node φ_c:

    f(φ_c + δ) - f(φ_c) = Re[ζ Σ_j C_j z^j],   ζ = z - 1 = 2i sin(δ/2) e^{iδ/2},   C_j = Σ_{t>j} c_t e^{itφ_c},

because z^t - 1 = ζ (1 + z + ... + z^{t-1}): a small difference is never taken between large values.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mgvm._numerics.gvm_cells import grid_size, refine, total_concentration, value_and_slope

_DROP = 50.0  # deep, because a far window of weight e^-40 still weighs in 1 - |m₁| beside 1/(2K)


@njit(cache=True, error_model="numpy")
def _suffix_sums(c: np.ndarray, centre: float, out: np.ndarray) -> None:
    """C_j = Σ_{t>j} c_t e^{itφ_c}."""
    running = 0.0 + 0.0j
    for t in range(c.size, 0, -1):
        running += c[t - 1] * complex(math.cos(t * centre), math.sin(t * centre))
        out[t - 1] = running


@njit(cache=True, error_model="numpy")
def _one(c: np.ndarray, moments: np.ndarray) -> tuple[float, float, float]:
    """Fill the moments of one law; returns log Z, 1 - |m₁| and entropy."""
    order = c.size
    first, levels = grid_size(order, 20.0 + 8.0 * math.sqrt(total_concentration(c)) + moments.size)
    kept, facts, _ = refine(c, first, levels, _DROP)
    cells = first * 2**levels
    width = 2.0 * math.pi / cells
    peak = np.argmax(facts[:, 0])
    main = (kept[peak] + 0.5) * width - math.pi
    top = value_and_slope(c, main)[0]
    suffix = np.empty(order, dtype=np.complex128)
    moments[:] = 0.0
    z_sum = drop_sum = x_sum = y_sum = 0.0
    begin = 0
    while begin < kept.size:
        end = begin + 1
        while end < kept.size and kept[end] == kept[end - 1] + 1:
            end += 1
        centre = kept[begin + np.argmax(facts[begin:end, 0])]
        angle = (centre + 0.5) * width - math.pi
        _suffix_sums(c, angle, suffix)
        height = value_and_slope(c, angle)[0] - top
        for i in range(begin, end):
            half = 0.5 * (kept[i] - centre) * width
            sine, cosine = math.sin(half), math.cos(half)
            zeta = complex(-2.0 * sine * sine, 2.0 * sine * cosine)
            z = 1.0 + zeta
            inner = 0.0 + 0.0j
            for j in range(order - 1, -1, -1):
                inner = inner * z + suffix[j]
            rise = height + (zeta * inner).real
            weight = math.exp(rise)
            z_sum += weight
            drop_sum -= weight * rise
            # from the best node of all: half of φ - main
            half += 0.5 * (angle - main)
            sine = math.sin(half)
            x_sum += weight * 2.0 * sine * sine
            y_sum += weight * 2.0 * sine * math.cos(half)
            unit = complex(math.cos(angle), math.sin(angle)) * z
            power = unit
            for k in range(moments.size):
                moments[k] += weight * power
                power *= unit
        begin = end
    scale = 1.0 / z_sum
    for k in range(moments.size):
        moments[k] *= scale
    x, y = x_sum * scale, y_sum * scale
    square = 2.0 * x - x * x - y * y
    log_width = math.log(width * z_sum)
    dispersion = square / (1.0 + math.sqrt(max(1.0 - square, 0.0)))
    return top + log_width, dispersion, log_width + drop_sum * scale


@njit(cache=True)
def general_moments(eta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """log Z, moments 1..count, 1 - |m₁| and entropy of laws with natural parameters eta (n, T), T >= 1."""
    size = eta.shape[0]
    log_z, dispersion, entropy = np.empty(size), np.empty(size), np.empty(size)
    moments = np.empty((size, count), dtype=np.complex128)
    for i in range(size):
        log_z[i], dispersion[i], entropy[i] = _one(np.conj(eta[i]), moments[i])
    return log_z, moments, dispersion, entropy
