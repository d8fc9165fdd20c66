"""EM for circular PCA: starts, the M-step in closed form, and the loop.

EM begins with circles in planes of principal components, or with a skeleton of the markers; short runs from several
starts on some rows, then a long one from the best on all. Chunks of rows add up their statistics in the E-step; the
M-step finds W by least squares, its structure kept, then the noise and the prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mgvm._progress import ProgressLines
from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.pca import priors
from mgvm.pca.e_step import Engine, Parameters, Statistics
from mgvm.pca.rows import ArrayRows, Rows
from mgvm.pca.skeleton import KinematicTree, Structure


class EMFit(NamedTuple):
    """The best parameters, the log-likelihood of a row before every M-step, and whether it converged or was stopped."""

    parameters: Parameters
    history: list[float]
    converged: bool
    interrupted: bool = False

    @property
    def log_likelihood(self) -> float:
        """The highest."""
        return max(self.history)


class EMOptions(NamedTuple):
    """When EM ends (`max_iter`, or a gain below `tol` nats a row), and what it prints.

    `verbose` 1 prints every other second, 2 every iteration.
    """

    max_iter: int = 200
    tol: float = 1e-5
    verbose: int = 0


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
        best = max(short, key=lambda fit: fit.log_likelihood)
        if short[-1].interrupted:
            return best._replace(converged=False, interrupted=True)
        first = [best.parameters]
    return run(rows, engine, first[0], structure, options)


def run(rows: Rows, engine: Engine, start: Parameters, structure: Structure, options: EMOptions) -> EMFit:
    """EM from a start until a row gains less than `tol` nats; an interruption keeps the best so far."""
    parameters, best = start, start
    history: list[float] = []
    report = make_reporter(options)
    try:
        for step in range(options.max_iter):
            sums = rows.sums(parameters, engine)
            value = sums.log_likelihood / sums.rows
            report(step + 1, value)
            if not history or value > max(history):
                best = parameters
            history.append(value)
            if len(history) > 1 and abs(history[-1] - history[-2]) < options.tol:
                return EMFit(best, history, converged=True)
            parameters = maximize(sums, structure, parameters.prior)
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


def maximize(sums: Statistics, structure: Structure, prior: priors.Prior) -> Parameters:
    """The M-step; the noise is at least 1e-9 of the variance of the data."""
    weights = structure.solve(sums)
    seen = float(sums.counts.sum())
    # About the mean, for data may be far from the origin; cross[:, -1] is the sum of a column.
    varied = sums.squares - sums.cross[:, -1] ** 2 / np.maximum(sums.counts, 1.0)
    least = 1e-9 * max(float(varied.sum()), 1e-7 * float(sums.squares.sum())) / seen
    noise = max(residual(sums, weights) / seen, least)
    return Parameters(weights, noise, priors.fit_prior(sums.shares, sums.sums, prior))


def residual(sums: Statistics, weights: FloatArray) -> float:
    """Σ E|y - Ww|² over all entries seen."""
    twice = np.einsum("mp,mp->", weights, sums.cross)
    square = np.einsum("mp,mpq,mq->", weights, sums.second, weights, optimize=True)
    return float(sums.squares.sum() - 2.0 * twice + square)


def make_reporter(options: EMOptions) -> Callable[[int, float], object]:
    """A function of the iteration and its value that prints progress as the options ask."""
    if not options.verbose:
        return lambda done, value: None
    lines = ProgressLines("CircularPCA")
    return lambda done, value: lines(
        f"iteration {done} of at most {options.max_iter}, {value:.4f} nats a row", always=options.verbose > 1
    )


def warn_unconverged(history: list[float], tol: float) -> None:
    """Say by how much a fit has not converged."""
    last = abs(history[-1] - history[-2]) if len(history) > 1 else np.inf
    warnings.warn(
        f"EM did not converge within {len(history)} iterations: the last gained {last:.2g} nats a row, above "
        f"tol = {tol:g}; raise max_iter or tol",
        ConvergenceWarning,
        stacklevel=4,
    )
