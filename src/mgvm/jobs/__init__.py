"""Jobs on a person's table, without any printing: a table in, a frozen result out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.jobs.densities import density as density
    from mgvm.jobs.reduction import pca as pca
    from mgvm.jobs.regression import regress as regress
    from mgvm.jobs.results import DensityResult as DensityResult
    from mgvm.jobs.results import PcaResult as PcaResult
    from mgvm.jobs.results import RegressResult as RegressResult

_NAMES = {
    "DensityResult": "mgvm.jobs.results",
    "PcaResult": "mgvm.jobs.results",
    "RegressResult": "mgvm.jobs.results",
    "density": "mgvm.jobs.densities",
    "pca": "mgvm.jobs.reduction",
    "regress": "mgvm.jobs.regression",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
