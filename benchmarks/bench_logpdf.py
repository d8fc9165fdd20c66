"""Claim: `logpdf` runs at the speed of a cosine or two an angle.

A million angles of one distribution, and a distribution for each of a million angles, over as many calls of
`numpy.cos`.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.stats
from timing import cpu_times, keep, peer, table

from mgvm import GvM, VonMises

SIZE = 1_000_000


def dists(rng):
    """Rows of (name, function): all evaluate SIZE log densities."""
    kappa, mu = 10 ** rng.uniform(-1, 2, SIZE), rng.uniform(0, 2 * np.pi, SIZE)
    second = 10 ** rng.uniform(-1, 2, SIZE)
    x = rng.uniform(-np.pi, np.pi, SIZE)
    one, two = VonMises(0.5, 2.0), GvM.from_polar([2.0, 1.0], [0.5, 1.0])
    four = GvM.from_polar([3.0, 2.0, 1.0, 0.5], [0.1, 0.2, 0.3, 0.4])
    many_one, many_two = VonMises(mu, kappa), GvM.from_polar(np.stack([kappa, second], -1), np.stack([mu, x], -1))
    functions = {
        "numpy.cos": lambda: np.cos(x),
        "mgvm, one von Mises": lambda: one.logpdf(x),
        "mgvm, one GvM of order 2": lambda: two.logpdf(x),
        "mgvm, one GvM of order 4": lambda: four.logpdf(x),
        "mgvm, 1e6 von Mises, one angle each": lambda: many_one.logpdf(x),
        "mgvm, 1e6 GvM of order 2, one angle each": lambda: many_two.logpdf(x),
        "scipy.stats.vonmises, one distribution": lambda: scipy.stats.vonmises.logpdf(x, 2.0, loc=0.5),
        "scipy.stats.vonmises, 1e6 distributions": lambda: scipy.stats.vonmises.logpdf(x, kappa, loc=mu),
    }
    if peer("pyrecest"):
        from pyrecest.distributions.circle.generalized_von_mises_distribution import GvMDistribution
        from pyrecest.distributions.circle.von_mises_distribution import VonMisesDistribution

        generalized, plain = GvMDistribution(np.array([0.5, 1.0]), np.array([2.0, 1.0])), VonMisesDistribution(0.5, 2.0)
        functions["PyRecEst, one von Mises"] = lambda: plain.ln_pdf(x)
        functions["PyRecEst, one GvM of order 2"] = lambda: generalized.ln_pdf(x)
    if peer("pycircstat2"):
        from pycircstat2.distributions import vonmises

        positive = np.mod(x, 2 * np.pi)
        functions["pycircstat2, one von Mises"] = lambda: vonmises.logpdf(positive, mu=0.5, kappa=2.0)
        functions["pycircstat2, 1e6 von Mises, one angle each"] = lambda: vonmises.logpdf(positive, mu=mu, kappa=kappa)
    return functions


def main():
    warnings.simplefilter("ignore")
    times = cpu_times(dists(np.random.default_rng(0)), repeats=9)
    unit = times["numpy.cos"]
    rows = [[name, seconds / SIZE * 1e9, seconds / unit] for name, seconds in times.items()]
    rows += [
        [name, "not installed", ""]
        for name, module in (("PyRecEst", "pyrecest"), ("pycircstat2", "pycircstat2"))
        if not peer(module)
    ]
    header = ["a million log densities", "ns each", "over `numpy.cos`"]
    table("Log density", header, rows)
    keep("logpdf", "benchmarks/bench_logpdf.py", logpdf=(header, rows))


if __name__ == "__main__":
    main()
