"""Expectation propagation: a Gaussian in the plane of every angle, times a circle constraint and a site for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.circle.law import CircleLaw
from mgvm.inference import _ep_mirror as mirror
from mgvm.inference import _ep_problem
from mgvm.inference._ep_iterate import Approximation, Problem, Run, State, Workspace, evaluate, iterate
from mgvm.inference._ep_sides import Side, Solution
from mgvm.inference.result import ConvergenceWarning, LogNormalizer

_NEARLY = 0.02  # mismatch up to which a second solution is counted although its sweeps ran out


@dataclass(frozen=True, eq=False, repr=False)
class EPResult:
    """What expectation propagation found.

    Natural parameters are those of exp(-½xᵀΛx + hᵀx) with x = (cos φ, sin φ).

    Attributes
    ----------
    converged : bool
        Whether the moments of all tilted laws match those of the Gaussian posterior to the tolerance.
    trace : ndarray
        The largest mismatch after each sweep, in units of each law's width.
    log_normalizer : LogNormalizer
        log Z; its standard error is NaN, since the approximation does not know its own.
    site_precision, site_linear : ndarray, shapes (N, 2, 2) and (N, 2)
        The Gaussian sites.
    cavity_precision, cavity_linear : ndarray, shapes (N, 2, 2) and (N, 2)
        The Gaussian posterior of each angle without its own site. It need not be proper.
    mean, covariance : ndarray, shapes (N, 2) and (N, 2, 2)
        The Gaussian posterior of x for each angle.
    symmetric : bool
        Whether the law, or an unconnected part of it, is unchanged by a turn of its angles (by π, say). If it has
        picked a side, the marginals and log Z are those of all sides together; sites, cavities, mean and covariance
        describe one.
    side_weight : ndarray, shape (N,)
        Mass of the side they describe, 1 where there is only one.
    shift : float
        What was added to the diagonal of the precision when the engine was given a law.
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
    side_weight: FloatArray
    shift: float
    _solution: Solution

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"EPResult({len(self.mean)} angles, {state}, log Z {float(self.log_normalizer):.6g})"

    @cached_property
    def marginals(self) -> CircleLaw:
        """The tilted laws (cavity times site), one batch (N,)."""
        return self._solution.marginals()

    @cached_property
    def leave_one_out(self) -> CircleLaw:
        """p(φ_n | all data but n), one batch (N,): the cavities on the circle."""
        return self._solution.leave_one_out()

    def leave_one_out_log_density(self) -> FloatArray:
        """log p(data n | all data but n), (N,)."""
        return self._solution.leave_one_out_log_density()


def expectation_propagation(
    covariance: Any,
    sites: ArrayLike | None = None,
    *,
    log_likelihood: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    radial_spread: float = 0.0,
    max_sweeps: int = 200,
    tolerance: float = 1e-8,
    damping: float = 1.0,
    start: EPResult | None = None,
) -> EPResult:
    r"""Approximate N(x; mean, K) Π_n site_n(φ_n), x_n = (cos φ_n, sin φ_n), by Gaussian sites in the plane.

    Each tilted law, Gaussian cavity on the circle times site, is a GvM whose first two moments are exact; the Gaussian
    posterior is made to match its mean and covariance at every angle. With one angle, or with no coupling, the
    answer is exact. Where data are weak and the prior stiff the marginals come out too narrow.

    Parameters
    ----------
    covariance : array_like, shape (N, N) or (2N, 2N), or a law
        One kernel for the cosines and for the sines; or the covariance of x = [cos; sin], cosines first; or an
        mGvM, whose a and b are then the sites.
    sites : array_like of complex, shape (N, T)
        Log-likelihoods Re Σ_t conj(η_t) e^{itφ}; zeros where there is no data.
    log_likelihood : array_like, shape (N, n)
        Instead of `sites`: values at the angles -π + 2πj/n, -inf where an angle is impossible.
    mean : array_like, shape (2N,), optional
        Mean of x, cosines first.
    radial_spread : float
        τ of the soft circle: each x_n may leave the unit circle, with the factor exp(-(|x_n| - 1)²/2τ²), and its site
        acts on its direction. 0 is the circle itself, inf leaves the plane to the Gaussian. log Z is then
        that of the soft law; marginals are those of the directions.
    max_sweeps : int
        Each costs one Cholesky factorisation and one triangular inverse of a (2N, 2N) matrix.
    tolerance : float
        Largest mismatch of mean or covariance, in units of each law's width.
    damping : float
        Length of a step, at most 1. Steps are shortened by themselves where one fails.
    start : EPResult, optional
        A result to start from, for a similar problem with as many angles.

    Returns
    -------
    EPResult

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
    spread = check.real(radial_spread, "radial_spread")
    if spread.ndim or not spread >= 0.0:
        raise ValueError(f"radial_spread must be a number >= 0 (0 the circle, inf the plane), got {radial_spread}")
    problem = _problem(covariance, sites, log_likelihood, mean, float(spread))
    sweeps = check.integer(max_sweeps, "max_sweeps", minimum=1)
    goal = check.single_positive(tolerance, "tolerance")
    step = check.single_positive(damping, "damping")
    if step > 1.0:
        raise ValueError(f"damping must be at most 1 (no damping), got {damping}")
    workspace, found = Workspace(problem), mirror.symmetry(problem)
    sweep = partial(iterate, workspace, max_sweeps=sweeps, tolerance=goal, damping=step)
    run = sweep(_start(workspace, start, found))
    return _result(workspace, found, *_both_sides(workspace, found, run, sweep))


def _both_sides(
    workspace: Workspace, found: mirror.Symmetry, run: Run, sweep: Callable[[State], Run]
) -> tuple[Run, Run | None]:
    """The run, and one from its far side where a half turn is cheap enough for a second solution to matter."""
    turned = mirror.reversible(workspace.problem, run.state, found)
    if not turned.any():
        return run, None
    undecided = mirror.undecided(run.state, found, turned)
    if undecided.any():
        begin = evaluate(workspace, mirror.tilted_start(workspace, run.state, found, undecided))
        if begin is not None:
            run = mirror.better_first(workspace.problem, found, run, sweep(begin))[0]
    begin = evaluate(workspace, mirror.reversed_sites(run.state, found, turned))
    return (run, None) if begin is None else mirror.better_first(workspace.problem, found, run, sweep(begin))


def _problem(covariance: Any, sites: Any, log_likelihood: Any, mean: Any, radial_spread: float) -> Problem:
    if not all(hasattr(covariance, name) for name in ("a", "b", "P", "Q")):
        if not hasattr(covariance, "__len__") or isinstance(covariance, (str, bytes)):
            raise TypeError(
                "covariance must be a covariance matrix, with sites or log_likelihood beside it, or an MGvM alone, got "
                f"{type(covariance).__name__}"
            )
        return _ep_problem.from_covariance(covariance, sites, log_likelihood, mean, radial_spread)
    if sites is not None or log_likelihood is not None or mean is not None or radial_spread:
        raise ValueError(
            "a law brings its own sites and mean and lives on the circle; give the law alone, or a covariance with "
            "sites or log_likelihood"
        )
    return _ep_problem.from_law(covariance)


def _start(workspace: Workspace, start: EPResult | None, found: mirror.Symmetry) -> State:
    """The state to sweep from: a former result's sites, or none, tilted where the law is symmetric."""
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
    level = _level(workspace)
    tilted = evaluate(workspace, mirror.tilted_start(workspace, level, found, found.orders != 1)) if found.any else None
    return level if tilted is None else tilted


def _level(workspace: Workspace) -> State:
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


def _result(workspace: Workspace, found: mirror.Symmetry, run: Run, other: Run | None) -> EPResult:
    """Put one solution, its turned copies and the other one together."""
    state, size = run.state, workspace.problem.size
    logs = mirror.component_log_normalizers(workspace.problem, found, state)
    picked = mirror.broken(state, found)
    logs = logs + np.where(picked, mirror.side_gain(workspace, state, found), 0.0)
    count = np.where(picked, np.maximum(found.orders, 1), 1)[found.labels]
    sides = [
        Side(state, np.full(size, 2.0 * np.pi * k) / count, np.where(k < count, 1.0 / count, 0.0))
        for k in range(int(count.max()))
    ]
    if other is not None and (other.converged or other.state.change < _NEARLY):
        logs, weight = mirror.with_other(workspace.problem, found, state, other.state, logs)
        share = weight[found.labels]
        sides = [side._replace(weight=side.weight * share) for side in sides]
        if (share < 1.0).any():
            sides.append(Side(other.state, np.zeros(size), 1.0 - share))
    solution = Solution(workspace.problem.sites, tuple(sides), (picked & (found.orders == 0))[found.labels])
    _warn(run, solution, bool(picked.any()))
    value = float(logs.sum() + workspace.problem.constant)
    return EPResult(
        converged=run.converged,
        trace=run.trace,
        log_normalizer=LogNormalizer(value, standard_error=float("nan"), method="expectation propagation"),
        site_precision=state.sites.precision,
        site_linear=state.sites.linear,
        cavity_precision=state.cavity_precision,
        cavity_linear=state.cavity_linear,
        mean=state.posterior.mean,
        covariance=state.posterior.covariance,
        symmetric=found.any,
        side_weight=np.where(solution.uniform, 0.0, sides[0].weight),
        shift=workspace.problem.shift,
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
        reason = "the law is unchanged by a turn of its angles" if is_symmetric else "a half turn costs little"
        warnings.warn(
            f"expectation propagation found several solutions, since {reason}: marginals and log_normalizer are those "
            "of all of them together; sites, cavities, mean and covariance describe one (see side_weight)",
            ConvergenceWarning,
            stacklevel=4,
        )
