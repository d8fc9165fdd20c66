"""Tilted distributions of the soft circle in many digits: radial integrals node by node, then sums over the nodes."""

from __future__ import annotations

import mpmath as mp
import numpy as np

DIGITS = 120  # recurrences lose twice as many digits as D² / 5 has


def radial_integrals(a, b, count=6):
    """∫₀^∞ r^k exp(-½ar² + br) dr, k = 0..count-1."""
    a, b = mp.mpf(a), mp.mpf(b)
    out = [mp.sqrt(mp.pi / (2 * a)) * mp.exp(b**2 / (2 * a)) * mp.erfc(-b / mp.sqrt(2 * a))]
    out.append((1 + b * out[0]) / a)
    for k in range(1, count - 1):
        out.append((k * out[k - 1] + b * out[k]) / a)
    return out


def tilted(xi, values, features, nodes, spread):
    """log Z, E[T], Cov[T], E[features] and Cov[T, features] of one row; features (nodes, p)."""
    with mp.workdps(DIGITS):
        pull = mp.mpf(0) if spread == np.inf else 1 / mp.mpf(spread) ** 2 if spread else None
        points, masses = [], []
        for phi, value in zip(nodes, values, strict=True):
            c, s = mp.mpf(float(np.cos(phi))), mp.mpf(float(np.sin(phi)))
            along = mp.mpf(xi[0]) * c + mp.mpf(xi[1]) * s
            square = mp.mpf(xi[2]) * c * c + mp.mpf(xi[3]) * c * s + mp.mpf(xi[4]) * s * s
            if pull is None:
                radial = [mp.exp(along + square)] * 6
            else:
                radial = [x * mp.exp(-pull / 2) for x in radial_integrals(pull - 2 * square, along + pull)]
            masses.append([x * mp.exp(mp.mpf(value)) for x in radial[1:]])
            points.append((c, s))
        return _summed(points, masses, features)


def _summed(points, masses, features):
    """Sums over the nodes: every product of statistics has its own power of r."""
    degrees = (1, 1, 2, 2, 2)
    shapes = [(c, s, c * c, c * s, s * s) for c, s in points]
    total = mp.fsum(mass[0] for mass in masses)
    mean = [mp.fsum(m[degrees[p]] * t[p] for m, t in zip(masses, shapes, strict=True)) / total for p in range(5)]
    second = [
        [
            mp.fsum(m[degrees[p] + degrees[q]] * t[p] * t[q] for m, t in zip(masses, shapes, strict=True)) / total
            for q in range(5)
        ]
        for p in range(5)
    ]
    count = features.shape[1]
    own = [mp.fsum(m[0] * mp.mpf(f[k]) for m, f in zip(masses, features, strict=True)) / total for k in range(count)]
    cross = [
        [
            mp.fsum(m[degrees[p]] * t[p] * mp.mpf(f[k]) for m, t, f in zip(masses, shapes, features, strict=True))
            / total
            - mean[p] * own[k]
            for k in range(count)
        ]
        for p in range(5)
    ]
    covariance = [[second[p][q] - mean[p] * mean[q] for q in range(5)] for p in range(5)]
    log_normalizer = mp.log(total * 2 * mp.pi / len(points))
    return (
        float(log_normalizer),
        np.array(mean, dtype=float),
        np.array(covariance, dtype=float),
        np.array(own, dtype=float),
        np.array(cross, dtype=float),
    )
