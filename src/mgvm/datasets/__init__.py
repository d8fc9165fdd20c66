"""Small data sets that ship with the package."""

from __future__ import annotations

from mgvm.datasets._protein import ProteinAngles, load_protein_asp
from mgvm.datasets._uber import UberPickups, load_uber_pickups

__all__ = ["ProteinAngles", "UberPickups", "load_protein_asp", "load_uber_pickups"]
