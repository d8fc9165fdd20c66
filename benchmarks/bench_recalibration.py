"""What recalibration gains on held-out angles: shipped data, and simulations from the model, where it must not lose.

python benchmarks/bench_recalibration.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from timing import table

from mgvm import CircularGPRegressor, scores
from paper.table1.shipped import make_shipped_tasks

NAMES = ("Wind over Europe", "Wind at a mast", "Mast in 1 h")


class Case(NamedTuple):
    """Training and test rows."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def shipped() -> Iterator[Case]:
    """Splits of Table 1."""
    for task in make_shipped_tasks():
        if task.name in NAMES:
            split = next(iter(task.splits()))
            yield Case(task.name, split.X, split.y, split.X_test, split.y_test)


def simulated(count: int = 6, rows: int = 200) -> Iterator[Case]:
    """Directions of planar processes with von Mises noise: what the regressor assumes."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(rows + 1000, 1 + seed % 2))
        root = np.linalg.cholesky(0.5 * Matern(0.3, nu=1.5)(X) + 1e-8 * np.eye(len(X)))
        planar = root @ rng.standard_normal((len(X), 2)) + 0.5 * rng.standard_normal(2)
        y = np.arctan2(planar[:, 1], planar[:, 0]) + rng.vonmises(0.0, (3.0, 10.0, 40.0)[seed % 3], len(X))
        yield Case(f"simulated {seed}", X[:rows], y[:rows], X[rows:], y[rows:])


def measure(case: Case) -> list[str]:
    """A row of the table."""
    fits, seconds = [], []
    for method in (None, "auto"):
        begin = time.process_time()
        fits.append(CircularGPRegressor(recalibrate=method, random_state=0).fit(case.X, case.y))
        seconds.append(time.process_time() - begin)
    dists = [fit.predict_dist(case.X_test) for fit in fits]
    gain = dists[1].logpdf(case.y_test) - dists[0].logpdf(case.y_test)
    covered = [100.0 * float(scores.coverage(dist, case.y_test, 0.5)) for dist in dists]
    found = fits[1].recalibration_
    error = gain.std() / np.sqrt(gain.size)
    return [
        case.name,
        "none" if found is None else found.method,
        f"{gain.mean():+.3f} ± {error:.3f}",
        f"{covered[0]:.0f} → {covered[1]:.0f}",
        f"{seconds[0]:.1f} → {seconds[1]:.1f}",
    ]


def main() -> None:
    """Print the table."""
    rows = [measure(case) for case in (*shipped(), *simulated())]
    table("Recalibration", ["data", "correction", "gain, nats", "in 50 % regions", "CPU s of the fit"], rows)


if __name__ == "__main__":
    main()
