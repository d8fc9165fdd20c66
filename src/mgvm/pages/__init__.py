"""Reports as single HTML pages that need no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.pages.builder import Page as Page

_NAMES = {"Page": "mgvm.pages.builder"}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
