"""The distribution of the angle without its inputs: one GvM for all rows."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_facts
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.fitting import fit_moments
from mgvm.circle.gvm import GvM
from mgvm.regression.base import BaseCircularRegressor, merge_replicates, validate_queries, validate_training
from mgvm.regression.noise import Replicates


class _OrderFit(NamedTuple):
    """η (T,), and the log density of every angle given all others."""

    eta: ComplexArray
    log_densities: FloatArray


class GvMRegressor(BaseCircularRegressor):
    """p(ψ | x) = GvM(ψ | η), the same distribution for every input: what a regression must beat.

    Parameters
    ----------
    order : int or "auto", default 1
        Harmonics T of the distribution. "auto" goes from 1 up to 4 as long as leave-one-out gains more than a standard
        error.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; `predict_dist` gives radians.

    Attributes
    ----------
    distribution_ : GvM
        The distribution, of order `order_`.
    order_ : int
        T.
    loo_log_density_ : ndarray (N,)
        Log density of every training angle given all other rows; a row of weight w stands for w rows.

    Notes
    -----
    A weak penalty Σ_t log(1 + |η_t|²) / 2 keeps distributions of a few angles finite.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import GvMRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = np.concatenate([rng.vonmises(0.0, 5.0, 50), rng.vonmises(np.pi, 5.0, 50)])
    >>> model = GvMRegressor("auto").fit(np.zeros((100, 1)), y)
    >>> model.order_
    2
    """

    def __init__(self, order: int | Literal["auto"] = 1, *, unit: str = "radians"):
        self.order = order
        self.unit = unit

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the distribution to angles y (N,); weights are counts of rows.

        X tells which rows share an input, and so are no independent evidence for a higher order.
        """
        data = validate_training(self, X, y, sample_weight, scales=False)
        found = merge_replicates(data)
        if isinstance(self.order, str):
            check.choice(self.order, "order", ["auto"])
            orders = range(1, 5)
        else:
            only = check.integer(self.order, "order", minimum=1)
            orders = range(only, only + 1)
        fits = [_fit_order(found.replicates, order) for order in orders]
        best = 0
        for number in range(1, len(fits)):
            gain = found.replicates.weights * (fits[number].log_densities - fits[best].log_densities)
            if found.replicates.starts.size > 1:
                gain = np.add.reduceat(gain, found.replicates.starts)
            if gain.sum() > np.sqrt(gain.size) * gain.std():
                best = number
        self.order_ = orders[best]
        self.distribution_ = GvM(fits[best].eta)
        self.loo_log_density_ = found.of_rows(
            fits[best].log_densities, lambda rows: np.asarray(self.distribution_.logpdf(data.y[rows]))
        )
        return self

    def predict_dist(self, X: Any) -> GvM:
        """The distribution of the angle, once for every row of X."""
        return GvM(self.distribution_.eta[None])[np.zeros(len(validate_queries(self, X)), dtype=int)]


def _fit_order(replicates: Replicates, order: int) -> _OrderFit:
    """A GvM of one order; equal angles have their leave-one-out density in common.

    Of an angle of weight w, which stands for w rows, one row is left out; of w < 1 the whole.
    """
    angles, inverse = np.unique(replicates.angles, return_inverse=True)
    counts = np.bincount(inverse, replicates.weights)
    taken = np.minimum(counts, 1.0)
    waves = np.exp(1j * np.multiply.outer(angles, np.arange(1, order + 1)))
    number = counts.sum(keepdims=True)
    total = (counts @ waves)[None]
    eta = fit_moments(total / number[:, None], number, np.zeros((1, order), dtype=complex))
    left = number - taken
    some = left > 1e-9 * number
    others = np.zeros((counts.size, order), dtype=complex)
    if some.any():
        rest = (total - (taken[:, None] * waves)[some]) / left[some, None]
        others[some] = fit_moments(rest, left[some], np.repeat(eta, int(some.sum()), axis=0))
    logs = (waves * others.conj()).real.sum(axis=1) - gvm_facts(others, 2).log_normalizer
    return _OrderFit(eta[0], logs[inverse])
