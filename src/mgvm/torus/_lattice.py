"""Lattices for sums of Gaussians: short bases, bounds on what a truncated sum leaves out, points of a ball."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray

_LOVASZ = 0.99
_ROUNDS = 100_000


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

    def boxed(self, coordinates: FloatArray) -> FloatArray:
        """Coordinates w (..., D) in the short basis less integers, so that R w lies in the box |y_i| <= r_i / 2."""
        short = coordinates @ self.inverse.T
        for level in range(len(self.basis) - 1, -1, -1):
            height = short[..., level:] @ self.basis[level, level:]
            short[..., level] -= np.rint(height / self.basis[level, level])
        return short


def reduce(matrix: FloatArray) -> Lattice:
    """A short basis (Lenstra, Lenstra and Lovász) of the lattice that the columns of a matrix span."""
    size = len(matrix)
    basis = np.linalg.qr(matrix)[1]
    change, inverse = np.eye(size), np.eye(size)
    k = 1
    for _ in range(_ROUNDS):
        if k >= size:
            break
        _shorten(basis, change, inverse, k)
        if _LOVASZ * basis[k - 1, k - 1] ** 2 <= basis[k - 1, k] ** 2 + basis[k, k] ** 2:
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


class Tail(NamedTuple):
    """A budget T and a bound on Σ e^{-(d² - d_0²)/2} over the points whose d² exceeds d_0² + T, d_0 the nearest."""

    budget: float
    bound: float


def tail(spacings: FloatArray, error: float, centred: bool = False) -> Tail:
    """The smallest budget that Chernoff's bound finds enough for an error, at any point or (centred) at the origin.

    With y in the box |y_i| <= r_i / 2 and any 0 < θ < 1, what lies beyond the budget is at most
    e^{-(1-θ)T/2} Σ_m e^{-θ(|y + Rm|² - |y|²)/2} <= e^{-(1-θ)T/2} ∏_i e^{θ r_i²/8} ϑ(θ r_i²), ϑ(a) = Σ_k e^{-ak²/2}:
    in each coordinate a sum of e^{-θ(s + r_i k)²/2} over k is largest at s = 0. No point is nearer than d_0 <= |y|.
    At the origin y = 0 and the factors e^{θ r_i²/8} fall away.
    """
    if not len(spacings):
        return Tail(0.0, 0.0)
    theta = np.geomspace(min(0.1, 0.1 / spacings.max() ** 2), 0.9, 200)
    exponent = np.outer(theta, spacings**2)
    log_factor = np.log(_theta_at_zero(exponent)) + (0.0 if centred else exponent / 8.0)
    needed = (log_factor.sum(axis=1) - np.log(error)) / (1.0 - theta)
    best = int(np.argmin(needed))
    return Tail(float(2.0 * needed[best]), error)


def _theta_at_zero(a: FloatArray) -> FloatArray:
    """A bound from above on Σ_k e^{-ak²/2}, k ∈ Z."""
    # A sum below peak and integral; or, as k² - 1 >= 3(k - 1), below a geometric series.
    with np.errstate(under="ignore"):
        return 1.0 + np.minimum(np.sqrt(2.0 * np.pi / a), 2.0 * np.exp(-0.5 * a) / -np.expm1(-1.5 * a))


def ball(basis: FloatArray, budget: float, limit: int, box: FloatArray | float = 0.0) -> FloatArray | None:
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
