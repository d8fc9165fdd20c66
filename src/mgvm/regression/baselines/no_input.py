"""The distribution of the angle without its inputs.

Many GvM distributions from their trigonometric moments at once: Newton steps on all of them together.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.gvm import GvM
from mgvm.regression.base import CircularRegressor, merge_replicates, validate_queries, validate_training
from mgvm.regression.noise import Replicates

_STEPS = 60
_SHORTENINGS = 8
_TOLERANCE = 1e-16  # gain that a step promises, in nats an observation
_UNIFORM = (
    1e-6  # share of the uniform distribution mixed into the moments, so that constant angles have a finite distribution
)


def fit_moments(moments: ComplexArray, count: FloatArray, start: ComplexArray) -> ComplexArray:
    """The η (n, T) that maximise Re Σ_t conj(η_t) m_t - log Z(η) - Σ_t log(1 + |η_t|²) / 2N.

    Moments (n, T), numbers of observations N (n,) and first guesses (n, T). The penalty is a weak prior on the scale of
    |η|, alike for wide and narrow distributions.
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


_LARGEST_ORDER = 4


class GvMRegressor(CircularRegressor):
    """p(ψ | x) = GvM(ψ | η), the same distribution for every input: what a regression must beat.

    Parameters
    ----------
    order : int or "auto", default 1
        Harmonics T of the distribution. "auto" goes from 1 up to 4 as long as leave-one-out gains more than a standard
        error.

    Attributes
    ----------
    distribution_ : GvM
        The distribution, of order `order_`.
    order_ : int
        T.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Notes
    -----
    A weak penalty Σ_t log(1 + |η_t|²) / 2 keeps distributions of a few angles finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import GvMRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = np.concatenate([rng.vonmises(0.0, 5.0, 50), rng.vonmises(np.pi, 5.0, 50)])
    >>> model = GvMRegressor("auto").fit(np.zeros((100, 1)), y)
    >>> model.order_
    2
    """

    def __init__(self, order: int | Literal["auto"] = 1):
        self.order = order

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the distribution to angles y (N,). Weights are counts of rows; X tells which rows are no independent evidence."""
        data = validate_training(self, X, y, sample_weight, scales=False)
        found = merge_replicates(data)
        if isinstance(self.order, str):
            check.choice(self.order, "order", ["auto"])
            orders = range(1, _LARGEST_ORDER + 1)
        else:
            only = check.integer(self.order, "order", minimum=1)
            orders = range(only, only + 1)
        fits = [_fit(found.replicates, order) for order in orders]
        best = 0
        for number in range(1, len(fits)):
            gain = found.replicates.weights * (fits[number][1] - fits[best][1])
            if found.replicates.starts.size > 1:
                gain = np.add.reduceat(gain, found.replicates.starts)
            if gain.sum() > np.sqrt(gain.size) * gain.std():
                best = number
        self.order_ = orders[best]
        self.distribution_ = GvM(fits[best][0])
        self.loo_log_density_ = found.of_rows(
            fits[best][1], lambda rows: np.asarray(self.distribution_.logpdf(data.y[rows]))
        )
        return self

    def predict_dist(self, X: Any) -> GvM:
        """The distribution of the angle, once for every row of X."""
        return GvM(np.repeat(self.distribution_.eta[None], len(validate_queries(self, X)), axis=0))


def _fit(replicates: Replicates, order: int) -> tuple[ComplexArray, FloatArray]:
    """η (T,), and the log density of every angle given all others; equal angles have it in common.

    Of an angle of weight w, which stands for w rows, one row is left out; of w < 1 the whole.
    """
    angles, inverse = np.unique(replicates.angles, return_inverse=True)
    counts = np.bincount(inverse, replicates.weights)
    taken = np.minimum(counts, 1.0)
    waves = np.exp(1j * np.multiply.outer(angles, np.arange(1, order + 1)))
    number = counts.sum(keepdims=True)
    total = (counts @ waves)[None]
    eta = fit_moments(total / number[:, None], number, np.zeros((1, order), dtype=complex))
    left = number - taken
    some = left > 1e-9 * number
    others = np.zeros((counts.size, order), dtype=complex)
    if some.any():
        rest = (total - (taken[:, None] * waves)[some]) / left[some, None]
        others[some] = fit_moments(rest, left[some], np.repeat(eta, int(some.sum()), axis=0))
    logs = (waves * others.conj()).real.sum(axis=1) - gvm_facts(others, 2).log_normalizer
    return eta[0], logs[inverse]
