"""Leave-one-out densities on the circle of Gaussian processes at replicated inputs, with exact gradients.

The density of the n angles at an input given all other inputs is a product of predictions, the first from the other
inputs alone, the last from n - 1 angles of the same input as well. No closed form exists on the circle; the criterion
takes the two ends for the whole,

    Σ_i w_i [ℓ_i(other inputs) / n + (1 - 1/n) ℓ_i(all other rows)],

exact for n = 1 and 2. The first end tells of the kernel, the second of the noise, which the first leaves open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._field import Solved, left_out, left_out_gradient
from mgvm.models._gp_noise import Groups

CircleDensity = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
"""Log densities (n,) of angles with means (n, P) and variances (n, P), and their derivatives in both."""

Coordinates = Callable[[FloatArray], FloatArray]
"""The numbers (n, P) that stand for angles (n,)."""


class _Rows(NamedTuple):
    """For every row and output: mean and variance of f from other inputs, σ², how many rows remain, and their mean."""

    mean: FloatArray
    variance: FloatArray
    noise: FloatArray
    rest: FloatArray  # (n, 1)
    rest_mean: FloatArray


class _Slopes(NamedTuple):
    """Derivatives in mean, variance and noise, each (n, P)."""

    mean: FloatArray
    variance: FloatArray
    noise: FloatArray


def at_other_rows(parts: list[Solved], groups: Groups, density: CircleDensity, coordinates: Coordinates) -> FloatArray:
    """log p(ψ | all other rows) of every row."""
    return _last(_rows(parts, groups, coordinates), groups.angles, density)[0]


def criterion(
    parts: list[Solved], groups: Groups, density: CircleDensity, coordinates: Coordinates
) -> tuple[float, FloatArray]:
    """The criterion and its gradient in θ; one part for all outputs, or one for each."""
    rows = _rows(parts, groups, coordinates)
    first, first_slopes = _first(rows, groups.angles, density)
    last, last_slopes = _last(rows, groups.angles, density)
    share = 1.0 / np.maximum(np.repeat(groups.total, _sizes(groups)), 1.0)
    value = float(groups.weights @ (share * first + (1.0 - share) * last))
    ahead, behind = (groups.weights * share)[:, None], (groups.weights * (1.0 - share))[:, None]
    slopes = _Slopes(*(ahead * a + behind * b for a, b in zip(first_slopes, last_slopes, strict=True)))
    by_mean, by_variance = (np.add.reduceat(part, groups.starts) for part in (slopes.mean, slopes.variance))
    gradient, used = [], 0
    for part in parts:
        columns = slice(used, used + part.seen.means.shape[1])
        used = columns.stop
        by_noise = float(slopes.noise[:, columns].sum())
        gradient.append(left_out_gradient(part, by_mean[:, columns], by_variance[:, columns].sum(axis=1), by_noise))
    return value, np.concatenate(gradient)


def _first(rows: _Rows, angles: FloatArray, density: CircleDensity) -> tuple[FloatArray, _Slopes]:
    logs, by_mean, by_variance = density(angles, rows.mean, rows.variance + rows.noise)
    return logs, _Slopes(by_mean, by_variance, by_variance)


def _last(rows: _Rows, angles: FloatArray, density: CircleDensity) -> tuple[FloatArray, _Slopes]:
    """f ~ N(m, v) has seen the mean of r rows: with D = vr + σ², gain k = vr/D, variance vσ²/D."""
    v, noise, r = rows.variance, rows.noise, rows.rest
    d = v * r + noise
    away = rows.rest_mean - rows.mean
    gain = v * r / d
    logs, a, b = density(angles, rows.mean + gain * away, v * noise / d + noise)
    by_variance = a * away * r * noise / d**2 + b * (noise / d) ** 2
    by_noise = -a * away * v * r / d**2 + b * (1.0 + r * (v / d) ** 2)
    return logs, _Slopes(a * (1.0 - gain), by_variance, by_noise)


def _sizes(groups: Groups) -> np.ndarray:
    return np.diff(np.append(groups.starts, groups.angles.size))


def _rows(parts: list[Solved], groups: Groups, coordinates: Coordinates) -> _Rows:
    sizes = _sizes(groups)
    found = [left_out(part) for part in parts]
    mean = np.concatenate([mean for mean, _ in found], axis=1)
    variance = np.concatenate([np.repeat(v[:, None], m.shape[1], axis=1) for m, v in found], axis=1)
    noise = np.concatenate([np.full(part.seen.means.shape[1], part.noise) for part in parts])
    mean, variance = np.repeat(mean, sizes, axis=0), np.repeat(variance, sizes, axis=0)
    noise = np.broadcast_to(noise, mean.shape)
    # A row of weight 2 stands for two rows, of which one is left out.
    total = np.repeat(groups.total, sizes)[:, None]
    taken = np.minimum(groups.weights, 1.0)[:, None]
    rest = np.maximum(total - taken, 0.0)
    means = np.repeat(np.concatenate([part.seen.means for part in parts], axis=1), sizes, axis=0)
    rest_mean = (total * means - taken * coordinates(groups.angles)) / np.where(rest > 0.0, rest, 1.0)
    return _Rows(mean, variance, noise, rest, np.where(rest > 0.0, rest_mean, mean))
