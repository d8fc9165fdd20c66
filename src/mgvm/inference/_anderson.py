"""Anderson acceleration of a fixed-point map, column by column.

From inputs x_k and outputs y_k of the map, with residuals r_k = y_k - x_k, the next input is

    y_k - Σ_j γ_j (y_{j+1} - y_j),   γ = argmin |r_k - Σ_j γ_j (r_{j+1} - r_j)|²,

over the last few j: on a linear map this is GMRES.
"""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray

_RIDGE = 1e-13  # relative to the diagonal: directions below it are rounding
_LARGEST = 1e3  # of Σ|γ|: beyond it the history says nothing


class Anderson:
    """History of n columns: differences of residuals (window, rows, n) and of outputs (window, rows + more, n)."""

    def __init__(self, window: int, rows: int, output: FloatArray) -> None:
        total, count = output.shape
        self._residuals = np.zeros((window, rows, count))
        self._outputs = np.zeros((window, total, count))
        self._gram = np.zeros((window, window, count))
        self._fresh = np.ones(count, dtype=bool)  # columns without a last residual
        self._last_residual = np.zeros((rows, count))
        self._last_output = output
        self._slot = 0

    def forget(self, columns: np.ndarray) -> None:
        """Start some columns anew."""
        for part in (self._residuals, self._outputs, self._gram):
            part[..., columns] = 0.0
        self._fresh[columns] = True

    def take(self, columns: np.ndarray, output: FloatArray) -> None:
        """Keep only some columns; `output` are those of the last output."""
        for name in ("_residuals", "_outputs", "_gram", "_fresh", "_last_residual"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., columns]))
        self._last_output = output

    def push(self, x: FloatArray, y: FloatArray, accepted: np.ndarray) -> None:
        """Note that the map took x (rows, n) to y (rows + more, n), kept by reference.

        In columns not accepted, y is the last output once more.
        """
        rows, slot = x.shape[0], self._slot
        residual = y[:rows] - x
        known = accepted & ~self._fresh
        np.subtract(residual, self._last_residual, out=self._residuals[slot])
        np.subtract(y, self._last_output, out=self._outputs[slot])
        if not known.all():
            self._residuals[slot][:, ~known] = 0.0
            self._outputs[slot][:, ~known] = 0.0
        row = _products(self._residuals, self._residuals[slot])
        self._gram[slot], self._gram[:, slot] = row, row
        self._last_residual, self._last_output = residual, y
        self._fresh[accepted] = False
        self._slot = (slot + 1) % self._residuals.shape[0]

    def next_input(self) -> tuple[FloatArray, np.ndarray]:
        """The next input (rows + more, n), and which columns were extrapolated at all."""
        weights = _solve(self._gram, _products(self._residuals, self._last_residual))
        sound = np.abs(weights).sum(axis=0) < _LARGEST  # False for NaN too
        weights[:, ~sound | self._fresh] = 0.0
        if weights.shape[1] == 1:
            step = (weights[:, 0] @ self._outputs[..., 0])[:, None]
        else:
            step = np.einsum("jn,jrn->rn", weights, self._outputs)
        return self._last_output - step, np.asarray(weights.any(axis=0))


def _products(stack: FloatArray, one: FloatArray) -> FloatArray:
    """Inner products of each of a stack (window, rows, n) with one (rows, n), by columns."""
    if one.shape[1] == 1:
        return stack[..., 0] @ one
    return np.einsum("jrn,rn->jn", stack, one)


def _solve(gram: FloatArray, right: FloatArray) -> FloatArray:
    """Solve symmetric systems gram (k, k, n), columns at once, by elimination; dependent directions get zero.

    The number of equations is small and that of columns large, so the loops run over equations.
    """
    size = gram.shape[0]
    matrix, answer = gram.copy(), right.copy()
    scale = np.einsum("jjn->jn", gram)
    keep = np.zeros((size, gram.shape[2]), dtype=bool)
    for j in range(size):
        keep[j] = matrix[j, j] > _RIDGE * size * scale[j]
        inverse = np.where(keep[j], 1.0 / np.where(keep[j], matrix[j, j], 1.0), 0.0)
        for i in range(j + 1, size):
            factor = matrix[i, j] * inverse
            matrix[i, j + 1 :] -= factor * matrix[j, j + 1 :]
            answer[i] -= factor * answer[j]
    for j in range(size - 1, -1, -1):
        answer[j] -= np.einsum("kn,kn->n", matrix[j, j + 1 :], answer[j + 1 :])
        answer[j] = np.where(keep[j], answer[j] / np.where(keep[j], matrix[j, j], 1.0), 0.0)
    return answer
