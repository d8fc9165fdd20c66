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
from mgvm.models._circular_regressor import Merged
from mgvm.models._gp_predict import cells

_LEAST, _MOST = 0.25, 4000.0
_COARSE, _FINE = 12, 9  # values of κ tried at first, and then about the best of them
NODES = cells(_MOST)
_SHARE = (1e-4, 0.5)  # of the uniform law
_ITERATIONS = 25


class Smoothing(NamedTuple):
    """κ and ε, with the sum of weighted log densities they reach."""

    concentration: float
    share: float
    value: float


def histograms(found: Merged) -> csr_array:
    """(G, nodes): the weight of the angles of every input at the nodes -π + 2πj/n."""
    groups = found.groups
    place = (groups.angles + np.pi) * (NODES / (2.0 * np.pi))
    below = np.floor(place)
    part = place - below
    left = below.astype(np.int64) % NODES
    sizes = np.diff(np.append(groups.starts, groups.angles.size))
    row = np.repeat(np.arange(sizes.size), sizes)
    values = np.concatenate([groups.weights * (1.0 - part), groups.weights * part])
    columns = np.concatenate([left, (left + 1) % NODES])
    return csr_array((values, (np.tile(row, 2), columns)), shape=(sizes.size, NODES))


def blend(weights: Any, table: csr_array) -> FloatArray:
    """Weighted sums (M, nodes) of histograms, of mass 1; none at all is the uniform law."""
    mixed = weights @ table
    out = np.asarray(mixed.toarray() if hasattr(mixed, "toarray") else mixed)
    total = out.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, out / np.where(total > 0.0, total, 1.0), 1.0 / NODES)


def smoothed(spectrum: np.ndarray, concentration: float) -> FloatArray:
    """Densities (M, nodes) of histograms of given Fourier coefficients, convolved with VM(κ)."""
    orders = np.arange(NODES // 2 + 1)
    coefficients = ive(orders, concentration) / ive(0, concentration)
    density = np.fft.irfft(spectrum * coefficients, NODES, axis=1) * (NODES / (2.0 * np.pi))
    return np.maximum(density, 0.0)  # Fourier's rounding


def log_values(blended: FloatArray, smoothing: Smoothing) -> FloatArray:
    """Log densities at the nodes, (M, nodes)."""
    density = smoothed(np.fft.rfft(blended, axis=1), smoothing.concentration)
    return np.log((1.0 - smoothing.share) * density + smoothing.share / (2.0 * np.pi))


def largest_concentration(angles: FloatArray) -> float:
    """κ = 4/δ² for angles recorded in steps δ: more than half of them equal others, and the median gap is δ."""
    values = np.unique(angles)
    if 2 * values.size > angles.size or values.size < 2:
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


def best_smoothing(
    blended: FloatArray, rows: tuple[np.ndarray, FloatArray, FloatArray], candidates: FloatArray
) -> Smoothing:
    """κ and ε of the highest likelihood for rows (position in the batch, angle, weight)."""
    position, angles, weights = rows
    spectrum = np.fft.rfft(blended, axis=1)
    best = Smoothing(float(candidates[0]), _SHARE[1], -np.inf)
    for concentration in candidates:
        density = interpolated(smoothed(spectrum, float(concentration)), position, angles)
        share = _uniform_share(density, weights)
        value = float(weights @ np.log((1.0 - share) * density + share / (2.0 * np.pi)))
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
    place = (angles + np.pi) * (NODES / (2.0 * np.pi))
    below = np.floor(place)
    part = place - below
    left = below.astype(np.int64) % NODES
    return (1.0 - part) * table[position, left] + part * table[position, (left + 1) % NODES]
