"""Inference engines: a law on the torus in, a frozen result out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.inference._gibbs_result import GibbsResult as GibbsResult
    from mgvm.inference.annealing import AnnealingResult as AnnealingResult
    from mgvm.inference.annealing import annealed_log_normalizer as annealed_log_normalizer
    from mgvm.inference.chains import ChainResult as ChainResult
    from mgvm.inference.chains import exact_chain as exact_chain
    from mgvm.inference.gibbs_sampling import gibbs as gibbs
    from mgvm.inference.propagation import EPResult as EPResult
    from mgvm.inference.propagation import expectation_propagation as expectation_propagation
    from mgvm.inference.quadrature import GridResult as GridResult
    from mgvm.inference.quadrature import exact_grid as exact_grid
    from mgvm.inference.result import ConvergenceWarning as ConvergenceWarning
    from mgvm.inference.result import LogNormalizer as LogNormalizer
    from mgvm.inference.result import PairMoments as PairMoments
    from mgvm.inference.variational import MeanFieldResult as MeanFieldResult
    from mgvm.inference.variational import mean_field as mean_field

# No engine is named like its module: importing the module would put it in the function's place.
_NAMES = {
    "AnnealingResult": "mgvm.inference.annealing",
    "ChainResult": "mgvm.inference.chains",
    "ConvergenceWarning": "mgvm.inference.result",
    "EPResult": "mgvm.inference.propagation",
    "GibbsResult": "mgvm.inference._gibbs_result",
    "GridResult": "mgvm.inference.quadrature",
    "LogNormalizer": "mgvm.inference.result",
    "MeanFieldResult": "mgvm.inference.variational",
    "PairMoments": "mgvm.inference.result",
    "annealed_log_normalizer": "mgvm.inference.annealing",
    "exact_chain": "mgvm.inference.chains",
    "exact_grid": "mgvm.inference.quadrature",
    "expectation_propagation": "mgvm.inference.propagation",
    "gibbs": "mgvm.inference.gibbs_sampling",
    "mean_field": "mgvm.inference.variational",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
