"""The law of the angle without its inputs."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.gvm import GvM
from mgvm.models._circular_regressor import CircularRegressor, Merged, merged, queries, validated
from mgvm.models._gp_noise import Groups
from mgvm.models._gvm_moments import fit_moments

_LARGEST_ORDER = 4


class GvMRegressor(CircularRegressor):
    """p(ψ | x) = GvM(ψ | η), the same law for every input: what a regression must beat.

    Parameters
    ----------
    order : int or "auto", default 1
        Harmonics T of the law. "auto" goes from 1 up to 4 as long as leave-one-out gains more than a standard error.

    Attributes
    ----------
    law_ : GvM
        The law, of order `order_`.
    order_ : int
        T.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given the angles at all other inputs.

    Notes
    -----
    A weak penalty Σ_t log(1 + |η_t|²) / 2 keeps laws of a few angles finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.models import GvMRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = np.concatenate([rng.vonmises(0.0, 5.0, 50), rng.vonmises(np.pi, 5.0, 50)])
    >>> model = GvMRegressor("auto").fit(np.zeros((100, 1)), y)
    >>> model.order_
    2
    """

    def __init__(self, order: int | Literal["auto"] = 1):
        self.order = order

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the law to angles y (N,); X tells which of them share an input. Weights are counts of rows."""
        data = validated(self, X, y, sample_weight, scales=False)
        found = merged(data)
        if isinstance(self.order, str):
            check.choice(self.order, "order", ["auto"])
            orders = range(1, _LARGEST_ORDER + 1)
        else:
            only = check.integer(self.order, "order", minimum=1)
            orders = range(only, only + 1)
        fits = [_fit(found, order) for order in orders]
        best = 0
        for number in range(1, len(fits)):
            gain = np.add.reduceat(
                found.groups.weights * (fits[number][1] - fits[best][1]), _units(found.groups).starts
            )
            if gain.sum() > np.sqrt(gain.size) * gain.std():
                best = number
        self.order_ = orders[best]
        self.law_ = GvM(fits[best][0])
        values = np.array(self.law_.logpdf(data.y))
        values[found.order] = fits[best][1]
        self.loo_log_density_ = values
        return self

    def predict_dist(self, X: Any) -> GvM:
        """The law of the angle, once for every row of X."""
        return GvM(np.repeat(self.law_.eta[None], len(queries(self, X)), axis=0))


def _fit(found: Merged, order: int) -> tuple[ComplexArray, FloatArray]:
    """η (T,), and the log density of every angle of the groups with its own input left out.

    Angles at a single input are left out one by one.
    """
    groups = _units(found.groups)
    counts, sums = groups.total, groups.harmonics(order)
    # Leaving out a row of weight 2 means leaving out one of two rows.
    taken = np.minimum(counts, 1.0) if found.groups.starts.size == 1 else counts
    sums = sums * (taken / counts)[:, None]
    total = np.add.reduceat(groups.weights[:, None] * _waves(groups.angles, order), [0])
    number = groups.weights.sum(keepdims=True)
    eta = fit_moments(total / number[:, None], number, np.zeros((1, order), dtype=complex))
    left = number - taken
    some = left > 1e-9 * number
    others = np.zeros((counts.size, order), dtype=complex)
    if some.any():
        rest = (total - sums[some]) / left[some, None]
        others[some] = fit_moments(rest, left[some], np.repeat(eta, int(some.sum()), axis=0))
    normalizer = gvm_facts(others, 2).log_normalizer
    sizes = np.diff(np.append(groups.starts, groups.angles.size))
    waves = _waves(groups.angles, order)
    logs = (waves * np.repeat(others.conj(), sizes, axis=0)).real.sum(axis=1) - np.repeat(normalizer, sizes)
    return eta[0], logs


def _units(groups: Groups) -> Groups:
    """What is left out at once: the angles at an input, or every angle where all share one input."""
    if groups.starts.size > 1:
        return groups
    return Groups(groups.angles, groups.weights, np.arange(groups.angles.size))


def _waves(angles: FloatArray, order: int) -> ComplexArray:
    return np.exp(1j * np.multiply.outer(angles, np.arange(1, order + 1)))
