"""Distributions and estimators in files, and back: arrays and JSON with a checksum, never code."""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
