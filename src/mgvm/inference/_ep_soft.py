"""Sites of expectation propagation on the soft circle: |x| near 1 within τ, the likelihood on the direction of x.

With u = (cos φ, sin φ), a = uᵀΛu + τ⁻², b = uᵀh + τ⁻² and I_k = ∫₀^∞ r^k exp(-½ar² + br) dr the tilted law of the
direction is ∝ I₁·site, with E[r | φ] = I₂/I₁ and E[r² | φ] = I₃/I₁. By parts, I₁ = (1 + bI₀)/a, I₂ = (I₀ + bI₁)/a,
I₃ = (2I₁ + bI₂)/a, and I₀ = √(2π/a) e^{D²/2} Φ(D) with D = b/√a; all are taken relative to I₀.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.law import CircleLaw
from mgvm.inference._ep_grid import GridSites
from mgvm.inference._ep_tilted import HarmonicSites, Tilted, in_plane

_COARSE, _FINEST = 64, 8192
_TINY = 1e-300


class _Radial(NamedTuple):
    """On a grid of directions: log I₁ - ½τ⁻², E r and E r² given the direction; each (N, n)."""

    log_mass: FloatArray
    first: FloatArray
    second: FloatArray


@dataclass(frozen=True)
class SoftSites:
    """Likelihoods on the direction, and a radial factor exp(-(|x| - 1)²/2τ²); τ may be infinite."""

    likelihoods: HarmonicSites | GridSites
    spread: float

    @property
    def size(self) -> int:
        """The number of angles."""
        return self.likelihoods.size

    def _radial(self, precision: FloatArray, linear: FloatArray, points: ComplexArray) -> _Radial:
        c, s = points.real, points.imag
        pull = self.spread**-2
        a = np.outer(precision[:, 0, 0], c * c) + np.outer(precision[:, 1, 1], s * s)
        a += np.outer(2.0 * precision[:, 0, 1], c * s) + pull
        b = np.outer(linear[:, 0], c) + np.outer(linear[:, 1], s) + pull
        if not (a > 0.0).all():
            # No proper law: NaN tells the loop to shorten its step.
            return _Radial(*(np.full_like(a, np.nan) for _ in range(3)))
        scaled = b / np.sqrt(a)
        log_zeroth = 0.5 * np.log(2.0 * np.pi / a) + 0.5 * scaled**2 + log_ndtr(scaled)
        # Below D = -1e4 the difference is rounding, and the other side of the circle outweighs it by e^{D²/2}.
        first = np.maximum((np.exp(-np.minimum(log_zeroth, 700.0)) + b) / a, _TINY)
        second = np.maximum((1.0 + b * first) / a, 0.0)
        third = np.maximum((2.0 * first + b * second) / a, 0.0)
        return _Radial(log_zeroth + np.log(first) - 0.5 * pull, second / first, third / first)

    def _points(self, precision: FloatArray, linear: FloatArray) -> ComplexArray:
        """A grid of directions that resolves the tilted laws, or the one the likelihoods come on."""
        if isinstance(self.likelihoods, GridSites):
            return self.likelihoods.points
        coarse = np.exp(2j * np.pi * np.arange(_COARSE) / _COARSE)
        log_mass = self._radial(precision, linear, coarse).log_mass
        harmonics = np.arange(1, self.likelihoods.eta.shape[1] + 1) ** 2
        # A law e^{K cos φ} spans 2K: a span gives the curvature up to a small factor.
        widest = np.ptp(log_mass, axis=1) + np.abs(self.likelihoods.eta) @ harmonics
        largest = float(widest.max()) if np.isfinite(widest).all() else 0.0
        count = min(_COARSE + int(12.0 * np.sqrt(largest)), _FINEST)
        return np.exp(1j * (-np.pi + 2.0 * np.pi / count * np.arange(count)))

    def _values(self, points: ComplexArray) -> FloatArray:
        sites = self.likelihoods
        return sites.log_likelihood if isinstance(sites, GridSites) else sites.values(points)

    def tilted(self, precision: FloatArray, linear: FloatArray) -> Tilted:
        """Normaliser and moments of cavity times radial factor times site, over the plane."""
        points = self._points(precision, linear)
        radial = self._radial(precision, linear, points)
        values = radial.log_mass + self._values(points)
        log_total = _log_sum(values)
        weight = np.exp(values - log_total[:, None])
        mean = (weight * radial.first) @ points
        power, turned = (weight * radial.second).sum(axis=1), (weight * radial.second) @ points**2
        spread = np.stack(
            [
                0.5 * (power + turned.real) - mean.real**2,
                0.5 * turned.imag - mean.real * mean.imag,
                0.5 * (power - turned.real) - mean.imag**2,
            ]
        )
        return in_plane(log_total + np.log(2.0 * np.pi / points.size), mean, np.ones(self.size, dtype=complex), spread)

    def law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """Directions under cavity, radial factor and site."""
        from mgvm.circle.grid_density import GridDensity

        points = self._points(precision, linear)
        return GridDensity(self._radial(precision, linear, points).log_mass + self._values(points))

    def cavity_law(self, precision: FloatArray, linear: FloatArray) -> CircleLaw:
        """Directions under cavity and radial factor."""
        from mgvm.circle.grid_density import GridDensity

        points = self._points(precision, linear)
        return GridDensity(self._radial(precision, linear, points).log_mass)

    def log_predictive(self, precision: FloatArray, linear: FloatArray) -> FloatArray:
        """log ∫ cavity·radial·site / ∫ cavity·radial."""
        points = self._points(precision, linear)
        log_mass = self._radial(precision, linear, points).log_mass
        return _log_sum(log_mass + self._values(points)) - _log_sum(log_mass)

    def rotation_orders(self) -> np.ndarray:
        """Those of the likelihoods: the radial factor knows no direction."""
        return self.likelihoods.rotation_orders()

    def mirror_energy(self, law: CircleLaw) -> FloatArray:
        """That of the likelihoods."""
        return self.likelihoods.mirror_energy(law)


def _log_sum(values: FloatArray) -> FloatArray:
    """log Σ_j exp(values_nj) of each row."""
    peak = values.max(axis=1)
    return np.asarray(peak + np.log(np.exp(values - peak[:, None]).sum(axis=1)))
