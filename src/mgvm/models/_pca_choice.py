"""Which prior of the latent angles serves rows that were not learnt from."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from mgvm._validation import FloatArray
from mgvm.models._pca_kernel import left_out

CANDIDATES = ("uniform", "von_mises", "kernel")
_MOST = 60  # EM iterations of a comparison


def chosen_prior(model: Any, Y: FloatArray) -> str:
    """The prior under which blocks of neighbouring rows, left out of the fit, are likeliest; the plainer one of equals.

    Blocks rather than single rows: frames of a film resemble their neighbours, and a prior that has only learnt to
    repeat them would win.
    """
    apart = left_out(len(Y))
    if not apart.any():
        return "von_mises"
    scores = {name: _score(model, name, Y[~apart], Y[apart]) for name in CANDIDATES}
    return max(CANDIDATES, key=lambda name: scores[name])


def _score(model: Any, name: str, learn: FloatArray, check: FloatArray) -> float:
    trial = clone(model).set_params(prior=name, method="point", verbose=0, max_iter=min(_MOST, int(model.max_iter)))
    with warnings.catch_warnings():
        # What the data lack is said once, by the fit that follows.
        warnings.simplefilter("ignore")
        return float(np.mean(trial.fit(learn).score_samples(check)))
