"""Fits to rows of which some angles are missing."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.inference._natural_vector import pack
from mgvm.inference._progress import reporter
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _missing_draws, _missing_exact
from mgvm.learning._methods import EXACT, Plan, Selection, complete, resolved, selection
from mgvm.learning._rows import Rows
from mgvm.learning._start import independent, padded
from mgvm.learning.pseudo_fit import pseudo_likelihood
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel

_STEPS = {True: 500, False: 80}  # of exact and of Monte Carlo expectation-maximisation
_TOLERANCE = 1e-5
_ENOUGH = 3  # complete rows a parameter, from which they make a start


def fit(sample: Rows, model: Submodel, plan: Plan) -> TorusFit:
    """Expectation-maximisation, exact for the likelihood of up to three angles."""
    if plan.standard_errors:
        raise ValueError(
            "standard errors are not known for data with missing angles; fit bootstrap samples of the rows instead, or "
            "only the complete rows"
        )
    name = resolved(plan.method, sample.dimension)
    whole = np.asarray(~np.isnan(sample.x).any(axis=1))
    chosen = 0.0
    if plan.penalty != 0.0 and (name != "score_matching" or isinstance(plan.penalty, str)):
        picked = _selected(sample, whole, model, plan)
        model, chosen, plan = model.restricted(picked.edge_mask), picked.penalty, replace(plan, penalty=0.0)
    exact = name == "likelihood" and sample.dimension <= EXACT
    options = dict(plan.options)
    steps = check.integer(options.pop("max_iterations", _STEPS[exact]), "max_iterations", minimum=1)
    first = options.pop("start", None)
    start = _start(sample, whole, model) if first is None else model.project(padded(first, model))
    found = (
        _exact(sample, model, start, steps, **options)
        if exact
        else _sampled(sample, model, start, steps, replace(plan, method=name, options=options))
    )
    return replace(found, penalty=chosen) if chosen else found


def _sampled(sample: Rows, model: Submodel, start: Natural, steps: int, plan: Plan) -> TorusFit:
    def learn(x: FloatArray, weights: FloatArray, law: Natural) -> TorusFit:
        # Penalised paths have their own starts.
        begin: dict[str, Any] = {} if plan.penalty else {"start": law}
        own = replace(plan, progress=False, options={**plan.options, **begin})
        return complete(Rows(x, weights / weights.mean()), model, own)

    found = _missing_draws.settle(sample, learn, start, plan.rng, steps, reporter(plan.progress, "missing angles"))
    settled = found.drift <= 2.0
    if not settled:
        warnings.warn(
            f"expectation-maximisation over missing angles had not settled after {steps} fits: the square of the drift "
            f"is {found.drift:.3g} times what chance would do (at most 2 is good), the last gradient was "
            f"{found.fit.gradient_norm:.2g}. Raise max_iterations, or leave out columns with few observed angles",
            ConvergenceWarning,
            stacklevel=5,
        )
    law = model.project(found.law)
    return replace(
        found.fit,
        a=law.a,
        b=law.b,
        P=law.P,
        Q=law.Q,
        converged=settled and found.fit.converged,
        n_iterations=len(found.trace),
        trace=np.array(found.trace),
        n_rows=sample.n_rows,
    )


def _exact(sample: Rows, model: Submodel, start: Natural, steps: int, tolerance: float = _TOLERANCE) -> TorusFit:
    limit = check.single_positive(tolerance, "tolerance")
    found = _missing_exact.maximise(sample, model, start, limit, steps)
    if not found.converged:
        warnings.warn(
            f"expectation-maximisation over missing angles stopped after {steps} steps with a gradient of "
            f"{abs(found.gradient).max():.2g}; the last step gained {found.trace[-1] - found.trace[-2]:.2g} of "
            "log-likelihood a row. Raise max_iterations or tolerance",
            ConvergenceWarning,
            stacklevel=5,
        )
    return TorusFit(
        *found.law,
        method="likelihood",
        objective=found.trace[-1],
        converged=found.converged,
        gradient_norm=float(abs(found.gradient).max()),
        n_iterations=len(found.trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(found.trace),
    )


def _start(sample: Rows, whole: np.ndarray, model: Submodel) -> Natural:
    """The complete rows' fit where they are enough, else independent angles."""
    if whole.sum() >= _ENOUGH * model.n_parameters:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guess = pseudo_likelihood(
                sample.x[whole], order=model.order, submodel=model, weights=sample.weights[whole], tolerance=1e-3
            )
        if abs(pack(guess.natural)).max() < 1e4:
            return guess.natural
    return independent(sample, model)


def _selected(sample: Rows, whole: np.ndarray, model: Submodel, plan: Plan) -> Selection:
    """The edges that a penalty leaves, by the complete rows."""
    if whole.sum() < 2:
        raise ValueError(
            f"edges are selected by the complete rows, of which data has {int(whole.sum())}; give the edges in "
            "submodel, or use method='score_matching'"
        )
    w = sample.weights[whole]
    return selection(Rows(np.ascontiguousarray(sample.x[whole]), w / w.mean()), model, plan)
