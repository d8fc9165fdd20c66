"""Expectation propagation: a Gaussian in the plane of every angle, times a circle constraint and a site for each.

The loop is in `_parallel_updates`, the tilted distributions in `_tilted`. Here are the problem with its checks, the
symmetry of its solutions, the result, and its verification by a short Gibbs run.

**Symmetry.** A distribution without odd harmonics is the same after half a turn of all angles. Its Gaussian
approximation either sits at the symmetric point (all means zero) or has picked one of two solutions that are half a
turn apart; then both are the answer. Angles that no coupling connects turn on their own, so all is done for each
connected component.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.linalg import lapack
from scipy.optimize import brentq
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackError, eigsh
from scipy.special import entr, expit

from mgvm import _validation as check
from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.gvm import total_concentration
from mgvm._threads import single_thread
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.base import CircularDistribution
from mgvm.circle.exponential_family import LARGEST_CONCENTRATION, ExponentialFamily
from mgvm.circle.graded_nodes import Features, features_of, resolve_density
from mgvm.circle.grid_density import GridDensity
from mgvm.circle.gvm import GvM
from mgvm.inference._gibbs import gibbs
from mgvm.inference._parallel_updates import (
    Approximation,
    ParallelState,
    Problem,
    Run,
    Workspace,
    evaluate,
    evaluate_prior,
    iterate,
    log_normalizer_shares,
    step_sites,
)
from mgvm.inference._tilted import GridSites, HarmonicSites, Sites, circle_parameters
from mgvm.inference.result import ConvergenceWarning, LogNormalizer, TableOfMarginals
from mgvm.natural.parameters import Natural, TorusDistribution, dense_coupling, natural


@dataclass(frozen=True, eq=False, repr=False)
class EPResult(TableOfMarginals):
    """What expectation propagation found.

    Natural parameters are those of exp(-½xᵀΛx + hᵀx) with x = (cos φ, sin φ).

    Attributes
    ----------
    converged : bool
        Whether the moments of all tilted distributions match those of the Gaussian posterior to the tolerance, and no
        verification contradicts them.
    disagreement : float
        The largest difference of E[e^{iφ}] of an angle from that of a short Gibbs run; NaN where none was made.
    trace : ndarray
        The largest mismatch after each sweep, in units of each distribution's width.
    log_normalizer : LogNormalizer
        log Z; its standard error is NaN, since the approximation does not know its own.
    site_precision, site_linear : ndarray, shapes (N, 2, 2) and (N, 2)
        The Gaussian sites.
    cavity_precision, cavity_linear : ndarray, shapes (N, 2, 2) and (N, 2)
        The Gaussian posterior of each angle without its own site. It need not be proper.
    mean, covariance : ndarray, shapes (N, 2) and (N, 2, 2)
        The Gaussian posterior of x for each angle.
    symmetric : bool
        Whether the distribution, or an unconnected part of it, is unchanged by a turn of its angles (by π, say). If its
        solution is not, marginals and log Z are those of all turned copies together; sites, cavities, mean and
        covariance describe one.
    solution_weight : ndarray, shape (N,)
        Mass of the solution they describe, 1 where there is only one.
    shift : float
        What was added to the diagonal of the precision when the engine was given a distribution.
    """

    converged: bool
    trace: FloatArray
    log_normalizer: LogNormalizer
    site_precision: FloatArray
    site_linear: FloatArray
    cavity_precision: FloatArray
    cavity_linear: FloatArray
    mean: FloatArray
    covariance: FloatArray
    symmetric: bool
    solution_weight: FloatArray
    shift: float
    disagreement: float
    _solution: Solution

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"EPResult({len(self.mean)} angles, {state}, log Z {float(self.log_normalizer):.6g})"

    @cached_property
    def marginals(self) -> CircularDistribution:
        """The tilted distributions (cavity times site), one batch (N,)."""
        return self._solution.marginals()

    @cached_property
    def leave_one_out(self) -> CircularDistribution:
        """p(φ_n | all data but n), one batch (N,): the cavities on the circle."""
        return self._solution.leave_one_out()

    def leave_one_out_log_density(self) -> FloatArray:
        """log p(data n | all data but n), (N,)."""
        return self._solution.leave_one_out_log_density()


def expectation_propagation(
    covariance: ArrayLike | TorusDistribution,
    sites: ArrayLike | None = None,
    *,
    log_likelihood: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    max_sweeps: int = 200,
    tolerance: float = 1e-8,
    damping: float = 1.0,
    start: EPResult | None = None,
    verify: bool | None = None,
    settings: VerificationSettings | None = None,
) -> EPResult:
    r"""Approximate N(x; mean, K) Π_n site_n(φ_n), x_n = (cos φ_n, sin φ_n), by Gaussian sites in the plane.

    Each tilted distribution, Gaussian cavity on the circle times site, is a GvM whose first two moments are exact; the
    Gaussian posterior is made to match its mean and covariance at every angle. With one angle, or with no coupling, the
    answer is exact. Where data are weak and the prior stiff the marginals come out too narrow, and where couplings
    contend with each other or with the sites the answer may be one side of several. A fixed point does not show it;
    so the first moments are compared with those of a short Gibbs run.

    Parameters
    ----------
    covariance : array_like, shape (N, N) or (2N, 2N), or a distribution
        One kernel for the cosines and for the sines; or the covariance of x = [cos; sin], cosines first; or an
        mGvM, whose a and b are then the sites.
    sites : array_like of complex, shape (N, T)
        Log-likelihoods Re Σ_t conj(η_t) e^{itφ}; zeros where there is no data.
    log_likelihood : array_like, shape (N, n)
        Instead of `sites`: values at the angles -π + 2πj/n, -inf where an angle is impossible.
    mean : array_like, shape (2N,), optional
        Mean of x, cosines first.
    max_sweeps : int
        Each costs one Cholesky factorisation and one triangular inverse of a (2N, 2N) matrix.
    tolerance : float
        Largest mismatch of mean or covariance, in units of each distribution's width.
    damping : float
        Length of a step, at most 1. Steps are shortened by themselves where one fails.
    start : EPResult, optional
        A result to start from, for a similar problem with as many angles.
    verify : bool, optional
        Whether first moments are compared with a short Gibbs run, which costs as much as some sweeps; by default up to
        64 angles. One angle needs it not, and `log_likelihood` does not allow it.
    settings : VerificationSettings, optional
        How the Gibbs run is made, and what difference is too large.

    Returns
    -------
    EPResult

    Warns
    -----
    ConvergenceWarning
        When the moments do not match to the tolerance, when several solutions are the answer, and when the first
        moments disagree with those of the Gibbs run or its chains do not agree with each other.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.inference import expectation_propagation
    >>> time = np.arange(3.0)
    >>> kernel = 0.5 * np.exp(-np.abs(time[:, None] - time) / 5.0)
    >>> seen = 4.0 * np.exp(1j * np.array([[0.1], [0.0], [0.9]])) * np.array([[1.0], [0.0], [1.0]])
    >>> result = expectation_propagation(kernel, seen)
    >>> result.converged, result.marginals.mean_direction().round(3)
    (True, array([0.319, 0.5  , 0.681]))
    """
    problem = _problem(covariance, sites, log_likelihood, mean)
    sweeps = check.integer(max_sweeps, "max_sweeps", minimum=1)
    goal = check.single_positive(tolerance, "tolerance")
    step = check.single_positive(damping, "damping")
    if step > 1.0:
        raise ValueError(f"damping must be at most 1 (no damping), got {damping}")
    with single_thread:
        workspace, found = Workspace(problem), find_symmetry(problem)
        sweep = partial(iterate, workspace, max_sweeps=sweeps, tolerance=goal, damping=step)
        run = sweep(_start(workspace, start, found))
        result = _result(workspace, found, *_find_second(workspace, found, run, sweep))
        chosen = settings or VerificationSettings()
        return _verify(problem, found, result, chosen) if _is_verified(problem, verify, chosen) else result


def _find_second(
    workspace: Workspace, found: Symmetry, run: Run, sweep: Callable[[ParallelState], Run]
) -> tuple[Run, Run | None]:
    """The run, and one from half a turn away where a half turn is cheap enough for a second solution to matter."""
    turned = may_half_turn(workspace.problem, run.state, found)
    if not turned.any():
        return run, None
    # Where all means are short, the solution may lie between two copies.
    unsure = turned & (mean_lengths(run.state, found) < 0.5)
    if unsure.any():
        begin = evaluate(workspace, tilted_start(workspace, run.state, found, unsure))
        if begin is not None:
            run = better_first(workspace.problem, found, run, sweep(begin))[0]
    sign = np.where(turned, -1.0, 1.0)[found.labels]
    sites = run.state.sites
    begin = evaluate(workspace, sites._replace(linear=sites.linear * sign[:, None]))
    return (run, None) if begin is None else better_first(workspace.problem, found, run, sweep(begin))


def _problem(
    covariance: Any, sites: ArrayLike | None, log_likelihood: ArrayLike | None, mean: ArrayLike | None
) -> Problem:
    """The problem of an mGvM, or of a covariance with what goes with it."""
    if not all(hasattr(covariance, name) for name in ("a", "b", "P", "Q")):
        if not hasattr(covariance, "__len__") or isinstance(covariance, (str, bytes)):
            raise TypeError(
                "covariance must be a covariance matrix, with sites or log_likelihood beside it, or an MGvM alone, got "
                f"{type(covariance).__name__}"
            )
        return from_covariance(covariance, sites, log_likelihood, mean)
    if sites is not None or log_likelihood is not None or mean is not None:
        raise ValueError(
            "a distribution brings its own sites and mean; give it alone, or a covariance with sites or log_likelihood"
        )
    return from_distribution(covariance)


def _start(workspace: Workspace, start: EPResult | None, found: Symmetry) -> ParallelState:
    """The state to sweep from: a former result's sites, or none, tilted where the distribution is symmetric."""
    size = workspace.problem.size
    if start is not None:
        if not isinstance(start, EPResult):
            raise TypeError(f"start must be an EPResult or None, got {type(start).__name__}")
        if start.mean.shape[0] != size:
            raise ValueError(f"start has {start.mean.shape[0]} angles, the problem {size}; leave start away")
        moved = start.site_precision - (workspace.problem.shift - start.shift) * np.eye(2)
        state = evaluate(workspace, Approximation(moved, np.array(start.site_linear)))
        if state is not None:
            return state
    level = evaluate_prior(workspace)
    tilted = evaluate(workspace, tilted_start(workspace, level, found, found.orders != 1)) if found.any else None
    return level if tilted is None else tilted


def _result(workspace: Workspace, found: Symmetry, run: Run, other: Run | None) -> EPResult:
    """Put one solution, its turned copies and the other one together."""
    state, size = run.state, workspace.problem.size
    logs = found.total(log_normalizer_shares(workspace.problem, state))
    picked = (found.orders != 1) & (mean_lengths(state, found) > 1e-3)  # symmetric components that are so no more
    logs = logs + np.where(picked, copies_gain(workspace, state, found), 0.0)
    count = np.where(picked, np.maximum(found.orders, 1), 1)[found.labels]
    copies = [
        SolutionCopy(state, np.full(size, 2.0 * np.pi * k) / count, np.where(k < count, 1.0 / count, 0.0))
        for k in range(int(count.max()))
    ]
    # A second solution counts up to a mismatch of 0.02 although its sweeps ran out.
    if other is not None and (other.converged or other.state.change < 0.02):
        logs, weight = add_second(workspace.problem, found, state, other.state, logs)
        share = weight[found.labels]
        copies = [copy._replace(weight=copy.weight * share) for copy in copies]
        if (share < 1.0).any():
            copies.append(SolutionCopy(other.state, np.zeros(size), 1.0 - share))
    solution = Solution(workspace.problem.sites, tuple(copies), (picked & (found.orders == 0))[found.labels])
    _warn(run, solution, bool(picked.any()))
    value = float(logs.sum() + workspace.problem.constant)
    return EPResult(
        converged=run.converged,
        trace=run.trace,
        log_normalizer=LogNormalizer(value, standard_error=float("nan"), method="expectation propagation"),
        site_precision=state.sites.precision,
        site_linear=state.sites.linear,
        cavity_precision=state.cavity.precision,
        cavity_linear=state.cavity.linear,
        mean=state.posterior.mean,
        covariance=state.posterior.covariance,
        symmetric=found.any,
        solution_weight=np.where(solution.uniform, 0.0, copies[0].weight),
        shift=workspace.problem.shift,
        disagreement=float("nan"),
        _solution=solution,
    )


def _warn(run: Run, solution: Solution, is_symmetric: bool) -> None:
    """Say what a user must know of a run."""
    if not run.converged:
        warnings.warn(
            f"expectation propagation stopped after {run.trace.size - 1} sweeps with a mismatch of "
            f"{run.state.change:.2g} and returns the best state it saw; try more sweeps (max_sweeps), damping=0.5, a "
            "nugget of at least 1e-3 of the kernel variance, or another start",
            ConvergenceWarning,
            stacklevel=4,
        )
    if not solution.is_single:
        reason = "the distribution is unchanged by a turn of its angles" if is_symmetric else "a half turn costs little"
        warnings.warn(
            f"expectation propagation found several solutions, since {reason}: marginals and log_normalizer are those "
            "of all of them together; sites, cavities, mean and covariance describe one (see solution_weight)",
            ConvergenceWarning,
            stacklevel=4,
        )


# ---- verification ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VerificationSettings:
    """How the first moments of expectation propagation are compared with a short Gibbs run.

    On 660 small distributions whose couplings contend, all answers off by 0.3 or more were found, and none off by less
    than 0.15 was blamed.
    """

    chains: int = 8  # they tell the standard error of their common mean
    rounds: int = 100  # draws of each, after as many rounds of burn-in
    difference: float = 0.15  # of E[e^{iφ}], beyond two standard errors, that is too large
    standard_error: float = 0.1  # of E[e^{iφ}] above which the chains themselves do not agree
    largest_size: int = 64  # angles up to which it is done unless asked for: its share of the time grows
    seed: int = 0  # of the Gibbs run: the same problem has the same answer


def _is_verified(problem: Problem, wanted: bool | None, settings: VerificationSettings) -> bool:
    """Whether a result is verified: as asked for, or where it can be and is cheap."""
    possible = isinstance(problem.sites, HarmonicSites)
    if wanted and not possible:
        raise ValueError(
            "verify=True needs sites that are natural parameters, got log_likelihood; leave verify out, and compare "
            "with exact_chain or a finer approximation yourself"
        )
    return possible and problem.size > 1 and (problem.size <= settings.largest_size if wanted is None else wanted)


def _verify(problem: Problem, found: Symmetry, result: EPResult, settings: VerificationSettings) -> EPResult:
    """The result, not converged where a short Gibbs run contradicts its first moments, with a warning."""
    assert isinstance(problem.sites, HarmonicSites)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = gibbs(
            _to_natural(problem, problem.sites.eta),
            settings.rounds,
            settings.chains,
            settings.seed,
            burn_in=settings.rounds,
            blocks=found.blocks(),
        )
    by_chain = np.exp(1j * run.samples).mean(axis=1)
    error = np.sqrt(np.var(by_chain, axis=0, ddof=1) / settings.chains)
    difference = np.abs(by_chain.mean(axis=0) - result._solution.first_moments())
    contradicted = difference > settings.difference + 2.0 * error
    split = error > settings.standard_error
    if not (contradicted | split).any():
        return replace(result, disagreement=float(difference.max()))
    worst = int(np.argmax(np.where(contradicted, 2.0 + difference, error)))
    reason = (
        f"E[exp(iφ)] of angle {worst} differs by {difference[worst]:.2g} from that of a short Gibbs run"
        if contradicted.any()
        else f"the chains of a short Gibbs run do not agree on angle {worst}"
    )
    warnings.warn(
        f"expectation propagation cannot be relied on here: {reason}. Couplings that contend with each other or with "
        "their sites leave it on one side of several, or too sure; use exact_chain for chains and trees, exact_grid "
        "up to three angles, or gibbs",
        ConvergenceWarning,
        stacklevel=3,
    )
    return replace(result, converged=False, disagreement=float(difference.max()))


def _to_natural(problem: Problem, eta: ComplexArray) -> Natural:
    """The distribution on the torus of a problem with harmonic sites.

    Of -½xᵀΛ₀x the blocks off the diagonal are the coupling, those on it second harmonics as of any cavity.
    """
    size = problem.size
    cos, sin, cross = _blocks(problem)
    cross = cross if cross.size else np.zeros((size, size))
    # h = -Λ x for the cosine and for the sine: P z + Q conj(z).
    P = -0.5 * ((cos + sin) + 1j * (cross - cross.T))
    Q = -0.5 * ((cos - sin) + 1j * (cross + cross.T))
    own = np.diagonal(Q) / 2.0
    np.fill_diagonal(P, 0.0)
    harmonics = np.zeros((size, max(eta.shape[1], 2)), dtype=complex)
    harmonics[:, : eta.shape[1]] = eta
    harmonics[:, 0] += problem.linear[:, 0] + 1j * problem.linear[:, 1]
    harmonics[:, 1] += own
    np.fill_diagonal(Q, 0.0)
    order = 1 + int(np.flatnonzero(harmonics.any(axis=0)).max(initial=0))
    return Natural(harmonics[:, 0].copy(), np.ascontiguousarray(harmonics[:, 1:order].T), P, Q)


# ---- one solution or several ----------------------------------------------------------------------------------------


class SolutionCopy(NamedTuple):
    """One solution, turned by `turn` (N,), that holds `weight` (N,) of the mass of each angle."""

    state: ParallelState
    turn: FloatArray
    weight: FloatArray


class Solution(NamedTuple):
    """All copies; `uniform` (N,) marks angles of a component that any turn leaves as it is."""

    sites: Sites
    copies: tuple[SolutionCopy, ...]
    uniform: np.ndarray

    @property
    def is_single(self) -> bool:
        """Whether one copy is all there is."""
        return len(self.copies) == 1 and not bool(self.uniform.any())

    def marginals(self) -> CircularDistribution:
        """Tilted distributions, mixed over the copies."""
        dists = [self.sites.dist(*copy.state.cavity) for copy in self.copies]
        return dists[0] if self.is_single else self._mixed(dists, [copy.weight for copy in self.copies])

    def first_moments(self) -> ComplexArray:
        """E[e^{iφ}] of every angle, (N,)."""
        turned = (copy.weight * np.exp(1j * copy.turn) * copy.state.tilted.mean.T for copy in self.copies)
        return np.where(self.uniform, 0.0, sum(cos + 1j * sin for cos, sin in turned))

    def leave_one_out(self) -> CircularDistribution:
        """Cavities on the circle, mixed over the copies (without its site, copy k weighs w_k / L_k)."""
        dists: list[CircularDistribution] = [GvM(circle_parameters(*copy.state.cavity)) for copy in self.copies]
        if self.is_single:
            return dists[0]
        logs = self._log_weights_over_predictives()
        weights = np.exp(logs - logs.max(axis=0))
        return self._mixed(dists, list(weights / weights.sum(axis=0)))

    def leave_one_out_log_density(self) -> FloatArray:
        """log p(data n | data without n) = -log Σ_k w_k / L_k."""
        return -log_sum_exp(self._log_weights_over_predictives(), axis=0)

    def _log_weights_over_predictives(self) -> FloatArray:
        weights = np.array([copy.weight for copy in self.copies])
        predictives = [self.sites.log_predictive(*copy.state.cavity) for copy in self.copies]
        return np.log(np.maximum(weights, 1e-300)) - predictives

    def _mixed(self, dists: list[CircularDistribution], weights: list[FloatArray]) -> CircularDistribution:
        """The mixture on a grid fine enough for the narrowest part or, of narrower ones than that, on graded nodes."""
        cells = max(_cells(dist) for dist in dists)
        if cells > self._most_cells:
            return self._on_graded_nodes(dists, weights)
        angles = periodic_grid(cells)
        density = np.zeros((self.sites.size, cells))
        for dist, weight, copy in zip(dists, weights, self.copies, strict=True):
            density += weight[:, None] * dist[:, None].pdf(angles - copy.turn[:, None])
        density[self.uniform] = 1.0
        with np.errstate(divide="ignore"):
            return GridDensity(np.log(density))

    @property
    def _most_cells(self) -> int:
        return int(np.clip(2**26 // self.sites.size, 1024, 2**15))  # 512 MB on all grids together

    def _on_graded_nodes(self, dists: list[CircularDistribution], weights: list[FloatArray]) -> GridDensity:
        parts = [
            (np.log(np.maximum(w, 1e-300)), d, c.turn) for w, d, c in zip(weights, dists, self.copies, strict=True)
        ]

        def evaluate(rows: np.ndarray, x: FloatArray) -> FloatArray:
            logs = [w[rows, None] + dist[rows][:, None].logpdf(x - turn[rows, None]) for w, dist, turn in parts]
            return np.where(self.uniform[rows, None], 0.0, np.logaddexp.reduce(logs))

        found = [(features_of(dist), turn[:, None]) for _, dist, turn in parts]
        turned = [Features(features.place + turn, features.width) for features, turn in found]
        return GridDensity(*resolve_density(evaluate, reduce(Features.join, turned)))


def _cells(dist: CircularDistribution) -> int:
    """Grid points that resolve a distribution, twice over: the logarithm of a mixture bends more than its parts."""
    if isinstance(dist, ExponentialFamily):
        widest = float(total_concentration(dist._eta).max())
        return 128 + int(20.0 * np.sqrt(min(widest, 1e12)))
    values: FloatArray = dist.__dict__["log_values"]
    return 2 * int(values.shape[-1])


# ---- symmetry -------------------------------------------------------------------------------------------------------

_HALF_TURN_ENERGY = 10.0  # nats: a half turn that costs more leaves the other solution below 5e-5 of the mass
_HERMITE_NODES, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


class Symmetry(NamedTuple):
    """The components of a problem and the turns that leave each as it is."""

    labels: np.ndarray  # (N,) component of each angle
    orders: np.ndarray  # (components,) unchanged by turns of 2π/order; 1 none, 0 any turn

    @property
    def any(self) -> bool:
        """Whether some component is symmetric."""
        return bool((self.orders != 1).any())

    def blocks(self) -> list[np.ndarray]:
        """The angles of every component of two or more, where there are several components."""
        sizes = np.bincount(self.labels)
        return [np.flatnonzero(self.labels == k) for k in np.flatnonzero(sizes > 1)] if sizes.size > 1 else []

    def total(self, values: FloatArray) -> FloatArray:
        """Sums over each component."""
        return np.bincount(self.labels, values, minlength=self.orders.size).astype(float)

    def largest(self, values: FloatArray) -> FloatArray:
        """The largest of non-negative values in each component."""
        out = np.zeros(self.orders.size)
        np.maximum.at(out, self.labels, values)
        return out


def _blocks(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Λ_cc, Λ_ss and Λ_sc of the prior; the last is empty where it is zero."""
    size, prior = problem.size, problem.precision
    if prior.shape[0] == size:
        return prior, prior, np.zeros((0, 0))
    return prior[:size, :size], prior[size:, size:], prior[size:, :size]


def find_symmetry(problem: Problem) -> Symmetry:
    """Components of the prior's graph, and the greatest common divisor of all harmonics in each."""
    cos, sin, cross = _blocks(problem)
    scale = np.sqrt(np.abs(np.diagonal(cos)))
    # An entry below 1e-12 of the geometric mean of two diagonal entries is rounding.
    bound = 1e-12 * np.maximum(scale, np.finfo(float).tiny)
    bound = bound[:, None] * scale
    linked = np.asarray(np.abs(cos) > bound)
    uneven = np.asarray(np.zeros(problem.size, dtype=bool))
    if cross.size:
        linked = np.asarray(linked | (np.abs(sin) > bound) | (np.abs(cross) > bound) | (np.abs(cross.T) > bound))
        # Sums of angles, and second harmonics, are in Λ_cc - Λ_ss and in Λ_sc + Λ_csᵀ.
        uneven = np.asarray(((np.abs(cos - sin) > bound) | (np.abs(cross + cross.T) > bound)).any(axis=1))
    count, labels = csgraph.connected_components(sparse.csr_array(linked), directed=False)
    own = problem.sites.rotation_orders()
    own = np.gcd(own, np.where(uneven, 2, 0))
    own = np.gcd(own, np.where((problem.linear != 0.0).any(axis=1), 1, 0))
    orders = np.zeros(count, dtype=own.dtype)
    np.gcd.at(orders, labels, own)
    return Symmetry(labels, orders)


def tilted_start(workspace: Workspace, level: ParallelState, found: Symmetry, chosen: np.ndarray) -> Approximation:
    """Sites with the chosen components tilted along their softest direction, to where their means are.

    That is the leading eigenvector of the posterior covariance after one step from `level`, by inverse iteration.
    """
    size, sites = workspace.problem.size, step_sites(level, 1.0)
    factor = workspace.factor(sites.precision)
    vector = np.random.default_rng(0).uniform(0.5, 1.0, 2 * size)
    for _ in range(0 if factor is None else 30):
        vector = lapack.dpotrs(factor, vector, lower=1)[0]
        pairs = vector.reshape(2, size)
        length = np.sqrt(found.total((pairs**2).sum(axis=0)))[found.labels]
        vector = (pairs / length).ravel()
    pairs = vector.reshape(2, size).T
    scale = found.largest(np.abs(pairs).max(axis=1))
    # A linear term of 3 leads away from a symmetric point; 1 often falls back.
    sign = np.where(found.total((pairs * level.posterior.mean).sum(axis=1)) < 0.0, -3.0, 3.0)
    factors = np.where(chosen, sign / scale, 0.0)[found.labels]
    return Approximation(level.sites.precision, level.sites.linear + factors[:, None] * pairs)


def mean_lengths(state: ParallelState, found: Symmetry) -> FloatArray:
    """The largest coordinate of the means in each component, (components,)."""
    return found.largest(np.abs(state.tilted.mean).max(axis=1))


def may_half_turn(problem: Problem, state: ParallelState, found: Symmetry) -> np.ndarray:
    """Components without symmetry whose half turn is cheap: a second solution may lie half a turn away."""
    dist = problem.sites.dist(*state.cavity)
    energy = found.total(problem.sites.half_turn_energy(dist) + 2.0 * (problem.linear * state.tilted.mean).sum(axis=1))
    several = np.bincount(found.labels, minlength=found.orders.size) > 1
    return (found.orders == 1) & (energy < _HALF_TURN_ENERGY) & several


def separation_information(distance: FloatArray) -> FloatArray:
    """Mutual information (nats) of a fair label and a Gaussian whose means lie `distance` deviations apart."""
    # The log-likelihood ratio is N(d²/2, d²): I = log 2 - E log(1 + e^-L).
    ratio = 0.5 * distance[..., None] ** 2 + distance[..., None] * _HERMITE_NODES
    lost = (np.logaddexp(0.0, -ratio) * _HERMITE_WEIGHTS).sum(axis=-1) / _HERMITE_WEIGHTS.sum()
    return np.asarray(np.maximum(np.log(2.0) - lost, 0.0))


def copies_gain(workspace: Workspace, state: ParallelState, found: Symmetry) -> FloatArray:
    """What the other copies add to log Z in each component that has picked one.

    A mixture of turned copies has the entropy of one plus the information x holds on which it is: log g when they lie
    apart, less when they overlap. Over a continuum of turns it is about ½ log(1 + 2πF/e), F the Fisher information of x
    on the turn.
    """
    mean, problem = state.posterior.mean, workspace.problem
    across = np.stack([-mean[:, 1], mean[:, 0]], axis=1)
    fisher = found.total((across * _times_precision(problem, state, across)).sum(axis=1))
    # Σ⁻¹m = h₀ + h.
    length = found.total((mean * (problem.linear + state.sites.linear)).sum(axis=1))
    fair = separation_information(2.0 * np.sqrt(np.maximum(length, 0.0))) / np.log(2.0)
    turns = 0.5 * np.log1p(2.0 * np.pi / math.e * np.maximum(fisher, 0.0))
    return np.where(found.orders == 0, turns, fair * np.log(np.maximum(found.orders, 1)))


def _times_precision(problem: Problem, state: ParallelState, vectors: FloatArray) -> FloatArray:
    """(Λ₀ + S) times vectors (N, 2)."""
    prior = problem.precision
    shared = prior.shape[0] == problem.size
    out = prior @ vectors if shared else (prior @ vectors.T.ravel()).reshape(2, problem.size).T
    return np.asarray(out + np.einsum("nij,nj->ni", state.sites.precision, vectors))


def better_first(problem: Problem, found: Symmetry, first: Run, second: Run) -> tuple[Run, Run]:
    """Two runs, the one of larger log Z first; one that did not converge comes last."""
    values = [found.total(log_normalizer_shares(problem, run.state)).sum() for run in (first, second)]
    return (second, first) if (second.converged, values[1]) > (first.converged, values[0]) else (first, second)


def add_second(
    problem: Problem, found: Symmetry, state: ParallelState, other: ParallelState, logs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """log Z and weight of the first solution in each component, the second counted where it is another one."""
    apart = found.largest(np.abs(state.tilted.mean - other.tilted.mean).max(axis=1))
    # Only across: a solution in the same direction describes the same mass.
    across = found.total((state.tilted.mean * other.tilted.mean).sum(axis=1)) < 0.0
    new = (apart > 1e-3) & (found.orders == 1) & across
    # With Σ⁻¹m = h₀ + h, the distance of two Gaussians of like covariance is (m - m')·(h - h').
    moved = (state.posterior.mean - other.posterior.mean) * (state.sites.linear - other.sites.linear)
    distance = np.sqrt(np.maximum(found.total(moved.sum(axis=1)), 0.0))
    others = found.total(log_normalizer_shares(problem, other))
    weight = expit(logs - others)
    # Where the two overlap, only part of the label's entropy is gained.
    lost = (entr(weight) + entr(1.0 - weight)) * (1.0 - separation_information(distance) / np.log(2.0))
    return np.where(new, np.logaddexp(logs, others) - lost, logs), np.where(new, weight, 1.0)


# ---- the problem ----------------------------------------------------------------------------------------------------

LARGEST_SIZE = 16_384  # angles: the one (2N, 2N) array is then 8.6 GB


def from_distribution(dist: TorusDistribution) -> Problem:
    """Λ₀ = λI - C with the coupling C of an mGvM, its a and b as sites, and ½Dλ put back into log Z.

    On the torus λ|x_d|² = λ is a constant, which the Gaussian sites can take up exactly: no fixed point depends on λ.
    It only sets where the sweeps start. The spherical model is at home there: with its λ the Gaussian N(0, Λ₀⁻¹) has
    E|x_d|² = 1 on average. (On chains it took 15 to 160 sweeps, a tenth fewer than λ just above the spectrum.) The
    spectrum it needs costs more than the sweeps for many angles, which start just above its largest value.
    """
    parameters = natural(dist)
    size = parameters.dimension
    _check_size(size)
    coupling = dense_coupling(parameters).reshape(size, 2, size, 2).transpose(1, 0, 3, 2).reshape(2 * size, 2 * size)
    shift = _spherical_shift(coupling) if size <= 500 else _lanczos_shift(coupling)
    precision = np.asfortranarray(-coupling)
    precision[np.diag_indices(2 * size)] += shift
    eta = parameters.with_harmonics(parameters.a)
    _check_concentration(eta)
    return Problem(precision, np.zeros((size, 2)), HarmonicSites(eta), 0.5 * size * shift, shift)


def _spherical_shift(coupling: FloatArray) -> float:
    """The λ above the spectrum of C with (1/D) Σ_i 1/(λ - c_i) = 1; the bracket always holds it."""
    spectrum = linalg.eigvalsh(coupling)
    size, top = spectrum.size // 2, float(spectrum[-1])
    return top + float(brentq(lambda above: (1.0 / (top - spectrum + above)).sum() - size, 0.5 / size, 2.5))


def _lanczos_shift(coupling: FloatArray) -> float:
    """A little above the largest value of the spectrum, or above Gershgorin's bound where Lanczos fails."""
    try:
        top = eigsh(coupling, k=1, which="LA", tol=1e-2, v0=np.ones(coupling.shape[0]), return_eigenvectors=False)[0]
    except ArpackError:
        return float(np.abs(coupling).sum(axis=1).max()) + 1.0
    return 1.05 * float(top) + 0.5


def from_covariance(
    covariance: ArrayLike,
    sites: ArrayLike | None,
    log_likelihood: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Problem:
    """N(mean, covariance) in the plane of every angle, and the sites."""
    factors = _sites(sites, log_likelihood)
    size = factors.size
    matrix = _checked_covariance(covariance, size)
    factor = lapack.dpotrf(matrix, lower=1, clean=1)[0]
    logs = float(np.log(np.diagonal(factor)).sum())
    # Cleaned, the factor leaves zeros above the diagonal of the inverse.
    half = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    precision = np.asfortranarray(half + np.tril(half, -1).T)
    copies = 2 if matrix.shape[0] == size else 1
    constant = -size * np.log(2.0 * np.pi) - copies * logs
    linear = np.zeros((size, 2))
    if mean is not None:
        centre = _checked_mean(mean, size)
        linear = np.concatenate([precision @ part for part in np.split(centre, copies)]).reshape(2, size).T
        constant -= 0.5 * float(centre @ linear.T.ravel())
    return Problem(precision, np.ascontiguousarray(linear), factors, constant)


def _sites(sites: ArrayLike | None, log_likelihood: ArrayLike | None) -> HarmonicSites | GridSites:
    """The sites, given in one of two ways."""
    if sites is not None and log_likelihood is None:
        return HarmonicSites(_harmonics(sites))
    if sites is None and log_likelihood is not None:
        return GridSites(_values(log_likelihood))
    raise ValueError(
        "give either sites (natural parameters) or log_likelihood (values on a grid), got "
        f"{'neither' if sites is None else 'both'}; for the circle constraint alone give "
        "sites=np.zeros((N, 1), complex)"
    )


def _harmonics(sites: ArrayLike) -> ComplexArray:
    array = np.asarray(sites)
    if array.dtype.kind in "fiub" and array.size:
        raise TypeError(
            f"sites must be complex natural parameters of shape (N, T), got real numbers of shape {array.shape}; "
            "pass values on a grid as log_likelihood=, or write sites.astype(complex) if they are natural parameters"
        )
    eta = check.finite_complex(sites, "sites")
    if eta.ndim != 2 or 0 in eta.shape:
        raise ValueError(
            f"sites must have shape (N, T) with N >= 1 angles and T >= 1 harmonics, got {eta.shape}; "
            "write sites[:, None] for one harmonic an angle"
        )
    _check_concentration(eta)
    _check_size(eta.shape[0])
    return np.array(eta)


def _check_concentration(eta: ComplexArray) -> None:
    """Leave room for the cavity below the largest concentration a distribution on the circle may have."""
    squares = np.arange(1, eta.shape[1] + 1) ** 2
    total = (squares * np.abs(eta)).sum(axis=1)
    check.at_most(total, 0.1 * LARGEST_CONCENTRATION, "the total concentration Σ t²|η_t| of a site")


def _values(log_likelihood: ArrayLike) -> FloatArray:
    values = check.real(log_likelihood, "log_likelihood")
    if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] < 16:
        raise ValueError(
            f"log_likelihood must have shape (N, n) with N >= 1 angles and n >= 16 grid points, got {values.shape}"
        )
    bad = np.isnan(values) | np.isposinf(values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"log_likelihood must be finite or -inf (impossible), got {values[row, column]} at index ({row}, {column})"
        )
    empty = np.isneginf(values).all(axis=1)
    if empty.any():
        raise ValueError(
            f"log_likelihood is -inf everywhere in row {int(np.argmax(empty))}; no angle is possible there"
        )
    _check_size(values.shape[0])
    return np.array(values)


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError("the distribution has no angles; expectation propagation needs at least one")
    if size > LARGEST_SIZE:
        raise ValueError(
            f"expectation propagation holds a dense (2N, 2N) array, {32e-9 * size * size:.3g} GB for N = {size} "
            f"angles, and takes at most N = {LARGEST_SIZE}; merge angles that share an input, or use mean_field, or "
            "exact_chain where the couplings form a chain"
        )


def _checked_covariance(covariance: ArrayLike, size: int) -> FloatArray:
    matrix = check.finite(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] not in (size, 2 * size):
        raise ValueError(
            f"covariance must have shape ({size}, {size}), one kernel for cos and for sin, or "
            f"({2 * size}, {2 * size}), cos first, for {size} sites; got {matrix.shape}"
        )
    return np.asfortranarray(check.covariance(matrix, matrix.shape[0], "covariance"))


def _checked_mean(mean: ArrayLike, size: int) -> FloatArray:
    centre = check.finite(mean, "mean")
    if centre.shape != (2 * size,):
        raise ValueError(f"mean must have shape ({2 * size},), cos first and then sin, got {centre.shape}")
    return centre
