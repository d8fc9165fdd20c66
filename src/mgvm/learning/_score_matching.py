"""Score matching: an mGvM from rows of angles by one linear system, without its normaliser.

    J(θ) = E_data[½ |∇ log p|² + Δ log p] = ½ θᵀHθ + cᵀθ

is a quadratic in the natural parameters θ. Up to some hundred parameters the matrix H is summed in one pass over the
rows and factored; beyond, preconditioned conjugate gradients need nothing but products with it (`score_operator`).
What the rows cannot tell (fewer equations than parameters, columns that determine each other) a ridge holds back, with
a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from mgvm import _validation as check
from mgvm._frames import column_names
from mgvm._progress import Progress, reporter
from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning.conjugate_gradients import conjugate_gradients
from mgvm.learning.group_lasso import fit_group_lasso
from mgvm.learning.result import TorusFit
from mgvm.learning.row_sums import DaskRows, MemoryRows, RowSource
from mgvm.learning.rows import DependentPair, as_rows
from mgvm.learning.score_operator import RowMoments, ScoreOperator, couplings_of, row_moments
from mgvm.learning.submodel import Submodel, SubmodelLike
from mgvm.natural.parameters import TorusDistribution, pack, unpack

SOLVERS = ("auto", "dense", "iterative")


def score_matching(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: SubmodelLike = None,
    weights: ArrayLike | None = None,
    penalty: float | str = 0.0,
    tolerance: float = 1e-4,
    max_iterations: int = 300,
    start: TorusDistribution | None = None,
    solver: str = "auto",
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
        Weight of the group lasso Σ_ij |(P_ij, Q_ij)|, which sets edges to zero; or how to pick it, "ebic" or
        "held-out" (see `regularization_path`), after which the edges selected are fitted without penalty.
    tolerance : float
        Largest |Hθ + c|/|c| at the end. Below 1e-5 the last steps are done in double precision.
    max_iterations : int
        Steps of conjugate gradients.
    start : distribution or TorusFit, optional
        Where the iterative solver starts.
    solver : {"auto", "dense", "iterative"}
        A Cholesky factor of H, or conjugate gradients. "auto" is dense up to 600 parameters of the full model, from
        where on conjugate gradients are faster and need less memory.
    progress : bool or callable
        Whether to print progress, or a function of (done, total, text).

    Returns
    -------
    TorusFit
        With `gradient_norm` relative to the norm of the linear term c.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.learning import score_matching
    >>> dist = MGvM(a=[1.0, 1.0j], P=[[0.0, 1.5], [1.5, 0.0]])
    >>> fit = score_matching(dist.sample(20_000, rng=0), submodel="differences", order=1)
    >>> fit.P[0, 1].real.round(1)
    np.float64(1.5)
    """
    harmonics = check.integer(order, "order", minimum=1)
    wanted = check.single_positive(tolerance, "tolerance")
    steps = check.integer(max_iterations, "max_iterations", minimum=1)
    way = check.choice(solver, "solver", SOLVERS)
    source: RowSource = DaskRows(data, weights) if hasattr(data, "dask") else MemoryRows.of(as_rows(data, weights))
    if source.n_rows < 2:
        raise ValueError(
            "data hold a single row of positive weight, of which no density can be learnt; give at least two rows"
        )
    directions = np.angle(source.harmonics(1)[1]) if isinstance(submodel, str) and submodel == "sine" else None
    model = Submodel.of(submodel, source.dimension, harmonics, directions)
    if penalty != 0.0:
        if hasattr(data, "dask"):
            raise ValueError(f"penalty={penalty!r} needs rows in memory, not a Dask array; give data.compute()")
        return replace(fit_group_lasso(as_rows(data, weights), model, penalty), names=column_names(data))
    begin = None if start is None else model.embed(start)
    known = row_moments(source, model)
    operator = ScoreOperator(source, model, np.float64, known, _needed_ridge(source, known, model, stacklevel=3))
    numbers = 2 * source.dimension * (harmonics + source.dimension - 1)  # real parameters of the full model
    if way == "dense" or (way == "auto" and numbers <= 600):
        fit = _minimize_densely(operator, wanted)
    else:
        theta = operator.empty() if begin is None else operator.vector(begin)
        fit = _minimize_iteratively(operator, theta, wanted, steps, progress)
    return replace(fit, names=column_names(data))


# ---- what rows cannot tell -------------------------------------------------------------------------------------------


def _needed_ridge(source: RowSource, known: RowMoments, model: Submodel, stacklevel: int) -> float:
    """The ridge without which J has no minimum, 0 for sound data; refuses constant columns and warns of the rest.

    Ridges are parts of every angle's spread: couplings of undetermined directions stay below about one over it.
    """
    spread = known.spread
    if spread.min() < 1e-14:
        column = int(np.argmin(spread))
        raise ValueError(
            f"column {column} of data is constant: its distribution would be a point without a density; leave the "
            "column out"
        )
    equations = source.n_rows * source.dimension
    if equations < model.n_parameters:
        ridge = 0.1
        warnings.warn(
            f"{source.n_rows:,} rows of {source.dimension:,} angles give {equations:,} equations for "
            f"{model.n_parameters:,} parameters: they are held back by a ridge of {ridge:g}. Give more rows, "
            "select edges (penalty=...) or choose a smaller submodel",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return ridge
    pair = _dependent_pair(known)
    if pair is not None and model.edges[pair.first, pair.second]:
        ridge = 1e-3
        warnings.warn(
            f"columns {pair.first} and {pair.second} of data determine each other (their {pair.kind} is constant), so "
            f"their coupling has no finite value; it is held back by a ridge of {ridge:g}. Leave one of them out",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return ridge
    return 0.0


def _dependent_pair(known: RowMoments) -> DependentPair | None:
    """Two columns whose difference or sum is constant to rounding, from moments alone (the rows may be Dask's).

    With y = z - E z, |E y_i ȳ_j|² = E|y_i|² E|y_j|² (Cauchy and Schwarz) means y_i = λ y_j: a circle shrunk and shifted
    onto itself, so that φ_i - φ_j is constant, unless there are only two points; likewise E y_i y_j for sums.
    """
    spread = known.spread
    size = spread.size
    C = known.covariance
    if not known.mean.any():
        m = np.concatenate([known.harmonics[1].real, known.harmonics[1].imag])
        C = C - np.outer(m, m)
    scale = np.outer(spread, spread)
    for kind, product in zip(("difference", "sum"), couplings_of(C), strict=True):
        lost = 1.0 - (product.real**2 + product.imag**2) / scale
        lost[np.tril_indices(size)] = 1.0
        i, j = np.unravel_index(int(np.argmin(lost)), lost.shape)
        if size > 1 and lost[i, j] < 1e-10:
            return DependentPair(int(i), int(j), kind)
    return None


# ---- solutions as fits -----------------------------------------------------------------------------------------------


def _minimize_densely(operator: ScoreOperator, tolerance: float) -> TorusFit:
    """The fit by a factor of H, with a larger ridge where H is singular to rounding."""
    answer = solve(operator)
    if answer.ridge > operator.ridge:
        warnings.warn(
            "the angles are so concentrated or dependent that their parameters cannot all be told apart in double "
            f"precision; a ridge of {answer.ridge:g} was added. Choose a smaller submodel or order",
            ConvergenceWarning,
            stacklevel=3,
        )
        operator = ScoreOperator(operator.source, operator.submodel, np.float64, operator.moments, answer.ridge)
    return _as_fit(operator, answer.theta, operator.apply(answer.theta), [answer.residual], tolerance)


def _minimize_iteratively(
    double: ScoreOperator, theta: FloatArray, tolerance: float, max_iterations: int, progress: Progress
) -> TorusFit:
    """The fit by conjugate gradients in single precision, then in double where that falls short."""
    speak = reporter(progress, "score matching")
    trace: list[float] = []
    single = ScoreOperator(double.source, double.submodel, np.float32, double.moments, double.ridge)
    # Single precision is good for a relative gradient of 1e-5. Double precision twice: again from the true gradient,
    # should rounding have parted it from the recurrence.
    for operator, reach in ((single, max(tolerance, 1e-5)), (double, tolerance), (double, tolerance)):
        begin = operator.project(theta.astype(operator.dtype))
        left: list[float] = []
        for found in conjugate_gradients(operator.linear, operator.apply, operator.precondition, begin):
            left.append(relative_gradient(operator, found.product))
            done = len(trace) + len(left) - 1
            if left[1:]:
                speak(done, max_iterations)
            if left[-1] <= reach or done >= max_iterations:
                break
        trace += left[1:]
        # On concentrated angles single precision may break down at once.
        theta = found.theta if left[-1] < left[0] else begin
        product = operator.apply(theta)
        reached = relative_gradient(operator, product) <= tolerance == reach
        if reached or len(trace) >= max_iterations:
            break
    return _as_fit(operator, theta, product, trace, tolerance)


def relative_gradient(operator: ScoreOperator, product: FloatArray) -> float:
    """|Hθ + c|/|c|."""
    return float(np.linalg.norm(product + operator.linear) / (np.linalg.norm(operator.linear) or 1.0))


def _as_fit(
    operator: ScoreOperator, theta: FloatArray, product: FloatArray, trace: list[float], tolerance: float
) -> TorusFit:
    left = relative_gradient(operator, product)
    if not left <= tolerance:
        warnings.warn(
            f"score matching stopped after {len(trace)} steps with a gradient of {left:.2g} times the linear term's, "
            f"above tolerance={tolerance:g}; raise max_iterations, select edges (penalty=...) or choose a smaller "
            "submodel or order",
            ConvergenceWarning,
            stacklevel=4,
        )
    return TorusFit(
        *operator.submodel.project(operator.dist(theta)),
        method="score matching",
        objective=operator.value(theta, product),
        converged=left <= tolerance,
        gradient_norm=left,
        n_iterations=len(trace),
        submodel=operator.submodel,
        n_rows=operator.source.n_rows,
        trace=np.array(trace),
    )


# ---- the dense matrix ------------------------------------------------------------------------------------------------


class DenseSolution(NamedTuple):
    """θ as a vector of the operator, |Hθ + c|/|c|, and the ridge that was added."""

    theta: FloatArray
    residual: float
    ridge: float


def solve(operator: ScoreOperator) -> DenseSolution:
    """The minimiser of J inside the operator's submodel, with a growing ridge where H is singular to rounding."""
    model = operator.submodel
    basis = sparse.csc_array(model.basis())
    H = operator.source.hessian(operator.moments.mean, model.order)
    reduced = basis.T @ (basis.T @ H).T
    # As the operator's ridge: the spread of an angle for its own parameters, the sum of two for a coupling.
    spread, (i, j) = operator.moments.spread, np.triu_indices(model.dimension, 1)
    shares = np.concatenate([np.tile(spread, model.order), np.tile(spread[i] + spread[j], 2)])
    weights = (basis.T.multiply(np.repeat(shares, 2)) @ basis).toarray()
    linear = basis.T @ pack(operator.centred(operator.linear))
    more = [ridge for ridge in (1e-8, 1e-6, 1e-4, 1e-2) if ridge > operator.ridge]
    for ridge in (operator.ridge, *more):
        matrix = reduced + ridge * weights
        scale = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(float).tiny))
        factor = _factor(matrix, scale)
        if factor is not None:
            break
    else:
        raise FloatingPointError(f"the matrix of score matching is singular in spite of a ridge of {ridge:.2g}")
    free = np.zeros(linear.size)
    for _ in range(2):  # the second pass takes back the rounding of the first
        free -= linalg.cho_solve((factor, True), (linear + matrix @ free) / scale, check_finite=False) / scale
    left = float(np.linalg.norm(linear + matrix @ free)) / (float(np.linalg.norm(linear)) or 1.0)
    theta = operator.from_centred(unpack(basis @ free, model.dimension, model.order))
    return DenseSolution(theta, left, ridge)


def _factor(matrix: FloatArray, scale: FloatArray) -> FloatArray | None:
    """Cholesky factor of the matrix with unit diagonal, None where it is singular to working precision."""
    scaled = matrix / np.outer(scale, scale)
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if failed:
        return None
    condition, _ = linalg.lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
    return factor if condition > 1e-14 else None
