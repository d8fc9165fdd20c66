"""Circular regression on data simulated from its own model: coverage of its predictions, recovery of its parameters.

Each data set draws a length scale, a variance and a noise concentration (log-normal about 0.3, 0.5 and 8, standard
deviations 0.4, 0.5 and 0.5), inputs in the unit interval or square, and a process on them and on 20 held-out inputs:
exactly for the free radial scale, by Hamiltonian trajectories for the soft circle, by Gibbs sampling for the hard one.
Noise of order 2 has coefficients of 0.5 and about 3. `CircularGPRegressor` gets the form of the kernel and learns the
rest from one start. On a soft or a hard circle, the process on more inputs restricted to fewer is not quite the process
on these, so that its pointwise predictions are off by that as well.

Coverage: share of held-out angles in the highest-density regions, with standard errors over data sets, of predictions
with hyper-parameters learnt and, beside them, with those that the data were simulated with: what the latter lack of
their mass is not the fault of learning. Recovery: share of truths within
the intervals of 50 % and 90 % of the approximate posterior that averages are taken over (normal, with its curvature).
Its prior is three times as wide as the truths are spread, so that what data tell little of is found too often rather
than too rarely. A run with 24 data sets a cell takes some ten CPU-minutes, most of them for averages at N = 60.
Run with --quick for a tenth of the data sets, or --sets for another number of them.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import timing
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from mgvm import CircularGPRegressor, GvM, MGvM, scores
from mgvm.inference import gibbs
from mgvm.regression.engines.base import Problem
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.noise import GvMNoise
from mgvm.regression.prediction import convolve_noise
from mgvm.regression.prior import Prior
from mgvm.regression.search import Descent, posterior_root

MASSES = np.arange(0.1, 0.96, 0.05).round(2)
SHOWN = [int(np.flatnonzero(mass == MASSES)[0]) for mass in (0.5, 0.9)]
HELD_OUT = 20
SCRIPT = "benchmarks/bench_regression_calibration.py"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "calibration.png"
LEAST = 0.85  # of the truths within intervals of 90 %


class Cell(NamedTuple):
    """A kind of data."""

    radius: str
    smoothness: float
    inputs: int
    columns: int = 1
    order: int = 1
    selection: str = "auto"

    def __str__(self) -> str:
        """How tables call it."""
        kernel = "Matérn-1/2" if self.smoothness == 0.5 else "Matérn-3/2"
        more = ", noise of order 2" if self.order == 2 else ""
        return f"{self.radius}, {kernel}, N = {self.inputs}, {self.columns}-D{more}"


CELLS = [
    *(Cell(radius, smoothness, 60) for radius in ("soft", "free", "hard") for smoothness in (0.5, 1.5)),
    Cell("soft", 0.5, 60, columns=2),
    Cell("soft", 1.5, 60, columns=2),
    Cell("free", 1.5, 60, columns=2),
    Cell("hard", 0.5, 60, columns=2),
    Cell("soft", 0.5, 60, order=2),
    Cell("soft", 1.5, 60, columns=2, order=2),
    Cell("soft", 0.5, 200),
    Cell("soft", 1.5, 200, columns=2),
    Cell("free", 0.5, 200),
    Cell("hard", 1.5, 200),
]
BY_EVIDENCE = Cell("free", 0.5, 60, selection="evidence")


# ---- simulation -----------------------------------------------------------------------------------------------------


def soft_vectors(covariance, rng, trajectories=30, steps=20, size=0.1):
    """Planar vectors (n, 2) of density N(0, covariance) Π exp(-(|x| - 1)²/2): Hamiltonian trajectories of x = Lz."""
    lower = np.linalg.cholesky(covariance)

    def energy(z):
        x = lower @ z
        radius = np.hypot(*x.T)
        return 0.5 * (z**2).sum() + 0.5 * ((radius - 1.0) ** 2).sum(), z + lower.T @ ((1.0 - 1.0 / radius)[:, None] * x)

    z = rng.standard_normal((len(lower), 2))
    here, slope = energy(z)
    for _ in range(trajectories):
        momentum = rng.standard_normal(z.shape)
        before = here + 0.5 * (momentum**2).sum()
        step, there, steep = size * rng.uniform(0.7, 1.3), z, slope
        for _ in range(steps):
            momentum = momentum - 0.5 * step * steep
            there = there + step * momentum
            value, steep = energy(there)
            momentum = momentum - 0.5 * step * steep
        if np.log(rng.uniform()) < before - value - 0.5 * (momentum**2).sum():
            z, here, slope = there, value, steep
    return lower @ z


def latent_angles(covariance, radius, rng):
    """One draw of the latent directions from the prior."""
    size = len(covariance)
    if radius == "hard":
        dist = MGvM.from_precision(np.zeros(size), np.zeros(size), np.kron(np.eye(2), np.linalg.inv(covariance)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a single draw cannot show that chains agree
            return gibbs(dist, 1, n_chains=1, burn_in=400, rng=rng).samples.reshape(-1, size)[-1]
    if radius == "free":
        x = np.linalg.cholesky(covariance) @ rng.standard_normal((size, 2))
    else:
        x = soft_vectors(covariance, rng)
    return np.arctan2(x[:, 1], x[:, 0])


def simulated(cell, rng):
    """X and y to learn from, the same held out, and the truth: log variance and length scale, arsinh η of the noise."""
    count = cell.inputs + HELD_OUT
    X = rng.uniform(size=(count, cell.columns))
    length, variance, scale = np.array([0.3, 0.5, 1.0]) * np.exp(rng.normal(0.0, [0.4, 0.5, 0.5]))
    covariance = variance * (Matern(length, nu=cell.smoothness)(X) + 1e-3 * np.eye(count))
    eta = np.array([8.0 * scale]) if cell.order == 1 else np.array([0.5, 3.0 * scale])
    y = latent_angles(covariance, cell.radius, rng) + GvM(eta.astype(complex)).sample(count, rng=rng)
    here = slice(0, cell.inputs), slice(cell.inputs, count)
    return [(X[part], y[part]) for part in here], np.concatenate([np.log([variance, length]), np.arcsinh(eta)])


# ---- measurement ----------------------------------------------------------------------------------------------------


def kernel_of(cell):
    """Where every search begins."""
    return ConstantKernel(0.5) * Matern(0.2, nu=cell.smoothness)


def fitted(cell, X, y):
    """The regressor, with hyper-parameters learnt from one start."""
    options = {"noise_order": cell.order, "radial_scale": cell.radius, "inference": "ep", "selection": cell.selection}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the few fits that did not converge; they count as they are
        return CircularGPRegressor(kernel_of(cell), n_starts=1, **options).fit(X, y)


def distances(model, cell, truth):
    """(estimate - truth) and the same in standard deviations of the approximate posterior."""
    best, merged = model._posteriors[0][1], model._merged
    criterion = "loo" if cell.selection == "auto" else cell.selection
    prior = Prior((kernel_of(cell),), "shared")
    problem = Problem(merged.inputs, merged.replicates, prior, model._noise, model.radial_scale_, criterion)
    centre = np.concatenate([best.prior.theta, best.rho])
    root = posterior_root(Descent(DenseEngine(problem)), centre)
    return centre - truth, (centre - truth) / np.sqrt((root**2).sum(axis=1))


def predict_known(model, cell, X_new, truth):
    """Predictions of the model that the data were simulated from, at its own hyper-parameters."""
    merged, noise = model._merged, GvMNoise(cell.order)
    prior = Prior((kernel_of(cell),), "shared")
    engine = DenseEngine(Problem(merged.inputs, merged.replicates, prior, noise, model.radial_scale_))
    posterior = engine.posterior(engine.solve(truth, 1e-7))
    return convolve_noise(posterior.predict(X_new), noise, posterior.rho)


class Measured(NamedTuple):
    """Of every data set: coverage (n, masses) with hyper-parameters learnt and known, log density (n,), misses and
    misses in standard deviations (n, p).
    """

    coverage: np.ndarray
    known: np.ndarray
    log_density: np.ndarray
    misses: np.ndarray
    standard: np.ndarray


def measured(cell, sets, first=0):
    """One cell, with seeds from the first on."""
    found = []
    for seed in range(first, first + sets):
        ((X, y), (X_new, y_new)), truth = simulated(cell, np.random.default_rng(seed))
        model = fitted(cell, X, y)
        dist = model.predict_dist(X_new)
        coverage = scores.coverage(dist, y_new, MASSES)
        known = scores.coverage(predict_known(model, cell, X_new, truth), y_new, MASSES)
        found.append((coverage, known, dist.logpdf(y_new).mean(), *distances(model, cell, truth)))
    return Measured(*(np.array(part) for part in zip(*found, strict=True)))


def percent(values):
    """Mean and standard error over data sets, in percent."""
    return f"{100.0 * values.mean():.1f} ± {100.0 * values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def coverage_row(name, coverage, known, log_density):
    """A row of the first table."""
    cells = [percent(values[:, i]) for i in SHOWN for values in (coverage, known)]
    return [name, len(coverage), *cells, f"{log_density.mean():.3f}"]


def recovery_rows(name, results):
    """Rows of the second table: one for each hyper-parameter, over all cells of a kind."""
    misses, standard = (np.concatenate([getattr(r, part) for r in results]) for part in ("misses", "standard"))
    rows = []
    for i, parameter in enumerate(["log variance", "log length scale", "log noise concentration"]):
        half, most = ((np.abs(standard[:, i]) < limit).mean() for limit in (0.6745, 1.6449))
        bias, error = misses[:, i].mean(), misses[:, i].std(ddof=1) / np.sqrt(len(misses))
        wide = misses[:, i].std(ddof=1)
        texts = [f"{100 * half:.0f} %", f"{100 * most:.0f} %", f"{bias:+.2f} ± {error:.2f}", f"{wide:.2f}"]
        rows.append([f"{name}: {parameter}", str(len(misses)), *texts, "met" if most >= LEAST else "MISSED"])
    return rows


def draw(coverage):
    """Measured against nominal coverage."""
    measured, error = coverage.mean(axis=0), coverage.std(axis=0, ddof=1) / np.sqrt(len(coverage))
    figure = Figure(figsize=(4.4, 4.2), dpi=110, layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 100], [0, 100], color="#1A1A1A", linewidth=1.0)
    ax.errorbar(100 * MASSES, 100 * measured, 200 * error, fmt="o", color="#0072B2", markersize=4.5, capsize=2.5)
    ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
    ax.set_xlabel("mass of the highest-density region, %")
    ax.set_ylabel("held-out angles inside, % (± 2 SE)")
    ax.set_title(f"{len(coverage)} simulated data sets", fontsize=11)
    ax.grid(color="#E6E8EA")
    ax.set_axisbelow(True)
    return figure


def measure_others(sets=10, first=1000):
    """Coverage over a second, smaller choice of data sets: how far chance reaches."""
    results = [measured(cell, sets if cell.inputs < 100 else sets // 3, first) for cell in CELLS]
    parts = {name: np.concatenate([getattr(r, name) for r in results]) for name in ("coverage", "known")}
    words = {
        f"other_{name}{100 * MASSES[i]:.0f}": percent(part[:, i])
        for name, part in zip(("learnt", "known"), parts.values(), strict=True)
        for i in SHOWN
    }
    print(words)
    timing.keep("calibration", SCRIPT, other_sets=str(len(parts["coverage"])), **words)


def main():
    """Print the tables; write them and the figure to the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the data sets; the pages stay as they are")
    parser.add_argument("--sets", type=int, default=24, help="data sets a cell, a third of them at N = 200")
    parser.add_argument("--other", action="store_true", help="coverage of other data sets alone, for the page")
    options = parser.parse_args()
    if options.other:
        measure_others()
        return
    begin = time.process_time()
    most = max(options.sets // 10, 3) if options.quick else options.sets
    results = {}
    for cell in CELLS:
        results[cell] = measured(cell, most if cell.inputs < 100 else max(most // 3, 2))
        done = coverage_row(str(cell), *results[cell][:3])
        print(f"{time.process_time() - begin:5.0f} s: {', '.join(map(str, done))}", file=sys.stderr, flush=True)
    rows = [coverage_row(str(cell), *found[:3]) for cell, found in results.items()]
    whole = Measured(
        *(np.concatenate(part) for part in zip(*(found[:3] for found in results.values()), strict=True)), None, None
    )
    rows.append(coverage_row("all", *whole[:3]))
    header = ["data", "sets", "50 % regions", "same, known", "90 % regions", "same, known", "log density"]
    kept = not options.quick
    timing.table(
        "Held-out angles in highest-density regions, percent", header, rows, "calibration/kinds" if kept else ""
    )
    by_mass = [[f"{100 * mass:.0f}", *(percent(part[:, i]) for part in whole[:2])] for i, mass in enumerate(MASSES)]
    rows = []
    for radius in ("soft", "free", "hard"):
        for inputs in (60, 200):
            kind = [r for c, r in results.items() if (c.radius, c.inputs, c.order) == (radius, inputs, 1)]
            rows += recovery_rows(f"{radius}, N = {inputs}", kind)
    rows += recovery_rows("free, N = 60, by evidence", [measured(BY_EVIDENCE, most)])
    header = ["hyper-parameter", "sets", "in 50 %", "in 90 %", "bias", "spread", f"target: {100 * LEAST:.0f} % in 90 %"]
    about = "Recovery: truths within intervals of the posterior; bias and spread of the estimates"
    timing.table(about, header, rows, "calibration/recovery" if kept else "")
    if kept:
        words = {
            f"{name}{100 * MASSES[i]:.0f}": percent(part[:, i])
            for i in SHOWN
            for name, part in zip(("learnt", "known"), whole, strict=False)
        }
        header = ["mass of the region, %", "inside, hyper-parameters learnt", "inside, hyper-parameters known"]
        timing.keep("calibration", SCRIPT, masses=(header, by_mass), sets=str(len(whole.coverage)), **words)
        draw(whole.coverage).savefig(FIGURE)
    print(f"\n{time.process_time() - begin:.0f} CPU-seconds")


if __name__ == "__main__":
    main()
