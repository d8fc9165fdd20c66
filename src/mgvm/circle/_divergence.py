"""Kullback-Leibler divergence between any two laws on the circle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.circle import _panels

if TYPE_CHECKING:
    from mgvm.circle.law import CircleLaw

_BLOCK = 1024


def kl_divergence(law: CircleLaw, other: CircleLaw) -> FloatArray:
    """KL(law ‖ other), by the closed form of the cross entropy where `other` has one, else by quadrature."""
    cross_entropy = other._cross_entropy(law)
    if cross_entropy is not None:
        return np.maximum(cross_entropy - law.entropy(), 0.0)[()]
    positions = (np.arange(item._size).reshape(item.batch_shape) for item in (law, other))
    left, right = check.broadcast(**dict(zip(("law", "other"), positions, strict=True)))
    laws, others = law._flat(), other._flat()
    out = np.empty(left.size)
    for begin in range(0, left.size, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        out[block] = _by_quadrature(laws[left.ravel()[block]], others[right.ravel()[block]])
    return out.reshape(left.shape)[()]


def _by_quadrature(law: CircleLaw, other: CircleLaw) -> FloatArray:
    """E_law[log p_law - log p_other] on panels that resolve both."""
    nodes, weights = _panels.flat_nodes_and_weights(_panels.merge(law._panels(), other._panels()))
    log_density, log_other = law[:, None].logpdf(nodes), other[:, None].logpdf(nodes)
    mass = weights * np.exp(log_density)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(mass > 0, log_density - log_other, 0.0)
        plain = (mass * gap).sum(axis=-1) / mass.sum(axis=-1)
        # p log(p/q) + q - p integrates to the same and is nowhere negative: laws that are alike lose no digits.
        alike = (mass * (gap + np.expm1(-gap))).sum(axis=-1)
        furthest = np.abs(log_density - log_other).max(axis=-1, initial=0.0)
    return np.where(furthest < 1.0, alike, np.maximum(plain, 0.0))
