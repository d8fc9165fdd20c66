"""Do chains agree, and how many independent draws are they worth? On cosines and sines, for angles wrap.

R-hat compares the variance between halves of chains with that within (Gelman et al. 2013, split R-hat). The effective
sample size sums autocorrelations up to Geyer's first negative pair.
"""

from __future__ import annotations

import numpy as np
from scipy import fft, stats

from mgvm._validation import FloatArray


def r_hat(samples: FloatArray) -> FloatArray:
    """Split R-hat of every angle, the larger of its cosine's and sine's; samples (chains, draws, D).

    NaN with fewer than four draws, whose halves have no variance.
    """
    if samples.shape[1] < 4:
        return np.full(samples.shape[2], np.nan)
    return np.maximum(*(_r_hat(wave(samples)) for wave in (np.cos, np.sin)))


def effective_sample_size(samples: FloatArray) -> FloatArray:
    """Effective sample size of every angle, the smaller of its cosine's and sine's; samples (chains, draws, D).

    NaN with fewer than four draws, whose halves have no variance.
    """
    if samples.shape[1] < 4:
        return np.full(samples.shape[2], np.nan)
    return np.minimum(*(_effective_sample_size(wave(samples)) for wave in (np.cos, np.sin)))


def disagreement(samples: FloatArray) -> tuple[float, str]:
    """The largest R-hat among angles, their differences from the first and their sums with it, and whose it is.

    Modes that differ only in how angles stand to each other show in differences and sums alone.
    """
    worst, name = 0.0, ""
    for offset, text in (
        (0.0, "angle {}"),
        (-1.0, "the difference of angles {} and 0"),
        (1.0, "the sum of angles {} and 0"),
    ):
        if offset and samples.shape[2] == 1:
            break
        found = r_hat(samples + offset * samples[:, :, :1] if offset else samples)
        found = found[1:] if offset else found
        place = int(np.argmax(found))
        if found[place] > worst:
            worst, name = float(found[place]), text.format(place + (1 if offset else 0))
    return worst, name


def largest_by_chance(samples: FloatArray, agree: float) -> float:
    """R-hat up to which chains may be said to agree: `agree`, or what halves of few draws reach by chance.

    With n independent draws in each of m halves R-hat² - 1 is about χ²_{m-1}/((m - 1) n), and six times as many numbers
    as angles are looked at.
    """
    degrees, draws = 2 * samples.shape[0] - 1, samples.shape[1] // 2
    by_chance = stats.chi2.isf(1e-3 / (6 * samples.shape[2]), degrees) / (degrees * draws)
    return max(agree, float(np.sqrt(1.0 + by_chance)))


def _split(values: FloatArray) -> FloatArray:
    """The halves of every chain as chains of their own."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _r_hat(values: FloatArray) -> FloatArray:
    """Split R-hat of real values (chains, draws, D)."""
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
    """Effective sample size of real values (chains, draws, D)."""
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
