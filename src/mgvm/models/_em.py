"""EM for mixtures of any family: E step over the pairs of row and component that matter, one Newton step a component.

The bound  Σ_n w_n log Σ_k π_k p_k(x_n) + Σ_k log prior_k  never falls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models._family import BoolArray, Family, take

_REFRESH = 10  # iterations between E steps over all pairs
_FAR = -21.0  # log responsibility below which a pair is left out until then


class Mixture(NamedTuple):
    """Log weights (K,) and the family's parameters."""

    log_weights: FloatArray
    parameters: Any

    @property
    def size(self) -> int:
        """The number of components K."""
        return int(self.log_weights.size)


class Run(NamedTuple):
    """Where EM ended: the mixture, the bound a unit of row weight after each iteration, whether it had converged."""

    mixture: Mixture
    trace: list[float]
    converged: bool


def log_joint(family: Family, mixture: Mixture, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
    """log π_k p_k(x_n), (N, K)."""
    return mixture.log_weights + family.log_density(mixture.parameters, x, near)


def log_sum(joint: FloatArray) -> FloatArray:
    """log Σ_k exp(joint) by rows."""
    top = np.max(joint, axis=1)
    with np.errstate(invalid="ignore"):
        out = top + np.log(np.exp(joint - top[:, None]).sum(axis=1))
    return np.where(np.isfinite(top), out, top)


def responsibilities(joint: FloatArray, total: FloatArray) -> FloatArray:
    """exp(joint - total); a row that no component reaches is shared by all."""
    with np.errstate(invalid="ignore"):
        out = np.exp(joint - total[:, None])
    lost = ~np.isfinite(total)
    if lost.any():
        out[lost] = 1.0 / joint.shape[1]
    return np.asarray(out)


def log_weights_of(weights: FloatArray) -> FloatArray:
    """Log mixing weights from weighted responsibilities (N, K)."""
    total = weights.sum(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) - np.log(total.sum()))


def run(
    family: Family,
    mixture: Mixture,
    x: FloatArray,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    watch: Callable[[int, float, Mixture], None] | None = None,
) -> Run:
    """EM from a mixture on, until the bound gains less than `tol` a row in an iteration."""
    trace: list[float] = []
    near: BoolArray | None = None
    since = 0
    for iteration in range(max_iter):
        joint = log_joint(family, mixture, x, near)
        total = log_sum(joint)
        bound = float(weights @ total + family.log_prior(mixture.parameters).sum()) / float(weights.sum())
        gain = bound - trace[-1] if trace else np.inf
        trace.append(bound)
        if watch is not None:
            watch(iteration, bound, mixture)
        if gain < tol:
            if near is None or since == 0:
                return Run(mixture, trace, True)
            near, since = None, 0  # look at all pairs before the end is called
            continue
        shares = responsibilities(joint, total)
        since += 1
        if near is None or since >= _REFRESH:
            near = joint - total[:, None] > _FAR if near is None else None
            since = 1 if near is not None else 0
        shares *= weights[:, None]
        mixture = _maximised(family, mixture, x, shares)
        if near is not None and near.shape[1] != mixture.size:
            near = None
    return Run(mixture, trace, False)


def _maximised(family: Family, mixture: Mixture, x: FloatArray, shares: FloatArray) -> Mixture:
    """The M step; components without any weight left are dropped."""
    alive = shares.sum(axis=0) > 1e-6 * shares.sum() / x.shape[0]
    if not alive.all():
        shares = np.ascontiguousarray(shares[:, alive])
        mixture = Mixture(mixture.log_weights[alive], take(mixture.parameters, alive))
    parameters = family.update(mixture.parameters, x, shares)
    return Mixture(log_weights_of(shares), parameters)


def settle(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray) -> Mixture:
    """The prior renewed where the components stand."""
    joint = log_joint(family, mixture, x)
    shares = responsibilities(joint, log_sum(joint)) * weights[:, None]
    return Mixture(mixture.log_weights, family.renewed(mixture.parameters, x, shares))
