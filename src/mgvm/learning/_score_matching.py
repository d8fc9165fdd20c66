"""Score matching: an mGvM from rows of angles by one linear system, without its normaliser.

Preconditioned conjugate gradients for Hθ = -c.

Score matching of few parameters: the matrix H itself, in one pass over the rows, and its Cholesky factor.

What rows cannot tell: too few of them, constant columns, columns that determine each other.

What learners share at their beginning: the submodel for some data, and first parameters inside it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from mgvm import _validation as check
from mgvm._progress import Progress, reporter
from mgvm._validation import FloatArray
from mgvm.circle.exponential_family import concentration
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning.group_lasso import penalised
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import Rows, as_rows, circular_spread
from mgvm.learning.score_operator import MemoryRows, Moments, ScoreOperator, Source, moments, pair_places
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural, concentrations, natural


class Quadratic(Protocol):
    """½ θᵀHθ + cᵀθ on a subspace."""

    linear: FloatArray

    def apply(self, vector: FloatArray) -> FloatArray:
        """Hθ."""

    def precondition(self, residual: FloatArray) -> FloatArray:
        """About H⁻¹r."""


class Solution(NamedTuple):
    """θ, Hθ as carried along, |Hθ + c|/|c| after every step."""

    theta: FloatArray
    product: FloatArray
    trace: list[float]


def conjugate_gradients(
    quadratic: Quadratic,
    start: FloatArray,
    tolerance: float,
    max_iterations: int,
    report: Callable[[int], object] = lambda done: None,
) -> Solution:
    """Minimise from `start` until |Hθ + c| <= tolerance |c|, rounding spoils the direction, or steps run out."""
    theta, size = start.copy(), _norm(quadratic.linear) or 1.0
    product = quadratic.apply(theta) if theta.any() else np.zeros_like(theta)
    residual = -quadratic.linear - product
    trace = [_norm(residual) / size]
    direction, before = np.zeros_like(theta), 1.0
    while trace[-1] > tolerance and len(trace) <= max_iterations:
        raised = quadratic.precondition(residual)
        now = _dot(residual, raised)
        direction = raised + theta.dtype.type(now / before) * direction
        image = quadratic.apply(direction)
        curvature = _dot(direction, image)
        if not curvature > 0.0 or not now > 0.0:
            break
        step = theta.dtype.type(now / curvature)
        theta += step * direction
        product += step * image
        residual -= step * image
        before = now
        trace.append(_norm(residual) / size)
        report(len(trace) - 1)
    return Solution(theta, product, trace)


def _dot(left: FloatArray, right: FloatArray) -> float:
    return float(np.dot(left, right))


def _norm(vector: FloatArray) -> float:
    return float(np.sqrt(np.dot(vector, vector)))


LARGEST = 600
_SINGULAR = 1e-14
_RIDGES = (1e-8, 1e-6, 1e-4, 1e-2)

# Columns: C_ij of a unit Re P_ij, Im P_ij, Re Q_ij, Im Q_ij, its entries row by row.
_BLOCK = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [1.0, 0.0, -1.0, 0.0]])


class DenseSolution(NamedTuple):
    """θ as a vector of the operator, |Hθ + c|/|c|, and the ridge that was added."""

    theta: FloatArray
    residual: float
    ridge: float


def size(dimension: int, order: int) -> int:
    """Real parameters of the full model."""
    return 2 * dimension * (order + dimension - 1)


def solve(operator: ScoreOperator) -> DenseSolution:
    """The minimiser of J inside the operator's submodel, with a growing ridge where H is singular to rounding."""
    model = operator.submodel
    basis = _basis(model)
    H = operator.source.hessian(operator.moments.mean, model.order)
    reduced = basis.T @ (basis.T @ H).T
    weights = (basis.T.multiply(_ridge_weights(operator)) @ basis).toarray()
    linear = basis.T @ _gathered(operator, operator.linear)
    for ridge in (operator.ridge, *(extra for extra in _RIDGES if extra > operator.ridge)):
        matrix = reduced + ridge * weights
        scale = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(float).tiny))
        factor = _factor(matrix, scale)
        if factor is not None:
            break
    else:
        raise FloatingPointError(f"the matrix of score matching is singular in spite of a ridge of {_RIDGES[-1]:.2g}")
    free = np.zeros(linear.size)
    for _ in range(2):  # the second pass takes back the rounding of the first
        free -= linalg.cho_solve((factor, True), (linear + matrix @ free) / scale, check_finite=False) / scale
    left = float(np.linalg.norm(linear + matrix @ free)) / (float(np.linalg.norm(linear)) or 1.0)
    return DenseSolution(_scattered(operator, basis @ free), left, ridge)


def _factor(matrix: FloatArray, scale: FloatArray) -> FloatArray | None:
    """Cholesky factor of the matrix with unit diagonal, None where it is singular to working precision."""
    scaled = matrix / np.outer(scale, scale)
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if failed:
        return None
    condition, _ = linalg.lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
    return factor if condition > _SINGULAR else None


def _ridge_weights(operator: ScoreOperator) -> FloatArray:
    """Of the operator's ½ ridge Σ s_d |θ_d|²: ½ (s_i + s_j) for an entry of C_ij = 2K_ij, which stands twice."""
    spread = operator.moments.spread
    i, j = np.triu_indices(spread.size, 1)
    return np.concatenate([np.tile(spread, 2 * operator.order), np.repeat(0.5 * (spread[i] + spread[j]), 4)])


def _basis(model: Submodel) -> sparse.csc_array:
    """Free parameters -> (α', b, C_ij row by row): orthonormal up to the length of the columns."""
    dimension = model.dimension
    i, j = np.triu_indices(dimension, 1)
    own = sparse.eye_array(2 * dimension * model.order)
    blocks = np.broadcast_to(_BLOCK, (i.size, 4, 4))
    free = np.stack([model.differences[i, j]] * 2 + [model.sums[i, j]] * 2, axis=1)
    if model.directions is not None:
        turn = np.exp(1j * model.directions)
        columns = np.arange(dimension)
        own = sparse.csc_array(
            (np.concatenate([turn.real, turn.imag]), (np.arange(2 * dimension), np.tile(columns, 2))),
            shape=(2 * dimension, dimension),
        )
        apart, together = turn[i] * turn[j].conj(), -turn[i] * turn[j]
        unit = np.stack([apart.real, apart.imag, together.real, together.imag], axis=1)
        blocks = np.einsum("kl,el->ek", _BLOCK, unit)[:, :, None]
        free = model.edges[i, j][:, None]
    width = blocks.shape[2]
    rows = np.broadcast_to(np.arange(4 * i.size).reshape(-1, 4, 1), blocks.shape)
    columns = np.broadcast_to(np.arange(width * i.size).reshape(-1, 1, width), blocks.shape)
    pairs = sparse.csc_array((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(4 * i.size, width * i.size))[
        :, np.flatnonzero(free.ravel())
    ]
    return sparse.csc_array(sparse.block_diag([own, pairs]))


def _gathered(operator: ScoreOperator, vector: FloatArray) -> FloatArray:
    """A gradient in the order of `pair_places`; ∂/∂C_ij (i < j) is ∂/∂K_ij, for C = 2K and K_ij stands twice."""
    first, harmonics, K = operator.parts(vector)
    _, places = pair_places(operator.dimension, operator.order)
    out = np.zeros(size(operator.dimension, operator.order))
    out[: first.size + harmonics.size] = vector[: first.size + harmonics.size]
    used = _off_diagonal(operator.dimension)
    out[places[used]] = K[used]
    return out


def _scattered(operator: ScoreOperator, values: FloatArray) -> FloatArray:
    """θ as a vector of the operator, from the order of `pair_places`."""
    out = np.zeros(operator.empty().size)
    first, harmonics, K = operator.parts(out)
    own = first.size + harmonics.size
    out[:own] = values[:own]
    _, places = pair_places(operator.dimension, operator.order)
    used = _off_diagonal(operator.dimension)
    K[used] = 0.5 * values[places[used]]
    return out


def _off_diagonal(dimension: int) -> np.ndarray:
    return np.tile(~np.eye(dimension, dtype=bool), (2, 2))


_CONSTANT = 1e-14
_DEPENDENT = 1e-10

# Ridges, as parts of every angle's spread: couplings of undetermined directions stay below about one over it.
FEW_ROWS = 0.1
DEPENDENCE = 1e-3


def several_rows(source: Source) -> None:
    """Refuse a single row."""
    if source.n_rows < 2:
        raise ValueError(
            "data hold a single row of positive weight, of which no density can be learnt; give at least two rows"
        )


def needed_ridge(source: Source, known: Moments, model: Submodel, stacklevel: int) -> float:
    """The ridge without which J has no minimum, 0 for sound data; refuses constant columns and warns of the rest."""
    spread = known.spread
    if spread.min() < _CONSTANT:
        column = int(np.argmin(spread))
        raise ValueError(
            f"column {column} of data is constant: its distribution would be a point without a density; leave the column out"
        )
    equations = source.n_rows * source.dimension
    if equations < model.n_parameters:
        warnings.warn(
            f"{source.n_rows:,} rows of {source.dimension:,} angles give {equations:,} equations for "
            f"{model.n_parameters:,} parameters: they are held back by a ridge of {FEW_ROWS:g}. Give more rows, "
            "penalise edges (penalty=...) or choose a smaller submodel",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return FEW_ROWS
    pair = dependent_pair(known, spread)
    if pair is not None and model.edges[pair[:2]]:
        i, j, word = pair
        warnings.warn(
            f"columns {i} and {j} of data determine each other (their {word} is constant), so their coupling has no "
            f"finite value; it is held back by a ridge of {DEPENDENCE:g}. Leave one of them out",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return DEPENDENCE
    return 0.0


def dependent_pair(known: Moments, spread: FloatArray) -> tuple[int, int, str] | None:
    """Two columns whose difference or sum is constant to rounding, and which of the two.

    With y = z - E z, |E y_i ȳ_j|² = E|y_i|² E|y_j|² (Cauchy and Schwarz) means y_i = λ y_j: a circle shrunk and shifted
    onto itself, so that φ_i - φ_j is constant, unless there are only two points; likewise E y_i y_j for sums.
    """
    size = spread.size
    C = known.covariance
    if not known.mean.any():
        m = np.concatenate([known.harmonics[1].real, known.harmonics[1].imag])
        C = C - np.outer(m, m)
    cc, cs, sc, ss = C[:size, :size], C[:size, size:], C[size:, :size], C[size:, size:]
    scale = np.outer(spread, spread)
    for word, real, imaginary in (("difference", cc + ss, sc - cs), ("sum", cc - ss, sc + cs)):
        lost = 1.0 - (real**2 + imaginary**2) / scale
        lost[np.tril_indices(size)] = 1.0
        i, j = np.unravel_index(int(np.argmin(lost)), lost.shape)
        if size > 1 and lost[i, j] < _DEPENDENT:
            return int(i), int(j), word
    return None


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
    start : distribution or TorusFit, optional
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
    >>> dist = MGvM(a=[1.0, 1.0j], P=[[0.0, 1.5], [1.5, 0.0]])
    >>> fit = score_matching(dist.sample(20_000, rng=0), submodel="differences", order=1)
    >>> fit.P[0, 1].real.round(1)
    np.float64(1.5)
    """
    harmonics = check.integer(order, "order", minimum=1)
    wanted = check.single_positive(tolerance, "tolerance")
    steps = check.integer(max_iterations, "max_iterations", minimum=1)
    source = source_of(data, weights)
    several_rows(source)
    model = chosen_submodel(source, submodel, harmonics)
    if penalty != 0.0:
        if hasattr(data, "dask"):
            raise ValueError(f"penalty={penalty!r} needs rows in memory, not a Dask array; give data.compute()")
        return penalised(as_rows(data, weights), model, penalty)
    begin = None if start is None else natural(start)
    if begin is not None and begin.dimension != source.dimension:
        raise ValueError(f"start is a distribution of {begin.dimension} angles, the data have {source.dimension}")
    return minimise(source, model, wanted, steps, begin, progress)


def source_of(data: Any, weights: Any) -> Source:
    """The rows where they are: blocks of a Dask array stay with its workers."""
    if hasattr(data, "dask"):
        from mgvm.learning.score_dask import DaskRows

        return DaskRows(data, weights)
    return MemoryRows.of(as_rows(data, weights))


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
    ridge = needed_ridge(source, known, model, stacklevel=4)
    double = ScoreOperator(source, model, np.float64, known, ridge)
    if size(source.dimension, model.order) <= LARGEST:
        answer = solve(double)
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


_NARROWEST = 1e-5  # 1 - |mean of z| below which a first guess is not made narrower


def choice_of(submodel: Any, sample: Rows, order: int) -> Submodel:
    """The submodel that was asked for; the sine model about the mean directions of the data."""
    directions = None
    if isinstance(submodel, str) and submodel == "sine":
        seen = ~np.isnan(sample.x)
        z = np.where(seen, np.exp(1j * np.where(seen, sample.x, 0.0)), 0.0)
        directions = np.angle(sample.weights @ z)
    return Submodel.of(submodel, sample.dimension, order, directions)


def padded(dist: Any, model: Submodel) -> Natural:
    """Dense parameters of a distribution with as many harmonics as the submodel has."""
    found = natural(dist)
    if found.dimension != model.dimension:
        raise ValueError(f"start is a distribution of {found.dimension} angles, the data have {model.dimension}")
    b = np.zeros((model.order - 1, model.dimension), dtype=complex)
    shared = min(len(b), len(found.b))
    b[:shared] = found.b[:shared]
    P, Q = (matrix.toarray() if found.is_sparse else np.array(matrix) for matrix in (found.P, found.Q))
    return Natural(np.array(found.a, dtype=complex), b, P, Q)


def independent(sample: Rows, model: Submodel) -> Natural:
    """Independent von Mises angles of the data's mean directions and resultants."""
    seen = ~np.isnan(sample.x)
    z = np.where(seen, np.exp(1j * np.where(seen, sample.x, 0.0)), 0.0)
    spread = np.maximum(circular_spread(sample.x, sample.weights), _NARROWEST)
    strength = np.array([concentration(float(deficit)) for deficit in spread])
    size = model.dimension
    nothing = np.zeros((size, size), dtype=complex)
    return model.project(
        Natural(
            strength * np.exp(1j * np.angle(sample.weights @ z)),
            np.zeros((model.order - 1, size), dtype=complex),
            nothing,
            nothing,
        )
    )


def first_guess(sample: Rows, model: Submodel) -> list[Natural]:
    """Independent angles, and the fit by score matching where it is finite."""
    guesses = [independent(sample, model)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = score_matching(sample.x, order=model.order, submodel=model, weights=sample.weights)
    except (ValueError, np.linalg.LinAlgError):
        return guesses
    strongest = float(concentrations(fit.natural).max())
    if math.isfinite(strongest) and strongest < 1e5:
        guesses.append(model.project(padded(fit, model)))
    return guesses
