"""Statistical efficiency at D = 2 and 3: N·E[KL(truth || fit)] beside p/2, what maximum likelihood tends to.

KL(truth || fit) = (θ - θ')·E[T] - log Z + log Z', exact by quadrature, for fits of the full mGvM to data sets drawn
from known distributions. With many rows N·KL of maximum likelihood has mean p/2, p parameters; a method whose N·KL is r
times as large needs r times as many rows to be as good. Few rows make all of them worse than that.

    python benchmarks/bench_efficiency.py [--quick]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from timing import keep, table, verdict

from mgvm import MGvM
from mgvm.inference import exact_grid
from mgvm.learning import likelihood, pseudo_likelihood, score_matching
from mgvm.natural.parameters import pack

METHODS = {"likelihood": likelihood, "pseudo-likelihood": pseudo_likelihood, "score matching": score_matching}
STRENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
ROWS = 1000
CLOSE = 1.15  # times p/2 is close to it, with the scatter of some hundred data sets
BEST = 1.05  # times the likelihood's N·KL is practically as efficient


def random_distribution(rng, dimension, strength):
    """Parameters of the given size and random directions, weaker second harmonics."""

    def phasors(*shape):
        return strength * rng.uniform(0.5, 1.0, shape) * np.exp(1j * rng.uniform(-np.pi, np.pi, shape))

    P, Q = np.triu(phasors(dimension, dimension), 1), np.triu(phasors(dimension, dimension), 1)
    return MGvM(phasors(dimension), 0.3 * phasors(dimension), P + P.conj().T, Q + Q.T)


def expected_statistics(truth):
    """E[T] under a distribution, in the order of the natural vector."""
    pairs = truth.pair_moments
    parts = [truth.harmonics[0], truth.harmonics[1], pairs.difference, pairs.sum]
    return np.concatenate([np.ascontiguousarray(part).view(float) for part in parts])


def divergence(dist, truth, mean, fit):
    """KL(truth || fit), exact."""
    found = exact_grid(MGvM.from_fit(fit))
    gap = dist.natural_vector() - pack(fit.natural)
    return float(gap @ mean) - float(truth.log_normalizer) + float(found.log_normalizer)


def measure(dimension, strength, dists, sets):
    """N·KL (methods, distributions·sets)."""
    out = []
    for seed in range(dists):
        rng = np.random.default_rng([dimension, seed])
        dist = random_distribution(rng, dimension, strength)
        truth = exact_grid(dist)
        mean = expected_statistics(truth)
        for _ in range(sets):
            x = truth.sample(ROWS, rng=rng)
            row = []
            for method in METHODS.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fit = method(x)
                row.append(ROWS * divergence(dist, truth, mean, fit))
            out.append(row)
    return np.array(out).T


def cell(values):
    """Mean and standard error; the median where the mean is that of a few disasters."""
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(values.size)
    return f"{mean:.2f} ± {error:.2f}" if mean < 5 * np.median(values) else f"median {np.median(values):.1f}"


def relative(values, best):
    """Mean over mean with its standard error (delta method, paired), or the ratio of medians; and the number."""
    if values.mean() >= 5 * np.median(values):
        ratio = np.median(values) / np.median(best)
        return f"{ratio:.3g} (medians)", ratio
    ratio = values.mean() / best.mean()
    error = (values - ratio * best).std(ddof=1) / np.sqrt(values.size) / best.mean()
    return f"{ratio:.3f} ± {error:.3f}", ratio


def main():
    dists, sets = (3, 5) if "--quick" in sys.argv else (6, 20)
    for dimension in (2, 3):
        half = dimension * (dimension + 1)
        rows = []
        for strength in STRENGTHS:
            values = measure(dimension, strength, dists, sets if dimension == 2 else max(sets // 2, 4))
            best = values[0]
            pseudo, ratio = relative(values[1], best)
            score, _ = relative(values[2], best)
            verdicts = verdict(round(best.mean() / half, 2), CLOSE), verdict(round(ratio, 2), BEST)
            rows.append([f"{strength:g}", *(cell(v) for v in values), pseudo, score, *verdicts])
        header = ["strength", *METHODS, "pseudo / likelihood", "score / likelihood", "likelihood / (p/2)", "pseudo"]
        table(
            f"N·KL(truth || fit), D = {dimension}, N = {ROWS:,}, half the number of parameters {half}, "
            f"{dists} random distributions a row",
            header,
            rows,
        )
        kept = f"N·KL, {dimension} angles, p/2 = {half}: strength", *METHODS
        keep(
            "efficiency", "benchmarks/bench_efficiency.py", **{f"angles{dimension}": (kept, [row[:4] for row in rows])}
        )


if __name__ == "__main__":
    main()
