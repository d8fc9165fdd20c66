"""How often a sampler is wrong without a word, on chains of six angles whose strong couplings contradict strong fields.

`exact_chain` knows the truth. Wrong: a first moment off by more than 0.1 (gibbs), log Z by more than five standard
errors (annealing).
"""

from __future__ import annotations

import warnings

import numpy as np
from timing import table

from mgvm import MGvM
from mgvm.inference import annealed_log_normalizer, exact_chain, gibbs


def contradictory(seed, size=6, strength=16.0):
    """Fields and couplings of neighbours with random phases."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    a, P, Q = strength * draw(size), draw(size, size), draw(size, size)
    near = strength * (np.abs(np.subtract.outer(range(size), range(size))) == 1)
    return MGvM(a, P=near * (P + P.conj().T), Q=near * (Q + Q.T))


def main(count=100):
    found = {"gibbs, 8 chains of 300": np.zeros(3, dtype=int), "annealing": np.zeros(3, dtype=int)}
    for seed in range(100, 100 + count):
        dist = contradictory(seed)
        truth = exact_chain(dist)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn, annealed = gibbs(dist, 300, 8, rng=0), annealed_log_normalizer(dist, rng=0)
        error = annealed.log_normalizer.standard_error
        wrong = {
            "gibbs, 8 chains of 300": np.abs(drawn.moment(1) - truth.marginals.moment(1)).max() > 0.1,
            "annealing": abs(annealed.log_normalizer - truth.log_normalizer) > 5.0 * max(error, 0.02),
        }
        for name, result in zip(found, (drawn, annealed), strict=True):
            silent = result.converged
            found[name] += [wrong[name] and silent, wrong[name] and not silent, not wrong[name] and not silent]
    rows = [[name, *(str(number) for number in numbers)] for name, numbers in found.items()]
    table(
        f"Of {count} distributions", ["engine", "wrong, silent", "wrong, warned", "right, warned"], rows, "modes/silent"
    )


if __name__ == "__main__":
    main()
