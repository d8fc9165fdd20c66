"""What learners share at their beginning: the submodel for some data, and first parameters inside it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from mgvm.circle._concentration import concentration
from mgvm.inference._law import Natural, concentrations, natural
from mgvm.learning._rows import Rows, circular_spread
from mgvm.learning.score_fit import score_matching
from mgvm.learning.submodel import Submodel

_NARROWEST = 1e-5  # 1 - |mean of z| below which a first guess is not made narrower


def choice_of(submodel: Any, sample: Rows, order: int) -> Submodel:
    """The submodel that was asked for; the sine model about the mean directions of the data."""
    directions = None
    if isinstance(submodel, str) and submodel == "sine":
        seen = ~np.isnan(sample.x)
        z = np.where(seen, np.exp(1j * np.where(seen, sample.x, 0.0)), 0.0)
        directions = np.angle(sample.weights @ z)
    return Submodel.of(submodel, sample.dimension, order, directions)


def padded(law: Any, model: Submodel) -> Natural:
    """Dense parameters of a law with as many harmonics as the submodel has."""
    found = natural(law)
    if found.dimension != model.dimension:
        raise ValueError(f"start is a law of {found.dimension} angles, the data have {model.dimension}")
    b = np.zeros((model.order - 1, model.dimension), dtype=complex)
    shared = min(len(b), len(found.b))
    b[:shared] = found.b[:shared]
    P, Q = (matrix.toarray() if found.is_sparse else np.array(matrix) for matrix in (found.P, found.Q))
    return Natural(np.array(found.a, dtype=complex), b, P, Q)


def independent(sample: Rows, model: Submodel) -> Natural:
    """Independent von Mises angles of the data's mean directions and resultants."""
    seen = ~np.isnan(sample.x)
    z = np.where(seen, np.exp(1j * np.where(seen, sample.x, 0.0)), 0.0)
    spread = np.maximum(circular_spread(sample.x, sample.weights), _NARROWEST)
    strength = np.array([concentration(float(deficit)) for deficit in spread])
    size = model.dimension
    nothing = np.zeros((size, size), dtype=complex)
    return model.project(
        Natural(
            strength * np.exp(1j * np.angle(sample.weights @ z)),
            np.zeros((model.order - 1, size), dtype=complex),
            nothing,
            nothing,
        )
    )


def first_guess(sample: Rows, model: Submodel) -> list[Natural]:
    """Independent angles, and the fit by score matching where it is finite."""
    guesses = [independent(sample, model)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = score_matching(sample.x, order=model.order, submodel=model, weights=sample.weights)
    except (ValueError, np.linalg.LinAlgError):
        return guesses
    strongest = float(concentrations(fit.natural).max())
    if math.isfinite(strongest) and strongest < 1e5:
        guesses.append(model.project(padded(fit, model)))
    return guesses
