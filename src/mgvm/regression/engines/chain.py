"""Circular regression on a line with the exponential kernel, on the circle itself: an exact chain.

The Ornstein-Uhlenbeck prior s² exp(-|t - t'|/ℓ) in the plane has a tridiagonal precision; on the circle only
its couplings are left,

    log p(φ) = Σ_i p_i cos(φ_i - φ_{i+1}) + Σ_n log-likelihood_n(φ_n) - log Z,   p = r/(s²(1 - r²)),  r = e^{-Δ/ℓ},

and the prior's normaliser is 2π Π 2πI₀(p_i). Messages on a grid of the circle give the evidence, the marginals and the
leave-one-out densities to rounding. There is no nugget: it would couple all inputs. In its place a few inputs may be as
close as they like: gaps below a thousandth of the length scale count as that. A query point is one more link of the
chain: the pair of couplings with its two neighbours takes the place of the one between them.

What the exact chain says of inputs that are too close for its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import i0e, i1e, ive

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics import chain
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.bounded_bfgs import minimise
from mgvm.regression.noise import Noise, Replicates
from mgvm.regression.prior import Prior


class ChainTooFineError(ValueError):
    """An exact chain would need too many nodes."""


_PRIOR_SPREAD = 1.5
_MOST_NODES = 2048
_MOST_PRODUCTS = 5e11
_FINENESS = 4
_CLOSEST = 1e-3  # length scales
_STRETCH = 0.02  # of the line, by gaps that were widened
_STEP = 1e-4  # of numerical slopes of the leave-one-out densities


def exponential_scales(kernel: Any) -> tuple[float, float] | None:
    """Variance and length scale of a kernel s² exp(-|t - t'|/ℓ); None of any other."""
    name = type(kernel).__name__
    if name == "Product":
        parts = (exponential_scales(kernel.k1), exponential_scales(kernel.k2))
        if parts[0] is None or parts[1] is None or math.isfinite(parts[0][1]) == math.isfinite(parts[1][1]):
            return None
        return parts[0][0] * parts[1][0], min(parts[0][1], parts[1][1])
    if name == "ConstantKernel":
        return float(kernel.constant_value), math.inf
    if name == "Matern" and kernel.nu == 0.5 and np.size(kernel.length_scale) == 1:
        return 1.0, float(np.ravel(kernel.length_scale)[0])
    return None


def is_exponential(kernel: Any) -> bool:
    """Whether a kernel is s² exp(-|t - t'|/ℓ)."""
    found = exponential_scales(kernel)
    return found is not None and math.isfinite(found[1])


def couplings(gaps: FloatArray, variance: float, length: float) -> tuple[FloatArray, FloatArray]:
    """p = r/(s²(1 - r²)) of gaps between neighbours, and its slope in log ℓ."""
    ratio = gaps / length
    # r/(1 - r²) = 1/(2 sinh(Δ/ℓ)), and d/d log ℓ of it is (Δ/ℓ) coth(Δ/ℓ) times it.
    small = np.minimum(ratio, 700.0)
    values = 0.5 / (variance * np.sinh(small))
    return values, values * small / np.tanh(small)


class ChainState(NamedTuple):
    """Messages at given hyper-parameters, all (N, n) and as logarithms up to constants."""

    site: FloatArray
    belief: FloatArray  # what the inputs from n on say of n
    up: FloatArray  # message of n to n - 1
    full: FloatArray  # marginals
    log_normalizer: float  # less that of the prior: the evidence
    coupling: FloatArray  # (N - 1,)


@dataclass(frozen=True)
class ChainModel:
    """Inputs (N,), strictly rising, and what was observed there."""

    times: FloatArray
    replicates: Replicates
    noise: Noise

    def gaps(self, length: float) -> tuple[FloatArray, np.ndarray]:
        """Gaps between neighbours (N - 1,), and which of them were widened: none where that would stretch the line."""
        gaps = np.diff(self.times)
        wider = np.maximum(gaps, _CLOSEST * length)
        if wider.sum() > (1.0 + _STRETCH) * gaps.sum():
            wider = gaps
        return wider, wider > gaps

    def count(self, strengths: FloatArray, rho: FloatArray) -> int:
        """Nodes that resolve every conditional distribution; an error with the cure where they are too many."""
        total = self.noise.concentration(rho) * self.replicates.total
        total[:-1] += strengths
        total[1:] += strengths
        wanted = 4 * math.ceil((25.0 + 7.5 * math.sqrt(float(total.max()))) / 4)
        if wanted > _MOST_NODES or self.times.size * float(wanted) ** 2 > _MOST_PRODUCTS:
            raise ChainTooFineError(
                f"an exact chain of {self.times.size} inputs would need {wanted} nodes each: some inputs are closer "
                f"than {0.5 / max(float(strengths.max(initial=0.0)), 1e-300):.2g} length scales, or the noise is too "
                "small; merge inputs that close, or use inference='ep'"
            )
        return wanted

    def solve(self, variance: float, length: float, rho: FloatArray) -> ChainState:
        """Messages, evidence and marginals."""
        strengths, _ = couplings(self.gaps(length)[0], variance, length)
        n = self.count(strengths, rho)
        site = self.noise.likelihood(rho, self.replicates, periodic_grid(n))[0]
        size = self.times.size
        parent, order = np.arange(-1, size - 1), np.arange(size)
        edges = np.zeros((size, 4))
        edges[1:, 0] = strengths
        belief, up = site.copy(), np.zeros_like(site)
        gain = chain.upward(belief, up, order, parent, edges)
        full = belief.copy()
        chain.downward(full, up, order, parent, edges)
        prior = math.log(2.0 * math.pi) + float(np.sum(np.log(2.0 * np.pi * i0e(strengths)) + strengths))
        value = float(gain.sum()) + size * math.log(2.0 * math.pi / n) - prior
        return ChainState(site, belief, up, full, value, strengths)

    def pairs(self, state: ChainState) -> FloatArray:
        """E[cos(φ_i - φ_{i+1})] (N - 1,)."""
        size = self.times.size
        edges = np.zeros((size, 4))
        edges[1:, 0] = state.coupling
        difference, _ = chain.pair_moments(state.belief, state.full, np.arange(-1, size - 1), edges)
        return np.asarray(difference[1:].real)

    def evidence_gradient(self, state: ChainState, variance: float, length: float, rho: FloatArray) -> FloatArray:
        """d log evidence in (log s², log ℓ, ρ): posterior less prior expectations."""
        gaps, widened = self.gaps(length)
        values, slopes = couplings(gaps, variance, length)
        slopes[widened] = 0.0
        surplus = self.pairs(state) - i1e(values) / i0e(values)
        features = self.noise.likelihood(rho, self.replicates, periodic_grid(state.full.shape[1]))[1]
        weights = _probabilities(state.full)
        noise = np.einsum("nj,njp->p", weights, features)
        return np.concatenate([[-float(surplus @ values), float(surplus @ slopes)], noise])


def leave_one_out(state: ChainState) -> FloatArray:
    """log p(y_n | all others) (N,): the marginal's mass over that of the marginal without its own likelihood."""
    return log_sum_exp(state.full) - log_sum_exp(state.full - state.site)


def predict(model: ChainModel, state: ChainState, variance: float, length: float, queries: FloatArray) -> GridDensity:
    """The exact distribution of the latent direction at every query point, one at a time."""
    times = model.times
    after = np.searchsorted(times, queries)
    left, right = np.maximum(after - 1, 0), np.minimum(after, times.size - 1)
    # Of a link (n, n + 1) cut open, n knows all up to itself, n + 1 all from itself on.
    backward = state.belief
    forward = state.full.copy()
    forward[:-1] -= state.up[1:]
    n = state.full.shape[1]
    total = np.zeros((queries.size, _FINENESS * n))
    for side, beliefs, gap in ((left, forward, queries - times[left]), (right, backward, times[right] - queries)):
        inside = (gap >= 0.0) if beliefs is forward else (gap >= 0.0) & (after < times.size)
        inside &= (after > 0) if beliefs is forward else True
        strength, _ = couplings(np.maximum(gap[inside], 1e-12 * length), variance, length)
        total[inside] += _message(beliefs[side[inside]], strength)
    exact = np.flatnonzero(times[right] == queries)
    if exact.size:
        total[exact] = _refined(state.full[right[exact]])
    return GridDensity(total)


def _message(beliefs: FloatArray, strengths: FloatArray) -> FloatArray:
    """log ∫ belief(φ') e^{p cos(φ - φ')} dφ' (M, r n), on a finer grid.

    The integral is a product of Fourier coefficients, those of the kernel I_k(p): exact for any p, also for one that
    the grid would not resolve, up to rounding of the peak.
    """
    density = _probabilities(beliefs)
    waves = np.fft.rfft(density, axis=1)
    kernel = ive(np.arange(waves.shape[1])[None, :], strengths[:, None]) / i0e(strengths)[:, None]
    return _from_waves(waves * kernel, beliefs.shape[1])


def _refined(logs: FloatArray) -> FloatArray:
    return _from_waves(np.fft.rfft(_probabilities(logs), axis=1), logs.shape[1])


def _from_waves(waves: ComplexArray, count: int) -> FloatArray:
    """Logarithms on a finer grid of densities with given Fourier coefficients."""
    values = np.fft.irfft(waves, _FINENESS * count, axis=1)
    return np.asarray(np.log(np.maximum(values, 1e-16 * values.max(axis=1, keepdims=True))))


def _probabilities(logs: FloatArray) -> FloatArray:
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class ChainTuned(NamedTuple):
    """Hyper-parameters with the exact posterior they give."""

    prior: Prior
    rho: FloatArray
    model: ChainModel
    state: ChainState
    loo: FloatArray
    log_evidence: float
    objective: float

    def predict(self, queries: Any) -> GridDensity:
        """The exact distribution of the latent direction at query points (M, 1)."""
        scales = exponential_scales(self.prior.kernels[0])
        assert scales is not None
        return predict(self.model, self.state, *scales, np.asarray(queries, dtype=float).reshape(-1))


@dataclass
class ChainTuning:
    """The problem: distinct inputs (N, 1), observations grouped by input, and what is to be learnt."""

    inputs: Any
    replicates: Replicates
    prior: Prior
    noise: Noise
    criterion: str = "loo"
    report: Callable[[float], object] = lambda value: None
    best: ChainTuned | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        times = np.asarray(self.inputs, dtype=float).reshape(-1)
        if self.prior.pair != "shared" or not is_exponential(self.prior.kernels[0]):
            raise ValueError(
                f"the exact chain needs one kernel ConstantKernel() * Matern(nu=0.5), got {self.prior.kernels[0]} with "
                f"pair={self.prior.pair!r}; use inference='ep'"
            )
        order = np.argsort(times)
        if times.size > 1 and not (np.diff(times[order]) > 0.0).all():
            raise ValueError("inputs of an exact chain must be distinct; group the observations of equal inputs")
        self._order = order
        sorted_already = bool((order == np.arange(times.size)).all())
        self._model = ChainModel(
            times[order], self.replicates if sorted_already else self.replicates.take(order), self.noise
        )

    @property
    def start(self) -> FloatArray:
        """Where the search begins, and the centre of the weak prior."""
        return np.concatenate([self.prior.theta, self.noise.start])

    def _scales(self, vector: FloatArray) -> tuple[Prior, tuple[float, float], FloatArray]:
        prior = self.prior.at(vector[: self.prior.theta.size])
        scales = exponential_scales(prior.kernels[0])
        assert scales is not None
        return prior, scales, vector[self.prior.theta.size :]

    def tuned(self, vector: FloatArray) -> ChainTuned:
        """The posterior at given hyper-parameters."""
        prior, scales, rho = self._scales(vector)
        state = self._model.solve(*scales, rho)
        parts = leave_one_out(state)
        away = (vector - self.start) / _PRIOR_SPREAD
        value = state.log_normalizer if self.criterion == "evidence" else float(parts.sum())
        loo = np.empty_like(parts)
        loo[self._order] = parts
        objective = value - 0.5 * float(away @ away)
        return ChainTuned(prior, rho, self._model, state, loo, state.log_normalizer, objective)

    def solve(self, vector: FloatArray) -> tuple[ChainTuned, FloatArray]:
        """The posterior, and the gradient of the objective: exact of the evidence, else by differences."""
        found = self.tuned(vector)
        if self.criterion == "evidence":
            _, scales, rho = self._scales(vector)
            slopes = self._model.evidence_gradient(found.state, *scales, rho)
            gradient = np.concatenate([self._turn(vector).T @ slopes[:2], slopes[2:]])
            return found, gradient - (vector - self.start) / _PRIOR_SPREAD**2
        steps = _STEP * np.eye(vector.size)
        return found, np.array([(self.tuned(vector + step).objective - found.objective) / _STEP for step in steps])

    def _turn(self, vector: FloatArray) -> FloatArray:
        """d (log s², log ℓ) / dθ: both are linear in the kernel's logarithms."""
        here = np.log(self._scales(vector)[1])
        steps = np.eye(vector.size)[: self.prior.theta.size]
        return np.array([np.log(self._scales(vector + step)[1]) - here for step in steps]).reshape(-1, 2).T

    def search(self, starts: list[FloatArray], max_iterations: int = 60) -> ChainTuned:
        """The best of several searches; an interruption keeps the best so far."""
        bounds = np.concatenate([self.prior.bounds, np.tile([-12.0, 12.0], (self.noise.start.size, 1))])
        curvature = 0.1 * float(self.replicates.total.sum()) + _PRIOR_SPREAD**-2
        for start in starts:
            minimise(self._negative, start, bounds, curvature=curvature, max_steps=max_iterations)
        assert self.best is not None
        return self.best

    def finish(self, vector: FloatArray) -> ChainTuned:
        """The posterior at given hyper-parameters."""
        return self.tuned(vector)

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        try:
            found, gradient = self.solve(vector)
        except ChainTooFineError:
            if self.best is None:
                raise
            return np.inf, np.zeros(vector.size)  # beyond what the nodes resolve: the search steps back
        if self.best is None or found.objective > self.best.objective:
            self.best = found
        self.report(found.objective)
        return -found.objective, -gradient
