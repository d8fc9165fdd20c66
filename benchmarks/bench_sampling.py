"""Claim: an exact draw of a GvM of order 2 costs at most 5 draws of NumPy's von Mises with a parameter set each, half
of one when a million come from one distribution, and at least 0.3 of all proposals are accepted, whatever the
parameters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from timing import cpu_times, keep, peer, table, verdict
from truth import FAMILIES, order_two, span

from mgvm import GvM
from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.gvm.order_two import highest_modes, quadrant_frame
from mgvm._numerics.gvm.sampling import envelope, sample_each

DISTS = 100_000
DRAWS = 1_000_000
RANGES = ((-2, 0), (0, 2), (2, 4), (4, 8))


def each_rows(rng):
    """A parameter set for each draw, the case of a Gibbs sweep."""
    # NumPy falls back to a wrapped normal, which is not exact, above kappa = 1e6; its usual algorithm is timed here.
    kappa, mu = 10 ** rng.uniform(-1, 4, DISTS), rng.uniform(-np.pi, np.pi, DISTS)
    cases = [("generic", low, high) for low, high in RANGES]
    cases += [(family, -1, 4) for family in FAMILIES if family != "generic"]
    cases += [(family, 4, 8) for family in FAMILIES if family != "generic"]
    functions = {"numpy": lambda: rng.vonmises(mu, kappa)}
    for family, low, high in cases:
        name = f"{family}, K {span(low, high)}"
        eta = order_two(family, low, high, DISTS, rng)
        functions[name, "kernel"] = lambda eta=eta: sample_each(eta, 1, rng)
        dist = GvM(eta)
        functions[name, "dist"] = lambda dist=dist: dist.sample(rng=rng)
    times = {name: seconds / DISTS * 1e9 for name, seconds in cpu_times(functions, repeats=7).items()}
    for name in (name for name, what in list(functions)[1:] if what == "kernel"):
        ratio = times[name, "dist"] / times["numpy"]
        yield [name, times[name, "kernel"], times[name, "dist"], times["numpy"], ratio, verdict(ratio, 5)]


def one_rows(rng):
    """A million draws of one distribution, the table included."""
    cases = {
        "order 1, kappa 4": ([4.0], [0.5]),
        "order 2, kappa (2, 1)": ([2.0, 1.0], [0.5, 1.0]),
        "order 2, kappa (500, 300)": ([500.0, 300.0], [0.5, 1.0]),
        "order 2, kappa (1e7, 1e7)": ([1e7, 1e7], [0.5, 1.0]),
        "order 2, two equal modes, kappa (300, 100)": ([300.0, 100.0], [np.pi / 2, 0.0]),
        "order 4, kappa (3, 2, 1, 0.5)": ([3.0, 2.0, 1.0, 0.5], [0.1, 0.2, 0.3, 0.4]),
        "order 8, kappa 2 each": ([2.0] * 8, list(0.3 * np.arange(8))),
    }
    dists = {name: GvM.from_polar(kappa, mu) for name, (kappa, mu) in cases.items()}
    functions = {name: lambda dist=dist: dist.sample(DRAWS, rng=rng) for name, dist in dists.items()}
    times = cpu_times({**functions, "numpy": lambda: rng.vonmises(0.5, 4.0, DRAWS)}, repeats=7)
    times = {name: seconds / DRAWS * 1e9 for name, seconds in times.items()}
    for name in cases:
        ratio = times[name] / times["numpy"]
        yield [name, times[name], times["numpy"], ratio, verdict(ratio, 0.5)]


@njit
def hat_areas(eta):
    """For parameters eta (n, 2): f at the highest mode, and the area of the hat over e^(f - f(mode))."""
    out = np.empty((eta.shape[0], 2))
    work = np.empty((7, 1))
    for i in range(eta.shape[0]):
        first, second = eta[i, 0], eta[i, 1]
        p, q, kappa2, _, _, _ = quadrant_frame(first.real, first.imag, second.real, second.imag)
        work[0, 0], work[1, 0], work[2, 0] = p, q, 4.0 * kappa2
        highest_modes(work, 1)
        m, cosine, sine = work[3, 0], work[4, 0], work[5, 0]
        _, left, right = envelope(m, 4.0 * kappa2, cosine, sine)
        out[i, 0] = p * cosine + q * sine + kappa2 * (cosine - sine) * (cosine + sine)
        out[i, 1] = left[4] + right[4]
    return out


def acceptance(eta):
    """Mass under the density over the area of the hat, of each distribution."""
    height, area = hat_areas(eta).T
    return np.exp(gvm_facts(eta).log_normalizer - height) / area


def acceptance_rows(rng, count=20_000):
    for family in FAMILIES:
        rate = acceptance(order_two(family, -4, 8, count, rng))
        yield [family, rate.min(), rate.mean(), verdict(rate.min(), 0.3, at_most=False)]


def peer_rows(rng):
    """Draws of one von Mises distribution elsewhere."""
    functions = {"mgvm": lambda: GvM([4.0]).sample(DISTS, rng=rng), "numpy": lambda: rng.vonmises(0.5, 4.0, DISTS)}
    if peer("pyrecest"):
        from pyrecest.distributions.circle.von_mises_distribution import VonMisesDistribution

        functions["PyRecEst"] = lambda: VonMisesDistribution(0.5, 4.0).sample(DISTS)
    if peer("pycircstat2"):
        from pycircstat2.distributions import vonmises

        functions["pycircstat2"] = lambda: vonmises.rvs(mu=0.5, kappa=4.0, size=DISTS, random_state=0)
    times = cpu_times(functions, repeats=5)
    for name in ("mgvm", "numpy", "PyRecEst", "pycircstat2"):
        yield (
            [name, times[name] / DISTS * 1e9, times[name] / times["mgvm"]]
            if name in times
            else [name, "not installed", ""]
        )


def main():
    rng = np.random.default_rng(0)
    header = ["family", "kernel, ns", "sample(), ns", "numpy vonmises, ns", "sample() / numpy", "target"]
    each = list(each_rows(rng))
    table("A parameter set for each draw, order 2", header, each)
    header = ["dist", "sample(1e6), ns a draw", "numpy vonmises, ns", "ratio", "target"]
    one = list(one_rows(rng))
    table("One distribution, a million draws", header, one)
    accepted = list(acceptance_rows(rng))
    about = "Acceptance, K from 1e-4 to 1e8, 20,000 distributions a family"
    table(about, ["family", "min", "mean", "target"], accepted)
    peers = list(peer_rows(rng))
    table("Von Mises, kappa 4, 100,000 draws of one distribution", ["who", "ns a draw", "over ours"], peers)
    ratios = [row[4] for row in each], [row[3] for row in one]
    keep(
        "sampling",
        "benchmarks/bench_sampling.py",
        each=(
            ["a distribution each", "ns a draw", "over `Generator.vonmises`"],
            [[row[0], row[2], row[4]] for row in each],
        ),
        one=(
            ["a million draws of one", "ns a draw", "over `Generator.vonmises`"],
            [[row[0], row[1], row[3]] for row in one],
        ),
        acceptance=(["acceptance, K from 1e−4 to 1e8", "least", "mean"], [row[:3] for row in accepted]),
        **{
            key: f"{min(values):.2g} to {max(values):.2g}"
            for key, values in zip(("ratio_each", "ratio_one"), ratios, strict=True)
        },
    )


if __name__ == "__main__":
    main()
