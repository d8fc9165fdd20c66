"""Maximum likelihood for the wrapped normal law: Newton's method on (μ, log σ)."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle import _theta
from mgvm.circle._sample import Sample

_MAX_ROUNDS = 100
_LARGEST_STEP = 0.5  # of μ in units of σ, and of log σ
# A start this near the optimum (gain in log likelihood per angle) is exact after one more step: Newton squares errors.
_LAST_GAIN = 1e-11
_SMALLEST_RESULTANT = 1e-16


def maximum_likelihood(sample: Sample) -> tuple[float, float]:
    """μ and σ of highest likelihood."""
    mu, sigma = 0.0, float(np.sqrt(-2.0 * np.log1p(-min(sample.deficit, 1.0 - _SMALLEST_RESULTANT))))
    for part in (sample.coarse(), sample):
        mu, sigma = _climb(part.offset, part.share, mu, sigma)
    return float(wrap(sample.centre + mu)), sigma


def _climb(angles: FloatArray, share: FloatArray, mu: float, sigma: float) -> tuple[float, float]:
    """Newton's method with steps halved until the likelihood rises."""
    height = -np.inf
    shift = np.zeros(2)
    for _ in range(_MAX_ROUNDS):
        trial = mu + sigma * shift[0], sigma * np.exp(shift[1])
        offset = np.asarray(wrap(angles - trial[0]))
        trial_height = float(share @ _theta.log_density(offset, np.full(offset.shape, trial[1])))
        if trial_height < height - 1e-14 * abs(height):
            shift = 0.5 * shift
            continue
        (mu, sigma), height = trial, trial_height
        shift, gain = _newton_step(offset, share, sigma)
        if gain < _LAST_GAIN:
            return mu + sigma * shift[0], sigma * float(np.exp(shift[1]))
    return mu, sigma


def _newton_step(offset: FloatArray, share: FloatArray, sigma: float) -> tuple[FloatArray, float]:
    """Step in (μ/σ, log σ) and the gain it promises, from the current offsets."""
    one, two, three, four = _theta.hermite_ratios(offset, sigma)
    gradient = np.array([share @ one, share @ two])
    cross = share @ (three - one * two)
    hessian = np.array([[share @ (two - one**2), cross], [cross, share @ (2.0 * two + four - two**2)]])
    # Uphill along every eigenvector, also where the likelihood is not concave yet.
    curvature, axes = np.linalg.eigh(hessian)
    along = axes.T @ gradient
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.nan_to_num(along / np.abs(curvature), posinf=_LARGEST_STEP, neginf=-_LARGEST_STEP)
    step = axes @ (step * min(1.0, _LARGEST_STEP / max(float(np.abs(step).max()), 1e-300)))
    return step, 0.5 * float(gradient @ step)
