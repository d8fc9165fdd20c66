"""Maximum likelihood of the mGvM: exact for up to three angles and for forests, by Gibbs chains otherwise.

The mean log-likelihood θ·t - log Z(θ) is concave in the natural parameters, with gradient t - E[T]. How log Z and E[T]
are found decides the method:

* up to three angles by quadrature, with the Fisher matrix Cov(T) for Newton steps (`exact_likelihood`);
* where the free edges form a forest by messages (`exact_chain`), with quasi-Newton steps in the metric of the data's
  own covariance of T;
* otherwise by draws. Each Newton step runs persistent Gibbs chains on at the current distribution, so that they stay
  near its equilibrium, and moves by C⁻¹g with g the gap between the statistics of data and draws and C the draws'
  covariance. The number of draws doubles from step to step until chance in g is a tenth of the data's own sampling
  error and g is no larger than that chance explains.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, minimize

from mgvm import _validation as check
from mgvm._frames import column_names
from mgvm._numerics.gibbs import Round
from mgvm._numerics.torus_moments import MOST_ANGLES
from mgvm._progress import Progress, reporter
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.inference._annealing import annealed_log_normalizer
from mgvm.inference._exact_chain import exact_chain
from mgvm.inference._gibbs import independent_draws
from mgvm.inference._moves import reflection_axis, states, sweeps
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning._pseudo_likelihood import pseudo_likelihood
from mgvm.learning.exact_likelihood import ExactMaximum, maximize, problem_from_rows
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import WeightedRows, as_rows, describe_degeneracy, refuse_single_row
from mgvm.learning.submodel import Submodel, SubmodelLike, submodel_for
from mgvm.natural.graph import forest
from mgvm.natural.parameters import Natural, TorusDistribution, pack


class Stopping(NamedTuple):
    """When an ascent ends, and whom it tells of its steps (done, at most)."""

    tolerance: float
    max_iterations: int
    report: Callable[[int, int], object]


class Ascent(NamedTuple):
    """Where an ascent ended, with what it watched a step."""

    dist: Natural
    objective: float
    trace: list[float]
    gradient: FloatArray
    converged: bool
    standard_errors: FloatArray | None


def likelihood(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: SubmodelLike = None,
    weights: ArrayLike | None = None,
    start: TorusDistribution | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
    rng: Seed = None,
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
        True prints lines on standard error once the run takes long; a callable gets (steps done, steps at most, text).
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
    model = submodel_for(submodel, sample, check.integer(order, "order", minimum=1))
    stopping = Stopping(
        check.single_positive(tolerance, "tolerance"),
        check.integer(max_iterations, "max_iterations", minimum=1),
        reporter(progress, "likelihood"),
    )
    first = None if start is None else model.embed(start)
    if model.dimension <= MOST_ANGLES:
        found = _climb_exactly(sample, model, first, stopping)
    else:
        refuse_single_row(sample, "likelihood")
        first = _maximum_pseudo_likelihood(sample, model) if first is None else first
        if _is_forest(model):
            found = _climb_forest(sample, model, first, stopping)
        else:
            found = _climb_by_chains(sample, model, first, stopping, check.generator(rng))
    return TorusFit(
        *found.dist,
        method="likelihood",
        objective=found.objective,
        converged=found.converged,
        gradient_norm=float(np.abs(found.gradient).max(initial=0.0)),
        n_iterations=len(found.trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(found.trace),
        standard_errors=found.standard_errors if standard_errors else None,
        names=column_names(data),
    )


def _maximum_pseudo_likelihood(sample: WeightedRows, model: Submodel) -> Natural:
    """Where the ascents of more than three angles begin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = pseudo_likelihood(sample.x, order=model.order, submodel=model, weights=sample.weights)
    return fit.natural


# ---- up to three angles --------------------------------------------------------------------------------------------


def _climb_exactly(sample: WeightedRows, model: Submodel, start: Natural | None, stopping: Stopping) -> Ascent:
    """Newton's method with exact moments."""
    found = maximize(problem_from_rows(sample, model), start, *stopping)
    _warn_exact(found, sample, model)
    errors = found.unit_errors / np.sqrt(sample.effective_count)
    return Ascent(found.dist, found.objective, found.trace, found.gradient, found.converged, errors)


def _warn_exact(found: ExactMaximum, sample: WeightedRows, model: Submodel) -> None:
    if found.noise:
        cause = describe_degeneracy(sample)
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
            "much as their distribution; give more rows, or free fewer parameters (submodel, order=1, or a penalty in "
            "fit_torus)"
        )
    else:
        return
    warnings.warn(text, ConvergenceWarning, stacklevel=4)


# ---- free parameters of a submodel with few edges ------------------------------------------------------------------


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
            self._turn = turn
            self._apart, self._both = turn[self.first] * turn[self.second].conj(), turn[self.first] * turn[self.second]

    @property
    def size(self) -> int:
        """The number of free real parameters."""
        return self.model.n_parameters

    def combine(self, powers: ComplexArray, difference: ComplexArray, total: ComplexArray) -> FloatArray:
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
        return self.combine(powers, one * other.conj(), one * other)

    def dist(self, beta: FloatArray) -> Natural:
        """The natural parameters of β."""
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


class StatisticsMetric(NamedTuple):
    """A covariance C of the statistics as LLᵀ with its inverse root: whitened gradients are L⁻¹g, steps L⁻ᵀ of them."""

    inverse: FloatArray  # (q, q), L⁻¹

    @classmethod
    def of(cls, covariance: FloatArray) -> StatisticsMetric:
        """From a covariance, whose correlations keep a variance of 1e-8 in every direction."""
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        values, axes = np.linalg.eigh(covariance / scale[:, None] / scale)
        root = np.sqrt(np.maximum(values, 1e-8))
        return cls((axes / root).T / scale)

    def whiten(self, gradient: FloatArray) -> FloatArray:
        """L⁻¹g, whose length is the Newton decrement where C is the Fisher matrix."""
        return gradient @ self.inverse.T

    def step(self, whitened: FloatArray) -> FloatArray:
        """L⁻ᵀ of a whitened vector."""
        return whitened @ self.inverse


class Target(NamedTuple):
    """Mean and covariance of the data's statistics, and whether some of the data were replaced by even rows."""

    mean: FloatArray
    covariance: FloatArray
    held: bool


def _target(sample: WeightedRows, edges: EdgeStatistics, even_share: float = 1e-3) -> Target:
    """What the statistics shall be; of degenerate columns with a share of rows spread evenly over the torus."""
    statistics, share = edges.of_rows(sample.x), sample.weights / sample.weights.sum()
    mean = share @ statistics
    centred = statistics - mean
    covariance = (centred * share[:, None]).T @ centred
    cause = describe_degeneracy(sample)
    if not cause:
        return Target(mean, covariance, False)
    warnings.warn(
        f"likelihood has no finite maximum here, because {cause}. The fit is that of the data with {even_share:g} of "
        "its rows spread evenly over the torus, which stops concentrations; leave out such columns",
        ConvergenceWarning,
        stacklevel=4,
    )
    # Evenly spread rows have mean 0 and variance ½ in every statistic.
    even = 0.5 * np.eye(mean.size) + np.outer(mean, mean)
    return Target((1.0 - even_share) * mean, (1.0 - even_share) * covariance + even_share * even, True)


def _standard_errors(edges: EdgeStatistics, metric: StatisticsMetric, sample: WeightedRows) -> FloatArray:
    """Standard errors of the natural vector by the inverse of the statistics' covariance."""
    roots = np.sqrt((metric.inverse**2).sum(axis=0) / sample.effective_count)
    errors = pack(edges.dist(roots))
    # Of the sine model each natural parameter is a turned copy of one strength.
    return errors if edges.model.directions is None else np.abs(errors)


# ---- forests -------------------------------------------------------------------------------------------------------


def _is_forest(model: Submodel) -> bool:
    size = model.dimension
    nothing, coupled = np.zeros((0, size), dtype=complex), model.edges.astype(complex)
    return forest(Natural(np.zeros(size, dtype=complex), nothing, coupled, 0 * coupled)) is not None


class ForestPoint(NamedTuple):
    """Where an ascent stands; the `decrement` is the length of the whitened gradient."""

    beta: FloatArray
    value: float
    gradient: FloatArray
    whitened: FloatArray

    @property
    def decrement(self) -> float:
        """√(gᵀC⁻¹g)."""
        return float(np.sqrt(self.whitened @ self.whitened))


def _climb_forest(sample: WeightedRows, model: Submodel, first: Natural, stopping: Stopping) -> Ascent:
    """Quasi-Newton steps in whitened coordinates with moments by messages, then plain steps in the metric."""
    edges = EdgeStatistics(model)
    target = _target(sample, edges)
    metric = StatisticsMetric.of(target.covariance)
    begin = np.zeros(edges.size) if target.held else edges.parameters(first)
    trace: list[float] = []

    def at(beta: FloatArray) -> ForestPoint:
        log_normalizer, mean = _forest_moments(edges, edges.dist(beta))
        gradient = target.mean - mean
        return ForestPoint(beta, float(beta @ target.mean) - log_normalizer, gradient, metric.whiten(gradient))

    def negative(u: FloatArray) -> tuple[float, FloatArray]:
        point = at(begin + metric.step(u))
        return -point.value, -point.whitened

    def watch(intermediate_result: OptimizeResult) -> None:
        trace.append(-float(intermediate_result.fun))
        stopping.report(len(trace), stopping.max_iterations)

    options = {"maxiter": stopping.max_iterations, "maxcor": 20, "ftol": 1e-15, "gtol": stopping.tolerance}
    steps = minimize(negative, np.zeros(edges.size), jac=True, method="L-BFGS-B", callback=watch, options=options)
    found = at(begin + metric.step(steps.x))
    # Near the maximum differences of the objective are rounding; the gradient is not, and steps C⁻¹g contract.
    for _ in range(40):
        if found.decrement <= stopping.tolerance:
            break
        following = at(found.beta + metric.step(found.whitened))
        if following.decrement > 0.95 * found.decrement:
            break
        found = following
    trace.append(found.value)
    converged = found.decrement <= stopping.tolerance
    if not converged:
        warnings.warn(
            f"likelihood stopped after {len(trace)} steps with a gradient of {np.abs(found.gradient).max():.2g} "
            f"and a decrement of {found.decrement:.2g}; raise max_iterations or tolerance, or free fewer parameters",
            ConvergenceWarning,
            stacklevel=3,
        )
    errors = _standard_errors(edges, metric, sample)
    return Ascent(edges.dist(found.beta), found.value, trace, found.gradient, converged and not target.held, errors)


def _forest_moments(edges: EdgeStatistics, dist: Natural) -> tuple[float, FloatArray]:
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
    return float(result.log_normalizer), edges.combine(powers, difference[None], total[None])[0]


# ---- any graph, by Gibbs chains ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChainSettings:
    """How the chains run: `n_chains` of them, one in `thin` sweeps kept, each of `over_relaxed` steps and one draw.

    The first step takes `first_draws` a chain, after `burn_in` sweeps at its distribution. The steps end where chance
    in the draws adds `chance` to the variance that a fit has by chance in the data, and the squared length of the
    gradient is at most `explained` times its expectation under that chance. A step is at most `longest` standard
    deviations of a single row; natural parameters beyond `runaway` are of no distribution that chains can sample.
    `table_size` numbers are held at a time, 256 MB.
    """

    n_chains: int = 256
    first_draws: int = 4
    thin: int = 2
    over_relaxed: int = 4
    burn_in: int = 4
    chance: float = 0.1
    explained: float = 2.0
    longest: float = 1.0
    runaway: float = 1e6
    table_size: int = 1 << 25

    def draws_at_once(self, statistics: int) -> int:
        """Draws of all chains whose statistics fit into the table."""
        return max(1, self.table_size // (self.n_chains * statistics))


class ChainMaximum(NamedTuple):
    """Where the steps ended: decrements, and what chance in the draws makes of them."""

    beta: FloatArray
    trace: list[float]
    decrement: float
    chance: float
    gradient: FloatArray
    converged: bool
    covariance: FloatArray


class DrawnMoments(NamedTuple):
    """Mean and covariance of the statistics over draws, and their means (n_chains, q) by chain."""

    mean: FloatArray
    covariance: FloatArray
    by_chain: FloatArray


def _climb_by_chains(
    sample: WeightedRows, model: Submodel, first: Natural, stopping: Stopping, rng: np.random.Generator
) -> Ascent:
    """Newton steps with moments from draws; the objective by annealing at the end."""
    if sample.n_rows <= model.n_parameters:
        raise ValueError(
            f"{sample.n_rows} rows cannot determine {model.n_parameters} parameters: the likelihood has no maximum; "
            "give more rows, free fewer edges (submodel=), or let fit_torus(data) choose them"
        )
    edges = EdgeStatistics(model)
    target = _target(sample, edges)
    beta = np.zeros(edges.size) if target.held else edges.parameters(first)
    found = _maximize_by_chains(edges, target.mean, beta, sample.effective_count, stopping, rng)
    if not found.converged:
        warnings.warn(
            f"likelihood stopped after {len(found.trace)} steps with a gradient of {np.abs(found.gradient).max():.2g}: "
            f"its length in standard deviations of a row is {found.decrement:.2g}, of which draws explain "
            f"{found.chance:.2g}. Raise max_iterations, or use pseudo_likelihood",
            ConvergenceWarning,
            stacklevel=3,
        )
    dist = edges.dist(found.beta)
    value = float(found.beta @ target.mean) - float(annealed_log_normalizer(dist, rng).log_normalizer)
    errors = _standard_errors(edges, StatisticsMetric.of(found.covariance), sample)
    return Ascent(dist, value, found.trace, found.gradient, found.converged and not target.held, errors)


def _maximize_by_chains(
    edges: EdgeStatistics,
    target: FloatArray,
    beta: FloatArray,
    effective_count: float,
    stopping: Stopping,
    rng: np.random.Generator,
    settings: ChainSettings = ChainSettings(),
) -> ChainMaximum:
    """Newton steps from β on."""
    x = states(independent_draws(edges.dist(beta), settings.n_chains, rng))
    goal = settings.chance * edges.size / effective_count
    draws, trace = settings.first_draws, []
    for step in range(stopping.max_iterations):
        drawn = _draw(edges, beta, x, draws, rng, settings)
        metric = StatisticsMetric.of(drawn.covariance)
        gradient = target - drawn.mean
        whitened = metric.whiten(gradient)
        length = float(whitened @ whitened)
        scatter = metric.whiten(drawn.by_chain - drawn.mean).var(axis=0, ddof=1)
        chance = float(scatter.sum()) / settings.n_chains
        trace.append(length)
        stopping.report(step + 1, stopping.max_iterations)
        converged = chance <= goal and length <= settings.explained * chance
        if converged:
            # The last step is worth taking: it averages what these draws know.
            beta = beta + metric.step(whitened)
            break
        following = beta + metric.step(whitened) * min(1.0, settings.longest / np.sqrt(length))
        if not (np.isfinite(following).all() and np.abs(following).max() < settings.runaway):
            break  # the maximum, if there is one, is a distribution that no chain can sample
        beta = following
        if chance > goal and length <= 8.0 * chance:
            draws = min(2 * draws, 16 * max(settings.first_draws, settings.draws_at_once(edges.size)))
    return ChainMaximum(beta, trace, np.sqrt(length), np.sqrt(chance), gradient, converged, drawn.covariance)


def _draw(
    edges: EdgeStatistics,
    beta: FloatArray,
    x: FloatArray,
    draws: int,
    rng: np.random.Generator,
    settings: ChainSettings,
) -> DrawnMoments:
    """Moments of the statistics over draws of all chains, which are left where they end."""
    dist, chains = edges.dist(beta), settings.n_chains
    kernel = sweeps(dist)
    plan = Round(settings.thin, settings.over_relaxed, True, bool(dist.Q.any()), reflection_axis(dist))
    kernel.run(x, plan._replace(thin=settings.burn_in), rng, np.empty((1, chains, dist.dimension)))
    by_chain = np.zeros((chains, edges.size))
    product = np.zeros((edges.size, edges.size))
    centre: FloatArray | None = None
    done, block = 0, settings.draws_at_once(edges.size)
    while done < draws:
        count = min(block, draws - done)
        out = np.empty((count, chains, dist.dimension))
        kernel.run(x, plan, rng, out)
        table = edges.of_rows(out.reshape(-1, dist.dimension))
        centre = table.mean(axis=0) if centre is None else centre
        table -= centre  # products of small numbers keep their digits
        product += table.T @ table
        by_chain += table.reshape(count, chains, -1).sum(axis=0)
        done += count
    by_chain /= draws
    shift = by_chain.mean(axis=0)
    covariance = product / (draws * chains) - np.outer(shift, shift)
    assert centre is not None
    return DrawnMoments(shift + centre, covariance, by_chain + centre)
