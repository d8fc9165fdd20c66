"""People's tables: read and written, columns found by name, units and time stamps turned into numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.tables.columns import find_columns as find_columns
    from mgvm.tables.columns import numbers as numbers
    from mgvm.tables.errors import RefusedError as RefusedError
    from mgvm.tables.errors import TableError as TableError
    from mgvm.tables.reading import read_table as read_table
    from mgvm.tables.times import elapsed as elapsed
    from mgvm.tables.times import hours_of_day as hours_of_day
    from mgvm.tables.units import Unit as Unit
    from mgvm.tables.writing import write_table as write_table

_NAMES = {
    "RefusedError": "mgvm.tables.errors",
    "TableError": "mgvm.tables.errors",
    "Unit": "mgvm.tables.units",
    "elapsed": "mgvm.tables.times",
    "find_columns": "mgvm.tables.columns",
    "hours_of_day": "mgvm.tables.times",
    "numbers": "mgvm.tables.columns",
    "read_table": "mgvm.tables.reading",
    "write_table": "mgvm.tables.writing",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
