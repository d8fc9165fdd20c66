"""Distributions whose log density is a trigonometric polynomial: what von Mises and Generalised von Mises share.

Normaliser, entropy and first moments of every distribution are found once, when it is made; so is a reference angle
(the highest mode, wherever the distribution is concentrated) from which densities are measured without cancellation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._numerics.gvm import (
    gvm_facts,
    gvm_log_densities,
    gvm_log_slopes,
    gvm_masses,
    gvm_panels,
    gvm_sample,
    gvm_turning_cells,
    suffix_sums,
    total_concentration,
)
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle import highest_density
from mgvm.circle.base import GAUSS_RULE, CircularDistribution

# Σ t²|η_t| of a distribution: beyond, the exponent rounds to a tenth and more, and where its mass lies is not defined.
LARGEST_CONCENTRATION = 1e15

# Distributions, and panels of 20 nodes, that are worked on together: some 200 MB.
MOST_DISTRIBUTIONS = 32768
MOST_PANELS = 1 << 20


def concentration(spread: float) -> float:
    """Return κ with 1 - A(κ) = spread, A = I₁/I₀."""
    if spread <= 0.5 / LARGEST_CONCENTRATION:
        raise ValueError(
            f"the angles lie within {np.sqrt(2.0 * spread):.1g} radians of their mean: a von Mises distribution so "
            f"narrow would need a concentration above {LARGEST_CONCENTRATION:g}; fit WrappedNormal, or take them as "
            "equal"
        )
    return float(concentrations(np.array([spread]))[0])


def concentrations(spread: FloatArray, max_iter: int = 100) -> FloatArray:
    """That of each (n,), infinite beyond the largest concentration, by Newton's method on log κ.

    A' = Var cos φ = 1 - A/κ - A².
    """
    from scipy.special import ive  # a tenth of a second, which other calls of a first process need not wait for

    kappa = np.where(spread >= 1.0, 0.0, np.inf)
    left = np.flatnonzero((spread < 1.0) & (spread > 0.5 / LARGEST_CONCENTRATION))
    wanted = spread[left]
    start = np.maximum(0.5 * (1.0 - wanted) * (2.0 - wanted) / wanted, 1e-300)
    for _ in range(5):  # by Bessel functions, with the digits that 1 - A leaves
        ratio = ive(1, start) / ive(0, start)
        step = (1.0 - ratio - wanted) / np.maximum((1.0 - ratio / start - ratio**2) * start, 1e-300)
        start = np.where((start > 1e-3) & (start < 1e4), start * np.exp(np.clip(step, -1.0, 1.0)), start)
    kappa[left] = start
    for _ in range(max_iter):
        if left.size == 0:
            break
        here = kappa[left]
        facts = gvm_facts(here[:, None] + 0j)
        variance, first, second = facts.dispersion, facts.moments[:, 0].real, facts.moments[:, 1].real
        # Var cos φ = ½(1 + m₂) - m₁²; from κ of 1e4 on, where that cancels, its leading term 2V² serves, for only the
        # step depends on it.
        slope = np.where(here < 1e4, 0.5 + 0.5 * second - first**2, 2.0 * variance**2)
        step = (variance - spread[left]) / (slope * here)
        kappa[left] = here * np.exp(np.clip(step, -1.0, 1.0))
        # What the step leaves is its square, or 1/κ of it by the leading term: below rounding.
        left = left[np.abs(step) >= np.where(here < 1e4, 1e-8, 1e-12)]
    return kappa


# Fields beside the natural parameter (name: axes behind the batch): found once when a distribution is made, and carried
# along when a batch is indexed.
FACTS = {
    "_log_z": 0,
    "_dispersion": 0,
    "_entropy": 0,
    "_log_reference": 0,
    "_reference": 0,
    "_moments": 1,
    "_suffix": 1,
}


class ExponentialFamily(CircularDistribution):
    """log p(φ) = Re Σ_t conj(η_t) e^{itφ} - log Z; a subclass gives η as `_eta`, complex (..., T)."""

    _eta: ComplexArray
    _log_z: FloatArray
    _dispersion: FloatArray
    _entropy: FloatArray
    _log_reference: FloatArray
    _reference: FloatArray
    _moments: ComplexArray
    _suffix: ComplexArray

    def _find_facts(self) -> None:
        """Normaliser, entropy, first moments and the peak of every distribution."""
        check.at_most(total_concentration(self._eta), LARGEST_CONCENTRATION, "the total concentration Σ t²|η_t|")
        rows = self._eta_rows() if self._eta.shape[-1] else np.zeros((self._size, 1), dtype=complex)
        facts = gvm_facts(rows, max(4, self._eta.shape[-1]))
        columns = (*facts, suffix_sums(np.conj(rows), facts.reference))
        shapes = (self.batch_shape + column.shape[1:] for column in columns)
        self._set(**{name: column.reshape(to) for name, column, to in zip(FACTS, columns, shapes, strict=True)})

    def _eta_rows(self) -> ComplexArray:
        """The natural parameters of a flat batch, (n, T)."""
        return np.ascontiguousarray(self._eta.reshape(self._size, self._eta.shape[-1]))

    # ---- density --------------------------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        points = check.angles(x, "x")
        # Angles some turns away are wrapped first, by the true π, before differences from the reference are taken.
        if points.size and np.abs(points).max() > 10.0:
            points = np.asarray(wrap(points))
        if self._size == 1:
            shape = np.broadcast_shapes(points.shape, self.batch_shape)
            rows, points = np.empty(0, dtype=np.int64), np.ascontiguousarray(points).ravel()
        else:
            rows, points, shape = self._pairs("x", points)
        return gvm_log_densities(points, rows, *self._from_reference()).reshape(shape)[()]

    def _from_reference(self) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """What log densities are measured by: reference angles, log densities there, suffix sums, row by row."""
        suffix = self._suffix.reshape(self._size, self._suffix.shape[-1])
        return self._reference.ravel(), self._log_reference.ravel(), suffix

    def _log_density_at(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        row = np.broadcast_to(row, x.shape)
        return gvm_log_densities(x.ravel(), row.ravel(), *self._from_reference()).reshape(x.shape)

    def _log_slope(self, x: FloatArray) -> FloatArray:
        row, points, shape = self._pairs("x", np.asarray(x))
        return self._log_slope_at(row, points).reshape(shape)[()]

    def _log_slope_at(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        reference, _, suffix = self._from_reference()
        row = np.broadcast_to(row, x.shape)
        return gvm_log_slopes(x.ravel(), row.ravel(), reference, suffix).reshape(x.shape)

    def _mass_between(self, row: np.ndarray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        return gvm_masses(np.stack([lower, upper]), row, GAUSS_RULE, *self._from_reference())

    def log_normalizer(self) -> FloatArray:
        """log Z = log ∫ exp(Re Σ_t conj(η_t) e^{itφ}) dφ."""
        return self._log_z[()]

    # ---- quadrature and critical points ---------------------------------------------------------------------------

    def _panels(self) -> FloatArray:
        row, start = gvm_panels(self._eta_rows())
        edges = highest_density.pad_rows(row, self._size, start, filling=np.pi)[0]
        edges = np.concatenate([edges, np.full((self._size, 1), np.pi)], axis=-1)
        return edges.reshape(*self.batch_shape, edges.shape[-1])

    def _scan_points(self) -> tuple[np.ndarray, FloatArray]:
        return gvm_turning_cells(self._eta)

    def _blocks(self) -> list[np.ndarray]:
        # Alike concentrations together, so that few panels are added to fill rows up.
        total = total_concentration(self._eta)
        order = np.argsort(total, kind="stable")
        # A panel is at most three standard deviations wide; of narrow distributions few of so many are kept.
        panels = 8.0 * max(self._eta.shape[-1], 2) + 2.1 * np.sqrt(total[order])
        narrow = np.flatnonzero(total[order] > 1e4)
        if narrow.size:
            row, _ = gvm_panels(self._eta[order[narrow]])
            panels[narrow] = np.bincount(row, minlength=narrow.size)
        blocks, begin = [], 0
        while begin < order.size:
            widest = np.maximum.accumulate(panels[begin : begin + MOST_DISTRIBUTIONS])
            room = np.arange(1, widest.size + 1) * widest <= MOST_PANELS
            end = begin + max(1, int(room.sum()))
            blocks.append(order[begin:end])
            begin = end
        return blocks

    # ---- expectations ---------------------------------------------------------------------------------------------

    def _moments_to_rounding(self, most_nodes: int = 1024) -> Iterator[tuple[np.ndarray, ComplexArray]]:
        dists, total = self._flat(), total_concentration(self._eta).ravel()
        # |m_k| <= e^{-k²/2K}, and the sum over n nodes adds m_{n-k} to m_k.
        needed = 2.0 * (12.0 + 8.0 * (self._eta.shape[-1] + np.sqrt(total)))
        nodes = np.exp2(np.ceil(np.log2(needed))).astype(int)
        for count in np.unique(nodes[nodes <= most_nodes]).tolist():
            alike, block = np.flatnonzero(nodes == count), MOST_PANELS // count
            signs = (-1.0) ** np.arange(1, count // 2)
            for some in np.split(alike, range(block, alike.size, block)):
                density = np.exp(dists._log_density_at(some[:, None], np.tile(periodic_grid(count), (some.size, 1))))
                waves = np.fft.rfft(density)[:, 1 : count // 2]
                yield some, np.conj(waves) * (signs * (2.0 * np.pi / count))

    def moment(self, k: int) -> ComplexArray:
        """The k-th trigonometric moment E[e^{ikφ}]."""
        order = abs(check.integer(k, "k"))
        if order == 0:
            return np.ones(self.batch_shape, dtype=complex)[()]
        if order <= self._moments.shape[-1]:
            value = self._moments[..., order - 1]
        else:
            value = gvm_facts(self._eta_rows(), order).moments[:, order - 1].reshape(self.batch_shape)
        return (np.conj(value) if k < 0 else value)[()]

    def circular_variance(self) -> FloatArray:
        """1 - |E[e^{iφ}]|, with full relative precision for the narrowest distribution."""
        return self._dispersion[()]

    def entropy(self) -> FloatArray:
        """-E log p, at most log 2π."""
        return self._entropy[()]

    def _check_batches(self, dist: CircularDistribution) -> None:
        """Refuse a distribution whose batch does not broadcast against this one's."""
        check.broadcast(dist=np.broadcast_to(0.0, dist.batch_shape), other=np.broadcast_to(0.0, self.batch_shape))

    def _cross_entropy(self, dist: CircularDistribution) -> FloatArray | None:
        self._check_batches(dist)
        # At a higher concentration E log p from natural parameters and moments would lose digits.
        if total_concentration(self._eta).max(initial=0.0) > 100.0:
            return None
        orders = np.arange(1, self._eta.shape[-1] + 1)
        energy = sum(np.real(np.conj(self._eta[..., t - 1]) * dist.moment(int(t))) for t in orders)
        return np.asarray(self._log_z - energy)

    # ---- sampling -------------------------------------------------------------------------------------------------

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent exact draws of shape ``shape + batch_shape``, radians in [-π, π)."""
        sizes = check.shape(shape)
        draws = gvm_sample(self._eta_rows(), int(np.prod(sizes, dtype=np.int64)), check.generator(rng))
        return draws.reshape(sizes + self.batch_shape)[()]
