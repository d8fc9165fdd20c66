"""Objects that their constructors would not make again bit for bit, or not from attributes of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Special(NamedTuple):
    """How to take an object apart into named parts, and to make it again."""

    parts: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]


def _make_grid_density(log_values: Any, cut: Any) -> Any:
    from mgvm.circle.grid_density import GridDensity

    # The constructor checks and then normalises once more, which moves the last bit: the values go in afterwards.
    law = GridDensity(log_values)
    if np.shape(cut) != law.batch_shape or np.asarray(log_values).dtype != np.float64:
        raise ValueError(f"cut of shape {np.shape(cut)} for laws of batch shape {law.batch_shape}")
    law._set(log_values=log_values, _cut=cut)
    return law


def _make_mgvm(a: Any, b: Any, P: Any, Q: Any, known: Any) -> Any:
    from mgvm.inference._law import Natural
    from mgvm.torus.mgvm import MGvM

    # Checked by the constructor, which may symmetrise away a rounding of matrices that were turned or cut.
    MGvM(a, b, P, Q)
    if any(part.dtype != np.complex128 for part in (a, b, P, Q)):
        raise TypeError("parameters of an MGvM that are not complex")
    law = MGvM._of(Natural(a, b, P, Q))
    law._known.update(known)
    return law


def _make_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    from scipy import sparse

    matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def _make_tree(data: Any, leafsize: Any) -> Any:
    from scipy.spatial import cKDTree

    return cKDTree(data, leafsize=leafsize)


SPECIAL = {
    "GridDensity": Special(lambda law: {"log_values": law.log_values, "cut": law._cut}, _make_grid_density),
    "MGvM": Special(
        lambda law: {"a": law.a, "b": law.b, "P": law._P, "Q": law._Q, "known": dict(law._known)}, _make_mgvm
    ),
    "_csr.csr_array": Special(
        lambda matrix: {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": tuple(int(size) for size in matrix.shape),
        },
        _make_csr,
    ),
    "_ckdtree.cKDTree": Special(
        lambda tree: {"data": np.asarray(tree.data), "leafsize": int(tree.leafsize)}, _make_tree
    ),
}
