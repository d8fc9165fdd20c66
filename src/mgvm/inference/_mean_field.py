"""Mean field: the best product distribution under an mGvM, and the bound of log Z that comes with it.

The optima of the free energy are found by `_coordinate_ascent` from several starts. Linear response then gives the
covariances that an optimum implies by how it answers to a small field.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_facts
from mgvm._progress import Progress, reporter
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.circle.base import CircularDistribution
from mgvm.circle.gvm import GvM, VonMises
from mgvm.inference._coordinate_ascent import (
    Ascent,
    AscentOutcome,
    Sweeper,
    circle_covariances,
    complexes,
    gvm_step,
    planes,
    sweeper,
    von_mises_step,
)
from mgvm.inference.result import ConvergenceWarning, LogNormalizer, TableOfMarginals
from mgvm.natural.parameters import Natural, TorusDistribution, dense_coupling, natural, sparse_coupling

_DISTINCT = 0.02  # two optima differ if some moment does by more than this


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """One optimum of the free energy: its value, its share e^F among those found, and the moments m₁ (D,)."""

    free_energy: float
    weight: float
    moments: ComplexArray

    def __repr__(self) -> str:
        return f"Optimum({self.moments.size} angles, free energy {self.free_energy:.6g}, weight {self.weight:.3g})"


@dataclass(frozen=True, eq=False, repr=False)
class MeanFieldResult(TableOfMarginals):
    """The best product distribution found.

    Attributes
    ----------
    converged : bool
        Whether the best start of every distribution converged.
    trace : FloatArray
        Free energy after each sweep of the best start, never falling; (sweeps,) or (sweeps, ...) for a batch.
    marginals : GvM or VonMises
        The factors, a batch (D,) or (..., D).
    free_energy : float or FloatArray
        F <= log Z, one for each distribution.
    log_normalizer : LogNormalizer or None
        The same as a number that says it is a bound; None for a batch.
    moments : ComplexArray
        m₁ = E[e^{iφ}] of each angle, (..., D).
    n_sweeps : int
        Sweeps that the best start took, the most over a batch.
    n_optima : int or array of int
        Different optima that the starts ended in with free energies within log 20 of the best.
    optima : tuple of Optimum
        All different optima found, the best first, with weights proportional to e^F; empty for a batch.
    """

    converged: bool
    trace: FloatArray
    marginals: CircularDistribution
    free_energy: float | FloatArray
    log_normalizer: LogNormalizer | None
    moments: ComplexArray
    n_sweeps: int
    n_optima: int | np.ndarray
    optima: tuple[Optimum, ...]
    _distribution: Natural

    def __repr__(self) -> str:
        batch, state = self.moments.shape[:-1], "converged" if self.converged else "not converged"
        energy = f"{batch} distributions" if batch else f"free energy {self.free_energy:.6g}"
        return f"MeanFieldResult({self.moments.shape[-1]} angles, {state}, {energy})"

    @property
    def multimodal(self) -> bool:
        """Whether some distribution has several optima of nearly equal free energy: one alone misses part of it."""
        return bool(np.max(self.n_optima) > 1)

    def linear_response(self, full: bool = True) -> LinearResponse:
        """Cov ≈ (blockdiag(V_d⁻¹) - C)⁻¹, V_d the covariance of (cos φ_d, sin φ_d) under its factor, C the coupling.

        Mean field is too sure of itself; how its optimum answers to a small change of a repairs much of that.

        Parameters
        ----------
        full : bool
            Whether to return the (2D, 2D) covariance beside the blocks of single angles.

        Examples
        --------
        >>> import numpy as np
        >>> from mgvm import MGvM
        >>> from mgvm.inference import mean_field
        >>> result = mean_field(MGvM(a=[2.0, 0.1], P=[[0, 3.0], [3.0, 0]]))
        >>> bool((result.linear_response().circular_variance > result.marginals.circular_variance()).all())
        True
        """
        if self.moments.ndim > 1:
            raise ValueError(
                "linear_response takes one distribution at a time, this result holds a batch; solve dist[i] alone"
            )
        if isinstance(self.marginals, VonMises) and self._distribution.order > 1:
            raise ValueError("linear_response needs the factors that are free to follow: use factors='gvm'")
        cc, cs, ss = circle_covariances(np.asarray(self.marginals.moment(1)), np.asarray(self.marginals.moment(2)))
        V = np.moveaxis(np.array([[cc, cs], [cs, ss]]), -1, 0)
        return _linear_response(self._distribution, np.ascontiguousarray(V), full)


def mean_field(
    dist: TorusDistribution,
    factors: str = "gvm",
    *,
    tolerance: float = 1e-8,
    max_sweeps: int = 1000,
    n_starts: int | None = None,
    start: ArrayLike | None = None,
    rng: Seed = None,
    progress: Progress = False,
) -> MeanFieldResult:
    r"""Maximise F(q) = E_q[log p̃] + Σ_d H(q_d) <= log Z over products q of GvM, or of von Mises, factors.

    Coordinate ascent: factor d is the conditional at the moments of the others, η₁ = a_d + (P m)_d + (Q conj(m))_d and
    η_t = b_t,d. F cannot fall, and is log Z where the distribution is a product. Slow sweeps are extrapolated
    (Anderson), and kept only where F did not fall.

    Parameters
    ----------
    dist : MGvM
        A distribution, or a batch of distributions that share b, P and Q.
    factors : {"gvm", "von_mises"}
        Factors of the distribution's own order, or of order 1: a lower bound still, and one mode a factor.
    tolerance : float
        Stop when no moment moved in a sweep by more than this many standard deviations of its angle.
    max_sweeps : int
        Give up, with a warning, after so many sweeps.
    n_starts : int, optional
        Starts: moments next to zero, along the couplings' leading direction, against it, then random ones. By default
        three, two above 100,000 angles, one where `start` is given.
    start : array_like of complex, optional
        Moments m₁ to start from, (D,) or batch + (D,), in the place of those next to zero.
    rng : None, int or Generator
        For random starts.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets
        (sweeps done, max_sweeps, "mean_field").

    Returns
    -------
    MeanFieldResult

    Warns
    -----
    ConvergenceWarning
        Where the best start did not converge, or where different optima have nearly equal free energy: the distribution
        is then multimodal, and a product distribution stands for only one of its parts.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.inference import mean_field
    >>> result = mean_field(MGvM(a=[1.0, 0.5], P=[[0, 0.8], [0.8, 0]]))
    >>> result.converged, round(result.free_energy, 6)
    (True, 4.105238)
    """
    parameters = natural(dist, batch=True)
    if parameters.a.size == 0:
        raise ValueError(
            f"mean_field needs at least one distribution, got an empty batch, a of shape {parameters.a.shape}"
        )
    factors = check.choice(factors, "factors", ("gvm", "von_mises"))
    tolerance = check.single_positive(tolerance, "tolerance")
    max_sweeps = check.integer(max_sweeps, "max_sweeps", minimum=1)
    step = von_mises_step if factors == "von_mises" and parameters.b.any() else gvm_step
    engine = sweeper(parameters, step)
    starts = _make_starts(parameters, engine, n_starts, start, check.generator(rng))
    count = starts.shape[1]
    a = np.repeat(parameters.a.reshape(-1, parameters.dimension), count, axis=0)
    state = engine.state(planes(a), planes(starts.reshape(-1, parameters.dimension)))
    ascent = Ascent(engine, state, np.repeat(np.arange(starts.shape[0]), count), tolerance)
    outcome = ascent.run(max_sweeps, reporter(progress, "mean_field"))
    result = _make_result(parameters, engine, factors, outcome, count)
    _warn(result, outcome, max_sweeps)
    return result


def _warn(result: MeanFieldResult, outcome: AscentOutcome, max_sweeps: int) -> None:
    """Say where the result is not to be trusted, and what to try."""
    if outcome.interrupted:
        text = "mean_field was interrupted; the result is where it stood, a bound still. Hand its moments on as `start`"
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
    elif not result.converged:
        warnings.warn(
            f"mean_field did not converge in {max_sweeps} sweeps; F is a bound still. Raise max_sweeps (and go on from "
            "here with start=result.moments), or loosen tolerance",
            ConvergenceWarning,
            stacklevel=3,
        )
    if result.multimodal:
        warnings.warn(
            f"the distribution is multimodal: starts ended in {int(np.max(result.n_optima))} optima of "
            "nearly equal free energy, and the marginals returned are those of one. Use gibbs or an exact engine, or "
            "mix result.optima by their weights",
            ConvergenceWarning,
            stacklevel=3,
        )


# ---- starts ---------------------------------------------------------------------------------------------------------


def _make_starts(
    dist: Natural, engine: Sweeper, n_starts: int | None, start: ArrayLike | None, rng: np.random.Generator
) -> ComplexArray:
    """Moments to start from, (distributions, starts, D)."""
    if n_starts is None:
        n_starts = 1 if start is not None else 2 if dist.dimension > 100_000 else 3
    n_starts = check.integer(n_starts, "n_starts", minimum=1)
    if dist.dimension == 1:
        n_starts = 1  # one sweep is exact
    batch = int(np.prod(dist.a.shape[:-1], dtype=int))
    starts = np.empty((batch, n_starts, dist.dimension), dtype=complex)
    if start is None or n_starts > 1:
        starts[:] = _default_starts(dist, n_starts, engine.multiply, rng)
    if start is not None:
        given = check.finite_complex(start, "start")
        if given.shape != dist.a.shape[-1:] and given.shape != dist.a.shape:
            raise ValueError(
                f"start must hold a moment for each angle, shape {dist.a.shape}, got {given.shape}; "
                "the marginals' moments of an earlier result will do"
            )
        if (np.abs(given) > 1.0 + 1e-9).any():
            raise ValueError(f"start must hold moments, |m| <= 1, got one of length {np.abs(given).max():g}")
        starts[:, 0] = given.reshape(-1, dist.dimension)
    return starts


def _default_starts(
    dist: Natural, count: int, multiply: Callable[[FloatArray], FloatArray], rng: np.random.Generator
) -> ComplexArray:
    """Moments (count, D) to start from: next to none, the couplings' leading direction and back, then random ones.

    Not none at all: in a distribution of even harmonics that is a saddle, and sweeps would stay there.
    """
    size = dist.dimension
    direction = _leading_direction(multiply, size)
    starts = np.empty((count, size), dtype=complex)
    starts[0] = 1e-3 * direction
    starts[1:2], starts[2:3] = 0.9 * direction, -0.9 * direction
    for i in range(3, count):
        starts[i] = rng.uniform(0.0, 1.0, size) * np.exp(1j * rng.uniform(-np.pi, np.pi, size))
    return starts


def _leading_direction(multiply: Callable[[FloatArray], FloatArray], size: int) -> ComplexArray:
    """About the eigenvector of the coupling's largest eigenvalue, largest entry 1: moments that gain most by it.

    Lanczos from a fixed vector; a rough answer is as good a start as an exact one.
    """
    angles = np.arange(size)
    start = np.stack([np.cos(0.1 * angles) + 0.2, 0.1 + 0.3 * np.sin(2.0 * angles)], axis=1)[:, :, None]
    vector = start / np.linalg.norm(start)
    basis = [vector]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(12, 2 * size)):
        image = multiply(basis[-1])
        diagonal.append(float(np.vdot(image, basis[-1])))
        # In so few steps three terms keep the basis orthogonal.
        image -= diagonal[-1] * basis[-1]
        if beside:
            image -= beside[-1] * basis[-2]
        norm = float(np.linalg.norm(image))
        if norm <= 1e-10 * (abs(diagonal[0]) + sum(beside) + 1e-300):
            break
        beside.append(norm)
        basis.append(image / norm)
    count = len(diagonal)
    weights = linalg.eigh_tridiagonal(diagonal, beside[: count - 1])[1][:, -1]
    ritz = sum(weight * known for weight, known in zip(weights, basis[:count], strict=True))
    direction = complexes(np.asarray(ritz))[0]
    return np.asarray(direction / np.abs(direction).max())


# ---- from the columns of the ascent to the result -------------------------------------------------------------------


def _make_result(dist: Natural, engine: Sweeper, factors: str, outcome: AscentOutcome, count: int) -> MeanFieldResult:
    """The result from where all columns ended, `count` starts a distribution."""
    nearly_equal = np.log(20.0)  # optima this near to the best cannot be left out of the distribution
    batch, size = dist.a.shape[:-1], dist.dimension
    moments = complexes(outcome.m).reshape(-1, count, size)
    found = _rank_optima(moments, outcome.energy.reshape(-1, count), outcome.converged.reshape(-1, count))
    best = np.arange(moments.shape[0]) * count + found.order[:, 0]
    first = np.where(np.isnan(outcome.first[..., best]), planes(dist.a.reshape(-1, size)), outcome.first[..., best])
    first = complexes(first)
    m1, energy = _evaluate_products(dist, engine, factors, planes(dist.a.reshape(-1, size)), first)
    found.energy[:, 0] = energy  # afresh: a run that was broken off has none of its own
    n_sweeps = int(outcome.sweeps[best].max())
    near = np.asarray((found.distinct & (found.energy >= found.energy[:, :1] - nearly_equal)).sum(axis=1))
    optima: tuple[Optimum, ...] = ()
    if not batch:
        optima = _list_optima(dist, moments[0][found.order[0]][found.distinct[0]], found.energy[0][found.distinct[0]])
        near = np.asarray([sum(place.free_energy >= optima[0].free_energy - nearly_equal for place in optima)])
    return MeanFieldResult(
        converged=bool(outcome.converged[best].all()),
        trace=outcome.trace[:n_sweeps, best].reshape((-1,) + batch),
        marginals=_marginals(dist, factors, first.reshape(dist.a.shape)),
        free_energy=energy.reshape(batch) if batch else float(energy[0]),
        log_normalizer=None if batch else LogNormalizer(energy[0], np.nan, method="mean-field bound"),
        moments=m1.reshape(dist.a.shape),
        n_sweeps=n_sweeps,
        n_optima=near.reshape(batch) if batch else int(near[0]),
        optima=optima,
        _distribution=dist,
    )


def _evaluate_products(
    dist: Natural, engine: Sweeper, factors: str, a: FloatArray, first: ComplexArray
) -> tuple[ComplexArray, FloatArray]:
    """Moments (n, D) and free energies (n,) of products with given first natural parameters (n, D)."""
    count, size = first.shape
    own = dist if factors == "gvm" else dist._replace(b=0.0 * dist.b)
    facts = gvm_facts(own.with_harmonics(first).reshape(count * size, -1), dist.order)
    moments = facts.moments.reshape(count, size, -1)
    m = planes(moments[..., 0])
    energy = np.einsum("dki,dki->i", m, a + 0.5 * engine.multiply(m)) + facts.entropy.reshape(count, size).sum(axis=1)
    energy += np.einsum("td,ndt->n", dist.b.conj(), moments[..., 1 : dist.order]).real
    return moments[..., 0], energy


class RankedOptima(NamedTuple):
    """Where the starts of each of L distributions ended, the best first; all (L, S)."""

    order: np.ndarray  # the start
    energy: FloatArray  # its free energy
    distinct: np.ndarray  # whether it differs from all before


def _rank_optima(moments: ComplexArray, energy: FloatArray, converged: np.ndarray) -> RankedOptima:
    """Sort starts (L, S) by free energy and mark those that found an optimum of their own; moments are (L, S, D)."""
    order = np.argsort(-energy, axis=1, kind="stable")
    energy = np.take_along_axis(energy, order, axis=1)
    ended = np.take_along_axis(converged, order, axis=1)
    rows = np.arange(order.shape[0])
    new = np.zeros(order.shape, dtype=bool)
    new[:, 0] = True
    for i in range(1, order.shape[1]):
        new[:, i] = ended[:, i]
        for j in range(i):
            apart = np.abs(moments[rows, order[:, i]] - moments[rows, order[:, j]]).max(axis=1)
            new[:, i] &= ~new[:, j] | (apart > _DISTINCT)
    return RankedOptima(order, energy, new)


def _list_optima(dist: Natural, moments: ComplexArray, energy: FloatArray) -> tuple[Optimum, ...]:
    """The different optima of one distribution; the best one twice where half a turn of all angles is a symmetry."""
    # Without odd harmonics turning all angles by half a circle changes nothing.
    if not dist.a.any() and not dist.b[1::2].any():
        turned = -moments[0]
        if np.abs(moments - turned).max(axis=1).min() > _DISTINCT:
            moments = np.concatenate([moments[:1], turned[None], moments[1:]])
            energy = np.concatenate([energy[:1], energy])
    weights = np.exp(energy - energy[0])
    weights /= weights.sum()
    return tuple(
        Optimum(float(value), float(weight), place)
        for value, weight, place in zip(energy, weights, moments, strict=True)
    )


def _marginals(dist: Natural, factors: str, first: ComplexArray) -> CircularDistribution:
    """The factors with given first natural parameters."""
    if factors == "von_mises":
        return VonMises(np.angle(first), np.abs(first))
    return GvM(dist.with_harmonics(first))


# ---- linear response ------------------------------------------------------------------------------------------------


_SINGULAR = (
    "linear response is singular here: some direction of the optimum is free (a distribution that is unchanged by "
    "turning all angles, say), so its variance is not that of one optimum; use gibbs or an exact engine"
)


@dataclass(frozen=True, eq=False, repr=False)
class LinearResponse:
    """Covariances of (cos φ, sin φ) by linear response.

    Attributes
    ----------
    blocks : FloatArray
        Covariance of (cos φ_d, sin φ_d) of each angle, (D, 2, 2).
    covariance : FloatArray or None
        Of all angles, (2D, 2D), cos and sin of an angle next to each other; None where only blocks were asked for.
    """

    blocks: FloatArray
    covariance: FloatArray | None

    def __repr__(self) -> str:
        return f"LinearResponse({len(self.blocks)} angles, {'blocks' if self.covariance is None else 'covariance'})"

    @property
    def resultant_length(self) -> FloatArray:
        """|m₁| of each angle, from tr Cov = 1 - |m₁|², which holds for points on a circle; (D,)."""
        return np.sqrt(np.clip(1.0 - np.trace(self.blocks, axis1=1, axis2=2), 0.0, 1.0))

    @property
    def circular_variance(self) -> FloatArray:
        """1 - |m₁| of each angle, (D,)."""
        spread = np.clip(np.trace(self.blocks, axis1=1, axis2=2), 0.0, 1.0)
        return spread / (1.0 + np.sqrt(1.0 - spread))


def _linear_response(dist: Natural, V: FloatArray, full: bool) -> LinearResponse:
    """Cov = (V⁻¹ - C)⁻¹ = (I - V C)⁻¹ V: the second form needs no inverse of a V that is nearly singular."""
    size = dist.dimension
    most = 5_000  # angles of which a (2D, 2D) matrix is made
    if full and size > most:
        raise ValueError(
            f"the covariance of {size} angles would fill {32 * size**2 / 1e9:.1f} GB; ask for the blocks of single "
            "angles, full=False, or for at most 5000 angles"
        )
    if dist.is_sparse and not full:
        return LinearResponse(_sparse_blocks(dist, V), None)
    if size > most:
        raise ValueError(
            f"linear response of a dense distribution needs at most {most} angles, got {size}; store P, Q sparse"
        )
    system = -np.einsum("dij,djk->dik", V, dense_coupling(dist).reshape(size, 2, 2 * size)).reshape(2 * size, 2 * size)
    np.einsum("ii->i", system)[:] += 1.0
    try:
        covariance = linalg.solve(system, linalg.block_diag(*V))
    except linalg.LinAlgError:
        raise ValueError(_SINGULAR) from None
    covariance = 0.5 * (covariance + covariance.T)
    return LinearResponse(_diagonal_blocks(covariance), covariance if full else None)


def _sparse_blocks(dist: Natural, V: FloatArray) -> FloatArray:
    """The diagonal blocks, by a sparse factorisation and unit right-hand sides a few hundred at a time."""
    size = dist.dimension
    most = 50_000  # angles, for time
    if size > most:
        raise ValueError(
            f"linear response of a sparse distribution needs at most {most} angles, got {size}; use exact_chain"
        )
    coupling = sparse_coupling(dist)
    C = sparse.bsr_array(
        (coupling.blocks.reshape(-1, 2, 2), coupling.indices, coupling.indptr), shape=(2 * size, 2 * size)
    )
    diagonal = sparse.bsr_array((V, np.arange(size), np.arange(size + 1)), shape=(2 * size, 2 * size))
    try:
        solver = splu((sparse.eye_array(2 * size) - diagonal @ C).tocsc())
    except RuntimeError:
        raise ValueError(_SINGULAR) from None
    out = np.empty((size, 2, 2))
    for begin in range(0, size, 256):
        end = min(begin + 256, size)
        right = np.zeros((2 * size, 2 * (end - begin)))
        right[2 * begin : 2 * end] = linalg.block_diag(*V[begin:end])
        out[begin:end] = _diagonal_blocks(solver.solve(right)[2 * begin : 2 * end])
    return out


def _diagonal_blocks(covariance: FloatArray) -> FloatArray:
    """The 2 x 2 blocks of every angle, made symmetric; refused where the optimum is no isolated peak."""
    size = len(covariance) // 2
    blocks = np.einsum("dkdl->dkl", covariance.reshape(size, 2, size, 2))
    variances = np.einsum("dkk->dk", blocks)
    if not (np.isfinite(variances).all() and (variances > -1e-9).all()):
        raise ValueError(_SINGULAR)
    return 0.5 * (blocks + np.swapaxes(blocks, 1, 2))
