"""Slow, obvious twins of WrappedNormal: the defining sum over images, in mpmath and in plain doubles."""

import mpmath
import numpy as np
from scipy.special import logsumexp, ndtr


def _images(sigma):
    return range(-int(3 + 2 * sigma) - 2, int(3 + 2 * sigma) + 3)


def mp_logpdf(x, mu, sigma, digits=40):
    """Σ_k N(x + 2πk | μ, σ²) for the exact doubles x, μ, σ; the theta series where σ is large."""
    with mpmath.workdps(digits):
        x, mu, s = mpmath.mpf(x), mpmath.mpf(mu), mpmath.mpf(sigma)
        turn = 2 * mpmath.pi
        d = x - mu - turn * mpmath.nint((x - mu) / turn)
        if s > 5:
            rho = mpmath.exp(-s * s / 2)
            total = 1 + 2 * sum(rho ** (n * n) * mpmath.cos(n * d) for n in range(1, 6))
            return mpmath.log(total / turn)
        near = -d * d / (2 * s * s)
        total = sum(mpmath.exp(-((d + turn * k) ** 2) / (2 * s * s) - near) for k in _images(float(s)))
        return near + mpmath.log(total / (s * mpmath.sqrt(turn)))


def mp_cdf(x, mu, sigma, digits=40):
    """∫_{-π}^{x} p as a sum of normal masses over images, for σ <= 5."""
    with mpmath.workdps(digits):
        x, mu, s = mpmath.mpf(x), mpmath.mpf(mu), mpmath.mpf(sigma)
        low = -mpmath.mpf(np.pi)
        ends = [
            ((b - mu + 2 * mpmath.pi * k) / s, (a - mu + 2 * mpmath.pi * k) / s)
            for k in range(-60, 61)
            for a, b in [(low, x)]
        ]
        return mpmath.fsum(mpmath.ncdf(b) - mpmath.ncdf(a) for b, a in ends)


def logpdf(x, mu, sigma):
    """The sum over images in doubles, many more than needed, by log-sum-exp."""
    d = np.mod(x - mu + np.pi, 2 * np.pi) - np.pi
    k = np.arange(-40, 41)[:, None]
    return logsumexp(-0.5 * ((d + 2 * np.pi * k) / sigma) ** 2, axis=0) - np.log(sigma * np.sqrt(2 * np.pi))


def cdf(x, mu, sigma):
    k = 2 * np.pi * np.arange(-40, 41)[:, None]
    return (ndtr((x - mu + k) / sigma) - ndtr((-np.pi - mu + k) / sigma)).sum(axis=0)
