"""Conjugate gradients for Newton steps of mean field with sparse couplings.

The system is derived in `mgvm.inference._mean_field_newton`.
"""

from __future__ import annotations

import numpy as np

from mgvm._numerics.compiler import entry, inner

Coupling = tuple[np.ndarray, np.ndarray, np.ndarray]


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
