"""Families of distributions and exact values, from the tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from naive.gvm import grid_reference
from numerics.families import FAMILIES, order_two

__all__ = ["FAMILIES", "grid_reference", "order_two", "span"]


def span(low, high):
    """A range of powers of ten as pages write it."""
    ends = (
        f"{round(10.0**power, -1 if power > 2 else 2):g}" if power < 4 else f"10{_RAISED[power]}"
        for power in (low, high)
    )
    return " – ".join(ends)


_RAISED = {4: "⁴", 6: "⁶", 8: "⁸"}
