"""Recalibration: predictive densities corrected by what held-out angles say of them.

If the predictive densities p₀(ψ | x) of a regressor are right, the values v = 2π(F₀(ψ) - ½) of held-out angles, F₀ the
distribution function from the point opposite the mean direction, are uniform on the circle. Where they are not,
p_H(v | x), a GvM of order 2 that is the same for all inputs or follows them as a harmonic Gaussian process, tells how
spread and skew are off, and

    p(ψ | x) = 2π p₀(ψ | x) p_H(v(ψ) | x)

is normalised, and p₀ itself where p_H is uniform. A correction is kept only if it is better on values that it has not
seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import _safe_indexing

from mgvm import _validation as check
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.circle.base import CircularDistribution
from mgvm.circle.graded_nodes import Features, features_of, resolve_density
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.base import (
    BaseCircularRegressor,
    check_groups,
    fit_clone,
    number_inputs,
    said_once,
    split_whole,
    validate_queries,
    validate_training,
)
from mgvm.regression.baselines.no_input import GvMRegressor
from mgvm.regression.harmonic import HarmonicGPRegressor
from mgvm.regression.prediction import on_own_nodes
from mgvm.regression.search import count_distinct

_TURN = 2.0 * np.pi
METHODS = ("auto", "constant", "gp")


@dataclass(frozen=True)
class RecalibrationSettings:
    """What a correction may be, and what it may cost."""

    order: int = 2  # harmonics of v: location, spread and skew of a density
    prior_scale: float = 0.5  # of the harmonic process: corrections are small
    narrow: float = 0.1  # width of a peak of v below which it gets nodes of its own
    most: int = 1000  # inputs from which a harmonic process learns, drawn at random where there are more


SETTINGS = RecalibrationSettings()


@dataclass(frozen=True)
class Recalibration:
    """A density of v given the inputs, by which predictive densities are corrected."""

    method: str  # "constant" or "gp"
    model: Any  # the fitted regressor of v

    def apply(self, X: FloatArray, dist: GridDensity) -> GridDensity:
        """Corrected densities of a batch (R,) of predictions at the rows of X."""
        factor, start = self.model.predict_dist(X), _mass_before_cut(dist)

        def evaluate(rows: np.ndarray, x: FloatArray) -> FloatArray:
            here = dist[rows][:, None]
            v = _centred(np.asarray(here.cdf(x)), start[rows, None])
            return np.asarray(here.logpdf(x) + factor[rows][:, None].logpdf(v))

        # v runs once around the circle within some widths of a peak, and harmonics of v as often as their order.
        peaks = features_of(dist)
        peaks = peaks._replace(width=peaks.width / (1 + SETTINGS.order))
        return GridDensity(*resolve_density(evaluate, _with_narrow(peaks, dist, factor, start)))

    def log_factor(self, X: FloatArray, v: FloatArray) -> FloatArray:
        """log 2π p_H(v | x) of a value for every row of X."""
        return np.asarray(self.model.predict_dist(X).logpdf(v) + np.log(_TURN))


def _with_narrow(peaks: Features, dist: GridDensity, factor: CircularDistribution, start: FloatArray) -> Features:
    """The peaks, and those of the factor in v that are so narrow that nodes about the peaks may miss them."""
    narrow = features_of(factor)
    there = np.nan_to_num(narrow.width, nan=np.inf) < SETTINGS.narrow
    if not there.any():
        return peaks
    mass = (start[:, None] + np.where(there, narrow.place, 0.0) / _TURN + 0.5) % 1.0
    place = np.asarray(dist[:, None].icdf(mass))
    width = narrow.width / (_TURN * np.asarray(dist[:, None].pdf(place)))  # dv = 2π p₀ dψ
    found = (np.where(there, place, np.nan), np.where(there, width, np.nan))
    return Features(*(np.concatenate(both, axis=1) for both in zip(peaks, found, strict=True)))


def transform_angles(dist: CircularDistribution, y: FloatArray) -> FloatArray:
    """v = 2π(F(y) - ½) of angles that broadcast against a batch of distributions."""
    return _centred(np.asarray(dist.cdf(y)), _mass_before_cut(dist))


def _mass_before_cut(dist: CircularDistribution) -> FloatArray:
    """F at the point opposite the mean direction, from -π, that at π where there is no mean direction."""
    return np.asarray(dist.cdf(np.nan_to_num(np.asarray(dist.mean_direction())) + np.pi))


def _centred(cumulative: FloatArray, start: FloatArray) -> FloatArray:
    """v from distribution functions that begin at -π, the cut moved to where they are `start`."""
    return np.asarray(_TURN * ((cumulative - start) % 1.0 - 0.5))


# ---- learning -------------------------------------------------------------------------------------------------------


class Transformed(NamedTuple):
    """Values v (n,) of held-out angles, their inputs (n, p), weights, and the number of each one's distinct input."""

    X: FloatArray
    v: FloatArray
    weights: FloatArray
    unit: np.ndarray

    def take(self, which: np.ndarray) -> Transformed:
        """Some of them."""
        return Transformed(*(part[which] for part in self))


class Gain(NamedTuple):
    """A correction, and the log factor of every value by what the others say."""

    recalibration: Recalibration
    log_factor: FloatArray


def learn_recalibration(data: Transformed, method: str, *, gram: bool = False, random_state: Seed = 0) -> Gain | None:
    """The best correction that a method allows, None where none is better than leaving densities as they are.

    `gram` says that X is a Gram matrix. As few different values as harmonics tell no density: its likelihood has no
    maximum, and equal angles were predicted opposite to where they are.
    """
    if count_distinct(data.v[data.weights > 0.0]) <= SETTINGS.order:
        return None
    with said_once():
        tried = [_learn_constant(data)] if method != "gp" else []
        if method != "constant":
            tried.append(_learn_process(data, gram, random_state))
    best = max(tried, key=lambda gain: float(data.weights @ gain.log_factor))
    return best if float(data.weights @ best.log_factor) > 0.0 else None


def _learn_constant(data: Transformed) -> Gain:
    model = GvMRegressor(SETTINGS.order).fit(data.X, data.v, data.weights)
    return Gain(Recalibration("constant", model), model.loo_log_density_ + np.log(_TURN))


def _learn_process(data: Transformed, gram: bool, random_state: Seed) -> Gain:
    """A harmonic process, from a part of many inputs; the others are held out then anyhow."""
    kernel = "precomputed" if gram else None
    model = HarmonicGPRegressor(kernel, SETTINGS.order, prior_scale=SETTINGS.prior_scale, random_state=random_state)
    count = int(data.unit.max()) + 1
    if gram or count <= SETTINGS.most:
        model.fit(data.X, data.v, data.weights)
        return Gain(Recalibration("gp", model), model.held_out_log_density_ + np.log(_TURN))
    chosen = check.generator(random_state, "random_state").choice(count, SETTINGS.most, replace=False)
    some = np.isin(data.unit, chosen)
    model.fit(*data.take(some)[:3])
    out = np.empty(data.v.size)
    out[some], out[~some] = model.held_out_log_density_, model.log_density(data.X[~some], data.v[~some])
    return Gain(Recalibration("gp", model), out + np.log(_TURN))


# ---- for any regressor ----------------------------------------------------------------------------------------------


class RecalibratedRegressor(MetaEstimatorMixin, BaseCircularRegressor):  # type: ignore[misc]
    """Any circular regressor, its predictive densities corrected by what held-out angles say of them.

    p(ψ | x) = 2π p₀(ψ | x) p_H(v(ψ) | x), with v = 2π(F₀(ψ) - ½) from the distribution function of the regressor's own
    density p₀, and p_H a density on the circle, learnt from the v of angles that the regressor has not seen. It mends
    regions that are too wide or too narrow, everywhere or somewhere, and leaves a regressor as it is where that is
    better.

    Parameters
    ----------
    estimator : circular regressor
        That is, with `predict_dist`.
    method : {"auto", "constant", "gp"}
        p_H is a GvM of order 2, the same for all inputs or a harmonic Gaussian process; "auto" takes what is better on
        values not seen.
    cv : int
        Folds of whole inputs, or of groups; the estimator is fitted once for each, and once to all rows.
    random_state : int, RandomState, Generator or None
        Of the folds and of the harmonic process.
    unit : {"radians", "degrees", "compass", "hours"}
        Of y, of `predict` and of `sample_y`. `predict_dist` gives radians, and so does the fitted estimator inside.

    Attributes
    ----------
    estimator_ : circular regressor
        Fitted to all rows.
    recalibration_ : Recalibration or None
        The correction, its `method` and its `model`; None where none is better.
    loo_log_density_ : ndarray, shape (N,)
        Log density of every training angle by folds, corrected by what the other values say.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression import RecalibratedRegressor
    >>> from mgvm.regression.baselines import ProjectedGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> x = np.sort(rng.uniform(0, 6, 300))
    >>> y = np.sin(x) + rng.normal(0.0, rng.choice([0.1, 0.8], 300, p=[0.8, 0.2]))  # a sharp peak on a broad one
    >>> model = RecalibratedRegressor(ProjectedGPRegressor(), "constant").fit(x[:, None], y)
    >>> plain = ProjectedGPRegressor().fit(x[:, None], y)
    >>> bool(model.loo_log_density_.mean() > plain.loo_log_density_.mean() + 0.05)
    True
    """

    def __init__(
        self, estimator: Any, method: str = "auto", *, cv: int = 5, random_state: Seed = 0, unit: str = "radians"
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.random_state = random_state
        self.unit = unit

    @single_thread
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the estimator to all rows, and the correction to what it says of rows it has not seen.

        Parameters
        ----------
        X : array_like, shape (N, p)
            Inputs.
        y : array_like, shape (N,)
            Angles in `unit`, any real numbers.
        sample_weight : array_like, shape (N,), optional
            How often each row counts; the estimator must take it.
        groups : array_like, shape (N,), optional
            Blocks (days, regions, subjects) that are held out whole, instead of single inputs.
        """
        method = check.choice(self.method, "method", METHODS)
        data = validate_training(self, X, y, sample_weight, scales=False)
        weights = None if sample_weight is None else data.weights
        if not hasattr(self.estimator, "predict_dist"):
            raise TypeError(
                f"estimator is a {type(self.estimator).__name__} without predict_dist; recalibration corrects "
                "distributions of angles, as the regressors of mgvm.regression give them"
            )
        self.estimator_ = fit_clone(self.estimator, X, data.y, weights)
        place = number_inputs(data)
        held_out = self._hold_out(X, data.y, weights, place if groups is None else check_groups(groups, data.y.size))
        told = Transformed(data.X, held_out[:, 0], data.weights, place)
        gain = learn_recalibration(told, method, random_state=self.random_state)
        self.recalibration_ = None if gain is None else gain.recalibration
        self.loo_log_density_ = held_out[:, 1] + (0.0 if gain is None else gain.log_factor)
        return self

    def predict_dist(self, X: Any) -> GridDensity:
        """The corrected distribution at every row of X."""
        checked = validate_queries(self, X)
        dist = on_own_nodes(self.estimator_.predict_dist(X))
        return dist if self.recalibration_ is None else self.recalibration_.apply(checked, dist)

    def _hold_out(self, X: Any, y: FloatArray, weights: FloatArray | None, units: np.ndarray) -> FloatArray:
        """v and the log density (N, 2) of every row, by the estimator fitted to the other folds."""
        if np.unique(units).size < 2:
            raise ValueError(
                "recalibration holds out inputs or groups and needs 2 different ones at least, got n_samples = "
                f"{y.size} in 1; fit the estimator itself"
            )
        out = np.empty((y.size, 2))
        for train, test in split_whole(units, check.integer(self.cv, "cv", minimum=2), self.random_state):
            dist = fit_clone(self.estimator, X, y, weights, train).predict_dist(_safe_indexing(X, test))
            out[test] = np.stack([transform_angles(dist, y[test]), dist.logpdf(y[test])], axis=1)
        return out
