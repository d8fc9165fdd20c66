"""The direction of a Gaussian point of the plane, on plain arrays.

With u the direction at the angle φ, Σ = LLᵀ, y = L⁻¹u and γ = L⁻¹m, let

    D = γ·y / |y|    and    P = γ×y / |y| = (m×u) / (√|Σ| |y|),

the mean's coordinates along and across the whitened direction. Integrating the Gaussian along the ray gives

    p(φ) = ϕ(P) J(D) / (√|Σ| |y|²),    J(D) = ϕ(D) + D Φ(D).

The textbook form e^{-|γ|²/2} (1 + D Φ(D)/ϕ(D)) / (2π √|Σ| |y|²) is the same; its exponent cancels against that of
ϕ(D), which D² + P² = |γ|² does once and for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr, owens_t

from mgvm._validation import FloatArray

_LOG_ROOT_TURN = 0.5 * np.log(2.0 * np.pi)
_FAR = 4.0  # beyond it 1 - tM(t), with M the Mills ratio, loses digits, and 40 levels of its fraction give them all
_LEVELS = 40


class Frame(NamedTuple):
    """The map y = L⁻¹u as y₁ = c/α, y₂ = (s - κc)/δ, with √|Σ|, m and γ."""

    alpha: FloatArray
    kappa: FloatArray
    delta: FloatArray
    root_det: FloatArray
    mean_x: FloatArray
    mean_y: FloatArray
    gamma_x: FloatArray
    gamma_y: FloatArray


class Ray(NamedTuple):
    """What the density needs of a direction: y, |y|², D and P."""

    y: tuple[FloatArray, FloatArray]
    square: FloatArray
    along: FloatArray
    across: FloatArray


def product_difference(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> FloatArray:
    """ab - cd to rounding, however much it cancels: a nearly singular covariance keeps its determinant."""
    first, second = a * b, c * d
    return (first - second) + (_product_error(a, b, first) - _product_error(c, d, second))


def _product_error(a: FloatArray, b: FloatArray, product: FloatArray) -> FloatArray:
    """The error ab - product of a rounded product, exactly (Dekker 1971)."""
    a_high, b_high = ((2.0**27 + 1.0) * v - ((2.0**27 + 1.0) * v - v) for v in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def rescale(mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(m/c, Σ/c²), the same law, with c a power of two (so exact) that brings the trace of Σ near one."""
    _, exponent = np.frexp(cov[..., 0, 0] + cov[..., 1, 1])
    half = exponent // 2
    return np.ldexp(mean, -half[..., None]), np.ldexp(cov, -2 * half[..., None, None])


def determinant(cov: FloatArray) -> FloatArray:
    """|Σ| to rounding."""
    return product_difference(cov[..., 0, 0], cov[..., 1, 1], cov[..., 0, 1], cov[..., 0, 1])


def frame(mean: FloatArray, cov: FloatArray) -> Frame:
    """The whitening map of each law, from its rescaled parameters."""
    mean, cov = rescale(mean, cov)
    first, second, variance = mean[..., 0], mean[..., 1], cov[..., 0, 0]
    root_det, alpha = np.sqrt(determinant(cov)), np.sqrt(variance)
    across = product_difference(second, variance, first, cov[..., 0, 1])
    slope, gamma_y = cov[..., 0, 1] / variance, across / (alpha * root_det)
    return Frame(alpha, slope, root_det / alpha, root_det, first, second, first / alpha, gamma_y)


def ray(frame: Frame, cos: FloatArray, sin: FloatArray) -> Ray:
    """y, |y|², D and P for directions (cos, sin) that broadcast against the laws."""
    y = (cos / frame.alpha, (sin - frame.kappa * cos) / frame.delta)
    square = y[0] ** 2 + y[1] ** 2
    length = np.sqrt(square)
    along = (frame.gamma_x * y[0] + frame.gamma_y * y[1]) / length
    across = (frame.mean_x * sin - frame.mean_y * cos) / (frame.root_det * length)
    return Ray(y, square, along, across)


def radial(along: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log J(D), its derivative Φ(D)/J(D), and that derivative plus D.

    For D = -t < 0, J = ϕ(t) (1 - tM(t)) with Mills' ratio M = Φ(-t)/ϕ(t). For large t the difference cancels; the
    repeated integrals of Φ give 1 - tM = M / (t + f) and Φ/J - t = f with the positive continued fraction
    f = 2/(t + 3/(t + 4/(t + ...))).
    """
    shape = np.shape(along)
    along = np.atleast_1d(along)
    log_value, ratio, slope = (np.empty(along.shape) for _ in range(3))
    ahead, far = along >= 0, along < -_FAR
    near = ~(ahead | far)
    d = along[ahead]
    mass = ndtr(d)
    value = d * mass + np.exp(-0.5 * d**2 - _LOG_ROOT_TURN)
    log_value[ahead], ratio[ahead], slope[ahead] = np.log(value), mass / value, d + mass / value
    t = -along[near]
    mills = _mills(t)
    log_value[near] = np.log1p(-t * mills) - 0.5 * t**2 - _LOG_ROOT_TURN
    ratio[near] = mills / (1.0 - t * mills)
    slope[near] = ratio[near] - t
    t = -along[far]
    fraction = np.zeros_like(t)
    for level in range(_LEVELS, 1, -1):
        fraction = level / (t + fraction)
    log_value[far] = np.log(_mills(t) / (t + fraction)) - 0.5 * t**2 - _LOG_ROOT_TURN
    ratio[far], slope[far] = t + fraction, fraction
    return log_value.reshape(shape), ratio.reshape(shape), slope.reshape(shape)


def _mills(t: FloatArray) -> FloatArray:
    return np.sqrt(0.5 * np.pi) * erfcx(t * np.sqrt(0.5))


def log_density(frame: Frame, x: FloatArray) -> FloatArray:
    """Log p(φ)."""
    here = ray(frame, np.cos(x), np.sin(x))
    log_radial, _, _ = radial(here.along)
    return log_radial - 0.5 * here.across**2 - _LOG_ROOT_TURN - np.log(frame.root_det * here.square)


def log_slope(frame: Frame, x: FloatArray) -> FloatArray:
    """p'(φ) / p(φ): with θ the angle of y, dD/dθ = -P, dP/dθ = D and dθ/dφ = 1 / (√|Σ| |y|²)."""
    cos, sin = np.cos(x), np.sin(x)
    here = ray(frame, cos, sin)
    _, _, slope = radial(here.along)
    turning = (here.y[1] * (cos + frame.kappa * sin) / frame.delta - here.y[0] * sin / frame.alpha) / here.square
    return -here.across * slope / (frame.root_det * here.square) - 2.0 * turning


def mass(frame: Frame, x: FloatArray) -> FloatArray:
    """∫_{-π}^{x} p for x in [-π, π].

    The linear map L takes rays to rays and keeps their order, so the mass is that of a wedge under N(γ, I). From the
    ray through γ to the ray at the angle α in (0, π) past it, with h = |γ| sin α, the wedge holds
    ½ - ½ Φ(-h) - T(h, cot α), T being Owen's function; it is odd in α.
    """
    begin, end = (_wedge(frame, np.cos(angle), np.sin(angle)) for angle in (np.full_like(x, -np.pi), x))
    turned, held = end[0] - begin[0], end[1] - begin[1]
    # Half a turn of φ is half a turn of α: it tells a full turn from none where rounding could take one for the other.
    turn = np.where(x < 0, turned < -0.5 * np.pi, turned < 0.5 * np.pi)
    return np.clip(held + turn, 0.0, 1.0)


def _wedge(frame: Frame, cos: FloatArray, sin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Angle and mass from the ray through γ to a direction, both signed; any first ray serves where γ = 0."""
    here = ray(frame, cos, sin)
    centred = (frame.gamma_x == 0.0) & (frame.gamma_y == 0.0)
    sine, cosine = np.where(centred, here.y[1], here.across), np.where(centred, here.y[0], here.along)
    height = np.abs(here.across)
    with np.errstate(divide="ignore", over="ignore"):
        held = 0.5 - 0.5 * ndtr(-height) - owens_t(height, cosine / np.abs(sine))
    return np.arctan2(sine, cosine), np.copysign(held, sine)
