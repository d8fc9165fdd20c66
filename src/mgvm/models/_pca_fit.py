"""EM for circular PCA: chunks of rows add up their statistics, the parameters that best explain them come next."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm.inference.result import ConvergenceWarning
from mgvm.models import _pca_prior
from mgvm.models._pca_maximisation import Structure, residual
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_rows import Rows
from mgvm.models._pca_statistics import Statistics

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
    prior = _pca_prior.fitted(sums.shares, sums.sums, parameters.prior) if learn_prior else parameters.prior
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
