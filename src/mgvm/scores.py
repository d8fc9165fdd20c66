"""Scores of forecasts of angles: proper scores, calibration, and the errors of point predictions.

A law here is any object with the methods of the laws in `mgvm.circle`. A batch of laws broadcasts against the
observations, so ``crps(model.predict_dist(X), y)`` gives one score per row of X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _crps
from mgvm import _validation as check
from mgvm._crps import Law
from mgvm._validation import FloatArray
from mgvm._wrapping import difference, wrap

__all__ = ["log_score", "crps", "pit", "coverage", "angular_error", "snr"]

_TURN = 2.0 * np.pi
_BELOW_ONE = np.nextafter(1.0, 0.0)


def _observations(y: ArrayLike, batch: tuple[int, ...], owner: str) -> FloatArray:
    """Angles broadcast against a batch shape."""
    return check.broadcast(**{"y": check.angles(y, "y"), owner: np.empty(batch)})[0]


def log_score(law: Law, y: ArrayLike) -> FloatArray:
    """``log p(y)``: larger is better.

    Parameters
    ----------
    law : law
        The forecast: a law on the circle, or a batch of them.
    y : array_like
        Observed angles in radians; they broadcast against the batch.

    Returns
    -------
    ndarray
        Natural logarithms of densities per radian; -log 2π ≈ -1.838 is what the uniform law scores.

    Examples
    --------
    >>> import mgvm
    >>> law = mgvm.VonMises(0.0, 2.0)
    >>> mgvm.scores.log_score(law, [0.0, 3.0]).round(4)
    array([-0.6619, -4.6419])
    """
    return law.logpdf(_observations(y, law.batch_shape, "law"))


def crps(forecast: Law | ArrayLike, y: ArrayLike, kind: str = "angular") -> FloatArray:
    """``E d(Θ, y) - ½ E d(Θ, Θ*)``: smaller is better, 0 for a sure and right forecast.

    Parameters
    ----------
    forecast : law or array_like
        A law on the circle (or a batch), or draws from one: radians with the draws along the first axis.
    y : array_like
        Observed angles in radians; they broadcast against the batch, or against the draws' other axes.
    kind : {'angular', 'cosine'}, default 'angular'
        The distance d: the angle between the two, in [0, π] [1]_, or one minus its cosine.

    Returns
    -------
    ndarray
        In radians for the angular kind, where it becomes the absolute error for a point forecast. The cosine kind is
        ½|e^{iy} - m₁|², m₁ = E e^{iΘ}: proper, but it sees nothing of the law beyond its first moment, whereas
        the angular kind is (2/π) Σ |e^{iky} - m_k|²/k² over odd k. Neither sees the even moments: by the
        angular kind a law is right as soon as all its half turns hold the right mass.

    Notes
    -----
    Draws are scored as the law that puts 1/n on each; the angular kind takes O(n log n) time.

    References
    ----------
    .. [1] Grimit, Gneiting, Berrocal & Johnson, The continuous ranked probability score for circular variables and its
       application to mesoscale forecast ensemble verification, Q. J. R. Meteorol. Soc. 132 (2006).

    Examples
    --------
    >>> from mgvm import scores
    >>> round(float(scores.crps([0.0, 1.0, 2.0], 1.0)), 4)
    0.2222
    >>> round(float(scores.crps([0.0, 1.0, 2.0], 1.0, kind="cosine")), 4)
    0.047
    """
    check.choice(kind, "kind", ("angular", "cosine"))
    if hasattr(forecast, "logpdf"):
        law: Any = forecast
        observed = _observations(y, law.batch_shape, "law")
        if kind == "cosine":
            return _crps.cosine_from_moment(law.moment(1), observed)[()]
        return _crps.angular_from_law(law, observed)[()]
    samples = check.angle_data(forecast, "forecast")
    if samples.ndim == 0:
        raise ValueError("forecast must be a law or have draws along its first axis, got a single number")
    observed = _observations(y, samples.shape[1:], "draws")
    if kind == "cosine":
        return _crps.cosine_from_moment(np.exp(1j * samples).mean(axis=0), observed)[()]
    return _crps.angular_from_samples(samples, observed)[()]


def pit(law: Law, y: ArrayLike) -> FloatArray:
    """``F(y) = P(-π <= Θ <= y)``, the probability integral transform.

    Parameters
    ----------
    law : law
        The forecast: a law on the circle, or a batch of them.
    y : array_like
        Observed angles in radians; they broadcast against the batch.

    Returns
    -------
    ndarray
        In [0, 1), uniform when the forecasts are calibrated. The cut at -π is a convention: another one turns the
        transform of one law by a constant, modulo 1.

    Examples
    --------
    >>> import mgvm
    >>> mgvm.scores.pit(mgvm.VonMises(0.0, 2.0), [0.0, 1.0]).round(4)
    array([0.5   , 0.8896])
    """
    return np.clip(law.cdf(wrap(_observations(y, law.batch_shape, "law"))), 0.0, _BELOW_ONE)


def coverage(law: Law, y: ArrayLike, mass: ArrayLike, reduce: bool = True) -> FloatArray | NDArray[np.bool_]:
    """Fraction of y inside the law's highest-density set ``{θ: p(θ) > c}`` that holds the given mass.

    Parameters
    ----------
    law : law
        The forecast: a law on the circle, or a batch of them.
    y : array_like
        Observed angles in radians; they broadcast against the batch.
    mass : array_like
        Nominal coverage, strictly between 0 and 1; several give a calibration curve.
    reduce : bool, default True
        False returns which observations are inside instead of their fraction.

    Returns
    -------
    ndarray
        Shape of `mass`, close to `mass` when the forecasts are calibrated; with ``reduce=False`` booleans, shape of
        `mass` + shape of the observations.

    Examples
    --------
    >>> import mgvm
    >>> law = mgvm.VonMises(0.0, 2.0)
    >>> mgvm.scores.coverage(law, [0.0, 1.0, 3.0], mass=[0.5, 0.9])
    array([0.33333333, 0.66666667])
    """
    masses = check.fraction(mass, "mass")
    observed = _observations(y, law.batch_shape, "law")
    if observed.size == 0:
        raise ValueError(f"y is empty, shape {observed.shape}; at least one observation is needed")
    inside = np.array([_inside(law.interval(float(level)), observed) for level in masses.ravel()])
    inside = inside.reshape(masses.shape + observed.shape)
    return inside.mean(axis=tuple(range(masses.ndim, inside.ndim)))[()] if reduce else inside[()]


def _inside(arcs: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    """Whether y lies on one of the arcs (..., n, 2); rows of NaN hold nothing."""
    lower, upper = arcs[..., 0], arcs[..., 1]
    return np.asarray((np.mod(y[..., None] - lower, _TURN) <= upper - lower).any(axis=-1))


def angular_error(prediction: ArrayLike, y: ArrayLike) -> FloatArray:
    """``|prediction - y|`` the short way round, in [0, π].

    Parameters
    ----------
    prediction, y : array_like
        Radians, any real numbers; they broadcast. NaN stays NaN.

    Returns
    -------
    ndarray
        Radians in [0, π].

    Examples
    --------
    >>> from mgvm import scores
    >>> round(float(scores.angular_error(3.0, -3.0)), 4)
    0.2832
    """
    return np.abs(difference(prediction, y))


def snr(y: ArrayLike, y_hat: ArrayLike, convention: str = "db") -> float:
    """``10 log₁₀(Σ‖y‖² / Σ‖y - ŷ‖²)``, the signal-to-noise ratio in decibels: larger is better.

    Parameters
    ----------
    y : array_like
        Clean signal, real numbers (..., D): one row an observation.
    y_hat : array_like
        Its reconstruction, of the same shape.
    convention : {'db', 'paper'}, default 'db'
        'paper' gives ``10 ln(Σ‖y‖ / Σ‖y - ŷ‖)``, sums over rows: what the code released with the mGvM paper
        prints as dB. The two are not multiples of each other.

    Returns
    -------
    float
        Infinite for an exact reconstruction.

    Examples
    --------
    >>> from mgvm import scores
    >>> round(scores.snr([[3.0, 4.0]], [[3.0, 3.5]]), 4)
    20.0
    >>> round(scores.snr([[3.0, 4.0]], [[3.0, 3.5]], convention="paper"), 4)
    23.0259
    """
    check.choice(convention, "convention", ("db", "paper"))
    signal, estimate = np.atleast_1d(check.finite(y, "y")), np.atleast_1d(check.finite(y_hat, "y_hat"))
    if signal.shape != estimate.shape:
        raise ValueError(f"y and y_hat must have the same shape, got {signal.shape} and {estimate.shape}")
    if not signal.any():
        raise ValueError("y is empty or all zero; a signal-to-noise ratio needs a signal")
    power = 2 if convention == "db" else 1
    ratio = [(np.linalg.norm(rows, axis=-1) ** power).sum() for rows in (signal, signal - estimate)]
    if ratio[1] == 0.0:
        return float("inf")
    logarithm = np.log10 if convention == "db" else np.log
    return float(10.0 * logarithm(ratio[0] / ratio[1]))
