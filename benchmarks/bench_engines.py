"""How far every engine is from the truth on chains of 200 angles, where exact_chain knows it.

Circular regression on a line with an exponential kernel: x(t) an Ornstein-Uhlenbeck process in the plane restricted to
the circle, von Mises observations of some angles. Total variation of the marginals (mean and worst angle), error of
log Z, mean circular variance of the marginals, seconds.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy import sparse
from timing import table

from mgvm import MGvM
from mgvm.inference import annealed_log_normalizer, exact_chain, expectation_propagation, gibbs, mean_field

SIZE = 200
NODES = -np.pi + 2.0 * np.pi * np.arange(720) / 720

# length scale of the kernel, its variance, concentration of an observation, share of angles observed
CASES = {
    "rich data": (2.0, 0.5, 5.0, 1.0),
    "wide prior": (2.0, 3.0, 1.0, 1.0),
    "half observed": (2.0, 0.5, 1.0, 0.5),
    "smooth": (10.0, 0.5, 5.0, 1.0),
    "weak data, stiff prior": (10.0, 0.5, 1.0, 1.0),
}


def chain(length, variance, concentration, share, seed=0):
    """The posterior mGvM; the inverse of an exponential kernel on equidistant inputs is tridiagonal."""
    rng = np.random.default_rng(seed)
    decay = np.exp(-1.0 / length)
    scale = 1.0 / (variance * (1.0 - decay**2))
    W = sparse.diags_array([np.full(SIZE - 1, -scale * decay)] * 2, offsets=[-1, 1])
    path = np.cumsum(rng.normal(size=SIZE) / np.sqrt(length)) + 0.5 * rng.normal(size=SIZE)
    a = np.where(rng.random(SIZE) < share, concentration, 0.0) * np.exp(1j * path)
    return MGvM(a, P=sparse.csr_array(-W, dtype=complex))


ENGINES = {
    "exact_chain": exact_chain,
    "expectation_propagation": expectation_propagation,
    "mean_field": mean_field,
    "mean_field, von Mises": lambda dist: mean_field(dist, factors="von_mises"),
    "gibbs, 16 x 2,000": lambda dist: gibbs(dist, 2000, 16, rng=0),
    "annealing": lambda dist: annealed_log_normalizer(dist, rng=0),
}


def total_variation(dist, exact):
    """½ ∫ |p - q| of every angle."""
    gap = np.abs(dist[:, None].pdf(NODES) - exact[:, None].pdf(NODES))
    return 0.5 * gap.sum(axis=1) * (2.0 * np.pi / NODES.size)


def main():
    for function in ENGINES.values():
        function(chain(2.0, 0.5, 5.0, 1.0, seed=9))  # compiles
    spreads = {}
    for name, case in CASES.items():
        dist = chain(*case)
        truth = exact_chain(dist)
        rows = []
        for engine, function in ENGINES.items():
            begin = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = function(dist)
            spent = time.process_time() - begin
            gap = total_variation(result.marginals, truth.marginals)
            log_z = result.log_normalizer
            error = "none" if log_z is None else f"{log_z - truth.log_normalizer:+.2g}"
            if log_z is not None and log_z.standard_error > 0:
                error += f" ± {log_z.standard_error:.2g}"
            spread = float(result.marginals.circular_variance().mean())
            rows.append([engine, gap.mean(), gap.max(), error, spread, spent, "yes" if caught else ""])
            if engine == "mean_field":
                response = result.linear_response(full=False)
                rows.append(["  with linear response", "", "", "", float(response.circular_variance.mean()), "", ""])
        print_case(name, case, rows)
        spreads[name] = {row[0].strip(): row[4] for row in rows}
    shown = ("half observed", "weak data, stiff prior")
    header = ["engine: mean circular variance 1 − R", *shown]
    names = [name for name in spreads[shown[0]] if name not in ("mean_field, von Mises", "annealing")]
    rows = [[name, *(spreads[case][name] for case in shown)] for name in names]
    table("Spread of the marginals", header, rows, "engines/spread")


def print_case(name, case, rows):
    length, variance, concentration, share = case
    table(
        f"{name}: length {length:g}, variance {variance:g}, concentration {concentration:g}, {share:.0%} observed",
        ["engine", "TV mean", "TV worst", "log Z error", "1 - R", "seconds", "warned"],
        rows,
        f"engines/{name.replace(', ', '_').replace(' ', '_')}",
    )


if __name__ == "__main__":
    main()
