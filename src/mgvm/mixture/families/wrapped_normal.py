"""Wrapped normal components: p(φ) = Σ_k N(φ + 2πk | μ, C), C any covariance.

EM takes the images of a row for latent variables, as it does the components: the M step is closed, the mean and the
covariance of the images by their weights. Shrinkage adds `pseudo_count` rows' worth of a diagonal covariance Ψ,

    log prior = -ν/2 (log|C| + tr C⁻¹Ψ),   C = (Σ_n r_n E[e eᵀ] + νΨ) / (Σ_n r_n + ν),

Ψ the variances within all components together. Eigenvalues of C are held between two bounds; clipping those of the
free maximum gives the maximum under the bounds, since the likelihood is a sum over eigenvalues in the right frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mgvm._grids import log_sum_exp
from mgvm._numerics.wrapped import image_log_densities, image_moments
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.learning.rows import group_by_missing
from mgvm.mixture.families.base import NEGLIGIBLE, BoolArray, IntArray, by_component, count, draw_places


class WrappedParameters(NamedTuple):
    """Means (K, D), covariances before wrapping (K, D, D), and the prior's variances Ψ (K, D)."""

    mean: FloatArray
    cov: FloatArray
    prior: FloatArray


class _Factors(NamedTuple):
    """C⁻¹ = AᵀA and C = UUᵀ, both upper triangular (K, D, D), 1/√C_dd (K, D) and -log √|2πC| (K,)."""

    white: FloatArray
    root: FloatArray
    inverse_spread: FloatArray
    log_scale: FloatArray


@dataclass(frozen=True)
class WrappedFamily:
    """K wrapped normal distributions with full covariances.

    Parameters
    ----------
    pseudo_count : float
        Rows' worth of the variances of all components together, without correlation, that each component sees.
    narrowest : float
        Least standard deviation in any direction, radians.
    widest : float, optional
        Largest one; π for up to three angles and 1.5 for more by default.
    """

    pseudo_count: float = 5.0
    narrowest: float = 0.01
    widest: float | None = None

    @property
    def name(self) -> str:
        """The word for `component=`."""
        return "wrapped_normal"

    def n_parameters(self, dimension: int) -> int:
        """D means and D(D + 1)/2 covariances."""
        return dimension + dimension * (dimension + 1) // 2

    def start(self, x: FloatArray, weights: FloatArray) -> WrappedParameters:
        """Mean directions and the covariance of offsets from them."""
        components, dimension = weights.shape[1], x.shape[1]
        mean = np.angle(weights.T @ np.exp(1j * x))
        total = weights.sum(axis=0)
        scatter = np.empty((components, dimension, dimension))
        for k in range(components):
            used = np.flatnonzero(weights[:, k] > NEGLIGIBLE * weights[:, k].max())
            offset = np.asarray(wrap(x[used] - mean[k]))
            offset -= weights[used, k] @ offset / weights[used, k].sum()
            scatter[k] = (offset * weights[used, k, None]).T @ offset
        prior = np.broadcast_to(self._pool_variances(scatter, total), mean.shape).copy()
        return WrappedParameters(mean, self._shrink(scatter, total, prior), prior)

    def log_density(self, parameters: WrappedParameters, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
        """Normalised log densities (N, K), -inf where `near` is False or far below the row's largest."""
        shape = (x.shape[0], count(parameters))
        out = np.zeros(shape) if near is None else np.where(near, 0.0, -np.inf)
        white, _, inverse_spread, log_scale = _factors(parameters.cov)
        # Log densities 60 nats below a row's largest add 1e-26 of it and are left out.
        dists = (np.array(parameters.mean), white, inverse_spread, log_scale, 60.0)
        # Within a turn: the kernel's own reduction leaves a rest of 10⁸⁴ turns of 10¹⁰⁰, and walks them all.
        image_log_densities(np.array(wrap(x), order="C"), dists, out)
        return out

    def update(self, parameters: WrappedParameters, x: FloatArray, weights: FloatArray) -> WrappedParameters:
        """The M step, in closed form."""
        used = weights.sum(axis=0) > 0.0
        scatter, total, mean = self._moments(parameters, x, weights)
        cov = np.where(used[:, None, None], self._shrink(scatter, total, parameters.prior), parameters.cov)
        return WrappedParameters(np.where(used[:, None], mean, parameters.mean), cov, parameters.prior)

    def _moments(
        self, parameters: WrappedParameters, x: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Scatter (K, D, D) of the images around their mean, weights (K,), and means (K, D)."""
        white, root, inverse_spread, _ = _factors(parameters.cov)
        shares = np.where(weights > NEGLIGIBLE, weights, 0.0)
        rows = np.array(wrap(x), order="C")
        first, second = image_moments(rows, shares, np.array(parameters.mean), white, inverse_spread)
        total = shares.sum(axis=0)
        centre = first / np.maximum(total, 1e-300)[:, None]
        second -= total[:, None, None] * centre[:, :, None] * centre[:, None, :]
        scatter = root @ second @ np.swapaxes(root, 1, 2)
        mean = np.asarray(wrap(parameters.mean + (root @ centre[:, :, None])[:, :, 0]))
        return scatter, total, mean

    def _shrink(self, scatter: FloatArray, total: FloatArray, prior: FloatArray) -> FloatArray:
        """The covariance of highest posterior density under the bounds."""
        dimension = scatter.shape[1]
        diagonal = self.pseudo_count * prior[:, :, None] * np.eye(dimension)
        free = (scatter + diagonal) / np.maximum(total + self.pseudo_count, 1e-300)[:, None, None]
        values, vectors = np.linalg.eigh(0.5 * (free + np.swapaxes(free, 1, 2)))
        # A standard deviation of π makes an angle uniform up to a hundredth. Images of many wide angles are too many to
        # sum; at 1.5 a hundred or so matter of six angles.
        widest = self.widest or (math.pi if dimension < 4 else 1.5)
        clipped = np.clip(values, self.narrowest**2, widest**2)
        return np.asarray((vectors * clipped[:, None, :]) @ np.swapaxes(vectors, 1, 2))

    def _pool_variances(self, scatter: FloatArray, total: FloatArray) -> FloatArray:
        """Variances (D,) within all components together."""
        variance = np.einsum("kii->i", scatter) / total.sum()
        return np.asarray(np.maximum(variance, self.narrowest**2))

    def log_prior(self, parameters: WrappedParameters) -> FloatArray:
        """-ν/2 (log|C| + tr C⁻¹Ψ), less its value at C = Ψ."""
        white = _factors(parameters.cov).white
        log_determinant = -2.0 * np.log(np.einsum("kii->ki", white)).sum(axis=1) - np.log(parameters.prior).sum(axis=1)
        trace = (white**2 * parameters.prior[:, None, :]).sum(axis=(1, 2)) - white.shape[1]
        return np.asarray(-0.5 * self.pseudo_count * (log_determinant + trace))

    def renew_prior(self, parameters: WrappedParameters, x: FloatArray, weights: FloatArray) -> WrappedParameters:
        """Ψ from where the components stand."""
        scatter, total, _ = self._moments(parameters, x, weights)
        if not total.sum() > 0.0:
            return parameters
        return parameters._replace(
            prior=np.broadcast_to(self._pool_variances(scatter, total), parameters.prior.shape).copy()
        )

    def sample(self, parameters: WrappedParameters, labels: IntArray, rng: np.random.Generator) -> FloatArray:
        """Normal draws, wrapped (n, D)."""
        root = _factors(parameters.cov).root[labels]
        draws = rng.standard_normal((labels.size, parameters.mean.shape[1], 1))
        return np.asarray(wrap(parameters.mean[labels] + (root @ draws)[:, :, 0]))

    def log_marginal(self, parameters: WrappedParameters, x: FloatArray) -> FloatArray:
        """Log densities (N, K) of the observed angles: the normal distribution of some coordinates, wrapped."""
        out = np.zeros((x.shape[0], count(parameters)))
        for rows, _, kept in group_by_missing(x):
            if kept.size:
                mean, cov = parameters.mean[:, kept], parameters.cov[:, kept[:, None], kept]
                part = WrappedParameters(mean, cov, parameters.prior[:, kept])
                out[rows] = self.log_density(part, x[np.ix_(rows, kept)])
        return out

    def expect_missing(self, parameters: WrappedParameters, x: FloatArray, labels: IntArray) -> ComplexArray:
        """E[e^{iφ}] (n, D) of missing angles given the others: a normal distribution for each image of these."""
        out = np.zeros(x.shape, dtype=complex)
        for given in _condition(parameters, x, labels):
            weights = np.exp(given.log_weights - log_sum_exp(given.log_weights, axis=1)[:, None])
            waves = np.exp(1j * given.mean - 0.5 * np.diag(given.cov))
            out[given.rows[:, None], given.missing] = np.einsum("ni,nia->na", weights, waves)
        return out

    def draw_missing(
        self, parameters: WrappedParameters, x: FloatArray, labels: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        """Rows (n, D) completed by draws: of an image of what was observed, then normal."""
        out = x.copy()
        for given in _condition(parameters, x, labels):
            image = draw_places(given.log_weights, given.rows.size, rng)
            root = np.linalg.cholesky(given.cov)
            noise = rng.standard_normal((given.rows.size, given.missing.size)) @ root.T
            mean = given.mean[np.arange(given.rows.size), image]
            out[given.rows[:, None], given.missing] = wrap(mean + noise)
        return out


class _Conditionals(NamedTuple):
    """Rows (n,) and columns that they lack (m,): log weights (n, I) and means (n, I, m) of the images of what was
    observed, and the covariance (m, m) of all.
    """

    rows: IntArray
    missing: IntArray
    log_weights: FloatArray
    mean: FloatArray
    cov: FloatArray


def _condition(
    parameters: WrappedParameters, x: FloatArray, labels: IntArray, *, reach: float = 8.5, block: int = 400_000
) -> Iterator[_Conditionals]:
    """Missing angles given the others, by component and by which are missing.

    Images more than `reach` standard deviations off, e⁻³⁶ of the highest density, are left out; at most `block`
    numbers are held at once.
    """
    for some, missing, seen in group_by_missing(x):
        for k, mine in by_component(some, labels) if missing.size else ():
            mean, cov = parameters.mean[k], parameters.cov[k]
            inverse = np.linalg.inv(cov[np.ix_(seen, seen)])
            gain = cov[np.ix_(missing, seen)] @ inverse
            rest = cov[np.ix_(missing, missing)] - gain @ cov[np.ix_(seen, missing)]
            spread = np.sqrt(np.diag(cov)[seen])
            turns = [
                math.tau * np.arange(-m, m + 1) for m in np.maximum(1, (reach * spread / math.tau + 0.5).astype(int))
            ]
            shifts = np.stack(np.meshgrid(*turns), axis=-1).reshape(-1, seen.size) if turns else np.zeros((1, 0))
            for rows in np.array_split(mine, -(-mine.size * len(shifts) * x.shape[1] // block)):
                offset = np.asarray(wrap(x[rows][:, seen] - mean[seen]))[:, None, :] + shifts
                log_weights = -0.5 * np.einsum("nip,pq,niq->ni", offset, inverse, offset, optimize=True)
                yield _Conditionals(rows, missing, log_weights, mean[missing] + offset @ gain.T, rest)


def _factors(cov: FloatArray) -> _Factors:
    """Triangular factors of covariances (K, D, D) and of their inverses."""
    # The factor of the reversed matrix, reversed, is upper triangular.
    root = np.linalg.cholesky(cov[:, ::-1, ::-1])[:, ::-1, ::-1]
    white = np.triu(np.linalg.inv(root))
    spread = np.sqrt(np.einsum("kii->ki", cov))
    log_scale = np.log(np.einsum("kii->ki", white)).sum(axis=1) - 0.5 * cov.shape[1] * math.log(2.0 * math.pi)
    return _Factors(np.ascontiguousarray(white), np.ascontiguousarray(root), 1.0 / spread, log_scale)
