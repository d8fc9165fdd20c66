"""A density on a periodic grid from draws: counts, smoothed by a wrapped normal kernel."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray

_WIDEST, _STEPS = 1.0, 40  # of the kernels that are tried, radians
_RESOLVED = 1.2  # the narrowest, in steps of the grid


def smooth_density(angles: FloatArray, points: int, width: float | None = None) -> FloatArray:
    """Density of rows (n, D) at the grid -π + 2π k / points along each of the D angles; D is 1 or 2.

    The width h of the kernel, whose Fourier coefficients are w_k = exp(-h²|k|²/2), is given or the one of least squared
    error by leave-one-out, ∫ f̂² - (2/n) Σ_i f̂_{-i}(x_i); with the data's coefficients φ_k it is, up to a factor,
    Σ_k |φ_k|² w_k² - 2 (n |φ_k|² - 1) w_k / (n - 1).
    """
    count, dimension = angles.shape
    cells = np.floor((angles + np.pi) * (points / (2.0 * np.pi)) + 0.5).astype(np.int64) % points
    histogram = np.zeros((points,) * dimension)
    np.add.at(histogram, tuple(cells.T), 1.0 / count)
    coefficients = np.fft.fftn(histogram)
    waves = np.fft.fftfreq(points, 1.0 / points)
    square = sum(part**2 for part in np.meshgrid(*[waves] * dimension, indexing="ij"))
    power = np.abs(coefficients) ** 2

    def loss(width: float) -> float:
        kernel = np.exp(-0.5 * width**2 * square)
        return float(np.sum(power * kernel**2 - 2.0 * (count * power - 1.0) * kernel / max(count - 1, 1)))

    widths = np.geomspace(_RESOLVED * 2.0 * np.pi / points, _WIDEST, _STEPS)
    best = min(widths, key=loss) if width is None else width
    smooth = np.fft.ifftn(coefficients * np.exp(-0.5 * best**2 * square)).real
    return np.clip(smooth, 0.0, None) * (points / (2.0 * np.pi)) ** dimension
