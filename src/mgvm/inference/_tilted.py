"""Tilted distributions of expectation propagation: a Gaussian cavity in the plane, restricted to the circle, times a
site.

With x = (cos φ, sin φ), -½ xᵀΛx + hᵀx = -¼ tr Λ + Re(conj(η₁) z + conj(η₂) z²), where η₁ = h_c + i h_s and
η₂ = -¼(Λ_cc - Λ_ss) - ½ i Λ_cs: on the circle any cavity, proper or not, is a GvM of order 2. A kind of site is a class
with the methods of `Sites`; a new one (another constraint, say) needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.base import CircularDistribution
from mgvm.circle.grid_density import GridDensity
from mgvm.circle.gvm import GvM
from mgvm.inference._planar_gaussian import RADIAL_FLOOR


class Tilted(NamedTuple):
    """Of each tilted distribution: log ∮ exp(-½xᵀΛx + hᵀx)·site dφ, and mean, covariance and precision of x."""

    log_normalizer: FloatArray  # (N,)
    mean: FloatArray  # (N, 2)
    covariance: FloatArray  # (N, 2, 2)
    precision: FloatArray  # (N, 2, 2)


class Sites(Protocol):
    """One factor for each angle."""

    @property
    def size(self) -> int:
        """The number of angles."""

    def tilted(self, precision: FloatArray, linear: FloatArray) -> Tilted:
        """Normaliser and moments of cavity times site."""

    def dist(self, precision: FloatArray, linear: FloatArray) -> CircularDistribution:
        """Cavity times site, as one batch of distributions on the circle."""

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∮ cavity·site / ∮ cavity, (N,)."""

    def rotation_orders(self) -> np.ndarray:
        """For each angle the g for which its site is unchanged by a turn of 2π/g; 0 where it is by any turn."""

    def half_turn_energy(self, dist: CircularDistribution) -> FloatArray:
        """E[log site(φ) - log site(φ + π)] under each distribution: what a half turn would cost."""


def circle_parameters(precision: FloatArray, linear: FloatArray) -> ComplexArray:
    """η (N, 2) of Gaussians with natural parameters (Λ, h), restricted to the circle."""
    eta = np.empty((linear.shape[0], 2), dtype=complex)
    eta[:, 0] = linear[:, 0] + 1j * linear[:, 1]
    eta[:, 1] = -0.25 * (precision[:, 0, 0] - precision[:, 1, 1]) - 0.5j * precision[:, 0, 1]
    return eta


def half_trace(precision: FloatArray) -> FloatArray:
    return 0.5 * (precision[:, 0, 0] + precision[:, 1, 1])


@dataclass(frozen=True)
class HarmonicSites:
    """Sites exp Re Σ_t conj(η_t) z^t, with η (N, T); zeros leave the circle constraint alone."""

    eta: ComplexArray

    @property
    def size(self) -> int:
        """The number of angles."""
        return int(self.eta.shape[0])

    def _with_cavity(self, precision: FloatArray, linear: FloatArray) -> ComplexArray:
        eta = np.zeros((self.size, max(2, self.eta.shape[1])), dtype=complex)
        eta[:, : self.eta.shape[1]] = self.eta
        eta[:, :2] += circle_parameters(precision, linear)
        return eta

    def tilted(self, precision: FloatArray, linear: FloatArray) -> Tilted:
        """Normaliser and moments of cavity times site."""
        eta = self._with_cavity(precision, linear)
        facts = gvm_facts(eta, 4)
        mean, length = facts.moments[:, 0], np.abs(facts.moments[:, 0])
        unit = np.where(length > 0.0, mean / np.where(length > 0.0, length, 1.0), 1.0)
        second = facts.moments[:, 1] * np.conj(unit) ** 2
        # In the frame of the mean: E sin² = ½(1 - Re m₂), E cos sin = ½ Im m₂, and with δ = 1 - |m₁|
        # Var cos = 1 - E sin² - (1 - δ)² = 2δ - δ² - E sin².
        tangential, cross = 0.5 * (1.0 - second.real), 0.5 * second.imag
        radial = facts.dispersion * (2.0 - facts.dispersion) - tangential
        # A narrow distribution's radial variance, about half the square of the tangential one, is lost in that
        # difference, and below its floor; without it δ itself, which has all its digits, gives the tangential one.
        is_narrow = radial < 1e-12
        tangential = np.where(is_narrow, facts.dispersion * (2.0 - facts.dispersion), tangential)
        spread = np.stack([radial, np.where(is_narrow, 0.0, cross), tangential])
        return in_plane(facts.log_normalizer - 0.5 * half_trace(precision), mean, unit, spread)

    def dist(self, precision: FloatArray, linear: FloatArray) -> CircularDistribution:
        """Cavity times site."""
        return GvM(self._with_cavity(precision, linear))

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∮ cavity·site / ∮ cavity."""
        both = gvm_facts(self._with_cavity(precision, linear), 2).log_normalizer
        return both - gvm_facts(circle_parameters(precision, linear), 2).log_normalizer

    def rotation_orders(self) -> np.ndarray:
        """The greatest common divisor of the harmonics present, 0 where there are none."""
        harmonics = np.arange(1, self.eta.shape[1] + 1)
        present = np.where(self.eta != 0.0, harmonics, 0)
        return np.asarray(np.gcd.reduce(present, axis=1, initial=0))

    def half_turn_energy(self, dist: CircularDistribution) -> FloatArray:
        """Twice the odd harmonics' part of E log site."""
        total = np.zeros(self.size)
        for t in range(1, self.eta.shape[1] + 1, 2):
            total += 2.0 * (np.conj(self.eta[:, t - 1]) * dist.moment(t)).real
        return total


def in_plane(log_normalizer: FloatArray, mean: ComplexArray, unit: ComplexArray, spread: FloatArray) -> Tilted:
    """Turn variances from the frame of the mean into the plane, kept positive definite."""
    radial, cross, tangential = spread
    radial = np.maximum(radial, RADIAL_FLOOR)
    tangential = np.maximum(tangential, 1e-16)
    bound = (1.0 - 1e-9) * np.sqrt(radial * tangential)
    cross = np.clip(cross, -bound, bound)
    determinant = radial * tangential - cross**2
    covariance = _turned(radial, cross, tangential, unit)
    precision = _turned(tangential / determinant, -cross / determinant, radial / determinant, unit)
    return Tilted(log_normalizer, np.stack([mean.real, mean.imag], axis=1), covariance, precision)


def _turned(along: FloatArray, cross: FloatArray, across: FloatArray, unit: ComplexArray) -> FloatArray:
    """U [[along, cross], [cross, across]] Uᵀ with U the rotation that takes (1, 0) to `unit`."""
    c, s = unit.real, unit.imag
    out = np.empty((c.size, 2, 2))
    out[:, 0, 0] = along * c * c - 2.0 * cross * c * s + across * s * s
    out[:, 1, 1] = along * s * s + 2.0 * cross * c * s + across * c * c
    out[:, 0, 1] = out[:, 1, 0] = (along - across) * c * s + cross * (c * c - s * s)
    return out


@dataclass(frozen=True)
class GridSites:
    """Sites with log-likelihood values (N, n) at φ_j = -π + 2πj/n; all integrals by the periodic trapezoid rule.

    A tilted distribution narrower than the grid is given the variance of one cell, (2π/n)²/12.
    """

    log_likelihood: FloatArray

    @property
    def size(self) -> int:
        """The number of angles."""
        return int(self.log_likelihood.shape[0])

    @property
    def cells(self) -> int:
        """The number of grid points n."""
        return int(self.log_likelihood.shape[1])

    @cached_property
    def points(self) -> ComplexArray:
        """z at the grid points."""
        return np.exp(1j * periodic_grid(self.cells))

    def _cavity_values(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        eta = circle_parameters(precision, linear)
        z = self.points
        return np.asarray((np.conj(eta) @ np.stack([z, z * z])).real)

    def tilted(self, precision: FloatArray, linear: FloatArray) -> Tilted:
        """Normaliser and moments of cavity times site."""
        values = self._cavity_values(precision, linear) + self.log_likelihood
        log_normalizer = log_sum_exp(values) + np.log(2.0 * np.pi / self.cells) - 0.5 * half_trace(precision)
        weight = np.exp(values - values.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mean = weight @ self.points
        length = np.abs(mean)
        unit = np.where(length > 0.0, mean / np.where(length > 0.0, length, 1.0), 1.0)
        # In the frame of the mean, as deviations: nothing cancels for a narrow distribution.
        turned = self.points[None, :] * np.conj(unit)[:, None]
        rise = turned.imag
        # 1 - cos as sin²/(1 + cos), which keeps its digits on the near half of the circle.
        near = turned.real > 0.0
        drop = np.where(near, rise**2 / (1.0 + np.where(near, turned.real, 0.0)), 1.0 - turned.real)
        drop = drop - (weight * drop).sum(axis=1, keepdims=True)
        rise = rise - (weight * rise).sum(axis=1, keepdims=True)
        cell = (2.0 * np.pi / self.cells) ** 2 / 12.0
        tangential = np.maximum((weight * rise**2).sum(axis=1), cell)
        radial = np.maximum((weight * drop**2).sum(axis=1), 0.5 * cell**2)
        spread = np.stack([radial, -(weight * drop * rise).sum(axis=1), tangential])
        return in_plane(log_normalizer, mean, unit, spread)

    def dist(self, precision: FloatArray, linear: FloatArray) -> CircularDistribution:
        """Cavity times site."""
        return GridDensity(self._cavity_values(precision, linear) + self.log_likelihood)

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∮ cavity·site / ∮ cavity, both on the grid."""
        values = self._cavity_values(precision, linear)
        return log_sum_exp(values + self.log_likelihood) - log_sum_exp(values)

    def rotation_orders(self) -> np.ndarray:
        """0 for constant rows, 2 for rows that repeat after half a turn, else 1."""
        values = self.log_likelihood
        half = self.cells // 2
        constant = np.isclose(values, values[:, :1], rtol=1e-12, atol=1e-12).all(axis=1)
        if self.cells % 2:
            return np.where(constant, 0, 1)
        repeats = np.isclose(values[:, :half], values[:, half:], rtol=1e-12, atol=1e-12).all(axis=1)
        return np.where(constant, 0, np.where(repeats, 2, 1))

    def half_turn_energy(self, dist: CircularDistribution) -> FloatArray:
        """E[log site(φ) - log site(φ + π)] on the grid; an odd number of cells is turned by half a cell less."""
        angles = np.angle(self.points)
        weight = dist[:, None].pdf(angles)
        weight /= weight.sum(axis=1, keepdims=True)
        other = np.roll(self.log_likelihood, self.cells // 2, axis=1)
        seen = (weight > 0.0) & np.isfinite(self.log_likelihood)
        with np.errstate(invalid="ignore"):
            difference = np.where(seen, self.log_likelihood - other, 0.0)
        difference = np.where(np.isnan(difference), 0.0, difference)
        return np.asarray((weight * difference).sum(axis=1))
