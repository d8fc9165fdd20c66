"""GvM distributions of any order, many at a time: `dispatch` chooses who answers, the others are who does."""

from mgvm._numerics.gvm.dispatch import (
    gvm_facts,
    gvm_log_densities,
    gvm_log_slopes,
    gvm_masses,
    gvm_panels,
    gvm_sample,
    gvm_turning_cells,
)
from mgvm._numerics.gvm.small import suffix_sums, total_concentration
from mgvm._numerics.gvm.trapezoid import (
    bound_curvature,
    even_moments,
    even_rule,
    even_rules,
    less_one,
    shared_moments,
)

__all__ = [
    "bound_curvature",
    "even_moments",
    "even_rule",
    "even_rules",
    "gvm_facts",
    "gvm_log_densities",
    "gvm_log_slopes",
    "gvm_masses",
    "gvm_panels",
    "gvm_sample",
    "gvm_turning_cells",
    "less_one",
    "shared_moments",
    "suffix_sums",
    "total_concentration",
]
