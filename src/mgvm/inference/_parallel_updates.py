"""The loop of the public expectation propagation: Gaussian posterior, cavities, tilted moments, parallel updates.

All Gaussians are in natural parameters: -½xᵀΛx + hᵀx. With Φ(Λ, h) = log ∫ exp(-½xᵀΛx + hᵀx) dx the normaliser is

    log Z = Φ(Λ₀ + S, h₀ + h) - Φ(Λ₀, h₀) + Σ_n [log Z̃_n - Φ(Λ_n, h_n)],

(S, h) the sites, (Λ_n, h_n) the posterior marginal of angle n in the plane and Z̃_n the tilted normaliser of its
unnormalised cavity. No cavity needs to be proper.

Updates are parallel, shortened where they leave no posterior, and extrapolated by Anderson's method. The regression
(`mgvm.regression.engines.dense`) takes Newton steps instead: it starts near the fixed point, where they need less than
half as many evaluations, and has the full covariance at hand. From nothing on the hard circle parallel updates are as
fast or faster, and converge on stiff priors where Newton's do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from mgvm._validation import FloatArray
from mgvm.inference._planar_gaussian import are_positive_definite, invert_pairs
from mgvm.inference._tilted import Sites, Tilted


@dataclass(frozen=True)
class Problem:
    """A Gaussian in the plane of every angle, x = [cos; sin], times one site for each angle."""

    precision: FloatArray  # (N, N), one for cos and one for sin, or (2N, 2N)
    linear: FloatArray  # (N, 2), h₀
    sites: Sites
    constant: float  # what log Z needs besides the sum over angles
    shift: float = 0.0  # what was added to the diagonal of the precision and makes no difference on the torus

    @property
    def size(self) -> int:
        """The number of angles."""
        return int(self.linear.shape[0])


class Approximation(NamedTuple):
    """Natural parameters of a Gaussian for each angle: the sites, or the cavities."""

    precision: FloatArray  # (N, 2, 2)
    linear: FloatArray  # (N, 2)


class Marginals(NamedTuple):
    """Marginals of the Gaussian posterior, and the share of every angle in -½ log|Λ₀ + S|."""

    mean: FloatArray  # (N, 2)
    covariance: FloatArray  # (N, 2, 2)
    precision: FloatArray  # (N, 2, 2), inverse of each covariance
    linear: FloatArray  # (N, 2)
    log_volume: FloatArray  # (N,)


class ParallelState(NamedTuple):
    """Sites with all that follows from them."""

    sites: Approximation
    posterior: Marginals
    cavity: Approximation
    tilted: Tilted
    change: float


class Run(NamedTuple):
    """Where the loop ended."""

    state: ParallelState
    trace: FloatArray
    converged: bool


class Workspace:
    """One (2N, 2N) array in Fortran order that every factorisation is done in."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.array = np.empty((2 * problem.size, 2 * problem.size), order="F")

    def _fill(self, sites: FloatArray) -> None:
        """Λ₀ + S, lower triangle."""
        size, array, prior = self.problem.size, self.array, self.problem.precision
        if prior.shape[0] == size:
            array[:size, :size] = prior
            array[size:, size:] = prior
            array[size:, :size] = 0.0
        else:
            array[...] = prior
        diagonal = array.reshape(-1, order="F")
        step = 2 * size + 1
        diagonal[: size * step : step] += sites[:, 0, 0]
        diagonal[size * step :: step] += sites[:, 1, 1]
        diagonal[size : size * step : step] += sites[:, 0, 1]

    def factor(self, sites: FloatArray) -> FloatArray | None:
        """L with LLᵀ = Λ₀ + S, in place, or None where that is not positive definite."""
        self._fill(sites)
        factor, failed = lapack.dpotrf(self.array, lower=1, clean=1, overwrite_a=1)
        return None if failed else factor

    def posterior(self, sites: Approximation) -> Marginals | None:
        """Marginals by one Cholesky factorisation and one triangular inverse, or None where Λ₀ + S is not positive.

        With Λ₀ + S = LLᵀ the marginals are products of columns of L⁻¹: the full inverse, half as much work again, is
        not needed.
        """
        size = self.problem.size
        factor = self.factor(sites.precision)
        if factor is None:
            return None
        logs = np.log(np.diagonal(factor))
        inverse, failed = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        if failed:
            return None
        linear = (self.problem.linear + sites.linear).T.ravel()
        mean = ((inverse @ linear) @ inverse).reshape(2, size).T
        rows = inverse.T
        squares = np.einsum("ij,ij->i", rows, rows)
        covariance = np.empty((size, 2, 2))
        covariance[:, 0, 0], covariance[:, 1, 1] = squares[:size], squares[size:]
        # Columns of the sin half are zero above their diagonal, so only their rows meet.
        covariance[:, 0, 1] = covariance[:, 1, 0] = np.einsum("ij,ij->i", rows[:size, size:], rows[size:, size:])
        if not are_positive_definite(covariance).all() or not np.isfinite(mean).all():
            return None
        precision = invert_pairs(covariance)
        own = np.einsum("nij,nj->ni", precision, mean)
        return Marginals(mean, covariance, precision, own, -logs[:size] - logs[size:])


def log_normalizer_shares(problem: Problem, state: ParallelState) -> FloatArray:
    """What every angle adds to log Z, (N,); the problem's constant comes on top.

    In Φ(Λ₀ + S, h₀ + h) - Σ_n Φ(Λ_n, h_n) the quadratic terms of narrow distributions are huge and all but cancel. With
    m the posterior mean and h_n = h + cavity they are ½ m·(h₀ + h) - ½ m·(h + cavity) = ½ m·(h₀ - cavity).
    """
    posterior, v = state.posterior, state.posterior.covariance
    quadratic = 0.5 * (posterior.mean * (problem.linear - state.cavity.linear)).sum(axis=1)
    determinant = v[:, 0, 0] * v[:, 1, 1] - v[:, 0, 1] ** 2
    return posterior.log_volume - 0.5 * np.log(determinant) + quadratic + state.tilted.log_normalizer


def evaluate(workspace: Workspace, sites: Approximation) -> ParallelState | None:
    """Posterior, cavities and tilted distributions of given sites, or None where they make no posterior."""
    posterior = workspace.posterior(sites)
    if posterior is None:
        return None
    cavity = Approximation(posterior.precision - sites.precision, posterior.linear - sites.linear)
    # Beyond 1e14 the distribution on the circle is narrower than doubles resolve.
    if not all(np.abs(part).max() < 1e14 for part in cavity):
        return None
    tilted = workspace.problem.sites.tilted(*cavity)
    shift, spread = _mismatch(tilted, posterior)
    change = float(max(np.abs(shift).max(), np.abs(spread).max()))
    if not (np.isfinite(change) and np.isfinite(tilted.log_normalizer).all()):
        return None
    return ParallelState(sites, posterior, cavity, tilted, change)


def evaluate_prior(workspace: Workspace) -> ParallelState:
    """The state without sites; where rounding makes the prior's own factorisation fail, with the least that helps."""
    size = workspace.problem.size
    extra = 0.0
    scale = float(np.abs(np.diagonal(workspace.problem.precision)).max())
    for exponent in range(-15, 3):
        sites = Approximation(np.broadcast_to(extra * np.eye(2), (size, 2, 2)).copy(), np.zeros((size, 2)))
        state = evaluate(workspace, sites)
        if state is not None:
            return state
        extra = scale * 10.0**exponent
    raise ValueError("the prior is too ill-conditioned to factorise; add a nugget of 1e-3 of the kernel variance")


def _mismatch(tilted: Tilted, posterior: Marginals) -> tuple[FloatArray, FloatArray]:
    """Means (N, 2) and covariances (N, 2, 2), tilted less posterior, in units of the tilted distribution's width."""
    width = tilted.covariance[:, 0, 0] + tilted.covariance[:, 1, 1]
    shift = (tilted.mean - posterior.mean) / np.sqrt(width)[:, None]
    return shift, (tilted.covariance - posterior.covariance) / width[:, None, None]


def step_sites(state: ParallelState, step: float) -> Approximation:
    """Sites moved towards those that match the tilted moments: tilted minus cavity = site + (tilted - posterior)."""
    tilted = state.tilted
    linear = np.einsum("nij,nj->ni", tilted.precision, tilted.mean)
    return Approximation(
        state.sites.precision + step * (tilted.precision - state.posterior.precision),
        state.sites.linear + step * (linear - state.posterior.linear),
    )


class _History:
    """The last iterates, and the combination of them that would have left the smallest residual (Anderson).

    By least squares: Gram matrices, as mean field has them for many columns at once, took up to 1.6 times as many
    sweeps on small problems. The residual is the mismatch of moments in units of each distribution's width, so that no
    angle counts for more because its natural parameters are large; the combination is applied to the natural
    parameters.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[FloatArray, FloatArray]] = []

    def add(self, state: ParallelState) -> None:
        """Keep a state."""
        full, mismatch = step_sites(state, 1.0), _mismatch(state.tilted, state.posterior)
        end, residual = (np.concatenate([part.ravel() for part in parts]) for parts in (full, mismatch))
        self.rows = [*self.rows[-12:], (end, residual)]

    def proposal(self) -> Approximation | None:
        """Sites extrapolated from what is kept; None where there is too little."""
        if len(self.rows) < 3:
            return None
        ends, residuals = (np.array(part) for part in zip(*self.rows, strict=True))
        share = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=1e-8)[0]
        sites = ends[-1] - share @ np.diff(ends, axis=0)
        size = sites.size // 6
        return Approximation(sites[: 4 * size].reshape(size, 2, 2), sites[4 * size :].reshape(size, 2))


def iterate(workspace: Workspace, start: ParallelState, max_sweeps: int, tolerance: float, damping: float) -> Run:
    """Sweep from `start` until nothing changes: parallel steps, extrapolated once they decay slowly.

    Extrapolation begins after four sweeps, where the change is below 0.01 and so near a fixed point; one that doubles
    the change is not taken. After 40 sweeps without progress the step is shortened.
    """
    state, best, step, stale, history = start, start, damping, 0, _History()
    trace = [start.change]
    while state.change > tolerance and len(trace) <= max_sweeps:
        history.add(state)
        following = None
        proposal = history.proposal() if len(trace) > 4 and state.change < 0.01 else None
        if proposal is not None:
            following = evaluate(workspace, proposal)
            if following is None or following.change > 2.0 * state.change:
                history, following = _History(), None
        if following is None:
            following = _advance(workspace, state, step)
        if following is None:
            break
        state = following
        trace.append(state.change)
        stale = 0 if state.change < best.change else stale + 1
        if state.change < best.change:
            best = state
        if stale >= 40:
            step, stale = max(0.6 * step, 0.02), 0
    return Run(best, np.array(trace), best.change <= tolerance)


def _advance(workspace: Workspace, state: ParallelState, step: float) -> ParallelState | None:
    """One sweep, its step halved until the posterior exists."""
    for _ in range(40):
        following = evaluate(workspace, step_sites(state, step))
        if following is not None:
            return following
        step *= 0.5
    return None
