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
from mgvm._numerics.gvm_frame import one_less_length

_DROP = 50.0  # deep, because a far window of weight e^-40 still weighs in 1 - |m₁| beside 1/(2K)


@njit(cache=True, error_model="numpy")
def _suffix_sums(c: np.ndarray, centre: float, out: np.ndarray) -> None:
    """C_j = Σ_{t>j} c_t e^{itφ_c}."""
    running = 0.0 + 0.0j
    for t in range(c.size, 0, -1):
        running += c[t - 1] * complex(math.cos(t * centre), math.sin(t * centre))
        out[t - 1] = running


@njit(cache=True, error_model="numpy")
def _one(c: np.ndarray, moments: np.ndarray) -> tuple[float, float, float, float, float]:
    """Fill the moments of one law; returns log Z, 1 - |m₁|, entropy, log density at the reference, and the reference."""
    order = c.size
    first, levels = grid_size(order, 12.0 + 8.0 * (order + math.sqrt(total_concentration(c))) + moments.size)
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
    log_width = math.log(width * z_sum)
    dispersion = one_less_length(x, y)
    return top + log_width, dispersion, log_width + drop_sum * scale, -log_width, main


@njit(cache=True)
def general_moments(eta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Facts, references and moments 1..count, as `order_two_moments`, of laws with natural parameters eta (n, T), T >= 1."""
    size = eta.shape[0]
    facts, reference = np.empty((size, 4)), np.empty(size, dtype=np.complex128)
    moments = np.empty((size, count), dtype=np.complex128)
    for i in range(size):
        values = _one(np.conj(eta[i]), moments[i])
        facts[i, 0], facts[i, 1], facts[i, 2], facts[i, 3] = values[0], values[1], values[2], values[3]
        reference[i] = complex(math.cos(values[4]), math.sin(values[4]))
    return facts, reference, moments
