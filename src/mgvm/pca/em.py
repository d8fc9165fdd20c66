"""EM for circular PCA: starts, the M-step in closed form, and the loop.

EM begins with circles in planes of principal components, or with a skeleton of the markers; short runs from several
starts on some rows, then a long one from the best on all. Chunks of rows add up their statistics in the E-step; the
M-step finds W by least squares, its structure kept, then the noise and the prior.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mgvm._progress import ProgressLines
from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.pca import priors
from mgvm.pca.e_step import Engine, MeanField, Parameters, Statistics
from mgvm.pca.rows import ArrayRows, Rows
from mgvm.pca.skeleton import KinematicTree, Structure


class EMFit(NamedTuple):
    """The best parameters, the log-likelihood of a row before every M-step, and whether it converged or was stopped."""

    parameters: Parameters
    history: list[float]
    converged: bool
    interrupted: bool = False


class EMOptions(NamedTuple):
    """When EM ends (`max_iter`, or a gain below `tol` nats a row), and what it prints.

    `verbose` 1 prints every other second, 2 every iteration. Modes of posteriors are searched for anew in every
    `search_every`-th iteration of EM by mean field.
    """

    max_iter: int = 200
    tol: float = 1e-5
    verbose: int = 0
    search_every: int = 30


# ---- starts ---------------------------------------------------------------------------------------------------------


def make_starts(Y: FloatArray, size: int, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """`count` starts W: a skeleton where the columns can be markers in the plane, the rest circles."""
    out = []
    if Y.shape[1] % 2 == 0 and Y.shape[1] // 2 <= size:
        out.append(KinematicTree.from_data(Y, size).start(Y, warn=False))
    rest = _draw_circles(Y, size, rng)
    return out + [next(rest) for _ in range(max(count - len(out), 0 if out else 1))]


def _draw_circles(Y: FloatArray, size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """W = [A B c] whose circles lie in planes of principal components, turned at random but for the first."""
    complete = np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)
    centre = complete.mean(axis=0)
    _, scale, directions = np.linalg.svd(complete - centre, full_matrices=False)
    used = min(2 * size, int((scale > 1e-12 * scale[0]).sum()) or 1)
    axes = directions[:used].T * (scale[:used] * np.sqrt(2.0 / len(Y)))
    turn = np.eye(used)
    while True:
        loadings = np.zeros((Y.shape[1], 2 * size))
        loadings[:, :used] = axes @ turn
        # Neighbours in the order of variance make one circle.
        order = np.concatenate([np.arange(0, 2 * size, 2), np.arange(1, 2 * size, 2)])
        yield np.concatenate([loadings[:, order], centre[:, None]], axis=1)
        turn = np.linalg.qr(rng.normal(size=(used, used)))[0]


def start_parameters(weights: FloatArray, Y: FloatArray) -> Parameters:
    """Parameters with given W; the noise is what W can leave unexplained at most, a tenth of the variance."""
    size = (weights.shape[1] - 1) // 2
    variance = float(np.nanvar(Y, axis=0).mean())
    return Parameters(weights, 0.1 * variance, priors.uniform(size))


# ---- EM -------------------------------------------------------------------------------------------------------------


def run_best(
    rows: Rows,
    some: FloatArray,
    engine: Engine,
    starts: list[FloatArray],
    structure: Structure,
    options: EMOptions,
    *,
    short_iter: int = 20,
) -> EMFit:
    """The best of short runs from several W on some rows, continued on all."""
    first = [start_parameters(weights, some) for weights in starts]
    if len(first) > 1:
        short: list[EMFit] = []
        few = options._replace(max_iter=min(short_iter, options.max_iter))
        while len(short) < len(first) and not (short and short[-1].interrupted):
            short.append(run(ArrayRows(some), engine, first[len(short)], structure, few))
        best = max(short, key=lambda fit: max(fit.history))
        if short[-1].interrupted:
            return best._replace(converged=False, interrupted=True)
        first = [best.parameters]
    return run(rows, engine, first[0], structure, options)


def run(rows: Rows, engine: Engine, start: Parameters, structure: Structure, options: EMOptions) -> EMFit:
    """EM from a start until a row gains less than `tol` nats; an interruption keeps the best so far.

    Every third point is an extrapolation of the two steps before it, and is given up where it is worse than they are.
    Posteriors of a single component by mean field begin where they were before, and at their modes, which are searched
    for anew, in the first, every `EMOptions.search_every`-th and the last step.
    """
    parameters, best = start, start
    history: list[float] = []
    report = make_reporter(options)
    path, leap, since = [start], Leap(), options.search_every
    shorter = replace(engine, search=False) if isinstance(engine, MeanField) else None
    try:
        for step in range(options.max_iter):
            search = since >= options.search_every or len(parameters.prior.linear) > 1
            sums = rows.sums(parameters, engine if search or shorter is None else shorter)
            since, searches = 0 if search else since + 1, search and shorter is not None
            value = sums.log_likelihood / sums.rows
            report(step + 1, value)
            if leap.taken and value < history[-1]:
                leap, parameters = leap.give_up(), path[-1]
                path = [parameters]
                history.append(history[-1])
                continue
            if not history or value > max(history):
                best = parameters
            elif not leap.taken and not searches and value < history[-1] - 0.1 * options.tol:
                leap = Leap(0.0)
            history.append(value)
            if len(history) > 1 and not leap.taken and abs(history[-1] - history[-2]) < options.tol:
                if searches or shorter is None:
                    return EMFit(best, history, converged=True)
                since = options.search_every
            if leap.taken or len(path) == 3:
                leap, path = leap.keep(), [parameters]
            parameters = maximize(sums, structure, parameters.prior)
            path.append(parameters)
            if len(path) == 3 and leap.longest:
                leap, parameters = leap.extrapolate(path)
    except KeyboardInterrupt:
        if not history:
            raise
        warnings.warn(
            f"the fit was interrupted after {len(history)} iterations; the best parameters so far are kept",
            ConvergenceWarning,
            stacklevel=3,
        )
        return EMFit(best, history, converged=False, interrupted=True)
    return EMFit(best, history, converged=False)


class Leap(NamedTuple):
    """A step of SQUAREM (Varadhan and Roland, 2008) over two steps r and r + v of EM: θ + 2s r + s² v, s = |r|/|v|.

    EM near its end moves along the directions that it knows least of, a little less in every step: the ratio of two
    steps tells how far these lead. s is at most `longest`, which grows with every such step that was kept and shrinks
    with every one that was not; s = 1 is EM itself, and 0 no such step at all: where the likelihood falls in a step of
    EM, its E-step is an approximation whose fixed point extrapolations would leave again and again. W and the logarithm
    of the noise are extrapolated, the prior is the last one of EM.
    """

    longest: float = 4.0
    taken: bool = False

    def keep(self) -> Leap:
        """After an extrapolation that was better."""
        return Leap(min(2.0 * self.longest, 256.0))

    def give_up(self) -> Leap:
        """After one that was worse."""
        return Leap(max(0.25 * self.longest, 2.0))

    def extrapolate(self, path: list[Parameters]) -> tuple[Leap, Parameters]:
        """The point that three of EM lead to; the last of them where they do not move."""
        scale = float(np.linalg.norm(path[-1].weights)) or 1.0
        points = [np.append(one.weights / scale, np.log(one.noise_variance)) for one in path]
        first = points[1] - points[0]
        bend = points[2] - points[1] - first
        length = float(np.linalg.norm(bend))
        if not length > 0.0:
            return Leap(self.longest), path[-1]
        share = min(max(float(np.linalg.norm(first)) / length, 1.0), self.longest)
        there = points[0] + 2.0 * share * first + share**2 * bend
        weights = scale * there[:-1].reshape(path[-1].weights.shape)
        return Leap(self.longest, taken=True), path[-1]._replace(
            weights=weights,
            # Rows without noise would leap towards none at all, which the M-step does not allow.
            noise_variance=float(np.exp(max(there[-1], points[-1][-1] - math.log(100.0)))),
        )


def maximize(sums: Statistics, structure: Structure, prior: priors.Prior) -> Parameters:
    """The M-step; the noise is at least 1e-9 of the variance of the data."""
    weights = structure.solve(sums)
    seen = float(sums.counts.sum())
    # About the mean, for data may be far from the origin; cross[:, -1] is the sum of a column.
    varied = sums.squares - sums.cross[:, -1] ** 2 / np.maximum(sums.counts, 1.0)
    least = 1e-9 * max(float(varied.sum()), 1e-7 * float(sums.squares.sum())) / seen
    noise = max(residual(sums, weights) / seen, least)
    if not 1e-305 < noise < np.inf:
        raise ValueError(
            f"the noise variance comes out as {noise:.3g}, which doubles do not resolve; scale X so that its columns "
            "vary by about 1"
        )
    return Parameters(weights, noise, priors.fit_prior(sums.shares, sums.sums, prior))


def residual(sums: Statistics, weights: FloatArray) -> float:
    """Σ E|y - Ww|² over all entries seen."""
    twice = np.einsum("mp,mp->", weights, sums.cross)
    square = np.einsum("mp,mp->", weights, (sums.second @ weights[:, :, None])[:, :, 0])
    return float(sums.squares.sum() - 2.0 * twice + square)


def make_reporter(options: EMOptions) -> Callable[[int, float], object]:
    """A function of the iteration and its value that prints progress as the options ask."""
    say = ProgressLines("CircularPCA", options.verbose)
    return lambda done, value: say(f"iteration {done} of at most {options.max_iter}, {value:.4f} nats a row")
