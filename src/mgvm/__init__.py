"""Laws, inference and learning for data that are angles.

Names load on first use, so that ``import mgvm`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.circle import GridDensity as GridDensity
    from mgvm.circle import GvM as GvM
    from mgvm.circle import ProjectedNormal as ProjectedNormal
    from mgvm.circle import VonMises as VonMises
    from mgvm.circle import WrappedNormal as WrappedNormal
    from mgvm.models import CircularGPRegressor as CircularGPRegressor
    from mgvm.models import CircularPCA as CircularPCA
    from mgvm.models import CircularStackingRegressor as CircularStackingRegressor
    from mgvm.models import TorusMixture as TorusMixture
    from mgvm.saving import load as load
    from mgvm.saving import save as save
    from mgvm.torus import MGvM as MGvM
    from mgvm.torus import MultivariateWrappedNormal as MultivariateWrappedNormal

__version__ = "0.1.0"

_SUBMODULES = (
    "angles",
    "circle",
    "datasets",
    "inference",
    "jobs",
    "learning",
    "models",
    "pages",
    "plots",
    "saving",
    "scores",
    "tables",
    "torus",
)
_NAMES = {
    "CircularStackingRegressor": "mgvm.models.stacking",
    "CircularGPRegressor": "mgvm.models.regression",
    "GridDensity": "mgvm.circle.grid_density",
    "GvM": "mgvm.circle.gvm",
    "MGvM": "mgvm.torus.mgvm",
    "MultivariateWrappedNormal": "mgvm.torus.wrapped_normal",
    "ProjectedNormal": "mgvm.circle.projected_normal",
    "CircularPCA": "mgvm.models.pca",
    "TorusMixture": "mgvm.models.mixture",
    "VonMises": "mgvm.circle.von_mises",
    "WrappedNormal": "mgvm.circle.wrapped_normal",
    "load": "mgvm.saving.model_files",
    "save": "mgvm.saving.model_files",
}

__all__ = ["__version__", *_SUBMODULES, *_NAMES]

__getattr__, __dir__ = attach(__name__, _NAMES, _SUBMODULES)
