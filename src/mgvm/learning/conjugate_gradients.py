"""Preconditioned conjugate gradients on a subspace, in single or double precision, step by step.

SciPy's take double precision, tell nobody of Hθ, and stop by the residual alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray


class Iterate(NamedTuple):
    """θ, Hθ as carried along, and rᵀM⁻¹r of r = -Hθ - c, M the preconditioner; later steps change the arrays."""

    theta: FloatArray
    product: FloatArray
    square: float


def conjugate_gradients(
    linear: FloatArray,
    apply: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    start: FloatArray,
) -> Iterator[Iterate]:
    """Minimise ½ θᵀHθ + cᵀθ, c = `linear`, from `start` on; ends where rounding spoils the direction.

    `apply` gives Hθ, `precondition` about H⁻¹r, both inside the subspace.
    """
    theta = start.copy()
    product = apply(theta) if theta.any() else np.zeros_like(theta)
    residual = -linear - product
    direction, before = np.zeros_like(theta), 1.0
    while True:
        raised = precondition(residual)
        square = float(residual @ raised)
        yield Iterate(theta, product, square)
        if not square > 0.0:
            return
        direction = raised + square / before * direction
        image = apply(direction)
        curvature = float(direction @ image)
        if not curvature > 0.0:
            return
        theta += square / curvature * direction
        product += square / curvature * image
        residual -= square / curvature * image
        before = square
