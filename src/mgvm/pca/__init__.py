"""Circular PCA: latent angles behind real-valued data."""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
