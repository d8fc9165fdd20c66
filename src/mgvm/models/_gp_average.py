"""Averaging over hyper-parameters where few data leave them open: importance sampling around the optimum.

The objective f (log leave-one-out density plus log prior) is treated as a log posterior. Points v = v̂ + Lz with
LLᵀ = (-f'')⁻¹ and z from a fixed low-discrepancy normal set weigh exp(f(v) + ½|z|²/s²); the predictive density is the
weighted mean. The best point alone is too sure of itself.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, qmc

from mgvm._validation import FloatArray
from mgvm.models._gp_tuning import Tuned, Tuning

FEW = 60  # inputs up to which averaging is the default
_POINTS = 16
_WIDER = 1.2  # than the Gaussian approximation, whose tails are too thin
_STEP = 0.05
_NEGLIGIBLE = 1e-4


def averaged(tuning: Tuning, best: Tuned) -> tuple[float, list[tuple[float, Tuned]]]:
    """The logarithm of the mass of a candidate, and its fits with their weights, the best point first.

    The mass is ∫ exp f over the hyper-parameters by importance sampling, less that of their prior: candidates of kernel
    and noise are weighed by it against each other.
    """
    centre = np.concatenate([best.prior.theta, best.rho])
    spread = _spread(tuning, centre)
    normal = _WIDER * norm.ppf(qmc.Sobol(centre.size, scramble=True, rng=0).random(_POINTS))
    lower, upper = tuning.bounds.T
    fits, logs = [best], [best.objective]
    scale = _WIDER * tuning.prior_precision**0.5
    volume = float(np.log(np.abs(np.linalg.det(scale * spread))))
    for z in normal:
        found, _ = tuning.solve(np.clip(centre + spread @ z, lower, upper), 1e-6)
        if found.converged:
            fits.append(found)
            logs.append(found.objective + 0.5 * float(z @ z) / _WIDER**2)
    weights = np.exp(np.array(logs) - max(logs))
    mass = max(logs) + float(np.log(weights.mean())) + volume
    weights /= weights.sum()
    return mass, [(float(w), fit) for w, fit in zip(weights, fits, strict=True) if w > _NEGLIGIBLE]


def _spread(tuning: Tuning, centre: FloatArray) -> FloatArray:
    """L with LLᵀ the inverse of the negative Hessian, its eigenvalues at least those of the prior."""
    size = centre.size
    hessian = np.empty((size, size))
    for i in range(size):
        step = np.zeros(size)
        step[i] = _STEP
        ahead, behind = (tuning.solve(centre + sign * step, 1e-6)[1] for sign in (1.0, -1.0))
        hessian[i] = (ahead - behind) / (2.0 * _STEP)
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    return np.asarray(vectors / np.sqrt(np.maximum(values, tuning.prior_precision)))
