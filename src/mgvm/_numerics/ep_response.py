"""How the marginals of a Gaussian answer to a change of all its sites."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mgvm._numerics.compiler import entry

FloatArray = NDArray[np.float64]


@entry(fastmath={"contract", "reassoc", "nsz"})
def moment_response(covariance: FloatArray, mean: FloatArray, change: FloatArray) -> FloatArray:
    """dE[T] (N, 5) for natural parameters of the sites changed by `change` (N, 5), T = (x₁, x₂, x₁², x₁x₂, x₂²).

    With dΛ, dh the changes of precision and linear term, d mean = Σ(dh - dΛ mean) and dΣ_nn = -Σ_j Σ_nj dΛ_j Σ_jn;
    covariance (2N, 2N) has all first coordinates before all second. It is the covariance of T_n and T_j applied to the
    change, a symmetric matrix.
    """
    size = mean.shape[0]
    out, pull = np.empty((size, 5)), np.empty((5, size))
    for j in range(size):
        one, both, two = -2.0 * change[j, 2], -change[j, 3], -2.0 * change[j, 4]
        pull[0, j] = change[j, 0] - one * mean[j, 0] - both * mean[j, 1]
        pull[1, j] = change[j, 1] - both * mean[j, 0] - two * mean[j, 1]
        pull[2, j], pull[3, j], pull[4, j] = one, both, two
    for n in range(size):
        first = second = square = product = other = 0.0
        for j in range(size):
            a, b = covariance[n, j], covariance[n, size + j]
            c, d = covariance[size + n, j], covariance[size + n, size + j]
            one, both, two = pull[2, j], pull[3, j], pull[4, j]
            first += a * pull[0, j] + b * pull[1, j]
            second += c * pull[0, j] + d * pull[1, j]
            left, right = a * one + b * both, a * both + b * two
            square += left * a + right * b
            product += left * c + right * d
            other += (c * one + d * both) * c + (c * both + d * two) * d
        out[n, 0], out[n, 1] = first, second
        out[n, 2] = -square + 2.0 * mean[n, 0] * first
        out[n, 3] = -product + mean[n, 0] * second + mean[n, 1] * first
        out[n, 4] = -other + 2.0 * mean[n, 1] * second
    return out
