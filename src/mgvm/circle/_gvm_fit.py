"""Maximum likelihood for the GvM law: match the first T trigonometric moments.

With data moments m̂_t the log likelihood per angle is ℓ(η) = Re Σ conj(η_t) m̂_t - log Z(η): concave, its gradient the
difference of moments, its Hessian minus the covariance of (cos tφ, sin tφ), which the moments 1..2T give.

The harmonics of narrow data agree in all but their last digits: at a spread of h radians the least certain direction of
order T has a variance of about h^4T, which drowns in rounding below h of 0.01 (order 2), 0.05 (order 3), 0.1 (order 4).
Such data are handed to `_gvm_narrow_fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle import _gvm_narrow_fit
from mgvm.circle._concentration import concentration
from mgvm.circle._exponential import total_concentration
from mgvm.circle._gvm_narrow_fit import Fitted
from mgvm.circle._sample import Sample

_MAX_ROUNDS = 100
_MAX_HALVINGS = 40
_QUADRATIC = 1e-9  # gain in log likelihood per angle that a Newton step promises: from here on steps square the error
_CONVERGED = 1e-24
_ROUNDING = 4e-15  # of a covariance, from that of the moments it is made of
_LARGEST = 1e12  # total concentration that a step may reach
_SAME_ANGLE = 1e-14  # radians apart


def _data_moments(sample: Sample, count: int) -> ComplexArray:
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


def _newton_step(gradient: FloatArray, covariance: FloatArray) -> tuple[FloatArray, bool]:
    """covariance⁻¹ gradient without the directions lost in rounding, and whether there are any."""
    diagonal = np.maximum(np.diag(covariance), _ROUNDING)
    scale = np.sqrt(diagonal)
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > _ROUNDING / diagonal.min()
    along = axes.T @ (gradient / scale)
    step = axes @ np.where(kept, along / np.where(kept, values, 1.0), 0.0) / scale
    return np.asarray(step), not kept.all()


def _likelihood(target: ComplexArray, eta: ComplexArray) -> tuple[float, ComplexArray]:
    """Log likelihood per angle and moments 1..2T; minus infinity where the law is too concentrated to be told apart."""
    if not total_concentration(eta) <= _LARGEST:
        return -np.inf, np.zeros(2 * eta.size, dtype=complex)
    facts = gvm_facts(eta[None], 2 * eta.size)
    return float(np.real(np.conj(eta) @ target) - facts.log_normalizer[0]), facts.moments[0, : 2 * eta.size]


def _climb(target: ComplexArray, eta: ComplexArray) -> Fitted:
    """Newton's method with steps halved until the likelihood rises."""
    order = eta.size
    height, moments = _likelihood(target, eta)
    before = np.inf
    for _ in range(_MAX_ROUNDS):
        gap = target - moments[:order]
        gradient = np.concatenate([gap.real, gap.imag])
        step, lost = _newton_step(gradient, _covariance(moments, order))
        gain = 0.5 * float(gradient @ step)
        direction = step[:order] + 1j * step[order:]
        near = gain <= _QUADRATIC
        if near and (lost or gain <= _CONVERGED or gain >= 0.25 * before):  # what is left is rounding
            return Fitted(eta, height, not lost)
        for halving in range(_MAX_HALVINGS):
            trial = eta + direction * 0.5**halving
            trial_height, trial_moments = _likelihood(target, trial)
            if trial_height > height or (near and trial_height > -np.inf):
                break
        else:  # no step rises any more
            return Fitted(eta, height, False)
        eta, height, moments, before = trial, trial_height, trial_moments, gain
    return Fitted(eta, height, False)


def _fits(sample: Sample, highest: int) -> Iterator[Fitted]:
    """Fits of order 1, 2, ..., `highest`, each climbing from the one before, so that none is less likely."""
    eta = np.array([concentration(sample.deficit) + 0j])
    height, _ = _likelihood(_data_moments(sample, 1), eta)
    fitted = Fitted(eta, height, True)
    yield fitted
    for order in range(2, highest + 1):
        fitted = _climb(_data_moments(sample, order), np.append(fitted.eta, 0.0))
        if not fitted.converged:
            yield from list(_gvm_narrow_fit.fits(sample, highest))[order - 1 :]
            return
        yield fitted


def _distinct(sample: Sample) -> int:
    """Number of different angles; those that agree to rounding, around a turn too, are one."""
    gaps = np.diff(sample.offset, append=sample.offset[0] + 2.0 * np.pi)
    return max(int((gaps > _SAME_ANGLE).sum()), 1)


def _checked(fitted: Fitted, sample: Sample) -> ComplexArray:
    """The parameters turned back to the data, with a warning where they are not the maximum."""
    if not fitted.converged:
        warnings.warn(
            f"the fit of a GvM of order {fitted.eta.size} stopped short of the maximum: the data, with a spread of "
            f"{np.sqrt(2.0 * sample.deficit):.2g} radians, or clumps of them, are too narrow for so many harmonics in "
            "double precision; lower the order",
            RuntimeWarning,
            stacklevel=4,
        )
    return np.asarray(fitted.eta * np.exp(1j * np.arange(1, fitted.eta.size + 1) * sample.centre))


def maximum_likelihood(angles: FloatArray, weights: FloatArray, order: int) -> ComplexArray:
    """Natural parameters of highest likelihood."""
    sample = Sample.of(angles, weights, "a GvM law")
    distinct = _distinct(sample)
    if distinct <= order:
        raise ValueError(
            f"a GvM of order {order} needs at least {order + 1} different angles, got {distinct}: its likelihood grows "
            f"without bound; lower the order to {distinct - 1} or give more data"
        )
    *_, fitted = _fits(sample, order)
    return _checked(fitted, sample)


def best_order(angles: FloatArray, weights: FloatArray, criterion: str, highest: int) -> ComplexArray:
    """Natural parameters of the order with the least AIC or BIC; the uniform law counts as order 0."""
    sample = Sample.of(angles, weights, "a GvM law")
    count = float(weights.sum())
    price = 2.0 if criterion == "aic" else np.log(count)
    best, best_score = Fitted(np.zeros(1, dtype=complex), 0.0, True), 2.0 * count * np.log(2.0 * np.pi)
    for fitted in _fits(sample, min(highest, _distinct(sample) - 1)):
        score = -2.0 * count * fitted.height + price * 2 * fitted.eta.size
        if score < best_score:
            best, best_score = fitted, score
    return _checked(best, sample)
