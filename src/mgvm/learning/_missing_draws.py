"""Any learner on rows with missing angles: Monte Carlo expectation-maximisation.

Each incomplete row stands for ten completed ones of equal weight, whose missing angles are drawn given the observed
ones by Gibbs sweeps under the latest fit, going on from the draws before. The fit to them is repeated; its parameters
settle around a fixed point, and are averaged once they no longer move in one direction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.inference._natural_vector import pack, unpack
from mgvm.learning._rows import Rows
from mgvm.learning.result import TorusFit

_COPIES = 10
_SWEEPS = 3  # between two fits
_FIRST_SWEEPS = 20
_WINDOW = 8  # fits whose mean is compared with that of as many before, and which are averaged

# Fits completed rows (m, D) with weights (m,), beginning at a law.
Learner = Callable[[FloatArray, FloatArray, Natural], TorusFit]


class Settled(NamedTuple):
    """The last fit, the parameters averaged over the last ones, their drift in units of its error, and a trace."""

    fit: TorusFit
    law: Natural
    drift: float
    trace: list[float]


def settle(
    sample: Rows,
    learn: Learner,
    start: Natural,
    rng: np.random.Generator,
    max_iterations: int,
    report: Callable[[int, int], object],
) -> Settled:
    """Fit and draw in turn.

    Ends when the means over the last 8 fits and over the 8 before differ by no more than chance: their mean square
    difference, in units of the scatter of the fits about these means, is at most twice that of independent fits.
    """
    lost = np.isnan(sample.x)
    partial = lost.any(axis=1)
    whole, cut = sample.x[~partial], np.repeat(sample.x[partial], _COPIES, axis=0)
    weights = np.concatenate([sample.weights[~partial], np.repeat(sample.weights[partial] / _COPIES, _COPIES)])
    gaps = np.isnan(cut)
    filled = np.where(gaps, rng.uniform(-np.pi, np.pi, cut.shape), cut)
    law, fits, trace, drift = start, [], [], np.inf
    _redraw(filled, gaps, law, _FIRST_SWEEPS, rng)
    for iteration in range(max_iterations):
        with warnings.catch_warnings():
            if iteration > 0:
                warnings.simplefilter("ignore")
            fit = learn(np.concatenate([whole, filled]), weights, law)
        law = fit.natural
        fits.append(pack(law))
        trace.append(fit.objective)
        report(iteration + 1, max_iterations)
        drift = _drift(np.array(fits[-2 * _WINDOW :]))
        if drift <= 2.0:
            break
        _redraw(filled, gaps, law, _SWEEPS, rng)
    mean = np.mean(fits[-_WINDOW:], axis=0)
    return Settled(fit, unpack(mean, law.dimension, law.order), drift, trace)


def _drift(fits: FloatArray) -> float:
    """Mean square of the difference of both halves' means, 1 for independent fits; infinite before there are enough."""
    if len(fits) < 2 * _WINDOW:
        return np.inf
    early, late = fits[:_WINDOW], fits[_WINDOW:]
    scatter = 0.5 * (early.var(axis=0, ddof=1) + late.var(axis=0, ddof=1))
    free = scatter > 0
    if not free.any():
        return 0.0
    square = (late.mean(axis=0) - early.mean(axis=0))[free] ** 2
    return float(np.mean(square / (2.0 * scatter[free] / _WINDOW)))


def _redraw(x: FloatArray, gaps: np.ndarray, law: Natural, sweeps: int, rng: np.random.Generator) -> None:
    """Gibbs sweeps over the gaps of x (m, D), in place."""
    z = np.exp(1j * x)
    rows = [np.flatnonzero(gaps[:, d]) for d in range(x.shape[1])]
    for _ in range(sweeps):
        for d, mine in enumerate(rows):
            if mine.size == 0:
                continue
            near = z[mine]
            eta = np.empty((mine.size, law.order), dtype=complex)
            eta[:, 0] = law.a[d] + near @ law.P[d] + near.conj() @ law.Q[d]
            eta[:, 1:] = law.b[:, d]
            x[mine, d] = gvm_sample(eta, 1, rng)[0]
            z[mine, d] = np.exp(1j * x[mine, d])
