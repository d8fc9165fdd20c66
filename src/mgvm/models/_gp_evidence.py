"""log p(y) of circular regression on the free plane, where the prior needs no normaliser of its own."""

from __future__ import annotations

import numpy as np

from mgvm.models._circular_regressor import Merged
from mgvm.models._gp_dense import DensePropagation
from mgvm.models._gp_gradient import evidence
from mgvm.models._gp_noise import Noise
from mgvm.models._gp_tilted import Observations
from mgvm.models._gp_tuning import Tuned, inverse


def log_evidence(together: Merged, tuned: Tuned, noise: Noise) -> float:
    """EP's log Z at learnt hyper-parameters."""
    observations = Observations(together.groups, noise, tuned.rho, np.inf)
    problem = DensePropagation(inverse(tuned.prior.covariance(together.inputs)), observations)
    return evidence(problem, tuned.state).value
