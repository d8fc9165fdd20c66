"""Mean field: the best product law under an mGvM, and the bound of log Z that comes with it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.gvm import GvM
from mgvm.circle.law import CircleLaw
from mgvm.circle.von_mises import VonMises
from mgvm.inference._law import Natural, natural
from mgvm.inference._linear_response import LinearResponse, factor_covariances, linear_response
from mgvm.inference._mean_field_ascent import Ascent, Outcome
from mgvm.inference._mean_field_factors import gvm_step, von_mises_step
from mgvm.inference._mean_field_starts import complexes, default_starts, is_flip_symmetric, planes, sort_out
from mgvm.inference._mean_field_sweeps import Sweeper, sweeper
from mgvm.inference._progress import Progress, reporter
from mgvm.inference.result import ConvergenceWarning, LogNormalizer

_NEAR = float(np.log(20.0))  # optima this near to the best cannot be left out of the law
_MANY = 100_000  # angles from which on two starts are enough
_STARTS = 3


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """One optimum of the free energy: its value, its share e^F among those found, and the moments m₁ (D,)."""

    free_energy: float
    weight: float
    moments: ComplexArray

    def __repr__(self) -> str:
        return f"Optimum({self.moments.size} angles, free energy {self.free_energy:.6g}, weight {self.weight:.3g})"


@dataclass(frozen=True, eq=False, repr=False)
class MeanFieldResult:
    """The best product law found.

    Attributes
    ----------
    converged : bool
        Whether the best start of every law settled.
    trace : FloatArray
        Free energy after each sweep of the best start, never falling; (sweeps,) or (sweeps, ...) for a batch.
    marginals : GvM or VonMises
        The factors, a batch (D,) or (..., D).
    free_energy : float or FloatArray
        F <= log Z, one for each law.
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
    marginals: CircleLaw
    free_energy: Any
    log_normalizer: LogNormalizer | None
    moments: ComplexArray
    n_sweeps: int
    n_optima: Any
    optima: tuple[Optimum, ...]
    _law: Natural

    def __repr__(self) -> str:
        batch, state = self.moments.shape[:-1], "converged" if self.converged else "not converged"
        energy = f"{batch} laws" if batch else f"free energy {self.free_energy:.6g}"
        return f"MeanFieldResult({self.moments.shape[-1]} angles, {state}, {energy})"

    @property
    def multimodal(self) -> bool:
        """Whether some law has several optima of nearly equal free energy: one alone misses part of it."""
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
            raise ValueError("linear_response takes one law at a time, this result holds a batch; solve law[i] alone")
        if isinstance(self.marginals, VonMises) and self._law.order > 1:
            raise ValueError("linear_response needs the factors that are free to follow: use factors='gvm'")
        V = factor_covariances(np.asarray(self.marginals.moment(1)), np.asarray(self.marginals.moment(2)))
        return linear_response(self._law, V, full)


def mean_field(
    law: Any,
    factors: str = "gvm",
    *,
    tolerance: float = 1e-8,
    max_sweeps: int = 1000,
    n_starts: int | None = None,
    start: ArrayLike | None = None,
    rng: Any = None,
    progress: Progress = False,
) -> MeanFieldResult:
    r"""Maximise F(q) = E_q[log p̃] + Σ_d H(q_d) <= log Z over products q of GvM, or of von Mises, factors.

    Coordinate ascent: factor d is the conditional at the moments of the others, η₁ = a_d + (P m)_d + (Q conj(m))_d and
    η_t = b_t,d. F cannot fall, and is log Z where the law is a product. Slow sweeps are extrapolated (Anderson), and
    kept only where F did not fall.

    Parameters
    ----------
    law : MGvM
        A law, or a batch of laws that share b, P and Q.
    factors : {"gvm", "von_mises"}
        Factors of the law's own order, or of order 1: a lower bound still, and one mode a factor.
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
        True prints lines on standard error once the run takes long; a callable gets (sweeps done, max_sweeps).

    Returns
    -------
    MeanFieldResult

    Warns
    -----
    ConvergenceWarning
        Where the best start did not settle, or where different optima have nearly equal free energy: the law is then
        multimodal, and a product law stands for only one of its parts.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.inference import mean_field
    >>> result = mean_field(MGvM(a=[1.0, 0.5], P=[[0, 0.8], [0.8, 0]]))
    >>> result.converged, round(result.free_energy, 6)
    (True, 4.105238)
    """
    parameters = natural(law, batch=True)
    if parameters.a.size == 0:
        raise ValueError(f"mean_field needs at least one law, got an empty batch, a of shape {parameters.a.shape}")
    factors = check.choice(factors, "factors", ("gvm", "von_mises"))
    tolerance = check.single_positive(tolerance, "tolerance")
    max_sweeps = check.integer(max_sweeps, "max_sweeps", minimum=1)
    step = von_mises_step if factors == "von_mises" and parameters.b.any() else gvm_step
    engine = sweeper(parameters, step)
    starts = _starts(parameters, engine, n_starts, start, check.generator(rng))
    count = starts.shape[1]
    a = np.repeat(parameters.a.reshape(-1, parameters.dimension), count, axis=0)
    state = engine.state(planes(a), planes(starts.reshape(-1, parameters.dimension)))
    ascent = Ascent(engine, state, np.repeat(np.arange(starts.shape[0]), count), tolerance)
    outcome = ascent.run(max_sweeps, reporter(progress, "mean_field"))
    result = _result(parameters, engine, factors, outcome, count)
    _warn(result, outcome, max_sweeps)
    return result


def _starts(
    law: Natural, engine: Sweeper, n_starts: int | None, start: ArrayLike | None, rng: np.random.Generator
) -> ComplexArray:
    """Moments to start from, (laws, starts, D)."""
    if n_starts is None:
        n_starts = 1 if start is not None else 2 if law.dimension > _MANY else _STARTS
    n_starts = check.integer(n_starts, "n_starts", minimum=1)
    if law.dimension == 1:
        n_starts = 1  # one sweep is exact
    laws = int(np.prod(law.a.shape[:-1], dtype=int))
    starts = np.repeat(default_starts(law, n_starts, engine.multiply, rng)[None], laws, axis=0)
    if start is not None:
        given = check.finite_complex(start, "start")
        if given.shape != law.a.shape[-1:] and given.shape != law.a.shape:
            raise ValueError(
                f"start must hold a moment for each angle, shape {law.a.shape}, got {given.shape}; "
                "the marginals' moments of an earlier result will do"
            )
        if (np.abs(given) > 1.0 + 1e-9).any():
            raise ValueError(f"start must hold moments, |m| <= 1, got one of length {np.abs(given).max():g}")
        starts[:, 0] = given.reshape(-1, law.dimension)
    return starts


def _evaluate(law: Natural, engine: Sweeper, factors: str, a: FloatArray, first: ComplexArray) -> tuple[Any, Any]:
    """Moments (n, D) and free energies (n,) of products with given first natural parameters (n, D)."""
    count, size = first.shape
    others = np.broadcast_to(law.b.T, (count,) + law.b.T.shape)
    eta = np.concatenate([first[..., None], others if factors == "gvm" else 0.0 * others], axis=2)
    facts = gvm_facts(eta.reshape(count * size, -1), law.order)
    moments = facts.moments.reshape(count, size, -1)
    m = planes(moments[..., 0])
    energy = np.einsum("dki,dki->i", m, a + 0.5 * engine.multiply(m)) + facts.entropy.reshape(count, size).sum(axis=1)
    energy += np.einsum("ndt,ndt->n", others.conj(), moments[..., 1 : law.order]).real
    return moments[..., 0], energy


def _result(law: Natural, engine: Sweeper, factors: str, outcome: Outcome, count: int) -> MeanFieldResult:
    batch, size = law.a.shape[:-1], law.dimension
    moments = complexes(outcome.m).reshape(-1, count, size)
    found = sort_out(moments, outcome.energy.reshape(-1, count), outcome.converged.reshape(-1, count))
    best = np.arange(moments.shape[0]) * count + found.order[:, 0]
    first = np.where(np.isnan(outcome.first[..., best]), planes(law.a.reshape(-1, size)), outcome.first[..., best])
    first = complexes(first)
    m1, energy = _evaluate(law, engine, factors, planes(law.a.reshape(-1, size)), first)
    found.energy[:, 0] = energy  # afresh: a run that was broken off has none of its own
    n_sweeps = int(outcome.sweeps[best].max())
    near = np.asarray((found.distinct & (found.energy >= found.energy[:, :1] - _NEAR)).sum(axis=1))
    optima: tuple[Optimum, ...] = ()
    if not batch:
        optima = _optima(law, moments[0][found.order[0]][found.distinct[0]], found.energy[0][found.distinct[0]])
        near = np.asarray([sum(place.free_energy >= optima[0].free_energy - _NEAR for place in optima)])
    return MeanFieldResult(
        converged=bool(outcome.converged[best].all()),
        trace=outcome.trace[:n_sweeps, best].reshape((-1,) + batch),
        marginals=_marginals(law, factors, first.reshape(law.a.shape)),
        free_energy=energy.reshape(batch) if batch else float(energy[0]),
        log_normalizer=None if batch else LogNormalizer(energy[0], np.nan, method="mean-field bound"),
        moments=m1.reshape(law.a.shape),
        n_sweeps=n_sweeps,
        n_optima=near.reshape(batch) if batch else int(near[0]),
        optima=optima,
        _law=law,
    )


def _optima(law: Natural, moments: ComplexArray, energy: FloatArray) -> tuple[Optimum, ...]:
    """The different optima of one law, with the mirror image of the best where the law is its own."""
    if is_flip_symmetric(law):
        mirror = -moments[0]
        if np.abs(moments - mirror).max(axis=1).min() > 0.02:
            moments = np.concatenate([moments[:1], mirror[None], moments[1:]])
            energy = np.concatenate([energy[:1], energy])
    weights = np.exp(energy - energy[0])
    weights /= weights.sum()
    return tuple(
        Optimum(float(value), float(weight), place)
        for value, weight, place in zip(energy, weights, moments, strict=True)
    )


def _marginals(law: Natural, factors: str, first: ComplexArray) -> CircleLaw:
    if factors == "von_mises":
        return VonMises(np.angle(first), np.abs(first))
    others = np.broadcast_to(law.b.T, first.shape + (law.order - 1,))
    return GvM(np.concatenate([first[..., None], others], axis=-1))


def _warn(result: MeanFieldResult, outcome: Outcome, max_sweeps: int) -> None:
    if outcome.interrupted:
        text = "mean_field was interrupted; the result is where it stood, a bound still. Hand its moments on as `start`"
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
    elif not result.converged:
        warnings.warn(
            f"mean_field did not settle in {max_sweeps} sweeps; F is a bound still. Raise max_sweeps (and go on from "
            "here with start=result.moments), or loosen tolerance",
            ConvergenceWarning,
            stacklevel=3,
        )
    if result.multimodal:
        warnings.warn(
            f"the law is multimodal: starts ended in {int(np.max(result.n_optima))} different optima of nearly equal "
            "free energy, and the marginals returned are those of one. Use gibbs or an exact engine, or mix "
            "result.optima by their weights",
            ConvergenceWarning,
            stacklevel=3,
        )
