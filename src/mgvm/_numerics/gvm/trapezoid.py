"""The trapezoid rule for many GvM distributions of one order at once, on equal nodes.

`shared_moments` is for distributions that share their higher harmonics, compiled; `EvenRule` is for thousands whose
harmonics all differ, in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics.elementary import bounded_exp, entry, inner, sin_cos
from mgvm._validation import ComplexArray, FloatArray

# ---- distributions that share their higher harmonics ----------------------------------------------------------------
#
# Such are the conditional distributions of one angle on a grid of others: natural parameters that differ in η₁, and
# share the others in long runs. The harmonics are summed once a run at the nodes of a trapezoid rule, so that a
# distribution costs one exponential a node whatever its order.
#
# The products of matrices below (`EvenRule`) give the same to rounding. On one core they take 1.1 to 2 times as long on
# such runs (order 3, 20,000 distributions, 64 nodes: 6.3 ms, here 3.3), and a whole `exact_grid` of three angles up to
# 1.4 times. Here a kernel must be compiled, and Numba be loaded, which harmonic regressions are spared: half a second
# to two, of fits that take four. So both stay.


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
def add_up(weight: np.ndarray) -> float:
    """Σ_k w_k, in any order."""
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
        total = add_up(weight)
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


def even_rules(F: FloatArray, *, window: float = np.pi, block: int = 1 << 19) -> Iterator[tuple[np.ndarray, EvenRule]]:
    """Rows of F (r, 2T) that need about as many nodes, `block` nodes at once, each with its rule.

    The moments up to 2T ask for some nodes more.
    """
    levels = np.ceil(np.log2(13.0 + 2.0 * F.shape[1] + 7.5 * np.sqrt(bound_curvature(F)))).astype(int)
    for level in np.unique(levels):
        rows, step = np.flatnonzero(levels == level), max(1, block >> level)
        for begin in range(0, rows.size, step):
            yield rows[begin : begin + step], even_rule(F.shape[1] // 2, 1 << int(level), window)


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
        turned = _turn(F[rows], -turn)
        for some, rule in even_rules(turned, window=width):
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
