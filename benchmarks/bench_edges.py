"""Which angles depend on which: edges recovered, size of the tests, parameter error and speed.

Truths are random graphs with 1.5 edges an angle on average; an edge has |(P, Q)| between 0.6 and 1.5 ("plain") or 0.3
and 0.9 ("weak"), split at random between difference and sum, all phases random; every angle has its own first and
second harmonic of up to 0.8 and 0.4. Run with --quick for fewer seeds and no thousand angles.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import timing
from scipy import sparse

from mgvm import MGvM
from mgvm.learning import edge_tests, regularization_path, score_matching

STRENGTHS = {"plain": (0.6, 1.5), "weak": (0.3, 0.9)}
TARGETS = {500: 0.95, 2000: 0.99}


def phases(rng, *shape):
    """Points on the unit circle."""
    return np.exp(1j * rng.uniform(-np.pi, np.pi, shape))


def truth(dimension, seed, strengths="plain"):
    """A sparse random mGvM."""
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(dimension, 1)
    edges = rng.choice(first.size, round(0.75 * dimension), replace=False)
    size, split = rng.uniform(*STRENGTHS[strengths], edges.size), rng.uniform(0.0, 0.5 * np.pi, edges.size)
    upper = np.zeros((2, dimension, dimension), dtype=complex)
    for part, share in zip(upper, (np.cos(split), np.sin(split)), strict=True):
        part[first[edges], second[edges]] = size * share * phases(rng, edges.size)
    P, Q = upper
    a, b = (limit * rng.uniform(size=dimension) * phases(rng, dimension) for limit in (0.8, 0.4))
    return MGvM(a, b, sparse.csr_array(P + P.conj().T), sparse.csr_array(Q + Q.T))


def true_edges(dist):
    """Pairs (i, j) as a set."""
    mask = np.triu((abs(dist.P) + abs(dist.Q)).toarray() > 0, 1)
    return set(zip(*(index.tolist() for index in np.nonzero(mask)), strict=True))


def f_score(found, expected):
    """F1 of two sets of edges."""
    pairs = set(map(tuple, np.asarray(found).tolist()))
    return 2.0 * len(pairs & expected) / max(len(pairs) + len(expected), 1)


def mean_error(values):
    """Mean and standard error as text."""
    values = np.asarray(values)
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else float("nan")
    return f"{values.mean():.4f} ± {error:.4f}"


def recovery(quick):
    """F1 with the automatic penalty and with the tests; the p-values of null edges go on to the next table."""
    rows, null = [], {}
    for strengths in STRENGTHS:
        for dimension, seeds in ((30, 3 if quick else 6), (100, 1 if quick else 3)):
            for count in (500, 2000):
                scores = {"EBIC": [], "tests 1 %": [], "tests 5 %": []}
                for seed in range(seeds):
                    dist = truth(dimension, seed, strengths)
                    x = dist.sample(count, rng=1000 + seed)
                    expected = true_edges(dist)
                    scores["EBIC"].append(f_score(regularization_path(x).edges(), expected))
                    tests = edge_tests(x)
                    for level in (1, 5):
                        scores[f"tests {level} %"].append(f_score(tests.edges(level / 100), expected))
                    pairs = zip(tests.first.tolist(), tests.second.tolist(), strict=True)
                    outside = np.array([pair not in expected for pair in pairs])
                    key = (dimension, count, strengths, tests.conditioning)
                    null.setdefault(key, []).append(tests.p_values[outside])
                worst = min(np.mean(scores["EBIC"]), np.mean(scores["tests 1 %"]))
                target = timing.verdict(worst, TARGETS[count], at_most=False) if strengths == "plain" else "none"
                cells = [mean_error(values) for values in scores.values()]
                rows.append([f"{strengths}, D = {dimension}, N = {count}, {seeds} seeds", *cells, target])
    header = ["truth", "F1, EBIC", "F1, tests at 1 %", "F1, tests at 5 %", "target (EBIC and 1 %)"]
    about = "Edges recovered (tests: false discovery rate by Benjamini and Hochberg)"
    timing.table(about, header, rows, "edges/recovery")
    return null


def size_of_tests(null, quick):
    """The share of null edges rejected at 5 % and at 0.1 %."""
    for count in (500, 2000):
        for seed in range(30 if quick else 150):
            dist = truth(8, seed)
            # A seed of its own: with that of the truth, draws would repeat the numbers its parameters are made of.
            tests = edge_tests(dist.sample(count, rng=1000 + seed))
            expected = true_edges(dist)
            pairs = zip(tests.first.tolist(), tests.second.tolist(), strict=True)
            outside = np.array([pair not in expected for pair in pairs])
            null.setdefault((8, count, "plain", tests.conditioning), []).append(tests.p_values[outside])
    rows = []
    for (dimension, count, strengths, conditioning), values in sorted(null.items()):
        p = np.concatenate(values)
        share = np.mean(p < 0.05)
        met = "4 to 7 %: " + ("met" if 0.04 <= share <= 0.07 else "MISSED")
        noise = 100 * np.sqrt(share * (1 - share) / p.size)
        rows.append(
            [f"D = {dimension}, N = {count}, {strengths}, given {conditioning}", f"{p.size:,}",
             f"{100 * share:.2f} ± {noise:.2f} %", f"{100 * np.mean(p < 0.001):.2f} %", met]
        )  # fmt: skip
    header = ["truth", "null edges", "rejected at 5 %", "at 0.1 %", "target"]
    timing.table("Type-I error of the edge tests", header, rows, "edges/size")


def stochastic(x, penalties, rng, epochs=40, batch=50):
    """The peer: proximal stochastic gradients of score matching, group soft threshold, warm along the path."""
    count, dimension = x.shape
    z = np.exp(1j * x)
    a, b = np.zeros((2, dimension), dtype=complex)
    P, Q = np.zeros((2, dimension, dimension), dtype=complex)
    for penalty in penalties:
        step = 0
        for _ in range(epochs):
            order = rng.permutation(count)
            for start in range(0, count - batch + 1, batch):
                y = z[order[start : start + batch]]
                rate = 0.2 / (1.0 + 10.0 * step / (epochs * count / batch)) ** 0.75
                step += 1
                field = (a + y @ P.T + y.conj() @ Q.T) * y.conj()
                g = field.imag - 2.0 * np.imag(b.conj() * y**2)
                pull = (1j * g - 1.0) * y / batch
                a = a - rate * pull.sum(axis=0)
                b = b - rate * (2.0 * (1j * g - 2.0) * y**2).mean(axis=0)
                dP, dQ = pull.T @ y.conj(), pull.T @ y
                P, Q = P - rate * (dP + dP.conj().T), Q - rate * (dQ + dQ.T)
                np.fill_diagonal(P, 0.0)
                np.fill_diagonal(Q, 0.0)
                keep = np.maximum(0.0, 1.0 - rate * penalty / np.maximum(np.hypot(abs(P), abs(Q)), 1e-300))
                P, Q = P * keep, Q * keep
        yield P, Q


def parameter_error(quick):
    """Relative error of the couplings, against the peer at the penalty that is best in hindsight."""
    rows = []
    for dimension, count in ((30, 500), (30, 2000)):
        errors = {"ours": [], "lasso": [], "peer": []}
        seeds = 2 if quick else 5
        for seed in range(seeds):
            dist = truth(dimension, seed)
            x = dist.sample(count, rng=1000 + seed)
            P, Q = dist.P.toarray(), dist.Q.toarray()
            total = np.sqrt((abs(P) ** 2 + abs(Q) ** 2).sum())

            def error(p, q, P=P, Q=Q, total=total):
                return np.sqrt((abs(p - P) ** 2 + abs(q - Q) ** 2).sum()) / total

            path = regularization_path(x)
            fit = path.fit()
            errors["ours"].append(error(fit.P, fit.Q))
            fits = [path.fit(k, refit=False) for k in range(path.penalties.size)]
            errors["lasso"].append(min(error(f.P, f.Q) for f in fits))
            grid = np.geomspace(0.5, 0.02, 8)
            errors["peer"].append(min(error(*c) for c in stochastic(x, grid, np.random.default_rng(seed))))
        met = timing.verdict(np.mean(errors["ours"]), float(np.round(np.mean(errors["peer"]), 4)))
        rows.append([f"D = {dimension}, N = {count}, {seeds} seeds", *(mean_error(v) for v in errors.values()), met])
    header = ["truth", "EBIC, refitted", "exact lasso, best penalty", "stochastic, best penalty", "target (peer)"]
    about = "Relative error of the couplings (best penalty: in hindsight, by the truth)"
    timing.table(about, header, rows, "edges/error")


def speed(quick):
    """CPU time of tests and of whole paths."""
    x = truth(5, 0).sample(500, rng=0)
    regularization_path(x)
    edge_tests(x, conditioning="selected")
    rows = []
    for dimension, count, job in ((100, 2000, "tests"), (300, 2000, "tests"), (1000, 2000, "path with EBIC")):
        if quick and dimension > 100:
            continue
        dist = truth(dimension, 0)
        x = dist.sample(count, rng=1000)
        start = time.process_time()
        found = edge_tests(x).edges(0.01) if job == "tests" else score_matching(x, penalty="ebic").edges
        spent = time.process_time() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        limit = {100: 10.0, 300: 60.0, 1000: 180.0}[dimension]
        met = timing.verdict(spent, limit)
        rows.append([f"{job}, D = {dimension}, N = {count}", spent, f_score(found, true_edges(dist)), memory, met])
    header = ["job", "CPU seconds", "F1", "peak memory of the process, GB", "target, seconds"]
    timing.table("Speed (data included in the memory; target 2 GB)", header, rows, "edges/speed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds, at most 100 angles")
    quick = parser.parse_args().quick
    null = recovery(quick)
    size_of_tests(null, quick)
    parameter_error(quick)
    speed(quick)


if __name__ == "__main__":
    main()
