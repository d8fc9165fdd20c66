"""Circular regression on a line with the exponential kernel, on the circle itself: an exact chain.

The Ornstein-Uhlenbeck prior s² exp(-|t - t'|/ℓ) in the plane has a tridiagonal precision; on the circle only
its couplings are left,

    log p(φ) = Σ_i p_i cos(φ_i - φ_{i+1}) + Σ_n log-likelihood_n(φ_n) - log Z,   p = r/(s²(1 - r²)),  r = e^{-Δ/ℓ},

and the prior's normaliser is 2π Π 2πI₀(p_i). Messages on a grid of the circle give the evidence, the marginals and the
leave-one-out densities to rounding. There is no nugget: it would couple all inputs. In its place a few inputs may be as
close as they like: gaps below a thousandth of the length scale count as that. A query point is one more link of the
chain: the pair of couplings with its two neighbours takes the place of the one between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import i0e, i1e, ive

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics import chain
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.engines.base import Accuracy, Engine, Posterior, Problem, Scored, Solution, UnresolvedError
from mgvm.regression.noise import Noise, Replicates
from mgvm.regression.prior import exponential_scales

# ---- the engine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainSolution(Solution):
    """The exact posterior at given hyper-parameters."""

    model: ChainModel
    state: ChainState
    scales: tuple[float, float]  # s² and ℓ


@dataclass(frozen=True, eq=False, kw_only=True)
class ChainPosterior(Posterior):
    """Messages of the chain, which a query joins as one more link."""

    times: FloatArray  # (N,), rising
    state: ChainState
    scales: tuple[float, float]  # s² and ℓ

    def leave_one_out(self) -> GridDensity:
        """Marginals without the own likelihood."""
        return GridDensity(self.state.full - self.state.site)

    def predict(self, queries: FloatArray, rng: np.random.Generator | None = None) -> GridDensity:
        """The exact distribution at every query (M, 1)."""
        return predict_link(self.times, self.state, self.scales, np.asarray(queries, dtype=float).reshape(-1))


class ChainEngine(Engine[ChainSolution]):
    """Messages on a grid of the circle, O(N n²) for n nodes; `max_nodes` and `max_products` N n² bound them."""

    def __init__(
        self, problem: Problem, tol: float | None = None, *, max_nodes: int = 2048, max_products: float = 5e11
    ):
        times = np.asarray(problem.inputs, dtype=float)
        kernel = problem.prior.kernels[0]
        if problem.radial_scale != 0.0 or problem.prior.pair != "shared" or exponential_scales(kernel) is None:
            raise ValueError(
                "the exact chain needs one kernel ConstantKernel() * Matern(nu=0.5), radial_scale='hard' and "
                f"coordinates='shared', got {kernel}, {problem.radial_scale:g} and {problem.prior.pair!r}; use "
                "inference='ep'"
            )
        if times.ndim != 2 or times.shape[1] != 1:
            raise ValueError(f"the exact chain needs one input column, got shape {times.shape}; use inference='ep'")
        if problem.criterion == "folds":
            raise ValueError(
                "inference='chain' chooses hyper-parameters by leave-one-out densities or the evidence and cannot "
                "honour fit(groups=...): it holds out no blocks; use inference='ep', or leave groups out"
            )
        rising = np.diff(times[:, 0])
        if not (rising > 0.0).all():
            raise ValueError(
                "inputs of an exact chain must be distinct and rising; merge the replicates of equal inputs"
            )
        # Inference is exact: every tolerance is met.
        super().__init__(problem, Accuracy(far=0.0, near=0.0, end=0.0))
        self._model = ChainModel(times[:, 0], problem.replicates, problem.noise, max_nodes, max_products)

    def solve(self, vector: FloatArray, tolerance: float = 0.0) -> ChainSolution:
        """The posterior at given hyper-parameters."""
        prior, rho = self.problem.split(vector)
        scales = self._scales(vector)
        state = self._model.solve(*scales, rho)
        loo = log_sum_exp(state.full) - log_sum_exp(state.full - state.site)
        score = state.log_normalizer if self.problem.criterion == "evidence" else float(loo.sum())
        return ChainSolution(
            prior=prior, rho=rho, score=score, loo=loo, converged=True, model=self._model, state=state, scales=scales
        )

    def objective_and_gradient(self, vector: FloatArray, tolerance: float = 0.0) -> Scored[ChainSolution]:
        """The same with the gradient of its score: exact of the evidence, else by differences."""
        found = self.solve(vector)
        if self.problem.criterion == "evidence":
            slopes = self._model.evidence_gradient(found.state, *found.scales, found.rho)
            return Scored(found, found.score, np.concatenate([self._turn(vector).T @ slopes[:2], slopes[2:]]))
        step = 1e-4
        ahead = [self.solve(vector + away).score for away in step * np.eye(vector.size)]
        return Scored(found, found.score, (np.array(ahead) - found.score) / step)

    def posterior(self, solution: ChainSolution) -> ChainPosterior:
        """What is kept of a solution."""
        return ChainPosterior(
            prior=solution.prior,
            rho=solution.rho,
            converged=True,
            mismatch=0.0,
            log_evidence=solution.state.log_normalizer,
            times=solution.model.times,
            state=solution.state,
            scales=solution.scales,
        )

    def _scales(self, vector: FloatArray) -> tuple[float, float]:
        scales = exponential_scales(self.problem.split(vector)[0].kernels[0])
        assert scales is not None  # the constructor has refused all other kernels
        return scales

    def _turn(self, vector: FloatArray) -> FloatArray:
        """d (log s², log ℓ) / dθ: both are linear in the kernel's logarithms."""
        here = np.log(self._scales(vector))
        steps = np.eye(vector.size)[: self.problem.prior.theta.size]
        return np.array([np.log(self._scales(vector + step)) - here for step in steps]).reshape(-1, 2).T


# ---- couplings -------------------------------------------------------------------------------------------------------


def couplings(gaps: FloatArray, variance: float, length: float) -> tuple[FloatArray, FloatArray]:
    """p = r/(s²(1 - r²)) of gaps between neighbours, and its slope in log ℓ."""
    ratio = gaps / length
    # r/(1 - r²) = 1/(2 sinh(Δ/ℓ)), and d/d log ℓ of it is (Δ/ℓ) coth(Δ/ℓ) times it.
    small = np.minimum(ratio, 700.0)
    values = 0.5 / (variance * np.sinh(small))
    return values, values * small / np.tanh(small)


# ---- messages -------------------------------------------------------------------------------------------------------


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
    max_nodes: int = 2048
    max_products: float = 5e11

    def gaps(self, length: float) -> tuple[FloatArray, np.ndarray]:
        """Gaps between neighbours (N - 1,), and which of them were widened: none where that would stretch the line."""
        gaps = np.diff(self.times)
        wider = np.maximum(gaps, 1e-3 * length)
        if wider.sum() > 1.02 * gaps.sum():
            wider = gaps
        return wider, wider > gaps

    def count(self, strengths: FloatArray, rho: FloatArray) -> int:
        """Nodes that resolve every conditional distribution; an error with the cure where they are too many."""
        total = self.noise.concentration(rho) * self.replicates.total
        total[:-1] += strengths
        total[1:] += strengths
        wanted = 4 * math.ceil((25.0 + 7.5 * math.sqrt(float(total.max()))) / 4)
        if wanted > self.max_nodes or self.times.size * float(wanted) ** 2 > self.max_products:
            raise UnresolvedError(
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


# ---- prediction -----------------------------------------------------------------------------------------------------


def predict_link(times: FloatArray, state: ChainState, scales: tuple[float, float], queries: FloatArray) -> GridDensity:
    """The exact distribution of the latent direction at every query point, one at a time."""
    variance, length = scales
    after = np.searchsorted(times, queries)
    left, right = np.maximum(after - 1, 0), np.minimum(after, times.size - 1)
    # Of a link (n, n + 1) cut open, n knows all up to itself, n + 1 all from itself on.
    backward = state.belief
    forward = state.full.copy()
    forward[:-1] -= state.up[1:]
    n = state.full.shape[1]
    total = np.zeros((queries.size, _FINER * n))
    for link, beliefs, gap in ((left, forward, queries - times[left]), (right, backward, times[right] - queries)):
        inside = (gap >= 0.0) if beliefs is forward else (gap >= 0.0) & (after < times.size)
        inside &= (after > 0) if beliefs is forward else True
        strength, _ = couplings(np.maximum(gap[inside], 1e-12 * length), variance, length)
        total[inside] += _message(beliefs[link[inside]], strength)
    exact = np.flatnonzero(times[right] == queries)
    if exact.size:
        total[exact] = _refined(state.full[right[exact]])
    return GridDensity(total)


_FINER = 4  # nodes of a prediction, times those of the messages


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
    values = np.fft.irfft(waves, _FINER * count, axis=1)
    return np.asarray(np.log(np.maximum(values, 1e-16 * values.max(axis=1, keepdims=True))))


def _probabilities(logs: FloatArray) -> FloatArray:
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
