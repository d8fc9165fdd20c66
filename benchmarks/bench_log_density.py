"""`MGvM.log_density` of N points beside one product of real matrices, (N, 2D) times (2D, 2D), by BLAS."""

from __future__ import annotations

import numpy as np
from bench_gibbs import full_distribution
from threadpoolctl import threadpool_limits
from timing import cpu_times, table


def plain(dist, x):
    """The definition, in complex NumPy."""
    z = np.exp(1j * x)
    value = (z @ dist.a.conj()).real
    value += 0.5 * np.einsum("ni,ij,nj->n", z.conj(), dist.P, z, optimize=True).real
    return value + 0.5 * np.einsum("ni,ij,nj->n", z, dist.Q.conj(), z, optimize=True).real


def main():
    rows = []
    for size, count in ((10, 10_000), (100, 10_000), (1000, 2_000)):
        dist = full_distribution(size)
        x = np.random.default_rng(0).uniform(-np.pi, np.pi, (count, size))
        both, C = np.concatenate([np.cos(x), np.sin(x)], axis=1), np.random.default_rng(1).normal(size=(2 * size,) * 2)
        found = cpu_times(
            {
                "ours": lambda dist=dist, x=x: dist.log_density(x),
                "product": lambda both=both, C=C: both @ C,
                "waves": lambda x=x: np.exp(1j * x),
                "plain": lambda dist=dist, x=x: plain(dist, x),
            },
            repeats=7,
        )
        floor = found["product"] + found["waves"]
        rows.append(
            [
                f"D = {size:,}, N = {count:,}",
                1e3 * found["ours"],
                1e3 * found["product"],
                1e3 * found["waves"],
                found["ours"] / floor,
                found["plain"] / found["ours"],
            ]
        )
    table(
        "Log density of N points, CPU ms",
        ["dist", "mgvm", "product", "e^{ix}", "mgvm / (product + e^{ix})", "plain complex NumPy / mgvm"],
        rows,
        "log_density/log_density",
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
