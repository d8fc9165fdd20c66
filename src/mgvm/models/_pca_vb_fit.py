"""The search of variational Bayes for circular PCA: updates until the free energy settles, and angles dropped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.models import _pca_prior
from mgvm.models._pca_fit import Fit
from mgvm.models._pca_maximisation import Masked, Structure
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_rows import Rows
from mgvm.models._pca_statistics import Statistics
from mgvm.models._pca_vb import Belief, Scale, begin, determined, free_energy, updated, without

_USED = 0.02  # of an angle's entries in W that the data determine; below, it is dropped
_TRIAL = 40  # iterations without an angle before the two are compared
_ERROR = 0.005  # nats a row: what an angle must gain to be kept; the E-step is not exact where a row says little of it
_FAINT = 0.3  # standard deviations of the noise: size of the entries of columns that are added


@dataclass(frozen=True)
class Search:
    """How to look: rows by number of angles, the vague priors, and when to stop."""

    rows_of: Callable[[int], Rows]
    learn_prior: bool = True
    max_iter: int = 300
    tol: float = 1e-5
    report: Callable[[int, float], object] = lambda done, value: None


@dataclass(frozen=True)
class State:
    """A belief, the E-step there, and the free energies of a row since the last angle was dropped."""

    belief: Belief
    scale: Scale
    sums: Statistics
    history: list[float]
    converged: bool
    interrupted: bool = False

    @property
    def value(self) -> float:
        """Free energy of a row."""
        return self.history[-1]


def angles_to_begin_with(size: int, columns: int) -> int:
    """Of the point estimate: as many as its cosines and sines can tell apart, `size` at most."""
    return min(size, max(columns // 2, 1))


def with_faint_angles(start: Parameters, size: int, rng: np.random.Generator) -> Parameters:
    """The start with small columns for more angles, `size` in all, of which nothing is known."""
    more = size - start.size
    if more <= 0:
        return start
    rows = len(start.weights)
    faint = _FAINT * start.noise_variance**0.5 * rng.normal(size=(rows, 2, more))
    A, B, c = np.split(start.weights, [start.size, 2 * start.size], axis=1)
    eta = start.prior.resultants
    eta = np.concatenate([eta, np.zeros((len(eta), more), dtype=complex)], axis=1)
    prior = _pca_prior.von_mises(_pca_prior.weights_of(start.prior), eta)
    weights = np.concatenate([A, faint[:, 0], B, faint[:, 1], c], axis=1)
    return Parameters(weights, start.noise_variance, prior)


def settled(belief: Belief, scale: Scale, search: Search, most: int) -> State:
    """Updates until a row gains less than `tol` nats; angles that the data do not determine are dropped."""
    rows = search.rows_of(belief.parameters.size)
    sums = rows.sums(belief.parameters)
    history = [free_energy(belief, sums, scale) / sums.rows]
    converged = interrupted = False
    try:
        for step in range(1, most):
            belief = updated(belief, sums, scale, learn_prior=search.learn_prior)
            keep = np.flatnonzero(determined(belief, scale) > _USED)
            if 0 < keep.size < belief.parameters.size:
                belief, scale = without(belief, keep, sums, scale)
                rows, history = search.rows_of(keep.size), []
            sums = rows.sums(belief.parameters)
            history.append(free_energy(belief, sums, scale) / sums.rows)
            search.report(step + 1, history[-1])
            converged = len(history) > 1 and abs(history[-1] - history[-2]) < search.tol
            if converged:
                break
    except KeyboardInterrupt:
        interrupted = True
        warnings.warn(
            f"the fit was interrupted after {len(history)} iterations; what was learnt so far is kept",
            ConvergenceWarning,
            stacklevel=3,
        )
    return State(belief, scale, sums, history, converged, interrupted)


def variational_fit(Y: FloatArray, start: Parameters, structure: Structure, search: Search) -> State:
    """From a point estimate to as many angles as raise the free energy of the rows Y."""
    if not isinstance(structure, Masked):
        raise ValueError("method='vb' learns free loadings or those a mask allows; give structure=None or a mask")
    # Angles are added only to loadings that are free.
    mask = np.ones(start.weights.shape, dtype=bool)
    mask[:, -1] = structure.mask[:, -1]
    mask = structure.mask if mask.shape == structure.mask.shape else mask
    scale = Scale(float(np.nanmean(Y**2)), mask)
    best = settled(begin(start, scale), scale, search, search.max_iter)
    while best.belief.parameters.size > 1 and not best.interrupted:
        less = _one_less(best, search)
        if less.interrupted or less.value <= best.value - _ERROR:
            break
        rest = settled(less.belief, less.scale, search, search.max_iter)
        same = less.belief.parameters.size == rest.belief.parameters.size
        best = replace(rest, history=less.history + rest.history[1:] if same else rest.history)
    return best


def grown(
    Y: FloatArray,
    point: Callable[[int], tuple[Fit, Structure]],
    sizes: range,
    most: int,
    search: Search,
    rng: np.random.Generator,
) -> tuple[Fit, FloatArray]:
    """One angle more as long as it raises the free energy, each time from a new point estimate; the last has `most`.

    Angles that are too many do not just fade: the estimate shares the turns of few out to all, a maximum of its own,
    from which dropping one after the other leads nowhere.
    """
    best: State | None = None
    for size in sizes:
        start, structure = point(size)
        if start.interrupted and best is None:
            return start, np.ones(size)
        if start.interrupted:
            break
        wide = with_faint_angles(start.parameters, most, rng) if size == sizes[-1] else start.parameters
        state = variational_fit(Y, wide, structure, search)
        if best is not None and not state.value > best.value + _ERROR:
            break
        best = state
        if state.interrupted:
            break
    assert best is not None
    return Fit(best.belief.parameters, best.history, best.converged, best.interrupted), best.belief.relevance


def _one_less(state: State, search: Search) -> State:
    """Without the angle that adds the least variance."""
    keep = np.delete(np.arange(state.belief.parameters.size), np.argmin(variances(state)))
    return settled(*without(state.belief, keep, state.sums, state.scale), search, min(_TRIAL, search.max_iter))


def variances(state: State) -> FloatArray:
    """Variance of the data that each angle stands for, summed over the columns, (D,)."""
    weights, size, sums = state.belief.parameters.weights, state.belief.parameters.size, state.sums
    out = np.empty(size)
    counts = np.maximum(sums.counts, 1.0)[:, None]
    for d in range(size):
        columns = [d, size + d]
        mean = sums.second[:, -1, columns] / counts
        second = sums.second[:, columns][:, :, columns] / counts[:, :, None]
        covariance = second - mean[:, :, None] * mean[:, None, :]
        out[d] = np.einsum("mp,mpq,mq->", weights[:, columns], covariance, weights[:, columns])
    return out
