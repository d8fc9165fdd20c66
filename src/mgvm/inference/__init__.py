"""Inference engines: a law on the torus in, a frozen result out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.inference.exact_chain import exact_chain as exact_chain
    from mgvm.inference.exact_grid import GridResult as GridResult
    from mgvm.inference.exact_grid import exact_grid as exact_grid
    from mgvm.inference.expectation_propagation import EPResult as EPResult
    from mgvm.inference.expectation_propagation import expectation_propagation as expectation_propagation
    from mgvm.inference.mean_field import MeanFieldResult as MeanFieldResult
    from mgvm.inference.mean_field import mean_field as mean_field
    from mgvm.inference.gibbs import GibbsResult as GibbsResult
    from mgvm.inference.gibbs import gibbs as gibbs
    from mgvm.inference.result import ConvergenceWarning as ConvergenceWarning
    from mgvm.inference.result import LogNormalizer as LogNormalizer

_NAMES = {
    "EPResult": "mgvm.inference.expectation_propagation",
    "exact_chain": "mgvm.inference.exact_chain",
    "GridResult": "mgvm.inference.exact_grid",
    "exact_grid": "mgvm.inference.exact_grid",
    "expectation_propagation": "mgvm.inference.expectation_propagation",
    "ConvergenceWarning": "mgvm.inference.result",
    "LogNormalizer": "mgvm.inference.result",
    "GibbsResult": "mgvm.inference.gibbs",
    "gibbs": "mgvm.inference.gibbs",
    "MeanFieldResult": "mgvm.inference.mean_field",
    "mean_field": "mgvm.inference.mean_field",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
