"""Claim: log Z and four moments of a GvM of order 2 cost a few tens of exponentials.

Per parameter set, over one `numpy.exp` per element, batches of 4,096: at most 20 for K < 100, 60 up to K = 1e8, 120
where modes are equal, flat or being born; and at least 1,000 times faster than sums over a grid of 5,000 points, as in
the code released with the paper. K = Σ t²κ_t is the total concentration.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.special
from timing import cpu_times, keep, peer, table, tell, verdict
from truth import order_two, span

from mgvm import GvM
from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.gvm.order_two import order_two_moments

SIZE = 4096
GRID = 5000
DEGENERATE = ("two equal modes", "flat mode", "cusp", "fold")


def below_hundred(rng):
    """Generic parameters with K uniform in (0, 100)."""
    eta = order_two("generic", 0, 0, SIZE, rng)
    return eta * rng.uniform(0, 100, (SIZE, 1))


def regimes(rng):
    """Rows of (name, natural parameters, target)."""
    yield "K < 100, log-uniform from 0.01", order_two("generic", -2, 2, SIZE, rng), 20
    yield "K < 100, uniform", below_hundred(rng), 20
    for low, high, target in ((-2, 0, 20), (0, 1, 20), (1, 2, 20), (2, 2.6, 60), (2.6, 4, 60), (4, 8, 60)):
        yield f"K {span(low, high)}", order_two("generic", low, high, SIZE, rng), target
    for family in DEGENERATE:
        yield f"{family}, K {span(2.6, 8)}", order_two(family, 2.6, 8, SIZE, rng), 120


def grid_facts(eta, angles):
    """log Z and moments 1..4 of one distribution from a uniform grid, all cosines evaluated anew."""
    height = sum(abs(value) * np.cos(t * angles - np.angle(value)) for t, value in enumerate(eta, 1))
    top = height.max()
    weight = np.exp(height - top)
    z = weight.sum()
    moments = [(weight @ np.cos(k * angles) + 1j * (weight @ np.sin(k * angles))) / z for k in range(1, 5)]
    return top + np.log(z * 2 * np.pi / angles.size), moments


def grid_facts_from_table(eta, waves):
    """The same with the cosines tabulated once, waves (8, GRID): the best a grid can do."""
    height = np.array([eta[0].real, eta[0].imag, eta[1].real, eta[1].imag]) @ waves[:4]
    top = height.max()
    weight = np.exp(height - top)
    z = weight.sum()
    return top + np.log(z * 2 * np.pi / waves.shape[1]), waves @ weight / z


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=SIZE)
    angles = np.linspace(-np.pi, np.pi, GRID, endpoint=False)
    waves = np.stack([wave(k * angles) for k in range(1, 5) for wave in (np.cos, np.sin)])
    one = order_two("generic", 0, 2, 1, rng)[0]
    cases = list(regimes(rng))
    functions = {
        "exp": lambda: np.exp(x),
        "grid": lambda: grid_facts(one, angles),
        "table": lambda: grid_facts_from_table(one, waves),
    }
    for name, eta, _ in cases:
        functions[name, "kernel"] = lambda eta=eta: order_two_moments(eta)
        functions[name, "facts"] = lambda eta=eta: gvm_facts(eta)
        functions[name, "dist"] = lambda eta=eta: GvM(eta)
    times = cpu_times(functions)
    unit = times["exp"] / SIZE
    rows = []
    for name, _, target in cases:
        kernel, facts, dist = (times[name, what] / SIZE for what in ("kernel", "facts", "dist"))
        row = [name, kernel * 1e9, kernel / unit, verdict(kernel / unit, target), facts / unit, dist / unit]
        grid = times["grid"] / kernel
        rows.append([*row, grid, verdict(grid, 1000, at_most=False), times["table"] / kernel])
    header = ["regime", "kernel, ns", "kernel / exp", "target", "gvm_facts / exp", "GvM(eta) / exp"]
    header += ["grid / kernel", "target", "tabulated grid / kernel"]
    table("log Z and moments 1..4, order 2, a parameter set", header, rows)
    words = {
        "exponential": f"{unit * 1e9:.1f} ns",
        "grid": f"{times['grid'] * 1e6:.0f} µs",
        "tabulated": f"{times['table'] * 1e6:.0f} µs",
        "whole": f"{min(row[5] for row in rows):.0f} to {max(row[5] for row in rows):.0f}",
    }
    print(words)
    header = ["distributions", "ns", "over one `numpy.exp`", "grid / ours", "tabulated grid / ours"]
    moments = header, [[row[0], row[1], row[2], row[6], row[8]] for row in rows]
    keep("gvm_moments", "benchmarks/bench_gvm_moments.py", moments=moments, **words)
    peers(rng, times["grid"])


def peers(rng, grid):
    """Order 1, where the others have something to compare; and PyRecEst's normaliser of order 2."""
    kappa = 10 ** rng.uniform(-2, 2, SIZE)
    eta = np.stack([kappa * np.exp(1j * rng.uniform(-np.pi, np.pi, SIZE)), np.zeros(SIZE)], axis=1)
    functions = {
        "mgvm: log Z and four moments": lambda: order_two_moments(eta),
        "scipy.special: i0e, i1e and iv(2..4)e": lambda: (
            [scipy.special.i0e(kappa), scipy.special.i1e(kappa)] + [scipy.special.ive(k, kappa) for k in (2, 3, 4)]
        ),
        "scipy.special: i0e alone": lambda: scipy.special.i0e(kappa),
    }
    counts = dict.fromkeys(functions, SIZE)
    missing = []
    if peer("pyrecest"):
        from pyrecest.distributions.circle.generalized_von_mises_distribution import GvMDistribution
        from pyrecest.distributions.circle.von_mises_distribution import VonMisesDistribution

        dist = np.array([0.5, 1.0]), np.array([2.0, 1.0])
        functions["PyRecEst: order 1, norm_const and moments 1, 2"] = lambda: (
            (d := VonMisesDistribution(0.5, 2.0)).norm_const,
            d.trigonometric_moment(1),
            d.trigonometric_moment(2),
        )
        functions["PyRecEst: order 2, norm_const alone"] = lambda: GvMDistribution(*dist).norm_const
        functions["PyRecEst: order 2, moments 1..4"] = lambda: [
            GvMDistribution(*dist).trigonometric_moment(k) for k in range(1, 5)
        ]
    else:
        missing.append("PyRecEst")
    if peer("pycircstat2"):
        from pycircstat2.distributions import vonmises

        functions["pycircstat2: order 1, moments 1..4"] = lambda: [
            vonmises.trig_moment(k, mu=0.5, kappa=2.0) for k in range(1, 5)
        ]
    else:
        missing.append("pycircstat2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = {name: seconds / counts.get(name, 1) for name, seconds in cpu_times(functions, repeats=7).items()}
    ours = next(iter(times.values()))
    rows = [[name, tell(seconds), seconds / ours] for name, seconds in times.items()]
    rows.append([f"order 2, a grid of {GRID:,} points in NumPy", tell(grid), grid / ours])
    header = ["what, a parameter set at K < 100", "CPU time", "over ours"]
    table("Peers", header, rows)
    keep("gvm_moments", "benchmarks/bench_gvm_moments.py", peers=(header, rows))
    for name in missing:
        print(f"{name}: not installed")


if __name__ == "__main__":
    main()
