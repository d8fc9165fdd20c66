"""Estimators that follow scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.models._conditional import ConditionalMixture as ConditionalMixture
    from mgvm.models._pca_tree import KinematicTree as KinematicTree
    from mgvm.models.baselines import PPCA as PPCA
    from mgvm.models.baselines import GvMRegressor as GvMRegressor
    from mgvm.models.baselines import KernelCircularRegressor as KernelCircularRegressor
    from mgvm.models.baselines import NeighborsCircularRegressor as NeighborsCircularRegressor
    from mgvm.models.baselines import ProjectedGPRegressor as ProjectedGPRegressor
    from mgvm.models.baselines import WrappedGPRegressor as WrappedGPRegressor
    from mgvm.models.mixture import TorusMixture as TorusMixture
    from mgvm.models.pca import CircularPCA as CircularPCA
    from mgvm.models.regression import CircularGPRegressor as CircularGPRegressor
    from mgvm.models.stacking import CircularStackingRegressor as CircularStackingRegressor

_NAMES = {
    "CircularStackingRegressor": "mgvm.models.stacking",
    "GvMRegressor": "mgvm.models.baselines",
    "KernelCircularRegressor": "mgvm.models.baselines",
    "NeighborsCircularRegressor": "mgvm.models.baselines",
    "PPCA": "mgvm.models.baselines",
    "ProjectedGPRegressor": "mgvm.models.baselines",
    "WrappedGPRegressor": "mgvm.models.baselines",
    "CircularPCA": "mgvm.models.pca",
    "KinematicTree": "mgvm.models._pca_tree",
    "CircularGPRegressor": "mgvm.models.regression",
    "ConditionalMixture": "mgvm.models._conditional",
    "TorusMixture": "mgvm.models.mixture",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
