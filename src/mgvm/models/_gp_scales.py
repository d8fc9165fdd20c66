"""Whether the length scales of a kernel suit the inputs: what is far off is said before a search is lost in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, RationalQuadratic, WhiteKernel

from mgvm._validation import FloatArray

_SUBSET = 2000
_SHORT, _LONG = 0.01, 1e3  # of the distance of neighbours, and of the extent of the inputs


def one_scale_for_all(kernel: Any) -> bool:
    """Whether a length scale is shared by all columns."""
    if not isinstance(kernel, Kernel):
        return kernel is None
    return any(np.size(leaf.length_scale) == 1 for leaf in _with_length(kernel))


def warn_of_length_scales(kernel: Any, inputs: FloatArray, level: int = 4) -> None:
    """Warn of length scales that make all inputs strangers or all the same, and of kernels that do not see inputs."""
    if not isinstance(kernel, Kernel):
        return
    if all(isinstance(leaf, (WhiteKernel, ConstantKernel)) for leaf in _leaves(kernel)):
        warnings.warn(
            f"kernel {kernel} does not depend on the inputs, so that all predictions are alike; multiply by a kernel "
            "with a length scale, as in ConstantKernel() * Matern(), or leave kernel=None",
            stacklevel=level,
        )
    extent = float(np.linalg.norm(np.ptp(inputs, axis=0)))
    if not extent > 0.0:
        return
    some = inputs[:: -(-len(inputs) // _SUBSET)]
    near = float(np.median(cKDTree(inputs).query(some, k=2)[0][:, 1]))
    for leaf in _with_length(kernel):
        # With a length scale a column, only a column's own extent tells; the smallest serves for all.
        length = float(np.min(leaf.length_scale)), float(np.max(leaf.length_scale))
        if np.size(leaf.length_scale) == 1 and length[1] < _SHORT * near:
            what, why = "far below", f"the distances of neighbours ({near:.3g}): no input tells of another"
        elif length[0] > _LONG * extent:
            what, why = "far above", f"the extent of the inputs ({extent:.3g}): they are all but the same"
        else:
            continue
        warnings.warn(
            f"the length scale of {leaf} is {what} {why}; start it between {near:.3g} and {extent:.3g}, leave "
            "kernel=None, or scale the inputs (sklearn.preprocessing.StandardScaler in a Pipeline)",
            stacklevel=level,
        )


def _with_length(kernel: Any) -> Iterator[Any]:
    """Stationary parts; the length scale of a periodic kernel is in units of its own."""
    return (leaf for leaf in _leaves(kernel) if isinstance(leaf, (RBF, RationalQuadratic)))


def _leaves(kernel: Any) -> Iterator[Any]:
    parts = [value for value in kernel.get_params(deep=False).values() if isinstance(value, Kernel)]
    if not parts:
        yield kernel
    for part in parts:
        yield from _leaves(part)
