"""Weighted densities of observed angles near an input: histograms on a fine grid, smoothed by von Mises laws.

An angle is shared between the two nodes of the grid next to it. The density at a query is a weighted sum of the
histograms of the inputs, convolved with a von Mises law of concentration κ, plus a share ε of the uniform law:

    p(ψ | x) = (1 - ε) Σ_j w_j(x) VM(ψ | ψ_j, κ) / Σ_j w_j(x) + ε / 2π.

Angles recorded in steps (of ten degrees, say) have a likelihood that grows without bound as the laws shrink onto the
steps. Where many angles are equal, κ is such that the law is at least half a step wide, which leaves no ripples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ive

from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.models._circular_regressor import Merged
from mgvm.models._gp_noise import Groups
from mgvm.models._gp_predict import cells

_LEAST, _MOST = 0.25, 4000.0
_COARSE, _FINE = 12, 9  # values of κ tried at first, and then about the best of them
NODES = cells(_MOST)
_SHARE = (1e-4, 0.5)  # of the uniform law
_ITERATIONS = 25


class Rows(NamedTuple):
    """Angles to be predicted: which blend predicts each, the angle, how much it counts, and its own part in the blend.

    A blend that holds the angle itself is relieved of that part, so that only other rows predict it.
    """

    position: np.ndarray
    angles: FloatArray
    weights: FloatArray
    own: FloatArray


class Blend(NamedTuple):
    """Weighted sums of histograms, of mass 1 (M, nodes), and the mass they had (M,)."""

    shares: FloatArray
    mass: FloatArray


class Smoothing(NamedTuple):
    """κ and ε, with the sum of weighted log densities they reach."""

    concentration: float
    share: float
    value: float


def histograms(found: Merged) -> csr_array:
    """(G, nodes): the weight of the angles of every input at the nodes -π + 2πj/n."""
    groups = found.groups
    left, part = _place(groups.angles)
    sizes = np.diff(np.append(groups.starts, groups.angles.size))
    row = np.repeat(np.arange(sizes.size), sizes)
    values = np.concatenate([groups.weights * (1.0 - part), groups.weights * part])
    columns = np.concatenate([left, (left + 1) % NODES])
    return csr_array((values, (np.tile(row, 2), columns)), shape=(sizes.size, NODES))


def blend(weights: Any, table: csr_array) -> Blend:
    """Weighted sums of histograms; none at all is the uniform law."""
    mixed = weights @ table
    out = np.asarray(mixed.toarray() if hasattr(mixed, "toarray") else mixed)
    total = out.sum(axis=1)
    some = (total > 0.0)[:, None]
    return Blend(np.where(some, out / np.where(some, total[:, None], 1.0), 1.0 / NODES), total)


def smoothed(spectrum: np.ndarray, concentration: float) -> FloatArray:
    """Densities (M, nodes) of histograms of given Fourier coefficients, convolved with VM(κ)."""
    orders = np.arange(NODES // 2 + 1)
    coefficients = ive(orders, concentration) / ive(0, concentration)
    density = np.fft.irfft(spectrum * coefficients, NODES, axis=1) * (NODES / (2.0 * np.pi))
    return np.maximum(density, 0.0)  # Fourier's rounding


def log_values(blended: Blend, smoothing: Smoothing) -> FloatArray:
    """Log densities at the nodes, (M, nodes)."""
    density = smoothed(np.fft.rfft(blended.shares, axis=1), smoothing.concentration)
    return np.log((1.0 - smoothing.share) * density + smoothing.share / (2.0 * np.pi))


def log_densities(blended: Blend, rows: Rows, smoothing: Smoothing) -> FloatArray:
    """Log densities (n,) of rows without their own part."""
    uniform = smoothing.share / (2.0 * np.pi)
    whole = np.exp(GridDensity(log_values(blended, smoothing))[rows.position].logpdf(rows.angles))
    part, step, kappa = _place(rows.angles)[1], 2.0 * np.pi / NODES, smoothing.concentration
    ends = np.stack([part, 1.0 - part])
    near = np.exp(kappa * (np.cos(step * ends) - 1.0)) / (2.0 * np.pi * ive(0, kappa))
    own = (ends[::-1] * near).sum(axis=0)
    others = _without(blended, rows, (whole - uniform) / (1.0 - smoothing.share), own)
    return np.log((1.0 - smoothing.share) * others + uniform)


def _densities(blended: Blend, spectrum: np.ndarray, rows: Rows, concentration: float) -> FloatArray:
    """The same without the uniform share, all read off linearly between the nodes."""
    whole = interpolated(smoothed(spectrum, concentration), rows.position, rows.angles)
    # An angle between two nodes has shares 1 - p and p there, and is read off with the same weights.
    part = _place(rows.angles)[1]
    peak = smoothed(np.full((1, NODES // 2 + 1), 1.0 + 0.0j), concentration)[0, :2]
    own = ((1.0 - part) ** 2 + part**2) * peak[0] + 2.0 * part * (1.0 - part) * peak[1]
    return _without(blended, rows, whole, own)


def _without(blended: Blend, rows: Rows, whole: FloatArray, own: FloatArray) -> FloatArray:
    """(M f - m f_own) / (M - m) for masses M and m, uniform where none is left."""
    mass = blended.mass[rows.position]
    left = mass - rows.own
    some = left > 1e-9 * mass
    others = np.maximum(mass * whole - rows.own * own, 0.0) / np.where(some, left, 1.0)
    return np.where(some, others, 1.0 / (2.0 * np.pi))


def largest_concentration(groups: Groups) -> float:
    """κ = 4/δ² for angles recorded in steps δ: more than half of them equal others, and the median gap is δ."""
    values = np.unique(groups.angles)
    if 2 * values.size > max(groups.angles.size, groups.weights.sum()) or values.size < 2:
        return _MOST
    gaps = np.diff(np.append(values, values[0] + 2.0 * np.pi))
    return float(np.clip(4.0 / np.median(gaps) ** 2, 2.0 * _LEAST, _MOST))


def concentrations(largest: float, around: float | None = None) -> FloatArray:
    """Values of κ to try: over the whole range, or about one of these."""
    coarse = np.geomspace(_LEAST, largest, _COARSE)
    if around is None:
        return coarse
    ratio = float(coarse[1] / coarse[0])
    return np.minimum(around * np.geomspace(1.0 / ratio, ratio, _FINE), largest)


def best_smoothing(blended: Blend, rows: Rows, candidates: FloatArray) -> Smoothing:
    """κ and ε of the highest likelihood."""
    spectrum = np.fft.rfft(blended.shares, axis=1)
    best = Smoothing(float(candidates[0]), _SHARE[1], -np.inf)
    for concentration in candidates:
        density = _densities(blended, spectrum, rows, float(concentration))
        share = _uniform_share(density, rows.weights)
        value = float(rows.weights @ np.log((1.0 - share) * density + share / (2.0 * np.pi)))
        if value > best.value:
            best = Smoothing(float(concentration), share, value)
    return best


def _uniform_share(density: FloatArray, weights: FloatArray) -> float:
    """ε by EM, with a twentieth of an observation on each side."""
    share, total = 0.05, float(weights.sum())
    for _ in range(_ITERATIONS):
        uniform = share / (2.0 * np.pi)
        mass = float(weights @ (uniform / (uniform + (1.0 - share) * density)))
        share = float(np.clip((mass + 0.05) / (total + 0.1), *_SHARE))
    return share


def interpolated(table: FloatArray, position: np.ndarray, angles: FloatArray) -> FloatArray:
    """Densities at angles, linear between the nodes: as fine as the histograms are."""
    left, part = _place(angles)
    return (1.0 - part) * table[position, left] + part * table[position, (left + 1) % NODES]


def _place(angles: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """The node below each angle, and how far it is on its way to the next."""
    place = (angles + np.pi) * (NODES / (2.0 * np.pi))
    below = np.floor(place)
    return below.astype(np.int64) % NODES, place - below
