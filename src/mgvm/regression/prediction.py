"""A fitted circular Gaussian process, whatever engine fitted it: the distribution of the latent direction anywhere.

Predictions of circular regression: a Gaussian in the plane at every query point, its direction, plus the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.soft_circle import direction_log_density
from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.engines.dense import State, Tuned, prior_times, site_times
from mgvm.regression.engines.tilted import natural_of
from mgvm.regression.noise import Noise, Replicates
from mgvm.regression.prior import Cross

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
    """The distribution of the latent direction at every query point: the Gaussian on the soft circle."""
    natural = natural_of(mean, covariance)
    assert natural is not None
    return distribution_of(natural, spread)


def distribution_of(natural: FloatArray, spread: float) -> GridDensity:
    """Directions of Gaussians in the plane, given by their natural parameters (N, 5), on the soft circle."""
    total = np.hypot(natural[:, 0], natural[:, 1]) + 2.0 * np.abs(natural[:, 2:]).sum(axis=1)
    count = cells(float(total.max(initial=0.0)))
    nodes = periodic_grid(count)
    points = np.stack([np.cos(nodes), np.sin(nodes)])
    return GridDensity(direction_log_density(natural, points, -1.0 if spread == 0.0 else spread**-2.0))


def cells(concentration: float) -> int:
    """Nodes that resolve a distribution of the given curvature."""
    wanted = 64.0 + 24.0 * np.sqrt(concentration)
    return int(np.clip(2 ** np.ceil(np.log2(wanted)), _FEWEST, _MOST))


def with_noise(latent: GridDensity, noise: Noise, rho: FloatArray) -> GridDensity:
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
    return GridDensity(np.log(np.maximum(np.fft.irfft(spectrum, count, axis=-1), _LEAST + 1e-17 * kernel.max())))


_CHUNK = 2**24  # numbers in one block of covariances with the inputs
_BLOCK = 2**22
_DEEP = 40.0  # nats below the top at which a node no longer counts


class Fitted(Protocol):
    """What prediction and diagnosis need."""

    @property
    def rho(self) -> FloatArray:
        """Coefficients of the noise."""

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The learnt kernels."""

    @property
    def objective(self) -> float:
        """What was maximised."""

    @property
    def converged(self) -> bool:
        """Whether inference reached its tolerance."""

    @property
    def mismatch(self) -> float:
        """The largest mismatch of a moment at the end, 0 where inference is exact."""

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge."""

    @property
    def leave_one_out(self) -> GridDensity:
        """The distribution of the latent direction of every input without its own observations."""

    def latent(self, queries: Any) -> GridDensity:
        """The distribution of the latent direction at query points, each asked alone."""


class FromTuned:
    """What every kind of fit takes from the end of its search, `tuned`."""

    tuned: Any

    @property
    def rho(self) -> FloatArray:
        """Coefficients of the noise."""
        return np.asarray(self.tuned.rho)

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The learnt kernels."""
        return tuple(self.tuned.prior.kernels)

    @property
    def objective(self) -> float:
        """What was maximised."""
        return float(self.tuned.objective)

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge."""
        return (
            f"expectation propagation did not settle (mismatch {getattr(self, 'mismatch', 0.0):.2g}); add a "
            "WhiteKernel to the kernel, try radius='soft', or fix the length scale to a shorter one"
        )


class Propagated(FromTuned):
    """The end of expectation propagation: a state with cavities, on a circle of the given softness."""

    spread: float

    @property
    def converged(self) -> bool:
        """Whether inference reached its tolerance."""
        return bool(self.tuned.converged)

    @property
    def mismatch(self) -> float:
        """The largest mismatch of a moment."""
        return float(self.tuned.state.mismatch)

    @property
    def leave_one_out(self) -> GridDensity:
        """The cavities on the soft circle."""
        return distribution_of(self.tuned.state.cavity, self.spread)


@dataclass(frozen=True)
class DenseFitted(Propagated):
    """The end of dense expectation propagation."""

    inputs: Any
    tuned: Tuned
    spread: float
    posterior: Posterior

    @classmethod
    def of(cls, inputs: Any, tuned: Tuned, spread: float) -> DenseFitted:
        """Keep what predictions need."""
        return cls(inputs, tuned, spread, Posterior.of(tuned.state))

    def plane(self, queries: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of the planar vector at query points, in blocks."""
        size = max(1, _CHUNK // max(1, self.tuned.state.mean.shape[0]))
        parts = [
            self.posterior.at(self.tuned.prior.cross(queries[begin : begin + size], self.inputs))
            for begin in range(0, max(1, len(queries)), size)
        ]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([cov for _, cov in parts])

    def latent(self, queries: Any) -> GridDensity:
        """The Gaussian at every query, on the soft circle."""
        return directions(*self.plane(queries), self.spread)


def row_log_densities(alone: GridDensity, replicates: Replicates, noise: Noise, rho: FloatArray) -> FloatArray:
    """log p(ψ_r | all other observations) of every observation, in the order of the replicates.

    With L the distribution of the latent direction without an input's observations, Π its likelihood and p_r that of
    one observation, it is log ∫LΠ - log ∫LΠ/p_r: the others at the same input keep their say. An observation of weight
    w stands for w equal ones, of which one is left out; one of w < 1 is left out whole.
    """
    out = np.empty(replicates.angles.size)
    ends = np.append(replicates.starts[1:], replicates.angles.size)
    count = max(alone.log_values.shape[-1], cells(noise.concentration(rho) * float(replicates.total.max())))
    nodes = periodic_grid(count)
    size = max(1, _BLOCK // count)
    noisy = noise.log_density(rho, nodes)
    negligible = -_DEEP - float(np.ptp(noisy))  # leaving one observation out lifts no node by more than the noise spans
    for begin in range(0, replicates.starts.size, size):
        which = np.arange(begin, min(begin + size, replicates.starts.size))
        dist = alone[which]
        values = dist.log_values if dist.log_values.shape[-1] == count else dist[:, None].logpdf(nodes)
        values = values + noise.likelihood(rho, replicates.take(which), nodes)[0]
        values = values - log_sum_exp(values)[:, None]
        if replicates.angles.size == replicates.starts.size:  # one observation an input: all at once
            single = noise.likelihood(
                rho, Replicates(replicates.angles[which], np.ones(which.size), which - begin), nodes
            )[0]
            out[which] = _left_out(values, replicates.weights[which], single)
            continue
        for i in which:
            near = values[i - begin] > values[i - begin].max() + negligible
            weights, places = values[i - begin][near], nodes[near]
            for rows in _blocks(replicates.starts[i], ends[i], size):
                single = noise.log_densities(rho, replicates.angles[rows], places)
                out[rows] = _left_out(weights, replicates.weights[rows], single)
    return out


def _left_out(values: FloatArray, weights: FloatArray, single: FloatArray) -> FloatArray:
    """Of log densities `values` with observations in them, each of which has log densities `single` (n, nodes)."""
    without = values - np.minimum(weights[:, None], 1.0) * single
    return np.asarray(log_sum_exp(without + single) - log_sum_exp(without))


def _blocks(begin: int, end: int, size: int) -> list[np.ndarray]:
    return [np.arange(start, min(start + size, end)) for start in range(begin, end, size)]
