"""Many GvM laws from their trigonometric moments at once: Newton steps on all of them together."""

from __future__ import annotations

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray

_STEPS = 60
_SHORTENINGS = 8
_TOLERANCE = 1e-16  # gain that a step promises, in nats an observation
_UNIFORM = 1e-6  # share of the uniform law mixed into the moments, so that constant angles have a finite law


def fit_moments(moments: ComplexArray, count: FloatArray, start: ComplexArray) -> ComplexArray:
    """The η (n, T) that maximise Re Σ_t conj(η_t) m_t - log Z(η) - Σ_t log(1 + |η_t|²) / 2N.

    Moments (n, T), numbers of observations N (n,) and first guesses (n, T). The penalty is a weak prior on the scale of
    |η|, alike for wide and narrow laws.
    """
    target = (1.0 - _UNIFORM) * moments
    eta = np.array(start, dtype=complex)
    active = np.arange(len(eta))
    for _ in range(_STEPS):
        value, slope, curvature = _objective(eta[active], target[active], count[active])
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        promised = 0.5 * (step * slope).sum(axis=1)
        busy = promised > _TOLERANCE
        if not busy.any():
            break
        active, value, step = active[busy], value[busy], step[busy]
        eta[active], gained = _advanced(eta[active], step, value, target[active], count[active])
        active = active[gained]
        if not active.size:
            break
    return eta


def _objective(eta: ComplexArray, target: ComplexArray, count: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value, slope and (positive) curvature in the real and imaginary parts of η."""
    order = eta.shape[1]
    facts = gvm_facts(eta, 2 * order)
    found = np.concatenate([np.ones((len(eta), 1)), facts.moments[:, : 2 * order]], axis=1)
    shrink = 1.0 / (count[:, None] * (1.0 + np.abs(eta) ** 2))
    value = (eta.conj() * target).real.sum(axis=1) - facts.log_normalizer
    value -= 0.5 * np.log1p(np.abs(eta) ** 2).sum(axis=1) / count
    away = target - found[:, 1 : order + 1] - shrink * eta
    curvature = covariance(found, order)
    places = np.arange(2 * order)
    # The penalty's curvature without its negative part, so that the steps ascend.
    curvature[:, places, places] += np.tile(shrink, 2) + 1e-14
    return value, np.concatenate([away.real, away.imag], axis=1), curvature


def covariance(moments: ComplexArray, order: int) -> FloatArray:
    """Cov of (cos φ, …, cos Tφ, sin φ, …, sin Tφ) from m₀ … m_{2T}: products of waves are sums of waves."""
    t = np.arange(1, order + 1)
    total = moments[:, t[:, None] + t]
    gap = t[:, None] - t
    difference = np.where(gap >= 0, moments[:, np.abs(gap)], moments[:, np.abs(gap)].conj())
    c, s = moments[:, t].real, moments[:, t].imag
    cc = 0.5 * (difference.real + total.real) - c[:, :, None] * c[:, None, :]
    ss = 0.5 * (difference.real - total.real) - s[:, :, None] * s[:, None, :]
    # sin a cos b = ½ [sin(a + b) + sin(a - b)]
    sc = 0.5 * (total.imag + difference.imag) - s[:, :, None] * c[:, None, :]
    return np.block([[cc, np.swapaxes(sc, 1, 2)], [sc, ss]])


def _advanced(
    eta: ComplexArray, step: FloatArray, value: FloatArray, target: ComplexArray, count: FloatArray
) -> tuple[ComplexArray, np.ndarray]:
    """The steps, each shortened until it gains, and which of them do; the others are at the top, to rounding."""
    order = eta.shape[1]
    move = step[:, :order] + 1j * step[:, order:]
    out, gained = eta.copy(), np.zeros(len(eta), dtype=bool)
    waiting = np.arange(len(eta))
    for _ in range(_SHORTENINGS):
        tried = eta[waiting] + move[waiting]
        good = _objective(tried, target[waiting], count[waiting])[0] > value[waiting]
        out[waiting[good]], gained[waiting[good]] = tried[good], True
        waiting = waiting[~good]
        if not waiting.size:
            break
        move[waiting] *= 0.3
    return out, gained
