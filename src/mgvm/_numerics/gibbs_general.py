"""Gibbs sweeps of an mGvM of any order, one chain after the other: the general twin of `gibbs`.

Each angle is drawn from the table of its own law (`gvm_table`), which costs some microseconds: orders above 2 are rare.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_cells import value_and_slope
from mgvm._numerics.gvm_table import hat

# linear (2D,): first harmonics; indptr, indices, blocks (edges, 4): the coupling; harmonics (T, D): conjugated, the
# first row free
General = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_COARSE = 0.5  # width of a table's cells in units of 1/√K: one draw of each law


@inner()
def _find_law(law: General, angle: int, x: np.ndarray, chain: int, c: np.ndarray) -> None:
    """Conjugated natural parameters of an angle given the others."""
    linear, indptr, indices, blocks, harmonics = law
    real, imag = linear[2 * angle], linear[2 * angle + 1]
    for place in range(indptr[angle], indptr[angle + 1]):
        cosine, sine = x[2 * indices[place], chain], x[2 * indices[place] + 1, chain]
        real += blocks[place, 0] * cosine + blocks[place, 1] * sine
        imag += blocks[place, 2] * cosine + blocks[place, 3] * sine
    c[0] = complex(real, -imag)
    for t in range(1, c.size):
        c[t] = harmonics[t, angle]


@inner()
def _draw(c: np.ndarray, rng: np.random.Generator) -> float:
    """An exact draw under the hat of `gvm_table`, its cell found by walking up the masses."""
    cells = hat(c, _COARSE)
    top = -np.inf
    for i in range(cells.shape[0]):
        top = max(top, cells[i, 2])
    total = 0.0
    for i in range(cells.shape[0]):
        total += cells[i, 1] * math.exp(cells[i, 2] - top)
    while True:
        place, cell = rng.random() * total, 0
        while cell < cells.shape[0] - 1:
            place -= cells[cell, 1] * math.exp(cells[cell, 2] - top)
            if place < 0.0:
                break
            cell += 1
        angle = cells[cell, 0] + cells[cell, 1] * (2.0 * rng.random() - 1.0)
        u = rng.random()
        if u <= cells[cell, 3] or u <= math.exp(value_and_slope(c, angle)[0] - cells[cell, 2]):
            return angle


@inner()
def _mirrored(c: np.ndarray, angle: float, rng: np.random.Generator) -> float:
    """The angle mirrored at the axis of the first harmonic, if the other harmonics agree (Metropolis)."""
    if c[0] == 0.0:
        return angle
    other = 2.0 * math.atan2(-c[0].imag, c[0].real) - angle
    rise = value_and_slope(c, other)[0] - value_and_slope(c, angle)[0]
    return other if rise >= 0.0 or rng.random() < math.exp(max(rise, -700.0)) else angle


@entry()
def general_sweep(law: General, x: np.ndarray, mirror: bool, rng: np.random.Generator) -> None:
    """One sweep over all angles of x (2D, chains), of draws or of mirrors."""
    c = np.empty(law[4].shape[0], dtype=np.complex128)
    for chain in range(x.shape[1]):
        for angle in range(x.shape[0] // 2):
            _find_law(law, angle, x, chain, c)
            if mirror:
                new = _mirrored(c, math.atan2(x[2 * angle + 1, chain], x[2 * angle, chain]), rng)
            else:
                new = _draw(c, rng)
            x[2 * angle, chain], x[2 * angle + 1, chain] = math.cos(new), math.sin(new)
