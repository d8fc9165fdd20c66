"""Angles of which no smooth law can be learnt: constant ones, and ones that others determine."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.learning._rows import Rows, circular_spread

_CONSTANT = 1e-12  # 1 - |mean of z| below which angles are the same: 1e-6 radians
_NARROW = 1e-3  # spread below which harmonics and couplings look alike: 0.045 radians
_MOST = 5  # named in a message


def constant_columns(x: FloatArray, weights: FloatArray) -> list[int]:
    """Columns whose angles are all the same."""
    return [int(d) for d in np.flatnonzero(circular_spread(x, weights) < _CONSTANT)]


def dependent_pairs(x: FloatArray, weights: FloatArray) -> list[tuple[int, int, str]]:
    """Pairs i < j of columns whose difference or sum is constant, with the word for which; constant columns aside."""
    alike = []
    varying = np.setdiff1d(np.arange(x.shape[1]), constant_columns(x, weights))
    z = np.exp(1j * x[:, varying])
    share = weights / weights.sum()
    for word, other in (("difference", z.conj()), ("sum", z)):
        # Rounding of the products hides spreads below 1e-10: those pairs are looked at again without it.
        near = np.argwhere(np.triu(abs((z * share[:, None]).T @ other), 1) > 1.0 - 1e-9)
        for i, j in varying[near]:
            joint = x[:, i] - x[:, j] if word == "difference" else x[:, i] + x[:, j]
            if circular_spread(joint[:, None], weights)[0] < _CONSTANT:
                alike.append((int(i), int(j), word))
    return alike


def description(x: FloatArray, weights: FloatArray) -> str:
    """What is degenerate, in words that follow "because"; empty where nothing is."""
    constant = constant_columns(x, weights)
    if constant:
        names = ", ".join(map(str, constant[:_MOST])) + (", ..." if len(constant) > _MOST else "")
        return (
            f"columns {names} of data hold one angle each"
            if len(constant) > 1
            else f"column {names} of data holds one angle only"
        )
    pairs = dependent_pairs(x, weights)
    if pairs:
        i, j, word = pairs[0]
        more = f" (and {len(pairs) - 1} more such pairs)" if len(pairs) > 1 else ""
        return f"the {word} of columns {i} and {j} of data is constant{more}"
    return ""


def narrowness(sample: Rows, whose: int) -> str:
    """Why one angle of data that are not degenerate may have no finite law, in words that follow "because"."""
    spread = circular_spread(sample.x[:, whose : whose + 1], sample.weights)[0]
    if sample.n_rows <= 4 * sample.dimension:
        return f"there are too few rows, {sample.n_rows:,} of {sample.dimension:,} angles"
    if spread < _NARROW:
        return (
            f"it lies within {np.sqrt(2.0 * spread):.1g} radians of its mean, where harmonics and couplings look alike"
        )
    return "the other angles all but determine it"


def several_rows(sample: Rows, method: str) -> Rows:
    """The rows, unless there is but one."""
    if sample.n_rows < 2:
        raise ValueError(
            f"{method} needs rows that differ from each other, got a single row (rows of weight 0 do not count): its "
            "law would be a point; give more rows"
        )
    return sample
