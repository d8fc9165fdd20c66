"""Gaussian processes on coordinates of the angle: the plane's (cos, sin), or the angle itself, unwrapped.

Coordinates y = f(x) + noise of variance σ², f a zero-mean Gaussian process of kernel K. The n observations at an input
tell as much as their mean with noise σ²/n, besides their scatter S within the input, which tells of σ² alone:

    log p(y) = log N(ȳ | 0, C) - ½ Σ_g [(n_g - 1) log 2πσ² + log n_g] - S / 2σ²,   C = K + diag(σ²/n).

Weights are counts: a row of weight 2 is two rows. Leave-one-out leaves out all observations at an input: with Q = C⁻¹
the others predict f there with mean ȳ_g - (Qȳ)_g/Q_gg and variance 1/Q_gg - σ²/n_g.

Gaussian predictions of coordinates make a density on the circle: of the direction of a point in the plane, or of an
angle wrapped. The density of the n angles at an input given all other inputs is a product of such predictions, the
first from the other inputs alone, the last from n - 1 angles of the same input as well. No closed form exists on the
circle; the leave-one-out criterion takes the two ends for the whole,

    Σ_i w_i [ℓ_i(other inputs) / n + (1 - 1/n) ℓ_i(all other rows)],

exact for n = 1 and 2. The first end tells of the kernel, the second of the noise, which the first leaves open.

Hyper-parameters maximise the evidence or that criterion, with exact gradients, from several starts.
"""

from __future__ import annotations

import abc
import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, lapack, solve_triangular
from scipy.optimize import OptimizeResult, minimize
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, Sum, WhiteKernel

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle.base import CircularDistribution
from mgvm.circle.grid_density import GridDensity
from mgvm.circle.projected_normal import ProjectedNormal, radial
from mgvm.circle.wrapped_normal import WrappedNormal
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression.base import (
    BaseCircularRegressor,
    MergedTraining,
    merge_replicates,
    validate_queries,
    validate_training,
)
from mgvm.regression.noise import Replicates
from mgvm.regression.prediction import cells
from mgvm.regression.search import Reporter

_LOG_TURN = float(np.log(2.0 * np.pi))


# ---- a Gaussian process at replicated inputs ------------------------------------------------------------------------


class PlanarGPData(NamedTuple):
    """Replicated observations of P outputs: inputs (G, p), means (G, P), counts (G,), scatter (P,) within inputs."""

    inputs: FloatArray
    means: FloatArray
    counts: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, inputs: FloatArray, replicates: Replicates, values: FloatArray) -> PlanarGPData:
        """From values (n, P) of the rows of the replicates."""
        counts = replicates.total
        means = np.add.reduceat(replicates.weights[:, None] * values, replicates.starts) / counts[:, None]
        away = values - means[replicates.input_of]
        return cls(inputs, means, counts, np.sum(replicates.weights[:, None] * away**2, axis=0))


@dataclass(frozen=True)
class PlanarGP:
    """A kernel with the logarithm of the noise's variance: the hyper-parameters of one Gaussian process."""

    kernel: Kernel
    log_noise: float
    noise_bounds: tuple[float, float]

    @property
    def theta(self) -> FloatArray:
        """All logarithms."""
        return np.append(self.kernel.theta, self.log_noise)

    @property
    def bounds(self) -> FloatArray:
        """(p, 2)."""
        return np.concatenate([np.reshape(self.kernel.bounds, (-1, 2)), [self.noise_bounds]])

    def at(self, theta: FloatArray) -> PlanarGP:
        """The same with other hyper-parameters."""
        return PlanarGP(self.kernel.clone_with_theta(theta[:-1]), float(theta[-1]), self.noise_bounds)


class PlanarGPSolution(NamedTuple):
    """What a process makes of observations: L with C = LLᵀ, Q = C⁻¹, α = Qȳ, and dK/dθ (G, G, p)."""

    process: PlanarGP
    data: PlanarGPData
    lower: FloatArray
    inverse: FloatArray
    alpha: FloatArray
    slopes: FloatArray

    @property
    def noise(self) -> float:
        """σ²."""
        return float(np.exp(self.process.log_noise))

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """The gradient in θ from that in C; the noise enters C as diag(σ²/n)."""
        own = np.tensordot(gradient, self.slopes, axes=2)
        return np.append(own, self.noise * float(gradient.diagonal() @ (1.0 / self.data.counts)))


def solve(process: PlanarGP, data: PlanarGPData, *, slopes: bool = True) -> PlanarGPSolution:
    """Factorise C; ValueError where it is not positive definite."""
    if slopes:
        matrix, derivatives = process.kernel(data.inputs, eval_gradient=True)
    else:
        matrix, derivatives = process.kernel(data.inputs), np.zeros((*[len(data.inputs)] * 2, 0))
    covariance = np.array(matrix, dtype=float)
    np.fill_diagonal(covariance, covariance.diagonal() + np.exp(process.log_noise) / data.counts)
    try:
        lower = np.tril(cho_factor(covariance, lower=True)[0])
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(covariance)[0])
        raise ValueError(
            f"the kernel matrix is not positive definite (smallest eigenvalue {smallest:.3g}, noise included); use a "
            "valid kernel, or give its WhiteKernel a larger lower bound"
        ) from None
    half = lapack.dpotri(np.asfortranarray(lower), lower=1)[0]
    inverse = np.tril(half) + np.tril(half, -1).T
    alpha = solve_triangular(lower, solve_triangular(lower, data.means, lower=True), lower=True, trans=1)
    return PlanarGPSolution(process, data, lower, inverse, alpha, derivatives)


def evidence(solution: PlanarGPSolution) -> tuple[float, FloatArray]:
    """log p(y), summed over the outputs, and its gradient in θ."""
    data, outputs = solution.data, solution.data.means.shape[1]
    surplus = float((data.counts - 1.0).sum())
    log_det = 2.0 * float(np.log(solution.lower.diagonal()).sum())
    spent = surplus * (_LOG_TURN + solution.process.log_noise) + float(np.log(data.counts).sum())
    scatter = float(data.scatter.sum()) / solution.noise
    value = -0.5 * (float((data.means * solution.alpha).sum()) + scatter)
    value -= 0.5 * outputs * (log_det + data.counts.size * _LOG_TURN + spent)
    gradient = solution.pull_back(0.5 * (solution.alpha @ solution.alpha.T - outputs * solution.inverse))
    gradient[-1] += 0.5 * (scatter - outputs * surplus)
    return value, gradient


def leave_one_out(solution: PlanarGPSolution) -> tuple[FloatArray, FloatArray]:
    """Means (G, P) and variances (G,) of f at every input, from the observations at all other inputs."""
    own = solution.inverse.diagonal()
    means = solution.data.means - solution.alpha / own[:, None]
    return means, np.maximum(1.0 / own - solution.noise / solution.data.counts, 0.0)


def leave_one_out_gradient(
    solution: PlanarGPSolution, by_mean: FloatArray, by_variance: FloatArray, by_noise: float
) -> FloatArray:
    """The gradient in θ of a function of `leave_one_out` and σ², from its derivatives in means, variances and σ².

    With u the derivative in α and v that in Q_gg, dα = -Q dC α and dQ = -Q dC Q.
    """
    inverse, alpha, own = solution.inverse, solution.alpha, solution.inverse.diagonal()
    u = -by_mean / own[:, None]
    v = ((by_mean * alpha).sum(axis=1) - by_variance) / own**2
    pulled = inverse @ u
    gradient = -0.5 * (pulled @ alpha.T + alpha @ pulled.T) - (inverse * v) @ inverse
    out = solution.pull_back(gradient)
    out[-1] += solution.noise * (by_noise - float(by_variance @ (1.0 / solution.data.counts)))
    return out


def predict(solution: PlanarGPSolution, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (M, P) and variances (M,) of a new observation at query points."""
    process = solution.process
    cross = np.asarray(process.kernel(queries, solution.data.inputs))
    explained = solve_triangular(solution.lower, cross.T, lower=True)
    variance = process.kernel.diag(queries) - (explained**2).sum(axis=0)
    return cross @ solution.alpha, np.maximum(variance, 0.0) + solution.noise


# ---- densities on the circle of Gaussian predictions ----------------------------------------------------------------


class DensitySlopes(NamedTuple):
    """Log densities (n,) of angles, and their derivatives in the means (n, P) and in the variance (n,)."""

    log_density: FloatArray
    by_mean: FloatArray
    by_variance: FloatArray


def plane_coordinates(angles: FloatArray) -> FloatArray:
    """(cos ψ, sin ψ), (n, 2)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def projected_density(angles: FloatArray, means: FloatArray, variance: FloatArray) -> DensitySlopes:
    """log [ϕ(P) J(D)], D√v = m₁c + m₂s and P√v = m₁s - m₂c, J(D) = ϕ(D) + D Φ(D).

    The direction of a point of the plane with independent coordinates of equal variance (ProjectedNormal).
    """
    unit = plane_coordinates(angles)
    turned = np.stack([unit[:, 1], -unit[:, 0]], axis=1)
    spread = np.sqrt(variance)
    along = (means * unit).sum(axis=1) / spread
    across = (means * turned).sum(axis=1) / spread
    log_radial, ratio, _ = radial(along)
    logs = log_radial - 0.5 * across**2 - 0.5 * _LOG_TURN
    by_mean = (ratio[:, None] * unit - across[:, None] * turned) / spread[:, None]
    return DensitySlopes(logs, by_mean, 0.5 * (across**2 - ratio * along) / variance)


def line_coordinates(angles: FloatArray) -> FloatArray:
    """ψ itself, (n, 1)."""
    return angles[:, None]


def wrapped_density(angles: FloatArray, means: FloatArray, variance: FloatArray) -> DensitySlopes:
    """log Σ_k N(ψ + 2πk | m, v): each image's score, weighted by its share of the density."""
    away = wrap(angles - means[:, 0])[:, None] + 2.0 * np.pi * np.arange(-12, 13)
    logs = -0.5 * away**2 / variance[:, None]
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top)
    total = share.sum(axis=1)
    share /= total[:, None]
    value = top[:, 0] + np.log(total) - 0.5 * _LOG_TURN - 0.5 * np.log(variance)
    by_mean = (share * away).sum(axis=1) / variance
    by_variance = 0.5 * ((share * away**2).sum(axis=1) / variance - 1.0) / variance
    return DensitySlopes(value, by_mean[:, None], by_variance)


class Chart(NamedTuple):
    """How angles are numbers, and predictions of the numbers angles again.

    `coordinates` makes P numbers (n, P) of angles (n,); `density` the density on the circle of angles (n,) where their
    coordinates are independent and normal with means (n, P) and one variance (n,).
    """

    coordinates: Callable[[FloatArray], FloatArray]
    density: Callable[[FloatArray, FloatArray, FloatArray], DensitySlopes]


PLANE = Chart(plane_coordinates, projected_density)
LINE = Chart(line_coordinates, wrapped_density)


# ---- leave-one-out on the circle ------------------------------------------------------------------------------------


class _RowPredictions(NamedTuple):
    """For every row: means (n, P) and variance of f from other inputs, how many rows remain, and their mean (n, P)."""

    mean: FloatArray
    variance: FloatArray
    rest: FloatArray
    rest_mean: FloatArray


class _Slopes(NamedTuple):
    """Derivatives in the mean (n, P), in the variance (n,) and in the noise (n,)."""

    mean: FloatArray
    variance: FloatArray
    noise: FloatArray


def row_log_densities(solution: PlanarGPSolution, replicates: Replicates, chart: Chart) -> FloatArray:
    """log p(ψ | all other rows) of every row."""
    rows = _predict_rows(solution, replicates, chart)
    return _from_all_rows(rows, solution.noise, replicates.angles, chart)[0]


def leave_one_out_criterion(
    solution: PlanarGPSolution, replicates: Replicates, chart: Chart
) -> tuple[float, FloatArray]:
    """The criterion and its gradient in θ."""
    rows = _predict_rows(solution, replicates, chart)
    first, by_mean, by_variance = chart.density(replicates.angles, rows.mean, rows.variance + solution.noise)
    last, last_slopes = _from_all_rows(rows, solution.noise, replicates.angles, chart)
    share = 1.0 / np.maximum(np.repeat(replicates.total, replicates.sizes), 1.0)
    value = float(replicates.weights @ (share * first + (1.0 - share) * last))
    ahead, behind = replicates.weights * share, replicates.weights * (1.0 - share)
    mean_slope = ahead[:, None] * by_mean + behind[:, None] * last_slopes.mean
    variance_slope = ahead * by_variance + behind * last_slopes.variance
    return value, leave_one_out_gradient(
        solution,
        np.add.reduceat(mean_slope, replicates.starts),
        np.add.reduceat(variance_slope, replicates.starts),
        float(ahead @ by_variance + behind @ last_slopes.noise),
    )


def _from_all_rows(rows: _RowPredictions, noise: float, angles: FloatArray, chart: Chart) -> tuple[FloatArray, _Slopes]:
    """Log densities given all other rows, and their derivatives.

    f ~ N(m, v) has seen the mean of r rows besides: with D = vr + σ², gain k = vr/D, variance vσ²/D.
    """
    v, r = rows.variance, rows.rest
    d = v * r + noise
    away = rows.rest_mean - rows.mean
    gain = (v * r / d)[:, None]
    logs, a, b = chart.density(angles, rows.mean + gain * away, v * noise / d + noise)
    by_gain = (a * away).sum(axis=1) * r / d**2
    by_variance = by_gain * noise + b * (noise / d) ** 2
    by_noise = -by_gain * v + b * (1.0 + r * (v / d) ** 2)
    return logs, _Slopes(a * (1.0 - gain), by_variance, by_noise)


def _predict_rows(solution: PlanarGPSolution, replicates: Replicates, chart: Chart) -> _RowPredictions:
    """Every row as the other inputs predict it, and what the other rows of its input add."""
    sizes = replicates.sizes
    mean, variance = (np.repeat(part, sizes, axis=0) for part in leave_one_out(solution))
    # A row of weight 2 stands for two rows, of which one is left out.
    total = np.repeat(replicates.total, sizes)
    taken = np.minimum(replicates.weights, 1.0)
    rest = np.maximum(total - taken, 0.0)
    some = (rest > 0.0)[:, None]
    means = np.repeat(solution.data.means, sizes, axis=0)
    left = total[:, None] * means - taken[:, None] * chart.coordinates(replicates.angles)
    return _RowPredictions(mean, variance, rest, np.where(some, left / np.where(some, rest[:, None], 1.0), mean))


# ---- search for hyper-parameters ------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Observations as numbers, the angles behind them, and the chart between both."""

    data: PlanarGPData
    replicates: Replicates
    chart: Chart

    @classmethod
    def of(cls, inputs: FloatArray, replicates: Replicates, chart: Chart) -> Problem:
        """From angles grouped by input."""
        return cls(PlanarGPData.of(inputs, replicates, chart.coordinates(replicates.angles)), replicates, chart)

    def subsample(self, most: int, rng: np.random.Generator) -> Problem:
        """At most so many inputs, drawn at random."""
        size = self.data.counts.size
        if size <= most:
            return self
        which = np.sort(rng.choice(size, most, replace=False))
        return Problem.of(self.data.inputs[which], self.replicates.take(which), self.chart)


class SearchEnd(NamedTuple):
    """Where a search ended: the criterion, its prior included, and the process."""

    value: float
    process: PlanarGP


@dataclass
class HyperparameterSearch:
    """What is to be maximised, "evidence" or "loo", about a first process.

    `deviation` is that of the starts about the first, and of the weak prior, on every logarithm.
    """

    problem: Problem
    process: PlanarGP
    criterion: str
    deviation: float = 1.5
    report: Callable[[float], object] = lambda value: None
    interrupted: bool = dataclasses.field(default=False, init=False)
    _best: tuple[float, FloatArray] | None = dataclasses.field(default=None, init=False)

    def value(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """The criterion and its gradient, without the prior."""
        solution = solve(self.process.at(vector), self.problem.data)
        if self.criterion == "loo":
            return leave_one_out_criterion(solution, self.problem.replicates, self.problem.chart)
        return evidence(solution)

    def run(self, count: int, rng: np.random.Generator) -> SearchEnd:
        """The best of `count` searches."""
        bounds, center = self.process.bounds, self.process.theta
        starts = [center, *(center + rng.normal(0.0, self.deviation, (count - 1, center.size)))]
        self.value(np.clip(center, bounds[:, 0], bounds[:, 1]))  # a kernel that is none says so here
        ends = []
        try:
            for start in starts:
                start = np.clip(start, bounds[:, 0], bounds[:, 1])
                ends.append(minimize(self._negative, start, jac=True, method="L-BFGS-B", bounds=bounds))
        except KeyboardInterrupt:
            if self._best is None:
                raise
            self.interrupted = True
            text = "the search for hyper-parameters was interrupted; the best found so far are kept"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
            return SearchEnd(self._best[0], self.process.at(self._best[1]))
        best = min(ends, key=lambda end: float(end.fun))
        self._check(best, bounds)
        return SearchEnd(-float(best.fun), self.process.at(best.x))

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """What is minimised, and its gradient."""
        try:
            value, gradient = self.value(vector)
        except ValueError:
            return 1e25, np.zeros(vector.size)  # no covariance: L-BFGS-B turns back
        away = (vector - self.process.theta) / self.deviation
        value, gradient = value - 0.5 * float(away @ away), gradient - away / self.deviation
        if self._best is None or value > self._best[0]:
            self._best = value, np.array(vector)
        self.report(value)
        return -value, -gradient

    def _check(self, end: OptimizeResult, bounds: FloatArray) -> None:
        """Warn where the search ended on a slope, more than a thousandth an observation, that no bound explains."""
        slope = np.where((end.x <= bounds[:, 0]) & (end.jac > 0.0), 0.0, end.jac)
        slope = np.where((end.x >= bounds[:, 1]) & (slope < 0.0), 0.0, slope)
        norm = float(np.abs(slope).max(initial=0.0))
        if norm > 1e-3 * max(1.0, float(self.problem.data.counts.sum())):
            warnings.warn(
                f"the search for hyper-parameters ended with a gradient of {norm:.2g} ({end.message}); give more "
                "starts (n_starts), a kernel with narrower bounds, or scaled inputs",
                ConvergenceWarning,
                stacklevel=5,
            )


def make_candidates(kernel: Kernel | None, inputs: FloatArray, variance: float, offset: float) -> list[PlanarGP]:
    """The user's kernel, or by default Matérn kernels of order 1/2 and 3/2 on the scale of the inputs.

    `variance` is that of the outputs about their mean, `offset` that of their unknown mean.
    """
    if kernel is not None:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be a kernel of sklearn.gaussian_process.kernels or None, got {type(kernel).__name__}"
            )
        return [_split_noise(kernel, variance)]
    length = typical_scale(inputs)
    ends = (1e-3 * length, 1e3 * length)
    constant = ConstantKernel(offset, (1e-4 * offset, 1e2 * offset))
    amplitude = ConstantKernel(0.5 * variance, (1e-4 * variance, 1e3 * variance))
    return [_split_noise(amplitude * Matern(length, ends, nu=nu) + constant, variance) for nu in (0.5, 1.5)]


def typical_scale(inputs: FloatArray) -> float:
    """Half the median distance of different inputs; 1 where there is but one."""
    distances = pdist(inputs[:: max(1, len(inputs) // 500)])
    distances = distances[distances > 0.0]
    return 0.5 * float(np.median(distances)) if distances.size else 1.0


def _split_noise(kernel: Kernel, variance: float) -> PlanarGP:
    """The noise is the WhiteKernel at the end of a sum, or one of its own; a WhiteKernel elsewhere stays in f."""
    white = WhiteKernel(0.2 * variance, (1e-6 * variance, 1e2 * variance))
    if isinstance(kernel, Sum) and isinstance(kernel.k2, WhiteKernel):
        kernel, white = kernel.k1, kernel.k2
    elif isinstance(kernel, Sum) and isinstance(kernel.k1, WhiteKernel):
        kernel, white = kernel.k2, kernel.k1
    level = float(np.log(white.noise_level))
    fixed = isinstance(white.noise_level_bounds, str)
    ends = (level, level) if fixed else tuple(np.log(np.ravel(white.noise_level_bounds)).tolist())
    return PlanarGP(kernel, level, ends)


# ---- regressors -----------------------------------------------------------------------------------------------------


class _Prepared(NamedTuple):
    """The problem in coordinates, their variance about their mean, and that of their unknown mean."""

    problem: Problem
    variance: float
    mean_variance: float


class _PlanarGPRegressor(BaseCircularRegressor):
    """Fit and prediction shared by both; a subclass says what the coordinates are."""

    kernel: Any
    selection: str | None
    n_starts: int
    tuning_rows: int
    random_state: Seed
    verbose: int

    @abc.abstractmethod
    def _prepare(self, found: MergedTraining) -> _Prepared:
        """The observations in coordinates."""

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyper-parameters from X (N, p) and angles y (N,); weights are counts of rows."""
        data = validate_training(self, X, y, sample_weight)
        if self.selection is not None:
            check.choice(self.selection, "selection", ["evidence", "loo"])
        count = check.integer(self.n_starts, "n_starts", minimum=1)
        most = check.integer(self.tuning_rows, "tuning_rows", minimum=2)
        found = merge_replicates(data)
        problem, variance, mean_variance = self._prepare(found)
        rng = check.generator(self.random_state, "random_state")
        small = problem.subsample(most, rng)
        report = Reporter(int(self.verbose), type(self).__name__)
        best: SearchEnd | None = None
        with single_thread:
            for process in make_candidates(self.kernel, found.inputs, variance, mean_variance):
                if self.selection is None:
                    best = best or SearchEnd(0.0, process)
                    continue
                search = HyperparameterSearch(small, process, self.selection, report=report)
                end = search.run(count, rng)
                best = end if best is None or end.value > best.value else best
                if search.interrupted:
                    break
            assert best is not None
            self._solution = solve(best.process, problem.data, slopes=False)
            self.kernel_ = best.process.kernel + WhiteKernel(self._solution.noise)
            self.log_evidence_ = evidence(self._solution)[0]
            values = row_log_densities(self._solution, problem.replicates, problem.chart)
            self.loo_log_density_ = found.of_rows(
                values, lambda rows: self._distribution(data.X[rows]).logpdf(data.y[rows])
            )
        return self

    @abc.abstractmethod
    def _distribution(self, X: FloatArray) -> CircularDistribution:
        """The distribution at checked rows."""

    @single_thread
    def predict_dist(self, X: Any) -> CircularDistribution:
        """The distribution of the angle at every row of X, as one batch."""
        return self._distribution(validate_queries(self, X))


class ProjectedGPRegressor(_PlanarGPRegressor):
    r"""cos kψ = f₁(x) + ε₁, sin kψ = f₂(x) + ε₂, f Gaussian processes: kψ is the direction of a Gaussian in the plane.

    The density of the angle is that of the direction, a projected normal distribution. One set of hyper-parameters
    serves both coordinates, so that the choice of the zero direction does not matter.

    Parameters
    ----------
    kernel : kernel of scikit-learn, optional
        Of f; a WhiteKernel at the end of a sum is the noise ε, else one is added. By default an unknown constant plus a
        Matérn kernel, of order 1/2 or 3/2, whichever the criterion prefers.
    selection : {"evidence", "loo"} or None, default "evidence"
        What hyper-parameters maximise: the marginal likelihood of the coordinates, or the log density on the circle of
        angles left out (where inputs repeat, one by one as well as with all others at their input); None keeps them as
        they are. Weak log-normal priors about their starts (standard deviation 1.5) keep fits to few data sane.
    angle_multiple : int, default 1
        k. With 2 the distribution of the angle has two equal halves, half a turn apart: for axes, and for two tides a
        day.
    n_starts : int, default 3
        Searches from different starts.
    tuning_rows : int, default 1500
        Hyper-parameters are learnt on at most so many inputs, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of the starts.
    verbose : int, default 0
        1 prints progress every other second.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; `predict_dist` gives radians.

    Attributes
    ----------
    kernel_ : kernel
        With the learnt hyper-parameters, noise included.
    log_evidence_ : float
        Log marginal likelihood of the coordinates, a density in the plane and not on the circle.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Notes
    -----
    Equal inputs are merged, which is exact: cost grows with the cube of the number of different inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import ProjectedGPRegressor
    >>> x = np.linspace(0.0, 1.0, 30)[:, None]
    >>> y = 6.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.1, 30)
    >>> model = ProjectedGPRegressor().fit(x, y)
    >>> bool(abs(model.predict([[0.5]])[0] - 3.0) < 0.2)
    True
    >>> model.predict_dist([[0.5]]).interval(0.9).shape
    (1, 1, 2)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        selection: str | None = "evidence",
        angle_multiple: int = 1,
        n_starts: int = 3,
        tuning_rows: int = 1500,
        random_state: Seed = 0,
        verbose: int = 0,
        unit: str = "radians",
    ):
        self.kernel = kernel
        self.selection = selection
        self.angle_multiple = angle_multiple
        self.n_starts = n_starts
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose
        self.unit = unit

    def _prepare(self, found: MergedTraining) -> _Prepared:
        multiple = check.integer(self.angle_multiple, "angle_multiple", minimum=1)
        weights = found.replicates.weights
        folded = found.replicates._replace(angles=np.asarray(wrap(multiple * found.replicates.angles)))
        mean = np.average(np.exp(1j * folded.angles), weights=weights)
        variance = max(0.5 * (1.0 - abs(mean) ** 2), 0.5 / (1.0 + weights.sum()) ** 2)
        return _Prepared(Problem.of(found.inputs, folded, PLANE), variance, 0.5)

    def _distribution(self, X: FloatArray) -> CircularDistribution:
        means, variance = predict(self._solution, X)
        dist = ProjectedNormal(means, variance[:, None, None] * np.eye(2))
        return dist if self.angle_multiple == 1 else _fold_multiple(dist, int(self.angle_multiple), means, variance)


class WrappedGPRegressor(_PlanarGPRegressor):
    r"""ψ = μ + f(x) + ε modulo 2π, f a Gaussian process on the line; the density of the angle is wrapped normal.

    Angles are unwrapped around their mean direction μ, to [μ - π, μ + π). This serves angles that stay away from the
    cut at μ ± π, and no others: the method is here to be compared with.

    Parameters
    ----------
    kernel : kernel of scikit-learn, optional
        Of f; a WhiteKernel at the end of a sum is the noise ε, else one is added. By default an unknown constant plus a
        Matérn kernel, of order 1/2 or 3/2, whichever the criterion prefers.
    selection : {"evidence", "loo"} or None, default "evidence"
        What hyper-parameters maximise: the marginal likelihood on the line, or the log density on the circle of
        angles left out (where inputs repeat, one by one as well as with all others at their input); None keeps them as
        they are.
    n_starts : int, default 3
        Searches from different starts.
    tuning_rows : int, default 1500
        Hyper-parameters are learnt on at most so many inputs, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of the starts.
    verbose : int, default 0
        1 prints progress every other second.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; `predict_dist` gives radians.

    Attributes
    ----------
    kernel_ : kernel
        With the learnt hyper-parameters, noise included.
    center_ : float
        μ.
    log_evidence_ : float
        Log marginal likelihood of the unwrapped angles.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import WrappedGPRegressor
    >>> x = np.linspace(0.0, 1.0, 30)[:, None]
    >>> y = np.pi + x[:, 0] + np.random.default_rng(0).normal(0.0, 0.1, 30)
    >>> bool(abs(WrappedGPRegressor().fit(x, y).predict([[0.5]])[0] - (0.5 - np.pi)) < 0.2)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        selection: str | None = "evidence",
        n_starts: int = 3,
        tuning_rows: int = 1500,
        random_state: Seed = 0,
        verbose: int = 0,
        unit: str = "radians",
    ):
        self.kernel = kernel
        self.selection = selection
        self.n_starts = n_starts
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose
        self.unit = unit

    def _prepare(self, found: MergedTraining) -> _Prepared:
        replicates = found.replicates
        self.center_ = float(np.angle(replicates.weights @ np.exp(1j * replicates.angles)))
        turned = replicates._replace(angles=np.asarray(wrap(replicates.angles - self.center_)))
        # One angle, or few that are equal, do not show that there is no variance; π²/3 is that of the uniform one.
        variance = float(np.average(turned.angles**2, weights=replicates.weights))
        variance = max(variance, np.pi**2 / 3.0 / (1.0 + float(replicates.weights.sum())) ** 2)
        return _Prepared(Problem.of(found.inputs, turned, LINE), variance, variance)

    def _distribution(self, X: FloatArray) -> CircularDistribution:
        means, variance = predict(self._solution, X)
        return WrappedNormal(self.center_ + means[:, 0], np.sqrt(variance))


def _fold_multiple(dist: ProjectedNormal, multiple: int, means: FloatArray, variance: FloatArray) -> GridDensity:
    """The distribution of ψ whose multiple kψ has a given density g: f(ψ) = g(kψ), alike in all k parts of the turn."""
    # Curvature of the log density: that of the mean's distance.
    bend = (means**2).sum(axis=1) / variance + 1.0
    count = cells(4.0 * float(bend.max(initial=0.0)))
    nodes = periodic_grid(count) - (multiple - 1) * np.pi
    return GridDensity(np.tile(dist[:, None].logpdf(nodes), multiple))
