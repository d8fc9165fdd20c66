"""A fit whose law lives far from its data is replaced by one whose law does not.

Around a narrow cloud of rows a law is known by its curvature alone, and many (a, b, P, Q) share it; most of them have
further modes. Fewer can hide in these, from the richest to the plainest:

* maximum likelihood, which reproduces the moments of the data (up to three angles);
* Q = 0, where angles attract each other if they vary together;
* the sine model about the means μ, Σ κ_d cos(φ_d - μ_d) + sᵀGs with s = sin(φ - μ): as cos ≤ 1 - ½s², it has no other
  peak where diag(κ) - 2G is positive definite, and any small covariance can be its own;
* one coupling for each pair, of its difference where the pair varies together and of its sum where one rises as the
  other falls, and b = 0: with positive strengths all terms of the density peak at the means;
* independent von Mises angles.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._natural_vector import pack, statistics
from mgvm.inference.quadrature import exact_grid
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _degenerate, _remote
from mgvm.learning._methods import EXACT, Plan, complete
from mgvm.learning._rows import Rows
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel


def trusted(fit: TorusFit, sample: Rows, plan: Plan) -> TorusFit:
    """The fit, or the first below it whose draws look like the data."""
    if fit.method == "likelihood":
        return fit if fit.converged or sample.dimension > EXACT else _plainer(fit, sample, plan)
    if not _remote.needs_look(fit.natural):
        return fit
    if _degenerate.description(sample.x, sample.weights):
        return fit  # said already, and no law is like such data
    trouble = _remote.discrepancy(fit.natural, sample, plan.rng)
    if not trouble.serious:
        return fit
    for words, method, model in _others(fit, sample):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = complete(sample, model, plan.of(method))
        except ValueError:
            continue
        if method == "likelihood" or not _remote.discrepancy(other.natural, sample, plan.rng).serious:
            warnings.warn(
                f"the law fitted by {fit.method} has modes far from the data: {trouble}. Returned is the fit by "
                f"{words} instead; check_modes=False keeps the first",
                ConvergenceWarning,
                stacklevel=4,
            )
            return other
    warnings.warn(
        f"the law fitted by {fit.method} has modes far from the data: {trouble}; no smaller submodel did better, so it "
        "is returned as it is. Choose a submodel with fewer edges, or a mixture",
        ConvergenceWarning,
        stacklevel=4,
    )
    return fit


def _plainer(fit: TorusFit, sample: Rows, plan: Plan) -> TorusFit:
    """A likelihood fit that had to be stopped, or that of a smaller submodel where this describes the data better.

    Narrow data are nearly Gaussian: what they say of second harmonics is noise, multiplied by their concentration.
    """
    best = fit
    for method, model in _narrow_models(fit.submodel, sample):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = complete(sample, model, plan.of(method))
        try:
            height = other.objective if method == "likelihood" else _mean_log_density(other, sample)
        except (ValueError, MemoryError):  # too narrow for a grid
            continue
        best = replace(other, objective=height) if height > best.objective else best
        if best.converged:
            break
    if best is not fit:
        words = "order=1" if best.submodel.directions is None else "the sine model"
        warnings.warn(
            f"{words} has a mean log density of {best.objective:.4g} of the rows, the likelihood fit that was stopped "
            f"only {fit.objective:.4g}: returned is the fit of {words} by {best.method}; check_modes=False keeps the "
            "first",
            ConvergenceWarning,
            stacklevel=5,
        )
    return best


def _narrow_models(model: Submodel, sample: Rows) -> Iterator[tuple[str, Submodel]]:
    """Method and submodel, from the richest to the plainest."""
    if model.directions is not None:
        return
    if model.order > 1:
        yield "likelihood", Submodel(1, model.differences, model.sums)
    both = model.differences & model.sums
    if both.any():
        for method in ("likelihood", "pseudo_likelihood"):
            yield method, Submodel(1, both, both, _means(sample))


def _mean_log_density(fit: TorusFit, sample: Rows) -> float:
    height = statistics(sample.x, fit.order) @ pack(fit.natural)
    return float(sample.weights @ height / sample.weights.sum() - exact_grid(fit.natural).log_normalizer)


def _others(fit: TorusFit, sample: Rows) -> Iterator[tuple[str, str, Submodel]]:
    """Words, method and submodel of what to try, inside the submodel that was asked for."""
    model, nothing = fit.submodel, np.zeros_like(fit.submodel.sums)
    if sample.dimension <= EXACT:
        yield "maximum likelihood", "likelihood", model
    pseudo = "pseudo_likelihood"
    if fit.method == "score matching":
        yield "pseudo-likelihood", pseudo, model
    if model.directions is None:
        if (model.sums & model.differences).any():
            yield "pseudo-likelihood with Q = 0", pseudo, Submodel(model.order, model.differences, nothing)
        together, apart = _signs(sample)
        both = model.differences & model.sums
        if both.any():
            yield "pseudo-likelihood of the sine model", pseudo, Submodel(1, both, both, _means(sample))
        signed = Submodel(1, model.differences & together, model.sums & apart)
        yield "pseudo-likelihood with b = 0 and P or Q = 0 for every edge", pseudo, signed
    yield "independent von Mises angles", pseudo, Submodel(1, nothing, nothing)


def _means(sample: Rows) -> FloatArray:
    return np.angle(sample.weights @ np.exp(1j * sample.x))


def _signs(sample: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs vary together, and which against each other, given all other angles."""
    away = np.angle(np.exp(1j * (sample.x - _means(sample)))) * np.sqrt(sample.weights / sample.n_rows)[:, None]
    covariance = away.T @ away
    ridge = 1e-6 * np.trace(covariance) / len(covariance)
    precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
    return precision < 0, precision > 0
