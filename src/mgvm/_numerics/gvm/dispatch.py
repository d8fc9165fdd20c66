"""The numerics of a batch of GvM distributions of any order: what they are asked for, and what answers.

`is_small` is the one switch between NumPy (`small`) and compiled code. The `gvm_*` functions ask it; where work is
large they choose between the kernels for order two and those for any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics.elementary import bounded_exp, entry, inner, sin_cos
from mgvm._numerics.gvm import small
from mgvm._numerics.gvm.general import general_moments, panel_starts
from mgvm._numerics.gvm.order_two import order_two_moments
from mgvm._numerics.gvm.sampling import sample_each, sample_tables
from mgvm._numerics.gvm.trapezoid import add_up
from mgvm._validation import ComplexArray, FloatArray

# Evaluations of an exponent that NumPy does, in a millisecond or two; to compile for more takes seconds, once.
SMALL = 1 << 14


def is_small(evaluations: int) -> bool:
    """Whether so many evaluations of an exponent are left to NumPy, so that nothing need be compiled for them."""
    return evaluations <= SMALL


# ---- log densities --------------------------------------------------------------------------------------------------
#
# From a reference angle φ_r, the highest mode wherever the distribution is concentrated,
#
#     log p(φ) = log p(φ_r) + Re[ζ Σ_j C_j z^j],   ζ = z - 1,  z = e^{i(φ-φ_r)},   C_j = Σ_{t>j} c_t e^{itφ_r}
#
# (see `general`): near the mode the error is that of a few units in the last place of a small number.


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
    """One step of Horner's rule on rows 4, 5, with the coefficients of each angle's distribution."""
    for i in range(n):
        a, b, x, y = work[4, i], work[5, i], work[2, i], work[3, i]
        work[4, i] = a * x - b * y + real[i]
        work[5, i] = a * y + b * x + imag[i]


@entry(fastmath={"contract"})
def _log_densities(
    x: np.ndarray, rows: np.ndarray, reference: np.ndarray, log_reference: np.ndarray, c: np.ndarray, out: np.ndarray
) -> None:
    """Fill out[i] with the log density at x[i] of the distribution rows[i], or of the only distribution when rows is
    empty.

    Angles are at most some turns away from the circle.
    """
    block = 256  # angles whose rows stay in the first cache
    work, real, imag = np.empty((6, block)), np.empty(block), np.empty(block)
    only = rows.size == 0
    for begin in range(0, x.size, block):
        n = min(block, x.size - begin)
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


def gvm_log_densities(
    x: FloatArray, rows: np.ndarray, reference: FloatArray, log_reference: FloatArray, suffix: ComplexArray
) -> FloatArray:
    """Log densities at angles x (n,) of the distributions `rows` (n,), or of the only one when rows is empty.

    `suffix` are the C_j of `suffix_sums` at the reference angles.
    """
    if is_small(x.size):
        here = rows if rows.size else np.zeros(x.size, dtype=int)
        return small.rise(suffix, here, 0.5 * (x - reference[here]))[0] + log_reference[here]
    out = np.empty(x.size)
    _log_densities(x, rows, reference, log_reference, suffix, out)
    return out


@entry(fastmath={"contract"})
def _log_slopes(x: np.ndarray, rows: np.ndarray, reference: np.ndarray, c: np.ndarray, out: np.ndarray) -> None:
    """Fill out[i] with the slope of the log density, as `_log_densities`."""
    for i in range(x.size):
        row = rows[i]
        sine, cosine = sin_cos(0.5 * (x[i] - reference[row]))
        zeta = complex(-2.0 * sine * sine, 2.0 * sine * cosine)
        z = 1.0 + zeta
        total = weighted = 0.0 + 0.0j
        for j in range(c.shape[1] - 1, -1, -1):
            total = total * z + c[row, j]
            weighted = weighted * z + j * c[row, j]
        out[i] = -(z * total + zeta * weighted).imag


def gvm_log_slopes(x: FloatArray, rows: np.ndarray, reference: FloatArray, suffix: ComplexArray) -> FloatArray:
    """Slopes of the log densities at angles x (n,) of the distributions `rows` (n,)."""
    if is_small(x.size):
        return small.climb(suffix, rows, 0.5 * (x - reference[rows]))
    out = np.empty(x.size)
    _log_slopes(x, rows, reference, suffix, out)
    return out


@entry(fastmath={"contract"})
def _masses(
    ends: np.ndarray,
    rows: np.ndarray,
    rule: np.ndarray,
    reference: np.ndarray,
    log_reference: np.ndarray,
    c: np.ndarray,
    out: np.ndarray,
) -> None:
    """Fill out[i] with the integral of the density from ends[0, i] to ends[1, i]."""
    n = rule.shape[1]
    work, weight = np.empty((6, n)), np.empty(n)
    for i in range(rows.size):
        row, half = rows[i], 0.5 * (ends[1, i] - ends[0, i])
        for k in range(n):
            work[0, k] = 0.5 * (ends[0, i] + half * (1.0 + rule[0, k]) - reference[row])
            work[4, k] = work[5, k] = 0.0
        _half_angles(n, work)
        for j in range(c.shape[1] - 1, -1, -1):
            real, imag = c[row, j].real, c[row, j].imag
            for k in range(n):
                a, b, x, y = work[4, k], work[5, k], work[2, k], work[3, k]
                work[4, k] = a * x - b * y + real
                work[5, k] = a * y + b * x + imag
        for k in range(n):
            rise = work[0, k] * work[4, k] - work[1, k] * work[5, k] + log_reference[row]
            weight[k] = rule[1, k] * bounded_exp(max(rise, -700.0))
        out[i] = half * add_up(weight)


def gvm_masses(
    ends: FloatArray,
    rows: np.ndarray,
    rule: FloatArray,
    reference: FloatArray,
    log_reference: FloatArray,
    suffix: ComplexArray,
) -> FloatArray:
    """Integrals of the densities of the distributions `rows` (n,) from ends[0] to ends[1], (2, n), by a Gauss rule.

    The rule has nodes on [-1, 1] and weights, (2, nodes).
    """
    if is_small(rule.shape[1] * rows.size):
        half = 0.5 * (ends[1] - ends[0])
        x = ends[0][:, None] + half[:, None] * (1.0 + rule[0])
        here = np.repeat(rows, rule.shape[1])
        log_density = gvm_log_densities(x.ravel(), here, reference, log_reference, suffix)
        return np.asarray(half * (np.exp(log_density).reshape(x.shape) @ rule[1]))
    out = np.empty(rows.size)
    _masses(ends, rows, rule, reference, log_reference, suffix, out)
    return out


# ---- facts, panels and draws ----------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """Of each distribution: log Z, 1 - |m₁|, entropy, moments 1.., and a reference angle with the log density there."""

    log_normalizer: FloatArray
    dispersion: FloatArray
    entropy: FloatArray
    log_reference: FloatArray
    reference: FloatArray
    moments: ComplexArray


def _pad_to_order_two(eta: ComplexArray) -> ComplexArray:
    """Orders 0 and 1 as order 2."""
    missing = 2 - eta.shape[1]
    if missing > 0:
        eta = np.concatenate([eta, np.zeros((eta.shape[0], missing), dtype=complex)], axis=1)
    # The compiler takes a read-only array for another type and would compile all again.
    return np.require(eta, dtype=complex, requirements=["C", "W"])


def gvm_facts(eta: ComplexArray, count: int = 4) -> Facts:
    """Facts of distributions with natural parameters eta (n, T), with at least `count` moments."""
    eta = _pad_to_order_two(eta)
    found = None
    if is_small(64 * eta.shape[0]):  # 64 cells are what an ordinary distribution takes
        found = small.moments(eta, count, SMALL)
    if found is None and eta.shape[1] == 2 and count <= 4:
        found = order_two_moments(eta)
    facts, reference, moments = general_moments(eta, count) if found is None else found
    return Facts(facts[:, 0], facts[:, 1], facts[:, 2], facts[:, 3], np.angle(reference), moments)


def gvm_panels(eta: ComplexArray) -> tuple[np.ndarray, FloatArray]:
    """Rows and lower edges of panels of the circle on which the densities are smooth, in increasing order.

    They are at most three standard deviations wide, of the sharpest peak that the concentration allows, wherever the
    density is above e^-45 of its maximum, and coarser elsewhere.
    """
    eta = _pad_to_order_two(eta)
    found = small.panel_starts(np.conj(eta), SMALL) if is_small(64 * eta.shape[0]) else None
    if found is not None:
        return found
    row, start = panel_starts(eta)
    order = np.lexsort((start, row))
    return row[order], start[order]


def gvm_turning_cells(eta: ComplexArray) -> tuple[np.ndarray, FloatArray]:
    """Rows and lower edges, in increasing order, of cells in which the slope changes its sign once at most."""
    return small.turning_starts(np.conj(_pad_to_order_two(eta)))


def gvm_sample(eta: ComplexArray, repeats: int, rng: np.random.Generator, in_loop: bool = False) -> FloatArray:
    """`repeats` exact draws of each distribution, shape (repeats, n).

    From 128 draws on a table of cells of 0.05/√K pays for itself; a coarse one, of 0.5/√K, serves fewer draws of
    higher orders. Calls in a long loop say so: compiled code then pays for the smallest batch.
    """
    eta = _pad_to_order_two(eta)
    size = eta.shape[0]
    if repeats < 128 and eta.shape[1] == 2:
        # In plain Python a distribution takes 0.2 ms, a draw a twentieth of that: as long as so many evaluations.
        return sample_each(eta, repeats, rng, compiled=in_loop or not is_small(64 * size * (20 + repeats)))
    fineness = 0.05 if repeats >= 128 else 0.5
    cells = 1024 if repeats >= 128 else 128
    most = SMALL if is_small(size * (cells + repeats)) and not in_loop else 0
    return sample_tables(eta, fineness, rng, repeats, most).T
