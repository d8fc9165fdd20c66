"""Hyper-parameters by blocked folds: each fold is predicted from the others, for forecasts and for clustered data.

Leave-one-out is optimistic where neighbours of a held-out point stay: a forecast has none. The score of a fold is exact
(the others are fitted without it); its gradient is by central differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mgvm._validation import FloatArray
from mgvm.regression.engines.dense import DensePropagation, Tuned, Tuning, inverse
from mgvm.regression.engines.tilted import Observations, natural_of
from mgvm.regression.prediction import Posterior
from mgvm.regression.prior import Prior

_STEP = 1e-2
_TOLERANCE = 1e-5  # of the moments: the differences below are good to 1e-3


@dataclass
class FoldTuning(Tuning):
    """`folds` (N,) numbers the fold of every input."""

    folds: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _fold_sites: dict[int, FloatArray] = field(default_factory=dict, init=False)

    def solve(self, vector: FloatArray, tolerance: float) -> tuple[Tuned, FloatArray]:
        """The posterior of all data, with the score of the folds for objective."""
        found, _ = super().solve(vector, tolerance)
        value = self.held_out(vector)
        gradient = np.empty(vector.size)
        for i in range(vector.size):
            step = np.zeros(vector.size)
            step[i] = _STEP
            gradient[i] = (self.held_out(vector + step) - self.held_out(vector - step)) / (2.0 * _STEP)
        return found._replace(objective=value), gradient

    def held_out(self, vector: FloatArray) -> float:
        """The log density of all folds, each given the others, and of the weak prior."""
        count = self.prior.theta.size
        prior, rho = self.prior.at(vector[:count]), vector[count:]
        away = vector - self.start
        score = sum(self._fold(prior, rho, fold) for fold in np.unique(self.folds))
        return float(score) - 0.5 * self.prior_precision * float(away @ away)

    def _fold(self, prior: Prior, rho: FloatArray, fold: int) -> float:
        """log density of one fold given the others, each input by itself."""
        inside, outside = np.flatnonzero(self.folds == fold), np.flatnonzero(self.folds != fold)
        known = Observations(self.replicates.take(outside), self.noise, rho, self.spread)
        problem = DensePropagation(inverse(prior.covariance(self.inputs[outside])), known)
        state, _ = problem.run(self._fold_sites.get(fold), _TOLERANCE)
        self._fold_sites[fold] = state.sites
        mean, covariance = Posterior.of(state).at(prior.cross(self.inputs[inside], self.inputs[outside]))
        cavity = natural_of(mean, covariance)
        assert cavity is not None
        asked = Observations(self.replicates.take(inside), self.noise, rho, self.spread)
        return float((asked.tilted(cavity).log_normalizer - asked.cavities(cavity).log_normalizer).sum())
