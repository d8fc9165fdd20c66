"""Slow twins of the exact moments of an mGvM: statistics written out at every point of a product grid."""

from __future__ import annotations

import itertools

import numpy as np
from naive import torus


def statistics(phi, order):
    """T(φ) of one point, as a list: Re and Im of z_d^t, of z_i conj(z_j), of z_i z_j."""
    z = np.exp(1j * np.asarray(phi))
    numbers = [z[d] ** t for t in range(1, order + 1) for d in range(z.size)]
    pairs = list(itertools.combinations(range(z.size), 2))
    numbers += [z[i] * np.conj(z[j]) for i, j in pairs] + [z[i] * z[j] for i, j in pairs]
    return [part for number in numbers for part in (number.real, number.imag)]


def moments(a, b, P, Q, n=60):
    """log Z, E[T] and Cov(T) by the product rule."""
    mass = torus.probabilities(a, b, P, Q, n).ravel()
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[torus.nodes(n)] * len(a), indexing="ij")], axis=1)
    values = np.array([statistics(phi, len(b) + 1) for phi in points])
    mean = mass @ values
    return torus.log_normalizer(a, b, P, Q, n), mean, (values * mass[:, None]).T @ values - np.outer(mean, mean)


def narrow_local_moments(theta, codes, order, width, n=60):
    """log ∫ exp(θ·T'), E[T'] and Cov(T') of local statistics, in extended precision on a window of ± width.

    T' are products over the angles of 1, s, c, sc, c², ... with s = sin ψ, c = 1 - cos ψ, as `codes` say.
    """
    axis = (np.arange(n, dtype=np.longdouble) + 0.5) / n * 2 * width - width
    size = codes.shape[1]
    points = np.stack([part.ravel() for part in np.meshgrid(*[axis] * size, indexing="ij")], axis=1)
    s, c = np.sin(points), 2 * np.sin(points / 2) ** 2
    functions = [np.ones_like(s)]
    for t in range(order):
        functions += [s * c**t, c ** (t + 1)]
    values = np.ones((points.shape[0], codes.shape[0]), dtype=np.longdouble)
    for a, d in itertools.product(range(codes.shape[0]), range(size)):
        values[:, a] *= functions[codes[a, d]][:, d]
    exponent = values @ theta.astype(np.longdouble)
    weight = np.exp(exponent - exponent.max())
    total = weight.sum()
    mean = weight @ values / total
    centred = values - mean
    covariance = (centred * weight[:, None]).T @ centred / total
    return exponent.max() + np.log(total) + size * np.log(2 * width / np.longdouble(n)), mean, covariance
