"""Gaussian posteriors of planar vectors on a line by whole matrices, all first coordinates before all second."""

import numpy as np


def precision(covariance, sites):
    """Of prior times sites exp(hᵀx - ½xᵀSx), (2N, 2N); `sites` (N, 5) are coefficients of (x₁, x₂, x₁², x₁x₂, x₂²)."""
    one, cross, two = (np.diag(part) for part in (-2.0 * sites[:, 2], -sites[:, 3], -2.0 * sites[:, 4]))
    return np.kron(np.eye(2), np.linalg.inv(covariance)) + np.block([[one, cross], [cross, two]])


def moments(covariance, sites):
    """E[(x₁, x₂, x₁², x₁x₂, x₂²)] of every input, (N, 5)."""
    size = len(sites)
    spread = np.linalg.inv(precision(covariance, sites))
    mean = spread @ sites[:, :2].T.ravel()
    second = spread + np.outer(mean, mean)
    squares = [
        np.diag(second[a * size : (a + 1) * size, b * size : (b + 1) * size]) for a, b in ((0, 0), (0, 1), (1, 1))
    ]
    return np.column_stack([mean[:size], mean[size:], *squares])
