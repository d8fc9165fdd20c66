"""Expectation propagation of circular regression with a dense kernel matrix: Gaussian sites, Newton steps.

The fixed point says that the moments of every tilted law are those of the Gaussian posterior. In natural parameters,
with ξ those of the posterior marginals, s those of the sites and ξ' those of the Gaussians that have the moments of the
tilted laws, it is F(s) = ξ' - ξ = 0; the plain update adds F to s. With C the posterior covariance of all T, J and J'
the covariances of T in one marginal and in one matched Gaussian, and the cavity ξ - s,

    dξ = J⁻¹ C ds,   dξ' = G (dξ - ds),   G = J'⁻¹ Cov_tilted[T],

so that Newton's step solves dξ - G(dξ - ds) = F by GMRES with products with C alone, O(N²) each. Where C has only its
own blocks J it is the plain update: steps are good from far. (Newton's method on moments instead is not.) Where a step
fails, that of dξ - G(dξ - ds) + ds = F is taken, a step of the implicit Euler method for ds/dt = F: it damps directions
in which sites hardly hold each other and leaves others free, where damping of the plain update holds all alike.

For derivatives at the fixed point, R = E_tilted[T] - E[T] has R' ds = (B - 1) C ds - Cov_tilted[T] ds, where
B = Cov_tilted[T] J⁻¹.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from mgvm._numerics.ep_response import moment_response
from mgvm._validation import FloatArray
from mgvm.models._gp_krylov import gmres
from mgvm.models._gp_plane import covariance_of, from_moments, moments_of, natural_of
from mgvm.models._gp_tilted import Observations, Tilted

_NEWTON_BELOW = 0.7  # mismatch from which Newton's steps are tried
_SMALLER = 0.7  # times the mismatch: what a Newton step must reach
_DAMPING = 1.0  # of the step that is taken where Newton's fails
_HALVINGS = 30
_FLOOR = 1e-10  # of the variance along the radius, which narrow laws on the circle do not have
_STALE = 8
_ASTRAY = 4.0  # times the smallest mismatch so far: then back to that state, with shorter steps
_SHORTEST = 0.02
# Frobenius' norm of x xᵀ counts x₁x₂ twice, that of a matrix [[ξ₃, ½ξ₄], [½ξ₄, ξ₅]] counts ξ₄ half: with these, steps
# and tolerances do not depend on where the angle 0 is.
_SECOND = np.array([0.0, 0.0, 1.0, 2.0, 1.0])
_NATURAL = np.array([1.0, 1.0, 1.0, math.sqrt(0.5), 1.0])


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
        one, cross, two = -2.0 * sites[:, 2], -sites[:, 3], -2.0 * sites[:, 4]
        if self.precision.shape[0] == size:
            covariance = _pair_inverse(self.precision, one, cross, two)
        else:
            array = self.precision.copy()
            flat, step = array.reshape(-1), 2 * size + 1
            flat[::step] += np.concatenate([one, two])
            flat[size : size * step : step] += cross
            flat[2 * size * size :: step] += cross
            covariance = symmetric_inverse(array)
        if covariance is None:
            return None
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

    def run(self, sites: FloatArray | None, tolerance: float, most: int = 200) -> tuple[State, bool]:
        """Steps from given sites (or none) until the moments match; the best state and whether it does.

        It gives up after `most` evaluations or so.
        """
        state = None if sites is None else self.evaluate(sites)
        if state is None:
            state = self.evaluate(np.zeros((self.observations.size, 5)))
        if state is None:
            raise ValueError(
                "the kernel matrix is too ill-conditioned to factorise; add a WhiteKernel of at least 1e-3 of its "
                "variance"
            )
        best, damping, stale, spent = state, 1.0, 0, 1
        while spent < most and state.mismatch > tolerance and math.isfinite(state.mismatch):
            moved, count = self._newton(state)
            spent += count if moved is not None else count + 1
            state = moved or self._plain(state, damping) or best
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
        matched = _matched(state)
        if matched is None:
            return None
        change = matched.natural - (state.cavity + state.sites)
        for halving in range(_HALVINGS):
            found = self.evaluate(state.sites + damping * 0.5**halving * change)
            if found is not None:
                return found
        return None

    def _newton(self, state: State) -> tuple[State | None, int]:
        """A Newton step where it brings the moments closer, else a damped one; and evaluations made."""
        matched = _matched(state) if state.mismatch <= _NEWTON_BELOW else None
        if matched is None:
            return None, 0
        try:
            inverse_own = np.linalg.inv(covariance_of(state.mean, state.marginal))
            gain = np.linalg.solve(covariance_of(matched.mean, matched.covariance), state.tilted.covariance)
        except np.linalg.LinAlgError:
            return None, 0
        right = (_NATURAL * (matched.natural - (state.cavity + state.sites))).ravel()
        # The step is as exact as it is good: its own error is of the order of the mismatch squared.
        tolerance = min(max(0.3 * state.mismatch, 1e-3), 0.1)
        for damping in (0.0, _DAMPING):

            def product(v: FloatArray, damping: float = damping) -> FloatArray:
                change = v.reshape(-1, 5) / _NATURAL
                moved = each(inverse_own, moment_response(state.covariance, state.mean, change))
                return (_NATURAL * (moved - each(gain, moved - change) + damping * change)).ravel()

            step = gmres(product, right, tolerance).reshape(-1, 5) / _NATURAL
            found = self.evaluate(state.sites + step)
            if found is not None and (damping > 0.0 or found.mismatch < _SMALLER * state.mismatch):
                return found, 2 if damping > 0.0 else 1
        return None, 2


class Matched(NamedTuple):
    """Gaussians with the moments of the tilted laws."""

    natural: FloatArray  # (N, 5)
    mean: FloatArray
    covariance: FloatArray


def _matched(state: State) -> Matched | None:
    mean, covariance = from_moments(state.tilted.mean)
    a, b, d = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    smallest = 0.5 * (a + d - np.hypot(a - d, 2.0 * b))
    covariance = covariance + np.maximum(_FLOOR - smallest, 0.0)[:, None, None] * np.eye(2)
    natural = natural_of(mean, covariance)
    return None if natural is None else Matched(natural, mean, covariance)


class Linearisation:
    """R' at a state, and systems with its transpose."""

    def __init__(self, state: State):
        self._state = state
        size = state.mean.shape[0]
        self._tilted = state.tilted.covariance
        # Of C alone the own blocks J make R' = -J: that is the preconditioner. (On the circle T itself is singular.)
        self.inverse_own = np.linalg.inv(covariance_of(state.mean, state.marginal))
        self.rest = self._tilted @ self.inverse_own - np.eye(5)  # B - 1
        self._shape = (size, 5)

    def response(self, change: FloatArray) -> FloatArray:
        """C · change."""
        return moment_response(self._state.covariance, self._state.mean, change)

    def solve_transposed(self, right: FloatArray, tolerance: float) -> FloatArray:
        """λ with R'ᵀλ = right."""

        def product(v: FloatArray) -> FloatArray:
            change = v.reshape(self._shape)
            rest = self.response(each(np.swapaxes(self.rest, 1, 2), change))
            return each(self.inverse_own, each(self._tilted, change) - rest).ravel()

        found = gmres(product, -each(self.inverse_own, right).ravel(), tolerance)
        return found.reshape(self._shape)


def each(matrices: Any, vectors: FloatArray) -> FloatArray:
    """Every matrix times its vector."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _mismatch(tilted: Tilted, residual: FloatArray) -> float:
    """Largest mismatch of a mean or of second moments in units of their law's standard deviations; turns leave it."""
    variances = np.maximum(np.diagonal(tilted.covariance, axis1=1, axis2=2), _FLOOR)
    squares = residual**2
    first = squares[:, :2].sum(axis=1) / variances[:, :2].sum(axis=1)
    second = (squares @ _SECOND) / (variances @ _SECOND)
    return math.sqrt(float(np.maximum(first, second).max()))


def symmetric_inverse(matrix: FloatArray) -> FloatArray | None:
    """The inverse of a positive definite matrix, which is overwritten; None where it is not."""
    factor, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        return None
    lower, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed:
        return None
    full = lower + lower.T
    full.reshape(-1)[:: full.shape[0] + 1] *= 0.5
    return np.asarray(full)


def _pair_inverse(precision: FloatArray, one: FloatArray, cross: FloatArray, two: FloatArray) -> FloatArray | None:
    """The inverse of [[W + D₁, D₁₂], [D₁₂, W + D₂]], D diagonal: two of half the size, of W + D₁ and of its complement.

    With P = (W + D₁)⁻¹ and Q = (W + D₂ - D₁₂ P D₁₂)⁻¹ it is [[P - X D₁₂ P, X], [Xᵀ, Q]], X = -P D₁₂ Q.
    """
    size = one.size
    first = precision.copy()
    first.reshape(-1)[:: size + 1] += one
    inner = symmetric_inverse(first)
    if inner is None:
        return None
    coupled = cross[:, None] * inner
    second = precision - coupled * cross
    second.reshape(-1)[:: size + 1] += two
    outer = symmetric_inverse(second)
    if outer is None:
        return None
    out = np.empty((2 * size, 2 * size))
    mixed = -(coupled.T @ outer)
    out[:size, :size] = inner - mixed @ coupled
    out[:size, size:], out[size:, :size], out[size:, size:] = mixed, mixed.T, outer
    return out
