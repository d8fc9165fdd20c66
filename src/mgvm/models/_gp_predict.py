"""Predictions of circular regression: a Gaussian in the plane at every query point, its direction, plus the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgvm._numerics.soft_circle import direction_log_density
from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.models._gp_dense import State
from mgvm.models._gp_gradient import prior_times, site_times
from mgvm.models._gp_noise import Noise
from mgvm.models._gp_plane import natural_of
from mgvm.models._gp_prior import Cross

_FEWEST, _MOST = 256, 8192
_LEAST = 1e-300


@dataclass(frozen=True)
class Posterior:
    """What predictions need of a state: mean weights K⁻¹m (2, N) and K⁻¹ - K⁻¹ΣK⁻¹ = (1 - SΣ)S (2N, 2N)."""

    weights: FloatArray
    shrinkage: FloatArray

    @classmethod
    def of(cls, state: State) -> Posterior:
        """From the end of expectation propagation."""
        halves = prior_times(state)
        linear = np.concatenate([state.sites[:, 0], state.sites[:, 1]])
        shrinkage = np.concatenate([site_times(state, half) for half in halves])
        return cls(np.stack([half @ linear for half in halves]), 0.5 * (shrinkage + shrinkage.T))

    def at(self, cross: Cross) -> tuple[FloatArray, FloatArray]:
        """Mean (M, 2) and covariance (M, 2, 2) of x at query points."""
        size = self.weights.shape[1]
        count = cross.variances[0].size
        mean, covariance = np.zeros((count, 2)), np.zeros((count, 2, 2))
        for b, matrix, variance in zip(cross.coupling, cross.matrices, cross.variances, strict=True):
            mean += (matrix @ self.weights.T) @ b.T
            covariance += variance[:, None, None] * b
        parts = self.shrinkage.reshape(2, size, 2, size)
        for b, left in zip(cross.coupling, cross.matrices, strict=True):
            for d, right in zip(cross.coupling, cross.matrices, strict=True):
                inner = np.empty((count, 2, 2))
                for i in range(2):
                    for j in range(2):
                        inner[:, i, j] = np.einsum("mn,mn->m", left @ parts[i, :, j], right)
                covariance -= b @ inner @ d.T
        return mean, _regular(covariance)


def _regular(covariance: FloatArray) -> FloatArray:
    """Symmetric, and positive definite where rounding has taken that away."""
    out = 0.5 * (covariance + np.swapaxes(covariance, 1, 2))
    values, vectors = np.linalg.eigh(out)
    floor = 1e-12 * np.maximum(values[:, -1:], 1.0)
    return np.asarray((vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def directions(mean: FloatArray, covariance: FloatArray, spread: float) -> GridDensity:
    """The law of the latent direction at every query point: the Gaussian on the soft circle."""
    natural = natural_of(mean, covariance)
    assert natural is not None
    return law_of(natural, spread)


def law_of(natural: FloatArray, spread: float) -> GridDensity:
    """Directions of Gaussians in the plane, given by their natural parameters (N, 5), on the soft circle."""
    total = np.hypot(natural[:, 0], natural[:, 1]) + 2.0 * np.abs(natural[:, 2:]).sum(axis=1)
    count = cells(float(total.max(initial=0.0)))
    nodes = -np.pi + 2.0 * np.pi / count * np.arange(count)
    points = np.stack([np.cos(nodes), np.sin(nodes)])
    return GridDensity(direction_log_density(natural, points, -1.0 if spread == 0.0 else spread**-2.0))


def cells(concentration: float) -> int:
    """Nodes that resolve a law of the given curvature."""
    wanted = 64.0 + 24.0 * np.sqrt(concentration)
    return int(np.clip(2 ** np.ceil(np.log2(wanted)), _FEWEST, _MOST))


def with_noise(latent: GridDensity, noise: Noise, rho: FloatArray) -> GridDensity:
    """The law of latent direction plus noise: convolution on the circle multiplies Fourier coefficients."""
    values = np.asarray(latent.log_values)
    count = max(values.shape[-1], cells(noise.concentration(rho)))
    grid = -np.pi + 2.0 * np.pi / count * np.arange(count)
    if count != values.shape[-1]:
        values = latent[..., None].logpdf(grid)
    density = np.exp(values - values.max(axis=-1, keepdims=True))
    density /= density.sum(axis=-1, keepdims=True)
    kernel = np.exp(noise.log_density(rho, np.roll(grid, -(count // 2))))
    spectrum = np.fft.rfft(density, axis=-1) * np.fft.rfft(kernel)
    # Fourier's rounding, 1e-16 of the peak, may fall below zero in the tails.
    return GridDensity(np.log(np.maximum(np.fft.irfft(spectrum, count, axis=-1), _LEAST + 1e-17 * kernel.max())))
