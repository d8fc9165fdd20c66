"""EM for circular PCA: chunks of rows add up their statistics, the parameters that best explain them come next.

The M-step of circular PCA, in closed form: W by least squares, its structure kept, then the noise.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.pca import priors
from mgvm.pca.e_step import Parameters, Statistics
from mgvm.pca.rows import Rows

_RIDGE = 1e-10  # of the mean square of an entry of w = (v, 1), against columns that say nothing


class Structure(Protocol):
    """Which W = [A B c] may be."""

    def solve(self, sums: Statistics) -> FloatArray:
        """The W (M, 2D + 1) that minimises Σ E|y - Ww|²."""


class Masked:
    """W with zeros where `mask` (M, 2D + 1) is False."""

    def __init__(self, mask: np.ndarray):
        self.mask = mask

    def solve(self, sums: Statistics) -> FloatArray:
        """Least squares, column of the data by column."""
        out = np.zeros(self.mask.shape)
        for m, allowed in enumerate(self.mask):
            used = np.flatnonzero(allowed)
            if used.size and sums.counts[m]:
                out[m, used] = _solved(sums.second[m][np.ix_(used, used)], sums.cross[m, used], sums.counts[m])
        return out


class Linear:
    """W = Σ_j θ_j E_j with given E_j, basis (J, M, 2D + 1): links that several markers share, fixed directions.

    `tree` is the KinematicTree that it comes from, if any.
    """

    def __init__(self, basis: FloatArray, tree: object = None):
        self.basis, self.tree = basis, tree

    def solve(self, sums: Statistics) -> FloatArray:
        """Least squares in θ."""
        pulled = np.einsum("jmp,mpq->jmq", self.basis, sums.second)
        matrix = np.einsum("jmq,kmq->jk", pulled, self.basis)
        right = np.einsum("jmq,mq->j", self.basis, sums.cross)
        theta = _solved(matrix, right, float(sums.counts.sum()))
        return np.asarray(np.einsum("j,jmq->mq", theta, self.basis))


def _solved(matrix: FloatArray, right: FloatArray, count: float) -> FloatArray:
    return np.asarray(np.linalg.solve(matrix + _RIDGE * count * np.eye(len(right)), right), dtype=np.float64)


def residual(sums: Statistics, weights: FloatArray) -> float:
    """Σ E|y - Ww|² over all entries seen."""
    twice = np.einsum("mp,mp->", weights, sums.cross)
    square = np.einsum("mp,mpq,mq->", weights, sums.second, weights, optimize=True)
    return float(sums.squares.sum() - 2.0 * twice + square)


_PATIENCE = 2.0
_LEAST_NOISE = 1e-9  # of the variance of the data


class Fit(NamedTuple):
    """The best parameters, the log-likelihood of a row before every M-step, and whether it settled or was stopped."""

    parameters: Parameters
    history: list[float]
    converged: bool
    interrupted: bool = False

    @property
    def log_likelihood(self) -> float:
        """The highest."""
        return max(self.history)


def reporter(most: int, verbose: int) -> Callable[[int, float], object]:
    """Prints the progress of a fit every other second where asked."""
    if not verbose:
        return lambda done, value: None
    begin = spoken = time.monotonic()

    def speak(done: int, value: float) -> None:
        nonlocal spoken
        now = time.monotonic()
        if now - spoken >= _PATIENCE:
            spoken = now
            text = f"CircularPCA: iteration {done} of at most {most}, {value:.4f} nats a row, {now - begin:.0f} s"
            print(text, file=sys.stderr, flush=True)

    return speak


def warn_unsettled(history: list[float], tol: float) -> None:
    """Say by how much a fit has not settled."""
    last = abs(history[-1] - history[-2]) if len(history) > 1 else np.inf
    warnings.warn(
        f"EM did not settle within {len(history)} iterations: the last gained {last:.2g} nats a row, above "
        f"tol = {tol:g}; raise max_iter or tol",
        ConvergenceWarning,
        stacklevel=4,
    )


def maximised(sums: Statistics, structure: Structure, parameters: Parameters, *, learn_prior: bool) -> Parameters:
    """The M-step."""
    weights = structure.solve(sums)
    seen = float(sums.counts.sum())
    # About the mean, for data may be far from the origin; cross[:, -1] is the sum of a column.
    varied = sums.squares - sums.cross[:, -1] ** 2 / np.maximum(sums.counts, 1.0)
    least = _LEAST_NOISE * max(float(varied.sum()), 1e-7 * float(sums.squares.sum())) / seen
    noise = max(residual(sums, weights) / seen, least)
    prior = priors.fitted(sums.shares, sums.sums, parameters.prior) if learn_prior else parameters.prior
    return Parameters(weights, noise, prior)


def fit(
    rows: Rows,
    start: Parameters,
    structure: Structure,
    *,
    learn_prior: bool = True,
    max_iter: int = 200,
    tol: float = 1e-5,
    report: Callable[[int, float], object] = lambda done, value: None,
) -> Fit:
    """EM from a start until a row gains less than `tol` nats; an interruption keeps the best so far."""
    parameters, best = start, start
    history: list[float] = []
    try:
        for step in range(max_iter):
            sums = rows.sums(parameters)
            value = sums.log_likelihood / sums.rows
            report(step + 1, value)
            if not history or value > max(history):
                best = parameters
            history.append(value)
            if len(history) > 1 and abs(history[-1] - history[-2]) < tol:
                return Fit(best, history, converged=True)
            parameters = maximised(sums, structure, parameters, learn_prior=learn_prior)
    except KeyboardInterrupt:
        if not history:
            raise
        warnings.warn(
            f"the fit was interrupted after {len(history)} iterations; the best parameters so far are kept",
            ConvergenceWarning,
            stacklevel=3,
        )
        return Fit(best, history, converged=False, interrupted=True)
    return Fit(best, history, converged=False)
