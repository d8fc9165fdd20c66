"""Expectations under a wrapped normal law of few angles, by trapezoid rules that converge faster than any power."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning

Statistic = Callable[[FloatArray], FloatArray]

_MOST_NODES = 1 << 22
_BLOCK = 1 << 17
_TOLERANCE = 1e-11
_HALF_WIDTH = 8.5  # standard deviations: beyond lies less than 1e-16
_NARROW = 0.5


def by_grid(cov: FloatArray, log_density: Statistic, statistic: Statistic) -> float:
    """E statistic(d) over offsets d (n, D) from the mean, on finer and finer grids until two agree.

    Narrow laws are integrated as normal ones, N(d | 0, C), over 17 standard deviations a side; others over the torus.
    """
    narrow = bool(np.diagonal(cov).max() <= _NARROW**2)
    size, coarsest = len(cov), 17
    if not narrow:
        # The density varies on the scale of the least standard deviation.
        coarsest = int(
            min(max(8.0, 2.0 * np.pi / np.sqrt(np.linalg.eigvalsh(cov)[0])), 0.4 * _MOST_NODES ** (1 / size))
        )
    value, change, nodes = np.inf, np.inf, 2 * coarsest
    while nodes**size <= _MOST_NODES:
        previous = value
        value = _on_normal(cov, statistic, nodes) if narrow else _on_torus(log_density, statistic, nodes, size)
        change = abs(value - previous)
        if change <= _TOLERANCE * (1.0 + abs(value)):
            return value
        nodes *= 2
    warnings.warn(
        f"the integral over {size} angles still changes by {change:.1e} between its two finest grids: the law is too "
        "narrow in some directions and too wide in others; use the mean of logpdf over a sample instead",
        ConvergenceWarning,
        stacklevel=4,
    )
    return value


def _on_torus(log_density: Statistic, statistic: Statistic, nodes: int, size: int) -> float:
    total, mass = 0.0, 0.0
    for index in _blocks(nodes, size):
        points = -np.pi + 2.0 * np.pi * index / nodes
        density = np.exp(log_density(points))
        # A density that underflows contributes nothing, even where the other law's log density is -inf.
        inside = density > 0.0
        total += float(density[inside] @ statistic(points[inside]))
        mass += float(density.sum())
    return total / mass


def _on_normal(cov: FloatArray, statistic: Statistic, nodes: int) -> float:
    factor = np.linalg.cholesky(cov)
    total, mass = 0.0, 0.0
    for index in _blocks(nodes + 1, len(cov)):
        standard = _HALF_WIDTH * (2.0 * index / nodes - 1.0)
        weight = np.exp(-0.5 * (standard**2).sum(axis=1))
        total += float(weight @ statistic(standard @ factor.T))
        mass += float(weight.sum())
    return total / mass


def _blocks(nodes: int, size: int) -> Iterator[FloatArray]:
    """Indices (n, D) of a grid of `nodes` a side, some at a time."""
    count = nodes**size
    for begin in range(0, count, _BLOCK):
        flat = np.arange(begin, min(begin + _BLOCK, count))
        yield np.stack(np.unravel_index(flat, (nodes,) * size), axis=1).astype(float)
