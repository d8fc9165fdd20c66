"""Maximum pseudo-likelihood: the product of the conditionals, each a GvM, instead of the joint density."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural, concentrations
from mgvm.inference._progress import Progress, reporter
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _degenerate
from mgvm.learning._pseudo_newton import LARGEST, Climb, climb
from mgvm.learning._pseudo_objective import PseudoLikelihood
from mgvm.learning._rows import Rows, rows
from mgvm.learning._start import choice_of, first_guess, padded
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel

_SUSPICIOUS = 1e3  # concentration of an angle given the others at which columns may determine each other


def pseudo_likelihood(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    start: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 50,
    standard_errors: bool = False,
    progress: Progress = False,
) -> TorusFit:
    """Maximise Σ_n w_n Σ_d log GvM(φ_nd | φ_n without d)/N over (a, b, P, Q): concave, without log Z.

    Practically as efficient as maximum likelihood at moderate concentrations; less so where angles depend strongly on
    each other, and blind to modes far from the data (`fit_torus` looks for them). Newton's method, its steps by
    conjugate gradients without ever forming the Hessian: O(N D²) a product. With one angle this is maximum likelihood
    of the GvM.

    Parameters
    ----------
    data : array_like, shape (N, D)
        Angles in radians.
    order : int
        Harmonics of every angle.
    submodel : None, str, matrix or list of edges, Submodel
        Which parameters are free: all, "torus graph", "differences", "sine", "independent", or the couplings of some
        edges only.
    weights : array_like, shape (N,), optional
        Weights of the rows.
    start : MGvM or TorusFit, optional
        Where to begin; by default at the fit by score matching.
    tolerance : float
        The fit has converged when the next step promises to raise the mean log pseudo-likelihood by less than
        tolerance².
    max_iterations : int
        Newton steps at most.
    standard_errors : bool
        Whether to compute those of the parameters, by the sandwich formula; for up to a few thousand parameters.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (steps done, steps at most).

    Returns
    -------
    TorusFit
        `objective` and `trace` are the mean log pseudo-likelihood, which never falls.

    Warns
    -----
    ConvergenceWarning
        When the steps ran out, or when angles are constant or determined by others, so that no finite maximum exists:
        concentrations are then stopped near 1e6.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.learning import pseudo_likelihood
    >>> law = MGvM(a=[2.0, 0.0, 0.0, 0.0], P=[[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> fit = pseudo_likelihood(law.sample(5000, rng=0), order=1, submodel=[(0, 1), (1, 2), (2, 3)])
    >>> fit.converged, bool(abs(fit.P - law.P).max() < 0.1)
    (True, True)
    """
    sample = _degenerate.several_rows(rows(data, weights), "pseudo_likelihood")
    model = choice_of(submodel, sample, check.integer(order, "order", minimum=1))
    limit = check.single_positive(tolerance, "tolerance")
    steps = check.integer(max_iterations, "max_iterations", minimum=1)
    objective = PseudoLikelihood(sample, model.order)
    first = _first(objective, sample, model, start)
    found = climb(objective, model, first, limit, steps, reporter(progress, "pseudo_likelihood"))
    _warn(found, sample, steps)
    errors = _standard_errors(sample, model, found) if standard_errors else None
    return TorusFit(
        *found.law,
        method="pseudo-likelihood",
        objective=found.value,
        converged=found.converged,
        gradient_norm=float(abs(found.gradient).max()),
        n_iterations=len(found.trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(found.trace),
        standard_errors=errors,
    )


def _first(objective: PseudoLikelihood, sample: Rows, model: Submodel, start: Any) -> Natural:
    """The start that was given, or the better of score matching and independent von Mises angles."""
    if start is not None:
        return model.project(padded(start, model))
    guesses = first_guess(sample, model)
    heights = [objective.value(guess) for guess in guesses]
    return guesses[int(np.argmax(heights))]


def _standard_errors(sample: Rows, model: Submodel, found: Climb) -> FloatArray:
    from mgvm.learning._standard_errors import pseudo_likelihood_errors

    return pseudo_likelihood_errors(sample, model, found.law)


def _warn(found: Climb, sample: Rows, max_iterations: int) -> None:
    strength = concentrations(found.law)
    ran_away = len(found.runaway) > 0
    cause = ""
    if ran_away or (strength.max() > _SUSPICIOUS and not found.converged):
        cause = _degenerate.description(sample.x, sample.weights)
    if ran_away or cause:
        whose = int(np.argmax(strength))
        warnings.warn(
            f"pseudo_likelihood has no finite maximum here: the concentration of angle {whose} given the others "
            f"reached {strength[whose]:.2g} and was stopped (at most {LARGEST:.0e}), because "
            f"{cause or _degenerate.narrowness(sample, whose)}. Give more rows, leave out such columns, or couple "
            "fewer angles (submodel, or a penalty in fit_torus)",
            ConvergenceWarning,
            stacklevel=3,
        )
    elif not found.converged:
        warnings.warn(
            f"pseudo_likelihood stopped after {len(found.trace) - 1} of {max_iterations} Newton steps with a gradient "
            f"of {abs(found.gradient).max():.2g}; the next step promises {found.promise:.2g} of log-likelihood a row. "
            "Raise max_iterations or tolerance, or choose a smaller order or submodel",
            ConvergenceWarning,
            stacklevel=3,
        )
