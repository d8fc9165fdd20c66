"""Variational Bayes for circular PCA: as many angles as the data support.

Rows W_m of W are Gaussian, and the precision τ of the noise has a Gamma distribution. With w = (v, 1) and one precision
α_d for both columns of angle d,

    y_m ~ N(W_m·w, 1/τ),  W_m ~ N(0, Λ⁻¹), Λ = diag(α, α, β),  τ ~ Gamma(a₀, b₀),  φ ~ its prior,

and q(φ, W, τ) = Π_n q(φ_n) Π_m q(W_m) q(τ). Each factor is the best one given the others:

    q(φ_n): exp E[log p(y_n | φ)] p(φ), exp(hᵀv - ½vᵀGv) with E[W_mW_mᵀ] = W̄_mW̄_mᵀ + S_m in the place of W_mW_mᵀ
    q(W_m): N(W̄_m, S_m), S_m = (τ̄ Σ E[wwᵀ] + Λ)⁻¹, W̄_m = τ̄ S_m Σ y_m E[w], over the rows in which entry m was seen
    q(τ):   Gamma(a, b), a = a₀ + ½ entries, b = b₀ + ½ Σ E(y_m - W_m·w)²

α and the prior of the angles are maximised: α_d = entries of A_d and B_d over Σ E[their squares]. The free energy is

    F = Σ_n log Z_n + ½ entries (E[log τ] - log τ̄) - Σ_m KL(q(W_m) | p(W_m)) - KL(q(τ) | p(τ)) <= log p(Y),

Z_n the normaliser of q(φ_n) with the noise variance 1/τ̄, which `expectation` gives: ½ entries log τ̄ is part of it. No
update lowers F but by the error of the E-step.

An angle whose columns are not needed has α without bound: W̄ and the prior's and the posterior's distributions of W
agree there, and dropping it changes nothing in F; the angle's prior is dropped with it. After that the weakest angle is
left out on trial, its mean moved into the offset, for as long as F gains by it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.pca import priors
from mgvm.pca.e_step import Engine, Parameters, Statistics
from mgvm.pca.em import EMFit, EMOptions, make_reporter, residual
from mgvm.pca.rows import Rows
from mgvm.pca.skeleton import MaskedMap, Structure

_SHAPE = 1e-3  # a₀; b₀ is that times the mean square of the data
_VAGUE = 1e-6  # β, in units of the mean square of the data


class Belief(NamedTuple):
    """What is known of the parameters: `parameters` has W̄, 1/τ̄, the prior and all S_m as spread; α; a and b of τ."""

    parameters: Parameters
    relevance: FloatArray
    shape: float
    rate: float


class Scale(NamedTuple):
    """Of the vague priors: the mean square of the data, and which entries of W may differ from 0, (M, 2D + 1)."""

    square: float
    mask: np.ndarray


def precisions(relevance: FloatArray, scale: Scale) -> FloatArray:
    """The diagonal of Λ."""
    return np.concatenate([relevance, relevance, [_VAGUE / scale.square]])


def begin_belief(start: Parameters, scale: Scale) -> Belief:
    """W is known to be `start`, to within a thousandth of the noise."""
    size, spread = start.size, np.zeros((*start.weights.shape, start.weights.shape[1]))
    for m, used in enumerate(scale.mask):
        spread[m][used, used] = 1e-3 * start.noise_variance
    belief = Belief(start._replace(spread=spread), np.ones(size), 1.0, start.noise_variance)
    return belief._replace(relevance=_relevance(belief, scale))


def update_belief(belief: Belief, sums: Statistics, scale: Scale, rounds: int = 5) -> Belief:
    """q(W), α and q(τ) in turn, so many rounds given the moments of the angles; then the prior of the angles."""
    for _ in range(rounds):
        belief = _update_weights(belief, sums, scale)
        belief = belief._replace(relevance=_relevance(belief, scale))
        belief = _update_noise(belief, sums, scale)
    prior = priors.fit_prior(sums.shares, sums.sums, belief.parameters.prior)
    return belief._replace(parameters=belief.parameters._replace(prior=prior))


def _update_weights(belief: Belief, sums: Statistics, scale: Scale) -> Belief:
    """With q(W_m) of every row of W."""
    tau, diagonal = 1.0 / belief.parameters.noise_variance, precisions(belief.relevance, scale)
    weights, spread = np.zeros(scale.mask.shape), np.zeros((*scale.mask.shape, scale.mask.shape[1]))
    for m, allowed in enumerate(scale.mask):
        used = np.flatnonzero(allowed)
        here = np.ix_(used, used)
        spread[m][here] = np.linalg.inv(tau * sums.second[m][here] + np.diag(diagonal[used]))
        weights[m, used] = tau * spread[m][here] @ sums.cross[m, used]
    return belief._replace(parameters=belief.parameters._replace(weights=weights, spread=spread))


def _squares(parameters: Parameters) -> FloatArray:
    """E[W²], (M, 2D + 1)."""
    assert parameters.spread is not None
    return np.asarray(parameters.weights**2 + np.einsum("mpp->mp", parameters.spread))


def _of_angles(values: FloatArray) -> FloatArray:
    """Sums over the entries of A_d and B_d."""
    columns = values.sum(axis=0)
    size = (len(columns) - 1) // 2
    return np.asarray(columns[:size] + columns[size:-1], dtype=np.float64)


def _relevance(belief: Belief, scale: Scale) -> FloatArray:
    """α of every angle, (D,)."""
    return np.asarray(_of_angles(scale.mask) / _of_angles(_squares(belief.parameters)))


def _update_noise(belief: Belief, sums: Statistics, scale: Scale) -> Belief:
    """With q(τ)."""
    parameters = belief.parameters
    assert parameters.spread is not None
    left = residual(sums, parameters.weights) + float(np.einsum("mpq,mpq->", parameters.spread, sums.second))
    shape = _SHAPE + 0.5 * float(sums.counts.sum())
    rate = _SHAPE * scale.square + 0.5 * max(left, 0.0)
    return Belief(parameters._replace(noise_variance=rate / shape), belief.relevance, shape, rate)


def free_energy(belief: Belief, sums: Statistics, scale: Scale) -> float:
    """F of the module's docstring; `sums` are those of an E-step at this belief."""
    entries = float(sums.counts.sum())
    noise = 0.5 * entries * float(digamma(belief.shape) - np.log(belief.shape))
    return sums.log_likelihood + noise - _weights_divergence(belief, scale) - _noise_divergence(belief, scale)


def _weights_divergence(belief: Belief, scale: Scale) -> float:
    """Σ_m KL(q(W_m) | p(W_m)) = ½ Σ_m (tr ΛE[W_mW_mᵀ] - entries - log|Λ| - log|S_m|)."""
    diagonal, squares, total = precisions(belief.relevance, scale), _squares(belief.parameters), 0.0
    assert belief.parameters.spread is not None
    for m, allowed in enumerate(scale.mask):
        used = np.flatnonzero(allowed)
        log_determinant = float(np.linalg.slogdet(belief.parameters.spread[m][np.ix_(used, used)])[1])
        total += float(diagonal[used] @ squares[m, used] - np.log(diagonal[used]).sum()) - used.size - log_determinant
    return 0.5 * total


def _noise_divergence(belief: Belief, scale: Scale) -> float:
    """KL between Gamma distributions of the same variable."""
    a, b, a0, b0 = belief.shape, belief.rate, _SHAPE, _SHAPE * scale.square
    more = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0)
    return float(more + a0 * (np.log(b) - np.log(b0)) + a * (b0 / b - 1.0))


def determined_shares(belief: Belief, scale: Scale) -> FloatArray:
    """The share of each angle's entries in W that the data determine, (D,): 1 - mean of α S."""
    assert belief.parameters.spread is not None
    variances = np.einsum("mpp->mp", belief.parameters.spread)
    return np.asarray(1.0 - belief.relevance * _of_angles(variances) / _of_angles(scale.mask))


def drop_angles(belief: Belief, keep: np.ndarray, sums: Statistics, scale: Scale) -> tuple[Belief, Scale]:
    """The belief about some of the angles (indices); what the others add in the mean becomes part of the offset."""
    parameters, size = belief.parameters, belief.parameters.size
    assert parameters.spread is not None
    columns = np.concatenate([keep, size + keep, [2 * size]])
    lost = np.setdiff1d(np.arange(2 * size), columns)
    weights = parameters.weights[:, columns].copy()
    means = sums.second[:, -1, :] / np.maximum(sums.counts, 1.0)[:, None]
    weights[:, -1] += scale.mask[:, -1] * np.einsum("mp,mp->m", parameters.weights[:, lost], means[:, lost])
    prior = priors.von_mises(priors.weights_of(parameters.prior), parameters.prior.resultants[:, keep])
    spread = np.ascontiguousarray(parameters.spread[:, columns][:, :, columns])
    fewer = Parameters(weights, parameters.noise_variance, prior, spread)
    return belief._replace(parameters=fewer, relevance=belief.relevance[keep]), Scale(
        scale.square, scale.mask[:, columns]
    )


@dataclass(frozen=True)
class VariationalSearch:
    """The rows, their E-step by number of angles, and how to look for the number of angles.

    Attributes
    ----------
    min_determined : float
        Share of an angle's entries in W that the data determine; below, it is dropped.
    trial_iter : int
        Iterations without an angle before the two are compared.
    min_gain : float
        Nats a row that an angle must gain to be kept; the E-step is not exact where a row says little of it.
    """

    rows: Rows
    engine_of: Callable[[int], Engine]
    options: EMOptions
    min_determined: float = 0.02
    trial_iter: int = 40
    min_gain: float = 0.005


@dataclass(frozen=True)
class VariationalState:
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


def add_faint_angles(start: Parameters, size: int, rng: np.random.Generator, faint: float = 0.3) -> Parameters:
    """The start with small columns for more angles, `size` in all, of which nothing is known.

    Their entries are of size `faint` in standard deviations of the noise.
    """
    more = size - start.size
    if more <= 0:
        return start
    rows = len(start.weights)
    columns = faint * start.noise_variance**0.5 * rng.normal(size=(rows, 2, more))
    A, B, c = np.split(start.weights, [start.size, 2 * start.size], axis=1)
    eta = start.prior.resultants
    eta = np.concatenate([eta, np.zeros((len(eta), more), dtype=complex)], axis=1)
    prior = priors.von_mises(priors.weights_of(start.prior), eta)
    weights = np.concatenate([A, columns[:, 0], B, columns[:, 1], c], axis=1)
    return Parameters(weights, start.noise_variance, prior)


def run_updates(belief: Belief, scale: Scale, search: VariationalSearch, most: int) -> VariationalState:
    """Updates until a row gains less than `tol` nats; angles that the data do not determine are dropped."""
    engine, report = search.engine_of(belief.parameters.size), make_reporter(search.options)
    sums = search.rows.sums(belief.parameters, engine)
    history = [free_energy(belief, sums, scale) / sums.rows]
    converged = interrupted = False
    try:
        for step in range(1, most):
            belief = update_belief(belief, sums, scale)
            keep = np.flatnonzero(determined_shares(belief, scale) > search.min_determined)
            if 0 < keep.size < belief.parameters.size:
                belief, scale = drop_angles(belief, keep, sums, scale)
                engine, history = search.engine_of(keep.size), []
            sums = search.rows.sums(belief.parameters, engine)
            history.append(free_energy(belief, sums, scale) / sums.rows)
            report(step + 1, history[-1])
            converged = len(history) > 1 and abs(history[-1] - history[-2]) < search.options.tol
            if converged:
                break
    except KeyboardInterrupt:
        interrupted = True
        warnings.warn(
            f"the fit was interrupted after {len(history)} iterations; what was learnt so far is kept",
            ConvergenceWarning,
            stacklevel=3,
        )
    return VariationalState(belief, scale, sums, history, converged, interrupted)


def variational_fit(
    Y: FloatArray, start: Parameters, structure: Structure, search: VariationalSearch
) -> VariationalState:
    """From a point estimate to as many angles as raise the free energy of the rows Y."""
    if not isinstance(structure, MaskedMap):
        raise ValueError("method='vb' learns free loadings or those a mask allows; give structure=None or a mask")
    # Angles are added only to loadings that are free.
    mask = np.ones(start.weights.shape, dtype=bool)
    mask[:, -1] = structure.mask[:, -1]
    mask = structure.mask if mask.shape == structure.mask.shape else mask
    scale = Scale(float(np.nanmean(Y**2)), mask)
    best = run_updates(begin_belief(start, scale), scale, search, search.options.max_iter)
    while best.belief.parameters.size > 1 and not best.interrupted:
        less = _drop_weakest(best, search)
        if less.interrupted or less.value <= best.value - search.min_gain:
            break
        rest = run_updates(less.belief, less.scale, search, search.options.max_iter)
        same = less.belief.parameters.size == rest.belief.parameters.size
        best = replace(rest, history=less.history + rest.history[1:] if same else rest.history)
    return best


def grow_angles(
    Y: FloatArray,
    point: Callable[[int], tuple[EMFit, Structure]],
    sizes: range,
    most: int,
    search: VariationalSearch,
    rng: np.random.Generator,
) -> tuple[EMFit, FloatArray]:
    """One angle more as long as it raises the free energy, each time from a new point estimate; the last has `most`.

    Angles that are too many do not just fade: the estimate shares the turns of few out to all, a maximum of its own,
    from which dropping one after the other leads nowhere.
    """
    best: VariationalState | None = None
    for size in sizes:
        start, structure = point(size)
        if start.interrupted and best is None:
            return start, np.ones(size)
        if start.interrupted:
            break
        wide = add_faint_angles(start.parameters, most, rng) if size == sizes[-1] else start.parameters
        state = variational_fit(Y, wide, structure, search)
        if best is not None and not state.value > best.value + search.min_gain:
            break
        best = state
        if state.interrupted:
            break
    assert best is not None
    return EMFit(best.belief.parameters, best.history, best.converged, best.interrupted), best.belief.relevance


def _drop_weakest(state: VariationalState, search: VariationalSearch) -> VariationalState:
    """Without the angle that adds the least variance."""
    keep = np.delete(np.arange(state.belief.parameters.size), np.argmin(explained_variances(state)))
    return run_updates(
        *drop_angles(state.belief, keep, state.sums, state.scale),
        search,
        min(search.trial_iter, search.options.max_iter),
    )


def explained_variances(state: VariationalState) -> FloatArray:
    """Variance of the data that each angle stands for, summed over the columns, (D,)."""
    parameters, sums = state.belief.parameters, state.sums
    second = sums.second / np.maximum(sums.counts, 1.0)[:, None, None]
    covariance = (second - second[:, :, -1:] * second[:, -1:])[:, :-1, :-1]
    pairs = (len(second), 2, parameters.size)
    weights = parameters.weights[:, :-1].reshape(pairs)
    return np.asarray(np.einsum("mpd,mpdqd,mqd->d", weights, covariance.reshape(*pairs, *pairs[1:]), weights))
