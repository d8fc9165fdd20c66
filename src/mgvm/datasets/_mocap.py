"""Markers on arms that move, filmed or simulated."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from mgvm import _validation as check

MOTIONS = ("fishing", "running", "boxing", "robot")


@dataclass(frozen=True, eq=False)
class MotionCapture:
    """Where three markers are in the image, one row a frame.

    Attributes
    ----------
    positions : ndarray, shape (n, 3, 2)
        x and y of every marker, pixels; the source does not say from which origin.
    frame : ndarray of int, shape (n,)
        Number of the frame, in order of time, from 0.
    name : str
        The motion: "fishing", "running", "boxing" or "robot".
    """

    positions: NDArray[np.float64]
    frame: NDArray[np.int64]
    name: str

    @property
    def rows(self) -> NDArray[np.float64]:
        """The positions as a matrix of x1, y1, x2, y2, x3, y3, shape (n, 6)."""
        return self.positions.reshape(len(self.positions), -1)


def load_mocap(name: str = "fishing") -> MotionCapture:
    """Load the positions of three markers on an arm that moves.

    A person was filmed for 4,308 frames of "fishing", 3,062 of "running" and 4,266 of "boxing"; the 2,000 of "robot"
    are a noisy simulation of an arm with four joints. Source and terms are in the ``README.md`` beside the files, in
    ``mgvm/datasets/data``.

    Parameters
    ----------
    name : {"fishing", "running", "boxing", "robot"}, default "fishing"
        Which motion.

    Returns
    -------
    MotionCapture
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_mocap
    >>> fishing = load_mocap("fishing")
    >>> fishing.positions.shape, fishing.rows.shape
    ((4308, 3, 2), (4308, 6))
    """
    check.choice(name, "name", MOTIONS)
    path = resources.files("mgvm.datasets") / "data" / f"mocap_{name}.csv.gz"
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        table = np.loadtxt(text, delimiter=",", skiprows=1)
    positions, frame = table[:, 1:].reshape(len(table), 3, 2).copy(), table[:, 0].astype(np.int64)
    for array in (positions, frame):
        array.flags.writeable = False
    return MotionCapture(positions, frame, name)
