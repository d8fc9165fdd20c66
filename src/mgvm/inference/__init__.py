"""Inference engines: a law on the torus in, a frozen result out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.inference.result import ConvergenceWarning as ConvergenceWarning
    from mgvm.inference.result import LogNormalizer as LogNormalizer

_NAMES = {
    "ConvergenceWarning": "mgvm.inference.result",
    "LogNormalizer": "mgvm.inference.result",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
