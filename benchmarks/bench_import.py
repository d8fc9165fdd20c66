"""Claim: `import mgvm` takes at most 1.5 times `import numpy, scipy.special`; the first calls in a new environment,
where everything has yet to be compiled, take at most 10 s in all, and at most 1 s in a later process.

Every measurement is a fresh process; the smallest of several.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from timing import keep, table, verdict

IMPORT = """
import time
wall, cpu = time.perf_counter(), time.process_time()
import {modules}
print(time.process_time() - cpu, time.perf_counter() - wall)
"""
CALLS = """
import json, time
seconds = {}
def timed(name, call):
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    seconds[name] = time.process_time() - cpu, time.perf_counter() - wall
    return result
mgvm = timed("import mgvm, numpy", lambda: (__import__("numpy"), __import__("mgvm")))[1]
import numpy as np
dist = timed("GvM: log normaliser and moments", lambda: mgvm.GvM([2.0 + 1.0j, 1.0j]))
timed("GvM.logpdf", lambda: dist.logpdf(np.linspace(-3.0, 3.0, 100)))
timed("GvM.sample, one draw a distribution", lambda: dist.sample(rng=0))
data = timed("GvM.sample, 1,000 draws", lambda: dist.sample(1000, rng=0))
timed("GvM.fit", lambda: mgvm.GvM.fit(data))
print(json.dumps(seconds))
"""


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout


def import_rows(repeats=7):
    names = ("numpy, scipy.special", "mgvm", "mgvm, mgvm.circle", "scipy.stats")
    best = {}
    for _ in range(repeats):
        for name in names:
            seconds = map(float, python(IMPORT.format(modules=name)).split())
            best[name] = [min(pair) for pair in zip(seconds, best.get(name, (1e9, 1e9)), strict=True)]
    for name in names:
        cpu, wall = best[name]
        ratio = cpu / best[names[0]][0]
        yield [f"import {name}", cpu * 1e3, wall * 1e3, ratio, verdict(ratio, 1.5) if name == "mgvm" else ""]


def call_rows(repeats=2):
    """CPU and wall seconds of each call, in a process without compiled code and in the next one."""
    runs = [[], []]
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for times in runs:
                seconds = json.loads(python(CALLS, NUMBA_CACHE_DIR=folder))
                seconds["all"] = [sum(column) for column in zip(*seconds.values(), strict=True)]
                times.append(seconds)
    first, later = ({name: [min(run[name][i] for run in times) for i in (0, 1)] for name in times[0]} for times in runs)
    for name in first:
        target = f"{verdict(first[name][0], 10)}; {verdict(later[name][0], 1)}" if name == "all" else ""
        yield [name, *first[name], *later[name], target]


def main():
    script = "benchmarks/bench_import.py"
    found = list(import_rows())
    table("Import", ["statement", "CPU, ms", "wall, ms", "CPU ratio", "target"], found)
    seconds = {row[0]: f"{row[1]:.0f} ms" for row in found}
    keep(
        "import",
        script,
        imports=(["statement", "CPU, ms", "wall, ms"], [row[:3] for row in found]),
        mgvm=seconds["import mgvm"],
    )
    header = ["call", *(f"{process}, {clock} s" for process in ("new", "later") for clock in ("CPU", "wall"))]
    found = list(call_rows())
    about = "First calls, each after the ones above it, in a new environment and in a later process"
    table(about, [*header, "target (CPU)"], found)
    keep("import", script, calls=(header, [row[:5] for row in found]))


if __name__ == "__main__":
    main()
