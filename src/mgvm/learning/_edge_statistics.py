"""The free parameters of a submodel with few edges as one real vector, and the statistics that belong to them."""

from __future__ import annotations

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural
from mgvm.learning.submodel import Submodel


class EdgeStatistics:
    """log p = β·S(φ) - log Z with β the free parameters: Re and Im of a, of b_t, of P_e and Q_e on the free edges e.

    Of the sine model: κ_d and G_e, with statistics cos(φ_d - μ_d) and 2 sin(φ_i - μ_i) sin(φ_j - μ_j).
    """

    def __init__(self, model: Submodel):
        self.model = model
        self.first, self.second = np.nonzero(np.triu(model.edges, 1))
        self._differences = model.differences[self.first, self.second]
        self._sums = model.sums[self.first, self.second]
        if model.directions is not None:
            turn = np.exp(1j * model.directions)
            self._turn, self._apart, self._both = (
                turn,
                turn[self.first] * turn[self.second].conj(),
                turn[self.first] * turn[self.second],
            )

    @property
    def size(self) -> int:
        """The number of free real parameters."""
        return self.model.n_parameters

    def combined(self, powers: ComplexArray, difference: ComplexArray, total: ComplexArray) -> FloatArray:
        """S from z^t (T, n, D), z_i conj(z_j) and z_i z_j (n, edges), or their means: (n, size)."""
        if self.model.directions is not None:
            pair = (self._apart.conj() * difference - self._both.conj() * total).real
            return np.concatenate([(self._turn.conj() * powers[0]).real, pair], axis=1)
        parts = [*powers, difference[:, self._differences], total[:, self._sums]]
        return np.ascontiguousarray(np.concatenate(parts, axis=1)).view(np.float64)

    def of_rows(self, x: FloatArray) -> FloatArray:
        """S(φ) of rows (n, D)."""
        z = np.exp(1j * x)
        powers = np.stack([z**t for t in range(1, self.model.order + 1)])
        one, other = z[:, self.first], z[:, self.second]
        return self.combined(powers, one * other.conj(), one * other)

    def law(self, beta: FloatArray) -> Natural:
        """The natural parameters."""
        size, order = self.model.dimension, self.model.order
        P, Q = np.zeros((2, size, size), dtype=complex)
        if self.model.directions is not None:
            a, strength = beta[:size] * self._turn, beta[size:]
            b = np.zeros((order - 1, size), dtype=complex)
            P[self.first, self.second], Q[self.first, self.second] = strength * self._apart, -strength * self._both
        else:
            numbers = np.ascontiguousarray(beta).view(complex)
            a, b = numbers[:size].copy(), numbers[size : size * order].reshape(order - 1, size).copy()
            rest = numbers[size * order :]
            count = int(self._differences.sum())
            P[self.first[self._differences], self.second[self._differences]] = rest[:count]
            Q[self.first[self._sums], self.second[self._sums]] = rest[count:]
        return Natural(a, b, P + P.conj().T, Q + Q.T)

    def parameters(self, law: Natural) -> FloatArray:
        """β of a law inside the submodel."""
        P, Q = law.P[self.first, self.second], law.Q[self.first, self.second]
        if self.model.directions is not None:
            return np.concatenate([(law.a * self._turn.conj()).real, (P * self._apart.conj()).real])
        numbers = np.concatenate([law.a, law.b.ravel(), P[self._differences], Q[self._sums]])
        return np.ascontiguousarray(numbers, dtype=complex).view(np.float64)
