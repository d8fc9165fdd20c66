"""Expectation propagation: the cost of a sweep against the linear algebra it needs, and accuracy against exact chains.

Run: python benchmarks/bench_expectation_propagation.py [angles, default 2000]
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from scipy.linalg import lapack
from timing import table, verdict

from mgvm.inference._exact_chain import exact_chain
from mgvm.inference._expectation_propagation import expectation_propagation, from_covariance
from mgvm.inference._mean_field import mean_field
from mgvm.inference._parallel_updates import Approximation, Workspace, evaluate, step_sites
from mgvm.natural.parameters import Natural

REPEATS = 5


def kernel(size, length, variance, nugget=1e-3):
    """Squared-exponential kernel on unit-spaced inputs."""
    place = np.arange(size)
    return variance * (np.exp(-0.5 * ((place[:, None] - place) / length) ** 2) + nugget * np.eye(size))


def sweep_times(size):
    """Wall seconds of one sweep, and of one factorisation with full inverse, smallest of interleaved repeats."""
    sites = 3.0 * np.exp(1j * np.random.default_rng(0).normal(np.sin(np.arange(size) / 10.0), 0.5)[:, None])
    workspace = Workspace(from_covariance(kernel(size, 5.0, 0.5), sites))
    start = evaluate(workspace, Approximation(np.zeros((size, 2, 2)), np.zeros((size, 2))))
    state = evaluate(workspace, step_sites(start, 1.0))
    full = np.zeros((2 * size, 2 * size), order="F")
    best = {"sweep": np.inf, "algebra": np.inf}
    for _ in range(REPEATS):
        begin = time.perf_counter()
        following = evaluate(workspace, step_sites(state, 1.0))
        best["sweep"] = min(best["sweep"], time.perf_counter() - begin)
        assert following is not None, "the sweep timed must be a whole one"
        workspace._fill(state.sites.precision)
        full[...] = workspace.array
        begin = time.perf_counter()
        factor = lapack.dpotrf(full, lower=1, clean=0, overwrite_a=1)[0]
        lapack.dpotri(factor, lower=1, overwrite_c=1)
        best["algebra"] = min(best["algebra"], time.perf_counter() - begin)
    return best


def chain(size, length, variance, concentration, share, seed=0):
    """Angles on a line under an exponential kernel, whose inverse is tridiagonal, some of them seen with noise."""
    rng = np.random.default_rng(seed)
    place = np.arange(size)
    covariance = variance * np.exp(-np.abs(place[:, None] - place) / length)
    path = np.linalg.cholesky(covariance) @ rng.standard_normal((size, 2))
    seen = np.arctan2(path[:, 1], path[:, 0]) + rng.vonmises(0.0, concentration, size)
    precision = np.linalg.inv(covariance)
    P = -np.triu(np.tril(precision, 1), -1).astype(complex)
    np.fill_diagonal(P, 0.0)
    a = concentration * np.exp(1j * seen) * (rng.random(size) < share)
    return Natural(a, np.zeros((1, size), complex), P, np.zeros((size, size), complex))


def distance(first, second, points=512):
    """Total variation of two batches of distributions."""
    angles = -np.pi + 2.0 * np.pi / points * np.arange(points)
    gap = np.abs(first[:, None].pdf(angles) - second[:, None].pdf(angles))
    return gap.sum(axis=1) * np.pi / points


def accuracy_row(size, length, variance, concentration, share):
    """Total variation and log Z errors of EP and of mean field on one chain."""
    dist = chain(size, length, variance, concentration, share)
    truth = exact_chain(dist)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, field = expectation_propagation(dist), mean_field(dist)
    gap = distance(result.marginals, truth.marginals)
    return [
        f"length {length}, variance {variance}, concentration {concentration}, seen {share:.0%}",
        str(result.trace.size - 1),
        gap.mean(),
        gap.max(),
        distance(field.marginals, truth.marginals).mean(),
        (result.log_normalizer - truth.log_normalizer) / size,
    ]


def main():
    """Print both tables."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    best = sweep_times(size)
    ratio = best["sweep"] / best["algebra"]
    table(
        f"One sweep, N = {size}",
        ["seconds a sweep", "factorise and invert", "ratio", "target"],
        [[best["sweep"], best["algebra"], ratio, verdict(ratio, 2.0)]],
        "expectation_propagation/sweep",
    )
    cases = [
        (2, 0.5, 5, 1.0),
        (2, 3.0, 1, 1.0),
        (2, 0.5, 1, 0.5),
        (10, 3.0, 1, 1.0),
        (10, 0.5, 5, 1.0),
        (10, 0.5, 1, 1.0),
    ]
    table(
        "Marginals of chains of 200 angles against exact messages",
        ["chain", "sweeps", "EP mean TV", "EP largest TV", "mean field mean TV", "EP log Z error an angle"],
        [accuracy_row(200, *case) for case in cases],
        "expectation_propagation/accuracy",
    )


if __name__ == "__main__":
    main()
