"""Sums over rows that score matching needs, one block of rows at a time: they add up whatever holds the blocks.

With x_d = (cos φ_d, sin φ_d), t_d = ∂x_d = (-sin φ_d, cos φ_d) and the symmetric coupling C (see inference._law),

    ∂_d log p = t_d·(α_d + Σ_j C_dj x_j) + Σ_{t>2} t (Im b_t cos tφ - Re b_t sin tφ).

The second harmonic is the diagonal block C_dd = 2 [[Re b, Im b], [Im b, -Re b]], so that it costs nothing. Everything
is written for x less its mean m, with α' = α + Σ_{j≠d} C_dj m_j in the place of α: single precision then suffices for
concentrated angles, and α' hardly depends on the couplings.

All cosines stand before all sines: arrays (…, 2D).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray

CHUNK_ROWS = 1024


class Slope(NamedTuple):
    """Coefficients of ∂ log p: of the diagonal and off-diagonal coupling, of 1, and of harmonics 3, 4, …"""

    coupling: FloatArray  # (2D, 2D), second harmonics on the diagonal blocks
    constant: FloatArray  # (2D,)
    harmonics: FloatArray  # (T - 2, 2, D)


def unit_rows(x: FloatArray) -> FloatArray:
    """cos and sin side by side, (n, 2D)."""
    size = x.shape[1]
    out = np.empty((x.shape[0], 2 * size))
    np.cos(x, out=out[:, :size])
    np.sin(x, out=out[:, size:])
    return out


def harmonic_sums(unit: FloatArray, weights: FloatArray, count: int) -> ComplexArray:
    """Σ w z^k for k = 0 .. count, (count + 1, D), of rows (cos, sin)."""
    size = unit.shape[1] // 2
    z = np.empty((unit.shape[0], size), dtype=complex)
    z.real, z.imag = unit[:, :size], unit[:, size:]
    out = np.empty((count + 1, size), dtype=complex)
    out[0] = weights.sum()
    power = z.copy()
    for k in range(1, count + 1):
        out[k] = weights @ power
        if k < count:
            power *= z
    return out


def product_sums(unit: FloatArray, weights: FloatArray, mean: FloatArray) -> FloatArray:
    """Σ w (x - m)(x - m)ᵀ, (2D, 2D), of rows (cos, sin)."""
    away = unit - mean
    return (away * weights[:, None]).T @ away


def slope_sums(
    away: FloatArray, weights: FloatArray, mean: FloatArray, slope: Slope
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ w g t (x - m)ᵀ (2D, 2D), Σ w g t (2D,), Σ w g ∂z^t of t > 2 (T - 2, 2, D), with g = ∂ log p, `away` = x - m."""
    size = away.shape[1] // 2
    field = away @ slope.coupling
    field += slope.constant
    unit = away + mean
    cos, sin = unit[:, :size], unit[:, size:]
    g = cos * field[:, size:]
    g -= sin * field[:, :size]
    turns = []
    for t, (real, imaginary) in enumerate(slope.harmonics, start=3):
        turn = (cos + 1j * sin) ** t
        turns.append((-t * turn.imag, t * turn.real))
        g += real * turns[-1][0] + imaginary * turns[-1][1]
    g *= weights[:, None]
    higher = np.array([[(g * part).sum(axis=0) for part in turn] for turn in turns], dtype=away.dtype)
    np.multiply(g, sin, out=field[:, :size])
    np.negative(field[:, :size], out=field[:, :size])
    np.multiply(g, cos, out=field[:, size:])
    return field.T @ away, field.sum(axis=0), higher.reshape(-1, 2, size)


def pair_places(dimension: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (α'_d, b_d) (D, 2T), and of the entries of C_ij = C_jiᵀ (2D, 2D), in the vector of a dense solve."""
    own = np.arange(2 * order * dimension).reshape(order, 2, dimension).transpose(2, 0, 1).reshape(dimension, -1)
    i, j = np.triu_indices(dimension, 1)
    couplings = np.zeros((2, dimension, 2, dimension), dtype=np.int64)
    entries = 2 * order * dimension + np.arange(4 * i.size).reshape(-1, 2, 2)
    for row in range(2):
        for column in range(2):
            couplings[row, i, column, j] = couplings[column, j, row, i] = entries[:, row, column]
    return own, couplings.reshape(2 * dimension, 2 * dimension)


def hessian_sums(x: FloatArray, weights: FloatArray, mean: FloatArray, order: int) -> FloatArray:
    """Σ w Σ_d f_d f_dᵀ (p, p) with f_d the derivative in φ_d of all statistics, in the order of `pair_places`."""
    size = x.shape[1]
    own, couplings = pair_places(size, order)
    out = np.zeros((own.size + 2 * size * (size - 1),) * 2)
    for start in range(0, x.shape[0], CHUNK_ROWS):
        part, root = x[start : start + CHUNK_ROWS], np.sqrt(weights[start : start + CHUNK_ROWS, None])
        unit = unit_rows(part)
        away = (unit - mean) * root
        for d in range(size):
            angle = part[:, d, None] * np.arange(1, order + 1)
            turn = np.stack([-np.sin(angle), np.cos(angle)], axis=2) * (
                np.arange(1, order + 1)[:, None] * root[:, None]
            )
            keep = np.delete(np.arange(2 * size), (d, d + size))
            features = np.concatenate(
                [
                    turn.reshape(len(part), -1),
                    -unit[:, d + size, None] * away[:, keep],
                    unit[:, d, None] * away[:, keep],
                ],
                axis=1,
            )
            places = np.concatenate([own[d], couplings[d, keep], couplings[d + size, keep]])
            out[np.ix_(places, places)] += features.T @ features
    return out
