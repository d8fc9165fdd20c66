"""Dihedral angles of aspartate in crystal structures."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

_HUNDREDTHS_PER_TURN = 36_000


@dataclass(frozen=True, eq=False)
class ProteinAngles:
    """Dihedral angles of residues, one row each.

    Attributes
    ----------
    angles : ndarray, shape (N, D)
        Radians in [-pi, pi).
    names : tuple of str
        What the columns are: phi and psi of the backbone, chi1 of the side chain.
    split : ndarray of str, shape (N,)
        "train" or "valid"; similar chains are on one side.
    """

    angles: NDArray[np.float64]
    names: tuple[str, ...]
    split: NDArray[np.str_]

    @property
    def train(self) -> NDArray[np.float64]:
        """The rows to learn from."""
        return self.angles[self.split == "train"]

    @property
    def valid(self) -> NDArray[np.float64]:
        """The rows to be scored on."""
        return self.angles[self.split == "valid"]


def load_protein_asp() -> ProteinAngles:
    """Load phi, psi and chi1 of 13,742 aspartates in crystal structures of the Protein Data Bank.

    The backbone angles phi and psi make the Ramachandran plot; the side chain's chi1 has three rotamers whose shares
    depend on them. Source, changes and terms are in the ``README.md`` beside the file, in ``mgvm/datasets/data``.

    Returns
    -------
    ProteinAngles
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import load_protein_asp
    >>> asp = load_protein_asp()
    >>> asp.names, asp.train.shape, asp.valid.shape
    (('phi', 'psi', 'chi1'), (11129, 3), (2613, 3))
    """
    path = resources.files("mgvm.datasets") / "data" / "protein_asp.csv.gz"
    row = np.dtype([("split", "U5"), ("phi_deg", float), ("psi_deg", float), ("chi1_deg", float)])
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        table = np.loadtxt(text, dtype=row, delimiter=",", skiprows=1)
    names = [name for name in row.names or () if name != "split"]
    degrees = np.stack([table[name] for name in names], axis=1)
    # Whole hundredths of a degree are wrapped before they become radians: every angle carries one rounding only.
    steps = np.rint(100.0 * degrees).astype(np.int64)
    half = _HUNDREDTHS_PER_TURN // 2
    wrapped = (steps + half) % _HUNDREDTHS_PER_TURN - half
    angles = wrapped.astype(np.float64) * (2 * np.pi / _HUNDREDTHS_PER_TURN)
    split = np.ascontiguousarray(table["split"])
    for array in (angles, split):
        array.flags.writeable = False
    return ProteinAngles(angles, tuple(name.removesuffix("_deg") for name in names), split)
