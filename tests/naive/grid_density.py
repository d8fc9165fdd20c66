"""A density known by its logarithm at nodes of the circle, as many points with masses: every question is a sum.

In each cell the angle and the logarithm are Lagrange's polynomials through the sixteen nearest nodes, of the node's
number. Within eight nodes of a zero the logarithm is straight; towards a zero the density is.
"""

from __future__ import annotations

import numpy as np


def lagrange(values, at):
    """The polynomial through values at 0, 1, 2, … at points."""
    total = 0.0
    for i, value in enumerate(values):
        factor = 1.0
        for j in range(len(values)):
            if j != i:
                factor *= (at - j) / (i - j)
        total += value * factor
    return total


class Points:
    """`pieces` points in every cell: angles x, log densities, masses."""

    def __init__(self, values, nodes=None, pieces=50):
        n = len(values)
        nodes = -np.pi + 2 * np.pi * np.arange(n) / n if nodes is None else nodes
        x, logs, width = [], [], []
        for k in range(n):
            place = np.arange(k - 7, k + 9)
            angles = nodes[place % n] + 2 * np.pi * (place // n)
            near = values[place % n]
            middles = (np.arange(pieces) + 0.5) / pieces
            x.append(lagrange(angles, 7 + middles))
            width.append(np.diff(lagrange(angles, 7 + np.arange(pieces + 1) / pieces)))
            logs.append(_log_density(near, middles))
        self.x, self.width, logs = (np.concatenate(parts) for parts in (x, width, logs))
        mass = np.exp(logs - logs.max()) * self.width
        self.mass = mass / mass.sum()
        self.logs = logs - logs.max() - np.log(mass.sum())

    def cdf(self, x):
        return self.mass[self.x <= x].sum()

    def moment(self, k):
        return (self.mass * np.exp(1j * k * self.x)).sum()

    def entropy(self):
        some = self.mass > 0
        return -(self.mass[some] * self.logs[some]).sum()

    def crps(self, y):
        def distance(a, b):
            return np.abs(np.angle(np.exp(1j * (a - b))))

        spread = self.mass @ distance(self.x[:, None], self.x) @ self.mass
        return self.mass @ distance(self.x, y) - 0.5 * spread

    def rank(self, y):
        """Mass of the angles more likely than the one nearest to y."""
        level = self.logs[np.abs(self.x - y).argmin()]
        return self.mass[self.logs > level].sum()


def _log_density(near, u):
    """Between the eighth and the ninth of sixteen values."""
    left, right = near[7], near[8]
    if np.isneginf(left) and np.isneginf(right):
        return np.full(u.shape, -np.inf)
    if np.isneginf(right):
        return left + np.log(1 - u)
    if np.isneginf(left):
        return right + np.log(u)
    if np.isneginf(near).any():
        return left + u * (right - left)
    return lagrange(near, 7 + u)
