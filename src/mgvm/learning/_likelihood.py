"""Maximum likelihood of the mGvM: exact for up to three angles and for forests, by Gibbs chains otherwise.

Exact maximum likelihood of one mGvM of up to three angles, from the mean statistics of the data.

The free parameters of a submodel with few edges as one real vector, and the statistics that belong to them.

Exact maximum likelihood where the free edges form a forest: moments by messages, steps in the data's metric.

Maximum likelihood of any mGvM: Newton steps with moments and Fisher matrix from persistent Gibbs chains.

Each step runs the chains on at the current distribution, so that they stay near its equilibrium, and moves by C⁻¹g with
g the gap between the statistics of data and draws and C the draws' covariance. The number of draws doubles from step to
step until chance in g is a tenth of the data's own sampling error and g is no larger than that chance explains.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from mgvm import _validation as check
from mgvm._numerics import torus_moments as frame
from mgvm._numerics.gibbs import Round
from mgvm._numerics.torus_moments import MOST_ANGLES
from mgvm._progress import Progress, reporter
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._exact_chain import exact_chain
from mgvm.inference._gibbs import independent_draws
from mgvm.inference._moves import states, sweeps
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import local_newton as newton
from mgvm.learning._score_matching import choice_of, padded
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import Rows, as_rows, description, several_rows
from mgvm.learning.standard_errors import free_basis
from mgvm.learning.submodel import Submodel
from mgvm.natural.graph import forest
from mgvm.natural.parameters import Natural, pack, unpack

LARGEST = {1: 1e6, 2: 1e5, 3: 2e4}  # concentration from which on a maximum is taken not to exist, by dimension
_NOISE = {1: 0.005, 2: 0.01, 3: 0.02}  # radians of noise that then make one exist
_STUCK = 1e-12  # squared decrement above which a step that cannot be taken means that there is no maximum
_SLOW, _PATIENCE = 0.02, 15  # part of the squared decrement that a slow step gains, and how many in a row are too many
_TRIES = 4  # doublings of it


class Maximum(NamedTuple):
    """Where Newton's method ended. `noise` is the standard deviation of noise that the data were given, 0 for none.

    `objective` is the mean log density of the data as they are, `trace` that of the data with noise.
    """

    dist: Natural
    objective: float
    trace: list[float]
    decrement: float
    gradient: FloatArray
    converged: bool
    runaway: float = 0.0
    noise: float = 0.0
    standard_errors: FloatArray | None = None


class Problem(NamedTuple):
    """Mean statistics around an anchor, and what is free."""

    target: FloatArray  # (1, p), local
    anchor: FloatArray  # (1, D)
    space: newton.Space
    basis: FloatArray  # (p, q), of the submodel


def problem(sample: Rows, model: Submodel) -> Problem:
    """From rows: one pass, every statistic to its own digits however narrow the data."""
    share = sample.weights / sample.weights.sum()
    anchor = np.angle(share @ np.exp(1j * sample.x))[None]
    target = share @ frame.local_statistics(sample.x - anchor, model.order)
    return _problem(target[None], anchor, model)


def problem_from_statistics(mean: FloatArray, model: Submodel) -> Problem:
    """From mean statistics (p,) in the order of the natural vector."""
    places = 2 * np.arange(model.dimension)
    anchor = np.arctan2(mean[places + 1], mean[places])[None]
    return _problem(frame.local_means(mean[None], anchor, model.order), anchor, model)


def _problem(target: FloatArray, anchor: FloatArray, model: Submodel) -> Problem:
    basis = free_basis(model)
    inward = np.swapaxes(frame.outward(anchor, model.order), 1, 2) @ basis
    whole = basis.shape[0] == basis.shape[1]
    # A step may pass the bound, which then tells of it, but not by far: narrow distributions of three angles take long.
    most = 2.0 * LARGEST[model.dimension]
    space = newton.Space(model.dimension, model.order, None if whole else inward, largest=most)
    return Problem(target, anchor, space, basis)


def maximise(
    task: Problem,
    start: Natural | None,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object] = lambda done, total: None,
) -> Maximum:
    """Newton steps until the decrement √(g·F⁻¹g) is below the tolerance.

    Where the concentration passes all bounds, the data's statistics lie on (or so near to) the border of what
    distributions can have that no maximum exists in doubles. It is then sought for the data with independent noise
    added to every angle, which has a density, and so statistics inside the border.
    """
    found = _climb(task, _start(task, start), tolerance, max_iterations, report)
    noise, reached = _NOISE[task.space.dimension], found.runaway
    for _ in range(_TRIES):
        if not found.runaway:
            break
        blurred = task._replace(target=_blurred(task, noise))
        found = _climb(blurred, _start(blurred, None), tolerance, max_iterations, report)._replace(noise=noise)
        local = frame.to_local(pack(found.dist)[None], task.anchor, task.space.order)
        found = found._replace(objective=found.objective + float(((task.target - blurred.target) * local).sum()))
        noise *= 2.0
    return found._replace(runaway=reached, converged=found.converged and not reached)


def _blurred(task: Problem, noise: float) -> FloatArray:
    """Mean statistics of the data with independent normal noise added: E[z^k] times exp(-½ noise² |k|²)."""
    size, order = task.space.dimension, task.space.order
    harmonics = np.repeat(np.arange(1.0, order + 1.0) ** 2, size)
    squares = np.concatenate([harmonics, np.full(size * (size - 1), 2.0)])
    factors = np.repeat(np.exp(-0.5 * noise**2 * squares), 2)
    return frame.local_means(factors * frame.means(task.target, task.anchor, order), task.anchor, order)


def _start(task: Problem, start: Natural | None) -> newton.State:
    """The best of the given distribution, a Gaussian-like one and the uniform one."""
    space, target = task.space, task.target
    # A start of another width than the data's makes Newton's method lose itself in higher harmonics.
    floor = 4.0 / LARGEST[space.dimension]
    guesses = [np.zeros_like(target), newton.gaussian_start(target, space.dimension, space.order, floor)]
    if start is not None:
        guesses.append(frame.to_local(pack(start)[None], task.anchor, space.order))
    states = []
    for guess in guesses:
        if space.basis is not None:
            # The nearest distribution of the submodel, in the natural parameters.
            natural = frame.from_local(guess, task.anchor, space.order) @ task.basis
            guess = natural @ space.basis[0].T
        if _concentration(guess, space) < LARGEST[space.dimension]:
            states.append(newton.state(guess, target, space))
    return states[int(np.argmax([state.objective[0] for state in states]))]


def _climb(
    task: Problem,
    at: newton.State,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object],
) -> Maximum:
    trace, converged, runaway, last, slow = [float(at.objective[0])], False, 0.0, np.inf, 0
    for step in range(max_iterations):
        last = float(newton.direction(at, task.target, task.space)[1][0])
        if last <= tolerance**2:
            converged = True
            break
        at, _, moved = newton.improve(at, task.target, task.space)
        if not moved[0]:
            runaway = _concentration(at.local, task.space) if last > _STUCK else 0.0
            break
        trace.append(float(at.objective[0]))
        # Steps creep along the edge of distributions with a second mode far away: a plainer model is wanted, not more
        # of them.
        slow = slow + 1 if trace[-1] - trace[-2] < _SLOW * last else 0
        if slow >= _PATIENCE:
            runaway = _concentration(at.local, task.space)
            break
        report(step + 1, max_iterations)
        if (strength := _concentration(at.local, task.space)) > LARGEST[task.space.dimension]:
            runaway = strength
            break
    else:
        last = float(newton.direction(at, task.target, task.space)[1][0])
        converged = last <= tolerance**2
    theta = frame.from_local(at.local, task.anchor, task.space.order)
    gap = frame.outward(task.anchor, task.space.order)[0] @ (task.target - at.moments.mean)[0]
    dist = unpack(theta[0], task.space.dimension, task.space.order)
    errors = _unit_errors(task, at)
    return Maximum(dist, trace[-1], trace, float(np.sqrt(last)), task.basis.T @ gap, converged, runaway, 0.0, errors)


def _concentration(local: FloatArray, space: newton.Space) -> float:
    return float(frame.rule_sizes(local, space.dimension, space.order, 1.0)[1].max())


def _unit_errors(task: Problem, at: newton.State) -> FloatArray:
    """Standard errors of θ for a single row: roots of the diagonal of the inverse Fisher matrix."""
    outward = frame.outward(task.anchor, task.space.order)[0]
    inward = outward.T @ task.basis
    scale = np.sqrt(np.maximum(np.diag(at.moments.covariance[0]), 1e-300))
    scaled = at.moments.covariance[0] / scale[:, None] / scale
    values, axes = np.linalg.eigh(scaled)
    root = np.sqrt(np.maximum(values, 1e-14))[:, None] * axes.T
    # F = (root·scale·inward)ᵀ(same): its inverse from a triangle, without squaring the condition.
    triangle = np.linalg.qr((root * scale) @ inward, mode="r")
    inverse = np.linalg.pinv(triangle)
    return np.sqrt(((task.basis @ inverse) ** 2).sum(axis=1))


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

    def dist(self, beta: FloatArray) -> Natural:
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

    def parameters(self, dist: Natural) -> FloatArray:
        """β of a distribution inside the submodel."""
        P, Q = dist.P[self.first, self.second], dist.Q[self.first, self.second]
        if self.model.directions is not None:
            return np.concatenate([(dist.a * self._turn.conj()).real, (P * self._apart.conj()).real])
        numbers = np.concatenate([dist.a, dist.b.ravel(), P[self._differences], Q[self._sums]])
        return np.ascontiguousarray(numbers, dtype=complex).view(np.float64)


_FLOOR = 1e-8  # least variance of a direction, relative to that of the statistics
_POLISH = 40


class Metric(NamedTuple):
    """A covariance C of the statistics as LLᵀ with its inverse root: whitened gradients are L⁻¹g, steps L⁻ᵀ of them."""

    inverse: FloatArray  # (q, q), L⁻¹

    @classmethod
    def of(cls, covariance: FloatArray) -> Metric:
        """From a covariance, held away from singular."""
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        values, axes = np.linalg.eigh(covariance / scale[:, None] / scale)
        root = np.sqrt(np.maximum(values, _FLOOR))
        return cls((axes / root).T / scale)

    def whiten(self, gradient: FloatArray) -> FloatArray:
        """L⁻¹g, whose length is the Newton decrement where C is the Fisher matrix."""
        return gradient @ self.inverse.T

    def step(self, whitened: FloatArray) -> FloatArray:
        """L⁻ᵀ of a whitened vector."""
        return whitened @ self.inverse


class Climbed(NamedTuple):
    """Where the ascent ended; `decrement` is the length of the whitened gradient."""

    beta: FloatArray
    trace: list[float]
    decrement: float
    gradient: FloatArray
    converged: bool


def weighted_covariance(statistics: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of rows."""
    share = weights / weights.sum()
    mean = share @ statistics
    centred = statistics - mean
    return mean, (centred * share[:, None]).T @ centred


def moments(edges: EdgeStatistics, dist: Natural) -> tuple[float, FloatArray]:
    """log Z and E[S], exact."""
    result = exact_chain(dist)
    order = edges.model.order
    powers = np.stack([result.marginals.moment(t) for t in range(1, order + 1)])[:, None]
    found = result.pair_moments
    size = edges.model.dimension
    # Edges whose coupling is exactly zero are no edges to the engine: their angles are independent across it only if no
    # other path joins them, and in a forest none does.
    difference = powers[0, 0, edges.first] * powers[0, 0, edges.second].conj()
    total = powers[0, 0, edges.first] * powers[0, 0, edges.second]
    places = {int(i) * size + int(j): e for e, (i, j) in enumerate(zip(edges.first, edges.second, strict=True))}
    where = [places[int(i) * size + int(j)] for i, j in zip(found.first, found.second, strict=True)]
    difference[where], total[where] = found.difference, found.sum
    return float(result.log_normalizer), edges.combined(powers, difference[None], total[None])[0]


def climb(
    edges: EdgeStatistics,
    target: FloatArray,
    metric: Metric,
    beta: FloatArray,
    limits: tuple[float, int],
    report: Callable[[int, int], object],
) -> Climbed:
    """Quasi-Newton steps in whitened coordinates, then plain steps in the metric, until the decrement is small."""
    tolerance, max_iterations = limits
    trace: list[float] = []

    def negative(u: FloatArray) -> tuple[float, FloatArray]:
        here = beta + metric.step(u)
        log_normalizer, mean = moments(edges, edges.dist(here))
        return log_normalizer - float(here @ target), -metric.whiten(target - mean)

    def watch(intermediate_result: object) -> None:
        trace.append(-float(intermediate_result.fun))  # type: ignore[attr-defined]
        report(len(trace), max_iterations)

    found = minimize(
        negative,
        np.zeros(beta.size),
        jac=True,
        method="L-BFGS-B",
        callback=watch,
        options={"maxiter": max_iterations, "maxcor": 20, "ftol": 1e-15, "gtol": tolerance},
    )
    beta = beta + metric.step(found.x)
    return _polished(edges, target, metric, beta, tolerance, trace)


def _polished(
    edges: EdgeStatistics,
    target: FloatArray,
    metric: Metric,
    beta: FloatArray,
    tolerance: float,
    trace: list[float],
) -> Climbed:
    """Near the maximum differences of the objective are rounding; the gradient is not, and steps C⁻¹g contract."""
    best: tuple[float, FloatArray, FloatArray] | None = None
    for _ in range(_POLISH):
        log_normalizer, mean = moments(edges, edges.dist(beta))
        gradient = target - mean
        whitened = metric.whiten(gradient)
        size = float(np.sqrt(whitened @ whitened))
        if best is not None and size > 0.95 * best[0]:
            break
        best = (size, beta, gradient)
        height = float(beta @ target) - log_normalizer
        if size <= tolerance:
            break
        beta = beta + metric.step(whitened)
    assert best is not None
    return Climbed(best[1], [*trace, height], best[0], best[2], best[0] <= tolerance)


_CHAINS = 256
_FIRST_DRAWS = 4  # a chain
_MIRRORS = 4
_THIN = 2
_SETTLING = 4  # rounds after a step, before draws count
_OF_SAMPLING = 0.1  # variance of a fit by chance in the draws, relative to that by chance in the data
_EXPLAINED = 2.0  # squared length of g relative to its expectation under chance
_LONGEST = 1.0  # of a step, in standard deviations of a single row
_RUNAWAY = 1e6  # of a natural parameter
_LARGEST_TABLE = 1 << 25  # numbers a call holds at a time


class Sampled(NamedTuple):
    """Where the steps ended: squared decrements, and what chance in the draws makes of them."""

    beta: FloatArray
    trace: list[float]
    decrement: float
    chance: float
    gradient: FloatArray
    converged: bool
    covariance: FloatArray


class _Drawn(NamedTuple):
    mean: FloatArray
    covariance: FloatArray
    by_chain: FloatArray  # (chains, q), means


def climb_likelihood_sampled(
    edges: EdgeStatistics,
    target: FloatArray,
    beta: FloatArray,
    effective_count: float,
    max_iterations: int,
    rng: np.random.Generator,
    report: Callable[[int, int], object],
) -> Sampled:
    """Newton steps from β on."""
    x = states(independent_draws(edges.dist(beta), _CHAINS, rng))
    goal = _OF_SAMPLING * edges.size / effective_count
    draws, trace = _FIRST_DRAWS, []
    for step in range(max_iterations):
        drawn = _draw(edges, beta, x, draws, rng)
        metric = Metric.of(drawn.covariance)
        gradient = target - drawn.mean
        whitened = metric.whiten(gradient)
        length = float(whitened @ whitened)
        chance = float(metric.whiten(drawn.by_chain - drawn.mean).var(axis=0, ddof=1).sum()) / _CHAINS
        trace.append(length)
        report(step + 1, max_iterations)
        if chance <= goal and length <= _EXPLAINED * chance:
            # The last step is worth taking: it averages what these draws know.
            beta = beta + metric.step(whitened)
            return Sampled(beta, trace, np.sqrt(length), np.sqrt(chance), gradient, True, drawn.covariance)
        following = beta + metric.step(whitened) * min(1.0, _LONGEST / np.sqrt(length))
        if not (np.isfinite(following).all() and np.abs(following).max() < _RUNAWAY):
            break  # the maximum, if there is one, is a distribution that no chain can sample
        beta = following
        if chance > goal and length <= 8.0 * chance:
            draws = min(2 * draws, max(_FIRST_DRAWS, _LARGEST_TABLE // (_CHAINS * edges.size)) * 16)
    return Sampled(beta, trace, np.sqrt(length), np.sqrt(chance), gradient, False, drawn.covariance)


def _draw(edges: EdgeStatistics, beta: FloatArray, x: FloatArray, draws: int, rng: np.random.Generator) -> _Drawn:
    """Statistics of draws of all chains, which are left where they end."""
    dist = edges.dist(beta)
    kernel = sweeps(dist, _CHAINS)
    plan = Round(_THIN, _MIRRORS, True, bool(dist.Q.any()))
    kernel.run(x, plan._replace(thin=_SETTLING), rng, np.empty((1, _CHAINS, dist.dimension)))
    by_chain = np.zeros((_CHAINS, edges.size))
    product = np.zeros((edges.size, edges.size))
    centre: FloatArray | None = None
    done, block = 0, max(1, _LARGEST_TABLE // (_CHAINS * edges.size))
    while done < draws:
        count = min(block, draws - done)
        out = np.empty((count, _CHAINS, dist.dimension))
        kernel.run(x, plan, rng, out)
        table = edges.of_rows(out.reshape(-1, dist.dimension))
        centre = table.mean(axis=0) if centre is None else centre
        table -= centre  # products of small numbers keep their digits
        product += table.T @ table
        by_chain += table.reshape(count, _CHAINS, -1).sum(axis=0)
        done += count
    by_chain /= draws
    shift = by_chain.mean(axis=0)
    covariance = product / (draws * _CHAINS) - np.outer(shift, shift)
    assert centre is not None
    return _Drawn(shift + centre, covariance, by_chain + centre)


_HELD = 1e-3  # weight of evenly spread rows where columns are degenerate and D > 3

Report = Callable[[int, int], object]


def likelihood(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    start: Any = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
    rng: Any = None,
    progress: Progress = False,
    standard_errors: bool = False,
) -> TorusFit:
    """Maximise the mean of θ·T(φ_n) - log Z(θ), concave in θ: at the maximum E[T] under the distribution is that of the
    data.

    Up to three angles: Newton's method, log Z, E[T] and the Fisher matrix Cov(T) exact by quadrature. Free edges that
    form a forest: quasi-Newton steps, log Z and E[T] exact by messages. Otherwise: Newton steps with E[T] and Cov(T)
    from persistent Gibbs chains, started at the maximum of the pseudo-likelihood.

    Parameters
    ----------
    data : array_like, shape (N, D)
        Angles in radians.
    order : int
        Harmonics of every angle.
    submodel : None, str, matrix or list of edges, Submodel
        Which parameters are free: all, "torus graph", "differences", "sine", "independent", or the couplings of some
        edges only.
    weights : array_like, shape (N,), optional
        Weights of the rows.
    start : MGvM or TorusFit, optional
        Where to begin.
    tolerance : float
        An exact fit has converged when the Newton decrement √(g·F⁻¹g), the distance to the maximum in standard
        deviations of a single row, is below it. A sampled fit stops when chance in its draws adds less than a tenth to
        the variance that the estimate has by chance in the data, and explains what is left of the gradient.
    max_iterations : int
        Steps at most.
    rng : None, seed or Generator
        For Gibbs chains.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (steps done, steps at most).
    standard_errors : bool
        Whether to give those of the parameters, from the Fisher matrix.

    Returns
    -------
    TorusFit
        `objective` is the mean log-likelihood; `trace` that of every step (of a sampled fit, g·F⁻¹g of every step).

    Warns
    -----
    ConvergenceWarning
        When no finite maximum exists (constant columns, columns that others determine, too few rows), or steps ran out.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.learning import likelihood
    >>> dist = MGvM(a=[2.0, 1.0], P=[[0, 1.5], [1.5, 0]])
    >>> fit = likelihood(dist.sample(5000, rng=0), order=1)
    >>> fit.converged, bool(abs(fit.P - dist.P).max() < 0.1)
    (True, True)
    """
    sample = as_rows(data, weights)
    model = choice_of(submodel, sample, check.integer(order, "order", minimum=1))
    limits = check.single_positive(tolerance, "tolerance"), check.integer(max_iterations, "max_iterations", minimum=1)
    first = None if start is None else model.project(padded(start, model))
    report = reporter(progress, "likelihood")
    if model.dimension <= MOST_ANGLES:
        return _exact(sample, model, first, limits, report, standard_errors)
    sample = several_rows(sample, "likelihood")
    if first is None:
        first = _first(sample, model)
    if _is_forest(model):
        return _chain(sample, model, first, limits, report, standard_errors)
    return _sampled(sample, model, first, limits, (report, check.generator(rng)), standard_errors)


def likelihood_from_statistics(
    mean: FloatArray,
    model: Submodel,
    start: Natural | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
) -> Maximum:
    """Exact maximum likelihood of up to three angles from mean statistics (p,), in the order of the natural vector."""
    return maximise(problem_from_statistics(mean, model), start, tolerance, max_iterations)


def _exact(
    sample: Rows,
    model: Submodel,
    start: Natural | None,
    limits: tuple[float, int],
    report: Report,
    standard_errors: bool,
) -> TorusFit:
    found = maximise(problem(sample, model), start, *limits, report)
    _warn_exact(found, sample, model)
    errors = found.standard_errors
    if errors is not None:
        errors = errors / np.sqrt(sample.effective_count) if standard_errors else None
    return _fit(found.dist, sample, model, (found.trace, found.gradient, found.converged), errors, found.objective)


def _fit(
    dist: Natural,
    sample: Rows,
    model: Submodel,
    outcome: tuple[list[float], FloatArray, bool],
    errors: FloatArray | None,
    objective: float | None = None,
) -> TorusFit:
    trace, gradient, converged = outcome
    return TorusFit(
        *dist,
        method="likelihood",
        objective=trace[-1] if objective is None else objective,
        converged=converged,
        gradient_norm=float(np.abs(gradient).max(initial=0.0)),
        n_iterations=len(trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(trace),
        standard_errors=errors,
    )


def _warn_exact(found: Maximum, sample: Rows, model: Submodel) -> None:
    if found.noise:
        cause = description(sample.x, sample.weights)
        if not cause and sample.n_rows <= model.n_parameters:
            cause = f"{sample.n_rows:,} rows are too few for {model.n_parameters:,} parameters"
        cause = cause or "the data are so narrow that higher harmonics and couplings only describe their noise"
        text = (
            f"likelihood has no finite maximum here: the concentration reached {found.runaway:.2g}, because {cause}. "
            f"The fit is that of the data with independent noise of {found.noise:.2g} radians added to every angle, "
            'which stops it; leave out such columns, or free fewer parameters (order=1, or submodel="sine")'
        )
    elif not found.converged:
        text = (
            f"likelihood stopped after {len(found.trace) - 1} Newton steps with a gradient of "
            f"{np.abs(found.gradient).max():.2g} and a Newton decrement of {found.decrement:.2g}; raise max_iterations "
            "or tolerance, or free fewer parameters"
        )
    elif sample.n_rows <= model.n_parameters:
        text = (
            f"{sample.n_rows:,} rows determine {model.n_parameters:,} parameters: the fit describes their chance as "
            "much as their distribution; give more rows, or free fewer parameters (submodel, order=1, or a penalty in fit_torus)"
        )
    else:
        return
    warnings.warn(text, ConvergenceWarning, stacklevel=4)


def _first(sample: Rows, model: Submodel) -> Natural:
    """The maximum of the pseudo-likelihood."""
    from mgvm.learning._pseudo_likelihood import pseudo_likelihood

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = pseudo_likelihood(sample.x, order=model.order, submodel=model, weights=sample.weights)
    return padded(fit, model)


def _is_forest(model: Submodel) -> bool:
    size = model.dimension
    every = model.edges.astype(complex)
    return (
        forest(Natural(np.zeros(size, dtype=complex), np.zeros((0, size), dtype=complex), every, 0 * every)) is not None
    )


def _targets(sample: Rows, edges: EdgeStatistics) -> tuple[FloatArray, FloatArray, float]:
    """Mean statistics, their covariance, and how much of them was replaced by evenly spread rows."""
    mean, covariance = weighted_covariance(edges.of_rows(sample.x), sample.weights)
    cause = description(sample.x, sample.weights)
    if not cause:
        return mean, covariance, 0.0
    warnings.warn(
        f"likelihood has no finite maximum here, because {cause}. The fit is that of the data with {_HELD:g} of its "
        "rows spread evenly over the torus, which stops concentrations; leave out such columns",
        ConvergenceWarning,
        stacklevel=5,
    )
    # Evenly spread rows have mean 0 and variance ½ in every statistic.
    even = 0.5 * np.eye(mean.size) + np.outer(mean, mean)
    return (1.0 - _HELD) * mean, (1.0 - _HELD) * covariance + _HELD * even, _HELD


def _chain(
    sample: Rows,
    model: Submodel,
    first: Natural,
    limits: tuple[float, int],
    report: Report,
    standard_errors: bool,
) -> TorusFit:

    edges = EdgeStatistics(model)
    target, covariance, held = _targets(sample, edges)
    metric = Metric.of(covariance)
    beta = edges.parameters(first) if not held else np.zeros(edges.size)
    found = climb(edges, target, metric, beta, limits, report)
    if not found.converged:
        _warn_stopped(len(found.trace), found.decrement, found.gradient)
    errors = _errors(edges, metric, sample) if standard_errors else None
    return _fit(
        edges.dist(found.beta), sample, model, (found.trace, found.gradient, found.converged and not held), errors
    )


def _sampled(
    sample: Rows,
    model: Submodel,
    first: Natural,
    limits: tuple[float, int],
    tools: tuple[Report, np.random.Generator],
    standard_errors: bool,
) -> TorusFit:
    from mgvm.inference._annealing import annealed_log_normalizer

    report, rng = tools
    if sample.n_rows <= model.n_parameters:
        raise ValueError(
            f"{sample.n_rows} rows cannot determine {model.n_parameters} parameters: the likelihood has no maximum; "
            "give more rows, free fewer edges (submodel=), or let fit_torus(data) choose them"
        )
    edges = EdgeStatistics(model)
    target, _, held = _targets(sample, edges)
    beta = edges.parameters(first) if not held else np.zeros(edges.size)
    found = climb_likelihood_sampled(edges, target, beta, sample.effective_count, limits[1], rng, report)
    if not found.converged:
        warnings.warn(
            f"likelihood stopped after {len(found.trace)} steps with a gradient of {np.abs(found.gradient).max():.2g}: "
            f"its length in standard deviations of a row is {found.decrement:.2g}, of which draws explain "
            f"{found.chance:.2g}. Raise max_iterations, or use pseudo_likelihood",
            ConvergenceWarning,
            stacklevel=3,
        )
    dist = edges.dist(found.beta)
    value = float(found.beta @ target) - float(annealed_log_normalizer(dist, rng).log_normalizer)
    errors = _errors(edges, Metric.of(found.covariance), sample) if standard_errors else None
    outcome = (found.trace, found.gradient, found.converged and not held)
    return _fit(dist, sample, model, outcome, errors, value)


def _errors(edges: EdgeStatistics, metric: Metric, sample: Rows) -> FloatArray:
    """Standard errors of the natural vector by the inverse of the statistics' covariance."""
    roots = np.sqrt((metric.inverse**2).sum(axis=0) / sample.effective_count)
    if edges.model.directions is None:
        return pack(edges.dist(roots))
    # Of the sine model: each natural parameter is a turned copy of one strength.
    dist = edges.dist(roots)
    parts = [np.abs(np.ascontiguousarray(pack(dist)).view(complex).real), np.abs(pack(dist)[1::2])]
    return np.stack(parts, axis=1).ravel()


def _warn_stopped(steps: int, decrement: float, gradient: FloatArray) -> None:
    warnings.warn(
        f"likelihood stopped after {steps} steps with a gradient of {np.abs(gradient).max():.2g} and a decrement of "
        f"{decrement:.2g}; raise max_iterations or tolerance, or free fewer parameters",
        ConvergenceWarning,
        stacklevel=4,
    )
