"""Learning laws on the torus: rows of angles in, natural parameters with their diagnosis out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgvm._lazy import attach

if TYPE_CHECKING:
    from mgvm.learning.edge_testing import EdgeTests as EdgeTests
    from mgvm.learning.edge_testing import edge_tests as edge_tests
    from mgvm.learning.fitting import fit_torus as fit_torus
    from mgvm.learning.likelihood_fit import likelihood as likelihood
    from mgvm.learning.penalty_selection import PenaltyPath as PenaltyPath
    from mgvm.learning.penalty_selection import penalty_path as penalty_path
    from mgvm.learning.pseudo_fit import pseudo_likelihood as pseudo_likelihood
    from mgvm.learning.result import TorusFit as TorusFit
    from mgvm.learning.score_fit import score_matching as score_matching
    from mgvm.learning.submodel import Submodel as Submodel

# No function is named like its module: importing the module would put it in the function's place.
_NAMES = {
    "EdgeTests": "mgvm.learning.edge_testing",
    "PenaltyPath": "mgvm.learning.penalty_selection",
    "edge_tests": "mgvm.learning.edge_testing",
    "penalty_path": "mgvm.learning.penalty_selection",
    "Submodel": "mgvm.learning.submodel",
    "fit_torus": "mgvm.learning.fitting",
    "likelihood": "mgvm.learning.likelihood_fit",
    "pseudo_likelihood": "mgvm.learning.pseudo_fit",
    "TorusFit": "mgvm.learning.result",
    "score_matching": "mgvm.learning.score_fit",
}

__all__ = list(_NAMES)

__getattr__, __dir__ = attach(__name__, _NAMES)
