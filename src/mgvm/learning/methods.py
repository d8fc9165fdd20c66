"""The methods by name, on rows without missing angles."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mgvm._progress import Progress
from mgvm.learning._likelihood import likelihood
from mgvm.learning._pseudo_likelihood import pseudo_likelihood
from mgvm.learning._score_matching import score_matching
from mgvm.learning.edge_design import least_rows
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import Rows
from mgvm.learning.standard_errors import score_matching_errors
from mgvm.learning.submodel import Submodel

METHODS = ("auto", "score_matching", "pseudo_likelihood", "likelihood")
EXACT = 3  # angles up to which the likelihood is exact and cheap


@dataclass(frozen=True)
class Plan:
    """How to fit: checked."""

    method: str
    penalty: float | str
    rng: np.random.Generator
    standard_errors: bool = False
    progress: Progress = False
    options: dict[str, Any] = field(default_factory=dict)

    def of(self, method: str) -> Plan:
        """The same by another method, whose options the user has not set."""
        return replace(self, method=method, penalty=0.0, options={})


def resolved(method: str, dimension: int) -> str:
    """What "auto" means."""
    if method != "auto":
        return method
    return "likelihood" if dimension <= EXACT else "pseudo_likelihood"


def complete(sample: Rows, model: Submodel, plan: Plan) -> TorusFit:
    """Fit by the plan: edges selected first where there is a penalty."""
    name = resolved(plan.method, sample.dimension)
    if plan.penalty == 0.0:
        return _FITS[name](sample, model, plan)
    if name == "score_matching" and not isinstance(plan.penalty, str):
        if plan.standard_errors:
            raise ValueError(
                "standard errors of penalised estimates do not exist; refit the selected edges, "
                "submodel=fit.edges, without penalty"
            )
        return score_matching(
            sample.x,
            submodel=model,
            order=model.order,
            weights=sample.weights,
            penalty=plan.penalty,
            progress=plan.progress,
            **plan.options,
        )
    selected = selection(sample, model, plan)
    fit = _FITS[name](sample, model.restricted(selected.edge_mask), replace(plan, penalty=0.0))
    return replace(fit, penalty=selected.penalty)


@dataclass(frozen=True)
class Selection:
    """Edges that a penalty left, and the penalty."""

    edge_mask: np.ndarray
    penalty: float


def selection(sample: Rows, model: Submodel, plan: Plan) -> Selection:
    """The edges that penalised score matching selects."""
    mask = np.zeros((model.dimension, model.dimension), dtype=bool)
    if sample.n_rows < least_rows(model):
        warnings.warn(
            f"{sample.n_rows} rows are too few to select edges by, {least_rows(model)} are needed at least: the angles "
            "are fitted as if they were independent. Give more rows",
            UserWarning,
            stacklevel=4,
        )
        return Selection(mask, np.inf)
    try:
        fit = score_matching(
            sample.x,
            submodel=model,
            order=model.order,
            weights=sample.weights,
            penalty=plan.penalty,
            progress=plan.progress,
        )
    except np.linalg.LinAlgError:  # so few rows that not even the angles' own harmonics can be told apart
        return Selection(mask, np.inf)
    mask[fit.edges[:, 0], fit.edges[:, 1]] = True
    return Selection(mask | mask.T, fit.penalty)


def _score(sample: Rows, model: Submodel, plan: Plan) -> TorusFit:
    fit = score_matching(
        sample.x,
        order=model.order,
        submodel=model,
        weights=sample.weights,
        progress=plan.progress,
        **plan.options,
    )
    if not plan.standard_errors:
        return fit
    return replace(fit, standard_errors=score_matching_errors(sample, model, fit.natural))


def _pseudo(sample: Rows, model: Submodel, plan: Plan) -> TorusFit:
    return pseudo_likelihood(
        sample.x,
        order=model.order,
        submodel=model,
        weights=sample.weights,
        standard_errors=plan.standard_errors,
        progress=plan.progress,
        **plan.options,
    )


def _likelihood(sample: Rows, model: Submodel, plan: Plan) -> TorusFit:
    return likelihood(
        sample.x,
        order=model.order,
        submodel=model,
        weights=sample.weights,
        rng=plan.rng,
        standard_errors=plan.standard_errors,
        progress=plan.progress,
        **plan.options,
    )


_FITS = {"score_matching": _score, "pseudo_likelihood": _pseudo, "likelihood": _likelihood}
