"""Laws on the circle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.circle.grid_density import GridDensity as GridDensity
    from mgvm.circle.gvm import GvM as GvM
    from mgvm.circle.law import CircleLaw as CircleLaw
    from mgvm.circle.law import Modes as Modes
    from mgvm.circle.projected_normal import ProjectedNormal as ProjectedNormal
    from mgvm.circle.von_mises import VonMises as VonMises
    from mgvm.circle.wrapped_normal import WrappedNormal as WrappedNormal

_NAMES = {
    "CircleLaw": "mgvm.circle.law",
    "GridDensity": "mgvm.circle.grid_density",
    "GvM": "mgvm.circle.gvm",
    "Modes": "mgvm.circle.law",
    "ProjectedNormal": "mgvm.circle.projected_normal",
    "VonMises": "mgvm.circle.von_mises",
    "WrappedNormal": "mgvm.circle.wrapped_normal",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
