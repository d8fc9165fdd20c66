"""Σ_k N(d + 2πk | 0, C) over the lattice Z^D, from a plan made once a covariance.

Two series are one theta function: images, e^{-|y + Rm|²/2} over a short basis R of 2π L⁻¹ Z^D with C = L Lᵀ, and
harmonics, (1 + 2 Σ_n e^{-nᵀCn/2} cos n·d) / (2π)^D over half of the integer vectors n. Images are positive, so their
sum has a relative error; harmonics are used only where they sum to less than ½, so that theirs is relative as well.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mgvm._numerics.lattice_sum import ROW_CROSSOVER, lattice_log_sums
from mgvm._validation import FloatArray
from mgvm.torus import _lattice
from mgvm.torus._lattice import Lattice

ERROR = 1e-14  # what truncation may leave out, relative to the density
MOST_TERMS = 2_000_000
_MOST_WORK = 200_000_000  # terms times points: some twenty to forty seconds
_SECONDS = 1e-7  # a term, about: 0.9e-7 with five angles, 2.2e-7 with twelve
_AT_ONCE = 5_000_000  # terms summed in one compiled call, which nothing interrupts
_NO_LIMIT = 1 << 62
_MOST_HARMONICS = 200_000  # vectors held in memory
_CELLS = 1 << 21  # of the table of cosines held at once
_LOG_TURN = np.log(2.0 * np.pi)
# Rows this close sum to their integral √(2π)/r up to the relative 2e^{-2π²/r²}.
_FLAT = 0.75
_FLAT_ERROR = 2.5 * np.exp(-2.0 * (np.pi / _FLAT) ** 2)
_ROW_ERROR = 1e-15


class Plan(Protocol):
    """A way to the log density of offsets (n, D)."""

    @property
    def terms(self) -> int: ...

    @property
    def error(self) -> float: ...

    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Log density at offsets from the mean, in [-π, π)."""
        ...


class Images(NamedTuple):
    """Rows of images: the first `flat` coordinates of the short basis are so wide that they sum to their integral."""

    lattice: Lattice
    flat: int
    budget: float
    log_scale: float
    terms: int
    error: float

    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Log density at offsets from the mean."""
        if self.flat == offsets.shape[-1]:
            return np.full(len(offsets), self.log_scale)
        # Whole turns off, so that the walk starts near its end: it finds the rest of the way itself.
        short = offsets @ (self.lattice.inverse.T / (2.0 * np.pi))
        points = (short - np.rint(short)) @ self.lattice.basis.T
        out, block = np.empty(len(points)), max(1, _AT_ONCE // self.terms)
        for begin in range(0, len(points), block):
            rows = slice(begin, begin + block)
            out[rows], _ = lattice_log_sums(points[rows], self.lattice.basis, self.flat, self.budget, _NO_LIMIT)
        return self.log_scale + out


class Harmonics(NamedTuple):
    """Half of the integer vectors (n, D) and the weights 2 e^{-nᵀCn/2}."""

    vectors: FloatArray
    weights: FloatArray
    error: float

    @property
    def terms(self) -> int:
        """One for each pair of opposite vectors, and the constant."""
        return 1 + len(self.vectors)

    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Log density at offsets from the mean."""
        total = np.zeros(len(offsets))
        block = max(1, _CELLS // self.terms)
        for begin in range(0, len(offsets), block):
            rows = slice(begin, begin + block)
            total[rows] = np.cos(offsets[rows] @ self.vectors.T) @ self.weights
        return np.log1p(total) - offsets.shape[-1] * _LOG_TURN


def plan(cov: FloatArray) -> Plan:
    """The series of fewer terms, or a ValueError where both have too many."""
    images, harmonics = _images(cov), _harmonics(cov)
    best = min((series for series in (images, harmonics) if series is not None), key=lambda series: series.terms)
    if best.terms > MOST_TERMS:
        size, widest = len(cov), float(np.sqrt(np.diagonal(cov).max()))
        raise ValueError(
            f"the density needs more than {MOST_TERMS:,} terms a point: {size} dependent angles with standard "
            f"deviations up to {widest:.3g} have too many images to sum; use sample and moment, which need no sum, a "
            "marginal of fewer angles, or a smaller covariance"
        )
    return best


def check_work(terms: int, points: int, dimension: int) -> None:
    """Refuse what would take minutes."""
    if terms * points > _MOST_WORK:
        raise ValueError(
            f"{points:,} points at {terms:,} terms each ({dimension} angles) are more than {_MOST_WORK:,} terms and "
            f"would take some {_SECONDS * terms * points:,.0f} s; evaluate fewer points at once (up to "
            f"{_MOST_WORK // terms:,}), or a marginal of fewer angles"
        )


def whitened_lattice(cov: FloatArray) -> tuple[Lattice, FloatArray]:
    """2π L⁻¹ Z^D in a short basis, and the Cholesky factor L."""
    factor: FloatArray = np.linalg.cholesky(cov).astype(float)
    return _lattice.reduce(2.0 * np.pi * _triangular_inverse(factor)), factor


def _triangular_inverse(factor: FloatArray) -> FloatArray:
    # Substitution keeps the digits of each entry for any scales; the library's solver wakes threads, for a 2 × 2 too.
    inverse = np.eye(len(factor))
    for row in range(len(factor)):
        inverse[row] = (inverse[row] - factor[row, :row] @ inverse[:row]) / factor[row, row]
    return inverse


def _images(cov: FloatArray) -> Images:
    lattice, factor = whitened_lattice(cov)
    size, spacings = len(cov), lattice.spacings
    flat = int(np.argmax(np.append(spacings, np.inf) > _FLAT))
    log_scale = -0.5 * size * _LOG_TURN - np.log(np.diagonal(factor)).sum()
    log_scale += (0.5 * _LOG_TURN - np.log(spacings[:flat])).sum()
    if flat == size:
        return Images(lattice, flat, 0.0, -size * _LOG_TURN, 1, flat * _FLAT_ERROR)
    # A row of harmonics has no distance of its own, but sums that differ by (1 + h) / (1 - h) at most.
    first = flat + (spacings[flat] < ROW_CROSSOVER)
    rho = np.exp(-2.0 * (np.pi / spacings[flat]) ** 2) if first > flat else 0.0
    swing = 2.0 * rho / (1.0 - rho**3)
    unequal = (1.0 + swing) / (1.0 - swing)
    budget, bound = _lattice.tail(spacings[first:], ERROR / unequal)
    # The origin and the corner of the box: the fewest points around and, nearly, the most.
    probes = np.stack([np.zeros(size), 0.5 * spacings])
    _, rows = lattice_log_sums(probes, lattice.basis, flat, budget, MOST_TERMS)
    return Images(lattice, flat, budget, log_scale, int(rows.max()), bound * unequal + flat * _FLAT_ERROR + _ROW_ERROR)


def _harmonics(cov: FloatArray) -> Harmonics | None:
    """The other series, where it sums to less than ½ and so loses no digit; else None."""
    lattice = _lattice.reduce(np.linalg.cholesky(cov).T.astype(float))
    # The shortest vector of the basis alone would make the sum too large.
    if 2.0 * np.exp(-0.5 * (lattice.basis**2).sum(axis=0).min()) > 0.5:
        return None
    budget, bound = _lattice.tail(lattice.spacings, 0.5 * ERROR, centred=True)
    inside = _lattice.ball(lattice.basis, budget, _MOST_HARMONICS)
    if inside is None:
        return None
    # One of each pair ±n: those whose first number other than 0 is positive.
    lead = np.take_along_axis(inside, np.argmax(inside != 0, axis=1)[:, None], axis=1)[:, 0]
    half = inside[lead > 0]
    weights = 2.0 * np.exp(-0.5 * ((half @ lattice.basis.T) ** 2).sum(axis=1))
    if weights.sum() > 0.5:
        return None
    return Harmonics(half @ lattice.change.T, weights, 2.0 * bound)


def blocks(cov: FloatArray) -> list[NDArray[np.intp]]:
    """Indices of the groups of angles that are independent of each other."""
    count, label = connected_components(cov != 0.0, directed=False)
    return [np.nonzero(label == group)[0] for group in range(count)]
