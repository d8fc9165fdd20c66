"""Exact maximum likelihood of one mGvM of up to three angles, from the mean statistics of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._numerics import torus_frame as frame
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.inference._natural_vector import pack, unpack
from mgvm.learning import _local_newton as newton
from mgvm.learning._rows import Rows
from mgvm.learning._standard_errors import free_basis
from mgvm.learning.submodel import Submodel

LARGEST = {1: 1e6, 2: 1e5, 3: 2e4}  # concentration from which on a maximum is taken not to exist, by dimension
_NOISE = {1: 0.005, 2: 0.01, 3: 0.02}  # radians of noise that then make one exist
_STUCK = 1e-12  # squared decrement above which a step that cannot be taken means that there is no maximum
_SLOW, _PATIENCE = 0.02, 15  # part of the squared decrement that a slow step gains, and how many in a row are too many
_TRIES = 4  # doublings of it


class Maximum(NamedTuple):
    """Where Newton's method ended. `noise` is the standard deviation of noise that the data were given, 0 for none.

    `objective` is the mean log density of the data as they are, `trace` that of the data with noise.
    """

    law: Natural
    objective: float
    trace: list[float]
    decrement: float
    gradient: FloatArray
    converged: bool
    runaway: float = 0.0
    noise: float = 0.0
    standard_errors: FloatArray | None = None


class Problem(NamedTuple):
    """Mean statistics around an anchor, and what is free."""

    target: FloatArray  # (1, p), local
    anchor: FloatArray  # (1, D)
    space: newton.Space
    basis: FloatArray  # (p, q), of the submodel


def problem(sample: Rows, model: Submodel) -> Problem:
    """From rows: one pass, every statistic to its own digits however narrow the data."""
    share = sample.weights / sample.weights.sum()
    anchor = np.angle(share @ np.exp(1j * sample.x))[None]
    target = share @ frame.local_statistics(sample.x - anchor, model.order)
    return _problem(target[None], anchor, model)


def problem_from_statistics(mean: FloatArray, model: Submodel) -> Problem:
    """From mean statistics (p,) in the order of the natural vector."""
    places = 2 * np.arange(model.dimension)
    anchor = np.arctan2(mean[places + 1], mean[places])[None]
    return _problem(frame.local_means(mean[None], anchor, model.order), anchor, model)


def _problem(target: FloatArray, anchor: FloatArray, model: Submodel) -> Problem:
    basis = free_basis(model)
    inward = np.swapaxes(frame.outward(anchor, model.order), 1, 2) @ basis
    whole = basis.shape[0] == basis.shape[1]
    # A step may pass the bound, which then tells of it, but not by far: narrow laws of three angles take long.
    most = 2.0 * LARGEST[model.dimension]
    space = newton.Space(model.dimension, model.order, None if whole else inward, largest=most)
    return Problem(target, anchor, space, basis)


def maximise(
    task: Problem,
    start: Natural | None,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object] = lambda done, total: None,
) -> Maximum:
    """Newton steps until the decrement √(g·F⁻¹g) is below the tolerance.

    Where the concentration passes all bounds, the data's statistics lie on (or so near to) the border of what laws can
    have that no maximum exists in doubles. It is then sought for the data with independent noise added to every angle,
    which has a density, and so statistics inside the border.
    """
    found = _climb(task, _start(task, start), tolerance, max_iterations, report)
    noise, reached = _NOISE[task.space.dimension], found.runaway
    for _ in range(_TRIES):
        if not found.runaway:
            break
        blurred = task._replace(target=_blurred(task, noise))
        found = _climb(blurred, _start(blurred, None), tolerance, max_iterations, report)._replace(noise=noise)
        local = frame.to_local(pack(found.law)[None], task.anchor, task.space.order)
        found = found._replace(objective=found.objective + float(((task.target - blurred.target) * local).sum()))
        noise *= 2.0
    return found._replace(runaway=reached, converged=found.converged and not reached)


def _blurred(task: Problem, noise: float) -> FloatArray:
    """Mean statistics of the data with independent normal noise added: E[z^k] times exp(-½ noise² |k|²)."""
    size, order = task.space.dimension, task.space.order
    harmonics = np.repeat(np.arange(1.0, order + 1.0) ** 2, size)
    squares = np.concatenate([harmonics, np.full(size * (size - 1), 2.0)])
    factors = np.repeat(np.exp(-0.5 * noise**2 * squares), 2)
    return frame.local_means(factors * frame.means(task.target, task.anchor, order), task.anchor, order)


def _start(task: Problem, start: Natural | None) -> newton.State:
    """The best of the given law, a Gaussian-like one and the uniform one."""
    space, target = task.space, task.target
    # A start of another width than the data's makes Newton's method lose itself in higher harmonics.
    floor = 4.0 / LARGEST[space.dimension]
    guesses = [np.zeros_like(target), newton.gaussian_start(target, space.dimension, space.order, floor)]
    if start is not None:
        guesses.append(frame.to_local(pack(start)[None], task.anchor, space.order))
    states = []
    for guess in guesses:
        if space.basis is not None:
            # The nearest law of the submodel, in the natural parameters.
            natural = frame.from_local(guess, task.anchor, space.order) @ task.basis
            guess = natural @ space.basis[0].T
        if _concentration(guess, space) < LARGEST[space.dimension]:
            states.append(newton.state(guess, target, space))
    return states[int(np.argmax([state.objective[0] for state in states]))]


def _climb(
    task: Problem,
    at: newton.State,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object],
) -> Maximum:
    trace, converged, runaway, last, slow = [float(at.objective[0])], False, 0.0, np.inf, 0
    for step in range(max_iterations):
        last = float(newton.direction(at, task.target, task.space)[1][0])
        if last <= tolerance**2:
            converged = True
            break
        at, _, moved = newton.improve(at, task.target, task.space)
        if not moved[0]:
            runaway = _concentration(at.local, task.space) if last > _STUCK else 0.0
            break
        trace.append(float(at.objective[0]))
        # Steps creep along the edge of laws with a second mode far away: a plainer model is wanted, not more of them.
        slow = slow + 1 if trace[-1] - trace[-2] < _SLOW * last else 0
        if slow >= _PATIENCE:
            runaway = _concentration(at.local, task.space)
            break
        report(step + 1, max_iterations)
        if (strength := _concentration(at.local, task.space)) > LARGEST[task.space.dimension]:
            runaway = strength
            break
    else:
        last = float(newton.direction(at, task.target, task.space)[1][0])
        converged = last <= tolerance**2
    theta = frame.from_local(at.local, task.anchor, task.space.order)
    gap = frame.outward(task.anchor, task.space.order)[0] @ (task.target - at.moments.mean)[0]
    law = unpack(theta[0], task.space.dimension, task.space.order)
    errors = _unit_errors(task, at)
    return Maximum(law, trace[-1], trace, float(np.sqrt(last)), task.basis.T @ gap, converged, runaway, 0.0, errors)


def _concentration(local: FloatArray, space: newton.Space) -> float:
    return float(frame.rule_sizes(local, space.dimension, space.order, 1.0)[1].max())


def _unit_errors(task: Problem, at: newton.State) -> FloatArray:
    """Standard errors of θ for a single row: roots of the diagonal of the inverse Fisher matrix."""
    outward = frame.outward(task.anchor, task.space.order)[0]
    inward = outward.T @ task.basis
    scale = np.sqrt(np.maximum(np.diag(at.moments.covariance[0]), 1e-300))
    scaled = at.moments.covariance[0] / scale[:, None] / scale
    values, axes = np.linalg.eigh(scaled)
    root = np.sqrt(np.maximum(values, 1e-14))[:, None] * axes.T
    # F = (root·scale·inward)ᵀ(same): its inverse from a triangle, without squaring the condition.
    triangle = np.linalg.qr((root * scale) @ inward, mode="r")
    inverse = np.linalg.pinv(triangle)
    return np.sqrt(((task.basis @ inverse) ** 2).sum(axis=1))
