r"""Variational Bayes for circular PCA: Gaussian rows of W, a Gamma law of the noise's precision, and as many angles as
the data support.

With w = (v, 1), rows W_m of W, the precision τ of the noise, and one precision α_d for both columns of angle d,

    y_m ~ N(W_m·w, 1/τ),  W_m ~ N(0, Λ⁻¹), Λ = diag(α, α, β),  τ ~ Gamma(a₀, b₀),  φ ~ its prior,

and q(φ, W, τ) = Π_n q(φ_n) Π_m q(W_m) q(τ). Each factor is the best one given the others:

    q(φ_n): exp E[log p(y_n | φ)] p(φ), a law exp(hᵀv - ½vᵀGv) with E[W_mW_mᵀ] = W̄_mW̄_mᵀ + S_m in the place of W_mW_mᵀ
    q(W_m): N(W̄_m, S_m), S_m = (τ̄ Σ E[wwᵀ] + Λ)⁻¹, W̄_m = τ̄ S_m Σ y_m E[w], over the rows in which entry m was seen
    q(τ):   Gamma(a, b), a = a₀ + ½ entries, b = b₀ + ½ Σ E(y_m - W_m·w)²

α and the prior of the angles are maximised: α_d = entries of A_d and B_d over Σ E[their squares]. The free energy is

    F = Σ_n log Z_n + ½ entries (E[log τ] - log τ̄) - Σ_m KL(q(W_m) | p(W_m)) - KL(q(τ) | p(τ)) <= log p(Y),

Z_n the normaliser of q(φ_n) with the noise variance 1/τ̄, which `expectation` gives: ½ entries log τ̄ is part of it. No
update lowers F but by the error of the E-step.

An angle whose columns are not needed has α without bound: W̄ and the prior's and the posterior's laws of W agree there,
and dropping it changes nothing in F; the angle's prior is dropped with it. After that the weakest angle is left out on
trial, its mean moved into the offset, for as long as F gains by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from mgvm._validation import FloatArray
from mgvm.models import _pca_prior
from mgvm.models._pca_maximisation import residual
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_statistics import Statistics

_SHAPE = 1e-3  # a₀; b₀ is that times the mean square of the data
_VAGUE = 1e-6  # β, in units of the mean square of the data
_ROUNDS = 5  # of the updates of W, α, τ between two E-steps


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


def begin(start: Parameters, scale: Scale) -> Belief:
    """W is known to be `start`, to within a thousandth of the noise."""
    size, spread = start.size, np.zeros((*start.weights.shape, start.weights.shape[1]))
    for m, used in enumerate(scale.mask):
        spread[m][used, used] = 1e-3 * start.noise_variance
    belief = Belief(start._replace(spread=spread), np.ones(size), 1.0, start.noise_variance)
    return belief._replace(relevance=_relevance(belief, scale))


def updated(belief: Belief, sums: Statistics, scale: Scale, *, learn_prior: bool) -> Belief:
    """q(W), α and q(τ) in turn, given the moments of the angles; then the prior of the angles."""
    for _ in range(_ROUNDS):
        belief = _with_weights(belief, sums, scale)
        belief = belief._replace(relevance=_relevance(belief, scale))
        belief = _with_noise(belief, sums, scale)
    if learn_prior:
        prior = _pca_prior.fitted(sums.shares, sums.sums, belief.parameters.prior)
        belief = belief._replace(parameters=belief.parameters._replace(prior=prior))
    return belief


def _with_weights(belief: Belief, sums: Statistics, scale: Scale) -> Belief:
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
    return np.asarray(_of_angles(scale.mask) / _of_angles(_squares(belief.parameters)))


def _with_noise(belief: Belief, sums: Statistics, scale: Scale) -> Belief:
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
    """KL between Gamma laws of the same variable."""
    a, b, a0, b0 = belief.shape, belief.rate, _SHAPE, _SHAPE * scale.square
    more = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0)
    return float(more + a0 * (np.log(b) - np.log(b0)) + a * (b0 / b - 1.0))


def determined(belief: Belief, scale: Scale) -> FloatArray:
    """The share of each angle's entries in W that the data determine, (D,): 1 - mean of α S."""
    assert belief.parameters.spread is not None
    variances = np.einsum("mpp->mp", belief.parameters.spread)
    return np.asarray(1.0 - belief.relevance * _of_angles(variances) / _of_angles(scale.mask))


def without(belief: Belief, keep: np.ndarray, sums: Statistics, scale: Scale) -> tuple[Belief, Scale]:
    """The belief about some of the angles (indices); what the others add in the mean becomes part of the offset."""
    parameters, size = belief.parameters, belief.parameters.size
    assert parameters.spread is not None
    columns = np.concatenate([keep, size + keep, [2 * size]])
    lost = np.setdiff1d(np.arange(2 * size), columns)
    weights = parameters.weights[:, columns].copy()
    means = sums.second[:, -1, :] / np.maximum(sums.counts, 1.0)[:, None]
    weights[:, -1] += scale.mask[:, -1] * np.einsum("mp,mp->m", parameters.weights[:, lost], means[:, lost])
    prior = _pca_prior.von_mises(_pca_prior.weights_of(parameters.prior), parameters.prior.resultants[:, keep])
    spread = np.ascontiguousarray(parameters.spread[:, columns][:, :, columns])
    fewer = Parameters(weights, parameters.noise_variance, prior, spread)
    return belief._replace(parameters=fewer, relevance=belief.relevance[keep]), Scale(
        scale.square, scale.mask[:, columns]
    )
