"""Maximum pseudo-likelihood: the product of the conditionals, each a GvM, instead of the joint density.

    ℓ(θ) = Σ_n w_n Σ_d log GvM(φ_nd | η_nd) / N,   η_nd = (a_d + (P z_n)_d + (Q conj(z_n))_d, b_2d, ..., b_Td):

the η are linear in θ = (a, b, P, Q), so ℓ is concave. With ε_t = z^t - E[z^t] under the conditionals its gradient is
made of Σ_n w_n ε_t and Σ_n w_n ε_1 xᵀ, x = (cos φ, sin φ); its Hessian puts in place of ε minus the covariance of
(z, ..., z^T) times the change of η. The η_1 of all rows are one product of real matrices, X C, with the coupling

    C = [[Re(P + Q), Im(Q - P)], [Im(P + Q), Re(P - Q)]],   all cosines before all sines.

Newton's method finds the maximum, its steps by conjugate gradients. Their preconditioner: with V_nd the covariance of
x_nd = (cos φ_nd, sin φ_nd) under its conditional, the Hessian on the couplings C is that of
½ Σ_n w_n tr(Cᵀ V_n C x_n x_nᵀ)/N. Were V independent of x, it would be C ↦ ½(TCS + SCT), T = mean of V, S = Cov(x),
with the mean of x put into a' = a + C·E[x]; then (a', b) have a block of their own for every angle. With Uᵀ T U = 1 and
Uᵀ S U = Λ the equation is solved by C = U Y Uᵀ, Y_ij = 2 (Uᵀ G U)_ij/(λ_i + λ_j).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._frames import column_names
from mgvm._newton import climb
from mgvm._numerics.gvm import gvm_facts
from mgvm._progress import Progress, reporter
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle import exponential_family
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning._score_matching import score_matching
from mgvm.learning.conjugate_gradients import conjugate_gradients
from mgvm.learning.result import TorusFit
from mgvm.learning.row_sums import unit_rows
from mgvm.learning.rows import (
    WeightedRows,
    as_rows,
    circular_variance,
    describe_degeneracy,
    describe_narrowness,
    refuse_single_row,
)
from mgvm.learning.score_operator import Lyapunov, block_diagonal, couplings_of, real_coupling
from mgvm.learning.standard_errors import half_covariances, pseudo_likelihood_errors, real_blocks
from mgvm.learning.submodel import Submodel, SubmodelLike, submodel_for
from mgvm.natural.parameters import Natural, TorusDistribution, concentrations, pack, unpack

# Concentration of an angle given the others that a step may reach: data that ask for more have no finite maximum.
CONCENTRATION_LIMIT = 1e6


def pseudo_likelihood(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: SubmodelLike = None,
    weights: ArrayLike | None = None,
    start: TorusDistribution | None = None,
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
        True prints lines on standard error once the run takes long; a callable gets (steps done, steps at most, text).

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
    >>> dist = MGvM(a=[2.0, 0.0, 0.0, 0.0], P=[[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> fit = pseudo_likelihood(dist.sample(5000, rng=0), order=1, submodel=[(0, 1), (1, 2), (2, 3)])
    >>> fit.converged, bool(abs(fit.P - dist.P).max() < 0.1)
    (True, True)
    """
    sample = as_rows(data, weights)
    refuse_single_row(sample, "pseudo_likelihood")
    model = submodel_for(submodel, sample, check.integer(order, "order", minimum=1))
    limit = check.single_positive(tolerance, "tolerance")
    steps = check.integer(max_iterations, "max_iterations", minimum=1)
    objective = PseudoLikelihood(sample, model.order)
    guesses = [model.embed(start)] if start is not None else _first_guesses(sample, model)
    first = max(guesses, key=objective.value) if len(guesses) > 1 else guesses[0]
    found = PseudoAscent(objective, model).climb(first, limit, steps, reporter(progress, "pseudo_likelihood"))
    _warn(found, sample, steps)
    return TorusFit(
        *found.point.dist,
        method="pseudo-likelihood",
        objective=found.point.value,
        converged=found.converged,
        gradient_norm=found.point.gradient_norm,
        n_iterations=len(found.trace) - 1,
        submodel=model,
        n_rows=sample.n_rows,
        trace=np.array(found.trace),
        standard_errors=pseudo_likelihood_errors(sample, model, found.point.dist) if standard_errors else None,
        names=column_names(data),
    )


def _first_guesses(sample: WeightedRows, model: Submodel) -> list[Natural]:
    """Independent angles, and the fit by score matching where it is finite."""
    guesses = [independent_angles(sample, model)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = score_matching(sample.x, order=model.order, submodel=model, weights=sample.weights)
    except (ValueError, np.linalg.LinAlgError):
        return guesses
    strongest = float(concentrations(fit.natural).max())
    if math.isfinite(strongest) and strongest < 1e5:
        guesses.append(model.embed(fit))
    return guesses


def independent_angles(sample: WeightedRows, model: Submodel) -> Natural:
    """Independent von Mises angles of the data's mean directions and resultants."""
    # A first guess is not made narrower than 0.0045 radians.
    variance = np.maximum(circular_variance(sample.x, sample.weights), 1e-5)
    strength, size = exponential_family.concentrations(variance), model.dimension
    b, nothing = np.zeros((model.order - 1, size), dtype=complex), np.zeros((size, size), dtype=complex)
    return model.project(Natural(strength * np.exp(1j * sample.mean_directions), b, nothing, nothing))


def _warn(found: PseudoMaximum, sample: WeightedRows, max_iterations: int) -> None:
    strength = concentrations(found.point.dist)
    cause = ""
    # Above a concentration of 1e3 columns may determine each other.
    if found.point.ran_away or (strength.max() > 1e3 and not found.converged):
        cause = describe_degeneracy(sample)
    if found.point.ran_away or cause:
        whose = int(np.argmax(strength))
        warnings.warn(
            f"pseudo_likelihood has no finite maximum here: the concentration of angle {whose} given the others "
            f"reached {strength[whose]:.2g} and was stopped (at most {CONCENTRATION_LIMIT:.0e}), because "
            f"{cause or describe_narrowness(sample, whose)}. Give more rows, leave out such columns, or couple "
            "fewer angles (submodel, or a penalty in fit_torus)",
            ConvergenceWarning,
            stacklevel=3,
        )
    elif not found.converged:
        warnings.warn(
            f"pseudo_likelihood stopped after {len(found.trace) - 1} of {max_iterations} Newton steps with a gradient "
            f"of {found.point.gradient_norm:.2g}; the next step promises {found.point.gain:.2g} of log-likelihood a "
            "row. Raise max_iterations or tolerance, or choose a smaller order or submodel",
            ConvergenceWarning,
            stacklevel=3,
        )


# ---- Newton's method -------------------------------------------------------------------------------------------------


class Expansion(NamedTuple):
    """The objective at a point, its gradient, and the Newton step."""

    value: float
    gradient: FloatArray
    step: FloatArray


class PseudoPoint:
    """θ of a distribution inside a submodel, as `climb` takes it; its Newton step is solved for when first asked."""

    def __init__(self, ascent: PseudoAscent, theta: FloatArray):
        self._ascent, self._theta = ascent, theta
        self.dist = unpack(theta, ascent.submodel.dimension, ascent.submodel.order)

    @cached_property
    def value(self) -> float:
        """ℓ(θ)."""
        return self._ascent.objective.value(self.dist)

    @cached_property
    def expansion(self) -> Expansion:
        """Objective, gradient and Newton step."""
        found = self._ascent.expand(self.dist)
        self.__dict__["value"] = found.value
        return found

    @property
    def gain(self) -> float:
        """½ g·s of the step s."""
        return 0.5 * float(self.expansion.gradient @ self.expansion.step)

    promise = gain

    @property
    def gradient_norm(self) -> float:
        """The largest entry of the gradient."""
        return float(abs(self.expansion.gradient).max())

    @property
    def ran_away(self) -> bool:
        """Whether some concentration came near the largest allowed."""
        return bool(concentrations(self.dist).max() > 0.2 * CONCENTRATION_LIMIT)

    def along(self, share: float) -> PseudoPoint | None:
        """The point after a share of the step, None where that is too concentrated."""
        point = PseudoPoint(self._ascent, self._theta + share * self.expansion.step)
        return point if concentrations(point.dist).max() <= CONCENTRATION_LIMIT else None


class PseudoMaximum(NamedTuple):
    """Where an ascent ended, with the objective a step."""

    point: PseudoPoint
    trace: list[float]
    converged: bool


class PseudoAscent:
    """What the points of a climb share: the objective, the submodel and the preconditioner."""

    def __init__(self, objective: PseudoLikelihood, submodel: Submodel):
        self.objective, self.submodel = objective, submodel
        self._precondition = HessianPreconditioner(objective.x, objective.share)

    def climb(
        self, start: Natural, tolerance: float, max_iterations: int, report: Callable[[int, int], object]
    ) -> PseudoMaximum:
        """Newton steps, each halved until the objective rises; ends when a step promises less than tolerance² a row."""
        trace: list[float] = []

        def watch(point: PseudoPoint) -> bool:
            trace.append(point.expansion.value)
            report(len(trace) - 1, max_iterations)
            return point.ran_away

        found = climb(
            PseudoPoint(self, self._project(start)),
            tolerance=tolerance**2,
            sufficient=2e-4,
            smallest_share=2.0**-39,
            max_iter=max_iterations,
            callback=watch,
        )
        point = found.point
        # Where no step rises, what is left to gain may drown in the rounding of the objective.
        drowned = len(trace) <= max_iterations and point.gain <= 1e-13 * max(1.0, abs(point.value))
        converged = found.converged or (drowned and not point.ran_away)
        return PseudoMaximum(point, trace, converged)

    def _project(self, dist: Natural) -> FloatArray:
        return pack(self.submodel.project(dist))

    def expand(self, dist: Natural) -> Expansion:
        """Preconditioned conjugate gradients on Hessian·step = gradient, the more exact the smaller the gradient.

        At most a tenth of the gradient is left, and the more digits are asked for the nearer the maximum (Dembo,
        Eisenstat and Steihaug).
        """
        size, order = dist.dimension, dist.order
        value, slope, curvature = self.objective.gradient(dist)
        gradient = self._project(slope)
        self._precondition.refresh(curvature.first)

        def apply(vector: FloatArray) -> FloatArray:
            return self._project(self.objective.product(curvature, unpack(vector, size, order)))

        def precondition(residual: FloatArray) -> FloatArray:
            return self._project(self._precondition.solve(unpack(residual, size, order)))

        iterates = conjugate_gradients(-gradient, apply, precondition, np.zeros_like(gradient))
        step, _, height = next(iterates)
        target = height * min(0.1, max(height, 0.0) ** 0.5) ** 2
        for now in islice(iterates, 200):
            step = now.theta
            if now.square <= target:
                break
        # Of angles all but determined by the others the first curvature may be lost in rounding.
        return Expansion(value, gradient, step if step.any() else precondition(gradient))


# ---- the objective ---------------------------------------------------------------------------------------------------


class ConditionalCovariances(NamedTuple):
    """Of the conditionals of some rows, d E[z] = A₁ dη₁ + B₁ conj(dη₁) + Σ_t (A_t db_t + B_t conj(db_t)).

    keep (n, D) and turn (n, D) are A₁ (real) and B₁; `mixed` (T - 1, 2, n, D) the A_t and B_t.
    """

    rows: slice
    keep: FloatArray
    turn: ComplexArray
    mixed: ComplexArray


class Curvature(NamedTuple):
    """What products with the Hessian need: the covariances by chunks of rows, and those of the harmonics, averaged.

    `harmonics` (T - 1, T - 1, 2, D) holds Σ_n w_n/N of the A and B with d E[z^t] = A db_s + B conj(db_s); `first` the
    mean covariance of (z, ..., z^T) as real matrices (D, 2T, 2T), for the preconditioner.
    """

    chunks: list[ConditionalCovariances]
    harmonics: ComplexArray
    first: FloatArray


class PseudoLikelihood:
    """ℓ of given rows and order.

    `chunk` conditionals are worked on at a time, with temporary arrays of some 30 MB; up to `double_up_to` of them the
    covariances of all are kept in double precision, 60 bytes each, and beyond in single precision.
    """

    def __init__(self, data: WeightedRows, order: int, chunk: int = 1 << 17, double_up_to: int = 1 << 22):
        self.order, self.dimension = order, data.dimension
        self.x = unit_rows(data.x)
        self.share = data.weights / data.n_rows
        step = max(1, chunk // data.dimension)
        self._chunks = [slice(k, min(k + step, data.n_rows)) for k in range(0, data.n_rows, step)]
        self._kept_as = np.dtype(complex if data.x.size <= double_up_to else np.complex64)

    def value(self, dist: Natural) -> float:
        """ℓ(θ)."""
        total, coupling = 0.0, real_coupling(dist.P, dist.Q)
        for rows in self._chunks:
            eta, z = self._conditionals(dist, coupling, rows)
            facts = gvm_facts(eta.reshape(-1, self.order), 1)
            total += self._height(rows, eta, z, facts.log_normalizer)
        return total

    def gradient(self, dist: Natural) -> tuple[float, Natural, Curvature]:
        """ℓ, its gradient in the inner product of the natural vector, and its curvature."""
        size, order, coupling = self.dimension, self.order, real_coupling(dist.P, dist.Q)
        total, error = 0.0, np.zeros((order, size), dtype=complex)
        cross = np.zeros((2 * size, 2 * size))
        chunks, spread = [], np.zeros((order, order, 2, size), dtype=complex)
        for rows in self._chunks:
            eta, z = self._conditionals(dist, coupling, rows)
            facts = gvm_facts(eta.reshape(-1, order), 2 * order)
            total += self._height(rows, eta, z, facts.log_normalizer)
            moments = facts.moments[:, : 2 * order].reshape(-1, size, 2 * order)
            error += np.array([self.share[rows] @ (z ** (t + 1) - moments[..., t]) for t in range(order)])
            cross += self._cross(rows, z - moments[..., 0])
            chunks.append(self._covariances(rows, moments, spread))
        gradient = Natural(error[0], error[1:], *coupling_gradient(cross))
        return total, gradient, Curvature(chunks, spread[1:, 1:], real_blocks(spread))

    def product(self, curvature: Curvature, change: Natural) -> Natural:
        """Minus the Hessian times a change of θ."""
        size, coupling = self.dimension, real_coupling(change.P, change.Q)
        error = np.zeros((self.order, size), dtype=complex)
        cross = np.zeros((2 * size, 2 * size))
        for part in curvature.chunks:
            field = self._field(change, coupling, part.rows)
            moved = part.keep * field + part.turn * field.conj()
            for (keep, turn), b in zip(part.mixed, change.b, strict=True):
                moved += keep * b + turn * b.conj()
            share = self.share[part.rows]
            error[0] += share @ moved
            for t, (keep, turn) in enumerate(part.mixed, start=1):
                # Cov(z^t, z) is the transpose of Cov(z, z^t): A → conj(A), B stays.
                error[t] += share @ (keep.conj() * field + turn * field.conj())
            cross += self._cross(part.rows, moved)
        blocks = curvature.harmonics
        error[1:] += np.einsum("tsd,sd->td", blocks[:, :, 0], change.b)
        error[1:] += np.einsum("tsd,sd->td", blocks[:, :, 1], change.b.conj())
        return Natural(error[0], error[1:], *coupling_gradient(cross))

    def _field(self, dist: Natural, coupling: FloatArray, rows: slice) -> ComplexArray:
        pull = self.x[rows] @ coupling
        return dist.a + (pull[:, : self.dimension] + 1j * pull[:, self.dimension :])

    def _conditionals(self, dist: Natural, coupling: FloatArray, rows: slice) -> tuple[ComplexArray, ComplexArray]:
        """η (n, D, T) and z (n, D)."""
        x = self.x[rows]
        eta = np.empty((len(x), self.dimension, self.order), dtype=complex)
        eta[..., 0] = self._field(dist, coupling, rows)
        eta[..., 1:] = dist.b.T
        return eta, x[:, : self.dimension] + 1j * x[:, self.dimension :]

    def _height(self, rows: slice, eta: ComplexArray, z: ComplexArray, log_normalizer: FloatArray) -> float:
        height = sum((eta[..., t].conj() * z ** (t + 1)).real for t in range(self.order))
        return float(self.share[rows] @ (height - log_normalizer.reshape(z.shape)).sum(axis=1))

    def _cross(self, rows: slice, error: ComplexArray) -> FloatArray:
        weighted = error * self.share[rows, None]
        return np.concatenate([weighted.real, weighted.imag], axis=1).T @ self.x[rows]

    def _covariances(self, rows: slice, moments: ComplexArray, spread: ComplexArray) -> ConditionalCovariances:
        """The covariances of some rows; adds their weighted sum to `spread` (T, T, 2, D)."""
        parts = half_covariances(moments)
        spread += self.share[rows] @ parts
        (keep, turn), mixed = parts[0, 0].astype(self._kept_as), parts[0, 1:].astype(self._kept_as)
        return ConditionalCovariances(rows, keep.real.copy(), turn.copy(), mixed)


def coupling_gradient(cross: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """Gradients in P and Q of tr(Kᵀ C(P, Q)), K = `cross` (2D, 2D): the adjoint of `real_coupling`."""
    difference, total = couplings_of(cross)
    P, Q = difference + difference.conj().T, total + total.T
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(Q, 0.0)
    return P, Q


# ---- the preconditioner ----------------------------------------------------------------------------------------------


class HessianPreconditioner:
    """For data x (N, 2D) with shares (N,), refreshed by the mean covariances of the conditionals.

    `floor` is the least eigenvalue as a part of the largest: constant and perfectly dependent angles have none.
    """

    def __init__(self, x: FloatArray, share: FloatArray, floor: float = 1e-10):
        self._floor = floor
        self._mean = share @ x
        centred = x - self._mean
        self._spread = (centred * share[:, None]).T @ centred
        self._spread += self._floor * np.trace(self._spread) / len(self._spread) * np.eye(len(self._spread))

    def refresh(self, blocks: FloatArray) -> None:
        """Take the mean covariances (D, 2T, 2T) of (z, ..., z^T) given the other angles."""
        floor = np.maximum(self._floor * np.trace(blocks, axis1=1, axis2=2), np.finfo(float).tiny)
        blocks = blocks + floor[:, None, None] * np.eye(blocks.shape[1])
        self._inverse = np.linalg.inv(blocks)
        self._couplings = Lyapunov(block_diagonal(blocks[:, :2, :2]), self._spread, 1.0, floor=self._floor)

    def solve(self, gradient: Natural) -> Natural:
        """The approximate Newton step."""
        size = gradient.dimension
        real = np.concatenate([gradient.a.real, gradient.a.imag])
        shift = coupling_gradient(np.outer(real, self._mean))
        coupling = self._couplings(real_coupling(gradient.P - shift[0], gradient.Q - shift[1]))
        # Both passages between (P, Q) and C carry a factor of 4: |C|² = 4 (½|P|² + ½|Q|²).
        P, Q = coupling_gradient(0.125 * coupling)
        rows = np.stack([gradient.a, *gradient.b], axis=1)
        nodes = np.einsum("dij,dj->di", self._inverse, np.ascontiguousarray(rows).view(float))
        harmonics = np.ascontiguousarray(nodes).view(complex).T
        pull = real_coupling(P, Q) @ self._mean
        return Natural(harmonics[0] - (pull[:size] + 1j * pull[size:]), harmonics[1:], P, Q)
