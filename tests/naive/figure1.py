"""Slow twins of the experiments on two angles: plain sums over a square of midpoints."""

import numpy as np


def square(n):
    axis = -np.pi + 2 * np.pi * (np.arange(n) + 0.5) / n
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def kl(log_p, log_q, n):
    """KL of two normalised log densities."""
    points = square(n)
    p, q = log_p(points), log_q(points)
    return float((np.exp(p) * (p - q)).sum() * (2 * np.pi / n) ** 2)


def wrapped_normal_logpdf(mean, cov, turns=4):
    """Log of the sum over images in a square of turns."""
    precision, constant = np.linalg.inv(cov), -0.5 * np.linalg.slogdet(2 * np.pi * np.asarray(cov))[1]

    def logpdf(x):
        total = np.zeros(x.shape[:-1])
        for i in range(-turns, turns + 1):
            for j in range(-turns, turns + 1):
                d = x - mean + 2 * np.pi * np.array([i, j])
                total += np.exp(constant - 0.5 * np.einsum("...i,ij,...j->...", d, precision, d))
        return np.log(total)

    return logpdf


def modes(logpdf, n):
    """Nodes higher than their eight neighbours."""
    values = logpdf(square(n))
    around = [np.roll(values, (i, j), axis=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    return int((values > np.max(around, axis=0)).sum())
