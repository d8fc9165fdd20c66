"""Densities on the circle of Gaussian predictions, with their derivatives in mean and variance."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle._gaussian_plane import radial

_LOG_ROOT_TURN = 0.5 * np.log(2.0 * np.pi)
_IMAGES = 2.0 * np.pi * np.arange(-12, 13)


def plane(angles: FloatArray) -> FloatArray:
    """(cos ψ, sin ψ)."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def line(angles: FloatArray) -> FloatArray:
    """ψ itself."""
    return angles[:, None]


def projected(
    angles: FloatArray, means: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log [ϕ(P) J(D) / (√(v₁v₂) q)] with q = c²/v₁ + s²/v₂, D√q = m₁c/v₁ + m₂s/v₂ and P√(q v₁v₂) = m₁s - m₂c.

    J(D) = ϕ(D) + D Φ(D): the direction of a point of the plane with independent coordinates (ProjectedNormal).
    """
    unit = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    turned = np.stack([unit[:, 1], -unit[:, 0]], axis=1)
    square = (unit**2 / variances).sum(axis=1)
    root = np.sqrt(square)
    area = np.sqrt(variances.prod(axis=1))
    along = (means * unit / variances).sum(axis=1) / root
    across = (means * turned).sum(axis=1) / (area * root)
    log_radial, ratio, _ = radial(along)
    logs = log_radial - 0.5 * across**2 - _LOG_ROOT_TURN - np.log(area * square)
    by_mean = ratio[:, None] * unit / (variances * root[:, None]) - (across / (area * root))[:, None] * turned
    # dq/dv = -u²/v²; D falls with √q and with its own numerator, P² with q and v, the rest is -½ log v - log q.
    relative = -((unit / variances) ** 2) / square[:, None]
    along_slope = -means * unit / (variances**2 * root[:, None]) - 0.5 * along[:, None] * relative
    across_square_slope = -(across**2)[:, None] * (1.0 / variances + relative)
    by_variance = ratio[:, None] * along_slope - 0.5 * across_square_slope - 0.5 / variances - relative
    return logs, by_mean, by_variance


def wrapped(angles: FloatArray, means: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log Σ_k N(ψ + 2πk | m, v): each image's score, weighted by its share of the density."""
    variance = variances[:, 0]
    away = wrap(angles - means[:, 0])[:, None] + _IMAGES
    logs = -0.5 * away**2 / variance[:, None]
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top)
    total = share.sum(axis=1)
    share /= total[:, None]
    value = top[:, 0] + np.log(total) - _LOG_ROOT_TURN - 0.5 * np.log(variance)
    by_mean = (share * away).sum(axis=1) / variance
    by_variance = 0.5 * ((share * away**2).sum(axis=1) / variance - 1.0) / variance
    return value, by_mean[:, None], by_variance[:, None]
