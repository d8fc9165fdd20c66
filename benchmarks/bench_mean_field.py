"""Mean field: a dense sweep against one matrix-vector product, chains of a million angles, batches of small
distributions.

python benchmarks/bench_mean_field.py [angles of the dense distribution, 5000; its coupling fills 32 D² bytes]
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits
from timing import number, table, verdict

from mgvm.inference import ConvergenceWarning, mean_field
from mgvm.inference._coordinate_ascent import DenseSweeper, gvm_step, planes, sweeper
from mgvm.natural.parameters import Natural


def shortest(functions, repeats):
    """Wall seconds of each function, the least over repeats taken in turn."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def dense(size, rng):
    """A sweep of D dependent updates, against the product C m that even a Jacobi sweep would need."""
    C = np.empty((2 * size, 2 * size))
    for begin in range(0, size, 250):  # by blocks and their mirror images, so that nothing is held twice
        end = min(begin + 250, size)
        part = rng.standard_normal((2 * (end - begin), 2 * (size - begin)), dtype=np.float32)
        part *= 0.3 / np.sqrt(size)
        C[2 * begin : 2 * end, 2 * begin :] = part
        C[2 * begin :, 2 * begin : 2 * end] = part.T
        corner = part[:, : 2 * (end - begin)]
        C[2 * begin : 2 * end, 2 * begin : 2 * end] = corner + corner.T
    for d in range(size):
        C[2 * d : 2 * d + 2, 2 * d : 2 * d + 2] = 0.0
    engine = DenseSweeper(C, np.full((1, size), 0.5 + 0.2j), gvm_step)
    state = engine.state(planes((rng.normal(size=size) + 1j)[None]), np.zeros((size, 2, 1)))
    vector = rng.normal(size=2 * size)
    engine.sweep(state)
    # One thread each: it takes all the memory gives, and a second one would wait for work at the sweep's expense.
    with threadpool_limits(1):
        product, sweep = shortest([lambda: C @ vector, lambda: engine.sweep(state)], 6)
    rows = [[f"D = {size}", 1e3 * product, 1e3 * sweep, sweep / product, verdict(sweep / product, 1.3)]]
    table("Dense distribution, one sweep (ms)", ["dist", "gemv", "sweep", "ratio", "target"], rows, "mean_field/dense")


def chain(rng, size, coupling, strength):
    """A chain of order 2 in random fields around a direction that drifts."""
    beside = np.full(size - 1, coupling, dtype=complex)
    P = sparse.csr_array(sparse.diags_array([beside, beside], offsets=[1, -1]))
    a = strength * rng.exponential(size=size) * np.exp(0.3j * np.cumsum(rng.normal(size=size)))
    b = 0.1 * strength * (rng.normal(size=(1, size)) + 1j * rng.normal(size=(1, size)))
    return Natural(a, b, P, sparse.csr_array((size, size), dtype=complex))


def chains(rng):
    """Time an update, and whether strong couplings converge; CPU time, for all of it runs in one thread."""
    rows = []
    for size, coupling, strength in [(1_000_000, 1.0, 1.0), (1_000_000, 5.0, 0.5), (100_000, 20.0, 0.1)]:
        dist = chain(rng, size, coupling, strength)
        engine = sweeper(dist, gvm_step)
        state = engine.state(planes(dist.a[None]), np.zeros((size, 2, 1)))
        sweeps = []
        for _ in range(8):
            start = time.process_time()
            engine.sweep(state)
            sweeps.append(time.process_time() - start)
        nanoseconds = 1e9 * min(sweeps[2:]) / size  # the first ones are easier: moments grow from zero
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = mean_field(dist, n_starts=1)
        seconds = time.process_time() - start
        name = f"{size} angles, coupling {coupling:g}, field {strength:g}"
        target = verdict(nanoseconds, 150)
        rows.append([name, nanoseconds, target, str(result.n_sweeps), str(result.converged), seconds])
    table(
        "Chains of order 2",
        ["dist", "ns an update", "target", "sweeps", "converged", "seconds a solve"],
        rows,
        "mean_field/chains",
    )


def batches(rng):
    """Bivariate distributions that share their couplings."""
    rows = []
    for count in (1000, 10_000):
        for scale in (0.5, 1.0, 3.0):
            draw = scale * (rng.normal(size=(6, 2)) + 1j * rng.normal(size=(6, 2)))
            P, Q = np.array([[0, draw[0, 0]], [draw[0, 0].conj(), 0]]), np.array([[0, draw[0, 1]], [draw[0, 1], 0]])
            a = scale * (rng.normal(size=(count, 2)) + 1j * rng.normal(size=(count, 2)))
            dist = Natural(a, draw[1:2], P, Q)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                times = shortest([lambda: mean_field(dist, n_starts=1), lambda: mean_field(dist)], 4)  # noqa: B023
            one, three = (1e6 * seconds / count for seconds in times)
            rows.append([f"{count} distributions, parameters of size {scale:g}", one, verdict(one, 20), number(three)])
    table(
        "Bivariate distributions in a batch (µs a solve)",
        ["batch", "one start", "target", "three starts"],
        rows,
        "mean_field/batches",
    )


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    batches(generator)
    chains(generator)
    dense(int(sys.argv[1]) if len(sys.argv) > 1 else 5000, generator)
