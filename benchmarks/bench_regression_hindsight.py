"""Claim: what 14 toy points cannot tell is their hyper-parameters, not the function.

The held-out log density of the toy function over a grid of hyper-parameters, the best of it chosen in hindsight, beside
what a fit to the points finds. No regression may choose like this; it shows what learning loses.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from timing import table

from mgvm import CircularGPRegressor
from mgvm.datasets import make_mexican_hat
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.noise import GvMNoise, Replicates
from mgvm.regression.prediction import convolve_noise
from mgvm.regression.prior import Prior

LENGTHS, VARIANCES, CONCENTRATIONS = (0.05, 0.08, 0.12, 0.2, 0.3, 0.5), (0.3, 0.5, 1.0, 2.0), (3.0, 6.0, 12.0, 25.0)
SCALES = {"soft": 1.0, "hard": 0.0}


def in_hindsight(toy, nu, name):
    """The best mean log density over the grid."""
    replicates = Replicates(toy.angles, np.ones(toy.x.size), np.arange(toy.x.size))
    scores = []
    for length, variance, kappa in itertools.product(LENGTHS, VARIANCES, CONCENTRATIONS):
        noise = GvMNoise(1, first=kappa)
        prior = Prior((ConstantKernel(variance) * Matern(length, nu=nu),))
        engine = DenseEngine(Problem(toy.x[:, None], replicates, prior, noise, SCALES[name]))
        fit = engine.posterior(engine.solve(np.concatenate([prior.theta, noise.start]), 1e-7))
        dist = convolve_noise(fit.predict(toy.grid[:, None]), noise, fit.rho)
        scores.append(float(np.mean(dist.logpdf(toy.truth))))
    return max(scores)


def main():
    toy = make_mexican_hat()
    rows = []
    for circle, nu in itertools.product(SCALES, (0.5, 1.5, np.inf)):
        kernel = ConstantKernel(0.5) * Matern(0.2, nu=nu)
        model = CircularGPRegressor(kernel, radial_scale=circle, inference="ep", random_state=0)
        learnt = model.fit(toy.x[:, None], toy.angles).score(toy.grid[:, None], toy.truth)
        name = {0.5: "Matérn-1/2", 1.5: "Matérn-3/2"}.get(nu, "squared exponential")
        rows.append([circle, name, f"{learnt:.2f}", f"{in_hindsight(toy, nu, circle):.2f}"])
    table("Toy: mean held-out log density", ["circle", "kernel", "learnt", "best in hindsight"], rows, "hindsight/toy")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
