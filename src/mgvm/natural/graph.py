"""Whether the couplings of a distribution form a forest, and an order in which it can be walked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from mgvm.natural.parameters import Matrix, Natural, TorusDistribution, natural

IntArray = NDArray[np.int64]


class Forest(NamedTuple):
    """A rooted forest over the D angles."""

    order: IntArray  # (D,) angles, every parent before its children
    parent: IntArray  # (D,) parent of each angle, -1 for a root


def forest(dist: TorusDistribution) -> Forest | None:
    """The couplings of a distribution as a rooted forest, or None where they have a cycle."""
    parameters = natural(dist, batch=True)
    size = parameters.dimension
    # A forest on D angles has at most D - 1 edges: most distributions are turned away by a count.
    if max(_stored(parameters.P), _stored(parameters.Q)) > 2 * (size - 1):
        return None
    first, second = edges(parameters)
    if first.size > size - 1:
        return None
    found, components = _breadth_first(size, first, second)
    return found if first.size == size - components else None


def without_rounding(dist: Natural) -> Natural:
    """The distribution without couplings that are rounding: at most 1e-12 of the largest one.

    The inverse of a kernel matrix that should be tridiagonal is so only to rounding. Leaving couplings out changes the
    log density, and so log Z, by at most the sum of their sizes; where that is 1e-9 or more nothing is left out.
    """
    largest = max(float(abs(dist.P).max()), float(abs(dist.Q).max()))
    kept, dropped = [], 0.0
    for matrix in (dist.P, dist.Q):
        rest = matrix.copy()
        values = rest.data if dist.is_sparse else rest
        small = abs(values) <= 1e-12 * largest
        dropped += 0.5 * float(abs(values[small]).sum())
        values[small] = 0.0
        kept.append(rest)
    return dist._replace(P=kept[0], Q=kept[1]) if dropped < 1e-9 else dist


def edges(dist: Natural) -> tuple[IntArray, IntArray]:
    """Pairs of angles i < j with a coupling that is not zero, sorted."""
    places = np.concatenate([_upper_places(dist.P), _upper_places(dist.Q)])
    return tuple(np.divmod(np.unique(places), dist.dimension))  # type: ignore[return-value]


def cycle_message(dist: Natural) -> str:
    """Why a distribution is no forest: how many couplings are too many, and one of them."""
    first, second = edges(dist)
    found, components = _breadth_first(dist.dimension, first, second)
    extra = first.size - (dist.dimension - components)
    closing = (found.parent[first] != second) & (found.parent[second] != first)
    i, j = int(first[closing][0]), int(second[closing][0])
    return (
        f"the couplings of the distribution are no forest: {first.size} couplings of {dist.dimension} angles are "
        f"{extra} more than a forest has; the one between angles {i} and {j}, for example, closes a cycle. Use "
        "exact_grid for D <= 3, annealed_log_normalizer for log Z, gibbs for samples and marginals"
    )


def _stored(matrix: Matrix) -> int:
    """The number of entries that are not zero."""
    return int(matrix.count_nonzero() if sparse.issparse(matrix) else np.count_nonzero(matrix))


def _upper_places(matrix: Matrix) -> IntArray:
    """i D + j of the entries above the diagonal that are not zero."""
    rows, columns = matrix.nonzero()
    above = rows < columns
    return rows[above].astype(np.int64) * matrix.shape[0] + columns[above]


def _breadth_first(size: int, first: IntArray, second: IntArray) -> tuple[Forest, int]:
    """A spanning forest of the graph, and the number of its components."""
    graph = sparse.csr_array((np.ones(first.size, dtype=np.int8), (first, second)), shape=(size, size))
    components, label = csgraph.connected_components(graph, directed=False)
    # One more node, tied to the first angle of every component, makes one search of all of them.
    _, roots = np.unique(label, return_index=True)
    rows = np.concatenate([first, np.full(roots.size, size)])
    columns = np.concatenate([second, roots])
    graph = sparse.csr_array((np.ones(rows.size, dtype=np.int8), (rows, columns)), shape=(size + 1, size + 1))
    order, before = csgraph.breadth_first_order(graph, size, directed=False)
    parent = before[:size].astype(np.int64)
    return Forest(order[1:].astype(np.int64), np.where(parent == size, -1, parent)), int(components)
