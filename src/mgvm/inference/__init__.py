"""Inference engines: a law on the torus in, a frozen result out.

Engines are named like their modules, so they are imported here and not on first use: else a module would stand in the
place of its function as soon as someone imports it.
"""

from __future__ import annotations

from mgvm.inference.annealing import AnnealingResult, annealed_log_normalizer
from mgvm.inference.exact_chain import ChainResult, exact_chain
from mgvm.inference.exact_grid import GridResult, exact_grid
from mgvm.inference.expectation_propagation import EPResult, expectation_propagation
from mgvm.inference.gibbs import GibbsResult, gibbs
from mgvm.inference.mean_field import MeanFieldResult, mean_field
from mgvm.inference.result import ConvergenceWarning, LogNormalizer, PairMoments

__all__ = [
    "AnnealingResult",
    "ChainResult",
    "ConvergenceWarning",
    "EPResult",
    "GibbsResult",
    "GridResult",
    "LogNormalizer",
    "MeanFieldResult",
    "PairMoments",
    "annealed_log_normalizer",
    "exact_chain",
    "exact_grid",
    "expectation_propagation",
    "gibbs",
    "mean_field",
]
