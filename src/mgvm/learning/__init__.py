"""Learning laws on the torus: rows of angles in, natural parameters with their diagnosis out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.learning.pseudo_fit import pseudo_likelihood as pseudo_likelihood
    from mgvm.learning.result import TorusFit as TorusFit
    from mgvm.learning.score_fit import score_matching as score_matching
    from mgvm.learning.submodel import Submodel as Submodel

# No function is named like its module: importing the module would put it in the function's place.
_NAMES = {
    "Submodel": "mgvm.learning.submodel",
    "pseudo_likelihood": "mgvm.learning.pseudo_fit",
    "TorusFit": "mgvm.learning.result",
    "score_matching": "mgvm.learning.score_fit",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
