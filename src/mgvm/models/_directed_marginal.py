"""Marginal densities of directed components: angles missing at the end fall away, those before are integrated out.

One or two such angles on a grid that resolves the component; more of them, or too fine a grid, by likelihood weighting:
the mean over ancestral draws of the missing angles of the density of what was observed after them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import FloatArray
from mgvm.models._family import IntArray, count, take

_LARGEST_GRID = 16_384
_DRAWS = 2048
_CHUNK = 400_000
_SEED = 20170204  # of likelihood weighting: the same question gets the same answer


def log_marginal(family: Any, parameters: Any, x: FloatArray) -> FloatArray:
    """Log densities (N, K) of the observed angles of each row."""
    out = np.zeros((x.shape[0], count(parameters)))
    ordered = np.isnan(x[:, list(family.order)])
    patterns, which = np.unique(ordered, axis=0, return_inverse=True)
    for p, missing in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == p)
        if missing.all():
            continue
        last = int(np.flatnonzero(~missing)[-1])
        hidden = np.flatnonzero(missing[: last + 1])
        filled = np.where(np.isnan(x[rows]), 0.0, x[rows])
        if hidden.size == 0:
            out[rows] = family.log_factors(parameters, filled, None, range(last + 1))
            continue
        for k in range(count(parameters)):
            out[rows, k] = _integrated(family, take(parameters, [k]), filled, hidden, last)
    return out


def _integrated(family: Any, one: Any, x: FloatArray, hidden: IntArray, last: int) -> FloatArray:
    """log p of one component with the factors `hidden` integrated out, (N,)."""
    nodes = [_nodes(family, one, int(angle), last) for angle in hidden]
    if math.prod(nodes) > _LARGEST_GRID:
        return _weighted(family, one, x, hidden, last)
    grids = np.meshgrid(*(2.0 * np.pi * np.arange(n) / n for n in nodes), indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    log_cell = float(np.log(2.0 * np.pi / np.array(nodes)).sum())
    columns = [family.order[int(angle)] for angle in hidden]
    out = np.empty(len(x))
    step = max(1, _CHUNK // len(points))
    for begin in range(0, len(x), step):
        part = np.repeat(x[begin : begin + step], len(points), axis=0)
        part[:, columns] = np.tile(points, (len(part) // len(points), 1))
        values = family.log_factors(one, part, None, range(last + 1)).reshape(-1, len(points))
        top = values.max(axis=1)
        out[begin : begin + step] = top + np.log(np.exp(values - top[:, None]).sum(axis=1)) + log_cell
    return out


def _nodes(family: Any, one: Any, angle: int, last: int) -> int:
    """Nodes for which the trapezoid rule is exact to 1e-6 at least: 12 + 5.5 √K, K a bound of the curvature."""
    curvature = 0.0
    for factor in range(angle, last + 1):
        size = family.features_of(factor)
        block = np.abs(one.packed[0, factor])
        if factor == angle:
            curvature += float(block[: 2 * size].sum() + 8.0 * block[2 * size : 2 * size + 2].sum())
        elif size > 1:
            own = [1 + 2 * angle, 2 + 2 * angle]
            curvature += 2.0 * float(block[own].sum() + block[[size + j for j in own]].sum())
    return int(12.0 + 5.5 * math.sqrt(curvature))


def _weighted(family: Any, one: Any, x: FloatArray, hidden: IntArray, last: int) -> FloatArray:
    """Likelihood weighting: unbiased, its relative error some 1/√2048 of the weights' spread."""
    rng = np.random.default_rng(_SEED)
    out = np.empty(len(x))
    step = max(1, _CHUNK // _DRAWS)
    seen = [factor for factor in range(last + 1) if factor not in set(hidden.tolist())]
    for begin in range(0, len(x), step):
        part = np.repeat(x[begin : begin + step], _DRAWS, axis=0)
        for angle in hidden:
            eta = family.natural(one, part, int(angle))
            part[:, family.order[int(angle)]] = gvm_sample(eta, 1, rng)[0]
        values = family.log_factors(one, part, None, seen).reshape(-1, _DRAWS)
        top = values.max(axis=1)
        out[begin : begin + step] = top + np.log(np.exp(values - top[:, None]).mean(axis=1))
    return out
