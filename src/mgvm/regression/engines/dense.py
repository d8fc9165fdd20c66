"""Expectation propagation of circular regression with a dense kernel matrix: Gaussian sites, Newton steps.

The fixed point says that the moments of every tilted distribution are those of the Gaussian posterior. In natural
parameters, with ξ those of the posterior marginals, s those of the sites and ξ' those of the Gaussians that have the
moments of the tilted distributions, it is F(s) = ξ' - ξ = 0; the plain update adds F to s. With C the posterior
covariance of all T, J and J' the covariances of T in one marginal and in one matched Gaussian, and the cavity ξ - s,

    dξ = J⁻¹ C ds,   dξ' = G (dξ - ds),   G = J'⁻¹ Cov_tilted[T],

so that Newton's step solves dξ - G(dξ - ds) = F by GMRES with products with C alone, O(N²) each. Where C has only its
own blocks J it is the plain update: steps are good from far. (Newton's method on moments instead is not.) Where a step
fails, that of dξ - G(dξ - ds) + ds = F is taken, a step of the implicit Euler method for ds/dt = F: it damps directions
in which sites hardly hold each other and leaves others free, where damping of the plain update holds all alike.

For derivatives at the fixed point, R = E_tilted[T] - E[T] has R' ds = (B - 1) C ds - Cov_tilted[T] ds, where
B = Cov_tilted[T] J⁻¹.

Linear systems that are known by their products alone.

What circular regression is tuned by, with exact gradients: leave-one-out densities, and EP's evidence.

**Leave-one-out.** L = Σ_n [log ∫ cavity_n · radial · likelihood_n - log ∫ cavity_n · radial]. Its cavities follow from
the sites, which follow from the hyper-parameters through the fixed point R(s, θ) = 0 of `_gp_dense`. With g = dL/d
cavity, q = J⁻¹g and R'ᵀλ = Cq - g, any change dμ of the prior's making and any change of the noise give

    dL = [q - (B - 1)ᵀλ]·dμ + (E_tilted[f] - λᵀ Cov_tilted[T, f]) dρ,   f = d log-likelihood / dρ,

one linear system for all hyper-parameters. **Evidence.** log Z is stationary in the sites, so its gradient is explicit.

Hyper-parameters of circular regression: leave-one-out densities (or the evidence) with weak priors, by L-BFGS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from mgvm._numerics.propagation import moment_response
from mgvm._validation import FloatArray
from mgvm.regression.bounded_bfgs import minimise
from mgvm.regression.engines.tilted import Observations, Tilted, covariance_of, from_moments, moments_of, natural_of
from mgvm.regression.noise import Noise, Replicates
from mgvm.regression.prior import Prior


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


_NEWTON_BELOW = 0.7  # mismatch from which Newton's steps are tried
_SMALLER = 0.7  # times the mismatch: what a Newton step must reach
_DAMPING = 1.0  # of the step that is taken where Newton's fails
_HALVINGS = 30
_FLOOR = 1e-10  # of the variance along the radius, which narrow distributions on the circle do not have
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
    """Gaussians with the moments of the tilted distributions."""

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
    """Largest mismatch of a mean or of second moments in units of their distribution's standard deviations; turns leave it."""
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


class Score(NamedTuple):
    """A sum over inputs, its parts, and its gradients in the prior's covariance and in the noise's coefficients."""

    value: float
    parts: FloatArray  # (N,)
    covariance_gradient: FloatArray  # (N, N), or (2N, 2N) where the prior's is
    noise_gradient: FloatArray  # (p,)


def leave_one_out(problem: DensePropagation, state: State) -> Score:
    """The leave-one-out log densities of all inputs."""
    alone = problem.observations.cavities(state.cavity)
    parts = state.tilted.log_normalizer - alone.log_normalizer
    slope = state.tilted.mean - alone.mean
    linear = Linearisation(state)
    own = each(linear.inverse_own, slope)
    adjoint = linear.solve_transposed(linear.response(own) - slope, 1e-7)
    moments = own - each(np.swapaxes(linear.rest, 1, 2), adjoint)
    noise = state.tilted.noise_mean.sum(axis=0) - np.einsum("np,npq->q", adjoint, state.tilted.noise_cross)
    # Moments that do not quite match yet: to first order the fixed point lies at s - R'⁻¹R, where L is less by λ·R.
    value = float(parts.sum()) - float((adjoint * state.residual).sum())
    return Score(value, parts, _covariance_gradient(problem, state, moments), noise)


def evidence(problem: DensePropagation, state: State) -> Score:
    """log Z of expectation propagation on the plane (τ infinite), where the prior needs no normaliser of its own."""
    size = state.mean.shape[0]
    shared = problem.precision.shape[0] == size
    parts = state.tilted.log_normalizer - log_volume(state.cavity + state.sites)
    _, log_prior = np.linalg.slogdet(problem.precision)
    _, log_posterior = np.linalg.slogdet(state.covariance)
    linear = np.concatenate([state.sites[:, 0], state.sites[:, 1]])
    joint = 0.5 * log_posterior + 0.5 * float(linear @ state.mean.T.ravel())
    value = float(parts.sum()) + joint + (1.0 if shared else 0.5) * float(log_prior)
    # ½ tr[(K⁻¹(Σ + mmᵀ)K⁻¹ - K⁻¹) dK] and K⁻¹Σ = 1 - SΣ, so K⁻¹ΣK⁻¹ - K⁻¹ = -S + SΣS: no inverse of K is needed.
    halves = prior_times(state)
    pulled = [half @ linear for half in halves]
    ends = [-site_times(state, half) for half in halves]

    def block(i: int, j: int) -> FloatArray:
        return 0.5 * (ends[i][:, size * j : size * (j + 1)] + np.outer(pulled[i], pulled[j]))

    gradient = block(0, 0) + block(1, 1) if shared else np.block([[block(i, j) for j in (0, 1)] for i in (0, 1)])
    return Score(value, parts, gradient, state.tilted.noise_mean.sum(axis=0))


def log_volume(natural: FloatArray) -> FloatArray:
    """log ∫ exp(ξ·T) of Gaussians in the plane, with precision -[[2ξ₃, ξ₄], [ξ₄, 2ξ₅]]."""
    one, cross, two = -2.0 * natural[:, 2], -natural[:, 3], -2.0 * natural[:, 4]
    determinant = one * two - cross**2
    h1, h2 = natural[:, 0], natural[:, 1]
    square = (two * h1 * h1 - 2.0 * cross * h1 * h2 + one * h2 * h2) / determinant
    return np.log(2.0 * np.pi) - 0.5 * np.log(determinant) + 0.5 * square


def prior_times(state: State) -> tuple[FloatArray, FloatArray]:
    """Both halves of K⁻¹Σ = 1 - SΣ, (N, 2N) each; S the precision of the sites."""
    size, sites, covariance = state.mean.shape[0], state.sites, state.covariance
    one, cross, two = (-2.0 * sites[:, 2:3], -sites[:, 3:4], -2.0 * sites[:, 4:5])
    top = -(one * covariance[:size] + cross * covariance[size:])
    bottom = -(cross * covariance[:size] + two * covariance[size:])
    places = np.arange(size)
    top[places, places] += 1.0
    bottom[places, size + places] += 1.0
    return top, bottom


def site_times(state: State, half: FloatArray) -> FloatArray:
    """One half of (1 - SΣ) S, (N, 2N)."""
    size, sites = state.mean.shape[0], state.sites
    one, cross, two = -2.0 * sites[:, 2], -sites[:, 3], -2.0 * sites[:, 4]
    left, right = half[:, :size], half[:, size:]
    return np.concatenate([left * one + right * cross, left * cross + right * two], axis=1)


def _covariance_gradient(problem: DensePropagation, state: State, weights: FloatArray) -> FloatArray:
    """Gradient in K of weights·E[T] of the posterior marginals, from dΣ = GᵀdK G with G = K⁻¹Σ."""
    size, mean = state.mean.shape[0], state.mean
    one, cross, two = weights[:, 2], 0.5 * weights[:, 3], weights[:, 4]
    pull = weights[:, :2] + 2.0 * np.stack(
        [one * mean[:, 0] + cross * mean[:, 1], cross * mean[:, 0] + two * mean[:, 1]], axis=1
    )
    halves = prior_times(state)
    linear = np.concatenate([state.sites[:, 0], state.sites[:, 1]])
    flat = pull.T.ravel()
    left, right = [half @ flat for half in halves], [half @ linear for half in halves]
    scaled = [
        np.concatenate([h[:, :size] * one + h[:, size:] * cross, h[:, :size] * cross + h[:, size:] * two], axis=1)
        for h in halves
    ]

    def block(i: int, j: int) -> FloatArray:
        return np.asarray(scaled[i] @ halves[j].T + np.outer(left[i], right[j]))

    if problem.precision.shape[0] == size:
        gradient = block(0, 0) + block(1, 1)
    else:
        gradient = np.block([[block(0, 0), block(0, 1)], [block(1, 0), block(1, 1)]])
    return np.asarray(0.5 * (gradient + gradient.T))


_PRIOR_SPREAD = 1.5  # standard deviation of the weak prior on every logarithm
_MOST = 50  # evaluations of expectation propagation while searching
_FEWER = 14  # once a place is known where it settles: what needs more is no place to stay at
_FAR = 3.0  # times that, while a step still changes the objective by a nat or more
_NEAR = 2.0  # of logarithms: from further away propagation starts anew
_SAME = 0.3  # of logarithms: so near to an earlier optimum a search would only find that again
_HOPELESS = 0.1  # times what it is behind: a search that promises less is given up
_LOST = 1e-2  # mismatch of a state that is no answer
_ROUGH, _FINE = 3e-3, 1e-7  # mismatch of expectation propagation while searching (its value is corrected), at the end


class Tuned(NamedTuple):
    """Hyper-parameters with the posterior they give."""

    prior: Prior
    rho: FloatArray
    state: State
    score: Score
    objective: float
    converged: bool

    @property
    def vector(self) -> FloatArray:
        """All hyper-parameters: the prior's, then the noise's."""
        return np.concatenate([self.prior.theta, self.rho])


@dataclass
class Tuning:
    """The problem: inputs, observations grouped by input, and what is to be learnt."""

    inputs: Any
    replicates: Replicates
    prior: Prior
    noise: Noise
    spread: float
    criterion: str = "loo"
    report: Callable[[float], object] = lambda value: None
    best: Tuned | None = field(default=None, init=False)
    _settling: bool = field(default=False, init=False)
    _last: float | None = field(default=None, init=False)
    _solved: list[tuple[FloatArray, FloatArray]] = field(default_factory=list, init=False)  # with their sites

    @property
    def start(self) -> FloatArray:
        """Where the search begins, and the centre of the weak prior."""
        return np.concatenate([self.prior.theta, self.noise.start])

    @property
    def prior_precision(self) -> float:
        """Of the weak prior on every hyper-parameter."""
        return _PRIOR_SPREAD**-2

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper bounds (p, 2)."""
        rest = np.tile([-12.0, 12.0], (self.noise.start.size, 1))
        return np.concatenate([self.prior.bounds, rest])

    def solve(self, vector: FloatArray, tolerance: float) -> tuple[Tuned, FloatArray]:
        """The posterior at given hyper-parameters, and the gradient of the objective."""
        prior, rho = self.prior.at(vector[: self.prior.theta.size]), vector[self.prior.theta.size :]
        matrix, pull_back = prior.with_gradient(self.inputs)
        problem = DensePropagation(inverse(matrix), Observations(self.replicates, self.noise, rho, self.spread))
        state, converged = problem.run(self._near(vector), tolerance, self._most(tolerance))
        if converged:
            self._solved.append((vector, state.sites))
        score = (evidence if self.criterion == "evidence" else leave_one_out)(problem, state)
        gradient = np.concatenate([pull_back(score.covariance_gradient), score.noise_gradient])
        away = (vector - self.start) / _PRIOR_SPREAD
        objective = score.value - 0.5 * float(away @ away)
        return Tuned(prior, rho, state, score, objective, converged), gradient - away / _PRIOR_SPREAD

    def _near(self, vector: FloatArray) -> FloatArray | None:
        """Sites of the nearest hyper-parameters where propagation has settled, if any is near."""
        known = [(float(np.abs(vector - other).max()), sites) for other, sites in self._solved]
        distance, sites = min(known, key=lambda item: item[0], default=(np.inf, None))
        return sites if distance < _NEAR else None

    def _most(self, tolerance: float) -> int:
        """Evaluations that are worth while."""
        if tolerance <= _FINE:
            return 4 * _MOST
        return _MOST if self.best is None or not self.best.converged else _FEWER

    def search(self, starts: list[FloatArray], max_iterations: int = 60) -> Tuned:
        """The best of several searches; an interruption keeps the best so far."""
        # An observation tells about 0.1 nats of each logarithm, its prior the rest.
        curvature = 0.1 * float(self.replicates.total.sum()) + _PRIOR_SPREAD**-2
        for start in starts:
            before, self._last, self._settling = self.best, None, False

            def redundant(vector: FloatArray, value: float, promised: float, before: Tuned | None = before) -> bool:
                """Whether an earlier search has ended nearby, or above all that this one can hope for."""
                if before is None or not before.converged:
                    return False
                behind = value + before.objective
                close = float(np.abs(vector - before.vector).max()) < _SAME
                return (close and behind > 0.0) or promised < _HOPELESS * behind

            minimise(
                self._negative, start, self.bounds, curvature=curvature, max_steps=max_iterations, redundant=redundant
            )
        assert self.best is not None
        return self.finish(self.best.vector)

    def finish(self, vector: FloatArray) -> Tuned:
        """The posterior at given hyper-parameters, to full accuracy."""
        return self.solve(vector, _FINE)[0]

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        found, gradient = self.solve(vector, _ROUGH if self._settling else _FAR * _ROUGH)
        self._settling = self._last is not None and abs(found.objective - self._last) < 1.0
        self._last = found.objective
        if self.best is None or (found.converged, found.objective) > (self.best.converged, self.best.objective):
            self.best = found
        self.report(found.objective)
        # Where the moments do not come to match, neither value nor gradient means much: the search steps back.
        lost = not found.converged and found.state.mismatch > _LOST and self.best.converged
        return (np.inf if lost else -found.objective), -gradient


def inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a covariance matrix; an error with the cure where there is none."""
    found = symmetric_inverse(np.array(matrix, dtype=float))
    if found is None:
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        raise ValueError(
            f"the kernel matrix is not positive definite (smallest eigenvalue {smallest:.3g}); use a valid kernel, or "
            "add a WhiteKernel that lifts its diagonal by more than that"
        )
    return found
