"""Fits to rows of which some angles are missing: expectation-maximisation, exact or with draws.

Given its observed angles B, the missing ones A of a row are an mGvM with a_A + P_AB z_B + Q_AB conj(z_B).

* Maximum likelihood of up to three angles (`fit_exactly`): the E step replaces the sufficient statistics of every row
  by their means under that distribution, the M step is maximum likelihood at their mean; the observed data's
  likelihood, Σ_n log ∫ p(φ_nB, φ_A) dφ_A, never falls.
* Any learner (`fit_by_draws`): each incomplete row stands for five completed ones of equal weight, whose missing angles
  are drawn given the observed ones by Gibbs sweeps under the latest fit, going on from the draws before. The fit to
  them is repeated; its parameters come to move around a fixed point, and are averaged once they no longer move in one
  direction.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mgvm._numerics import torus_moments as frame
from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning._pseudo_likelihood import independent_angles, pseudo_likelihood
from mgvm.learning.exact_likelihood import CONCENTRATION_LIMITS, Space, evaluate, newton_step
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import WeightedRows, group_by_missing
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import (
    Natural,
    concentrations,
    condition,
    log_densities,
    pack,
    restrict,
    statistics,
    unpack,
    with_harmonics,
)

# Fits completed rows, beginning at a distribution.
Learner = Callable[[WeightedRows, Natural], TorusFit]


def start_from_complete_rows(sample: WeightedRows, model: Submodel) -> Natural:
    """The fit of the complete rows where there are three a parameter and it is finite, else independent angles."""
    whole = np.asarray(~np.isnan(sample.x).any(axis=1))
    if whole.sum() >= 3 * model.n_parameters:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guess = pseudo_likelihood(
                sample.x[whole], order=model.order, submodel=model, weights=sample.weights[whole], tolerance=1e-3
            )
        if abs(pack(guess.natural)).max() < 1e4:
            return guess.natural
    return independent_angles(sample, model)


# ---- any learner, by draws -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompletionSettings:
    """How rows are completed: `copies` of each, `first_sweeps` before the first fit and `sweeps` between two.

    The steps end when the means over the last `window` fits and over as many before differ by no more than chance:
    their mean square difference, in units of the scatter of the fits about these means, is at most `drift` times that
    of independent fits. The last `window` fits are averaged: of the variance that missing angles add to an estimate,
    draws add 1/(copies * window) more.

    A fit to draws need not be more exact than they are: what it leaves to gain is `slack` times what chance gives and
    takes, half a unit of log-likelihood a parameter for all completed rows.
    """

    copies: int = 5
    sweeps: int = 3
    first_sweeps: int = 20
    window: int = 8
    drift: float = 2.0
    slack: float = 0.01

    def tolerance(self, sample: WeightedRows, model: Submodel) -> float:
        """The root of the gain a row at which a fit to completed rows may end."""
        part = float(np.isnan(sample.x).mean())
        return float(np.sqrt(0.5 * self.slack * part * model.n_parameters / (sample.n_rows * self.copies)))


COMPLETION = CompletionSettings()


def fit_by_draws(
    sample: WeightedRows,
    model: Submodel,
    learn: Learner,
    start: Natural,
    rng: np.random.Generator,
    max_iterations: int = 80,
    report: Callable[[int, int], object] = lambda done, total: None,
) -> TorusFit:
    """Fit and draw in turn; the last fit, with parameters averaged over the last ones."""
    settings, dist = COMPLETION, start
    fits, trace, drift = [], [], np.inf
    partial = np.isnan(sample.x).any(axis=1)
    counts = np.where(np.sort(partial), settings.copies, 1)  # the rows that lack nothing first
    order = np.repeat(np.argsort(partial, kind="stable"), counts)
    x, weights = sample.x[order], sample.weights[order] / np.repeat(counts, counts)
    completed = WeightedRows(x, weights / weights.mean())
    filled = x[np.count_nonzero(~partial) :]  # a view: drawn anew in place
    gaps = np.isnan(filled)
    filled[gaps] = rng.uniform(-np.pi, np.pi, filled.shape)[gaps]
    redraw(filled, gaps, dist, settings.first_sweeps, rng)
    for iteration in range(max_iterations):
        with warnings.catch_warnings():
            if iteration > 0:
                warnings.simplefilter("ignore")
            fit = learn(completed, dist)
        dist = fit.natural
        fits.append(pack(dist))
        trace.append(fit.objective)
        report(iteration + 1, max_iterations)
        drift = measure_drift(np.array(fits), settings.window)
        if drift <= settings.drift:
            break
        redraw(filled, gaps, dist, settings.sweeps, rng)
    else:
        warnings.warn(
            f"expectation-maximisation over missing angles had not converged after {max_iterations} fits: the square "
            f"of the drift is {drift:.3g} times what chance would do (at most {settings.drift:g} is good), the last "
            f"gradient was {fit.gradient_norm:.2g}. Raise max_iterations, or leave out columns with few observed "
            "angles",
            ConvergenceWarning,
            stacklevel=5,
        )
    mean = model.project(unpack(np.mean(fits[-settings.window :], axis=0), dist.dimension, dist.order))
    return replace(
        fit,
        a=mean.a,
        b=mean.b,
        P=mean.P,
        Q=mean.Q,
        converged=drift <= settings.drift and fit.converged,
        n_iterations=len(trace),
        trace=np.array(trace),
        n_rows=sample.n_rows,
    )


def measure_drift(fits: FloatArray, window: int = 8) -> float:
    """Mean square difference of the means of the last two windows of fits (n, p), 1 for independent fits.

    Infinite before there are enough.
    """
    if len(fits) < 2 * window:
        return np.inf
    early, late = fits[-2 * window : -window], fits[-window:]
    scatter = 0.5 * (early.var(axis=0, ddof=1) + late.var(axis=0, ddof=1))
    free = scatter > 0
    if not free.any():
        return 0.0
    square = (late.mean(axis=0) - early.mean(axis=0))[free] ** 2
    return float(np.mean(square / (2.0 * scatter[free] / window)))


def redraw(x: FloatArray, gaps: np.ndarray, dist: Natural, sweeps: int, rng: np.random.Generator) -> None:
    """Gibbs sweeps over the gaps of x (m, D), in place."""
    z = np.exp(1j * x)
    rows = [np.flatnonzero(gaps[:, d]) for d in range(x.shape[1])]
    for _ in range(sweeps):
        for d, mine in enumerate(rows):
            if mine.size == 0:
                continue
            near = z[mine]
            first = dist.a[d] + near @ dist.P[d] + near.conj() @ dist.Q[d]
            x[mine, d] = gvm_sample(with_harmonics(first, dist.b[:, d]), 1, rng)[0]
            z[mine, d] = np.exp(1j * x[mine, d])


# ---- exact likelihood of up to three angles ------------------------------------------------------------------------


def fit_exactly(
    sample: WeightedRows, model: Submodel, start: Natural, max_iterations: int = 500, tolerance: float = 1e-5
) -> TorusFit:
    """Steps of expectation and maximisation until one gains less than tolerance² a row."""
    share = sample.weights / sample.n_rows
    anchor, basis = sample.mean_directions[None], model.basis()
    dist, trace = start, []
    while True:
        expected, height = expectation(dist, sample.x)
        target = share @ expected
        following, before = _maximize_at(dist, target, anchor, basis)
        trace.append(float(share @ height) - before.log_normalizer)
        gradient = basis.T @ (target - before.mean)
        converged = len(trace) > 1 and trace[-1] - trace[-2] < tolerance**2
        strongest = float(concentrations(following).max())
        runaway = not converged and strongest > CONCENTRATION_LIMITS[dist.dimension]
        if converged or runaway or len(trace) > max_iterations:
            break
        dist = following
    if runaway:
        warnings.warn(
            f"likelihood has no finite maximum here: the concentration reached {strongest:.2g}, because the rows are "
            "too few, too narrow or hang together too closely; the fit is that of the step before. Free fewer "
            "parameters (order=1, or submodel='sine'), or leave out columns that determine each other",
            ConvergenceWarning,
            stacklevel=5,
        )
    elif not converged:
        warnings.warn(
            f"expectation-maximisation over missing angles stopped after {max_iterations} steps with a gradient of "
            f"{abs(gradient).max():.2g}; the last step gained {trace[-1] - trace[-2]:.2g} of log-likelihood a row. "
            "Raise max_iterations or tolerance",
            ConvergenceWarning,
            stacklevel=5,
        )
    return TorusFit(
        *dist,
        method="likelihood",
        objective=trace[-1],
        converged=converged,
        gradient_norm=float(abs(gradient).max()),
        n_iterations=len(trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(trace),
    )


class JointMoments(NamedTuple):
    """log Z and E[T] of a distribution."""

    log_normalizer: float
    mean: FloatArray


def _maximize_at(
    dist: Natural, target: FloatArray, anchor: FloatArray, basis: FloatArray
) -> tuple[Natural, JointMoments]:
    """The distribution of highest likelihood at mean statistics, and the moments of the one it began with."""
    size, order, theta = dist.dimension, dist.order, pack(dist)[None]
    space = Space(size, order, (frame.outward(anchor, order)[0].T @ basis)[None])
    wanted = frame.local_means(target[None], anchor, order)
    at = evaluate(frame.to_local(theta, anchor, order), wanted, space)
    before = JointMoments(
        float(at.moments.log_integral[0] + frame.base(theta, anchor, order)[0]),
        frame.means(at.moments.mean, anchor, order)[0],
    )
    for _ in range(30):
        at, decrement, moved = newton_step(at, wanted, space)
        too_strong = space.concentration(at.local) > CONCENTRATION_LIMITS[size]  # the steps after it cost the most
        if decrement[0] < 1e-18 or not moved[0] or too_strong:
            break
    return unpack(frame.from_local(at.local, anchor, order)[0], size, order), before


def expectation(dist: Natural, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[T | observed] (n, p) of every row, and log ∫ exp(θ·T) over its missing angles, (n,)."""
    out = np.empty((len(x), frame.n_statistics(dist.dimension, dist.order)))
    height = np.empty(len(x))
    for rows, lost, seen in group_by_missing(x):
        if lost.size:
            out[rows], height[rows] = _expect_missing(dist, x[rows], lost, seen)
        else:
            out[rows], height[rows] = statistics(x[rows], dist.order), log_densities(dist, x[rows])
    return out, height


def _expect_missing(dist: Natural, x: FloatArray, lost: np.ndarray, seen: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """`expectation` of rows with the same missing angles."""
    order, size = dist.order, dist.dimension
    z = np.exp(1j * x[:, seen])
    inside = condition(dist, seen, z)
    theta = np.tile(pack(inside._replace(a=inside.a[0])), (len(x), 1))
    theta[:, : 2 * len(lost)] = np.ascontiguousarray(inside.a).view(float)
    anchor = _rough_modes(inside)
    found = frame.local_moments(frame.to_local(theta, anchor, order), len(lost), order, fisher=False)
    means = np.ascontiguousarray(frame.means(found.mean, anchor, order)).view(complex)
    height = log_densities(restrict(dist, seen), x[:, seen]) + found.log_integral + frame.base(theta, anchor, order)
    powers = np.empty((order, len(x), size), dtype=complex)
    for t in range(order):
        powers[t][:, seen] = z ** (t + 1)
        powers[t][:, lost] = means[:, t * len(lost) : (t + 1) * len(lost)]
    i, j = np.triu_indices(size, 1)
    difference, total = powers[0][:, i] * powers[0][:, j].conj(), powers[0][:, i] * powers[0][:, j]
    both = np.flatnonzero(np.isin(i, lost) & np.isin(j, lost))
    pairs = means[:, order * len(lost) :]
    difference[:, both], total[:, both] = pairs[:, : len(both)], pairs[:, len(both) :]
    parts = np.concatenate([*powers, difference, total], axis=1)
    return np.ascontiguousarray(parts).view(float), height


def _rough_modes(inside: Natural) -> FloatArray:
    """Roughly where the missing angles of each row are, (n, |A|): good enough as anchors of the quadrature."""
    z = np.exp(1j * np.angle(inside.a))
    for _ in range(10):
        for d in range(z.shape[1]):
            z[:, d] = np.exp(1j * np.angle(inside.a[:, d] + z @ inside.P[d] + z.conj() @ inside.Q[d]))
    return np.angle(z)
