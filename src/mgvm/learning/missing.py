"""Fits to rows of which some angles are missing.

Any learner on rows with missing angles: Monte Carlo expectation-maximisation.

Each incomplete row stands for ten completed ones of equal weight, whose missing angles are drawn given the observed
ones by Gibbs sweeps under the latest fit, going on from the draws before. The fit to them is repeated; its parameters
settle around a fixed point, and are averaged once they no longer move in one direction.

Maximum likelihood of an mGvM of up to three angles from rows with missing ones: exact expectation-maximisation.

Given its observed angles B, the missing ones A of a row are an mGvM with a_A + P_AB z_B + Q_AB conj(z_B). The E step
replaces the sufficient statistics of every row by their means under it, the M step is maximum likelihood at their mean;
the observed data's likelihood, Σ_n log ∫ p(φ_nB, φ_A) dφ_A, never falls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mgvm import _validation as check
from mgvm._numerics import torus_moments as frame
from mgvm._numerics.gvm import gvm_sample
from mgvm._progress import reporter
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import local_newton as newton
from mgvm.learning._pseudo_likelihood import pseudo_likelihood
from mgvm.learning._score_matching import independent, padded
from mgvm.learning.methods import EXACT, Plan, Selection, complete, resolved, selection
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import Rows
from mgvm.learning.standard_errors import free_basis
from mgvm.learning.submodel import Submodel
from mgvm.natural.density import log_densities
from mgvm.natural.parameters import Natural, pack, statistics, unpack

_COPIES = 10
_SWEEPS = 3  # between two fits
_FIRST_SWEEPS = 20
_WINDOW = 8  # fits whose mean is compared with that of as many before, and which are averaged

# Fits completed rows (m, D) with weights (m,), beginning at a distribution.
Learner = Callable[[FloatArray, FloatArray, Natural], TorusFit]


class Settled(NamedTuple):
    """The last fit, the parameters averaged over the last ones, their drift in units of its error, and a trace."""

    fit: TorusFit
    dist: Natural
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
    dist, fits, trace, drift = start, [], [], np.inf
    _redraw(filled, gaps, dist, _FIRST_SWEEPS, rng)
    for iteration in range(max_iterations):
        with warnings.catch_warnings():
            if iteration > 0:
                warnings.simplefilter("ignore")
            fit = learn(np.concatenate([whole, filled]), weights, dist)
        dist = fit.natural
        fits.append(pack(dist))
        trace.append(fit.objective)
        report(iteration + 1, max_iterations)
        drift = _drift(np.array(fits[-2 * _WINDOW :]))
        if drift <= 2.0:
            break
        _redraw(filled, gaps, dist, _SWEEPS, rng)
    mean = np.mean(fits[-_WINDOW:], axis=0)
    return Settled(fit, unpack(mean, dist.dimension, dist.order), drift, trace)


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


def _redraw(x: FloatArray, gaps: np.ndarray, dist: Natural, sweeps: int, rng: np.random.Generator) -> None:
    """Gibbs sweeps over the gaps of x (m, D), in place."""
    z = np.exp(1j * x)
    rows = [np.flatnonzero(gaps[:, d]) for d in range(x.shape[1])]
    for _ in range(sweeps):
        for d, mine in enumerate(rows):
            if mine.size == 0:
                continue
            near = z[mine]
            eta = np.empty((mine.size, dist.order), dtype=complex)
            eta[:, 0] = dist.a[d] + near @ dist.P[d] + near.conj() @ dist.Q[d]
            eta[:, 1:] = dist.b[:, d]
            x[mine, d] = gvm_sample(eta, 1, rng)[0]
            z[mine, d] = np.exp(1j * x[mine, d])


_SWEEPS_MISSING_EXACT = 10  # towards the mode of missing angles: only an anchor for the quadrature
_NEWTON = 30
_SETTLED = 1e-18


class Maximum(NamedTuple):
    """Where expectation-maximisation ended; `trace` is the observed data's mean log-likelihood."""

    dist: Natural
    gradient: FloatArray
    converged: bool
    trace: list[float]


def maximise(sample: Rows, model: Submodel, start: Natural, tolerance: float, max_iterations: int) -> Maximum:
    """Steps of expectation and maximisation until one gains less than tolerance² a row."""
    share = sample.weights / sample.n_rows
    size, order = model.dimension, model.order
    anchor = _anchor(sample)
    basis = free_basis(model)
    dist, trace = start, []
    for _ in range(max_iterations + 1):
        expected, height = expectation(dist, sample.x)
        target = share @ expected
        local, fresh = _climb(pack(dist), target, anchor, basis, (size, order))
        trace.append(float(share @ height) - fresh.log_normalizer)
        gradient = basis.T @ (target - fresh.mean)
        converged = len(trace) > 1 and trace[-1] - trace[-2] < tolerance**2
        if converged or len(trace) > max_iterations:
            return Maximum(dist, gradient, converged, trace)
        dist = unpack(local, size, order)
    raise AssertionError("the loop returns")


class _Known(NamedTuple):
    log_normalizer: float
    mean: FloatArray


def _anchor(sample: Rows) -> FloatArray:
    seen = ~np.isnan(sample.x)
    z = np.where(seen, np.exp(1j * np.where(seen, sample.x, 0.0)), 0.0)
    return np.angle(sample.weights @ z)[None]


def _climb(
    theta: FloatArray, target: FloatArray, anchor: FloatArray, basis: FloatArray, shape: tuple[int, int]
) -> tuple[FloatArray, _Known]:
    """θ of highest likelihood at mean statistics, and log Z and E[T] at the θ it began with."""
    size, order = shape
    outward = frame.outward(anchor, order)[0]
    space = newton.Space(size, order, (outward.T @ basis)[None])
    wanted = frame.local_means(target[None], anchor, order)
    at = newton.state(frame.to_local(theta[None], anchor, order), wanted, space)
    known = _Known(
        float(at.moments.log_integral[0] + frame.base(theta[None], anchor, order)[0]),
        frame.means(at.moments.mean, anchor, order)[0],
    )
    for _ in range(_NEWTON):
        at, decrement, moved = newton.improve(at, wanted, space)
        if decrement[0] < _SETTLED or not moved[0]:
            break
    return frame.from_local(at.local, anchor, order)[0], known


def expectation(dist: Natural, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[T | observed] (n, p) of every row, and log ∫ exp(θ·T) over its missing angles, (n,)."""
    order, lost = dist.order, np.isnan(x)
    out = np.empty((len(x), frame.n_statistics(dist.dimension, order)))
    height = np.empty(len(x))
    for pattern in np.unique(lost, axis=0):
        rows = np.flatnonzero((lost == pattern).all(axis=1))
        if pattern.any():
            out[rows], height[rows] = _partly(dist, x[rows], np.flatnonzero(pattern), np.flatnonzero(~pattern))
        else:
            out[rows], height[rows] = statistics(x[rows], order), log_densities(dist, x[rows])
    return out, height


def _partly(dist: Natural, x: FloatArray, lost: np.ndarray, seen: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """`expectation` of rows with the same missing angles."""
    order, size = dist.order, dist.dimension
    z = np.exp(1j * x[:, seen])
    first = dist.a[lost] + z @ dist.P[np.ix_(lost, seen)].T + z.conj() @ dist.Q[np.ix_(lost, seen)].T
    inside = Natural(first[0], dist.b[:, lost], dist.P[np.ix_(lost, lost)], dist.Q[np.ix_(lost, lost)])
    theta = np.tile(pack(inside), (len(x), 1))
    theta[:, : 2 * len(lost)] = np.ascontiguousarray(first).view(float)
    anchor = _modes(first, inside)
    found = frame.local_moments(frame.to_local(theta, anchor, order), len(lost), order, fisher=False)
    means = np.ascontiguousarray(frame.means(found.mean, anchor, order)).view(complex)
    observed = Natural(dist.a[seen], dist.b[:, seen], dist.P[np.ix_(seen, seen)], dist.Q[np.ix_(seen, seen)])
    height = log_densities(observed, x[:, seen]) + found.log_integral + frame.base(theta, anchor, order)
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


def _modes(first: ComplexArray, inside: Natural) -> FloatArray:
    """Roughly where the missing angles of each row are, (n, |A|)."""
    z = np.exp(1j * np.angle(first))
    for _ in range(_SWEEPS_MISSING_EXACT):
        for d in range(z.shape[1]):
            field = first[:, d] + z @ inside.P[d] + z.conj() @ inside.Q[d]
            z[:, d] = np.exp(1j * np.angle(field))
    return np.angle(z)


_STEPS = {True: 500, False: 80}  # of exact and of Monte Carlo expectation-maximisation
_TOLERANCE = 1e-5
_ENOUGH = 3  # complete rows a parameter, from which they make a start


def fit(sample: Rows, model: Submodel, plan: Plan) -> TorusFit:
    """Expectation-maximisation, exact for the likelihood of up to three angles."""
    if plan.standard_errors:
        raise ValueError(
            "standard errors are not known for data with missing angles; fit bootstrap samples of the rows instead, or "
            "only the complete rows"
        )
    name = resolved(plan.method, sample.dimension)
    whole = np.asarray(~np.isnan(sample.x).any(axis=1))
    chosen = 0.0
    if plan.penalty != 0.0 and (name != "score_matching" or isinstance(plan.penalty, str)):
        picked = _selected(sample, whole, model, plan)
        model, chosen, plan = model.restricted(picked.edge_mask), picked.penalty, replace(plan, penalty=0.0)
    exact = name == "likelihood" and sample.dimension <= EXACT
    options = dict(plan.options)
    steps = check.integer(options.pop("max_iterations", _STEPS[exact]), "max_iterations", minimum=1)
    first = options.pop("start", None)
    start = _start(sample, whole, model) if first is None else model.project(padded(first, model))
    found = (
        _exact(sample, model, start, steps, **options)
        if exact
        else _sampled(sample, model, start, steps, replace(plan, method=name, options=options))
    )
    return replace(found, penalty=chosen) if chosen else found


def _sampled(sample: Rows, model: Submodel, start: Natural, steps: int, plan: Plan) -> TorusFit:
    def learn(x: FloatArray, weights: FloatArray, dist: Natural) -> TorusFit:
        # Penalised paths have their own starts.
        begin: dict[str, Any] = {} if plan.penalty else {"start": dist}
        own = replace(plan, progress=False, options={**plan.options, **begin})
        return complete(Rows(x, weights / weights.mean()), model, own)

    found = settle(sample, learn, start, plan.rng, steps, reporter(plan.progress, "missing angles"))
    settled = found.drift <= 2.0
    if not settled:
        warnings.warn(
            f"expectation-maximisation over missing angles had not settled after {steps} fits: the square of the drift "
            f"is {found.drift:.3g} times what chance would do (at most 2 is good), the last gradient was "
            f"{found.fit.gradient_norm:.2g}. Raise max_iterations, or leave out columns with few observed angles",
            ConvergenceWarning,
            stacklevel=5,
        )
    dist = model.project(found.dist)
    return replace(
        found.fit,
        a=dist.a,
        b=dist.b,
        P=dist.P,
        Q=dist.Q,
        converged=settled and found.fit.converged,
        n_iterations=len(found.trace),
        trace=np.array(found.trace),
        n_rows=sample.n_rows,
    )


def _exact(sample: Rows, model: Submodel, start: Natural, steps: int, tolerance: float = _TOLERANCE) -> TorusFit:
    limit = check.single_positive(tolerance, "tolerance")
    found = maximise(sample, model, start, limit, steps)
    if not found.converged:
        warnings.warn(
            f"expectation-maximisation over missing angles stopped after {steps} steps with a gradient of "
            f"{abs(found.gradient).max():.2g}; the last step gained {found.trace[-1] - found.trace[-2]:.2g} of "
            "log-likelihood a row. Raise max_iterations or tolerance",
            ConvergenceWarning,
            stacklevel=5,
        )
    return TorusFit(
        *found.dist,
        method="likelihood",
        objective=found.trace[-1],
        converged=found.converged,
        gradient_norm=float(abs(found.gradient).max()),
        n_iterations=len(found.trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(found.trace),
    )


def _start(sample: Rows, whole: np.ndarray, model: Submodel) -> Natural:
    """The complete rows' fit where they are enough, else independent angles."""
    if whole.sum() >= _ENOUGH * model.n_parameters:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guess = pseudo_likelihood(
                sample.x[whole], order=model.order, submodel=model, weights=sample.weights[whole], tolerance=1e-3
            )
        if abs(pack(guess.natural)).max() < 1e4:
            return guess.natural
    return independent(sample, model)


def _selected(sample: Rows, whole: np.ndarray, model: Submodel, plan: Plan) -> Selection:
    """The edges that a penalty leaves, by the complete rows."""
    if whole.sum() < 2:
        raise ValueError(
            f"edges are selected by the complete rows, of which data has {int(whole.sum())}; give the edges in "
            "submodel, or use method='score_matching'"
        )
    w = sample.weights[whole]
    return selection(Rows(np.ascontiguousarray(sample.x[whole]), w / w.mean()), model, plan)
