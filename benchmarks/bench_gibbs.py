"""Nanoseconds an angle and chain of one Gibbs sweep, and of the reflections of over-relaxation, beside the product of
the coupling matrix with all chains by BLAS, on one thread.

Target: at most 600 ns a draw at D = 1000 with 16 chains.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits
from timing import cpu_times, table, verdict

from mgvm import MGvM
from mgvm._numerics.gibbs import Round
from mgvm.inference._moves import states, sweeps
from mgvm.natural.parameters import dense_coupling


def gp_distribution(size):
    """A GP kernel: cosine and sine coupled alike."""
    inputs = np.linspace(0.0, size / 10.0, size)
    kernel = np.exp(-0.5 * (inputs[:, None] - inputs) ** 2) + 0.1 * np.eye(size)
    return MGvM.from_precision(np.sin(inputs), 1.0, np.kron(np.eye(2), np.linalg.inv(kernel)))


def full_distribution(size, order=1):
    """Couplings of sums and differences, complex."""
    rng = np.random.default_rng(0)
    P, Q = (rng.normal(size=(2, size, size, 2)) / np.sqrt(size)).view(complex)[..., 0]
    P, Q = P + P.conj().T, Q + Q.T
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(Q, 0.0)
    b = None if order == 1 else rng.normal(size=(size, 2)).view(complex)[:, 0]
    return MGvM(np.ones(size), b, P, Q)


def chain(size):
    couplings = sparse.diags_array([np.full(size - 1, 2.0)] * 2, offsets=[-1, 1], dtype=complex)
    return MGvM(np.ones(size), P=couplings)


CASES = [
    ("GP kernel, D = 10", lambda: gp_distribution(10), 16),
    ("GP kernel, D = 100", lambda: gp_distribution(100), 4),
    ("GP kernel, D = 100", lambda: gp_distribution(100), 16),
    ("GP kernel, D = 1000", lambda: gp_distribution(1000), 16),
    ("all couplings, D = 100", lambda: full_distribution(100), 16),
    ("all couplings, D = 1000", lambda: full_distribution(1000), 16),
    ("all couplings, order 2, D = 1000", lambda: full_distribution(1000, 2), 16),
    ("chain, D = 100,000, sparse", lambda: chain(100_000), 4),
]


def main():
    rows = []
    for name, make, chains in CASES:
        dist, rng = make(), np.random.default_rng(0)
        kernel = sweeps(dist._natural)
        x = states(rng.uniform(-np.pi, np.pi, (chains, dist.dimension)))
        out = np.empty((max(1, 20_000 // (dist.dimension * chains)), chains, dist.dimension))
        plans = {str(count): Round(1, count, False, False, np.nan) for count in (0, 4)}
        functions = {
            name: lambda plan=plan, kernel=kernel, x=x, rng=rng, out=out: kernel.run(x, plan, rng, out)
            for name, plan in plans.items()
        }
        if not dist._natural.is_sparse:
            C = dense_coupling(dist._natural)
            functions["product"] = lambda C=C, x=x: C @ x
        found = {key: 1e9 * value / out.size for key, value in cpu_times(functions, repeats=15).items()}
        found["draw"], found["reflection"] = found["0"], (found["4"] - found["0"]) / 4
        found["product"] = found["product"] * len(out) if "product" in found else ""
        aim = verdict(found["draw"], 600) if (dist.dimension, chains) == (1000, 16) else ""
        rows.append([name, chains, found["draw"], found["reflection"], found["product"], aim])
    table(
        "CPU ns an angle and chain",
        ["ns an angle and chain", "chains", "draw", "reflection", "C x by BLAS", "target"],
        rows,
        "gibbs/sweep",
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
