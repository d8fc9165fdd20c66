"""Which engine answers for a law on the torus."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._forest import forest
from mgvm.inference._law import Natural
from mgvm.inference.annealing import annealed_log_normalizer
from mgvm.inference.chains import chain_log_normalizers, exact_chain
from mgvm.inference.gibbs_sampling import independent_draws
from mgvm.inference.quadrature import exact_grid, grid_log_normalizers
from mgvm.inference.result import LogNormalizer

_GRID = 3  # angles up to which quadrature is exact and cheap


def log_normalizer(law: Natural, method: str, rng: Any) -> LogNormalizer | FloatArray:
    """log Z by the named method, or by the first exact one that applies; an array for a batch."""
    chosen = _choose(law) if method == "auto" else method
    batch = law.a.shape[:-1]
    rows = law._replace(a=law.a.reshape(-1, law.dimension))
    if chosen == "annealing":
        one = [annealed_log_normalizer(rows._replace(a=a), rng=rng).log_normalizer for a in rows.a]
        return np.array(one).reshape(batch) if batch else one[0]
    exact = grid_log_normalizers if chosen == "grid" else chain_log_normalizers
    values = exact(rows)
    name = "quadrature" if chosen == "grid" else "messages"
    return values.reshape(batch) if batch else LogNormalizer(float(values[0]), method=name)


def sample(law: Natural, count: int, method: str, rng: np.random.Generator) -> FloatArray:
    """Draws (count, D) of one law by the named method, or by the first that applies."""
    chosen = _choose(law) if method == "auto" else method
    if chosen == "grid":
        return exact_grid(law).sample(count, rng=rng)
    if chosen == "chain":
        return exact_chain(law).sample(count, rng=rng)
    return independent_draws(law, count, rng)


def _choose(law: Natural) -> str:
    if law.dimension <= _GRID:
        return "grid"
    return "chain" if forest(law) is not None else "annealing"
