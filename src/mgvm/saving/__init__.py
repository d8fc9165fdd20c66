"""Laws and estimators in files, and back: arrays and JSON with a checksum, never code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.saving._container import ModelFileError as ModelFileError
    from mgvm.saving.model_files import load as load
    from mgvm.saving.model_files import notes_of as notes_of
    from mgvm.saving.model_files import save as save

_NAMES = {
    "ModelFileError": "mgvm.saving._container",
    "load": "mgvm.saving.model_files",
    "notes_of": "mgvm.saving.model_files",
    "save": "mgvm.saving.model_files",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
