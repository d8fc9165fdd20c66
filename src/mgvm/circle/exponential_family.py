"""Distributions whose log density is a trigonometric polynomial: what von Mises and Generalised von Mises share.

Normaliser, entropy and first moments of every distribution are found once, when it is made; so is a reference angle
(the highest mode, wherever the distribution is concentrated) from which densities are measured without cancellation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._numerics.gvm import gvm_facts, gvm_sample, log_densities, suffix_sums
from mgvm._numerics.gvm_general import panel_starts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle import base
from mgvm.circle.base import CircularDistribution

# Σ t²|η_t| of a distribution: beyond, the exponent rounds to a tenth and more, and where its mass lies is not defined.
LARGEST_CONCENTRATION = 1e15


def concentration(spread: float, max_iter: int = 100) -> float:
    """Return κ with 1 - A(κ) = spread, A = I₁/I₀, by Newton's method on log κ: A' = Var cos φ = 1 - A/κ - A²."""
    if spread >= 1.0:
        return 0.0
    if spread <= 0.5 / LARGEST_CONCENTRATION:
        raise ValueError(
            f"the angles lie within {np.sqrt(2.0 * spread):.1g} radians of their mean: a von Mises distribution so "
            f"narrow would need a concentration above {LARGEST_CONCENTRATION:g}; fit WrappedNormal, or take them as "
            "equal"
        )
    kappa = max(0.5 * (1.0 - spread) * (2.0 - spread) / spread, 1e-300)
    for _ in range(max_iter):
        facts = gvm_facts(np.array([[kappa + 0j]]))
        variance = float(facts.dispersion[0])
        first, second = facts.moments[0, 0].real, facts.moments[0, 1].real
        # Var cos φ = ½(1 + m₂) - m₁²; from κ of 1e4 on, where that cancels, its leading term 2V² serves, for only the
        # step depends on it.
        slope = 0.5 + 0.5 * second - first**2 if kappa < 1e4 else 2.0 * variance**2
        step = (variance - spread) / (slope * kappa)
        kappa *= float(np.exp(np.clip(step, -1.0, 1.0)))
        if abs(step) < 1e-14:
            break
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


def total_concentration(eta: ComplexArray) -> FloatArray:
    """K = Σ t²|η_t|, a bound of the curvature of the log density."""
    return (np.arange(1, eta.shape[-1] + 1) ** 2 * np.abs(eta)).sum(axis=-1)


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

    def _find_facts(self, eta: ComplexArray) -> None:
        """Normaliser, entropy, first moments and the peak of every distribution."""
        shape = eta.shape[:-1]
        check.at_most(total_concentration(eta), LARGEST_CONCENTRATION, "the total concentration Σ t²|η_t|")
        rows = np.ascontiguousarray(
            eta.reshape(self._size, eta.shape[-1]) if eta.shape[-1] else np.zeros((self._size, 1), complex)
        )
        facts = gvm_facts(rows, max(4, eta.shape[-1]))
        suffix = suffix_sums(rows, facts.reference)
        names = dict(zip(FACTS, (facts[0], facts[1], facts[2], facts[3], facts[4], facts[5], suffix), strict=True))
        self._set(**{name: value.reshape(shape + value.shape[1:]) for name, value in names.items()})

    # ---- density --------------------------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        points = check.angles(x, "x")
        # Angles some turns away are wrapped first, by the true π, before differences from the reference are taken.
        if points.size and np.abs(points).max() > 10.0:
            points = np.asarray(wrap(points))
        size = self._size
        if size == 1:
            shape = np.broadcast_shapes(points.shape, self.batch_shape)
            rows = np.empty(0, dtype=np.int64)
        else:
            positions = np.arange(size).reshape(self.batch_shape)
            points, positions = check.broadcast(**{"x": points, "the batch": positions})
            shape, rows = points.shape, np.ascontiguousarray(positions).ravel()
        flat = np.ascontiguousarray(points).ravel()
        out = np.empty(flat.size)
        suffix = self._suffix.reshape(size, self._suffix.shape[-1])
        log_densities(flat, rows, self._reference.ravel(), self._log_reference.ravel(), suffix, out)
        return out.reshape(shape)[()]

    def _log_slope(self, x: FloatArray) -> FloatArray:
        # Horner on the derivative, from the reference angle so that a narrow peak's slope keeps its digits.
        offset = x - self._reference
        z = np.exp(1j * offset)
        orders = np.arange(1, self._eta.shape[-1] + 1)
        turned = orders * np.conj(self._eta) * np.exp(1j * orders * self._reference[..., None])
        total = np.zeros(np.broadcast_shapes(np.shape(x), self.batch_shape), dtype=complex)
        for t in range(len(orders) - 1, -1, -1):
            total = (total + turned[..., t]) * z
        return -total.imag

    def log_normalizer(self) -> FloatArray:
        """log Z = log ∫ exp(Re Σ_t conj(η_t) e^{itφ}) dφ."""
        return self._log_z[()]

    # ---- quadrature and critical points ---------------------------------------------------------------------------

    def _panels(self) -> FloatArray:
        eta = self._eta
        # A copy, because the compiler takes read-only arrays for another type.
        rows = np.array(eta.reshape(self._size, eta.shape[-1]) if eta.shape[-1] else np.zeros((self._size, 1), complex))
        edges = base.pad([np.append(np.sort(panel_starts(rows, i)), np.pi) for i in range(self._size)])
        return edges.reshape(*self.batch_shape, edges.shape[-1])

    def _scan_points(self) -> FloatArray:
        # Between two neighbours among the arguments of the roots of f' (a polynomial in e^{iφ}) lies at most one sign
        # change.
        points = super()._scan_points()
        between = _between_roots(np.conj(self._eta))
        shifted = points[..., :1] + np.mod(between - points[..., :1], 2.0 * np.pi)
        return np.sort(np.concatenate([points, shifted], axis=-1), axis=-1)

    # ---- expectations ---------------------------------------------------------------------------------------------

    def moment(self, k: int) -> ComplexArray:
        """The k-th trigonometric moment E[e^{ikφ}]."""
        order = abs(check.integer(k, "k"))
        if order == 0:
            return np.ones(self.batch_shape, dtype=complex)[()]
        if order <= self._moments.shape[-1]:
            value = self._moments[..., order - 1]
        else:
            rows = self._eta.reshape(self._size, self._eta.shape[-1])
            value = gvm_facts(rows, order).moments[:, order - 1].reshape(self.batch_shape)
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

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent exact draws of shape ``shape + batch_shape``, radians in [-π, π)."""
        sizes = check.shape(shape)
        rows = self._eta.reshape(self._size, self._eta.shape[-1])
        draws = gvm_sample(rows, int(np.prod(sizes, dtype=np.int64)), check.generator(rng))
        return draws.reshape(sizes + self.batch_shape)[()]


def _between_roots(c: ComplexArray) -> FloatArray:
    """Midpoints between the sorted arguments of the 2T roots of z^T f'(z); shape (..., 2T).

    Distributions whose highest harmonic is absent get plain multiples of the turn instead.
    """
    order = c.shape[-1]
    if order == 0:
        return np.empty(c.shape)
    plain = np.broadcast_to(periodic_grid(2 * order), c.shape[:-1] + (2 * order,))
    weighted = np.arange(1, order + 1) * c
    leading = weighted[..., -1:]
    usable = (np.abs(leading) > 1e-9 * np.abs(weighted).max(axis=-1, keepdims=True, initial=0.0))[..., 0]
    if not usable.any():
        return plain
    middle = np.zeros(c.shape[:-1] + (1,), dtype=complex)
    coefficients = np.concatenate([weighted[..., ::-1], middle, -np.conj(weighted)], axis=-1)[usable]
    companion = np.zeros((coefficients.shape[0], 2 * order, 2 * order), dtype=complex)
    companion[:, 1:, :-1] = np.eye(2 * order - 1)
    companion[:, 0, :] = -coefficients[:, 1:] / coefficients[:, :1]
    arguments = np.sort(np.angle(np.linalg.eigvals(companion)), axis=-1)
    following = np.concatenate([arguments[:, 1:], arguments[:, :1] + 2.0 * np.pi], axis=-1)
    out = plain.copy()
    out[usable] = 0.5 * (arguments + following)
    return out
