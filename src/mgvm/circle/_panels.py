"""Composite Gauss-Legendre quadrature on panels of the circle.

A law gives the edges of panels on which its density is as smooth as a low-degree polynomial; one rule of fixed order
on each then gives masses, distribution functions and expectations to rounding, at any concentration.
"""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def nodes_and_weights(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the composite rule, each of shape (..., m, 20), for edges (..., m + 1).

    Panels of zero width are allowed (they pad ragged batches) and get zero weights.
    """
    lower, upper = edges[..., :-1, None], edges[..., 1:, None]
    half = 0.5 * (upper - lower)
    return lower + half * (1.0 + _NODES), half * _WEIGHTS


def flat_nodes_and_weights(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same with the nodes of all panels along one axis, (..., 20 m)."""
    nodes, weights = nodes_and_weights(edges)
    shape = (*nodes.shape[:-2], nodes.shape[-2] * nodes.shape[-1])
    return nodes.reshape(shape), weights.reshape(shape)


def split(edges: FloatArray, pieces: int) -> FloatArray:
    """Edges with every panel cut into equal pieces."""
    share = np.arange(pieces) / pieces
    inner = edges[..., :-1, None] + (edges[..., 1:, None] - edges[..., :-1, None]) * share
    shape = (*inner.shape[:-2], inner.shape[-2] * pieces)
    return np.concatenate([inner.reshape(shape), edges[..., -1:]], axis=-1)


def merge(first: FloatArray, second: FloatArray) -> FloatArray:
    """Edges that contain both sets, on the turn that `first` covers; leading shapes broadcast."""
    start = first[..., :1]
    shifted = np.minimum(start + np.mod(second - start, 2.0 * np.pi), first[..., -1:])
    shape = np.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    both = [np.broadcast_to(edges, shape + edges.shape[-1:]) for edges in (first, shifted)]
    return np.sort(np.concatenate(both, axis=-1), axis=-1)


def pad(rows: list[FloatArray]) -> FloatArray:
    """Stack edges of unequal number, repeating the last edge."""
    width = max((len(row) for row in rows), default=2)
    return np.array([np.pad(row, (0, width - len(row)), mode="edge") for row in rows]).reshape(len(rows), width)
