"""Joint priors of the latent angles: von Mises kernels of one width at the angles of training rows, or a mixture.

Kernels at the estimated angles would widen the prior by the errors of the estimates. EM takes that back: it moves the
kernels and their weights to where the rows have the highest likelihood, all else fixed. The width is the one under
which rows that were left out, two blocks of neighbours, are likeliest. Kernels are narrow: all is in closed form.
A mixture begins in the same way, with fewer components that have widths of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._grids import log_sum_exp
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.rows import group_by_missing
from mgvm.pca.e_step import (
    Engine,
    Parameters,
    QuadraticForms,
    gaussian_concentration,
    gaussian_posteriors,
    likelihood,
)
from mgvm.pca.priors import Prior, fit_prior, von_mises, with_background


def hold_out_blocks(count: int) -> np.ndarray:
    """Which rows to hold out (count,): the second and fourth fifth, two blocks; none of fewer than ten rows.

    Blocks rather than single rows: frames of a film resemble their neighbours, and a prior that has only learnt to
    repeat them would win.
    """
    fifth = np.arange(count) * 5 // max(count, 1)
    return np.asarray((fifth % 2 == 1) & (count >= 10))


class Evidence(NamedTuple):
    """What rows that lack the same entries say of their angles: densities, and log ∫ of them under a uniform prior."""

    forms: QuadraticForms
    uniform: FloatArray


class WeighedRows(NamedTuple):
    """Log-likelihood of rows (n,) but for a constant of each; shares (K,) and Σ share E[e^{iφ}] (K, D) of kernels."""

    log_likelihood: FloatArray
    shares: FloatArray
    sums: ComplexArray


def collect_evidence(Y: FloatArray, parameters: Parameters, engine: Engine) -> list[Evidence]:
    """What all rows say of their angles, by what they lack."""
    out = []
    for rows, _, seen in group_by_missing(Y):
        forms = likelihood(Y[rows][:, seen], parameters, seen)[1]
        found = engine(forms, np.full((len(rows), parameters.size), np.nan))
        out.append(Evidence(forms, found.log_normalizer - parameters.size * np.log(2.0 * np.pi)))
    return out


def weigh_rows(part: Evidence, prior: Prior, background: float) -> WeighedRows:
    """Rows under kernels and a background."""
    found = gaussian_posteriors(part.forms.linear, part.forms.coupling, prior)
    logs = found.log_weights + np.log1p(-background)
    rest = part.uniform + np.log(background) if background else np.full(len(logs), -np.inf)
    total = np.logaddexp(log_sum_exp(logs, axis=1), rest)
    shares = np.exp(logs - total[:, None])
    return WeighedRows(total, shares.sum(axis=0), found.sums(part.forms.linear, shares))


def refine(parts: list[Evidence], prior: Prior, background: float, n_iter: int = 30) -> Prior:
    """EM over the weights and places of the kernels."""
    for _ in range(n_iter):
        found = [weigh_rows(part, prior, background) for part in parts]
        shares, sums = np.sum([one.shares for one in found], axis=0), np.sum([one.sums for one in found], axis=0)
        prior = fit_prior(shares, sums, prior)
    return prior


def kernel_prior(
    Y: FloatArray, parameters: Parameters, engine: Engine, modes: FloatArray, count: int, background: float
) -> Prior:
    """Kernels at the angles `modes` (n, D) of at most `count` rows, their width chosen, refined, and a background."""
    held = hold_out_blocks(len(Y))
    learn = collect_evidence(Y[~held], parameters, engine)
    test = collect_evidence(Y[held], parameters, engine) if held.any() else learn

    def score(kappa: float) -> float:
        prior = refine(learn, _place_kernels(modes[~held], count, kappa), background)
        return sum(float(weigh_rows(part, prior, background).log_likelihood.sum()) for part in test)

    best = max(_least_concentration(parameters) * np.array([1.0, 2.0, 4.0, 8.0]), key=score)
    prior = refine(collect_evidence(Y, parameters, engine), _place_kernels(modes, count, best), background)
    return with_background(prior, background) if background else prior


def mixture_prior(
    Y: FloatArray, parameters: Parameters, engine: Engine, modes: FloatArray, count: int, background: float
) -> Prior:
    """A mixture with widths of its own, `count` components, to begin EM with: kernels, refined as if Gaussian."""
    start = _place_kernels(modes, count, _least_concentration(parameters))._replace(kernel=False)
    prior = refine(collect_evidence(Y, parameters, engine), start, background)
    return with_background(prior, background) if background else prior


def _least_concentration(parameters: Parameters) -> float:
    """The least concentration at which kernels are Gaussian for complete rows."""
    columns = len(parameters.weights)
    return gaussian_concentration(likelihood(np.zeros((1, columns)), parameters, np.arange(columns))[1].coupling)


def _place_kernels(modes: FloatArray, count: int, kappa: float) -> Prior:
    """Equal kernels at evenly spaced rows."""
    used = np.unique(np.linspace(0, len(modes) - 1, min(count, len(modes))).astype(int))
    return von_mises(np.full(used.size, 1.0 / used.size), kappa * np.exp(1j * modes[used]))._replace(kernel=True)
