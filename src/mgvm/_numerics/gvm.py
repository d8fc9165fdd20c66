"""The numerics of a batch of GvM laws of any order: what they are asked for, and which kernel answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm_general import general_moments
from mgvm._numerics.gvm_order_two import order_two_moments
from mgvm._validation import ComplexArray, FloatArray

_MANY_DRAWS = 128  # of one law: from here on a table pays for itself
_FINE, _COARSE = 0.05, 0.5  # width of a table's cells in units of 1/√K


class Facts(NamedTuple):
    """Of each law: log Z, 1 - |m₁|, entropy, moments 1.., and a reference angle with the log density there."""

    log_normalizer: FloatArray
    dispersion: FloatArray
    entropy: FloatArray
    log_reference: FloatArray
    reference: FloatArray
    moments: ComplexArray


def _padded(eta: ComplexArray) -> ComplexArray:
    """Orders 0 and 1 as order 2."""
    missing = 2 - eta.shape[1]
    if missing > 0:
        eta = np.concatenate([eta, np.zeros((eta.shape[0], missing), dtype=complex)], axis=1)
    # The compiler takes a read-only array for another type and would compile all again.
    return np.require(eta, dtype=complex, requirements=["C", "W"])


def gvm_facts(eta: ComplexArray, count: int = 4) -> Facts:
    """Facts of laws with natural parameters eta (n, T), with at least `count` moments."""
    eta = _padded(eta)
    if eta.shape[1] == 2 and count <= 4:
        facts, reference, moments = order_two_moments(eta)
    else:
        facts, reference, moments = general_moments(eta, count)
    return Facts(facts[:, 0], facts[:, 1], facts[:, 2], facts[:, 3], np.angle(reference), moments)


def gvm_sample(eta: ComplexArray, repeats: int, rng: np.random.Generator) -> FloatArray:
    """`repeats` exact draws of each law, shape (repeats, n)."""
    from mgvm._numerics.gvm_envelope import sample_each
    from mgvm._numerics.gvm_table import sample_tables

    eta = _padded(eta)
    if repeats >= _MANY_DRAWS:
        return sample_tables(eta, _FINE, rng, repeats).T
    if eta.shape[1] == 2:
        return sample_each(eta, repeats, rng)
    return sample_tables(eta, _COARSE, rng, repeats).T
