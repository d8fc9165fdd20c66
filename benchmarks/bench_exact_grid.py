"""Claim: exact log Z of two or three angles costs milliseconds at any concentration, where product rules cost seconds
or do not fit in memory, and at most 10 µs a distribution in batches of two angles with K = 10.
"""

from __future__ import annotations

import numpy as np
from scipy import integrate
from timing import cpu_times, table, verdict

from mgvm.inference._exact_grid import exact_grid, grid_log_normalizers
from mgvm.natural.parameters import Natural

CONCENTRATIONS = [1.0, 100.0, 1e4, 1e6]
BATCHES = [(2, 1.0, 4000), (2, 10.0, 4000), (2, 1e4, 1000), (3, 1.0, 200), (3, 100.0, 50)]
MOST_NODES = 5_000_000  # of the product rule


def distribution_of(dimension, concentration, seed=0):
    """A random distribution of order two whose angles have about the given K_d = |a| + 4|b| + Σ|P| + |Q|."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    a, b = draw(dimension), 0.25 * draw(1, dimension)
    P, Q = np.triu(draw(dimension, dimension), 1), np.triu(draw(dimension, dimension), 1)
    scale = concentration / (2.5 * dimension)
    return Natural(scale * a, scale * b, scale * (P + P.conj().T), scale * (Q + Q.T))


def product_rule(dist, nodes):
    """log Z by the trapezoid rule in all angles."""
    phi = -np.pi + 2 * np.pi * np.arange(nodes) / nodes
    z = [np.exp(1j * axis) for axis in np.meshgrid(*[phi] * dist.dimension, indexing="ij", sparse=True)]
    value = 0.0
    for d in range(dist.dimension):
        value = value + np.real(np.conj(dist.a[d]) * z[d] + np.conj(dist.b[0, d]) * z[d] ** 2)
        for j in range(d):
            value = value + np.real((dist.P[d, j] * np.conj(z[d]) + np.conj(dist.Q[d, j]) * z[d]) * z[j])
    top = value.max()
    return top + np.log(np.exp(value - top).sum()) + dist.dimension * np.log(2 * np.pi / nodes)


def adaptive(dist):
    """log Z by SciPy's adaptive quadrature over the whole torus, to eight digits."""
    top = exact_grid(dist).log_normalizer

    def density(*phi):
        z = np.exp(1j * np.array(phi))
        pairs = 0.5 * (np.conj(z) @ dist.P @ z + z @ np.conj(dist.Q) @ z)
        return np.exp(np.real(np.conj(dist.a) @ z + np.conj(dist.b[0]) @ z**2 + pairs) - top)

    options = {"epsabs": 1e-9, "epsrel": 1e-8}
    return np.log(integrate.nquad(density, [(-np.pi, np.pi)] * dist.dimension, opts=options)[0]) + top


def single_distributions():
    """Milliseconds a distribution."""
    rows = []
    for dimension in (2, 3):
        for concentration in CONCENTRATIONS:
            dist = distribution_of(dimension, concentration)
            found = exact_grid(dist)
            # A result keeps what it has computed: each of these begins with a new one.
            functions = {
                "log Z": lambda dist=dist: exact_grid(dist),
                "moments": lambda dist=dist: exact_grid(dist).moments,
                "marginals": lambda dist=dist: exact_grid(dist).marginals,
                "draws": lambda dist=dist: exact_grid(dist).sample(1000, rng=0),
            }
            nodes = int(17 + 8.6 * np.sqrt(concentration))
            if nodes**dimension <= MOST_NODES:
                functions["product"] = lambda dist=dist, nodes=nodes: product_rule(dist, nodes)
            times = {name: 1e3 * seconds for name, seconds in cpu_times(functions, repeats=3).items()}
            error = abs(found.log_normalizer - product_rule(dist, nodes)) if "product" in times else "-"
            rows.append(
                [f"D = {dimension}, K = {concentration:g}"]
                + [times.get(name, "-") for name in ("log Z", "moments", "marginals", "draws", "product")]
                + [error]
            )
    header = ["dist, ms", "log Z", "+ moments", "+ marginals", "+ 1,000 draws", "product rule", "error"]
    table("One distribution, milliseconds (error: log Z against the product rule)", header, rows, "exact_grid/single")


def batches():
    """Microseconds a distribution in a batch of distributions that differ in a."""
    rows = []
    for dimension, concentration, count in BATCHES:
        dist = distribution_of(dimension, concentration)
        shifts = np.random.default_rng(1).normal(size=(count, dimension))
        batch = dist._replace(a=dist.a * (1.0 + 0.1 * shifts))
        seconds = cpu_times({"batch": lambda batch=batch: grid_log_normalizers(batch)}, repeats=5)["batch"] / count
        goal = verdict(1e6 * seconds, 10.0) if (dimension, concentration) == (2, 10.0) else "-"
        rows.append([f"D = {dimension}, K = {concentration:g}", count, 1e6 * seconds, goal])
    table(
        "Batches of log Z, microseconds a distribution", ["dist", "dists", "time", "goal"], rows, "exact_grid/batches"
    )


if __name__ == "__main__":
    single_distributions()
    batches()
