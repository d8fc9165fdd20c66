"""A function that wraps around the circle, and fourteen points near it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Toy:
    """Training points, and the function on a grid.

    Attributes
    ----------
    x, angles : ndarray, shape (14,)
        Inputs in [0, 1] and angles in [-pi, pi) to learn from.
    grid, truth : ndarray, shape (100,)
        Equally spaced inputs from 0 to 1, and the function there, wrapped to [-pi, pi).
    """

    x: NDArray[np.float64]
    angles: NDArray[np.float64]
    grid: NDArray[np.float64]
    truth: NDArray[np.float64]


def load_toy() -> Toy:
    """Load the toy regression of Navarro, Frellsen & Turner (2017): 14 points near a wrapped "Mexican hat".

    The points are not draws around the function: they leave it by up to 0.9 radians. Source and changes are in the
    ``README.md`` beside the file, in ``mgvm/datasets/data``.

    Returns
    -------
    Toy
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_toy
    >>> toy = load_toy()
    >>> toy.x.shape, toy.grid.shape
    ((14,), (100,))
    """
    path = resources.files("mgvm.datasets") / "data" / "toy_mexican_hat.csv"
    row = np.dtype([("split", "U5"), ("x", float), ("angle", float)])
    with path.open("r", encoding="ascii") as text:
        table = np.loadtxt(text, dtype=row, delimiter=",", skiprows=1, usecols=(0, 1, 2))
    train, grid = (table[table["split"] == name] for name in ("train", "grid"))
    columns = [np.ascontiguousarray(part[name]) for part in (train, grid) for name in ("x", "angle")]
    for column in columns:
        column.flags.writeable = False
    return Toy(*columns)
