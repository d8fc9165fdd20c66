"""Which engine answers for a law on the torus."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.inference._forest import forest, without_rounding
from mgvm.inference._law import Natural
from mgvm.inference.annealing import annealed_log_normalizer
from mgvm.inference.chains import chain_log_normalizers, exact_chain
from mgvm.inference.gibbs_sampling import independent_draws
from mgvm.inference.quadrature import exact_grid, grid_log_normalizers
from mgvm.inference.result import LogNormalizer

_GRID = 3  # angles up to which quadrature is exact and cheap


def log_normalizer(law: Natural, method: str, rng: Any) -> LogNormalizer | FloatArray:
    """log Z by the named method, or by the first exact one that applies; an array for a batch."""
    batch, source = law.a.shape[:-1], check.generator(rng)
    rows = law._replace(a=law.a.reshape(math.prod(batch), law.dimension))
    for name in (method,) if method != "auto" else _candidates(law):
        try:
            found = [_METHODS[name](rows, source)] if name != "annealing" else _anneal(rows, source)
        except (ValueError, MemoryError):
            # An exact engine may find a law too large or too narrow for it; annealing takes any.
            if method != "auto" or name == "annealing":
                raise
            continue
        if name == "annealing":
            return found[0] if not batch else np.array(found, dtype=float).reshape(batch)
        return found[0].reshape(batch) if batch else LogNormalizer(float(found[0][0]), method=_LABELS[name])
    raise AssertionError("annealing answers for every law")


def _anneal(rows: Natural, rng: np.random.Generator) -> list[Any]:
    return [annealed_log_normalizer(rows._replace(a=a), rng).log_normalizer for a in rows.a]


_METHODS = {
    "grid": lambda rows, _: grid_log_normalizers(rows),
    "chain": lambda rows, _: chain_log_normalizers(rows),
}
_LABELS = {"grid": "quadrature", "chain": "exact chain"}


def sample(law: Natural, count: int, method: str, rng: np.random.Generator) -> FloatArray:
    """Draws (count, D) of one law by the named method, or by the first that applies."""
    engines: dict[str, Any] = {"grid": exact_grid, "chain": exact_chain}
    for name in (method,) if method != "auto" else _candidates(law):
        if name not in engines:
            break
        try:
            return engines[name](law).sample(count, rng=rng)
        except (ValueError, MemoryError):
            if method != "auto":
                raise
    return independent_draws(law, count, rng)


def _candidates(law: Natural) -> list[str]:
    """Exact methods that apply, then the one that always does."""
    exact = ["grid"] if law.dimension <= _GRID else []
    if forest(law) is not None or (law.dimension > _GRID and forest(without_rounding(law)) is not None):
        exact.append("chain")
    return [*exact, "annealing"]
