"""Distributions, inference and learning for data that are angles.

Names load on first use, so that ``import mgvm`` stays light.
"""

from mgvm._lazy import attach

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
