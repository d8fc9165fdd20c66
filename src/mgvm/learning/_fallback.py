"""A fit whose law lives far from its data is replaced by one whose law does not.

Around a narrow cloud of rows a law is known by its curvature alone, and many (a, b, P, Q) share it; most of them have
further modes. Fewer can hide in these, from the richest to the plainest:

* maximum likelihood, which reproduces the moments of the data (up to three angles);
* Q = 0, where angles attract each other if they vary together;
* one coupling for each pair, of its difference where the pair varies together and of its sum where one rises as the
  other falls: with positive strengths all terms of the density peak at the means, and b = 0 leaves no other peak;
* independent von Mises angles.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _remote
from mgvm.learning._methods import EXACT, Plan, complete
from mgvm.learning._rows import Rows
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel


def trusted(fit: TorusFit, sample: Rows, plan: Plan) -> TorusFit:
    """The fit, or the first below it whose draws look like the data."""
    if fit.method == "likelihood" or not _remote.needs_look(fit.natural):
        return fit
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
        signed = Submodel(model.order, model.differences & together, model.sums & apart)
        yield "pseudo-likelihood with P or Q = 0 for every edge", pseudo, signed
        plain = Submodel(1, signed.differences, signed.sums)
        yield "pseudo-likelihood with b = 0 and P or Q = 0 for every edge", pseudo, plain
    yield "independent von Mises angles", pseudo, Submodel(1, nothing, nothing)


def _signs(sample: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs vary together, and which against each other, given all other angles."""
    mean = np.angle(sample.weights @ np.exp(1j * sample.x))
    away = np.angle(np.exp(1j * (sample.x - mean))) * np.sqrt(sample.weights / sample.n_rows)[:, None]
    covariance = away.T @ away
    ridge = 1e-6 * np.trace(covariance) / len(covariance)
    precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
    return precision < 0, precision > 0
