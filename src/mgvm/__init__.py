"""Laws, inference and learning for data that are angles.

Names load on first use, so that ``import mgvm`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgvm.circle import GvM as GvM
    from mgvm.circle import ProjectedNormal as ProjectedNormal
    from mgvm.circle import VonMises as VonMises
    from mgvm.circle import WrappedNormal as WrappedNormal

__version__ = "0.1.0"

_SUBMODULES = ("angles", "circle", "datasets", "plots", "scores")
_NAMES = {
    "GvM": "mgvm.circle",
    "ProjectedNormal": "mgvm.circle",
    "VonMises": "mgvm.circle",
    "WrappedNormal": "mgvm.circle",
}

__all__ = ["__version__", *_SUBMODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"mgvm.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'mgvm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
