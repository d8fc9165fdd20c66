"""Estimators that follow scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    pass

_NAMES: dict[str, str] = {}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
