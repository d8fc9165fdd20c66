"""Jobs on a person's table, without any printing: a table in, a frozen result out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.jobs.densities import density as density
    from mgvm.jobs.densities_report import density_report as density_report
    from mgvm.jobs.reduction import pca as pca
    from mgvm.jobs.reduction_report import pca_report as pca_report
    from mgvm.jobs.regress_report import regression_report as regression_report
    from mgvm.jobs.regression import regress as regress
    from mgvm.jobs.results import DensityResult as DensityResult
    from mgvm.jobs.results import PcaResult as PcaResult
    from mgvm.jobs.results import RegressResult as RegressResult

_NAMES = {
    "DensityResult": "mgvm.jobs.results",
    "PcaResult": "mgvm.jobs.results",
    "RegressResult": "mgvm.jobs.results",
    "density": "mgvm.jobs.densities",
    "density_report": "mgvm.jobs.densities_report",
    "pca": "mgvm.jobs.reduction",
    "pca_report": "mgvm.jobs.reduction_report",
    "regress": "mgvm.jobs.regression",
    "regression_report": "mgvm.jobs.regress_report",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
