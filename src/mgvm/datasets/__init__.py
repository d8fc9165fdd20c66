"""Small data sets that ship with the package."""

from __future__ import annotations

from mgvm.datasets._uber import UberPickups, load_uber_pickups

__all__ = ["UberPickups", "load_uber_pickups"]
