"""Time of log Z, E[T] and the Fisher matrix of one mGvM distribution out of a batch, by dimension and concentration."""

from __future__ import annotations

import numpy as np
from timing import cpu_times, keep, table, verdict

from mgvm._numerics import torus_moments as frame

DISTS = 10
TARGETS = {2: 0.3, 3: 10.0}  # milliseconds a distribution at concentrations of 50 to 200


def dists(dimension, concentration, rng):
    """Correlated, skewed distributions around a normal one, in local parameters."""
    local = 0.02 * concentration * rng.normal(size=(DISTS, frame.n_statistics(dimension, 2)))
    codes = frame.codes(dimension, 2)
    for row in local:
        root = rng.normal(size=(dimension, dimension))
        precision = concentration * (root @ root.T / dimension + 0.5 * np.eye(dimension))
        row[0 : 2 * dimension : 2] = -np.diag(precision)
        row[1 : 2 * dimension : 2] = rng.normal(size=dimension) * np.sqrt(concentration)
        for a in np.flatnonzero((codes == 1).sum(axis=1) == 2):
            i, j = np.flatnonzero(codes[a])
            row[a] = -precision[i, j]
    return local


def main():
    rng = np.random.default_rng(0)
    rows = []
    for dimension in (1, 2, 3):
        for concentration in (1, 10, 50, 200, 1000, 10_000):
            local = dists(dimension, concentration, rng)
            times = cpu_times(
                {
                    "exact": lambda x=local, d=dimension: frame.local_moments(x, d, 2),
                    "quick": lambda x=local, d=dimension: frame.local_moments(x, d, 2, quick=True),
                },
                repeats=3,
            )
            exact, quick = (1e3 * times[name] / DISTS for name in ("exact", "quick"))
            judged = concentration in (50, 200) and dimension in TARGETS
            rows.append(
                [
                    str(dimension),
                    f"{concentration:,}",
                    exact,
                    quick,
                    verdict(exact, TARGETS[dimension]) if judged else "",
                ]
            )
    table(
        "log Z, means and Fisher matrix of an mGvM of order 2, milliseconds a distribution",
        ["angles", "concentration", "to rounding", "to 1e-11", "target"],
        rows,
    )
    sizes = list(dict.fromkeys(row[1] for row in rows))
    by_angles = [
        [angles, *(row[2] for row in rows if row[0] == angles)] for angles in dict.fromkeys(row[0] for row in rows)
    ]
    header = ["angles", f"concentration {sizes[0]}", *sizes[1:]]
    keep("torus_moments", "benchmarks/bench_torus_moments.py", exact=(header, by_angles))


if __name__ == "__main__":
    main()
