"""Slow, obvious twins of ProjectedNormal: the textbook density in mpmath, and the radial integral in plain doubles."""

import mpmath
import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def mp_logpdf(x, mean, cov, digits=60):
    """-½ mᵀΣ⁻¹m + log(1 + D Φ(D)/ϕ(D)) - log(2π √|Σ| A) for the exact doubles given."""
    first, second = (float(v) for v in mean)
    # 1 + D Φ(D)/ϕ(D) is about 1/D²: the digits it loses must be there to lose.
    with mpmath.workdps(digits):
        x, m1, m2 = mpmath.mpf(x), mpmath.mpf(first), mpmath.mpf(second)
        a, b, c = (mpmath.mpf(float(v)) for v in (cov[0][0], cov[0][1], cov[1][1]))
        det = a * c - b * b
        u1, u2 = mpmath.cos(x), mpmath.sin(x)

        def inner(p1, p2, q1, q2):
            return (c * p1 * q1 - b * (p1 * q2 + p2 * q1) + a * p2 * q2) / det

        square = inner(u1, u2, u1, u2)
        d = inner(u1, u2, m1, m2) / mpmath.sqrt(square)
        if d < -60:  # the asymptotic series of Mills' ratio: its terms fall to e^{-d²/2} before they grow
            bracket = mpmath.fsum((-1) ** n * mpmath.fac2(2 * n + 1) / d ** (2 * n + 2) for n in range(20))
        else:
            bracket = 1 + d * mpmath.ncdf(d) * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(d * d / 2)
        exponent = inner(m1, m2, m1, m2) / 2
        return mpmath.log(bracket) - exponent - mpmath.log(2 * mpmath.pi * mpmath.sqrt(det) * square)


def logpdf(x, mean, cov):
    """log ∫_0^∞ N(r u | m, Σ) r dr by composite quadrature in r."""
    u = np.stack([np.cos(x), np.sin(x)])
    y = np.linalg.solve(cov, u)
    square = (u * y).sum(axis=0)
    along = np.asarray(mean) @ y / np.sqrt(square)
    # In units of the ray's own spread the integrand is t e^{-(t - D)²/2}: unit panels about D, graded ones at 0.
    peak = np.maximum(along, 0.0)
    graded = np.concatenate([[0.0], np.geomspace(1e-6, 14.0, 60)])
    edges = np.sort(
        np.concatenate(
            [
                np.maximum(peak + np.arange(-14, 15)[:, None], 0.0),
                np.broadcast_to(graded[:, None], (graded.size, x.size)),
            ]
        ),
        axis=0,
    )
    half = 0.5 * np.diff(edges, axis=0)
    t = edges[:-1, None] + half[:, None] * (1 + _NODES[:, None])
    log_peak = -0.5 * (peak - along) ** 2
    value = (half[:, None] * _WEIGHTS[:, None] * t * np.exp(-0.5 * (t - along) ** 2 - log_peak)).sum(axis=(0, 1))
    across = np.asarray(mean) @ np.linalg.solve(cov, np.asarray(mean)) - along**2
    return np.log(value) + log_peak - 0.5 * across - np.log(2 * np.pi * np.sqrt(np.linalg.det(cov)) * square)
