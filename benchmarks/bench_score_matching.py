"""Score matching: CPU time against the number of angles and rows, steps, memory, and the dense system it replaces.

    python benchmarks/bench_score_matching.py [--plot docs/images/score_matching_scaling.png]

Rows are wrapped Gaussians of five common factors; every angle has its own spread, 0.5 to 1.2 radians.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
from timing import number, table, verdict

from mgvm.learning import Submodel, score_matching
from mgvm.learning._score_matching import conjugate_gradients
from mgvm.learning.row_sums import MemoryRows
from mgvm.learning.rows import as_rows
from mgvm.learning.score_operator import ScoreOperator
from mgvm.natural import parameters

COUNT = 10_000
DIMENSIONS = (10, 17, 30, 50, 100, 200, 300)
COUNTS = (2_000, 5_000, 10_000, 20_000, 50_000)
TARGETS = {100: 1.0, 300: 8.0}


def angles(dimension, count=COUNT, least=0.5, seed=0):
    rng = np.random.default_rng(seed)
    mixing = 0.4 * rng.normal(size=(dimension, 5))
    x = rng.normal(size=(count, 5)) @ mixing.T + 0.8 * rng.normal(size=(count, dimension))
    x *= rng.uniform(least, 1.2, dimension) / np.sqrt(0.64 + (mixing**2).sum(axis=1))
    return np.angle(np.exp(1j * (x + rng.uniform(-np.pi, np.pi, dimension))))


def cpu_time(function, repeats):
    """The smallest of repeats, and what the last one found."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        answer = function()
        best = min(best, time.process_time() - start)
    return best, answer


def single_rate():
    """Single-precision operations a second of this processor's matrix product."""
    a, b = np.ones((1024, 400), np.float32), np.ones((400, 400), np.float32)
    return 2 * a.shape[0] * b.size / cpu_time(lambda: a @ b, 30)[0]


def against_dimension(rate):
    lines, times = [], []
    for dimension in DIMENSIONS:
        x = angles(dimension)
        seconds, fit = cpu_time(lambda x=x: score_matching(x), 3 if dimension < 200 else 2)
        times.append(seconds)
        # Two products of (N, 2D) and (2D, 2D) a step, and one more pair for the gradient at the end.
        floor = 16 * COUNT * dimension**2 * (fit.n_iterations + 1) / rate
        target = verdict(seconds, TARGETS[dimension]) if dimension in TARGETS else ""
        dense = fit.n_iterations == 1
        size = fit.submodel.n_parameters
        steps = "dense" if dense else fit.n_iterations
        lines.append(
            [dimension, f"{size:,}", steps, fit.gradient_norm, seconds, "" if dense else seconds / floor, target]
        )
    header = ["angles", "parameters", "steps", "gradient", "CPU s", "times the products alone", "target"]
    table(f"Full mGvM of order 2 to 1e-4, {COUNT:,} rows, one core", header, lines, "score_matching/angles")
    return times


def narrow_angles():
    lines = []
    for dimension in TARGETS:
        x = angles(dimension, least=0.3)
        seconds, fit = cpu_time(lambda x=x: score_matching(x), 2)
        lines.append([dimension, fit.n_iterations, fit.gradient_norm, seconds, verdict(seconds, TARGETS[dimension])])
    table(
        "The same with spreads of 0.3 to 1.2 radians",
        ["angles", "steps", "gradient", "CPU s", "target"],
        lines,
        "score_matching/narrow",
    )


def against_count():
    lines, times = [], []
    for count in COUNTS:
        x = angles(100, count)
        seconds, fit = cpu_time(lambda x=x: score_matching(x), 3 if count <= 20_000 else 1)
        times.append(seconds)
        lines.append([f"{count:,}", fit.n_iterations, fit.gradient_norm, seconds])
    table("100 angles to 1e-4", ["rows", "steps", "gradient", "CPU s"], lines, "score_matching/rows")
    return times


class Plain:
    """An operator without its preconditioner."""

    def __init__(self, operator):
        self.linear, self.apply = operator.linear, operator.apply

    def precondition(self, residual):
        return residual.copy()


def steps_saved():
    lines = []
    cases = [(d, 0.5, "full") for d in (10, 30, 100, 200)]
    cases += [(30, least, name) for least in (0.5, 0.1) for name in ("full", "torus graph", "differences", "sine")][1:]
    for dimension, least, name in cases:
        x = angles(dimension, 2000, least)
        model = Submodel.of(name, dimension, 2, directions=np.angle(np.exp(1j * x).mean(axis=0)))
        operator = ScoreOperator(MemoryRows.of(as_rows(x)), model, np.float64)
        exact = conjugate_gradients(operator, operator.empty(), 1e-9, 2000).theta
        with_it = conjugate_gradients(operator, operator.empty(), 1e-4, 2000)
        plain = conjugate_gradients(Plain(operator), operator.empty(), 1e-4, 2000)
        errors = [np.linalg.norm(found.theta - exact) / np.linalg.norm(exact) for found in (with_it, plain)]
        lines.append([dimension, name, f"{least} to 1.2", len(with_it.trace) - 1, len(plain.trace) - 1, *errors])
    header = ["angles", "submodel", "spread", "steps", "without preconditioner", "error of θ", "without"]
    table("Steps of conjugate gradients to 1e-4, 2,000 rows", header, lines, "score_matching/steps")


def naive_solution(x):
    """The dense system, row by row and statistic by statistic, with products of whole matrices."""
    count, size = x.shape
    i, j = np.triu_indices(size, 1)
    multiples = np.concatenate(
        [t * np.eye(size) for t in (1, 2)] + [np.eye(size)[i] - np.eye(size)[j], np.eye(size)[i] + np.eye(size)[j]]
    )
    width = 2 * len(multiples)
    H, c = np.zeros((width, width)), np.zeros(width)
    for row in x:
        phase = multiples @ row
        cos, sin = np.cos(phase)[:, None], np.sin(phase)[:, None]
        gradient = np.stack([-sin * multiples, cos * multiples], axis=1).reshape(width, size)
        H += gradient @ gradient.T
        c -= (np.stack([cos, sin], axis=1)[:, :, 0] * (multiples**2).sum(axis=1)[:, None]).ravel()
    return np.linalg.solve(H / count, -c / count)


def against_naive():
    lines = []
    for dimension, used in ((8, 2000), (30, 500)):
        x = angles(dimension)
        fast, fit = cpu_time(lambda x=x: score_matching(x, tolerance=1e-11), 3)
        single, _ = cpu_time(lambda x=x: score_matching(x), 3)
        # The naive time of the matrix is in proportion to the rows, so a part of them is timed.
        part, _ = cpu_time(lambda x=x, used=used: naive_solution(x[:used]), 1)
        solve, _ = cpu_time(lambda n=fit.submodel.n_parameters: np.linalg.solve(np.eye(n) + 0.1, np.ones(n)), 1)
        slow = solve + (part - solve) * COUNT / used
        subset = x[: max(used, 2000)]
        error = np.nan
        if dimension == 8:
            wanted = naive_solution(subset)
            found = parameters.pack(score_matching(subset, tolerance=1e-12).natural)
            error = float(abs(found - wanted).max() / abs(wanted).max())
        ratio = slow / single
        target = verdict(ratio, 100, at_most=False) if dimension == 30 else verdict(error, 1e-10)
        lines.append([dimension, slow, fast, single, f"{ratio:,.0f}", "" if np.isnan(error) else error, target])
    header = ["angles", "naive CPU s", "to 1e-11", "to 1e-4", "times faster", "difference", "target"]
    table(f"Against the dense system built row by row, {COUNT:,} rows", header, lines, "score_matching/dense")


def memory():
    """Peak memory of a process of its own that fits 1000 angles."""
    code = "import bench_score_matching as bench; bench.memory_of_one_fit()"
    here = os.path.dirname(os.path.abspath(__file__))
    out = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=True).stdout
    seconds, peak, steps, gradient = map(float, out.split())
    line = [1000, f"{COUNT:,}", f"{int(steps)}", gradient, seconds, number(peak / 1e9), verdict(peak / 1e9, 2.0)]
    header = ["angles", "rows", "steps", "gradient", "CPU s", "peak GB", "target"]
    table(
        "Memory of the whole process, full mGvM of 2 million parameters to 1e-4",
        header,
        [line],
        "score_matching/thousand",
    )
    return seconds


def memory_of_one_fit():
    x = angles(1000)
    start = time.process_time()
    fit = score_matching(x)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(seconds, peak, fit.n_iterations, fit.gradient_norm)


def plot(path, by_dimension, by_count):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    left.loglog(*by_dimension, "o-", color="#1f5fa8")
    left.set(xlabel=f"angles D ({COUNT:,} rows)", ylabel="CPU seconds to 1e-4", title="Time against angles")
    right.loglog(*by_count, "o-", color="#1f5fa8")
    right.set(xlabel="rows N (100 angles)", title="Time against rows")
    for axes, (x, y), power in ((left, by_dimension, 2), (right, by_count, 1)):
        x, y = np.array(x, float), np.array(y)
        reach = np.array([x[-1] / 4, x[-1]])
        axes.loglog(reach, 0.45 * y[-1] * (reach / x[-1]) ** power, "--", color="#888888")
        name = "∝ D²" if power == 2 else "∝ N"
        axes.annotate(
            name, (reach.mean(), 0.45 * y[-1] * (reach.mean() / x[-1]) ** power), (6, -12), textcoords="offset points"
        )
        axes.set_xticks(x, [f"{value:,.0f}" for value in x])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", help="file of the figure")
    path = parser.parse_args().plot
    rate = single_rate()
    print(f"Single-precision products on one core: {rate / 1e9:.0f} Gflop/s")
    by_dimension = against_dimension(rate)
    by_count = against_count()
    narrow_angles()
    steps_saved()
    against_naive()
    large = memory()
    if path:
        plot(path, ((*DIMENSIONS, 1000), (*by_dimension, large)), (COUNTS, by_count))


if __name__ == "__main__":
    main()
