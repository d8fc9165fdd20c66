"""Claim: log Z, all marginals and all pair moments of a chain of 20,000 angles take less than 5 CPU seconds in all, in
memory linear in the number of angles; log Z alone takes less time than a transfer operator in NumPy.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
from scipy import sparse
from timing import cpu_times, keep, table, verdict

from mgvm import MGvM
from mgvm.inference import exact_chain

SIZE = 20_000
PART = 1_000  # angles of the transfer operator: its time is linear in them


def chain(size, difference, total, rng):
    """A chain with total concentration near 20 in every angle."""
    first = np.arange(size - 1)

    def coupling(strength):
        values = strength * np.exp(1j * rng.uniform(-np.pi, np.pi, size - 1))
        return sparse.csr_array((values, (first, first + 1)), shape=(size, size))

    P, Q = coupling(difference), coupling(total)
    a = 2.0 * np.exp(1j * rng.uniform(-np.pi, np.pi, size))
    return MGvM(a, np.full((1, size), 0.5 + 0j), P + P.conj().T, Q + Q.T if total else None)


def transfer_operator(dist, count):
    """log Z, an n x n kernel an edge, every step one vectorised expression."""
    z = np.exp(1j * (-np.pi + 2 * np.pi * np.arange(count) / count))
    P, Q = dist.P.diagonal(1), dist.Q.diagonal(1)
    difference, total = np.conj(z)[:, None] * z, z[:, None] * z
    sites = np.exp((np.conj(dist.a)[:, None] * z + np.conj(dist.b[0])[:, None] * z**2).real)
    message, log_scale = sites[0], 0.0
    for d in range(1, dist.a.size):
        kernel = (P[d - 1] * difference).real
        if dist.Q.nnz:
            kernel += (np.conj(Q[d - 1]) * total).real
        message = sites[d] * (message @ np.exp(kernel))
        scale = message.sum()
        log_scale += np.log(scale)
        message /= scale
    return log_scale + dist.a.size * np.log(2 * np.pi / count)


def measure(name, difference, total):
    """Seconds and megabytes of everything the engine offers, on one chain."""
    dist = chain(SIZE, difference, total, np.random.default_rng(0))
    part = chain(PART, difference, total, np.random.default_rng(1))
    warm = exact_chain(part)
    count = warm._messages.count
    gap = abs(float(warm.log_normalizer) / transfer_operator(part, count) - 1)
    _ = warm.marginals, warm.pair_moments, warm.sample(2, rng=0)  # compiles
    seconds = cpu_times({"chain": lambda: exact_chain(dist), "operator": lambda: transfer_operator(part, count)}, 5)
    tracemalloc.start()
    result, steps = exact_chain(dist), [seconds["chain"]]
    memory = [tracemalloc.get_traced_memory()[1] / 1e6]
    tracemalloc.stop()
    for step in (lambda: result.marginals, lambda: result.pair_moments, lambda: result.sample(100, rng=0)):
        start = time.process_time()
        step()
        steps.append(time.process_time() - start)
    plain = seconds["operator"] * SIZE / PART
    return [name, count, *steps, memory[0], plain, plain / steps[0], gap]


def main():
    """Print the table."""
    rows = [measure("Q = 0", 8.0, 0.0), measure("Q ≠ 0", 4.0, 4.0)]
    header = ["chain of 20,000", "nodes", "log Z [s]", "marginals [s]", "pair moments [s]", "100 draws [s]"]
    keep("exact_chain", "benchmarks/bench_exact_chain.py", chain=([*header, "log Z [MB]"], [row[:7] for row in rows]))
    header += ["log Z [MB]", "operator [s]", "ratio", "log Z differs"]
    table("exact_chain: CPU seconds, memory, and a transfer operator in NumPy for log Z alone", header, rows)
    total = max(sum(row[2:5]) for row in rows)
    print(f"\nlog Z, marginals and pair moments together: {total:.2f} s, {verdict(total, 5.0)}")


if __name__ == "__main__":
    main()
