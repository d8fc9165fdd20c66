"""Claim: the harmonic process learns from a thousand rows in seconds, and from a hundred thousand in minutes.

CPU seconds of a fit with everything learnt, at 200, 1,000 and 10,000 rows, beside scikit-learn's Gaussian process on
(cos, sin) with the same two kernels, which is left out where it would take hours, a forest and kernels with their
defaults: 1,000 rows of six columns within 10, 10,000 rows of twelve within 60. Then 10,000 to 100,000 rows: seconds of
the fit and of 100,000 predictions, and the memory of the process, which is linear in rows. `--fits` and `--large` make
one of the two tables alone.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from threadpoolctl import threadpool_limits
from timing import table, verdict

from mgvm import HarmonicGPRegressor, datasets
from mgvm.regression.baselines import ForestCircularRegressor, KernelCircularRegressor
from mgvm.regression.prior import default_kernels

TOO_MANY = 1_500  # rows beyond which the kernel matrix and its gradients take gigabytes
LIMITS = {("JFK", 1_000): 10, ("simulated", 10_000): 60}  # CPU seconds


class PlanarGP:
    """scikit-learn's regression of cos and sin, with the better of the two kernels."""

    def fit(self, X, y):
        """Learn both."""
        targets = np.column_stack([np.cos(y), np.sin(y)])
        fits = [GaussianProcessRegressor(kernel + WhiteKernel(0.1)).fit(X, targets) for kernel in default_kernels(X)]
        self.model_ = max(fits, key=lambda model: model.log_marginal_likelihood_value_)
        return self


MODELS = {
    "harmonic": HarmonicGPRegressor,
    "scikit-learn's GP": PlanarGP,
    "forest": ForestCircularRegressor,
    "kernel": KernelCircularRegressor,
}


def simulate(rows, columns=12, seed=0):
    """A direction that follows two columns, a spread that follows a third."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, rng.vonmises(2.0 * np.arctan(X[:, 0]) + X[:, 1], np.exp(1.5 + X[:, 2]))


def kennedy(rows, seed=0):
    """Wind at JFK, from directions at two other airports and the hour: six columns."""
    wind = datasets.load_wind_nyc()
    hour = 2.0 * np.pi * ((wind.time - wind.time[0]) / np.timedelta64(1, "D"))
    others = np.column_stack([wind.angles[:, [0, 2]], hour])
    X, y = np.column_stack([np.cos(others), np.sin(others)]), wind.angles[:, 1]
    known = np.flatnonzero(np.isfinite(X).all(axis=1) & np.isfinite(y))
    which = np.random.default_rng(seed).choice(known, rows, replace=False)
    return X[which], y[which]


def time_fits():
    """CPU seconds of a fit of each model, one run each."""
    for name, make, sizes in (("JFK", kennedy, (200, 1_000)), ("simulated", simulate, (200, 1_000, 10_000))):
        for rows in sizes:
            X, y = make(rows)
            seconds = {
                model: "-" if model.startswith("scikit") and rows > TOO_MANY else elapsed(made().fit, X, y)
                for model, made in MODELS.items()
            }
            limit = LIMITS.get((name, rows))
            judged = verdict(seconds["harmonic"], limit) if limit else ""
            yield [f"{name}, {rows:,} × {X.shape[1]}", *seconds.values(), judged]


def time_large():
    """Fits and predictions of more and more rows, and the most memory that the process has had."""
    queries, _ = simulate(100_000, seed=1)
    for rows in (10_000, 100_000):
        X, y = simulate(rows)
        model = HarmonicGPRegressor()
        fitting = elapsed(model.fit, X, y)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        yield [rows, fitting, elapsed(model.predict, queries), round(memory)]


def elapsed(function, *arguments):
    """CPU seconds of one call."""
    begin = time.process_time()
    function(*arguments)
    return time.process_time() - begin


def main(arguments):
    warnings.simplefilter("ignore")  # scikit-learn's, at bounds
    for model in MODELS.values():
        model().fit(*simulate(40))  # compiles
    if "--large" not in arguments:
        title = "A fit as it comes, CPU seconds"
        table(title, ["data, rows × columns", *MODELS, "target"], list(time_fits()), "harmonic/fits")
    if "--fits" not in arguments:
        title = "Many rows of twelve columns, CPU seconds"
        header = ["rows", "fit", "100,000 predictions", "peak memory, MB"]
        table(title, header, list(time_large()), "harmonic/large")


if __name__ == "__main__":
    with threadpool_limits(1):
        main(sys.argv[1:])
