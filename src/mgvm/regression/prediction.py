"""From a Gaussian in the plane at every query point to the density of the angle there.

The direction of the Gaussian on the soft circle is the latent angle; convolution with the noise gives the observed one.
Leave-one-out densities of single rows come from the latent density without an input's observations, to which all of
them but one are added again. Everything is a `GridDensity`: values on a periodic grid.
"""

from __future__ import annotations

import numpy as np

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.soft_circle import direction_log_density
from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._planar_gaussian import are_positive_definite, natural_parameters
from mgvm.regression.noise import Noise, Replicates


def cells(concentration: float) -> int:
    """Nodes that resolve a distribution of the given curvature, a power of two from 256 to 8192."""
    wanted = 64.0 + 24.0 * np.sqrt(concentration)
    return int(np.clip(2 ** np.ceil(np.log2(wanted)), 256, 8192))


def radial_precision(radial_scale: float) -> float:
    """τ⁻², negative for the circle itself: how compiled functions tell it from the plane."""
    return -1.0 if radial_scale == 0.0 else radial_scale**-2.0


def project_gaussians(mean: FloatArray, covariance: FloatArray, radial_scale: float) -> GridDensity:
    """Directions of Gaussians in the plane, given by means (M, 2) and covariances (M, 2, 2), on the soft circle."""
    if not are_positive_definite(covariance).all():
        raise ValueError("a predictive covariance is not positive definite; add a WhiteKernel to the kernel")
    return project_natural(natural_parameters(mean, covariance), radial_scale)


def project_natural(natural: FloatArray, radial_scale: float) -> GridDensity:
    """Directions of Gaussians in the plane, given by natural parameters (N, 5), on the soft circle."""
    total = np.hypot(natural[:, 0], natural[:, 1]) + 2.0 * np.abs(natural[:, 2:]).sum(axis=1)
    nodes = periodic_grid(cells(float(total.max(initial=0.0))))
    points = np.stack([np.cos(nodes), np.sin(nodes)])
    return GridDensity(direction_log_density(natural, points, radial_precision(radial_scale)))


def convolve_noise(latent: GridDensity, noise: Noise, rho: FloatArray) -> GridDensity:
    """The distribution of latent direction plus noise: convolution on the circle multiplies Fourier coefficients."""
    values = np.asarray(latent.log_values)
    count = max(values.shape[-1], cells(noise.concentration(rho)))
    grid = periodic_grid(count)
    if count != values.shape[-1]:
        values = latent[..., None].logpdf(grid)
    density = np.exp(values - values.max(axis=-1, keepdims=True))
    density /= density.sum(axis=-1, keepdims=True)
    kernel = np.exp(noise.log_density(rho, np.roll(grid, -(count // 2))))
    spectrum = np.fft.rfft(density, axis=-1) * np.fft.rfft(kernel)
    # Fourier's rounding, 1e-16 of the peak, may fall below zero in the tails.
    return GridDensity(np.log(np.maximum(np.fft.irfft(spectrum, count, axis=-1), 1e-300 + 1e-17 * kernel.max())))


def mix_densities(dists: list[GridDensity], weights: list[float]) -> GridDensity:
    """A mixture on the finest grid of its parts."""
    count = max(dist.log_values.shape[-1] for dist in dists)
    nodes = periodic_grid(count)
    density = sum(
        weight * (np.exp(dist.log_values) if dist.log_values.shape[-1] == count else dist[:, None].pdf(nodes))
        for weight, dist in zip(weights, dists, strict=True)
    )
    return GridDensity(np.log(density))


def row_log_densities(
    latent: GridDensity, replicates: Replicates, noise: Noise, rho: FloatArray, *, block: int = 2**22
) -> FloatArray:
    """log p(ψ_r | all other observations) of every observation, in the order of the replicates.

    With L = `latent` the distribution of the latent direction without an input's observations, Π its likelihood and p_r
    that of one observation, it is log ∫LΠ - log ∫LΠ/p_r: the others at the same input keep their say. An observation of
    weight w stands for w equal ones, of which one is left out; one of w < 1 is left out whole. `block` numbers are held
    at once.
    """
    out = np.empty(replicates.angles.size)
    ends = np.append(replicates.starts[1:], replicates.angles.size)
    count = max(latent.log_values.shape[-1], cells(noise.concentration(rho) * float(replicates.total.max())))
    nodes = periodic_grid(count)
    size = max(1, block // count)
    noisy = noise.log_density(rho, nodes)
    # Nodes 40 nats below the top do not count, and leaving one observation out lifts none by more than the noise spans.
    negligible = -40.0 - float(np.ptp(noisy))
    for begin in range(0, replicates.starts.size, size):
        which = np.arange(begin, min(begin + size, replicates.starts.size))
        dist = latent[which]
        values = dist.log_values if dist.log_values.shape[-1] == count else dist[:, None].logpdf(nodes)
        values = values + noise.likelihood(rho, replicates.take(which), nodes)[0]
        values = values - log_sum_exp(values, axis=1)[:, None]
        if replicates.angles.size == replicates.starts.size:  # one observation an input: all at once
            alone = Replicates(replicates.angles[which], np.ones(which.size), which - begin)
            out[which] = _leave_out(values, replicates.weights[which], noise.likelihood(rho, alone, nodes)[0])
            continue
        for i in which:
            near = values[i - begin] > values[i - begin].max() + negligible
            logs, places = values[i - begin][near], nodes[near]
            for first in range(replicates.starts[i], ends[i], size):
                rows = np.arange(first, min(first + size, ends[i]))
                single = noise.log_densities(rho, replicates.angles[rows], places)
                out[rows] = _leave_out(logs, replicates.weights[rows], single)
    return out


def _leave_out(values: FloatArray, weights: FloatArray, single: FloatArray) -> FloatArray:
    """log p of each observation given the others: `values` are log densities with all, `single` (n, nodes) of each."""
    without = values - np.minimum(weights[:, None], 1.0) * single
    return np.asarray(log_sum_exp(without + single) - log_sum_exp(without))
