"""The share of the background of a joint prior, as rows ask for it: new rows may move unlike those learnt from."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mgvm._validation import FloatArray
from mgvm.models import _pca_prior
from mgvm.models._pca_input import checked
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_reader import Reader
from mgvm.models._pca_rows import CHUNK, chunks

_WORTH = 20.0  # rows that the share to begin with counts for
_STEPS = 200
_TINY = 1e-300


class WithBackground:
    """What a fitted CircularPCA with a background can do besides."""

    _parameters: Parameters
    _engine: Any

    def adapted(self, X: ArrayLike) -> Self:
        """A copy with the share ε of background that maximises Σ log((1-ε)p(y) + ε p₀(y)) over rows X.

        p is the likelihood of a row under the angles' prior as learnt, p₀ under a uniform one. Where new rows go
        through angles that were never seen, ``model.adapted(X).denoise(X)`` trusts the links alone; where they are
        like those learnt from, the prior. The old share counts as much as 20 rows.
        """
        check_is_fitted(self)
        prior = self._parameters.prior
        if len(prior.linear) < 2 or prior.linear[-1].any():
            raise ValueError("adapted() needs a background to adapt; fit with prior='mixture' and background > 0")
        old = float(_pca_prior.weights_of(prior)[-1])
        reader = Reader(self._parameters, self._engine)
        shares = [reader.moments(part).shares for part in chunks(np.asarray(checked(self, X)), CHUNK)]
        odds = np.concatenate([_log_odds(one) for one in shares]) - np.log(old / (1.0 - old))
        new = _share(odds, old)
        learnt = _pca_prior.of_components(prior, np.arange(len(prior.linear) - 1))
        out = copy.copy(self)
        out._parameters = self._parameters._replace(prior=_pca_prior.with_background(learnt, new))
        out.prior_weights_ = _pca_prior.weights_of(out._parameters.prior)  # type: ignore[attr-defined]
        return out


def _log_odds(shares: FloatArray) -> FloatArray:
    """log of the share of the last component over that of all others."""
    return np.asarray(np.log(np.maximum(shares[:, -1], _TINY)) - np.log(np.maximum(shares[:, :-1].sum(axis=1), _TINY)))


def _share(odds: FloatArray, old: float) -> float:
    """EM for the weight of the second of two laws, from log p₀(y)/p(y) of every row."""
    share = old
    for _ in range(_STEPS):
        exponent = np.clip(odds + np.log(share / (1.0 - share)), -700.0, 700.0)
        new = float((np.sum(1.0 / (1.0 + np.exp(-exponent))) + _WORTH * old) / (len(odds) + _WORTH))
        if abs(new - share) < 1e-6:
            break
        share = new
    return share
