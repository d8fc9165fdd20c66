"""The mGvM as an exponential family: parameters, forms, log density and coupling graph."""

from mgvm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
