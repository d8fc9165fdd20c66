"""Parts of directed components: pairs of row and component, natural parameters, and what the prior is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics.directed import natural_parameters
from mgvm._validation import ComplexArray, FloatArray
from mgvm.models._family import NEGLIGIBLE, IntArray


class Pairs(NamedTuple):
    """Pairs of row and component that count, those of a component together."""

    rows: IntArray
    owners: IntArray
    weights: FloatArray


class Factor(NamedTuple):
    """What the log-likelihood of one angle is made of, and its prior."""

    features: FloatArray
    points: FloatArray
    pairs: Pairs
    slope: FloatArray
    metric: FloatArray


def natural_of(block: FloatArray, features: FloatArray, pairs: Pairs) -> ComplexArray:
    eta = np.empty((pairs.rows.size, 2), dtype=complex)
    natural_parameters(features, pairs.rows, pairs.owners, block, (block.shape[1] - 2) // 2, eta)
    return eta


def pairs_of(weights: FloatArray) -> Pairs:
    owners, rows = np.nonzero(np.ascontiguousarray(weights.T) > NEGLIGIBLE)
    return Pairs(rows, owners, weights[rows, owners])


def log_prior_of(theta: FloatArray, slope: FloatArray, metric: FloatArray) -> FloatArray:
    quadratic = np.einsum("ki,kij,kj->k", theta, metric, theta, optimize=True)
    return np.asarray((slope * theta).sum(axis=1) - 0.5 * quadratic)


def unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def profiled(fisher: FloatArray, kept: IntArray, others: IntArray) -> FloatArray:
    """Information on the kept parameters when the others are fitted along: F_kk - F_ko F_oo⁻¹ F_ok."""
    mixed = fisher[:, kept[:, None], others]
    inner = fisher[:, others[:, None], others]
    inner = inner + 1e-9 * np.einsum("kii->k", inner)[:, None, None] * np.eye(others.size) + 1e-12 * np.eye(others.size)
    return np.asarray(fisher[:, kept[:, None], kept] - mixed @ np.linalg.solve(inner, np.swapaxes(mixed, 1, 2)))


def tangential(first: FloatArray, means: FloatArray) -> FloatArray:
    """Projection onto couplings of turns to turns: τ_d τ_j' of every angle j before, τ the tangents at the means.

    Of a narrow component these are the entries of a Gaussian precision; the others bend it or change its width.
    """
    components, length = means.shape
    turn = np.stack([-first[:, 1], first[:, 0]], axis=1)
    out = np.zeros((components, 2, length, 2, length))
    for j in range(0, length, 2):
        there = unit(means[:, j : j + 2])
        tangent = np.einsum("ka,kb->kab", turn, np.stack([-there[:, 1], there[:, 0]], axis=1))
        out[:, :, j : j + 2, :, j : j + 2] = np.einsum("kab,kcd->kabcd", tangent, tangent)
    return out.reshape(components, 2 * length, 2 * length)
