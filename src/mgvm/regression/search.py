"""The search for hyper-parameters, above all engines: candidates, starts, weak priors, bounds, interruption, averaging.

Candidates are kernels times noise distributions. Of each, bounded BFGS climbs score + log prior from several starts;
the prior is a normal of standard deviation 1.5 on every logarithm, centred on where the search begins (a factor of
e^1.5 either way). Engines may name a cheaper problem to begin with: a part of the inputs, say.

**Averaging.** Where few data leave hyper-parameters open, predictions are averaged over them by importance sampling
around the optimum. The log posterior is f = t·score + log prior. The score is the evidence with t = 1, or the sum of
leave-one-out log densities with t = 1/2: where neighbours determine each other, what two of them say of the
hyper-parameters enters the densities of both, and is counted twice. (Data simulated from the model show it: with t = 1,
intervals of 90 % hold the noise of 70 % to 80 %.) Points v = v̂ + Lz with LLᵀ = (-f'')⁻¹ and z from a fixed
low-discrepancy normal set weigh exp(f(v) + ½|z|²/s²); the predictive density is the weighted mean. The best point alone
is too sure of itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import numpy as np
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import Kernel

from mgvm._progress import ProgressLines
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.gvm import GvM
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression.bounded_bfgs import Point, minimize
from mgvm.regression.engines.base import Engine, Posterior, Problem, S, UnresolvedError
from mgvm.regression.noise import Noise
from mgvm.regression.prior import length_scales

NEGLIGIBLE = 1e-4  # weight of a fit in an average
_REACH = 3.0  # times what a step promises by the curvature of a part: what a search on all inputs may still gain
_CLEARLY = 4.0  # standard errors of paired differences, by which a candidate has lost,
_MARGIN = 0.02  # beyond this, nats an input: more inputs than those it was judged by may favour it


# ---- what is searched -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchOptions:
    """What a user may say of a search."""

    learn: bool  # whether hyper-parameters are learnt at all
    n_starts: int
    average: bool
    rng: np.random.Generator
    verbose: int
    start: FloatArray | None = None  # hyper-parameters of an earlier fit, instead of all other starts


@dataclass(frozen=True)
class SearchResult:
    """The chosen noise, and posteriors with their weights, the best first."""

    noise: Noise
    posteriors: list[tuple[float, Posterior]]


class HyperPrior:
    """The weak prior on all hyper-parameters, and their bounds."""

    precision = 1.5**-2.0  # of every logarithm

    def __init__(self, problem: Problem):
        self.centre = np.concatenate([problem.prior.theta, problem.noise.start])
        noise = np.tile([-12.0, 12.0], (problem.noise.start.size, 1))
        self.bounds = np.concatenate([problem.prior.bounds, noise])

    def log_density(self, vector: FloatArray) -> float:
        """Up to a constant."""
        away = vector - self.centre
        return -0.5 * self.precision * float(away @ away)

    def gradient(self, vector: FloatArray) -> FloatArray:
        """Of the log density."""
        return -self.precision * (vector - self.centre)


class Evaluation(NamedTuple, Generic[S]):
    """A solution at hyper-parameters, its score, and score plus log prior."""

    vector: FloatArray
    solution: S
    score: float
    objective: float

    @property
    def rank(self) -> tuple[bool, float]:
        """What evaluations are compared by: inference that converged first."""
        return self.solution.converged, self.objective


class Reporter:
    """Prints the number of fits and the best objective where `verbose` asks for it; above 1, after every fit."""

    def __init__(self, verbose: int, name: str = "CircularGPRegressor"):
        self._say = ProgressLines(name, verbose)
        self._best, self._calls = -np.inf, 0

    def __call__(self, objective: float) -> None:
        """Count a fit."""
        self._calls += 1
        self._best = max(self._best, objective)
        self._say(f"{self._calls} fits, best {self._best:.3f}")


# ---- one candidate --------------------------------------------------------------------------------------------------


class Descent(Generic[S]):
    """Descents of one engine, on a cheaper problem first where it names one; `best` survives an interruption."""

    def __init__(self, engine: Engine[S], report: Callable[[float], object] = lambda objective: None):
        self.engine = engine
        self.prior = HyperPrior(engine.problem)
        self.report = report
        self.best: Evaluation[S] | None = None
        self.before: Descent[Any] | None = None  # of the cheaper problem
        self._starts: list[FloatArray] = []
        self._origin: FloatArray | None = None  # the start that led to the best
        self._last: float | None = None
        self._near = False  # whether the last step changed the objective by less than a nat

    def run(self, starts: list[FloatArray]) -> Evaluation[S]:
        """The best end of several searches, to full accuracy."""
        self.explore(starts)
        self.climb()
        assert self.best is not None
        self.best = self.finish(self.best.vector)
        return self.best

    def explore(self, starts: list[FloatArray]) -> None:
        """Search the cheaper problem, if there is one, from all starts."""
        self._starts = starts
        engine = self.engine.preliminary()
        if engine is not None:
            scale = self.engine.problem.size / engine.problem.size
            self.before = Descent(engine, lambda objective: self.report(objective * scale))
            self.before.explore(starts)
            self.before.climb()

    @property
    def found(self) -> Evaluation[Any] | None:
        """The best so far, of the cheaper problem where all inputs have not been seen yet."""
        return self.best if self.best is not None or self.before is None else self.before.found

    @property
    def origin(self) -> FloatArray:
        """The start that led to the best."""
        if self.before is not None:
            return self.before.origin
        return self.prior.centre if self._origin is None else self._origin

    def climb(self, rival: Evaluation[Any] | None = None) -> None:
        """Search from all starts, or from the optimum of the cheaper problem; not for long below a rival's reach."""
        if self.before is None:
            for start in self._starts:
                known = self.best
                self.descend(start)
                if self.best is not known:
                    self._origin = start
            return
        before, steps = self.before, self.engine.refinements
        assert before.best is not None
        vector = before.best.vector
        if steps is not None:
            scale = self.engine.problem.size / before.engine.problem.size
            self._refine(vector, before.curvature(vector, scale), steps, rival)
            return
        if before.engine.problem.criterion != self.engine.problem.criterion:
            # By another criterion it may be no better than the start.
            vector = max([self._starts[0], vector], key=lambda v: self.finish(v).objective)
        self.descend(vector)

    def finish(self, vector: FloatArray) -> Evaluation[S]:
        """The solution at given hyper-parameters, to full accuracy."""
        found = self.engine.solve(vector, self.engine.accuracy.end)
        return Evaluation(vector, found, found.score, found.score + self.prior.log_density(vector))

    def evaluate(self, vector: FloatArray, tolerance: float) -> tuple[Evaluation[S], FloatArray]:
        """The solution at given hyper-parameters, and the gradient of score plus log prior."""
        found, score, gradient = self.engine.objective_and_gradient(vector, tolerance)
        evaluation = Evaluation(vector, found, score, score + self.prior.log_density(vector))
        return evaluation, gradient + self.prior.gradient(vector)

    def descend(self, start: FloatArray) -> None:
        """A search from one start, begun again where what the engine held fixed has become stale."""
        engine, before = self.engine, self.best
        curvature = self._guess_curvature()
        self._last, self._near = None, False

        def give_up(here: Point, promised: float) -> bool:
            """Whether an earlier search has ended nearby, or above all that this one can hope for."""
            if before is None or not before.solution.converged:
                return False
            behind = here.value + before.objective
            is_close = float(np.abs(here.x - before.vector).max()) < 0.3
            return (is_close and behind > 0.0) or promised < 0.1 * behind

        for _ in range(3):
            engine.forget()
            start = minimize(
                self._negative,
                start,
                self.prior.bounds,
                curvature=curvature,
                gain=engine.least_gain,
                give_up=give_up if engine.may_give_up else None,
            )
            if not engine.is_stale(start):
                return

    def _guess_curvature(self) -> FloatArray:
        """An observation tells about 0.1 nats of each logarithm, its prior the rest.

        Of the kernel all copies at an input tell no more than one: with a guess as large as theirs no step would
        promise anything.
        """
        problem = self.engine.problem
        copies = float(problem.replicates.total.sum())
        told = np.where(np.arange(self.prior.centre.size) < problem.prior.theta.size, min(copies, problem.size), copies)
        return np.diag(0.1 * told + self.prior.precision)

    def curvature(self, vector: FloatArray, scale: float) -> FloatArray:
        """Minus the second derivatives of a problem `scale` times as large, positive definite."""
        away, tolerance = 0.02, self.engine.accuracy.near
        slopes = [
            self.evaluate(vector + step, tolerance)[1] - self.evaluate(vector - step, tolerance)[1]
            for step in away * np.eye(vector.size)
        ]
        prior = self.prior.precision * np.eye(vector.size)
        score = -np.array(slopes) / (2.0 * away) - prior
        values, axes = np.linalg.eigh(0.5 * (score + score.T) * scale)
        # In directions in which there is no maximum no step is taken to speak of.
        values = np.where(values > 0.0, values, 1e3 * np.abs(values).max())
        return np.asarray((axes * values) @ axes.T + prior)

    def _refine(self, start: FloatArray, curvature: FloatArray, steps: int, rival: Evaluation[Any] | None) -> None:
        """Quasi-Newton steps with a known curvature, which tells at once whether a rival is out of reach."""

        def give_up(here: Point, promised: float) -> bool:
            return (
                rival is not None
                and rival.solution.converged
                and here.value + rival.objective > 1.0 + _REACH * promised
            )

        self.engine.forget()
        minimize(
            self._negative,
            start,
            self.prior.bounds,
            curvature=curvature,
            gain=self.engine.least_gain,
            max_steps=steps,
            give_up=give_up,
            patience=0,
        )

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """What is minimised, infinite where inference is lost: the search then steps back."""
        accuracy = self.engine.accuracy
        try:
            found, gradient = self.evaluate(vector, accuracy.near if self._near else accuracy.far)
        except UnresolvedError:
            if self.best is None:
                raise
            return np.inf, np.zeros(vector.size)
        self._near = self._last is not None and abs(found.objective - self._last) < 1.0
        self._last = found.objective
        if self.best is None or found.rank > self.best.rank:
            self.best = found
        self.report(found.objective)
        lost = found.solution.is_lost and self.best.solution.converged
        return (np.inf if lost else -found.objective), -gradient


# ---- all candidates -------------------------------------------------------------------------------------------------


MakeEngine = Callable[[Kernel, Noise], Engine[Any]]


class Race:
    """Candidates searched one after another, those that are far behind not to the end."""

    def __init__(self, make_engine: MakeEngine, kernels: list[Kernel], options: SearchOptions):
        self._make_engine, self._kernels, self._options = make_engine, kernels, options
        self._report = Reporter(options.verbose)
        self._descents: list[Descent[Any]] = []

    def run(self, noise: Noise) -> None:
        """Search all kernels with a noise."""
        self._enter([(self._make_engine(kernel, noise), None) for kernel in self._kernels])

    def run_further(self, noises: list[Noise]) -> None:
        """Search with other noises the kernels that are in the running, each from the start that has served it best."""
        leader = self.leader()
        known = [
            (kernel, descent.origin[: descent.engine.problem.prior.theta.size])
            for kernel, descent in zip(self._kernels, self._descents, strict=True)
            if self._options.average or not _is_far_behind(descent, leader)
        ]
        self._enter([(self._make_engine(kernel, noise), theta) for noise in noises for kernel, theta in known])

    def _enter(self, engines: list[tuple[Engine[Any], FloatArray | None]]) -> None:
        """Search engines, from θ if given: on their cheaper problems, then, the best first, on all inputs."""
        new = [Descent(engine, self._report) for engine, _ in engines]
        for descent, (_, theta) in zip(new, engines, strict=True):
            self._descents.append(descent)
            if self._options.learn:
                descent.explore(_starts(descent, self._options, theta))
            else:
                start = self._options.start
                descent.best = descent.finish(descent.prior.centre if start is None else start)
        if not self._options.learn:
            return
        for descent in sorted(new, key=_outlook, reverse=True):
            if self._options.average or not self._seen() or not _is_far_behind(descent, self.leader()):
                descent.climb(self.leader().best if self._seen() else None)

    def _seen(self) -> list[Descent[Any]]:
        """Candidates with an evaluation of all inputs."""
        return [descent for descent in self._descents if descent.best is not None]

    def leader(self) -> Descent[Any]:
        """The best of them."""
        return max(self._seen(), key=_outlook)

    def posterior(self) -> Posterior:
        """Of the leader, as it is by now."""
        leader = self.leader()
        assert leader.best is not None
        return leader.engine.posterior(leader.best.solution)

    def fall_back(self) -> bool:
        """After an interruption: whether there is a leader, be it by what the cheaper problems have told."""
        known = [(descent, descent.found) for descent in self._descents if descent.found is not None]
        if known and not self._seen():
            descent, found = max(known, key=lambda item: item[1].rank)
            descent.best = descent.finish(found.vector)
        return bool(known)

    def finish(self, average: bool) -> list[tuple[Descent[Any], Evaluation[Any]]]:
        """Candidates to full accuracy, the best first: all for an average, else until one has converged."""
        ends: list[tuple[Descent[Any], Evaluation[Any]]] = []
        for descent in sorted(self._seen(), key=_outlook, reverse=True):
            assert descent.best is not None
            end = descent.finish(descent.best.vector) if self._options.learn else descent.best
            ends.append((descent, end))
            if end.solution.converged and not average:
                break
        return sorted(ends, key=lambda item: item[1].rank, reverse=True)


def _outlook(descent: Descent[Any]) -> tuple[bool, float]:
    """What candidates are ordered by; those of which nothing is known stay as they come."""
    return (False, 0.0) if descent.found is None else descent.found.rank


def _is_far_behind(descent: Descent[Any], leader: Descent[Any]) -> bool:
    """Whether a candidate has lost beyond doubt, on a part of the inputs or on all."""
    one, other = (d if d.before is None else d.before for d in (descent, leader))
    here, there = one.best, other.best
    if here is None or there is None or not (here.solution.converged and there.solution.converged):
        return False
    if one.engine.problem.size != other.engine.problem.size or descent.engine.problem.criterion == "folds":
        return False
    behind = there.solution.loo - here.solution.loo
    return bool(behind.mean() > _MARGIN + _CLEARLY * behind.std() / np.sqrt(behind.size))


def search(
    make_engine: MakeEngine,
    kernels: list[Kernel],
    noise: Noise,
    options: SearchOptions,
    further: Callable[[Posterior], list[Noise]] = lambda posterior: [],
) -> SearchResult:
    """The best of all candidates by their own criterion; where asked, an average over hyper-parameters and kernels.

    `further` names other noises worth trying, from the posterior with the first.
    """
    race, average = Race(make_engine, kernels, options), options.average
    try:
        race.run(noise)
        race.run_further(further(race.posterior()))
    except KeyboardInterrupt:
        if not race.fall_back():
            raise
        text = "the search for hyper-parameters was interrupted; the best found so far are kept"
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
        average = False
    found = race.finish(average)
    descent, best = found[0]
    noise = descent.engine.problem.noise
    weighted = [(1.0, descent.engine, best)]
    if average:
        # One noise distribution serves all fits of a regressor: kernels are averaged over, orders of noise chosen.
        weighted = _average([item for item in found if item[0].engine.problem.noise is noise], best)
    return SearchResult(noise, [(weight, engine.posterior(end.solution)) for weight, engine, end in weighted])


def _starts(descent: Descent[Any], options: SearchOptions, theta: FloatArray | None) -> list[FloatArray]:
    """From θ, or else as given, with length scales a fifth of that, then at random; and where noise has two modes."""
    if options.start is not None:
        return [options.start]
    problem, first = descent.engine.problem, descent.prior.centre
    if theta is not None:
        starts = [np.concatenate([theta, problem.noise.start])]
    else:
        shorter = np.zeros(first.size)
        marks = np.concatenate([length_scales(kernel) for kernel in problem.prior.kernels])
        shorter[: marks.size] = -np.log(5.0) * marks
        starts = [first, first + shorter] if marks.any() else [first]
        while len(starts) < options.n_starts:
            starts.append(first + options.rng.normal(0.0, 1.0, first.size))
        starts = starts[: options.n_starts]
    other = problem.noise.two_modes
    if other is not None:
        starts.append(np.concatenate([problem.prior.theta if theta is None else theta, other]))
    return starts


def orders_worth_trying(residuals: FloatArray, weights: FloatArray, highest: int) -> list[int]:
    """Those above 1 whose distribution of the residuals has modes apart and describes them better by BIC."""
    if highest < 2:
        return []
    count = max(float(weights.sum()), 2.0)  # less than one observation would be paid for every parameter
    scores = {}
    for order in range(1, highest + 1):
        with warnings.catch_warnings():
            # Of a fit that stops short in narrow data the order is not worth trying, or is tried: its own fit tells.
            warnings.simplefilter("ignore", RuntimeWarning)
            dist = GvM.fit(residuals, weights=weights, order=order)
        bic = 2 * order * np.log(count) - 2.0 * float(weights @ dist.logpdf(residuals))
        scores[order] = (bic, _has_modes_apart(dist))
    return [order for order, (bic, several) in scores.items() if several and bic < scores[1][0]]


def _has_modes_apart(dist: GvM, height: float = 0.01, distance: float = 0.25 * np.pi) -> bool:
    """Whether a mode of some height, relative to the highest, lies some distance away from it.

    High orders of narrow noise always have modes elsewhere, of no mass; and differences of neighbours have two close by
    where the direction changes steadily from one to the next.
    """
    place, density = (np.asarray(part) for part in dist.modes())
    high = density > height * np.nanmax(density, initial=0.0)
    return bool((np.abs(wrap(place[high] - place[0])) > distance).any())


def count_distinct(angles: FloatArray) -> int:
    """The number of different angles, those within 1e-9 radians being one: what inference leaves of equal ones."""
    if not angles.size:
        return 0
    turns = np.sort(np.mod(angles, 2.0 * np.pi))
    gaps = np.diff(turns, append=turns[:1] + 2.0 * np.pi)
    return max(int((gaps > 1e-9).sum()), 1)


# ---- averaging ------------------------------------------------------------------------------------------------------

Weighted = tuple[float, Engine[Any], Evaluation[Any]]


def _average(candidates: list[tuple[Descent[Any], Evaluation[Any]]], best: Evaluation[Any]) -> list[Weighted]:
    """Evaluations of all candidates weighed by their masses, the best first."""
    parts = [
        (descent.engine, *average_candidate(descent, end))
        for descent, end in candidates
        if end.solution.converged or end is best
    ]
    top = max(mass for _, mass, _ in parts)
    total = sum(np.exp(mass - top) for _, mass, _ in parts)
    weighted = [
        (float(np.exp(mass - top) * weight / total), engine, end)
        for engine, mass, ends in parts
        for weight, end in ends
    ]
    kept = [item for item in weighted if item[0] > NEGLIGIBLE or item[2] is best]
    return sorted(kept, key=lambda item: item[2] is not best)


def average_candidate(
    descent: Descent[S], best: Evaluation[S], *, points: int = 16, wider: float = 1.2
) -> tuple[float, list[tuple[float, Evaluation[S]]]]:
    """The logarithm of the mass of a candidate, and evaluations with their weights, the best point first.

    The mass is ∫ exp f over the hyper-parameters by importance sampling, less that of their prior: candidates of kernel
    and noise are weighed by it against each other. Points are drawn `wider` than the Gaussian approximation, whose
    tails are too thin.
    """
    centre, share = best.vector, _score_share(descent)

    def log_posterior(found: Evaluation[S]) -> float:
        return found.objective - (1.0 - share) * found.score

    root = posterior_root(descent, centre)
    ends, logs = [best], [log_posterior(best)]
    volume = float(np.log(np.abs(np.linalg.det(wider * descent.prior.precision**0.5 * root))))
    for vector, log_wide in points_around(centre, root, descent.prior.bounds, points, wider):
        found, _ = descent.evaluate(vector, _AVERAGING)
        if found.solution.converged:
            ends.append(found)
            logs.append(log_posterior(found) + log_wide)
    weights = np.exp(np.array(logs) - max(logs))
    mass = max(logs) + float(np.log(weights.mean())) + volume
    weights /= weights.sum()
    return mass, [(float(w), end) for w, end in zip(weights, ends, strict=True) if w > NEGLIGIBLE]


_AVERAGING = 1e-6  # mismatch of moments at the points of an average


def _score_share(descent: Descent[Any]) -> float:
    """t of the log posterior: leave-one-out densities count twice."""
    return 1.0 if descent.engine.problem.criterion == "evidence" else 0.5


def points_around(
    centre: FloatArray, root: FloatArray, bounds: FloatArray, count: int = 16, wider: float = 1.2
) -> Iterator[tuple[FloatArray, float]]:
    """Points of N(centre, wider² LLᵀ) within bounds, and minus the logarithm of the density of each at the centre's."""
    for z in wider * norm.ppf(qmc.Sobol(centre.size, scramble=True, rng=0).random(count)):
        yield np.clip(centre + root @ z, *bounds.T), 0.5 * float(z @ z) / wider**2


def posterior_root(descent: Descent[Any], centre: FloatArray) -> FloatArray:
    """`curvature_root` of the log posterior of a descent's hyper-parameters."""
    share, precision = _score_share(descent), descent.prior.precision
    return curvature_root(lambda vector: descent.evaluate(vector, _AVERAGING)[1], centre, precision, share)


def curvature_root(
    gradient: Callable[[FloatArray], FloatArray],
    centre: FloatArray,
    precision: float | FloatArray,
    share: float = 1.0,
    step: float = 0.05,
) -> FloatArray:
    """L with LLᵀ the inverse of -f'' by differences of the gradient, `precision` of it the prior's.

    The rest counts by its share, its eigenvalues in units of the prior at least 0.
    """
    slopes = [(gradient(centre + away) - gradient(centre - away)) / (2.0 * step) for away in step * np.eye(centre.size)]
    unit = np.broadcast_to(np.asarray(precision) ** -0.5, centre.shape)
    hessian = np.array(slopes) * np.outer(unit, unit)
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    return np.asarray(unit[:, None] * vectors / np.sqrt(share * np.maximum(values - 1.0, 0.0) + 1.0))
