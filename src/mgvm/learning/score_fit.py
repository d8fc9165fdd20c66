"""Score matching: an mGvM from rows of angles by one linear system, without its normaliser."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural, natural
from mgvm.inference._progress import Progress, reporter
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import _score_checks, _score_dense
from mgvm.learning._penalised import penalised
from mgvm.learning._rows import rows
from mgvm.learning._score_moments import moments
from mgvm.learning._score_operator import ScoreOperator
from mgvm.learning._score_solver import conjugate_gradients
from mgvm.learning._score_source import MemoryRows, Source
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel

_SINGLE = 1e-5


def score_matching(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    penalty: float | str = 0.0,
    tolerance: float = 1e-4,
    max_iterations: int = 300,
    start: Any = None,
    progress: Progress = False,
) -> TorusFit:
    """The minimiser of J(θ) = E_data[½ |∇ log p|² + Δ log p], a quadratic in the natural parameters θ = (a, b, P, Q).

    Parameters
    ----------
    data : array_like or dask.array.Array, shape (N, D)
        Angles in radians, one row an observation. A Dask array is never gathered: its blocks of rows are summed where
        they are, in one pass for few angles, in one pass a step for many.
    order : int
        Harmonics of every angle.
    submodel : str, Submodel, boolean matrix or list of edges, optional
        Which parameters are free: "full" (default), "torus graph" (b = 0), "differences" (Q = 0), "sine",
        "independent", or which pairs of angles are coupled. The directions of the sine model are the circular means of
        the columns: its density is symmetric about them, so that they are consistent.
    weights : array_like, shape (N,), optional
        Of the rows.
    penalty : float or str
        Weight of the group penalty Σ_ij |(P_ij, Q_ij)|, which sets edges to zero; or how to pick it, "ebic" or
        "held-out" (see `penalty_path`), after which the edges selected are fitted without penalty.
    tolerance : float
        Largest |Hθ + c|/|c| at the end. Below 1e-5 the last steps are done in double precision.
    max_iterations : int
        Steps of conjugate gradients.
    start : law or TorusFit, optional
        Where to start from.
    progress : bool or callable
        Whether to print progress, or a function of (done, total).

    Returns
    -------
    TorusFit
        With `gradient_norm` relative to the norm of the linear term c.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.learning import score_matching
    >>> law = MGvM(a=[1.0, 1.0j], P=[[0.0, 1.5], [1.5, 0.0]])
    >>> fit = score_matching(law.sample(20_000, rng=0), submodel="differences", order=1)
    >>> fit.P[0, 1].real.round(1)
    np.float64(1.5)
    """
    harmonics = check.integer(order, "order", minimum=1)
    wanted = check.single_positive(tolerance, "tolerance")
    steps = check.integer(max_iterations, "max_iterations", minimum=1)
    source = source_of(data, weights)
    _score_checks.several_rows(source)
    model = chosen_submodel(source, submodel, harmonics)
    if penalty != 0.0:
        if hasattr(data, "dask"):
            raise ValueError(f"penalty={penalty!r} needs rows in memory, not a Dask array; give data.compute()")
        return penalised(rows(data, weights), model, penalty)
    begin = None if start is None else natural(start)
    if begin is not None and begin.dimension != source.dimension:
        raise ValueError(f"start is a law of {begin.dimension} angles, the data have {source.dimension}")
    return minimise(source, model, wanted, steps, begin, progress)


def source_of(data: Any, weights: Any) -> Source:
    """The rows where they are: blocks of a Dask array stay with its workers."""
    if hasattr(data, "dask"):
        from mgvm.learning._score_dask import DaskRows

        return DaskRows(data, weights)
    return MemoryRows.of(rows(data, weights))


def chosen_submodel(source: Source, choice: Any, order: int) -> Submodel:
    """The submodel, with the circular means of the columns for the sine model."""
    directions = np.angle(source.harmonics(1)[1]) if isinstance(choice, str) and choice == "sine" else None
    return Submodel.of(choice, source.dimension, order, directions)


def minimise(
    source: Source,
    model: Submodel,
    tolerance: float,
    max_iterations: int,
    start: Natural | None = None,
    progress: Progress = False,
) -> TorusFit:
    """Fit by the dense matrix where it is small, else by conjugate gradients, in single precision as far as it goes."""
    known = moments(source, model)
    ridge = _score_checks.needed_ridge(source, known, model, stacklevel=4)
    double = ScoreOperator(source, model, np.float64, known, ridge)
    if _score_dense.size(source.dimension, model.order) <= _score_dense.LARGEST:
        answer = _score_dense.solve(double)
        if answer.ridge > ridge:
            warnings.warn(
                "the angles are so concentrated or dependent that their parameters cannot all be told apart in double "
                f"precision; a ridge of {answer.ridge:g} was added. Choose a smaller submodel or order",
                ConvergenceWarning,
                stacklevel=3,
            )
            double = ScoreOperator(source, model, np.float64, known, answer.ridge)
        return _fit(double, answer.theta, double.apply(answer.theta), [answer.residual], tolerance)
    begin = double.empty() if start is None else double.project(double.vector(start))
    return _fit(*_descend(double, begin, tolerance, max_iterations, progress), tolerance)


def _descend(
    double: ScoreOperator, theta: FloatArray, tolerance: float, max_iterations: int, progress: Progress
) -> tuple[ScoreOperator, FloatArray, FloatArray, list[float]]:
    """Conjugate gradients in single precision, then in double where that falls short."""
    speak = reporter(progress, "score matching")
    trace: list[float] = []
    single = ScoreOperator(double.source, double.submodel, np.float32, double.moments, double.ridge)
    # Double precision twice: again from the true gradient, should rounding have parted it from the recurrence.
    for operator, reach in ((single, max(tolerance, _SINGLE)), (double, tolerance), (double, tolerance)):
        done = len(trace)
        begin = operator.project(theta.astype(operator.dtype))
        found = conjugate_gradients(
            operator,
            begin,
            reach,
            max_iterations - done,
            lambda more, done=done: speak(done + more, max_iterations),  # type: ignore[misc]
        )
        trace += found.trace[1:]
        # On concentrated angles single precision may break down at once.
        theta = found.theta if found.trace[-1] < found.trace[0] else begin
        product = operator.apply(theta)
        reached = relative_gradient(operator, product) <= tolerance == reach
        if reached or len(trace) >= max_iterations:
            break
    return operator, theta, product, trace


def relative_gradient(operator: ScoreOperator, product: FloatArray) -> float:
    """|Hθ + c|/|c|."""
    return float(np.linalg.norm(product + operator.linear) / (np.linalg.norm(operator.linear) or 1.0))


def _fit(
    operator: ScoreOperator, theta: FloatArray, product: FloatArray, trace: list[float], tolerance: float
) -> TorusFit:
    left = relative_gradient(operator, product)
    if not left <= tolerance:
        warnings.warn(
            f"score matching stopped after {len(trace)} steps with a gradient of {left:.2g} times the linear term's, "
            f"above tolerance={tolerance:g}; raise max_iterations, penalise edges (penalty=...) or choose a smaller "
            "submodel or order",
            ConvergenceWarning,
            stacklevel=4,
        )
    return TorusFit(
        *operator.submodel.project(operator.law(theta)),
        method="score matching",
        objective=operator.value(theta, product),
        converged=left <= tolerance,
        gradient_norm=left,
        n_iterations=len(trace),
        submodel=operator.submodel,
        n_rows=operator.source.n_rows,
        trace=np.array(trace),
    )
