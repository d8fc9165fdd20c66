"""The theta function of the wrapped normal law, on plain arrays.

With d the offset from the mean in [-π, π] and ρ = e^{-σ²/2},

    p(d) = Σ_k N(d | 2πk, σ²) = (1 + 2 Σ_{n≥1} ρ^{n²} cos nd) / 2π.

The sum over images k converges fast for small σ, the sum over harmonics n for large σ.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import erf, erfc

from mgvm._validation import FloatArray

# At this sigma three images (relative remainder e^{-8π²/σ²} = 6e-16) and five harmonics (ρ^36 = 3e-18) both suffice,
# and the sum of harmonics, at least 0.37 everywhere, loses no digits.
CROSSOVER = 1.5
_LOG_TURN = np.log(2.0 * np.pi)
_SMALLEST_SQUARE = 1e-300  # of sigma where it divides: all images but the nearest vanish long before

Formula = Callable[[FloatArray, FloatArray], FloatArray]


def log_density(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    """Log p(d)."""
    return _choose(offset, sigma, _log_density_by_images, _log_density_by_harmonics)


def log_slope(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    """p'(d) / p(d)."""
    return _choose(offset, sigma, _slope_by_images, _slope_by_harmonics)


def mass(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    """∫_0^d p, odd in d."""
    return _choose(offset, sigma, _mass_by_images, _mass_by_harmonics)


def hermite_ratios(offset: FloatArray, sigma: float) -> FloatArray:
    """(-σ)^j p⁽ʲ⁾(d) / p(d) for j = 1, ..., 4 along a new first axis, for one σ.

    On the line these are the Hermite polynomials of d/σ. The heat equation ∂p/∂σ² = ½ p'' makes them all that the
    first two derivatives of log p in μ and σ need.
    """
    if sigma < CROSSOVER:
        return _hermite_by_images(offset, sigma)
    return _hermite_by_harmonics(offset, sigma)


def _choose(offset: FloatArray, sigma: FloatArray, images: Formula, harmonics: Formula) -> FloatArray:
    """`images` where sigma is below the crossover, `harmonics` above, without evaluating either in vain."""
    wide = sigma >= CROSSOVER
    if not wide.any():
        return images(offset, sigma)
    if wide.all():
        return harmonics(offset, sigma)
    out = np.empty(offset.shape)
    out[wide] = harmonics(offset[wide], sigma[wide])
    out[~wide] = images(offset[~wide], sigma[~wide])
    return out


def _image_weights(offset: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights e^{-2πk(πk - |d|)/σ²} of the images k = 1, -1, 2 relative to the nearest, k = 0, of an offset d."""
    # (|d| - 2πk)² - d² = 4πk(πk - |d|): the squares themselves, which cancel, are never formed.
    distance = np.abs(offset)
    with np.errstate(over="ignore", under="ignore"):
        rate = 2.0 * np.pi / np.maximum(sigma**2, _SMALLEST_SQUARE)
        first = np.exp(-rate * (np.pi - distance))
        return first, np.exp(-rate * (np.pi + distance)), (first * np.exp(-rate * np.pi)) ** 2


def _log_density_by_images(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", under="ignore"):
        near = -0.5 * (offset / sigma) ** 2 - np.log(sigma) - 0.5 * _LOG_TURN
    first, back, second = _image_weights(offset, sigma)
    return near + np.log1p(first + back + second)


def _slope_by_images(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    first, back, second = _image_weights(offset, sigma)
    turns = (first - back + 2.0 * second) / (1.0 + first + back + second)
    return (np.copysign(2.0 * np.pi * turns, offset) - offset) / np.maximum(sigma**2, _SMALLEST_SQUARE)


def _harmonic_weights(sigma: FloatArray) -> list[FloatArray]:
    """2 ρ^{n²} for n = 1, ..., 5."""
    with np.errstate(under="ignore", over="ignore"):
        rho = np.exp(-0.5 * sigma**2)
        fourth = (rho * rho) ** 2
        sixteenth = (fourth * fourth) ** 2
        return [2.0 * power for power in (rho, fourth, fourth**2 * rho, sixteenth, sixteenth * fourth**2 * rho)]


def _clenshaw(cos: FloatArray, weights: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Σ w_n cos nd and Σ w_n sin nd / sin d, from cos d alone."""
    last, before = np.zeros_like(cos), np.zeros_like(cos)
    for weight in reversed(weights):
        last, before = weight + 2.0 * cos * last - before, last
    return cos * last - before, last


def _log_density_by_harmonics(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    return np.log1p(_clenshaw(np.cos(offset), _harmonic_weights(sigma))[0]) - _LOG_TURN


def _slope_by_harmonics(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    cos, weights = np.cos(offset), _harmonic_weights(sigma)
    total, _ = _clenshaw(cos, weights)
    _, slope = _clenshaw(cos, [n * weight for n, weight in enumerate(weights, start=1)])
    return -np.sin(offset) * slope / (1.0 + total)


def _mass_by_images(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    scale = np.sqrt(2.0) * sigma
    total = erf(offset / scale)
    for turn in (2.0 * np.pi, 4.0 * np.pi):
        total = total + erfc((turn - offset) / scale) - erfc((turn + offset) / scale)
    return 0.5 * total


def _mass_by_harmonics(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    _, slope = _clenshaw(np.cos(offset), [weight / n for n, weight in enumerate(_harmonic_weights(sigma), start=1)])
    return (offset + np.sin(offset) * slope) / (2.0 * np.pi)


def _hermite_by_images(offset: FloatArray, sigma: float) -> FloatArray:
    weights = _image_weights(offset, np.asarray(sigma))
    centre, turn = np.abs(offset) / sigma, 2.0 * np.pi / sigma
    total = 1.0 + sum(weights)
    powers = [centre**j for j in range(1, 5)]
    for weight, k in zip(weights, (1.0, -1.0, 2.0), strict=True):
        point = centre - k * turn
        scaled = weight
        for j in range(4):
            scaled = scaled * point
            powers[j] = powers[j] + scaled
    one, two, three, four = (power / total for power in powers)
    sign = np.where(offset < 0, -1.0, 1.0)
    return np.stack([sign * one, two - 1.0, sign * (three - 3.0 * one), four - 6.0 * two + 3.0])


def _hermite_by_harmonics(offset: FloatArray, sigma: float) -> FloatArray:
    total = np.ones_like(offset)
    out = np.zeros((4, *offset.shape))
    for n, weight in enumerate(_harmonic_weights(np.asarray(sigma)), start=1):
        cos, sin, scale = weight * np.cos(n * offset), weight * np.sin(n * offset), n * sigma
        total += cos
        out += np.stack([scale * sin, -(scale**2) * cos, -(scale**3) * sin, scale**4 * cos])
    return out / total
