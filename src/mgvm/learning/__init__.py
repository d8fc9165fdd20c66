"""Learning distributions on the torus: rows of angles in, natural parameters with their diagnosis out."""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
