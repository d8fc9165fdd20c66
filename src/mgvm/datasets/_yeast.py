"""The phase of the cell cycle of yeast, and what its genes express."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from mgvm.angles import wrap


@dataclass(frozen=True, eq=False)
class Yeast:
    """Eighteen moments of a culture that divides in step, one row each.

    Attributes
    ----------
    minutes : ndarray, shape (18,)
        Time since the start.
    phase : ndarray, shape (18,)
        Of the cell cycle, radians in [-pi, pi).
    expression : ndarray, shape (18, 4489)
        Of every gene.
    genes : tuple of str
        Systematic names of the genes.
    split : ndarray of str, shape (18,)
        "train" or "valid", every other row.
    """

    minutes: NDArray[np.float64]
    phase: NDArray[np.float64]
    expression: NDArray[np.float64]
    genes: tuple[str, ...]
    split: NDArray[np.str_]


def load_yeast() -> Yeast:
    """Load the phase of the cell cycle and the expression of 4,489 genes at 18 moments of a yeast culture.

    The inputs are far more than the rows. Source and terms are in the ``README.md`` beside the file, in
    ``mgvm/datasets/data``.

    Returns
    -------
    Yeast
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> yeast.expression.shape, yeast.minutes[-1]
    ((18, 4489), np.float64(119.0))
    """
    path = resources.files("mgvm.datasets") / "data" / "yeast_spellman_alpha.csv.gz"
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        header, *rows = csv.reader(text)
    split = np.array([row[2] for row in rows])
    numbers = np.array([[*row[:2], *row[3:]] for row in rows], dtype=float)
    minutes, phase = numbers[:, 0].copy(), np.array(wrap(numbers[:, 1]))
    expression = np.ascontiguousarray(numbers[:, 2:])
    for array in (minutes, phase, expression, split):
        array.flags.writeable = False
    return Yeast(minutes, phase, expression, tuple(header[3:]), split)
