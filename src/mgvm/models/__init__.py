"""Estimators that follow scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.models._conditional import ConditionalMixture as ConditionalMixture
    from mgvm.models.mixture import TorusMixture as TorusMixture
    from mgvm.models.regression import CircularGPRegressor as CircularGPRegressor

_NAMES = {
    "CircularGPRegressor": "mgvm.models.regression",
    "ConditionalMixture": "mgvm.models._conditional",
    "TorusMixture": "mgvm.models.mixture",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
