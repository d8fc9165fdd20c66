"""What draws of a law say about each of its angles."""

from __future__ import annotations

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._law import Natural, concentrations, natural_first

_STATES = 20_000  # most draws whose conditional laws are averaged
_WORK = 1e7  # nodes in all, from which fewer draws are taken
_FEWEST = 16
_NODES = 4096  # most nodes of a marginal's grid


def marginals(law: Natural, samples: FloatArray) -> GridDensity:
    """The mean of the conditional laws of every angle, on a grid fine enough for each of them (Rao and Blackwell)."""
    rows = samples.reshape(-1, law.dimension)
    nodes = int(min(_NODES, 32 + 8.0 * np.sqrt(concentrations(law).max())))
    count = int(min(len(rows), np.clip(_WORK / (nodes * law.dimension), _FEWEST, _STATES)))
    first = natural_first(law, np.exp(1j * rows[np.linspace(0, len(rows) - 1, count).astype(int)]))
    grid = -np.pi + 2.0 * np.pi * np.arange(nodes) / nodes
    out = np.empty((law.dimension, nodes))
    for angle in range(law.dimension):
        rest = np.broadcast_to(law.b[:, angle], (count, law.order - 1))
        out[angle] = _mixture(np.concatenate([first[:, angle, None], rest], axis=1), grid)
    return GridDensity(out)


def _mixture(eta: ComplexArray, grid: FloatArray) -> FloatArray:
    """Log of the mean density of GvM laws (n, T) on a grid."""
    waves = np.exp(1j * np.arange(1, eta.shape[1] + 1)[:, None] * grid)
    logs = (eta.conj() @ waves).real - gvm_facts(eta).log_normalizer[:, None]
    top = logs.max(axis=0)
    return top + np.log(np.exp(logs - top).mean(axis=0))
