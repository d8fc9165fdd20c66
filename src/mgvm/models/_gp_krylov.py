"""Linear systems that are known by their products alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mgvm._validation import FloatArray


def gmres(
    product: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float, most: int = 100
) -> FloatArray:
    """x with |right - A x| <= tolerance |right|, or the best of `most` products.

    Generalised minimal residuals (Saad & Schultz, 1986): systems here are small and near to the identity, so that
    nothing is restarted, and what a product costs is all that counts.
    """
    size = float(np.linalg.norm(right))
    if not size > 0.0 or not math.isfinite(size):
        return np.zeros_like(right)
    basis = np.empty((most + 1, right.size))
    triangle, rest = np.zeros((most, most)), np.zeros(most + 1)
    turns: list[tuple[float, float]] = []
    basis[0], rest[0] = right / size, size
    for k in range(most):
        column, length = _orthogonalised(basis, k, product(basis[k]))
        for i, (c, s) in enumerate(turns):
            column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
        radius = math.hypot(column[k], length)
        if radius == 0.0:
            k -= 1
            break
        c, s = column[k] / radius, length / radius
        turns.append((c, s))
        column[k] = radius
        triangle[: k + 1, k] = column
        rest[k], rest[k + 1] = c * rest[k], -s * rest[k]
        if abs(rest[k + 1]) <= tolerance * size or length == 0.0:
            break
    return np.asarray(np.linalg.solve(triangle[: k + 1, : k + 1], rest[: k + 1]) @ basis[: k + 1])


def _orthogonalised(basis: FloatArray, k: int, vector: FloatArray) -> tuple[FloatArray, float]:
    """Components along basis[:k+1], and the length of the rest, which becomes basis[k+1]; twice is enough."""
    known = basis[: k + 1]
    column = known @ vector
    vector = vector - column @ known
    again = known @ vector
    vector -= again @ known
    length = float(np.linalg.norm(vector))
    basis[k + 1] = vector / length if length > 0.0 else 0.0
    return column + again, length
