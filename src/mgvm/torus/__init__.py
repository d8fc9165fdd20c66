"""Laws on the torus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.torus.mgvm import MGvM as MGvM
    from mgvm.torus.wrapped_normal import MultivariateWrappedNormal as MultivariateWrappedNormal

_NAMES = {
    "MGvM": "mgvm.torus.mgvm",
    "MultivariateWrappedNormal": "mgvm.torus.wrapped_normal",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
