"""Slow twins of the baselines' algebra: full covariance matrices, one refit for every input."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal


def log_evidence(kernel, noise, X, values):
    """Log density of all rows of all outputs, replicates as they are."""
    covariance = kernel(X) + noise * np.eye(len(X))
    return sum(multivariate_normal.logpdf(column, np.zeros(len(X)), covariance) for column in values.T)


def predict(kernel, noise, X, values, queries):
    """Means (M, P) and variances (M,) of new observations."""
    covariance = kernel(X) + noise * np.eye(len(X))
    cross = kernel(queries, X)
    gain = np.linalg.solve(covariance, cross.T).T
    return gain @ values, kernel.diag(queries) - (gain * cross).sum(axis=1) + noise


def left_out(fit, X, y):
    """Log density of every row under `fit(X, y)`, a distribution by queries, of all other rows."""
    out = np.empty(len(y))
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        out[row] = fit(X[others], y[others])(X[row : row + 1]).logpdf(y[row : row + 1])[0]
    return out


def simplex_weights(density, counts, steps=20_000):
    """Projected search for the weights of two columns on a fine line."""
    share = np.linspace(0.0, 1.0, steps + 1)[1:-1, None]
    value = (np.log(share * density[:, 0] + (1 - share) * density[:, 1]) * counts).sum(axis=1)
    value += 0.5 * np.log(share[:, 0]) + 0.5 * np.log1p(-share[:, 0])
    best = float(share[np.argmax(value), 0])
    return np.array([best, 1.0 - best])
