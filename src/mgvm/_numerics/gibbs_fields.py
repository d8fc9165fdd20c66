"""The fields h = a + C x that the angles of an mGvM feel, in many chains at once; see `gibbs`."""

from __future__ import annotations

import numpy as np

from mgvm._numerics.compiler import inner

# linear (2D,): first harmonics; coupling (2D, 2D), or (D, D) where it is the same for cosine and sine and does not mix
# them (P real, Q = 0); second (D, 2): Re and Im of the second harmonics
Dense = tuple[np.ndarray, np.ndarray, np.ndarray]
# linear; indptr, indices and blocks (edges, 4) of the coupling; second
Sparse = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# What a group of angles needs, see `group_scratch`: x by chains, the fields of the group, the step of one angle
Group = tuple[np.ndarray, np.ndarray, np.ndarray]

GROUP = 8  # angles whose fields are found together, so that x stays in the caches for all of them
_LANES = 4  # chains whose sums stand in registers at a time


def group_scratch(chains: int, rows: int, angles: int) -> Group:
    """Memory for a law with so many rows of the coupling, two an angle or one.

    With one row an angle, cosines and sines are `lanes`, chains twice as many. Lanes that only fill up stay zero.
    """
    lanes = 2 * chains * angles // rows
    filled = -(-lanes // _LANES) * _LANES
    return np.zeros((filled, rows)), np.empty((2 * GROUP, filled)), np.empty((rows // angles, lanes))


@inner()
def load(x: np.ndarray, group: Group) -> None:
    """Copy the state x (2D, chains) to rows by lane: the products below then run along rows of both matrices."""
    across, lanes = group[0], group[2].shape[1]
    wide = x.reshape(across.shape[1], lanes)
    for row in range(wide.shape[0]):
        for lane in range(lanes):
            across[lane, row] = wide[row, lane]


@inner(fastmath={"contract", "reassoc"})
def group_field(coupling: np.ndarray, first: int, rows: int, group: Group) -> None:
    """C x for `rows` rows of the coupling from `first` on, in all lanes.

    Two rows and four lanes at a time: eight sums in registers, six loads for eight multiplications. An odd last row
    is done twice.
    """
    across, field, _ = group
    for row in range(0, rows, 2):
        after = min(row + 1, rows - 1)
        up, down = first + row, first + after
        for lane in range(0, across.shape[0], _LANES):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
            for j in range(across.shape[1]):
                p, q = coupling[up, j], coupling[down, j]
                x0, x1, x2, x3 = across[lane, j], across[lane + 1, j], across[lane + 2, j], across[lane + 3, j]
                a0, a1, a2, a3 = a0 + p * x0, a1 + p * x1, a2 + p * x2, a3 + p * x3
                b0, b1, b2, b3 = b0 + q * x0, b1 + q * x1, b2 + q * x2, b3 + q * x3
            field[row, lane], field[row, lane + 1], field[row, lane + 2], field[row, lane + 3] = a0, a1, a2, a3
            field[after, lane], field[after, lane + 1], field[after, lane + 2], field[after, lane + 3] = b0, b1, b2, b3


@inner()
def read_field(law: Dense, angle: int, member: int, group: Group, work: np.ndarray) -> None:
    """η₁ and η₂ of a member of the group in every chain."""
    linear, _, second = law
    field, chains = group[1], work.shape[1]
    pair = group[2].shape[0] == 2  # cosine and sine in two rows, or next to each other in one
    up, down, shift = (2 * member, 2 * member + 1, 0) if pair else (member, member, chains)
    for c in range(chains):
        work[10, c] = linear[2 * angle] + field[up, c]
        work[11, c] = linear[2 * angle + 1] + field[down, c + shift]
        work[12, c], work[13, c] = second[angle, 0], second[angle, 1]


@inner(fastmath={"contract"})
def follow(coupling: np.ndarray, angle: int, later: tuple[int, int], x: np.ndarray, group: Group) -> None:
    """Let the fields of the later members of a group, field rows `later`, feel that an angle has moved."""
    across, field, step = group
    wide = x.reshape(across.shape[1], step.shape[1])
    each, last = step.shape[0], (angle + 1) * step.shape[0]
    for k in range(each):
        for lane in range(step.shape[1]):
            now = wide[each * angle + k, lane]
            step[k, lane] = now - across[lane, each * angle + k]
            across[lane, each * angle + k] = now
    for row in range(later[0], later[1]):
        for k in range(each):
            p = coupling[last + row - later[0], each * angle + k]
            for lane in range(step.shape[1]):
                field[row, lane] += p * step[k, lane]


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
