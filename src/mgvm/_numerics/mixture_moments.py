"""Means and second moments of mixtures of normal laws whose means are linear in what the rows say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.compiler import entry

FloatArray = NDArray[np.float64]
_SMALLEST = 1e-9  # share of a component in a row that counts


@entry(fastmath={"contract", "reassoc", "nsz"})
def mixture_moments(
    shares: FloatArray, linear: FloatArray, offset: FloatArray, gain: FloatArray, mean: FloatArray, second: FloatArray
) -> None:
    """Adds Σ_k r_nk μ_nk to mean (n, P), and Σ_k r_nk (K_k + μ_nk μ_nkᵀ), its lower triangle, to second.

    μ_nk = a_k + K_k h_n with shares r (n, K), linear h (n, P), offset a (K, P) and gain K (K, P, P).
    """
    rows, parts = shares.shape
    size = linear.shape[1]
    centre = np.empty(size)
    for n in range(rows):
        for k in range(parts):
            share = shares[n, k]
            if share < _SMALLEST:
                continue
            for i in range(size):
                total = offset[k, i]
                for j in range(size):
                    total += gain[k, i, j] * linear[n, j]
                centre[i] = total
            at = 0
            for i in range(size):
                mean[n, i] += share * centre[i]
                for j in range(i + 1):
                    second[n, at] += share * (gain[k, i, j] + centre[i] * centre[j])
                    at += 1
