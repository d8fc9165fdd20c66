"""Preconditioned conjugate gradients for Hθ = -c."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from mgvm._validation import FloatArray


class Quadratic(Protocol):
    """½ θᵀHθ + cᵀθ on a subspace."""

    linear: FloatArray

    def apply(self, vector: FloatArray) -> FloatArray:
        """Hθ."""

    def precondition(self, residual: FloatArray) -> FloatArray:
        """About H⁻¹r."""


class Solution(NamedTuple):
    """θ, Hθ as carried along, |Hθ + c|/|c| after every step."""

    theta: FloatArray
    product: FloatArray
    trace: list[float]


def conjugate_gradients(
    quadratic: Quadratic,
    start: FloatArray,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int], object] = lambda done: None,
) -> Solution:
    """Minimise from `start` until |Hθ + c| <= tolerance |c|, rounding spoils the direction, or steps run out."""
    theta, size = start.copy(), _norm(quadratic.linear) or 1.0
    product = quadratic.apply(theta) if theta.any() else np.zeros_like(theta)
    residual = -quadratic.linear - product
    trace = [_norm(residual) / size]
    direction, before = np.zeros_like(theta), 1.0
    while trace[-1] > tolerance and len(trace) <= max_iterations:
        raised = quadratic.precondition(residual)
        now = _dot(residual, raised)
        direction = raised + theta.dtype.type(now / before) * direction
        image = quadratic.apply(direction)
        curvature = _dot(direction, image)
        if not curvature > 0.0 or not now > 0.0:
            break
        step = theta.dtype.type(now / curvature)
        theta += step * direction
        product += step * image
        residual -= step * image
        before = now
        trace.append(_norm(residual) / size)
        report(len(trace) - 1)
    return Solution(theta, product, trace)


def _dot(left: FloatArray, right: FloatArray) -> float:
    return float(np.dot(left, right))


def _norm(vector: FloatArray) -> float:
    return float(np.sqrt(np.dot(vector, vector)))
