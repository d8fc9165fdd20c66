"""People's tables: read and written, columns found by name, units and time stamps turned into numbers."""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
