"""Nearest-neighbour propagation to first order: systems with 1 - G' c' at a state, and with its transpose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from mgvm._numerics.neighbour_response import cavity_response, site_pull
from mgvm._validation import FloatArray
from mgvm.models._gp_dense import each
from mgvm.models._gp_neighbour_state import NeighbourState


class Linearisation:
    """1 - G' c' at a state, the sites of inputs that are held being constants."""

    def __init__(self, state: NeighbourState):
        self._state = state
        neighbours, used, shared, local = state.places
        # A cavity that is no law may hold anything: it does not move.
        finite = [np.isfinite(values).reshape(len(values), -1).all(axis=1) for values in (state.cavity, shared, local)]
        clean = np.logical_and.reduce(finite)
        self._cavity, self._places = state.cavity, state.places
        if not clean.all():
            self._cavity = np.where(clean[:, None], state.cavity, 0.0)
            shared, local = (np.where(clean[:, None, None], values, 0.0) for values in (shared, local))
            self._places = (neighbours, used, shared, local)

    def solve(self, residual: FloatArray, tolerance: float) -> FloatArray:
        """ds with (1 - G' c') ds = residual; 0 for inputs that are held."""
        state = self._state
        right = np.where(state.held[:, None], 0.0, residual)

        def product(change: FloatArray) -> FloatArray:
            return change - each(state.slope, cavity_response(self._cavity, self._places, change))

        return _gmres(product, right, tolerance)

    def pull(self, gradient: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """λ and g + G'ᵀλ with λ = c'ᵀ(g + G'ᵀλ)."""
        turned = np.swapaxes(self._state.slope, 1, 2)
        size = gradient.shape[0]

        def transposed(values: FloatArray) -> FloatArray:
            return site_pull(self._cavity, self._places, values, size)

        adjoint = _gmres(lambda v: v - transposed(each(turned, v)), transposed(gradient), tolerance)
        return adjoint, gradient + each(turned, adjoint)


def _gmres(product: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float) -> FloatArray:
    operator = LinearOperator((right.size, right.size), matvec=lambda v: product(v.reshape(right.shape)).ravel())
    found, _ = gmres(operator, right.ravel(), rtol=tolerance, restart=30, maxiter=4)
    return np.asarray(found).reshape(right.shape)
