"""A non-parametric prior of the latent angles: von Mises kernels of one width at the angles of training rows.

Kernels at the estimated angles would widen the prior by the errors of the estimates. EM takes that back: it moves the
kernels and their weights to where the rows have the highest likelihood, all else fixed. The width is the one under
which rows that were left out, two blocks of neighbours, are likeliest. Kernels are narrow: all is in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.pca.e_step import Distribution, Engine, Parameters, likelihood, narrow, narrowest_scale, patterns
from mgvm.pca.priors import Prior, fitted, von_mises, with_background

_LEAST = 20.0  # concentration
_WIDTHS = (1.0, 2.0, 4.0, 8.0)  # concentrations, in units of the least at which kernels are narrow for the data
_STEPS = 30
_FOLDS = 5  # of which every other one is left out


def left_out(count: int) -> np.ndarray:
    """Rows of two blocks, two fifths of all; none of very few rows."""
    fold = np.arange(count) * _FOLDS // max(count, 1)
    return np.asarray((fold % 2 == 1) & (count >= 2 * _FOLDS))


class Evidence(NamedTuple):
    """What rows say of their angles: distributions of rows that lack the same entries, and log ∫ under a uniform prior."""

    dist: Distribution
    uniform: FloatArray


def evidence(Y: FloatArray, parameters: Parameters, engine: Engine) -> list[Evidence]:
    """Of all rows."""
    out = []
    for rows, seen in patterns(Y):
        dist = likelihood(Y[rows][:, seen], parameters, seen)[1]
        found = engine(dist, np.full((len(rows), parameters.size), np.nan))
        out.append(Evidence(dist, found.log_normalizer - parameters.size * np.log(2.0 * np.pi)))
    return out


def weighed(part: Evidence, prior: Prior, background: float) -> tuple[FloatArray, FloatArray, ComplexArray]:
    """Log-likelihood of the rows but for a constant of each, and shares and Σ share E[e^{iφ}] of the kernels."""
    found = narrow(part.dist.linear, part.dist.coupling, prior)
    logs = found.log_weights + np.log1p(-background)
    rest = part.uniform + np.log(background) if background else np.full(len(logs), -np.inf)
    top = np.maximum(logs.max(axis=1), rest)
    shares = np.exp(logs - top[:, None])
    total = shares.sum(axis=1) + np.exp(rest - top)
    shares /= total[:, None]
    summed = shares.sum(axis=0)
    sums = summed[:, None] * found.offset + np.einsum("kpq,kq->kp", found.gain, shares.T @ part.dist.linear)
    size = prior.size
    return top + np.log(total), summed, sums[:, :size] + 1j * sums[:, size:]


def refined(parts: list[Evidence], prior: Prior, background: float, steps: int = _STEPS) -> Prior:
    """EM over the weights and places of the kernels."""
    for _ in range(steps):
        found = [weighed(part, prior, background) for part in parts]
        prior = fitted(np.sum([one[1] for one in found], axis=0), np.sum([one[2] for one in found], axis=0), prior)
    return prior


def kernel_prior(
    Y: FloatArray, parameters: Parameters, engine: Engine, modes: FloatArray, count: int, background: float
) -> Prior:
    """Kernels at the angles `modes` (n, D) of at most `count` rows, their width chosen, refined, and a background."""
    apart = left_out(len(Y))
    learn = evidence(Y[~apart], parameters, engine)
    check = evidence(Y[apart], parameters, engine) if apart.any() else learn
    whole = likelihood(np.zeros((1, Y.shape[1])), parameters, np.arange(Y.shape[1]))[1].coupling
    least = max(_LEAST, narrowest_scale(whole))
    scores = []
    for width in _WIDTHS:
        prior = refined(learn, _placed(modes[~apart], count, width * least), background)
        scores.append(sum(float(weighed(part, prior, background)[0].sum()) for part in check))
    best = _placed(modes, count, _WIDTHS[int(np.argmax(scores))] * least)
    prior = refined(evidence(Y, parameters, engine), best, background)
    return with_background(prior, background) if background else prior


def mixture_prior(
    Y: FloatArray, parameters: Parameters, engine: Engine, modes: FloatArray, count: int, background: float
) -> Prior:
    """A mixture with widths of its own, `count` components, to begin EM with: the kernels', refined as if normal."""
    whole = likelihood(np.zeros((1, Y.shape[1])), parameters, np.arange(Y.shape[1]))[1].coupling
    start = _placed(modes, count, max(_LEAST, narrowest_scale(whole)))._replace(kernel=False)
    prior = refined(evidence(Y, parameters, engine), start, background)
    return with_background(prior, background) if background else prior


def _placed(modes: FloatArray, count: int, kappa: float) -> Prior:
    """Equal kernels at evenly spaced rows."""
    used = np.unique(np.linspace(0, len(modes) - 1, min(count, len(modes))).astype(int))
    return von_mises(np.full(used.size, 1.0 / used.size), kappa * np.exp(1j * modes[used]))._replace(kernel=True)
