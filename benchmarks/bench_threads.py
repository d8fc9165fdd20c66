"""Claim: a default fit takes as much CPU time with the threads of the linear algebra left as they come as with
OMP_NUM_THREADS=1, up to a fifth, on an idle machine and beside another busy process.

Fits limit these threads themselves (`mgvm._threads`). Each row is fitted in processes of its own: with the limit,
without it, and with OMP_NUM_THREADS=1, each beside nothing and beside a process that keeps one CPU busy. Name rows on
the command line to run some of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

from timing import keep_core_busy, table, verdict

from mgvm._threads import VARIABLES

ROWS = {
    "regression": """
        from mgvm.datasets import load_wind_europe
        wind, some = load_wind_europe(), np.random.default_rng(0).choice(4800, 260, replace=False)
        fit = lambda: mgvm.CircularGPRegressor().fit(wind.positions[some], wind.angles[some])""",
    "projected": """
        from mgvm.datasets import load_wind_europe
        from mgvm.regression.baselines import ProjectedGPRegressor
        wind, some = load_wind_europe(), np.random.default_rng(0).choice(4800, 260, replace=False)
        fit = lambda: ProjectedGPRegressor().fit(wind.positions[some], wind.angles[some])""",
    "mixture": """
        from mgvm.datasets import load_wind_nyc
        angles = load_wind_nyc().angles[::6]
        fit = lambda: mgvm.TorusMixture(6, random_state=0).fit(angles)""",
    "pca": """
        rng = np.random.default_rng(0)
        phi = rng.uniform(-np.pi, np.pi, (300, 2))
        waves = np.concatenate([np.cos(phi), np.sin(phi)], axis=1)
        Y = waves @ rng.normal(size=(4, 20)) + rng.normal(0.0, 0.1, (300, 20))
        fit = lambda: mgvm.CircularPCA(2, random_state=0).fit(Y)""",
    "torus": """
        from mgvm.datasets import load_wind_nyc
        angles = load_wind_nyc().angles
        fit = lambda: mgvm.MGvM.fit(angles)""",
    "propagation": """
        from mgvm.inference import expectation_propagation
        rng = np.random.default_rng(0)
        G = rng.normal(0.0, 0.05, (120, 120))
        dist = mgvm.MGvM.from_sine(rng.uniform(-3.0, 3.0, 120), np.full(120, 2.0), np.triu(G, 1) + np.triu(G, 1).T)
        fit = lambda: expectation_propagation(dist)""",
}
FIT = """
import textwrap, time, warnings
import numpy as np
import mgvm, mgvm._threads
warnings.simplefilter("ignore")
if {unlimited}:
    mgvm._threads.has_chosen_threads = lambda: True
exec(textwrap.dedent('''{setting}'''))
fit()
times = []
for _ in range(2):
    begin = time.process_time()
    fit()
    times.append(time.process_time() - begin)
print(min(times))
"""


def cpu_seconds(row, *, unlimited=False, busy=False, **environment):
    """The smaller of two fits after a first one."""
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    with keep_core_busy(busy):
        done = subprocess.run(
            [sys.executable, "-c", FIT.format(unlimited=unlimited, setting=ROWS[row])],
            capture_output=True,
            text=True,
            check=True,
            env={**clean, **environment},
        )
    return float(done.stdout)


def main():
    rows = []
    for row in sys.argv[1:] or ROWS:
        for busy in (False, True):
            one = cpu_seconds(row, busy=busy, OMP_NUM_THREADS="1")
            ours = cpu_seconds(row, busy=busy)
            without = cpu_seconds(row, busy=busy, unlimited=True)
            rows.append([row, "busy" if busy else "idle", one, ours, without, verdict(ours / one, 1.2)])
    header = ["fit", "the other CPU", "one thread asked for", "ours", "without our limit", "target: ours / one"]
    table("CPU seconds of a fit, by the threads of the linear algebra", header, rows, "threads/fit")


if __name__ == "__main__":
    main()
