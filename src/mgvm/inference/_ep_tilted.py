"""Tilted laws of expectation propagation: a Gaussian cavity in the plane, restricted to the circle, times a site.

With x = (cos φ, sin φ), -½ xᵀΛx + hᵀx = -¼ tr Λ + Re(conj(η₁) z + conj(η₂) z²), where η₁ = h_c + i h_s and
η₂ = -¼(Λ_cc - Λ_ss) - ½ i Λ_cs: on the circle any cavity, proper or not, is a GvM of order 2. A kind of site is a class
with the methods of `Sites`; a new one (another constraint, say) needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.gvm import GvM
from mgvm.circle.law import CircleLaw

# A narrow law of variance v along the circle has variance v²/2 along the radius. That is held at this value: beside the
# prior a smaller one makes no difference that could be seen, but its precision would drown a cavity's digits.
RADIAL_FLOOR = 1e-10
_NARROW = 1e-12  # radial variance up to which a law's moments have too few digits; its variance is then below 2e-6
_CORRELATION = 1.0 - 1e-9
_LEAST = 1e-16  # of a variance along the circle


class Tilted(NamedTuple):
    """Of each tilted law: log ∮ exp(-½xᵀΛx + hᵀx)·site dφ, and mean, covariance and precision of x in the plane."""

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

    def law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """Cavity times site, as one batch of laws on the circle."""

    def cavity_law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """The cavity alone, on the circle."""

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∮ cavity·site / ∮ cavity, (N,)."""

    def rotation_orders(self) -> np.ndarray:
        """For each angle the g for which its site is unchanged by a turn of 2π/g; 0 where it is by any turn."""

    def mirror_energy(self, law: CircleLaw) -> FloatArray:
        """E[log site(φ) - log site(φ + π)] under each law: what a half turn would cost."""


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
        # A narrow law's radial variance, about half the square of the tangential one, is lost in that difference, and
        # below its floor; without it δ itself, which has all its digits, gives the tangential one.
        narrow = radial < _NARROW
        tangential = np.where(narrow, facts.dispersion * (2.0 - facts.dispersion), tangential)
        spread = np.stack([radial, np.where(narrow, 0.0, cross), tangential])
        return in_plane(facts.log_normalizer - 0.5 * half_trace(precision), mean, unit, spread)

    def law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """Cavity times site."""
        return GvM(self._with_cavity(precision, linear))

    def cavity_law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """The cavity alone, on the circle."""
        return GvM(circle_parameters(precision, linear))

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∮ cavity·site / ∮ cavity."""
        both = gvm_facts(self._with_cavity(precision, linear), 2).log_normalizer
        return both - gvm_facts(circle_parameters(precision, linear), 2).log_normalizer

    def values(self, points: ComplexArray) -> FloatArray:
        """Log-likelihoods (N, n) at points z on the circle."""
        total = np.zeros((self.size, points.size))
        power = np.ones_like(points)
        for t in range(self.eta.shape[1]):
            power = power * points
            total += (np.conj(self.eta[:, t, None]) * power).real
        return total

    def rotation_orders(self) -> np.ndarray:
        """The greatest common divisor of the harmonics present, 0 where there are none."""
        harmonics = np.arange(1, self.eta.shape[1] + 1)
        present = np.where(self.eta != 0.0, harmonics, 0)
        return np.asarray(np.gcd.reduce(present, axis=1, initial=0))

    def mirror_energy(self, law: CircleLaw) -> FloatArray:
        """Twice the odd harmonics' part of E log site."""
        total = np.zeros(self.size)
        for t in range(1, self.eta.shape[1] + 1, 2):
            total += 2.0 * (np.conj(self.eta[:, t - 1]) * law.moment(t)).real
        return total


def in_plane(log_normalizer: FloatArray, mean: ComplexArray, unit: ComplexArray, spread: FloatArray) -> Tilted:
    """Turn variances from the frame of the mean into the plane, kept positive definite."""
    radial, cross, tangential = spread
    radial = np.maximum(radial, RADIAL_FLOOR)
    tangential = np.maximum(tangential, _LEAST)
    bound = _CORRELATION * np.sqrt(radial * tangential)
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
