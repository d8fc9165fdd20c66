"""Newton's method with conjugate gradients for the log pseudo-likelihood in a submodel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural, concentrations
from mgvm.inference._natural_vector import pack, unpack
from mgvm.learning._pseudo_objective import Curvature, PseudoLikelihood
from mgvm.learning._pseudo_preconditioner import Preconditioner
from mgvm.learning.submodel import Submodel

LARGEST = 1e6  # concentration of an angle given the others that a step may reach
_PRODUCTS = 200  # with the Hessian, of one step
_LOOSEST = 0.1  # part of the gradient that a step may leave
_ARMIJO = 1e-4
_HALVINGS = 40


@dataclass
class Climb:
    """Where a climb ended: the law, the objective, its gradient, and what the next step had promised to gain."""

    law: Natural
    value: float
    gradient: FloatArray
    promise: float
    converged: bool
    trace: list[float]

    @property
    def runaway(self) -> FloatArray:
        """Angles whose concentration came near the largest allowed, with it: shape (k, 2)."""
        strength = concentrations(self.law)
        found = np.flatnonzero(strength > 0.2 * LARGEST)
        return np.stack([found, strength[found]], axis=1)


def climb(
    objective: PseudoLikelihood,
    submodel: Submodel,
    start: Natural,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int, int], object],
) -> Climb:
    """Newton steps, each halved until the objective rises; ends when a step promises less than tolerance² a row."""
    size, order = submodel.dimension, submodel.order
    precondition = Preconditioner(objective.x, objective.share)

    def project(law: Natural) -> FloatArray:
        return pack(submodel.project(law))

    theta = project(start)
    trace: list[float] = []
    for iteration in range(max_iterations + 1):
        law = unpack(theta, size, order)
        value, slope, curvature = objective.gradient(law)
        gradient = project(slope)
        precondition.refresh(curvature.first)
        trace.append(value)
        report(iteration, max_iterations)
        step = _newton_step(objective, curvature, gradient, precondition, project)
        promise = 0.5 * float(gradient @ step)
        found = Climb(law, value, gradient, promise, promise <= tolerance**2, trace)
        if found.converged or iteration == max_iterations or len(found.runaway):
            return found
        along = _rising(objective, theta, step, found)
        if along is None:
            # What is left to gain drowns in the rounding of the objective.
            found.converged = promise <= 1e-13 * max(1.0, abs(value))
            return found
        theta = along
    raise AssertionError("the loop returns")


def _rising(objective: PseudoLikelihood, theta: FloatArray, step: FloatArray, found: Climb) -> FloatArray | None:
    """The first point of θ + step, θ + step/2, ... where the objective has risen enough."""
    size, order = found.law.dimension, found.law.order
    length = 1.0
    for _ in range(_HALVINGS):
        trial = theta + length * step
        law = unpack(trial, size, order)
        if concentrations(law).max() <= LARGEST:
            gain = objective.value(law) - found.value
            if gain >= _ARMIJO * length * 2.0 * found.promise and gain > 0.0:
                return trial
        length *= 0.5
    return None


def _newton_step(
    objective: PseudoLikelihood,
    curvature: Curvature,
    gradient: FloatArray,
    precondition: Preconditioner,
    project: Callable[[Natural], FloatArray],
) -> FloatArray:
    """Preconditioned conjugate gradients on Hessian·step = gradient, the more exact the smaller the gradient."""
    size, order = objective.dimension, objective.order
    step, residual = np.zeros_like(gradient), gradient.copy()
    towards = project(precondition.solve(unpack(residual, size, order)))
    height = float(residual @ towards)
    target = height * min(_LOOSEST, max(height, 0.0) ** 0.5) ** 2
    direction = towards
    for _ in range(_PRODUCTS):
        if height <= target or height <= 0.0:
            break
        product = project(objective.product(curvature, unpack(direction, size, order)))
        bend = float(direction @ product)
        if bend <= 0.0:  # lost in rounding: angles all but determined by the others
            break
        step += height / bend * direction
        residual -= height / bend * product
        towards = project(precondition.solve(unpack(residual, size, order)))
        before, height = height, float(residual @ towards)
        direction = towards + height / before * direction
    return step if step.any() else direction
