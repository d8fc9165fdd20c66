"""Σ_k N(d + 2πk | 0, C) over the lattice Z^D, from a series chosen once a covariance.

Two series are one theta function: images, e^{-|y + Rm|²/2} over a short basis R of 2π L⁻¹ Z^D with C = L Lᵀ, and
harmonics, (1 + 2 Σ_n e^{-nᵀCn/2} cos n·d) / (2π)^D over half of the integer vectors n. Images are positive, so their
sum has a relative error; harmonics are used only where they sum to less than ½, so that theirs is relative as well.

The first part has what sums over a lattice need: a short basis, a bound on what a truncated sum leaves out, and the
points of a ball. The second has the two series, each with its number of terms and its error.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mgvm._numerics.wrapped import ROW_CROSSOVER, lattice_log_sums
from mgvm._validation import FloatArray

LOG_TURN = math.log(math.tau)


class Lattice(NamedTuple):
    """The points A m, m ∈ Z^D, as Q R U⁻¹: R (D, D) upper triangular with a positive diagonal, U integer, |det U| = 1.

    Lengths are those of R (U⁻¹ m). The columns of R are short and nearly orthogonal.
    """

    basis: FloatArray
    change: FloatArray
    inverse: FloatArray

    @property
    def spacings(self) -> FloatArray:
        """The diagonal of R: distances between neighbouring layers of points."""
        return np.diagonal(self.basis)

    def to_box(self, coordinates: FloatArray) -> FloatArray:
        """Coordinates w (..., D) in the short basis less integers, so that R w lies in the box |y_i| <= r_i / 2."""
        short = coordinates @ self.inverse.T
        for level in range(len(self.basis) - 1, -1, -1):
            height = short[..., level:] @ self.basis[level, level:]
            short[..., level] -= np.rint(height / self.basis[level, level])
        return short


def reduce_basis(matrix: FloatArray, shrinkage: float = 0.99, max_steps: int = 100_000) -> Lattice:
    """A short basis (Lenstra, Lenstra and Lovász) of the lattice that the columns of a matrix span.

    Neighbouring columns are swapped where that shrinks the first of them below the part `shrinkage` of its square.
    """
    size = len(matrix)
    basis = np.linalg.qr(matrix)[1]
    change, inverse = np.eye(size), np.eye(size)
    k = 1
    for _ in range(max_steps):
        if k >= size:
            break
        _shorten(basis, change, inverse, k)
        if shrinkage * basis[k - 1, k - 1] ** 2 <= basis[k - 1, k] ** 2 + basis[k, k] ** 2:
            k += 1
            continue
        for columns in (basis, change):
            columns[:, [k - 1, k]] = columns[:, [k, k - 1]]
        inverse[[k - 1, k]] = inverse[[k, k - 1]]
        # A rotation of two rows makes the swapped columns triangular again.
        cos, sin = basis[k - 1 : k + 1, k - 1] / np.hypot(basis[k - 1, k - 1], basis[k, k - 1])
        basis[k - 1 : k + 1] = np.array([[cos, sin], [-sin, cos]]) @ basis[k - 1 : k + 1]
        basis[k, k - 1] = 0.0
        k = max(k - 1, 1)
    basis = np.linalg.qr(matrix @ change)[1]
    return Lattice(np.where(np.diagonal(basis) < 0.0, -1.0, 1.0)[:, None] * basis, change, inverse)


def _shorten(basis: FloatArray, change: FloatArray, inverse: FloatArray, k: int) -> None:
    """Take whole multiples of earlier columns off column k, in place."""
    for j in range(k - 1, -1, -1):
        turns = np.rint(basis[j, k] / basis[j, j])
        if turns:
            basis[:, k] -= turns * basis[:, j]
            change[:, k] -= turns * change[:, j]
            inverse[j] += turns * inverse[k]


def tail_budget(spacings: FloatArray, error: float, centred: bool = False) -> float:
    """A budget T with Σ e^{-(d² - d_0²)/2} <= error over the points whose d² exceeds d_0² + T, d_0 the nearest.

    The smallest that Chernoff's bound finds enough, at any point or (centred) at the origin.

    With y in the box |y_i| <= r_i / 2 and any 0 < θ < 1, what lies beyond the budget is at most
    e^{-(1-θ)T/2} Σ_m e^{-θ(|y + Rm|² - |y|²)/2} <= e^{-(1-θ)T/2} ∏_i e^{θ r_i²/8} ϑ(θ r_i²), ϑ(a) = Σ_k e^{-ak²/2}:
    in each coordinate a sum of e^{-θ(s + r_i k)²/2} over k is largest at s = 0. No point is nearer than d_0 <= |y|.
    At the origin y = 0 and the factors e^{θ r_i²/8} fall away.
    """
    if not len(spacings):
        return 0.0
    theta = np.geomspace(min(0.1, 0.1 / spacings.max() ** 2), 0.9, 200)
    exponent = np.outer(theta, spacings**2)
    log_factor = np.log(_bound_theta(exponent)) + (0.0 if centred else exponent / 8.0)
    return float(2.0 * ((log_factor.sum(axis=1) - np.log(error)) / (1.0 - theta)).min())


def _bound_theta(a: FloatArray) -> FloatArray:
    """A bound from above on Σ_k e^{-ak²/2}, k ∈ Z."""
    # A sum below peak and integral; or, as k² - 1 >= 3(k - 1), below a geometric series.
    with np.errstate(under="ignore"):
        return 1.0 + np.minimum(np.sqrt(2.0 * np.pi / a), 2.0 * np.exp(-0.5 * a) / -np.expm1(-1.5 * a))


def points_in_ball(basis: FloatArray, budget: float, limit: int, box: FloatArray | float = 0.0) -> FloatArray | None:
    """All integer vectors m (n, D) with |y + Rm|² <= |y|² + budget for some |y_i| <= b_i; None beyond the limit.

    R is upper triangular. With v = Rm, the least of |y + v|² - |y|² over the box is Σ_i v_i² - 2 b_i |v_i|: a sum over
    coordinates, each at least -b_i², that a search from the last coordinate to the first can cut off.
    """
    size = len(basis)
    half = np.broadcast_to(box, (size,))
    turns, excess = np.zeros((1, size)), np.zeros(1)
    for level in range(size - 1, -1, -1):
        start, spacing = turns[:, level + 1 :] @ basis[level, level + 1 :], basis[level, level]
        left = budget * (1.0 + 1e-12) - excess + (half[:level] ** 2).sum()
        reach = half[level] + np.sqrt(np.maximum(left + half[level] ** 2, 0.0))
        lowest = np.ceil((-reach - start) / spacing)
        count = np.maximum(np.floor((reach - start) / spacing) - lowest + 1.0, 0.0)
        # Around a box the range of a coordinate has a hole, which is cut out below.
        if count.sum() > (4 if half.any() else 1) * limit:
            return None
        count = count.astype(int)
        row = np.repeat(np.arange(len(turns)), count)
        turns = turns[row]
        turns[:, level] = lowest[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        value = start[row] + spacing * turns[:, level]
        added = value**2 - 2.0 * half[level] * np.abs(value)
        kept = added <= left[row]
        turns, excess = turns[kept], (excess[row] + added)[kept]
        if len(turns) > limit:
            return None
    return turns


# ---- the two series --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeriesLimits:
    """What a series may leave out, and what it may cost.

    `error` is that of truncation, relative to the density. A series of more than `terms` a point, or more than
    `harmonics` vectors held in memory, is not made; more than `work` terms times points are refused, as they would take
    twenty to forty seconds. Coordinates whose layers are closer than `flat_spacing` r sum to their integral √(2π)/r up
    to the relative 2e^{-2π²/r²}.
    """

    error: float = 1e-14
    terms: int = 2_000_000
    harmonics: int = 200_000
    work: int = 200_000_000
    flat_spacing: float = 0.75

    @property
    def flat_error(self) -> float:
        """A bound on the relative error of a coordinate that is summed as its integral."""
        return float(2.5 * np.exp(-2.0 * (np.pi / self.flat_spacing) ** 2))


LIMITS = SeriesLimits()


class ImageSeries(NamedTuple):
    """Rows of images: the first `flat` coordinates of the short basis are so wide that they sum to their integral.

    `block_terms` are summed in one compiled call, which nothing interrupts: half a second.
    """

    lattice: Lattice
    flat: int
    budget: float
    log_scale: float
    terms: int
    error: float
    block_terms: int = 5_000_000

    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Log density at offsets from the mean."""
        if self.flat == offsets.shape[-1]:
            return np.full(len(offsets), self.log_scale)
        # Whole turns off, so that the walk starts near its end: it finds the rest of the way itself.
        short = offsets @ (self.lattice.inverse.T / (2.0 * np.pi))
        points = (short - np.rint(short)) @ self.lattice.basis.T
        out, block = np.empty(len(points)), max(1, self.block_terms // self.terms)
        for begin in range(0, len(points), block):
            rows = slice(begin, begin + block)
            out[rows], _ = lattice_log_sums(points[rows], self.lattice.basis, self.flat, self.budget, sys.maxsize)
        return self.log_scale + out


class HarmonicSeries(NamedTuple):
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
        block = max(1, 2_000_000 // self.terms)  # rows whose table of cosines takes 16 MB
        for begin in range(0, len(offsets), block):
            rows = slice(begin, begin + block)
            total[rows] = np.cos(offsets[rows] @ self.vectors.T) @ self.weights
        return np.log1p(total) - offsets.shape[-1] * LOG_TURN


Series: TypeAlias = ImageSeries | HarmonicSeries


def choose_series(cov: FloatArray) -> Series:
    """The series of fewer terms, or a ValueError where both have too many."""
    images, harmonics = image_series(cov), harmonic_series(cov)
    best = min((series for series in (images, harmonics) if series is not None), key=lambda series: series.terms)
    if best.terms > LIMITS.terms:
        size, widest = len(cov), float(np.sqrt(np.diagonal(cov).max()))
        raise ValueError(
            f"the density needs more than {LIMITS.terms:,} terms a point: {size} dependent angles with standard "
            f"deviations up to {widest:.3g} have too many images to sum; use sample and moment, which need no sum, a "
            "marginal of fewer angles, or a smaller covariance"
        )
    return best


def check_work(terms: int, points: int, dimension: int) -> None:
    """Refuse what would take minutes."""
    if terms * points > LIMITS.work:
        seconds = 1e-7 * terms * points  # a term takes 0.9e-7 s with five angles, 2.2e-7 s with twelve
        raise ValueError(
            f"{points:,} points at {terms:,} terms each ({dimension} angles) are more than {LIMITS.work:,} terms and "
            f"would take some {seconds:,.0f} s; evaluate fewer points at once (up to "
            f"{LIMITS.work // terms:,}), or a marginal of fewer angles"
        )


def whitened_lattice(cov: FloatArray) -> tuple[Lattice, FloatArray]:
    """2π L⁻¹ Z^D in a short basis, and the Cholesky factor L."""
    factor: FloatArray = np.linalg.cholesky(cov).astype(float)
    return reduce_basis(2.0 * np.pi * _triangular_inverse(factor)), factor


def _triangular_inverse(factor: FloatArray) -> FloatArray:
    """The inverse of a lower triangular matrix."""
    # Substitution keeps the digits of each entry for any scales; the library's solver wakes threads, for a 2 × 2 too.
    inverse = np.eye(len(factor))
    for row in range(len(factor)):
        inverse[row] = (inverse[row] - factor[row, :row] @ inverse[:row]) / factor[row, row]
    return inverse


def image_series(cov: FloatArray) -> ImageSeries:
    """The series of images."""
    lattice, factor = whitened_lattice(cov)
    size, spacings = len(cov), lattice.spacings
    flat = int(np.argmax(np.append(spacings, np.inf) > LIMITS.flat_spacing))
    log_scale = -0.5 * size * LOG_TURN - np.log(np.diagonal(factor)).sum()
    log_scale += (0.5 * LOG_TURN - np.log(spacings[:flat])).sum()
    if flat == size:
        return ImageSeries(lattice, flat, 0.0, -size * LOG_TURN, 1, flat * LIMITS.flat_error)
    # A row of harmonics has no distance of its own, but sums that differ by (1 + h) / (1 - h) at most.
    first = flat + (spacings[flat] < ROW_CROSSOVER)
    rho = np.exp(-2.0 * (np.pi / spacings[flat]) ** 2) if first > flat else 0.0
    swing = 2.0 * rho / (1.0 - rho**3)
    unequal = (1.0 + swing) / (1.0 - swing)
    budget = tail_budget(spacings[first:], LIMITS.error / unequal)
    # The origin and the corner of the box: the fewest points around and, nearly, the most.
    probes = np.stack([np.zeros(size), 0.5 * spacings])
    _, rows = lattice_log_sums(probes, lattice.basis, flat, budget, LIMITS.terms)
    # The last for a row of three images or five harmonics.
    error = (LIMITS.error if first < size else 0.0) + flat * LIMITS.flat_error + 1e-15
    return ImageSeries(lattice, flat, budget, log_scale, int(rows.max()), error)


def harmonic_series(cov: FloatArray) -> HarmonicSeries | None:
    """The other series, where it sums to less than ½ and so loses no digit; else None."""
    lattice = reduce_basis(np.linalg.cholesky(cov).T.astype(float))
    # The shortest vector of the basis alone would make the sum too large.
    if 2.0 * np.exp(-0.5 * (lattice.basis**2).sum(axis=0).min()) > 0.5:
        return None
    budget = tail_budget(lattice.spacings, 0.5 * LIMITS.error, centred=True)
    inside = points_in_ball(lattice.basis, budget, LIMITS.harmonics)
    if inside is None:
        return None
    # One of each pair ±n: those whose first number other than 0 is positive.
    lead = np.take_along_axis(inside, np.argmax(inside != 0, axis=1)[:, None], axis=1)[:, 0]
    half = inside[lead > 0]
    weights = 2.0 * np.exp(-0.5 * ((half @ lattice.basis.T) ** 2).sum(axis=1))
    if weights.sum() > 0.5:
        return None
    return HarmonicSeries(half @ lattice.change.T, weights, LIMITS.error)


def independent_blocks(cov: FloatArray) -> list[NDArray[np.intp]]:
    """Indices of the groups of angles that are independent of each other."""
    count, label = connected_components(cov != 0.0, directed=False)
    return [np.nonzero(label == group)[0] for group in range(count)]
