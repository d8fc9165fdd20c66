"""Do chains agree, and how many independent draws are they worth? On cosines and sines, for angles wrap.

R-hat compares the variance between halves of chains with that within (Gelman et al. 2013, split R-hat). The effective
sample size sums autocorrelations up to Geyer's first negative pair.
"""

from __future__ import annotations

import numpy as np
from scipy import fft

from mgvm._validation import FloatArray


def r_hat(samples: FloatArray) -> FloatArray:
    """Split R-hat of every angle, the larger of its cosine's and sine's; samples (chains, draws >= 4, D)."""
    return np.maximum(*(_r_hat(wave(samples)) for wave in (np.cos, np.sin)))


def effective_sample_size(samples: FloatArray) -> FloatArray:
    """Effective sample size of every angle, the smaller of its cosine's and sine's; samples (chains, draws, D)."""
    return np.minimum(*(_effective_sample_size(wave(samples)) for wave in (np.cos, np.sin)))


def _split(values: FloatArray) -> FloatArray:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _r_hat(values: FloatArray) -> FloatArray:
    parts = _split(values)
    within, between = _variances(parts)
    # Angles that never move have no variance to compare.
    ratio = np.divide(between, within, out=np.zeros_like(within), where=within > 0.0)
    draws = parts.shape[1]
    return np.where((within > 0.0) | (between == 0.0), np.sqrt((draws - 1.0) / draws + ratio), np.inf)


def _variances(parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean variance within parts, and variance of their means."""
    return parts.var(axis=1, ddof=1).mean(axis=0), parts.mean(axis=1).var(axis=0, ddof=1)


def _effective_sample_size(values: FloatArray) -> FloatArray:
    parts = _split(values)
    count, draws = parts.shape[:2]
    within, between = _variances(parts)
    total = (draws - 1.0) / draws * within + between
    centred = parts - parts.mean(axis=1, keepdims=True)
    size = fft.next_fast_len(2 * draws, real=True)
    power = np.abs(fft.rfft(centred, size, axis=1)) ** 2
    covariance = fft.irfft(power, size, axis=1)[:, :draws].mean(axis=0) / draws
    safe = np.where(total > 0.0, total, 1.0)
    correlation = 1.0 - (within - covariance * draws / (draws - 1.0)) / safe
    correlation[0] = 1.0
    pairs = correlation[: draws // 2 * 2].reshape(draws // 2, 2, -1).sum(axis=1)
    # Sums of neighbouring pairs are positive and fall for a reversible chain: keep them so up to the first that is not.
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    kept = np.where(positive, np.minimum.accumulate(pairs, axis=0), 0.0)
    time = np.maximum(2.0 * kept.sum(axis=0) - 1.0, 1.0 / np.log10(count * draws))
    return np.where(total > 0.0, count * draws / time, np.nan)
