"""Recalibrated densities by brute force: a distribution function summed on a fine grid, and the product formula."""

import numpy as np


def recalibrated_density(density, eta, points, count=200_000):
    """2π p₀(ψ) p_H(v(ψ)) at points, p₀ a function of angles, p_H the GvM of natural parameters η.

    v = 2π(F(ψ) - ½), F the mass of p₀ from the point opposite its mean direction up to ψ.
    """
    width = 2.0 * np.pi / count
    middles = -np.pi + width * (np.arange(count) + 0.5)
    direction = np.angle(np.sum(density(middles) * np.exp(1j * middles)))
    out = []
    for point in points:
        reach = (point - direction + np.pi) % (2.0 * np.pi)
        mass = density(direction - np.pi + reach * (np.arange(count) + 0.5) / count).mean() * reach
        v = 2.0 * np.pi * (mass - 0.5)
        out.append(2.0 * np.pi * density(np.array([point]))[0] * _gvm(eta, v))
    return np.array(out)


def _gvm(eta, v):
    nodes = 2.0 * np.pi * np.arange(4096) / 4096
    terms = [(np.conj(eta[t]) * np.exp(1j * (t + 1) * np.append(nodes, v))).real for t in range(len(eta))]
    logs = np.sum(terms, axis=0)
    return np.exp(logs[-1]) / (np.exp(logs[:-1]).sum() * 2.0 * np.pi / 4096)
