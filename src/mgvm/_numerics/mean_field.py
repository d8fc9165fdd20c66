"""The loops of mean-field coordinate ascent.

Arrays of all angles have shape (D, 2, n): the cosine and the sine parts of n columns (distributions, or starts of one
distribution) that share their couplings. A sweep over a sparse distribution takes the angles of one color together:
`gather_fields` writes their natural parameters, the batch kernels turn them into moments, `store_moments` writes those
back. A sweep over a dense distribution takes blocks of rows (`update_block`) and carries each block's change to the
field of all angles (`push_change`, or BLAS). Newton steps with sparse couplings go by conjugate gradients; their system
is derived in `mgvm.inference._coordinate_ascent`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics.elementary import entry, inner
from mgvm._numerics.gvm.order_two import CLASSES, plan, sum_circles, sum_windows

# indptr (D + 1,), indices (edges,), blocks (edges, 4): a `mgvm.natural.parameters.SparseCoupling`
Coupling = tuple[np.ndarray, np.ndarray, np.ndarray]


class FactorTables(NamedTuple):
    """What a sweep writes."""

    m: np.ndarray  # (D, 2, n): moments
    first: np.ndarray  # (D, 2, n): the first natural parameter of each factor
    local: np.ndarray  # (D, n): entropy and harmonics from the second on
    moved: np.ndarray  # (n,): largest squared change of a moment, in units of the variance


class BlockFields(NamedTuple):
    """What the angles of a dense distribution of order 2 feel."""

    a: np.ndarray  # (D, 2, n)
    field: np.ndarray  # (n, 2D): C m, with the moments from before the block
    second: np.ndarray  # (D,): second harmonics


# ---- sparse couplings -----------------------------------------------------------------------------------------------


@entry()
def greedy_coloring(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """A color for each angle, the first that none of its neighbours has, in order."""
    size = indptr.size - 1
    colors = np.full(size, -1, dtype=np.int64)
    taken = np.full(size + 1, -1, dtype=np.int64)
    for d in range(size):
        for edge in range(indptr[d], indptr[d + 1]):
            if colors[indices[edge]] >= 0:
                taken[colors[indices[edge]]] = d
        color = 0
        while taken[color] == d:
            color += 1
        colors[d] = color
    return colors


@entry(fastmath={"contract"})
def gather_fields(
    rows: np.ndarray, coupling: Coupling, a: np.ndarray, b: np.ndarray, m: np.ndarray, eta: np.ndarray
) -> None:
    """Natural parameters η₁ = a + C m and η_t = b_t of the given angles, into eta (rows · n, T)."""
    count = m.shape[2]
    for k in range(rows.size):
        d = rows[k]
        for i in range(count):
            x, y = _pull(coupling, m, d, i)
            row = k * count + i
            eta[row, 0] = complex(a[d, 0, i] + x, a[d, 1, i] + y)
            for t in range(b.shape[0]):
                eta[row, 1 + t] = b[t, d]


@entry()
def store_moments(
    rows: np.ndarray, eta: np.ndarray, facts: np.ndarray, moments: np.ndarray, tables: FactorTables
) -> None:
    """Write back the moments m₁, η₁ and the local terms H + Re Σ_{t>1} conj(η_t) m_t of the given angles.

    `moved` collects the largest squared change of a moment in units of 2(1 - |m₁|), at high concentration the variance
    of the angle.
    """
    m, first, local, moved = tables
    count = m.shape[2]
    for k in range(rows.size):
        d = rows[k]
        for i in range(count):
            row = k * count + i
            new, natural = moments[row, 0], eta[row, 0]
            x, y = new.real - m[d, 0, i], new.imag - m[d, 1, i]
            moved[i] = max(moved[i], (x * x + y * y) / (2.0 * facts[row, 1] + 1e-300))
            m[d, 0, i], m[d, 1, i] = new.real, new.imag
            first[d, 0, i], first[d, 1, i] = natural.real, natural.imag
            term = facts[row, 2]
            for t in range(1, eta.shape[1]):
                term += eta[row, t].real * moments[row, t].real + eta[row, t].imag * moments[row, t].imag
            local[d, i] = term


@entry()
def sparse_energies(coupling: Coupling, a: np.ndarray, m: np.ndarray, local: np.ndarray) -> np.ndarray:
    """Free energies Σ_d [a_d·m_d + ½ m_d·(C m)_d + local_d] of each column."""
    count = m.shape[2]
    out = np.zeros(count)
    for i in range(count):
        rest = 0.0
        for d in range(m.shape[0]):
            x, y = _pull(coupling, m, d, i)
            term = m[d, 0, i] * (a[d, 0, i] + 0.5 * x) + m[d, 1, i] * (a[d, 1, i] + 0.5 * y) + local[d, i]
            # Compensated: a million terms would otherwise hide the last gains of a sweep.
            new = out[i] + term
            back = new - out[i]
            rest += (out[i] - (new - back)) + (term - back)
            out[i] = new
        out[i] += rest
    return out


@entry(fastmath={"contract"})
def apply_coupling(coupling: Coupling, m: np.ndarray) -> np.ndarray:
    """C m for m (D, 2, n)."""
    out = np.empty(m.shape)
    for d in range(m.shape[0]):
        for i in range(m.shape[2]):
            out[d, 0, i], out[d, 1, i] = _pull(coupling, m, d, i)
    return out


@inner(forceinline=True, fastmath={"contract"})
def _pull(coupling: Coupling, m: np.ndarray, d: int, i: int) -> tuple[float, float]:
    """(C m)_d of column i."""
    indptr, indices, blocks = coupling
    x = y = 0.0
    for edge in range(indptr[d], indptr[d + 1]):
        j = indices[edge]
        u, v = m[j, 0, i], m[j, 1, i]
        x += blocks[edge, 0] * u + blocks[edge, 1] * v
        y += blocks[edge, 2] * u + blocks[edge, 3] * v
    return x, y


# ---- dense couplings ------------------------------------------------------------------------------------------------


@entry(fastmath={"contract"})
def update_block(C: np.ndarray, begin: int, fields: BlockFields, tables: FactorTables, change: np.ndarray) -> None:
    """Update angles begin, begin + 1, ... one after another.

    The field holds the moments from before the block: what the block itself has changed, `change` (block, 2, n), is
    added on the way.
    """
    a, field, second = fields
    m, first, local, moved = tables
    count = m.shape[2]
    eta = np.empty((count, 2), dtype=np.complex128)
    frames, peaks, windows = np.empty((7, count)), np.empty((12, count)), np.empty((2 * count, 7))
    room = np.empty((3, 2 * count + CLASSES + 1), dtype=np.int64)
    queue = (room[0], room[1], room[2])
    facts, moments = np.empty((count, 4)), np.empty((count, 4), dtype=np.complex128)
    out = (facts, np.empty(count, dtype=np.complex128), moments)
    for k in range(change.shape[0]):
        d = begin + k
        for i in range(count):
            x, y = a[d, 0, i] + field[i, 2 * d], a[d, 1, i] + field[i, 2 * d + 1]
            for j in range(k):
                u, v, column = change[j, 0, i], change[j, 1, i], 2 * (begin + j)
                x += C[2 * d, column] * u + C[2 * d, column + 1] * v
                y += C[2 * d + 1, column] * u + C[2 * d + 1, column + 1] * v
            eta[i, 0], eta[i, 1] = complex(x, y), second[d]
        origin = 0 * count
        high = plan(eta, origin, count, frames, queue)
        sum_circles(origin, count, high, frames, queue, out)
        if high > 0:
            sum_windows(origin, frames, peaks, windows, np.zeros((high, 10)), queue, out)
        for i in range(count):
            new, natural = moments[i, 0], eta[i, 0]
            x, y = new.real - m[d, 0, i], new.imag - m[d, 1, i]
            change[k, 0, i], change[k, 1, i] = x, y
            moved[i] = max(moved[i], (x * x + y * y) / (2.0 * facts[i, 1] + 1e-300))
            m[d, 0, i], m[d, 1, i] = new.real, new.imag
            first[d, 0, i], first[d, 1, i] = natural.real, natural.imag
            local[d, i] = facts[i, 2] + second[d].real * moments[i, 1].real + second[d].imag * moments[i, 1].imag


@entry(fastmath={"contract"})
def push_change(C: np.ndarray, begin: int, change: np.ndarray, field: np.ndarray) -> None:
    """field += change C[block], change (2B, n), the block's rows from `begin` on, field (n, 2D).

    C is symmetric, so these rows are the columns that the change multiplies. Four rows at a time, for each pass reads
    and writes the field. One thread of this keeps up with the memory, and with BLAS, whose threads would be woken for
    every block.
    """
    rows, count = change.shape
    size = field.shape[1]
    for k in range(0, rows - rows % 4, 4):
        r = begin + k
        for i in range(count):
            u, v, w, x = change[k, i], change[k + 1, i], change[k + 2, i], change[k + 3, i]
            for j in range(size):
                field[i, j] += C[r, j] * u + C[r + 1, j] * v + C[r + 2, j] * w + C[r + 3, j] * x
    for k in range(rows - rows % 4, rows):
        for i in range(count):
            u = change[k, i]
            for j in range(size):
                field[i, j] += C[begin + k, j] * u


# ---- Newton steps ---------------------------------------------------------------------------------------------------


@entry(fastmath={"contract"})
def sparse_newton(
    coupling: Coupling, V: np.ndarray, right: np.ndarray, step: np.ndarray, iterations: int, reduction: float
) -> None:
    """Fill step (D, 2, n) with δm = V s, (I - C V) s = right, for V (3, D, n): one column after another."""
    size, _, count = right.shape
    s, residual, p, V_p = np.empty((size, 2)), np.empty((size, 2)), np.empty((size, 2)), np.empty((size, 2))
    image = np.empty((size, 2))
    for i in range(count):
        square = 0.0
        for d in range(size):
            x, y = right[d, 0, i], right[d, 1, i]
            s[d, 0] = s[d, 1] = 0.0
            residual[d, 0], residual[d, 1], p[d, 0], p[d, 1] = x, y, x, y
            V_p[d, 0], V_p[d, 1] = V[0, d, i] * x + V[1, d, i] * y, V[1, d, i] * x + V[2, d, i] * y
            square += x * V_p[d, 0] + y * V_p[d, 1]
        goal = reduction * square
        for iteration in range(iterations):
            if not square > goal:
                break
            curvature = _image(coupling, p, V_p, image)
            # Uphill in both directions: what has been found so far is an ascent direction, at first the gradient.
            if not curvature > 0.0:
                if iteration == 0:
                    for d in range(size):
                        s[d, 0], s[d, 1] = p[d, 0], p[d, 1]
                break
            length, new = square / curvature, 0.0
            for d in range(size):
                s[d, 0] += length * p[d, 0]
                s[d, 1] += length * p[d, 1]
                residual[d, 0] -= length * image[d, 0]
                residual[d, 1] -= length * image[d, 1]
                x, y = residual[d, 0], residual[d, 1]
                # The image has been used: it takes V times the residual for the next direction.
                image[d, 0], image[d, 1] = V[0, d, i] * x + V[1, d, i] * y, V[1, d, i] * x + V[2, d, i] * y
                new += x * image[d, 0] + y * image[d, 1]
            ratio, square = new / square, new
            for d in range(size):
                for k in range(2):
                    p[d, k] = residual[d, k] + ratio * p[d, k]
                    V_p[d, k] = image[d, k] + ratio * V_p[d, k]
        for d in range(size):
            x, y = s[d, 0], s[d, 1]
            step[d, 0, i], step[d, 1, i] = V[0, d, i] * x + V[1, d, i] * y, V[1, d, i] * x + V[2, d, i] * y


@inner(fastmath={"contract"})
def _image(coupling: Coupling, p: np.ndarray, V_p: np.ndarray, image: np.ndarray) -> float:
    """Fill image with (I - C V) p and return its inner product with V p; all (D, 2)."""
    indptr, indices, blocks = coupling
    curvature = 0.0
    for d in range(p.shape[0]):
        x, y = p[d, 0], p[d, 1]
        for edge in range(indptr[d], indptr[d + 1]):
            j = indices[edge]
            x -= blocks[edge, 0] * V_p[j, 0] + blocks[edge, 1] * V_p[j, 1]
            y -= blocks[edge, 2] * V_p[j, 0] + blocks[edge, 3] * V_p[j, 1]
        image[d, 0], image[d, 1] = x, y
        curvature += x * V_p[d, 0] + y * V_p[d, 1]
    return curvature
