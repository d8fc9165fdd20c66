"""The fields h = a + C x that the angles of an mGvM feel, in many chains at once; see `gibbs`."""

from __future__ import annotations

import numpy as np

from mgvm._numerics.compiler import inner

# linear (2D,): first harmonics; coupling (2D, 2D), or (D, D) where it is the same for cosine and sine and does not mix
# them (P real, Q = 0); second (D, 2): Re and Im of the second harmonics
Dense = tuple[np.ndarray, np.ndarray, np.ndarray]
# linear; indptr, indices and blocks (edges, 4) of the coupling; second
Sparse = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

GROUP = 8  # angles whose fields are found together: x is read from the second cache once for all of them
_WIDE = 16  # chains from which a loop over them vectorises well


@inner(fastmath={"contract"})
def _add_wide(coupling: np.ndarray, first: int, x: np.ndarray, rows: int, field: np.ndarray) -> None:
    """Add rows of the coupling, from `first` on, times x to the field, many chains: loops over chains vectorise.

    Eight rows of x, in the first cache, meet all rows of the field before the next eight.
    """
    last = x.shape[0] - x.shape[0] % 8
    for j in range(0, last, 8):
        for row in range(rows):
            place = first + row
            p, q, r, s = coupling[place, j], coupling[place, j + 1], coupling[place, j + 2], coupling[place, j + 3]
            t, u, v, w = coupling[place, j + 4], coupling[place, j + 5], coupling[place, j + 6], coupling[place, j + 7]
            for c in range(x.shape[1]):
                half = (p * x[j, c] + q * x[j + 1, c]) + (r * x[j + 2, c] + s * x[j + 3, c])
                field[row, c] += half + ((t * x[j + 4, c] + u * x[j + 5, c]) + (v * x[j + 6, c] + w * x[j + 7, c]))
    for j in range(last, x.shape[0]):
        for row in range(rows):
            for c in range(x.shape[1]):
                field[row, c] += coupling[first + row, j] * x[j, c]


@inner(fastmath={"contract"})
def _add_narrow(coupling: np.ndarray, first: int, x: np.ndarray, rows: int, field: np.ndarray) -> None:
    """The same for few chains: four at a time in registers, where a loop over them would be too short to vectorise."""
    lanes, last = x.shape[1] - x.shape[1] % 4, x.shape[0] - x.shape[0] % 2
    for row in range(rows):
        place = first + row
        for c in range(0, lanes, 4):
            a0, a1, a2, a3 = field[row, c], field[row, c + 1], field[row, c + 2], field[row, c + 3]
            b0 = b1 = b2 = b3 = 0.0  # sums of their own for odd rows: neither waits for the other
            for j in range(0, last, 2):
                p, q, i = coupling[place, j], coupling[place, j + 1], j + 1
                a0, a1, a2, a3 = a0 + p * x[j, c], a1 + p * x[j, c + 1], a2 + p * x[j, c + 2], a3 + p * x[j, c + 3]
                b0, b1, b2, b3 = b0 + q * x[i, c], b1 + q * x[i, c + 1], b2 + q * x[i, c + 2], b3 + q * x[i, c + 3]
            field[row, c], field[row, c + 1] = a0 + b0, a1 + b1
            field[row, c + 2], field[row, c + 3] = a2 + b2, a3 + b3
        for c in range(x.shape[1]):
            for j in range(last if c < lanes else 0, x.shape[0]):
                field[row, c] += coupling[place, j] * x[j, c]


@inner()
def group_field(law: Dense, start: int, x: np.ndarray, size: int, field: np.ndarray) -> None:
    """The fields of a group of angles, of its own members as they are now.

    Where cosine and sine are coupled alike the coupling has one row an angle: cosines and sines are then chains twice
    as wide.
    """
    linear, coupling, _ = law
    chains = x.shape[1]
    for row in range(2 * size):
        for c in range(chains):
            field[row, c] = linear[2 * start + row]
    fold = x.shape[0] // coupling.shape[0]
    wide, sums = x.reshape(coupling.shape[0], fold * chains), field.reshape(2 * GROUP // fold, fold * chains)
    first, rows = 2 * start // fold, 2 * size // fold
    if fold * chains >= _WIDE:
        _add_wide(coupling, first, wide, rows, sums)
    else:
        _add_narrow(coupling, first, wide, rows, sums)


@inner(fastmath={"contract"})
def follow(coupling: np.ndarray, start: int, moved: int, size: int, step: np.ndarray, field: np.ndarray) -> None:
    """Let the fields of the later members of a group feel that one of them moved by `step` (2, chains)."""
    for row in range(2 * moved + 2, 2 * size):
        p, q = coupling[2 * start + row, 2 * (start + moved)], coupling[2 * start + row, 2 * (start + moved) + 1]
        for c in range(step.shape[1]):
            field[row, c] += p * step[0, c] + q * step[1, c]


@inner(fastmath={"contract"})
def follow_alike(coupling: np.ndarray, start: int, moved: int, size: int, step: np.ndarray, field: np.ndarray) -> None:
    """The same where cosine and sine are coupled alike."""
    for member in range(moved + 1, size):
        p = coupling[start + member, start + moved]
        for c in range(step.shape[1]):
            field[2 * member, c] += p * step[0, c]
            field[2 * member + 1, c] += p * step[1, c]


@inner(fastmath={"contract"})
def sparse_field(law: Sparse, angle: int, x: np.ndarray, work: np.ndarray) -> None:
    """η₁ and η₂ of an angle in every chain, from the rows of a sparse coupling."""
    linear, indptr, indices, blocks, second = law
    chains = x.shape[1]
    for c in range(chains):
        work[10, c], work[11, c] = linear[2 * angle], linear[2 * angle + 1]
        work[12, c], work[13, c] = second[angle, 0], second[angle, 1]
    for place in range(indptr[angle], indptr[angle + 1]):
        j = 2 * indices[place]
        p, q, r, s = blocks[place, 0], blocks[place, 1], blocks[place, 2], blocks[place, 3]
        for c in range(chains):
            work[10, c] += p * x[j, c] + q * x[j + 1, c]
            work[11, c] += r * x[j, c] + s * x[j + 1, c]
