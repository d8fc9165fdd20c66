"""What rows cannot tell: too few of them, constant columns, columns that determine each other."""

from __future__ import annotations

import warnings

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning._score_moments import Moments
from mgvm.learning._score_source import Source
from mgvm.learning.submodel import Submodel

_CONSTANT = 1e-14
_DEPENDENT = 1e-10

# Ridges, as parts of every angle's spread: couplings of undetermined directions stay below about one over it.
FEW_ROWS = 0.1
DEPENDENCE = 1e-3


def several_rows(source: Source) -> None:
    """Refuse a single row."""
    if source.n_rows < 2:
        raise ValueError(
            "data hold a single row of positive weight, of which no density can be learnt; give at least two rows"
        )


def needed_ridge(source: Source, known: Moments, model: Submodel, stacklevel: int) -> float:
    """The ridge without which J has no minimum, 0 for sound data; refuses constant columns and warns of the rest."""
    spread = known.spread
    if spread.min() < _CONSTANT:
        column = int(np.argmin(spread))
        raise ValueError(
            f"column {column} of data is constant: its law would be a point without a density; leave the column out"
        )
    equations = source.n_rows * source.dimension
    if equations < model.n_parameters:
        warnings.warn(
            f"{source.n_rows:,} rows of {source.dimension:,} angles give {equations:,} equations for "
            f"{model.n_parameters:,} parameters: they are held back by a ridge of {FEW_ROWS:g}. Give more rows, "
            "penalise edges (penalty=...) or choose a smaller submodel",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return FEW_ROWS
    pair = dependent_pair(known, spread)
    if pair is not None and model.edges[pair[:2]]:
        i, j, word = pair
        warnings.warn(
            f"columns {i} and {j} of data determine each other (their {word} is constant), so their coupling has no "
            f"finite value; it is held back by a ridge of {DEPENDENCE:g}. Leave one of them out",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return DEPENDENCE
    return 0.0


def dependent_pair(known: Moments, spread: FloatArray) -> tuple[int, int, str] | None:
    """Two columns whose difference or sum is constant to rounding, and which of the two.

    With y = z - E z, |E y_i ȳ_j|² = E|y_i|² E|y_j|² (Cauchy and Schwarz) means y_i = λ y_j: a circle shrunk and shifted
    onto itself, so that φ_i - φ_j is constant, unless there are only two points; likewise E y_i y_j for sums.
    """
    size = spread.size
    C = known.covariance
    if not known.mean.any():
        m = np.concatenate([known.harmonics[1].real, known.harmonics[1].imag])
        C = C - np.outer(m, m)
    cc, cs, sc, ss = C[:size, :size], C[:size, size:], C[size:, :size], C[size:, size:]
    scale = np.outer(spread, spread)
    for word, real, imaginary in (("difference", cc + ss, sc - cs), ("sum", cc - ss, sc + cs)):
        lost = 1.0 - (real**2 + imaginary**2) / scale
        lost[np.tril_indices(size)] = 1.0
        i, j = np.unravel_index(int(np.argmin(lost)), lost.shape)
        if size > 1 and lost[i, j] < _DEPENDENT:
            return int(i), int(j), word
    return None
