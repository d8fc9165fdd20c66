"""Expectation propagation of circular regression with a dense kernel matrix: Gaussian sites, Newton steps.

The fixed point says that the moments of every tilted law are those of the Gaussian posterior, R(s) = E_tilted[T] - μ =
0, s the natural parameters of the sites. With ξ those of the posterior marginals, dμ = C ds (C the posterior covariance
of all T), dξ = J⁻¹ dμ (J the covariance of T in one marginal) and the cavity ξ - s,

    dR = (B - 1) C ds - T ds,   T = Cov_tilted[T],  B = T J⁻¹,

so that Newton's step needs products with C alone, O(N²) each, solved by GMRES.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.sparse.linalg import LinearOperator, gmres

from mgvm._numerics.ep_response import moment_response
from mgvm._validation import FloatArray
from mgvm.models._gp_plane import covariance_of, from_moments, moments_of, natural_of
from mgvm.models._gp_tilted import Observations, Tilted

_NEWTON_BELOW = 0.3  # mismatch from which Newton's steps are tried
_HALVINGS = 30
_FLOOR = 1e-10  # of the variance along the radius, which vanishes on the circle
_STALE = 8
_ASTRAY = 4.0  # times the smallest mismatch so far: then back to that state, with shorter steps
_SHORTEST = 0.02


class State(NamedTuple):
    """Sites with all that follows from them."""

    sites: FloatArray  # (N, 5)
    covariance: FloatArray  # (2N, 2N), of the posterior
    mean: FloatArray  # (N, 2)
    marginal: FloatArray  # (N, 2, 2)
    cavity: FloatArray  # (N, 5)
    tilted: Tilted
    residual: FloatArray  # (N, 5)
    mismatch: float


@dataclass(frozen=True)
class DensePropagation:
    """The problem: prior precision (N, N), shared by cos and sin, or (2N, 2N), and observations."""

    precision: FloatArray
    observations: Observations

    def posterior(self, sites: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Covariance (2N, 2N) and mean (N, 2) of prior times sites; None where that is not positive definite."""
        size = sites.shape[0]
        array = np.zeros((2 * size, 2 * size), order="F")
        if self.precision.shape[0] == size:
            array[:size, :size] = array[size:, size:] = self.precision
        else:
            array[...] = self.precision
        flat, step = array.reshape(-1, order="F"), 2 * size + 1
        flat[: size * step : step] -= 2.0 * sites[:, 2]
        flat[size * step :: step] -= 2.0 * sites[:, 4]
        flat[size : size * step : step] -= sites[:, 3]
        factor, failed = lapack.dpotrf(array, lower=1, overwrite_a=1)
        if failed:
            return None
        lower, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if failed:
            return None
        # The lower triangle in Fortran order is the upper one of the C-ordered transpose.
        covariance = lower.T
        below = np.tril_indices(2 * size, -1)
        covariance[below] = covariance.T[below]
        mean = covariance @ np.concatenate([sites[:, 0], sites[:, 1]])
        return covariance, np.ascontiguousarray(mean.reshape(2, size).T)

    def evaluate(self, sites: FloatArray) -> State | None:
        """All that follows from sites, or None where they make no posterior."""
        found = self.posterior(sites)
        if found is None:
            return None
        covariance, mean = found
        size = sites.shape[0]
        marginal = np.empty((size, 2, 2))
        diagonal = np.diagonal(covariance)
        marginal[:, 0, 0], marginal[:, 1, 1] = diagonal[:size], diagonal[size:]
        marginal[:, 0, 1] = marginal[:, 1, 0] = np.diagonal(covariance, size)
        natural = natural_of(mean, marginal)
        if natural is None:
            return None
        tilted = self.observations.tilted(natural - sites)
        if not np.isfinite(tilted.log_normalizer).all():
            return None
        residual = tilted.mean - moments_of(mean, marginal)
        return State(sites, covariance, mean, marginal, natural - sites, tilted, residual, _mismatch(tilted, residual))

    def run(self, sites: FloatArray | None, tolerance: float, max_steps: int = 100) -> tuple[State, bool]:
        """Steps from given sites (or none) until the moments match; the best state and whether it does."""
        state = None if sites is None else self.evaluate(sites)
        if state is None:
            state = self.evaluate(np.zeros((self.observations.size, 5)))
        if state is None:
            raise ValueError(
                "the kernel matrix is too ill-conditioned to factorise; add a WhiteKernel of at least 1e-3 of its "
                "variance"
            )
        best, damping, stale = state, 1.0, 0
        for _ in range(max_steps):
            if state.mismatch <= tolerance or not math.isfinite(state.mismatch):
                break
            state = self._newton(state) or self._plain(state, damping) or best
            stale = 0 if state.mismatch < 0.9 * best.mismatch else stale + 1
            if state.mismatch < best.mismatch:
                best = state
            if stale >= _STALE or state.mismatch > _ASTRAY * best.mismatch:
                damping, stale, state = 0.5 * damping, 0, best
                if damping < _SHORTEST:
                    break
        return best, best.mismatch <= tolerance

    def _plain(self, state: State, damping: float) -> State | None:
        """A parallel update, shortened until the posterior exists."""
        mean, covariance = from_moments(state.tilted.mean)
        matched = natural_of(mean, covariance + _FLOOR * np.eye(2))
        if matched is None:
            return None
        change = matched - (state.cavity + state.sites)
        for halving in range(_HALVINGS):
            found = self.evaluate(state.sites + damping * 0.5**halving * change)
            if found is not None:
                return found
        return None

    def _newton(self, state: State) -> State | None:
        """A Newton step, taken where it brings the moments closer."""
        if state.mismatch > _NEWTON_BELOW:
            return None
        linear = Linearisation(state)
        found = self.evaluate(state.sites + linear.solve(state.residual, 1e-2))
        return found if found is not None and found.mismatch < 0.5 * state.mismatch else None


class Linearisation:
    """R' at a state, and systems with it and with its transpose."""

    def __init__(self, state: State):
        self._state = state
        size = state.mean.shape[0]
        self._tilted = state.tilted.covariance
        # Of C alone the own blocks J make R' = -J: that is the preconditioner. (On the circle T itself is singular.)
        self.inverse_own = np.linalg.inv(covariance_of(state.mean, state.marginal))
        self.rest = self._tilted @ self.inverse_own - np.eye(5)  # B - 1
        self._shape, self._count = (size, 5), 5 * size

    def response(self, change: FloatArray) -> FloatArray:
        """C · change."""
        return moment_response(self._state.covariance, self._state.mean, change)

    def solve(self, residual: FloatArray, tolerance: float) -> FloatArray:
        """The change of the sites that takes the residual away, to first order."""

        def product(v: FloatArray) -> FloatArray:
            change = v.reshape(self._shape)
            return each(self.inverse_own, each(self._tilted, change) - each(self.rest, self.response(change)))

        return self._gmres(product, each(self.inverse_own, residual), tolerance)

    def solve_transposed(self, right: FloatArray, tolerance: float) -> FloatArray:
        """λ with R'ᵀλ = right."""

        def product(v: FloatArray) -> FloatArray:
            change = v.reshape(self._shape)
            rest = self.response(each(np.swapaxes(self.rest, 1, 2), change))
            return each(self.inverse_own, each(self._tilted, change) - rest)

        return self._gmres(product, -each(self.inverse_own, right), tolerance)

    def _gmres(self, product: Callable[[FloatArray], FloatArray], right: FloatArray, tolerance: float) -> FloatArray:
        operator = LinearOperator((self._count, self._count), matvec=lambda v: product(v).ravel())
        found, _ = gmres(operator, right.ravel(), rtol=tolerance, restart=60, maxiter=3)
        return np.asarray(found).reshape(self._shape)


def each(matrices: Any, vectors: FloatArray) -> FloatArray:
    """Every matrix times its vector."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _mismatch(tilted: Tilted, residual: FloatArray) -> float:
    """Largest mismatch of a moment in units of its law's standard deviation."""
    width = np.sqrt(np.maximum(np.diagonal(tilted.covariance, axis1=1, axis2=2), _FLOOR))
    return float(np.abs(residual / width).max())
