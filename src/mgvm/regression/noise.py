"""Noise of circular regression: the distribution of an observed angle around its latent direction, with learnt
coefficients.

A noise distribution has real coefficients ρ (its hyper-parameters) and tells, for the replicates of every input, the
log-likelihood of a latent direction at given nodes with its derivatives in ρ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray


class Replicates(NamedTuple):
    """Observed angles, sorted by input, and their weights; `starts` (G,) is where the rows of each input begin."""

    angles: FloatArray
    weights: FloatArray
    starts: np.ndarray

    @property
    def total(self) -> FloatArray:
        """The weight of every input, (G,)."""
        return np.add.reduceat(self.weights, self.starts)

    @property
    def sizes(self) -> np.ndarray:
        """How many angles every input has, (G,)."""
        return np.diff(np.append(self.starts, self.angles.size))

    @property
    def input_of(self) -> np.ndarray:
        """The number of every angle's input, (n,)."""
        return np.repeat(np.arange(self.starts.size), self.sizes)

    def harmonics(self, order: int) -> ComplexArray:
        """Σ w e^{itψ} of every input for t = 1..order, (G, order)."""
        z = np.exp(1j * self.angles)
        wave, out = self.weights * z, np.empty((self.starts.size, order), dtype=complex)
        for t in range(order):
            out[:, t] = np.add.reduceat(wave, self.starts)
            wave = wave * z
        return out

    def take(self, which: np.ndarray) -> Replicates:
        """The replicates at some indices."""
        sizes = self.sizes[which]
        begins = np.cumsum(sizes) - sizes
        rows = np.arange(sizes.sum()) + np.repeat(self.starts[which] - begins, sizes)
        return Replicates(self.angles[rows], self.weights[rows], begins)


class Noise(Protocol):
    """A distribution around the latent direction."""

    @property
    def start(self) -> FloatArray:
        """Coefficients ρ to begin with, also the centre of their weak prior."""

    @property
    def two_modes(self) -> FloatArray | None:
        """Coefficients of another kind to begin with, if there are."""

    def likelihood(self, rho: FloatArray, replicates: Replicates, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log-likelihoods (G, n) of the directions `nodes`, and their derivatives in ρ (G, n, p)."""

    def log_density(self, rho: FloatArray, angles: FloatArray) -> FloatArray:
        """Log density of ψ - φ (n,)."""

    def log_densities(self, rho: FloatArray, angles: FloatArray, nodes: FloatArray) -> FloatArray:
        """log p(ψ | φ) of angles ψ (n,) around directions φ (m,): (n, m)."""

    def concentration(self, rho: FloatArray) -> float:
        """A bound on the curvature of the log density: how fine a grid must be."""


@dataclass(frozen=True)
class GvMNoise:
    """log p(ψ | φ) = Re Σ_t conj(η_t) e^{it(ψ - φ)} - log Z(η), with η = sinh ρ.

    The sinh is linear near 0, so that a harmonic may vanish or change its sign, and exponential beyond, so that a step
    in ρ is a factor of the concentration. η₁ is real (the direction of the latent angle absorbs its phase); those of
    higher order are real as well where the noise is symmetric.
    """

    order: int = 1
    symmetric: bool = True
    first: float = 5.0

    @property
    def start(self) -> FloatArray:
        """A first harmonic alone."""
        size = self.order if self.symmetric else 2 * self.order - 1
        rho = np.zeros(size)
        rho[0] = np.arcsinh(self.first)
        return rho

    @property
    def two_modes(self) -> FloatArray | None:
        """Another start where the order allows it: two modes half a turn apart, which no descent from one finds."""
        if self.order < 2:
            return None
        rho = self.start
        rho[:2] = np.arcsinh([0.3, 2.0])
        return rho

    def _basis(self) -> ComplexArray:
        """What coefficient k adds to η, (p, T)."""
        real = np.eye(self.order, dtype=complex)
        return real if self.symmetric else np.concatenate([real, 1j * real[1:]])

    def eta(self, rho: FloatArray) -> ComplexArray:
        """η (T,)."""
        return np.asarray(np.sinh(rho) @ self._basis())

    def likelihood(self, rho: FloatArray, replicates: Replicates, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Re Σ_t η_t conj(Σ w e^{itψ}) e^{itφ} less the normaliser: only the harmonics of the replicates enter."""
        facts = gvm_facts(self.eta(rho)[None], max(2, self.order))
        waves = _waves(nodes, self.order)
        sums, total = replicates.harmonics(self.order).conj(), replicates.total
        slopes = np.cosh(rho)[:, None] * self._basis()
        normal = (slopes.conj() * facts.moments[0, : self.order]).real.sum(axis=1)
        fields = np.matmul(waves, np.swapaxes(_parts(sums[:, None, :] * slopes), 1, 2))
        fields -= (total[:, None] * normal)[:, None, :]
        values = _parts(sums * self.eta(rho)) @ waves.T - total[:, None] * facts.log_normalizer[0]
        return values, fields

    def log_density(self, rho: FloatArray, angles: FloatArray) -> FloatArray:
        """Log density of ψ - φ."""
        return self.log_densities(rho, angles, np.zeros(1))[:, 0]

    def log_densities(self, rho: FloatArray, angles: FloatArray, nodes: FloatArray) -> FloatArray:
        """log p(ψ | φ) of angles ψ (n,) around directions φ (m,): (n, m)."""
        eta = self.eta(rho)
        turned = np.exp(-1j * np.multiply.outer(angles, np.arange(1, self.order + 1))) * eta
        return _parts(turned) @ _waves(nodes, self.order).T - float(gvm_facts(eta[None], 2).log_normalizer[0])

    def concentration(self, rho: FloatArray) -> float:
        """Σ t²|η_t|."""
        return float(np.abs(self.eta(rho)) @ np.arange(1, self.order + 1) ** 2)


@dataclass(frozen=True)
class ContaminatedNoise:
    """(1 - ε) p(ψ | φ) + ε/2π: a share ε of the observations, 1/(1 + e^{-ρ}) of the last coefficient, tell nothing."""

    clean: GvMNoise

    @property
    def start(self) -> FloatArray:
        """Five in a hundred."""
        return np.append(self.clean.start, np.log(0.05 / 0.95))

    @property
    def two_modes(self) -> FloatArray | None:
        """That of the clean distribution, with the same share."""
        clean = self.clean.two_modes
        return None if clean is None else np.append(clean, self.start[-1])

    def likelihood(self, rho: FloatArray, replicates: Replicates, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each observation for itself: the logarithm of a mixture has no sufficient statistic."""
        single = Replicates(replicates.angles, np.ones_like(replicates.weights), np.arange(replicates.angles.size))
        logs, slopes = self.clean.likelihood(rho[:-1], single, nodes)
        share = 1.0 / (1.0 + np.exp(-rho[-1]))
        clean = (1.0 - share) * np.exp(logs)
        total = clean + share / (2.0 * np.pi)
        part = (replicates.weights[:, None] * clean / total)[..., None]
        # d/dρ of log[(1 - ε)p + ε/2π] with dε/dρ = ε(1 - ε).
        last = replicates.weights[:, None] * share * (1.0 - share) * (1.0 / (2.0 * np.pi) - np.exp(logs)) / total
        features = np.concatenate([part * slopes, last[..., None]], axis=2)
        values = replicates.weights[:, None] * np.log(total)
        return np.add.reduceat(values, replicates.starts), np.add.reduceat(features, replicates.starts)

    def log_density(self, rho: FloatArray, angles: FloatArray) -> FloatArray:
        """Log density of ψ - φ."""
        return self.log_densities(rho, angles, np.zeros(1))[:, 0]

    def log_densities(self, rho: FloatArray, angles: FloatArray, nodes: FloatArray) -> FloatArray:
        """log p(ψ | φ) of angles ψ (n,) around directions φ (m,): (n, m)."""
        share = 1.0 / (1.0 + np.exp(-rho[-1]))
        clean = np.exp(self.clean.log_densities(rho[:-1], angles, nodes))
        return np.log((1.0 - share) * clean + share / (2.0 * np.pi))

    def concentration(self, rho: FloatArray) -> float:
        """That of the clean distribution."""
        return self.clean.concentration(rho[:-1])


# ---- likelihoods narrower than a grid --------------------------------------------------------------------------------


def bounded_likelihood(
    noise: Noise, rho: FloatArray, replicates: Replicates, nodes: FloatArray, sharpest: float
) -> tuple[FloatArray, FloatArray]:
    """Log-likelihoods (G, n) as `noise.likelihood` has them, about their peaks no narrower than a curvature.

    Of many copies of an angle the likelihood of its direction lies between two nodes. Where its curvature may be b
    times `sharpest`, it is L* + (L - L*)/b with the peak L*: what the copies tell of the noise stays, and the direction
    is known to 1/√sharpest radians instead of less.
    """
    values, slopes = noise.likelihood(rho, replicates, nodes)
    width = noise.concentration(rho) * replicates.total
    sharp = width > sharpest
    if sharp.all():
        _widen(values, slopes, sharpest / width, _log_slope(noise, rho))
    elif sharp.any():
        some, some_slopes = values[sharp], slopes[sharp]
        _widen(some, some_slopes, sharpest / width[sharp], _log_slope(noise, rho))
        values[sharp], slopes[sharp] = some, some_slopes
    return values, slopes


def _widen(values: FloatArray, slopes: FloatArray, share: FloatArray, log_slope: FloatArray) -> None:
    """Each row's fall from its peak times its share, in place; shares fall with ρ as `log_slope` rises."""
    peak, peak_slope = _find_peaks(values, slopes)
    values -= peak[:, None]
    values *= share[:, None]
    slopes -= peak_slope[:, None]
    slopes *= share[:, None, None]
    slopes -= values[..., None] * log_slope
    slopes += peak_slope[:, None]
    values += peak[:, None]


def _find_peaks(values: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The highest value (G,) of each row by the parabola through its highest node and those beside it, and slopes."""
    rows, top = np.arange(len(values)), values.argmax(axis=1)
    places = rows[:, None], (top[:, None] + np.array([-1, 0, 1])) % values.shape[1]
    left, middle, right = values[places].T
    bend = left + right - 2.0 * middle
    away = np.where(bend < 0.0, 0.5 * (left - right) / np.minimum(bend, -1e-300), 0.0)
    parts = np.stack([0.5 * away * (away - 1.0), 1.0 - away**2, 0.5 * away * (away + 1.0)], axis=1)
    return middle - 0.25 * (left - right) * away, np.einsum("gk,gkp->gp", parts, slopes[places])


def _log_slope(noise: Noise, rho: FloatArray, step: float = 1e-5) -> FloatArray:
    """d log concentration / dρ, by differences."""
    ends = [[np.log(noise.concentration(rho + away)) for away in (e, -e)] for e in step * np.eye(rho.size)]
    return np.array([(up - down) / (2.0 * step) for up, down in ends])


def _waves(nodes: FloatArray, order: int) -> FloatArray:
    """cos tφ and sin tφ for t = 1..order, (n, 2 order)."""
    phases = np.multiply.outer(nodes, np.arange(1, order + 1))
    return np.concatenate([np.cos(phases), np.sin(phases)], axis=1)


def _parts(coefficients: ComplexArray) -> FloatArray:
    """What `_waves` are multiplied by to give Re Σ_t c_t e^{itφ}, (..., 2 order)."""
    return np.concatenate([coefficients.real, -coefficients.imag], axis=-1)
