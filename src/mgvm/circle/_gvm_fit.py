"""Maximum likelihood for the GvM law: match the first T trigonometric moments.

With data moments m̂_t the log likelihood per angle is ℓ(η) = Re Σ conj(η_t) m̂_t - log Z(η): concave, its gradient the
difference of moments, its Hessian minus the covariance of (cos tφ, sin tφ), which the moments 1..2T give.
"""

from __future__ import annotations

import warnings

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle._sample import Sample

_MAX_ROUNDS = 200
_CONVERGED = 1e-11  # of the gain in log likelihood per angle that a Newton step promises


def data_moments(sample: Sample, count: int) -> ComplexArray:
    """E[e^{itφ}] of the data for t = 1..count, about their mean direction."""
    unit = np.exp(1j * sample.offset)
    power, out = np.ones_like(unit), np.empty(count, dtype=complex)
    for t in range(count):
        power = power * unit
        out[t] = sample.share @ power
    return out


def _covariance(moments: ComplexArray, order: int) -> FloatArray:
    """Covariance of (cos φ, ..., cos Tφ, sin φ, ..., sin Tφ) from moments 1..2T."""
    full = np.concatenate([[1.0 + 0.0j], moments])
    t = np.arange(1, order + 1)
    total, gap = full[t[:, None] + t], full[np.abs(t[:, None] - t)]
    gap = np.where(t[:, None] >= t, gap, np.conj(gap))
    cos_cos, sin_sin = 0.5 * (gap.real + total.real), 0.5 * (gap.real - total.real)
    cos_sin = 0.5 * (total.imag - gap.imag)
    second = np.block([[cos_cos, cos_sin], [cos_sin.T, sin_sin]])
    first = np.concatenate([full[t].real, full[t].imag])
    return second - np.outer(first, first)


def _newton_step(gradient: FloatArray, covariance: FloatArray) -> FloatArray:
    """covariance⁻¹ gradient, in units in which its diagonal is one; directions lost in rounding are left alone."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    along = axes.T @ (gradient / scale)
    kept = values > 1e-13 * values[-1]
    return np.asarray((axes @ np.where(kept, along / np.where(kept, values, 1.0), 0.0)) / scale)


def _climb(target: ComplexArray, eta: ComplexArray) -> tuple[ComplexArray, float, bool]:
    """Newton's method with halved steps; returns η, the log likelihood per angle, and whether it converged."""
    order = eta.size
    facts = gvm_facts(eta[None], 2 * order)
    height = float(np.real(np.conj(eta) @ target) - facts.log_normalizer[0])
    for _ in range(_MAX_ROUNDS):
        moments = facts.moments[0, : 2 * order]
        gap = target - moments[:order]
        gradient = np.concatenate([gap.real, gap.imag])
        step = _newton_step(gradient, _covariance(moments, order))
        gain = 0.5 * float(gradient @ step)
        direction = step[:order] + 1j * step[order:]
        if gain <= _CONVERGED:  # Newton squares errors: this last step ends at rounding
            return eta + direction, height + gain, True
        for halving in range(60):
            trial = eta + direction * 0.5**halving
            facts = gvm_facts(trial[None], 2 * order)
            trial_height = float(np.real(np.conj(trial) @ target) - facts.log_normalizer[0])
            if trial_height > height:
                break
        else:
            # No step rises any more: the optimum to the rounding of the likelihood.
            return eta, height, gain < 1e-9
        eta, height = trial, trial_height
    return eta, height, False


def _start(sample: Sample, order: int) -> ComplexArray:
    """The von Mises law of about the data's spread, κ = (1 - V/2)/V to leading order in V = 1 - R at both ends."""
    spread = min(max(sample.deficit, 1e-300), 1.0)
    eta = np.zeros(order, dtype=complex)
    eta[0] = 0.5 * (1.0 - spread) * (2.0 - spread) / spread
    return eta


def _fit(sample: Sample, order: int) -> tuple[ComplexArray, float]:
    distinct = 1 + int((np.diff(sample.offset) > 0).sum())
    if distinct <= order:
        raise ValueError(
            f"a GvM of order {order} needs at least {order + 1} different angles, got {distinct}: its likelihood grows "
            f"without bound; lower the order to {max(distinct - 1, 1)} or give more data"
        )
    eta, height, converged = _climb(data_moments(sample, order), _start(sample, order))
    if not converged:
        warnings.warn(
            f"the fit of a GvM of order {order} did not converge (concentration {np.abs(eta).max():.3g}): the data are "
            "too concentrated or too few for so many harmonics; lower the order",
            RuntimeWarning,
            stacklevel=5,
        )
    return eta, height


def _turned(eta: ComplexArray, angle: float) -> ComplexArray:
    return np.asarray(eta * np.exp(1j * np.arange(1, eta.size + 1) * angle))


def maximum_likelihood(angles: FloatArray, weights: FloatArray, order: int) -> ComplexArray:
    """Natural parameters of highest likelihood."""
    sample = Sample.of(angles, weights, "GvM")
    return _turned(_fit(sample, order)[0], sample.centre)


def best_order(angles: FloatArray, weights: FloatArray, criterion: str, highest: int) -> ComplexArray:
    """Natural parameters of the order with the least AIC or BIC; the uniform law counts as order 0."""
    sample = Sample.of(angles, weights, "GvM")
    count = float(weights.sum())
    price = 2.0 if criterion == "aic" else np.log(count)
    distinct = 1 + int((np.diff(sample.offset) > 0).sum())
    best, best_score = np.zeros(1, dtype=complex), 2.0 * count * np.log(2.0 * np.pi)
    for order in range(1, min(highest, distinct - 1) + 1):
        eta, height = _fit(sample, order)
        score = -2.0 * count * height + price * 2 * order
        if score < best_score:
            best, best_score = eta, score
    return _turned(best, sample.centre)
