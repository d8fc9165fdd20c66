"""Sites of expectation propagation given by their log-likelihood on a periodic grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.law import CircleLaw
from mgvm.inference._ep_tilted import Tilted, circle_parameters, half_trace, in_plane


@dataclass(frozen=True)
class GridSites:
    """Sites with log-likelihood values (N, n) at φ_j = -π + 2πj/n; all integrals by the periodic trapezoid rule.

    A tilted law narrower than the grid is given the variance of one cell, (2π/n)²/12.
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
        return np.exp(1j * (-np.pi + 2.0 * np.pi / self.cells * np.arange(self.cells)))

    def _cavity_values(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        eta = circle_parameters(precision, linear)
        z = self.points
        return np.asarray((np.conj(eta) @ np.stack([z, z * z])).real)

    def _log_sum(self, values: FloatArray) -> FloatArray:
        peak = values.max(axis=1)
        total = np.exp(values - peak[:, None]).sum(axis=1)
        return np.asarray(peak + np.log(total) + np.log(2.0 * np.pi / self.cells))

    def tilted(self, precision: FloatArray, linear: FloatArray) -> Tilted:
        """Normaliser and moments of cavity times site."""
        values = self._cavity_values(precision, linear) + self.log_likelihood
        log_normalizer = self._log_sum(values) - 0.5 * half_trace(precision)
        weight = np.exp(values - values.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mean = weight @ self.points
        length = np.abs(mean)
        unit = np.where(length > 0.0, mean / np.where(length > 0.0, length, 1.0), 1.0)
        # In the frame of the mean, as deviations: nothing cancels for a narrow law.
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

    def law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """Cavity times site."""
        from mgvm.circle.grid_density import GridDensity

        return GridDensity(self._cavity_values(precision, linear) + self.log_likelihood)

    def cavity_law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """The cavity alone, on the circle."""
        from mgvm.circle.gvm import GvM

        return GvM(circle_parameters(precision, linear))

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∮ cavity·site / ∮ cavity, both on the grid."""
        values = self._cavity_values(precision, linear)
        return self._log_sum(values + self.log_likelihood) - self._log_sum(values)

    def rotation_orders(self) -> np.ndarray:
        """0 for constant rows, 2 for rows that repeat after half a turn, else 1."""
        values = self.log_likelihood
        half = self.cells // 2
        constant = np.isclose(values, values[:, :1], rtol=1e-12, atol=1e-12).all(axis=1)
        if self.cells % 2:
            return np.where(constant, 0, 1)
        repeats = np.isclose(values[:, :half], values[:, half:], rtol=1e-12, atol=1e-12).all(axis=1)
        return np.where(constant, 0, np.where(repeats, 2, 1))

    def mirror_energy(self, law: CircleLaw) -> FloatArray:
        """E[log site(φ) - log site(φ + π)] on the grid; an odd number of cells is turned by half a cell less."""
        angles = np.angle(self.points)
        weight = law[:, None].pdf(angles)
        weight /= weight.sum(axis=1, keepdims=True)
        other = np.roll(self.log_likelihood, self.cells // 2, axis=1)
        seen = (weight > 0.0) & np.isfinite(self.log_likelihood)
        with np.errstate(invalid="ignore"):
            difference = np.where(seen, self.log_likelihood - other, 0.0)
        difference = np.where(np.isnan(difference), 0.0, difference)
        return np.asarray((weight * difference).sum(axis=1))
