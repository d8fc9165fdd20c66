"""Does a fitted law live where its data do? Draws of it against the data, statistic by statistic.

Score matching and pseudo-likelihood look at a law around the data only. Above a concentration of about 20 nothing there
tells whether a second mode far away carries more mass; it shows in draws from random starts. The statistics are z_d,
z_i conj(z_j) and z_i z_j, each with the mean m and the standard deviation s = √(1 - |m|²) of the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural, concentrations
from mgvm.inference.gibbs_sampling import gibbs
from mgvm.inference.quadrature import exact_grid
from mgvm.learning._rows import Rows

CONCENTRATED = 20.0  # concentration of an angle from which remote modes are looked for
LARGEST = 300  # angles up to which looking takes seconds
_CHAINS, _DRAWS, _EXACT = 16, 60, 960
_BEYOND, _FARTHEST = 5.0, 1.5  # remote: as many s from m, and as many times the farthest row
_SHARE = 0.03  # of remote draws that is too much
_GAP, _ROWS_GAP, _CHANCE = 0.5, 4.0, 5.0  # allowed |mean - m|/s: fixed, in 1/√N, and in Monte Carlo errors


class Discrepancy(NamedTuple):
    """How draws of a law differ from data."""

    remote: float  # share of draws that are remote
    gap: float  # largest |mean - m|/s beyond what chance allows, 0 for none
    statistic: str  # whose gap it is
    found: complex
    wanted: complex

    @property
    def serious(self) -> bool:
        """Whether the law should not be used."""
        return self.remote > _SHARE or self.gap > 0.0

    def __str__(self) -> str:
        return (
            f"{self.remote:.0%} of its draws lie far from all rows, and it has E[{self.statistic}] = {self.found:.2f} "
            f"where the data have {self.wanted:.2f}"
        )


def needs_look(law: Natural) -> bool:
    """Whether the law is concentrated enough for remote modes to hide, and small enough to look."""
    return law.dimension <= LARGEST and bool(concentrations(law).max() > CONCENTRATED)


def discrepancy(law: Natural, sample: Rows, rng: np.random.Generator) -> Discrepancy:
    """Compare draws of a law from random starts with rows without missing angles."""
    draws = _draws(law, rng)
    z, share = np.exp(1j * draws), sample.weights / sample.weights.sum()
    data = np.exp(1j * sample.x)
    far = np.zeros(draws.shape[:2], dtype=bool)
    worst, worst_size = Discrepancy(0.0, 0.0, "z_0", 0j, 0j), -np.inf
    for name, seen, drawn in _statistics(data, z):
        m = share @ seen
        s = np.sqrt(np.maximum(1.0 - abs(m) ** 2, 1e-12))
        limit = np.maximum(_BEYOND * s, _FARTHEST * abs(seen - m).max(axis=0))
        far |= (abs(drawn - m) > limit).any(axis=-1)
        means = drawn.mean(axis=1)
        found = means.mean(axis=0)
        noise = np.sqrt((abs(means - found) ** 2).sum(axis=0) / (len(means) * max(len(means) - 1, 1)))
        allowed = _GAP + _ROWS_GAP / np.sqrt(sample.effective_count) + _CHANCE * noise / s
        excess = abs(found - m) / s - allowed
        k = int(np.argmax(excess))
        if excess[k] > worst_size:
            size = float(abs(found[k] - m[k]) / s[k])
            worst_size = float(excess[k])
            worst = Discrepancy(0.0, size if worst_size > 0 else 0.0, name.format(k), complex(found[k]), complex(m[k]))
    return worst._replace(remote=float(far.mean()))


def _draws(law: Natural, rng: np.random.Generator) -> FloatArray:
    """Draws (chains, draws, D): exact and independent for up to three angles, else of chains from random starts."""
    if law.dimension <= 3:
        try:
            return exact_grid(law).sample(_EXACT, rng=rng).reshape(_CHAINS, -1, law.dimension)
        except (ValueError, MemoryError):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gibbs(law, _DRAWS, _CHAINS, rng, burn_in=100).samples


def _statistics(data: ComplexArray, draws: ComplexArray) -> Iterator[tuple[str, ComplexArray, ComplexArray]]:
    """Groups of statistics of both: the angles, z_d z_j and z_d conj(z_j); names lack the number j."""
    yield "z_{}", data, draws
    for d in range(data.shape[1]):
        mine, yours = data[:, [d]], draws[..., [d]]
        yield f"z_{d} z_{{}}", mine * data, yours * draws
        if d > 0:
            yield f"z_{d} conj(z_{{}})", mine * data[:, :d].conj(), yours * draws[..., :d].conj()
