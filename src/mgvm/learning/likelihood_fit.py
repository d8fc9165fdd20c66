"""Maximum likelihood of the mGvM: exact for up to three angles and for forests, by Gibbs chains otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._numerics.torus_frame import MOST_ANGLES
from mgvm._validation import FloatArray
from mgvm.inference._forest import forest
from mgvm.inference._law import Natural
from mgvm.inference._natural_vector import pack
from mgvm.inference._progress import Progress, reporter
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _degenerate
from mgvm.learning import _likelihood_exact as exact
from mgvm.learning._edge_statistics import EdgeStatistics
from mgvm.learning._likelihood_chain import Metric, weighted_covariance
from mgvm.learning._rows import Rows, rows
from mgvm.learning._start import choice_of, padded
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel

_HELD = 1e-3  # weight of evenly spread rows where columns are degenerate and D > 3

Report = Callable[[int, int], object]


def likelihood(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    start: Any = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
    rng: Any = None,
    progress: Progress = False,
    standard_errors: bool = False,
) -> TorusFit:
    """Maximise the mean of θ·T(φ_n) - log Z(θ), concave in θ: at the maximum E[T] under the law is that of the data.

    Up to three angles: Newton's method, log Z, E[T] and the Fisher matrix Cov(T) exact by quadrature. Free edges that
    form a forest: quasi-Newton steps, log Z and E[T] exact by messages. Otherwise: Newton steps with E[T] and Cov(T)
    from persistent Gibbs chains, started at the maximum of the pseudo-likelihood.

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
        Where to begin.
    tolerance : float
        An exact fit has converged when the Newton decrement √(g·F⁻¹g), the distance to the maximum in standard
        deviations of a single row, is below it. A sampled fit stops when chance in its draws adds less than a tenth to
        the variance that the estimate has by chance in the data, and explains what is left of the gradient.
    max_iterations : int
        Steps at most.
    rng : None, seed or Generator
        For Gibbs chains.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (steps done, steps at most).
    standard_errors : bool
        Whether to give those of the parameters, from the Fisher matrix.

    Returns
    -------
    TorusFit
        `objective` is the mean log-likelihood; `trace` that of every step (of a sampled fit, g·F⁻¹g of every step).

    Warns
    -----
    ConvergenceWarning
        When no finite maximum exists (constant columns, columns that others determine, too few rows), or steps ran out.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.learning import likelihood
    >>> law = MGvM(a=[2.0, 1.0], P=[[0, 1.5], [1.5, 0]])
    >>> fit = likelihood(law.sample(5000, rng=0), order=1)
    >>> fit.converged, bool(abs(fit.P - law.P).max() < 0.1)
    (True, True)
    """
    sample = rows(data, weights)
    model = choice_of(submodel, sample, check.integer(order, "order", minimum=1))
    limits = check.single_positive(tolerance, "tolerance"), check.integer(max_iterations, "max_iterations", minimum=1)
    first = None if start is None else model.project(padded(start, model))
    report = reporter(progress, "likelihood")
    if model.dimension <= MOST_ANGLES:
        return _exact(sample, model, first, limits, report, standard_errors)
    sample = _degenerate.several_rows(sample, "likelihood")
    if first is None:
        first = _first(sample, model)
    if _is_forest(model):
        return _chain(sample, model, first, limits, report, standard_errors)
    return _sampled(sample, model, first, limits, (report, check.generator(rng)), standard_errors)


def likelihood_from_statistics(
    mean: FloatArray,
    model: Submodel,
    start: Natural | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
) -> exact.Maximum:
    """Exact maximum likelihood of up to three angles from mean statistics (p,), in the order of the natural vector."""
    return exact.maximise(exact.problem_from_statistics(mean, model), start, tolerance, max_iterations)


def _exact(
    sample: Rows,
    model: Submodel,
    start: Natural | None,
    limits: tuple[float, int],
    report: Report,
    standard_errors: bool,
) -> TorusFit:
    found = exact.maximise(exact.problem(sample, model), start, *limits, report)
    _warn_exact(found, sample, model)
    errors = found.standard_errors
    if errors is not None:
        errors = errors / np.sqrt(sample.effective_count) if standard_errors else None
    return _fit(found.law, sample, model, (found.trace, found.gradient, found.converged), errors, found.objective)


def _fit(
    law: Natural,
    sample: Rows,
    model: Submodel,
    outcome: tuple[list[float], FloatArray, bool],
    errors: FloatArray | None,
    objective: float | None = None,
) -> TorusFit:
    trace, gradient, converged = outcome
    return TorusFit(
        *law,
        method="likelihood",
        objective=trace[-1] if objective is None else objective,
        converged=converged,
        gradient_norm=float(np.abs(gradient).max(initial=0.0)),
        n_iterations=len(trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(trace),
        standard_errors=errors,
    )


def _warn_exact(found: exact.Maximum, sample: Rows, model: Submodel) -> None:
    if found.noise:
        cause = _degenerate.description(sample.x, sample.weights)
        if not cause and sample.n_rows <= model.n_parameters:
            cause = f"{sample.n_rows:,} rows are too few for {model.n_parameters:,} parameters"
        cause = cause or "the data are so narrow that higher harmonics and couplings only describe their noise"
        text = (
            f"likelihood has no finite maximum here: the concentration reached {found.runaway:.2g}, because {cause}. "
            f"The fit is that of the data with independent noise of {found.noise:.2g} radians added to every angle, "
            'which stops it; leave out such columns, or free fewer parameters (order=1, or submodel="sine")'
        )
    elif not found.converged:
        text = (
            f"likelihood stopped after {len(found.trace) - 1} Newton steps with a gradient of "
            f"{np.abs(found.gradient).max():.2g} and a Newton decrement of {found.decrement:.2g}; raise max_iterations "
            "or tolerance, or free fewer parameters"
        )
    elif sample.n_rows <= model.n_parameters:
        text = (
            f"{sample.n_rows:,} rows determine {model.n_parameters:,} parameters: the fit describes their chance as "
            "much as their law; give more rows, or free fewer parameters (submodel, order=1, or a penalty in fit_torus)"
        )
    else:
        return
    warnings.warn(text, ConvergenceWarning, stacklevel=4)


def _first(sample: Rows, model: Submodel) -> Natural:
    """The maximum of the pseudo-likelihood."""
    from mgvm.learning.pseudo_fit import pseudo_likelihood

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = pseudo_likelihood(sample.x, order=model.order, submodel=model, weights=sample.weights)
    return padded(fit, model)


def _is_forest(model: Submodel) -> bool:
    size = model.dimension
    every = model.edges.astype(complex)
    return (
        forest(Natural(np.zeros(size, dtype=complex), np.zeros((0, size), dtype=complex), every, 0 * every)) is not None
    )


def _targets(sample: Rows, edges: EdgeStatistics) -> tuple[FloatArray, FloatArray, float]:
    """Mean statistics, their covariance, and how much of them was replaced by evenly spread rows."""
    mean, covariance = weighted_covariance(edges.of_rows(sample.x), sample.weights)
    cause = _degenerate.description(sample.x, sample.weights)
    if not cause:
        return mean, covariance, 0.0
    warnings.warn(
        f"likelihood has no finite maximum here, because {cause}. The fit is that of the data with {_HELD:g} of its "
        "rows spread evenly over the torus, which stops concentrations; leave out such columns",
        ConvergenceWarning,
        stacklevel=5,
    )
    # Evenly spread rows have mean 0 and variance ½ in every statistic.
    even = 0.5 * np.eye(mean.size) + np.outer(mean, mean)
    return (1.0 - _HELD) * mean, (1.0 - _HELD) * covariance + _HELD * even, _HELD


def _chain(
    sample: Rows,
    model: Submodel,
    first: Natural,
    limits: tuple[float, int],
    report: Report,
    standard_errors: bool,
) -> TorusFit:
    from mgvm.learning._likelihood_chain import climb

    edges = EdgeStatistics(model)
    target, covariance, held = _targets(sample, edges)
    metric = Metric.of(covariance)
    beta = edges.parameters(first) if not held else np.zeros(edges.size)
    found = climb(edges, target, metric, beta, limits, report)
    if not found.converged:
        _warn_stopped(len(found.trace), found.decrement, found.gradient)
    errors = _errors(edges, metric, sample) if standard_errors else None
    return _fit(
        edges.law(found.beta), sample, model, (found.trace, found.gradient, found.converged and not held), errors
    )


def _sampled(
    sample: Rows,
    model: Submodel,
    first: Natural,
    limits: tuple[float, int],
    tools: tuple[Report, np.random.Generator],
    standard_errors: bool,
) -> TorusFit:
    from mgvm.inference.annealing import annealed_log_normalizer
    from mgvm.learning._likelihood_sampled import climb

    report, rng = tools
    if sample.n_rows <= model.n_parameters:
        raise ValueError(
            f"{sample.n_rows} rows cannot determine {model.n_parameters} parameters: the likelihood has no maximum; "
            "give more rows, free fewer edges (submodel=), or let fit_torus(data) choose them"
        )
    edges = EdgeStatistics(model)
    target, _, held = _targets(sample, edges)
    beta = edges.parameters(first) if not held else np.zeros(edges.size)
    found = climb(edges, target, beta, sample.effective_count, limits[1], rng, report)
    if not found.converged:
        warnings.warn(
            f"likelihood stopped after {len(found.trace)} steps with a gradient of {np.abs(found.gradient).max():.2g}: "
            f"its length in standard deviations of a row is {found.decrement:.2g}, of which draws explain "
            f"{found.chance:.2g}. Raise max_iterations, or use pseudo_likelihood",
            ConvergenceWarning,
            stacklevel=3,
        )
    law = edges.law(found.beta)
    value = float(found.beta @ target) - float(annealed_log_normalizer(law, rng).log_normalizer)
    errors = _errors(edges, Metric.of(found.covariance), sample) if standard_errors else None
    outcome = (found.trace, found.gradient, found.converged and not held)
    return _fit(law, sample, model, outcome, errors, value)


def _errors(edges: EdgeStatistics, metric: Metric, sample: Rows) -> FloatArray:
    """Standard errors of the natural vector by the inverse of the statistics' covariance."""
    roots = np.sqrt((metric.inverse**2).sum(axis=0) / sample.effective_count)
    if edges.model.directions is None:
        return pack(edges.law(roots))
    # Of the sine model: each natural parameter is a turned copy of one strength.
    law = edges.law(roots)
    parts = [np.abs(np.ascontiguousarray(pack(law)).view(complex).real), np.abs(pack(law)[1::2])]
    return np.stack(parts, axis=1).ravel()


def _warn_stopped(steps: int, decrement: float, gradient: FloatArray) -> None:
    warnings.warn(
        f"likelihood stopped after {steps} steps with a gradient of {np.abs(gradient).max():.2g} and a decrement of "
        f"{decrement:.2g}; raise max_iterations or tolerance, or free fewer parameters",
        ConvergenceWarning,
        stacklevel=4,
    )
