"""Claim: with its defaults `CircularRegressor` is hardly worse than the best of its members and baselines.

Simulated tasks: fields of a planar Gaussian process in two and in four columns, one of a harmonic process, no relation
at all, a spread that follows the input, two modes whose shares follow it, ten columns of which two matter, and few
rows, of two columns and of 400. For each the held-out log-likelihood in nats of 500 test rows, averaged over seeds, and
the difference to the best other model with its standard error over seeds, because all test rows of a seed meet the same
fit: behind by more than two of them is MISSED. Then CPU seconds of fits to 200, 1,000 and 10,000 rows beside the
Gaussian process on (cos, sin), which is left out where it would take minutes, the forest and kernels. `--seeds 2` is a
quick look, `--tasks` and `--sizes` leave one of the two tables out.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from timing import keep, table

from mgvm import CircularGPRegressor, CircularRegressor, GvM, HarmonicGPRegressor
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    ProjectedGPRegressor,
)

MODELS = {
    "front door": CircularRegressor,
    "harmonic": HarmonicGPRegressor,
    "planar": CircularGPRegressor,
    "2-D GP": ProjectedGPRegressor,
    "2-D GP, leave-one-out": lambda: ProjectedGPRegressor(selection="loo"),
    "kernel": KernelCircularRegressor,
    "forest": ForestCircularRegressor,
    "none": lambda: GvMRegressor("auto"),
}
TESTED, TOO_MANY = 500, 1500  # test rows; rows beyond which Gaussian processes on (cos, sin) take minutes


def fields(X, count, rng, length=0.3):
    """Draws (rows, count) of a smooth process of unit variance."""
    covariance = Matern(length, nu=1.5)(X) + 1e-8 * np.eye(len(X))
    return np.linalg.cholesky(covariance) @ rng.normal(size=(len(X), count))


def planar(rows, rng):
    X = rng.uniform(size=(rows, 2))
    plane = fields(X, 2, rng)
    return X, rng.vonmises(np.arctan2(plane[:, 1], plane[:, 0]), 8.0)


def four_columns(rows, rng):
    X = rng.uniform(size=(rows, 4))
    plane = fields(X, 2, rng, length=0.5)
    return X, rng.vonmises(np.arctan2(plane[:, 1], plane[:, 0]), 30.0)


def harmonic(rows, rng):
    X = rng.uniform(size=(rows, 2))
    parts = fields(X, 4, rng)
    eta = np.stack([parts[:, 0] + 1j * parts[:, 1], parts[:, 2] + 1j * parts[:, 3]], axis=1)
    return X, GvM(1.5 * eta).sample(rng=rng)


def unrelated(rows, rng):
    return rng.normal(size=(rows, 2)), rng.vonmises(1.0, 1.5, rows)


def spreading(rows, rng):
    X = rng.uniform(size=(rows, 1))
    return X, rng.vonmises(4.0 * X[:, 0], np.exp(0.5 + 4.0 * X[:, 0]))


def bimodal(rows, rng):
    X = rng.uniform(size=(rows, 1))
    return X, rng.vonmises(2.0 * X[:, 0] + np.pi * (rng.random(rows) < X[:, 0]), 10.0)


def ten_columns(rows, rng):
    X = rng.normal(size=(rows, 10))
    return X, rng.vonmises(2.0 * np.arctan(X[:, 0]) + X[:, 1], 6.0)


def cycle(rows, rng):
    phase = 2.0 * np.pi * rng.random(rows)
    X = np.stack([np.cos(phase), np.sin(phase)], axis=1) @ rng.normal(size=(2, 400))
    return X + 1.5 * rng.normal(size=X.shape), phase


TASKS = {
    "planar GP": (planar, 200),
    "planar GP, four columns": (four_columns, 150),
    "harmonic GP": (harmonic, 200),
    "no relation": (unrelated, 200),
    "spread follows": (spreading, 200),
    "two modes": (bimodal, 200),
    "ten columns": (ten_columns, 200),
    "25 rows": (planar, 25),
    "12 rows": (planar, 12),
    "40 rows, 400 columns": (cycle, 40),
    "12 rows, 400 columns": (cycle, 12),
}


def held_out(make, task, rows, seeds):
    """Mean log density of the test rows of every seed by a model."""
    found = []
    for seed in range(seeds):
        X, y = task(rows + TESTED, np.random.default_rng(seed))
        found.append(make().fit(X[:rows], y[:rows]).log_density(X[rows:], y[rows:]).mean())
    return np.array(found)


def compare_tasks(seeds):
    """Mean held-out nats of every model on a task, and the difference of the front door to the best other."""
    for name, (task, rows) in TASKS.items():
        logs = {model: held_out(make, task, rows, seeds) for model, make in MODELS.items()}
        best = max((model for model in logs if model != "front door"), key=lambda model: logs[model].mean())
        gap = logs["front door"] - logs[best]
        yield (
            name,
            {model: logs[model].mean() for model in MODELS},
            best,
            gap.mean(),
            gap.std(ddof=1) / np.sqrt(gap.size),
        )


def show_tasks(seeds):
    """Print all scores; keep, for the guide, those of the front door and of the best other model."""
    lines, kept = [], []
    for name, means, best, gap, error in compare_tasks(seeds):
        met = "met" if gap >= -2.0 * error else "MISSED"
        lines.append([name, *(f"{mean:.3f}" for mean in means.values()), f"{gap:+.3f} ± {error:.3f} ({met})"])
        told = f"{gap:+.3f} ± {error:.3f}{'' if met == 'met' else ' -'}"
        numbers = [f"{means['front door']:.3f}", f"{means[best]:.3f}", told]
        ours, others, told = (text.replace("-", "−") for text in numbers)
        kept.append([name, ours, best, others, told])
    title = f"Held-out log-likelihood, nats, {seeds} seeds of {TESTED} test rows"
    table(title, ["task", *MODELS, "front door less the best"], lines)
    header = ["simulated task", "`CircularRegressor`", "best other", "its log-likelihood", "difference"]
    keep("front_door", "benchmarks/bench_front_door.py", tasks=(header, kept))


TIMED = {
    "front door": "`CircularRegressor`",
    **{name: name for name in ("harmonic", "planar", "2-D GP", "forest", "kernel")},
}


def time_sizes():
    """CPU seconds of one fit of each model."""
    for rows in (200, 1000, 10_000):
        X, y = ten_columns(rows, np.random.default_rng(0))
        X = X[:, :4]
        seconds = []
        for name in TIMED:
            if name in ("2-D GP", "planar") and rows > TOO_MANY:
                seconds.append("-")
                continue
            begin = time.process_time()
            MODELS[name]().fit(X, y)
            seconds.append(f"{time.process_time() - begin:.1f}")
        yield [f"{rows:,}", *seconds]


def show_sizes():
    """Print and keep the times."""
    header, lines = ["rows", *TIMED.values()], list(time_sizes())
    table("CPU seconds of a fit, four columns", header, lines)
    keep("front_door", "benchmarks/bench_front_door.py", sizes=(header, lines))


def main(arguments):
    seeds = int(arguments[arguments.index("--seeds") + 1]) if "--seeds" in arguments else 8
    warnings.simplefilter("ignore")
    GvMRegressor().fit([[0.0], [1.0]], [0.0, 1.0])  # compiles
    if "--sizes" not in arguments:
        show_tasks(seeds)
    if "--tasks" not in arguments:
        show_sizes()


if __name__ == "__main__":
    main(sys.argv[1:])
