"""The numerics of a batch of GvM distributions of any order: what they are asked for, and what answers.

`is_small` is the one switch between NumPy (`gvm_small`) and compiled code. The `gvm_*` functions ask
it; where work is large they choose between the kernels for order two and those for any order.
`shared_moments` gives the moments of distributions that share their higher harmonics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics import gvm_small
from mgvm._numerics.elementary import bounded_exp, entry, inner, sin_cos
from mgvm._numerics.gvm_general import general_moments, panel_starts, turning_starts
from mgvm._numerics.gvm_order_two import order_two_moments
from mgvm._validation import ComplexArray, FloatArray

# Evaluations of an exponent that NumPy does, in a millisecond or two; to compile for more takes seconds, once.
SMALL = 1 << 14


def is_small(evaluations: int) -> bool:
    """Whether so many evaluations of an exponent are left to NumPy, so that nothing need be compiled for them."""
    return evaluations <= SMALL


# ---- distributions that share their higher harmonics ----------------------------------------------------------------
#
# Such are the conditional distributions of one angle on a grid of others: natural parameters that differ in η₁, and
# share the others in long runs. The harmonics are summed once a run at the nodes of a trapezoid rule, so that a
# distribution costs one exponential a node whatever its order.
#
# The products of matrices below (`EvenRule`) give the same to rounding. On one core they take 1.1 to 2 times as long on
# such runs (order 3, 20,000 distributions, 64 nodes: 6.3 ms, here 3.3), and a whole `exact_grid` of three angles up to
# 1.4 times; here a kernel must be compiled, which harmonic regressions are spared. So both stay.


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
    """Re Σ_{t>1} conj(η_t) z^t at the nodes, unless it is that of the distribution before."""
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
    dists, nodes = eta.shape[0], tables.shape[2]
    log_normalizer, log_highest, highest = np.empty(dists), np.empty(dists), np.empty(dists, dtype=np.int64)
    shared, weight = np.zeros(nodes), np.empty(nodes)
    for i in range(dists):
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
    """log Z, log density at a reference angle, that angle, and moments 1 … count <= T of distributions (n, T)."""
    angles = periodic_grid(nodes)
    multiples = np.multiply.outer(np.arange(1, eta.shape[1] + 1), angles)
    tables = np.stack([np.cos(multiples), np.sin(multiples)], axis=1)
    moments = np.empty((eta.shape[0], count), dtype=complex)
    log_normalizer, log_highest, highest = _run(eta, tables, moments)
    return log_normalizer, log_highest, angles[highest], moments


# ---- many distributions on equal nodes ------------------------------------------------------------------------------
#
# Of thousands of broad distributions, whose harmonics all differ, the trapezoid rule is three products of matrices and
# one pass of exponentials. 13 + 4T + 7.5 √K nodes, K = Σ t²|η_t| a bound of the curvature, leave errors of rounding.


class EvenRule:
    """The trapezoid rule for natural parameters F (…, 2T): real parts, then imaginary parts, of η.

    Its nodes are n equal ones, or those of them within a window about zero where all mass is.
    """

    def __init__(self, order: int, nodes: int, window: float = np.pi):
        grid = periodic_grid(nodes)
        waves = np.exp(1j * np.multiply.outer(np.arange(1, 2 * order + 1), grid[np.abs(grid) <= window]))
        self.sufficient = np.concatenate([waves[:order].real, waves[:order].imag])  # u at the nodes, (2T, n)
        self._real, self._imag = np.ascontiguousarray(waves.real.T), np.ascontiguousarray(waves.imag.T)
        self._log_step = math.log(2.0 * math.pi / nodes)

    def weights(self, F: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log Z (r,) and the probabilities (r, n) of the nodes."""
        weight = F @ self.sufficient
        top = weight.max(axis=1)
        weight -= top[:, None]
        np.exp(weight, out=weight)
        total = weight.sum(axis=1)
        weight /= total[:, None]
        return top + np.log(total) + self._log_step, weight

    def moments(self, F: FloatArray) -> tuple[FloatArray, ComplexArray]:
        """log Z (r,) and the moments 1 … 2T (r, 2T)."""
        log_z, weight = self.weights(F)
        return log_z, weight @ self._real + 1j * (weight @ self._imag)


@lru_cache(maxsize=256)
def even_rule(order: int, nodes: int, window: float = np.pi) -> EvenRule:
    """The rule for an order, a number of nodes and a window."""
    return EvenRule(order, nodes, window)


def bound_curvature(F: FloatArray) -> FloatArray:
    """K = Σ t²|η_t| of F (…, 2T)."""
    order = F.shape[-1] // 2
    return np.asarray(np.hypot(F[..., :order], F[..., order:]) @ np.arange(1.0, order + 1.0) ** 2)


def _levels(F: FloatArray) -> np.ndarray:
    """Logarithms, base 2, of the nodes that F (r, 2T) needs; the moments up to 2T ask for some more."""
    return np.ceil(np.log2(13.0 + 2.0 * F.shape[1] + 7.5 * np.sqrt(bound_curvature(F)))).astype(int)


def even_rules(F: FloatArray, *, block: int = 1 << 19) -> Iterator[tuple[np.ndarray, EvenRule]]:
    """Rows of F (r, 2T) that need about as many nodes, `block` nodes at once, each with its rule."""
    levels = _levels(F)
    for level in np.unique(levels):
        rows, step = np.flatnonzero(levels == level), max(1, block >> level)
        for begin in range(0, rows.size, step):
            yield rows[begin : begin + step], even_rule(F.shape[1] // 2, 1 << int(level))


def even_moments(F: FloatArray, *, narrow: float = 3e3) -> tuple[FloatArray, ComplexArray]:
    """log Z (r,) and the moments 1 … 2T (r, 2T) at natural parameters F (r, 2T).

    Where K is above `narrow` a window is looked for that holds all mass.
    """
    log_z, moments = np.empty(len(F)), np.empty(F.shape, dtype=complex)
    broad = bound_curvature(F) <= narrow
    for rows, turn, width in _find_windows(F, np.flatnonzero(~broad)):
        if width == np.pi:
            broad[rows] = True
            continue
        turned, levels = _turn(F[rows], -turn), _levels(F[rows])
        for level in np.unique(levels):
            some = levels == level
            rule = even_rule(F.shape[1] // 2, 1 << int(level), width)
            log_z[rows[some]], there = rule.moments(turned[some])
            moments[rows[some]] = there * np.exp(1j * turn[some, None] * np.arange(1, F.shape[1] + 1))
    rest = np.flatnonzero(broad)
    for rows, rule in even_rules(F[rest]):
        log_z[rest[rows]], moments[rest[rows]] = rule.moments(F[rest[rows]])
    return log_z, moments


def _turn(F: FloatArray, angle: FloatArray) -> FloatArray:
    """Natural parameters of the distributions turned by angles (r,)."""
    order = F.shape[1] // 2
    eta = (F[:, :order] + 1j * F[:, order:]) * np.exp(1j * angle[:, None] * np.arange(1, order + 1))
    return np.concatenate([eta.real, eta.imag], axis=1)


def _find_windows(
    F: FloatArray, rows: np.ndarray, drop: float = 40.0
) -> Iterator[tuple[np.ndarray, FloatArray, float]]:
    """Some of the rows, the angle of the highest of some nodes, and the half-width of a window about it.

    All but e^-40 of the mass is within. The half-width is π/4, π/8, …, or π where there is none so narrow. Between
    nodes h apart the exponent is at most K h²/8 above the higher of the two; here that is 13 at most.
    """
    bend = bound_curvature(F[rows])
    levels = np.ceil(np.log2(0.62 * np.sqrt(bend))).astype(int).clip(5)
    for level in np.unique(levels):
        here, nodes = rows[levels == level], 1 << int(level)
        rule = even_rule(F.shape[1] // 2, nodes)
        turn = periodic_grid(nodes)[(F[here] @ rule.sufficient).argmax(axis=1)]
        exponent = _turn(F[here], -turn) @ rule.sufficient
        least = exponent[:, nodes // 2] - drop - bend[levels == level] * (2.0 * np.pi / nodes) ** 2 / 8.0
        width, inside = np.pi, np.ones(here.size, dtype=bool)
        half = nodes // 8  # nodes of the window on each side, π/4
        while half >= 1:
            outside = np.concatenate([exponent[:, : nodes // 2 - half + 1], exponent[:, nodes // 2 + half :]], axis=1)
            narrower = inside & (outside.max(axis=1) < least)
            if (inside & ~narrower).any():
                some = np.flatnonzero(inside & ~narrower)
                yield here[some], turn[some], width
            inside, width, half = narrower, 2.0 * np.pi * half / nodes, half // 2
        if inside.any():
            yield here[inside], turn[inside], width


# ---- log densities --------------------------------------------------------------------------------------------------
#
# From a reference angle φ_r, the highest mode wherever the distribution is concentrated,
#
#     log p(φ) = log p(φ_r) + Re[ζ Σ_j C_j z^j],   ζ = z - 1,  z = e^{i(φ-φ_r)},   C_j = Σ_{t>j} c_t e^{itφ_r}
#
# (see `gvm_general`): near the mode the error is that of a few units in the last place of a small number.


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

    `suffix` are the C_j of `gvm_small.suffix_sums` at the reference angles.
    """
    if is_small(x.size):
        here: Any = rows if rows.size else np.zeros(x.size, dtype=int)
        return gvm_small.rise(suffix, here, 0.5 * (x - reference[here]))[0] + log_reference[here]
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
        return gvm_small.climb(suffix, rows, 0.5 * (x - reference[rows]))
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
        out[i] = half * _sum(weight)


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
        found = gvm_small.moments(eta, count, SMALL)
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
    found = gvm_small.panel_starts(np.conj(eta), SMALL) if is_small(64 * eta.shape[0]) else None
    if found is not None:
        return found
    row, start = panel_starts(eta)
    order = np.lexsort((start, row))
    return row[order], start[order]


def gvm_turning_cells(eta: ComplexArray) -> tuple[np.ndarray, FloatArray]:
    """Rows and lower edges, in increasing order, of cells in which the slope changes its sign once at most."""
    eta = _pad_to_order_two(eta)
    found = gvm_small.turning_starts(np.conj(eta), SMALL) if is_small(64 * eta.shape[0]) else None
    return turning_starts(eta) if found is None else found


def gvm_sample(eta: ComplexArray, repeats: int, rng: np.random.Generator, in_loop: bool = False) -> FloatArray:
    """`repeats` exact draws of each distribution, shape (repeats, n).

    From 128 draws on a table of cells of 0.05/√K pays for itself; a coarse one, of 0.5/√K, serves fewer draws of
    higher orders. Calls in a long loop say so: compiled code then pays for the smallest batch.
    """
    from mgvm._numerics.gvm_sampling import sample_each, sample_tables

    eta = _pad_to_order_two(eta)
    size = eta.shape[0]
    if repeats < 128 and eta.shape[1] == 2:
        # In plain Python a distribution takes 0.2 ms, a draw a twentieth of that: as long as so many evaluations.
        return sample_each(eta, repeats, rng, compiled=in_loop or not is_small(64 * size * (20 + repeats)))
    fineness = 0.05 if repeats >= 128 else 0.5
    cells = 1024 if repeats >= 128 else 128
    most = SMALL if is_small(size * (cells + repeats)) and not in_loop else 0
    return sample_tables(eta, fineness, rng, repeats, most).T
