"""Claim: single calls that a person waits for answer at once.

CPU seconds, at most: 0.06 for a 90 % highest-density region of a projected normal with two modes, 0.5 for a GvM of
order six from half a million weighted angles, 5 for the CRPS of 200,000 draws at 50,000 observations (1e10 distances
if taken in pairs).
"""

from __future__ import annotations

import numpy as np
from timing import cpu_times, table, verdict

from mgvm import GvM, ProjectedNormal, scores
from mgvm.datasets import load_flights


def main():
    two_modes = ProjectedNormal([0.1, 0.0], np.diag([0.01, 1.0]))
    flights = load_flights()
    angles, counts = flights.by_minute(~flights.weekend)
    draws = np.random.default_rng(1).uniform(-np.pi, np.pi, 200_000)
    calls = {
        "interval(0.9), two modes": (lambda: two_modes.interval(0.9), 0.06),
        f"GvM.fit, order 6, weights of {25 * counts.sum():,.0f}": (
            lambda: GvM.fit(angles, weights=25 * counts, order=6),
            0.5,
        ),
        "crps, 200,000 draws, 50,000 observations": (lambda: scores.crps(draws, draws[:50_000]), 5.0),
    }
    seconds = cpu_times({name: call for name, (call, _) in calls.items()}, repeats=5)
    rows = [[name, seconds[name], verdict(seconds[name], limit)] for name, (_, limit) in calls.items()]
    table("Single calls, CPU seconds", ["call", "s", "claim"], rows)


if __name__ == "__main__":
    main()
