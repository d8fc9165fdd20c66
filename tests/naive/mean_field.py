"""A slow, obvious twin of mean field: one angle at a time, every integral a sum over a fine grid."""

from __future__ import annotations

import numpy as np

GRID = -np.pi + 2 * np.pi * np.arange(2000) / 2000


def factor(natural):
    """Probabilities on the grid of a GvM with natural parameters (η₁, ..., η_T)."""
    value = sum(np.real(np.conj(eta) * np.exp(1j * t * GRID)) for t, eta in enumerate(natural, start=1))
    weight = np.exp(value - value.max())
    return weight / weight.sum()


def free_energy(a, b, P, Q, q):
    """F of a product of factors given by their probabilities on the grid."""
    m = np.array([np.sum(p * np.exp(1j * GRID)) for p in q])
    value = np.real(np.conj(a) @ m) + 0.5 * np.real(np.conj(m) @ P @ m) + 0.5 * np.real(m @ np.conj(Q) @ m)
    for t, harmonic in enumerate(b, start=2):
        value += np.real(np.conj(harmonic) @ np.array([np.sum(p * np.exp(1j * t * GRID)) for p in q]))
    for p in q:
        positive = p[p > 0]
        value -= np.sum(positive * np.log(positive * GRID.size / (2 * np.pi)))
    return value


def mean_field(a, b, P, Q, m, sweeps=2000):
    """Moments and free energies after each sweep of coordinate ascent from moments m."""
    m, q, trace = np.array(m, dtype=complex), [None] * len(a), []
    for _ in range(sweeps):
        before = m.copy()
        for d in range(len(a)):
            q[d] = factor([a[d] + P[d] @ m + Q[d] @ np.conj(m), *b[:, d]])
            m[d] = np.sum(q[d] * np.exp(1j * GRID))
        trace.append(free_energy(a, b, P, Q, q))
        if np.abs(m - before).max() < 1e-11:
            break
    return m, np.array(trace)


def von_mises_optimum(eta):
    """The highest G(ξ) = Re Σ conj(η_t) m_t + H over one von Mises factor, by search over κ and μ."""
    from scipy.optimize import minimize

    orders = np.arange(1, len(eta) + 1)

    def height(x):
        p = factor([x[0] + 1j * x[1]])
        moments = np.array([np.sum(p * np.exp(1j * t * GRID)) for t in orders])
        positive = p[p > 0]
        return -(np.real(np.conj(eta) @ moments) - np.sum(positive * np.log(positive * GRID.size / (2 * np.pi))))

    strength = np.abs(eta) @ orders**2
    starts = [
        np.array([k * np.cos(mu), k * np.sin(mu)])
        for k in (0.3, 0.3 * strength, strength)
        for mu in np.linspace(-np.pi, np.pi, 8, endpoint=False)
    ]
    options = {"xatol": 1e-7, "fatol": 1e-12}
    best = min(starts, key=height)
    return -min(
        minimize(height, start, method="Nelder-Mead", options=options).fun
        for start in (best, np.array([eta[0].real, eta[0].imag]))
    )
