"""Families of distributions and exact values, from the tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from naive.gvm import grid_reference
from numerics.families import FAMILIES, order_two

__all__ = ["FAMILIES", "grid_reference", "order_two"]
